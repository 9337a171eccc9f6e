"""The pass and its delays: settling, suspicious disappearances, removals from afar, open files."""

from __future__ import annotations

import pytest

from bridge.core.model import Presence
from tests.app.bodies import joined

MEMORY = "memories/MEMORY.md"
GUARD = 60.0


def test_a_file_is_recorded_when_it_was_quiet_for_settle() -> None:
    """GUARD-1: not before."""
    world, (one,) = joined("laptop")
    one.write("notes/a.md", "a\n")
    outcome = one.run()
    assert outcome.pending == ("notes/a.md",) and not outcome.recorded
    assert outcome.deadline == pytest.approx(world.clock.boottime() + 0.5, abs=0.01)
    world.clock.advance(0.3)
    one.write("notes/a.md", "ab\n")
    world.clock.advance(0.3)
    assert not one.run().recorded
    world.clock.advance(0.3)
    assert "notes/a.md" in one.run().recorded


def test_unbroken_activity_is_recorded_after_five_seconds() -> None:
    """GUARD-1: settle is waived then."""
    world, (one,) = joined("laptop")
    for number in range(20):
        one.write("notes/a.md", f"{number}\n")
        outcome = one.run()
        if outcome.recorded:
            break
        world.clock.advance(0.4)
    assert "notes/a.md" in outcome.recorded and 12 <= number <= 14


def test_a_sync_waits_for_no_settling() -> None:
    """GUARD-1: waived."""
    _, (one,) = joined("laptop")
    one.write("notes/a.md", "a\n")
    assert "notes/a.md" in one.run(waive=True).recorded


def test_a_file_that_somebody_writes_is_recorded_when_closed() -> None:
    """GUARD-1: half a file is no version; one that lost nothing and goes on for 5 s is."""
    world, (one,) = joined("laptop")
    one.write("notes/a.md", "a\n")
    one.settle()
    writer = one.tree.agent_open("notes/a.md")
    writer.truncate()
    writer.write(b"half")
    world.clock.advance(10)
    one.run()
    world.clock.advance(10)
    outcome = one.run()
    assert outcome.pending == ("notes/a.md",) and one.tracked()["notes/a.md"] == b"a\n"
    writer.write(b" and half")
    writer.close()
    one.settle()
    assert one.tracked()["notes/a.md"] == b"half and half"


def test_a_file_open_for_writing_that_only_grows_is_recorded_after_five_seconds() -> None:
    """GUARD-1."""
    world, (one,) = joined("laptop")
    one.write("notes/a.md", "a\n")
    one.settle()
    writer = one.tree.agent_open("notes/a.md")
    writer.write(b"b\n")
    world.clock.advance(2)
    assert not one.run().recorded
    world.clock.advance(6)
    assert "notes/a.md" in one.run().recorded
    writer.close()


def test_a_deletion_needs_two_looks() -> None:
    """GUARD-6: settle apart, also when nothing else waits."""
    world, (one,) = joined("laptop")
    one.write("notes/a.md", "a\n")
    one.settle()
    one.delete("notes/a.md")
    assert one.run(waive=True).pending == ("notes/a.md",)
    assert one.run(waive=True).pending == ("notes/a.md",)
    world.clock.advance(0.6)
    assert "notes/a.md" in one.run(waive=True).recorded
    assert "notes/a.md" not in world.published()


def test_a_move_is_recorded_and_published_as_one_change() -> None:
    """MERGE-7: the new name waits for the second look at the old one, or an edit of another body could not follow."""
    world, (one, two) = joined("laptop", "phone")
    one.write("notes/a.md", "a\n")
    world.settle()
    one.delete("notes/a.md")
    one.write("notes/b.md", "a\n")
    assert one.run(waive=True).pending == ("notes/a.md", "notes/b.md")
    two.write("notes/a.md", "a\nedited\n")
    two.settle()
    world.clock.advance(0.6)
    one.run(waive=True)
    world.settle()
    assert (one.text("notes/a.md"), one.text("notes/b.md")) == (None, "a\nedited\n")
    assert one.files() == two.files() == world.published()


def test_an_emptied_memory_waits_for_guard() -> None:
    """GUARD-2: seen happening, so `guard`; the beginning survives a restart."""
    world, (one,) = joined("laptop")
    one.write(MEMORY, "one\n§\ntwo\n")
    one.settle()
    one.write(MEMORY, "")
    one.run()
    world.clock.advance(1)
    outcome = one.run()
    assert outcome.held[MEMORY][0] == "GUARD-2" and outcome.pending == (MEMORY,)
    assert outcome.deadline == pytest.approx(world.clock.boottime() + GUARD, abs=1)
    began = [{"rule": "GUARD-2", "path": MEMORY, "until": pytest.approx(world.clock.now() + GUARD, abs=1)}]
    assert one.facts.named("guard.waiting") == began
    world.clock.advance(30)
    one.restart()
    assert one.settle(2).held[MEMORY][0] == "GUARD-2"
    world.clock.advance(30)
    assert not one.facts.named("guard.passed")
    assert MEMORY in one.run().recorded
    assert world.published()[MEMORY] == b""
    assert one.facts.named("guard.passed") == [{"rule": "GUARD-2", "path": MEMORY}]
    assert len(one.facts.named("guard.waiting")) == 1


def test_an_emptied_memory_that_comes_back_was_nothing() -> None:
    """GUARD-2: and the wait is forgotten."""
    world, (one,) = joined("laptop")
    one.write(MEMORY, "one\n§\ntwo\n")
    one.settle()
    one.write(MEMORY, "")
    one.settle(2)
    one.write(MEMORY, "one\n§\ntwo\n")
    outcome = one.settle(2)
    assert not outcome.pending and one.seen.recall("waits") is None


def test_a_disappearance_found_at_a_start_waits_sixty_times_as_long() -> None:
    """GUARD-2: nobody saw it happen."""
    world, (one,) = joined("laptop")
    for number in range(12):
        one.write(f"notes/{number}.md", "x\n")
    one.settle()
    one.restart()
    for number in range(12):
        one.delete(f"notes/{number}.md")
    one.settle(2)
    world.clock.advance(GUARD + 1)
    assert len(one.run().pending) == 12
    world.clock.advance(58 * GUARD)
    assert len(one.run().pending) == 12
    world.clock.advance(GUARD)
    assert len(set(one.run().recorded)) == 13
    assert "notes/1.md" not in world.published()


def test_many_files_gone_wait_and_come_back_unharmed() -> None:
    """GUARD-2: half of all and at least four; others go on meanwhile."""
    world, (one, two) = joined("laptop", "phone")
    files = {f"notes/{number}.md": b"x\n" for number in range(30)}
    for path, content in files.items():
        one.tree.agent_write(path, content)
    world.settle()
    before = one.files()
    for path in before:
        one.delete(path)
    one.write("notes/new.md", "new\n")
    world.clock.advance(1)
    one.run()
    world.clock.advance(1)
    outcome = one.run()
    assert set(files) <= set(outcome.pending)
    assert "notes/new.md" in world.published() and set(files) <= set(world.published())
    assert one.files().keys() >= {"SOUL.md", "README.md", "bodies/phone.json"}, "what must be there is put back at once"
    for path in before.keys() - one.files().keys():
        one.tree.agent_write(path, before[path])
    world.settle()
    assert set(files) <= set(world.published()) and one.files() == two.files()
    assert one.seen.recall("waits") is None


def test_sync_now_records_a_disappearance_at_once() -> None:
    """GUARD-2: a person said so."""
    world, (one,) = joined("laptop")
    for number in range(20):
        one.write(f"notes/{number}.md", "x\n")
    one.settle()
    for number in range(20):
        one.delete(f"notes/{number}.md")
    one.settle(1)
    assert "notes/1.md" in world.published()
    one.run(waive=True, now=True)
    assert "notes/1.md" not in world.published()


def test_fixed_and_required_files_are_put_back() -> None:
    """GUARD-2: never recorded as gone."""
    world, (one,) = joined("laptop")
    one.write(MEMORY, "one\n")
    one.settle()
    before = one.soul.head()
    for path in (MEMORY, "README.md", ".gitattributes", "agent.json", "SOUL.md"):
        one.delete(path)
    one.settle()
    assert one.files() == world.published() and one.text(MEMORY) == "one\n"
    assert one.soul.head() == before


@pytest.mark.parametrize("presence", [each for each in Presence if each is not Presence.PRESENT])
def test_without_the_checkout_nothing_is_recorded(presence: Presence) -> None:
    """GUARD-2: missing, empty, without .git or another one."""
    world, (one,) = joined("laptop")
    one.tree.state = presence
    for path in one.files():
        one.delete(path)
    world.clock.advance(86400)
    outcome = one.settle()
    assert outcome.outcome == "refused" and outcome.problem is not None and outcome.problem.rule == "GUARD-2"
    assert one.files() == {} and "SOUL.md" in world.published()


def test_a_mass_of_removals_from_the_remote_waits() -> None:
    """GUARD-3: merged at once, carried out after guard; what the agent writes there meanwhile stays."""
    world, (one, two) = joined("laptop", "phone")
    for number in range(20):
        one.write(f"notes/{number}.md", "x\n")
    world.settle()
    for number in range(20):
        one.delete(f"notes/{number}.md")
    one.settle(1)
    one.run(waive=True, now=True)
    outcome = two.settle(1)
    assert "notes/1.md" not in two.tracked() and two.text("notes/1.md") == "x\n"
    assert outcome.held["notes/1.md"][0] == "GUARD-3"
    two.restart()
    two.settle(1)
    assert two.text("notes/1.md") == "x\n"
    assert [fact["rule"] for fact in two.facts.named("guard.waiting")] == ["GUARD-3"]
    assert not two.facts.named("guard.passed")
    two.write("notes/2.md", "still needed\n")
    world.clock.advance(GUARD)
    two.settle()
    assert two.text("notes/1.md") is None and two.text("notes/2.md") == "still needed\n"
    assert two.facts.named("guard.passed") == [{"rule": "GUARD-3", "path": None}]
    world.settle()
    assert one.files() == two.files() == world.published()


def test_sync_now_carries_out_a_mass_of_removals() -> None:
    """GUARD-3: a person said so."""
    world, (one, two) = joined("laptop", "phone")
    for number in range(20):
        one.write(f"notes/{number}.md", "x\n")
    world.settle()
    for number in range(20):
        one.delete(f"notes/{number}.md")
    one.settle(1)
    one.run(waive=True, now=True)
    two.settle(1)
    two.run(now=True)
    assert two.text("notes/1.md") is None and two.seen.recall("waits") is None


@pytest.mark.parametrize(
    ("path", "came"), [("notes/travel", "notes/travel/kyoto.md"), ("notes/travel/kyoto.md", "notes/travel")]
)
def test_what_took_the_place_of_a_file_stays_when_the_file_is_written_once_more(path: str, came: str) -> None:
    """GUARD-4, MERGE-8: who still had it open removed nothing that came since; both stand."""
    world, (one, two) = joined("laptop", "phone")
    one.write(path, "base\n")
    world.settle()
    two.delete(path)
    two.settle()
    two.write(came, "from the phone\n")
    two.settle()
    writer = one.tree.agent_open(path)
    for _ in range(9):
        one.settle(passes=40)
    assert one.text(came) == "from the phone\n", "it was open for too long to be waited for"
    writer.write(b"late\n")
    writer.close()
    one.settle()
    world.settle()
    assert {b"from the phone\n", b"base\nlate\n"} <= set(world.published().values())
    assert one.files() == two.files() == world.published()


def test_what_an_open_descriptor_writes_after_a_replacement_is_a_local_write() -> None:
    """GUARD-4: an inode that left its name is recorded with its seen version as base."""
    world, (one, two) = joined("laptop", "phone")
    one.write(MEMORY, "base\n")
    world.settle()
    two.write(MEMORY, "base\n§\nfrom the phone\n")
    two.settle()
    held = one.tree._files[MEMORY]
    one.run()
    assert "from the phone" in (one.text(MEMORY) or "")
    one.tree._fill(held, b"base\n\xc2\xa7\nlate\n")
    one.settle()
    world.settle()
    assert set((two.text(MEMORY) or "").strip().split("\n§\n")) == {"base", "from the phone", "late"}
    assert one.tree.leftovers() == []


def test_what_came_out_is_kept_as_long_as_somebody_has_it_open() -> None:
    """GUARD-4: also unchanged and old; whoever has it may still write, minutes after its file left its name."""
    world, (one, two) = joined("laptop", "phone")
    one.write(MEMORY, "base\n")
    world.settle()
    one.tree.patience = 0.0
    writer = one.tree.agent_open(MEMORY)
    two.write(MEMORY, "base\n§\nfrom the phone\n")
    two.settle()
    for _ in range(3):
        one.settle()
    assert "from the phone" in (one.text(MEMORY) or "")
    writer.write("§\nlate\n".encode())
    writer.close()
    world.settle()
    assert set((two.text(MEMORY) or "").strip().split("\n§\n")) == {"base", "from the phone", "late"}
    assert one.tree.leftovers() == []


def test_a_late_write_into_another_bodys_file_is_in_history_alone() -> None:
    """MERGE-9, GUARD-4: it may not stand there, and its bytes are not lost."""
    world, (one, two) = joined("laptop", "phone")
    path = "journal/phone/2027-01-01.md"
    two.write(path, "# one\n")
    world.settle()
    held = one.tree._files[path]
    two.write(path, "# one\n\ntwo\n")
    two.settle()
    one.run()
    one.tree._fill(held, b"# mine\n")
    world.settle()
    assert world.published()[path] == b"# one\n\ntwo\n"
    assert any("Lost: " in commit.message and path in commit.message for commit in one.repo.log(one.soul.head() or ""))


def test_a_file_that_somebody_has_open_is_replaced_when_it_is_closed() -> None:
    """GUARD-4, GUARD-5: it waits, and the next pass tries again."""
    world, (one, two) = joined("laptop", "phone")
    one.write("notes/a.md", "a\n")
    world.settle()
    writer = one.tree.agent_open("notes/a.md")
    two.write("notes/a.md", "b\n")
    two.settle()
    outcome = one.run()
    assert one.text("notes/a.md") == "a\n" and outcome.again == ("notes/a.md",)
    writer.close()
    one.settle()
    assert one.text("notes/a.md") == "b\n"


def test_what_stands_in_the_way_of_a_pending_path_waits_with_it() -> None:
    """GUARD-5: a file becomes a directory; nothing of it is recorded before the whole change is seen."""
    world, (one,) = joined("laptop")
    one.write("notes/a", "file\n")
    one.settle()
    one.delete("notes/a")
    one.write("notes/a/b.md", "below\n")
    outcome = one.run(waive=True)
    assert set(outcome.pending) == {"notes/a", "notes/a/b.md"}
    one.settle()
    assert "notes/a" not in world.published() and world.published()["notes/a/b.md"] == b"below\n"


def test_an_unreadable_directory_is_held_and_never_a_deletion() -> None:
    """GUARD-6."""
    world, (one,) = joined("laptop")
    one.write("notes/deep/a.md", "a\n")
    one.settle()
    one.tree.agent_hide("notes")
    outcome = one.settle()
    assert outcome.held["notes/deep/a.md"][0] == "GUARD-6" and "notes/deep/a.md" in world.published()
    one.tree.agent_show("notes")
    assert one.settle().held == {}
    assert world.published()["notes/deep/a.md"] == b"a\n"


def test_that_a_path_became_held_is_told_once_for_each_reason() -> None:
    """GUARD-5, GUARD-6, TREE-6: not at every look, and not again after a restart."""
    world, (one,) = joined("laptop")
    one.write("notes/deep/a.md", "a\n")
    one.settle()
    one.tree.agent_hide("notes")
    held = one.settle().held
    one.settle()
    one.restart()
    one.settle()
    told = one.facts.named("file.held")
    assert told == [{"path": path, "rule": rule, "reason": why} for path, (rule, why) in sorted(held.items())]
    assert {fact["rule"] for fact in told} == {"GUARD-6"}
    one.tree.agent_show("notes")
    one.settle()
    one.tree.agent_hide("notes")
    one.settle()
    assert len(one.facts.named("file.held")) == 2 * len(told), "it was over and began anew"


def test_a_full_disk_is_said_and_mended_by_itself() -> None:
    """Transient(disk): what was placed stays placed, the rest follows."""
    world, (one, two) = joined("laptop", "phone")
    two.write("notes/a.md", "a\n")
    two.settle()
    one.tree.full = True
    outcome = one.run()
    assert outcome.outcome == "disk"
    one.tree.full = False
    one.settle()
    assert one.text("notes/a.md") == "a\n"


def test_hints_are_not_forgotten_when_a_pass_ends_before_it_looked() -> None:
    """A hint says "look again" until somebody looked."""
    world, (one,) = joined("laptop")
    one.write("notes/a.md", "a\n")
    one.tree.state = Presence.EMPTY
    one.run(hints=frozenset({"notes/a.md"}))
    one.tree.state = Presence.PRESENT
    world.clock.advance(1)
    assert "notes/a.md" in one.run(hints=frozenset()).recorded
