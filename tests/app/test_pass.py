"""The pass on fakes: filling, joining, recording, converging."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest

from bridge.app import arrivals, conflicts
from bridge.app.repairing import begin_again
from bridge.core import identity, layout
from bridge.core.errors import Transient
from bridge.core.model import EXECUTABLE, LINK, File, blob_id
from bridge.core.ports import Seen
from bridge.fakes.seen import FakeSeen
from tests.app.bodies import Body, fleet, joined

MEMORY = "memories/MEMORY.md"


def test_two_bodies_converge() -> None:
    """MERGE-11: what each writes arrives at the other."""
    world = fleet()
    one, two = world.body("laptop"), world.body("phone")
    one.write(MEMORY, "likes tea\n")
    one.settle()
    two.write("notes/plants.md", "# plants\n")
    two.settle()
    world.settle()
    assert one.files() == two.files() == one.tracked() == two.tracked() == world.published()
    assert one.text(MEMORY) == "likes tea\n"
    assert one.text("notes/plants.md") == "# plants\n"


def test_an_empty_remote_is_filled_in_one_commit() -> None:
    """TREE-1, REPO-5: fixed and required entries and the body's own entry, with the born identity."""
    world = fleet()
    body = world.body("laptop")
    outcome = body.run()
    assert outcome.outcome == "ok" and outcome.pushed
    assert len(body.subjects()) == 1
    expected = {*layout.FIXED, layout.README, *layout.REQUIRED, "bodies/laptop.json"}
    expected |= {"journal/.gitkeep", "notes/.gitkeep"}
    assert world.published().keys() == body.files().keys() == expected
    fields = identity.read(world.published()["agent.json"])
    assert fields is not None and fields["seed"] is True and fields["displayName"] == "Kaoru"


def test_what_lies_in_the_folder_of_a_new_soul_comes_first() -> None:
    """REPO-5: local files are recorded before the remote is filled up, also those still being written."""
    world = fleet()
    body = world.body("laptop")
    body.write("agent.json", json.dumps({"id": "3f0e6f0a-6f0e-4a7c-9f4e-0a0a0a0a0a0a", "name": "kaoru"}))
    body.write("SOUL.md", "# Kaoru\n\nI am.\n")
    assert world.published() == {}
    body.run()
    assert world.published() == {}, "nothing is filled while the agent is writing it"
    body.settle()
    assert identity.id_of(world.published()["agent.json"]) == "3f0e6f0a-6f0e-4a7c-9f4e-0a0a0a0a0a0a"
    assert world.published()["SOUL.md"] == b"# Kaoru\n\nI am.\n"


def test_an_unjoined_body_records_nothing_before_the_remote_answered() -> None:
    """REPO-6: an old copy must not become a commit."""
    world = fleet()
    body = world.body("laptop")
    body.remote.unreachable = True
    body.write("notes/a.md", "a\n")
    outcome = body.settle()
    assert outcome.outcome == "offline"
    assert body.soul.head() is None and not body.repo.objects
    body.remote.heal()
    body.settle()
    assert world.published()["notes/a.md"] == b"a\n"


def test_an_unjoined_body_that_asks_nobody_records_nothing() -> None:
    """REPO-6: also where a pass is told to leave the remote alone."""
    body = fleet().body("laptop")
    body.write("notes/a.md", "a\n")
    outcome = body.run(waive=True, remote=False, publish=False)
    assert not outcome.recorded and body.soul.head() is None and not body.repo.objects


def test_a_body_with_old_copies_joins() -> None:
    """REPO-6: equal to any published version → theirs; memories unite; else what is published wins, ours is kept."""
    world = fleet()
    old = world.body("laptop")
    old.write("notes/a.md", "first\n")
    old.write(MEMORY, "one\n§\ntwo\n")
    old.settle()
    copies = old.files()
    old.write("notes/a.md", "second\n")
    old.write("notes/b.md", "published\n")
    old.write(MEMORY, "one\n§\nthree\n")
    old.settle()
    new = world.body("phone")
    for path, content in copies.items():
        if not path.startswith("bodies/"):
            new.tree.agent_write(path, content)
    new.write("notes/b.md", "mine\n")
    new.write("memories/USER.md", "likes tea\n")
    new.delete("SOUL.md")
    world.settle()
    assert new.files() == old.files() == world.published()
    assert new.text("notes/a.md") == "second\n"
    assert new.text("notes/b.md") == "published\n"
    assert new.text(MEMORY) == "one\n§\nthree\n"
    assert new.text("memories/USER.md") == "likes tea\n"
    assert new.text("SOUL.md") == "# Kaoru\n"
    lost = [commit for commit in new.repo.log(new.soul.head() or "") if "Lost: " in commit.message]
    assert ["notes/b.md" in commit.message for commit in lost] == [True]
    assert any(new.repo.read(file.oid) == b"mine\n" for c in lost for _, file in new.repo.files(_second(new, c)))


def _second(body: Body, commit: object) -> str:
    return body.repo.info(commit.parents[1]).tree  # type: ignore[attr-defined]


def test_an_old_copy_of_another_bodys_journal_is_no_change_of_it() -> None:
    """REPO-6 before MERGE-9: on joining, what was published there is theirs."""
    world, (old,) = joined("laptop")
    old.write("journal/laptop/2027-01-01.md", "# 2027-01-01 · laptop\n")
    old.settle()
    copies = old.files()
    old.write("journal/laptop/2027-01-01.md", "# 2027-01-01 · laptop\n\n## 10:00 more\n")
    old.settle()
    new = world.body("phone")
    for path, content in copies.items():
        new.tree.agent_write(path, content)
    world.settle()
    assert new.files() == old.files() == world.published()
    assert new.run().held == {}


def test_a_clone_is_adopted_with_its_edits() -> None:
    """REPO-6: a clone's HEAD is what was seen, so an edit is an edit, and an absent file is no deletion."""
    world, (old,) = joined("laptop")
    old.write("notes/a.md", "a\n")
    old.write("notes/b.md", "b\n")
    old.settle()
    new = world.body("phone")
    tip = world.server.tip("refs/heads/main")
    assert tip is not None
    new.repo.objects.update(world.server.objects)
    new.repo.names["refs/heads/main"] = tip
    for path, content in world.published().items():
        new.tree.agent_write(path, content)
    new.write("notes/a.md", "edited\n")
    new.delete("notes/b.md")
    old.write("notes/c.md", "c\n")
    world.settle()
    assert new.files() == old.files() == world.published()
    assert world.published()["notes/a.md"] == b"edited\n"
    assert world.published()["notes/b.md"] == b"b\n"
    assert new.repo.is_ancestor(tip, new.soul.head() or "")


def forgotten(body: Body, materialised: str | None) -> None:
    """What was seen is lost, and with it everything that was remembered beside it."""
    body.seen.entries.clear()
    body.seen.memory.clear()
    body.restart()
    begin_again(body.soul, materialised)


def test_a_body_that_lost_what_it_had_seen_goes_on_from_what_was_materialised() -> None:
    """REPO-6, REPO-7: edits are edits, others' changes are not taken back, an absent file is no deletion."""
    world, (one, two) = joined("laptop", "phone")
    one.write("notes/a.md", "a\n")
    one.write("notes/b.md", "b\n")
    one.write(MEMORY, "one\n§\ntwo\n")
    world.settle()
    materialised = one.soul.head()
    two.write(MEMORY, "one\n§\ntwo\n§\nthree\n")
    two.settle()
    one.tree.readonly = True
    one.run()
    assert one.soul.head() != materialised and "three" not in (one.text(MEMORY) or "")
    one.tree.readonly = False
    forgotten(one, materialised)
    one.write(MEMORY, "two\n")
    one.delete("notes/b.md")
    world.settle()
    assert one.files() == two.files() == world.published()
    assert one.text(MEMORY) == "two\n§\nthree\n" and one.text("notes/b.md") == "b\n"


def test_a_body_that_knows_nothing_any_more_takes_nothing_back() -> None:
    """REPO-6: what lies there is an old copy, whatever main says; what was never published is kept under a ref."""
    world, (one, two) = joined("laptop", "phone")
    one.write(MEMORY, "one\n")
    world.settle()
    two.write(MEMORY, "one\n§\ntwo\n")
    two.settle()
    one.tree.readonly = True
    one.run()
    one.tree.readonly = False
    head = one.soul.head()
    forgotten(one, None)
    world.settle()
    assert one.files() == two.files() == world.published()
    assert one.text(MEMORY) == "one\n§\ntwo\n" and head is not None


def test_a_body_born_offline_joins_later() -> None:
    """REPO-6: an unrelated history stays under a local ref; memories unite, what is published wins."""
    world, (old,) = joined("laptop")
    old.write("SOUL.md", "# Kaoru\n\npublished\n")
    old.write(MEMORY, "one\n")
    old.settle()
    new = world.body("phone")
    new.seen.remember("alone", True)
    new.remote.unreachable = True
    new.write("SOUL.md", "# Kaoru\n\nmine\n")
    new.write(MEMORY, "two\n")
    new.settle()
    alone = new.soul.head()
    assert alone is not None and new.subjects()
    new.remote.heal()
    world.settle()
    assert new.files() == old.files() == world.published()
    assert set((new.text(MEMORY) or "").split("\n§\n")) >= {"one"}
    assert "two" in (new.text(MEMORY) or "")
    assert new.text("SOUL.md") == "# Kaoru\n\npublished\n"
    assert new.repo.tip("refs/soul-bridge/keep/" + alone) == alone
    roots = [commit for commit in new.repo.log(new.soul.head() or "") if not commit.parents]
    assert len(roots) == 1


def test_two_real_identities_refuse_each_other() -> None:
    """MERGE-5: no merge, no push, nothing written, both ids named."""
    world, (old,) = joined("laptop")
    mine = "3f0e6f0a-6f0e-4a7c-9f4e-0a0a0a0a0a0a"
    fields = identity.read(old.files()["agent.json"]) or {}
    old.write("agent.json", identity.write({key: value for key, value in fields.items() if key != "seed"}).decode())
    old.settle()
    new = world.body("phone", birth=False)
    new.write("agent.json", json.dumps({"id": mine, "name": "kaoru"}))
    outcome = new.settle()
    assert outcome.outcome == "refused" and outcome.problem is not None and outcome.problem.kind == "identity"
    assert mine in outcome.problem.message and fields["id"] in outcome.problem.message
    assert new.files().keys() == {"agent.json"} and new.soul.head() is None


def test_an_identity_born_here_yields_to_the_published_one() -> None:
    """MERGE-5: ours was generated here and never published → theirs, whole file; ours is in history."""
    world, (old,) = joined("laptop")
    fields = identity.read(old.files()["agent.json"]) or {}
    old.write("agent.json", identity.write({key: value for key, value in fields.items() if key != "seed"}).decode())
    old.settle()
    new = world.body("phone")
    birth = new.seen.recall("birth")
    mine = json.dumps({"id": birth["id"], "name": "kaoru", "mood": "new"})
    new.write("agent.json", mine)
    world.settle()
    assert new.files() == old.files() == world.published()
    assert b"mood" not in world.published()["agent.json"]
    assert any("Lost: " in commit.message for commit in new.repo.log(new.soul.head() or ""))


def test_a_remote_that_holds_something_else_is_refused() -> None:
    """REPO-5: nothing is written there or here."""
    world = fleet()
    body = world.body("laptop")
    tree = world.server.edit("", {"main.py": File(world.server.write(b"print()\n"))})
    tip = world.server.commit(tree, [], "Somebody", "a@b", "start", 1)
    world.server.flush()
    world.server.names["refs/heads/main"] = tip
    outcome = body.run()
    assert outcome.outcome == "refused" and outcome.problem is not None
    assert outcome.problem.kind == "not-a-soul" and "main.py" in outcome.problem.message
    assert body.files() == {} and world.server.tip("refs/heads/main") == tip


def test_a_remote_with_branches_but_no_main_is_refused() -> None:
    """REPO-5: other branches but no main."""
    world = fleet()
    body = world.body("laptop")
    world.server.names["refs/heads/master"] = world.server.commit("", [], "Somebody", "a@b", "start", 1)
    world.server.flush()
    outcome = body.run()
    assert outcome.problem is not None and outcome.problem.kind == "not-a-soul"
    assert "refs/heads/main" not in world.server.names


def test_another_bodys_paths_are_held_and_put_back() -> None:
    """MERGE-9: a change there is held, a loss is put back; the owner goes on writing."""
    world, (one, two) = joined("laptop", "phone")
    path = "journal/laptop/2027-01-01.md"
    one.write(path, "# 2027-01-01 · laptop\n")
    world.settle()
    two.tree.agent_append(path, b"written by the phone\n")
    outcome = two.settle()
    assert outcome.held[path][0] == "MERGE-9"
    assert world.published()[path].decode() == "# 2027-01-01 · laptop\n"
    two.delete(path)
    world.settle()
    assert two.text(path) == "# 2027-01-01 · laptop\n"
    assert path in world.published()


@pytest.mark.parametrize("names", ["journal", "registration", "both"])
def test_an_old_copy_of_another_bodys_file_is_put_back_at_any_time(names: str) -> None:
    """MERGE-9: what stood there before is no writing of anybody's; what comes later arrives."""
    world, (one, two) = joined("laptop", "phone")
    paths = ["journal/phone/2027-01-01.md", "bodies/phone.json"]
    two.write(paths[0], "# 2027-01-01 · phone\n")
    world.settle()
    old = two.files()
    two.clock.advance(86_400)
    two.write(paths[0], "# 2027-01-01 · phone\n\n## 10:00 more\n")
    world.settle()
    assert all(old[path] != two.files()[path] for path in paths)
    paths = {"journal": paths[:1], "registration": paths[1:], "both": paths}[names]
    before = one.soul.head()
    for path in paths:
        one.tree.agent_write(path, old[path])
    outcome = one.settle()
    assert outcome.held == {} and one.soul.head() == before
    assert one.files() == two.files() == world.published()
    two.write("journal/phone/2027-01-01.md", "# 2027-01-01 · phone\n\n## 10:00 more\n\n## 11:00 yet more\n")
    world.settle()
    assert "yet more" in (one.text("journal/phone/2027-01-01.md") or "")


def test_an_old_copy_of_what_another_body_took_away_goes_again() -> None:
    """MERGE-9: that it is gone is what is published."""
    world, (one, two) = joined("laptop", "phone")
    path = "journal/phone/2027-01-01.md"
    two.write(path, "# 2027-01-01 · phone\n")
    world.settle()
    two.delete(path)
    world.settle()
    one.write(path, "# 2027-01-01 · phone\n")
    assert one.settle().held == {} and one.text(path) is None
    assert path not in world.published()


def test_what_never_stood_in_another_bodys_file_is_asked_of_history_once() -> None:
    """MERGE-9: it stays held, and a long history is not read at every pass."""
    world, (one, two) = joined("laptop", "phone")
    path = "journal/phone/2027-01-01.md"
    two.write(path, "# 2027-01-01 · phone\n")
    world.settle()
    one.write(path, "# mine\n")
    assert one.settle().held[path][0] == "MERGE-9"
    asked, ever = [], one.repo.ever
    one.repo.ever = lambda *words: asked.append(words) or ever(*words)  # type: ignore
    assert one.settle().held[path][0] == "MERGE-9" and asked == []
    two.write(path, "# mine\n")
    two.settle()
    two.write(path, "# 2027-01-01 · phone\n\n## 10:00 more\n")
    world.settle()
    assert one.text(path) == two.text(path) and one.run().held == {}


def test_a_local_lease_is_put_back_and_never_recorded() -> None:
    """MERGE-10: theirs, always."""
    world, (one,) = joined("laptop")
    one.write("locks/consolidation.json", '{"body":"laptop","until":1}\n')
    one.settle()
    assert one.text("locks/consolidation.json") is None
    assert not any(path.startswith("locks/") for path in world.published())


@pytest.mark.parametrize("path", ["locks/consolidation.json", "locks/door-codes.md", "locks/sub/deep.md"])
def test_what_is_written_below_locks_is_put_back_and_stays_in_history(path: str) -> None:
    """MERGE-10: nothing that an agent wrote is lost, and it is kept once, however often it is written."""
    world, (one, two) = joined("laptop", "phone")
    one.write(path, "the door opens with 1234\n")
    world.settle()
    assert one.text(path) is two.text(path) is None and path not in world.published()
    for body in (one, two):
        (kept,) = conflicts.listed(body.repo, body.soul.clock.now())
        assert kept.path == path and body.repo.read(kept.blob) == b"the door opens with 1234\n"
    before = one.soul.head()
    one.write(path, "the door opens with 1234\n")
    one.settle()
    assert one.text(path) is None and one.soul.head() == before


def test_what_stood_below_locks_before_there_was_a_history_is_in_it() -> None:
    """MERGE-10, REPO-5: also where nothing was recorded yet."""
    world = fleet()
    one = world.body("laptop")
    one.write("locks/door-codes.md", "1234\n")
    one.settle()
    assert "locks/door-codes.md" not in world.published()
    (kept,) = conflicts.listed(one.repo, one.soul.clock.now())
    assert one.repo.ever(world.server.tip("refs/heads/main") or "", kept.path, blob_id(b"1234\n"))
    log = list(one.repo.log(one.soul.head() or ""))
    assert [commit.oid for commit in log if not commit.parents] == [log[-1].oid]


def test_a_late_write_into_a_lock_that_left_its_name_stays_in_history() -> None:
    """MERGE-10, GUARD-4."""
    world, (one,) = joined("laptop")
    one.write("locks/door-codes.md", "1234\n")
    held = one.tree._files["locks/door-codes.md"]
    one.run(waive=True)
    assert one.text("locks/door-codes.md") is None
    one.tree._fill(held, b"5678\n")
    one.settle()
    found = conflicts.listed(one.repo, one.soul.clock.now())
    assert {one.repo.read(each.blob) for each in found} == {b"1234\n", b"5678\n"}


def test_an_absent_path_that_main_never_saw_deleted_is_materialised_again() -> None:
    """An edit beats a deletion (MERGE-6): deleted here, edited there at the same time."""
    world, (one, two) = joined("laptop", "phone")
    one.write("notes/a.md", "a\n")
    world.settle()
    one.delete("notes/a.md")
    two.write("notes/a.md", "edited\n")
    world.settle()
    assert one.text("notes/a.md") == two.text("notes/a.md") == "edited\n"


def test_links_and_unsafe_names_from_the_remote_are_listed_and_never_created() -> None:
    """TREE-6, TREE-7: they stay in the tree; a restart still lists them."""
    world, (one,) = joined("laptop")
    tip = world.server.tip("refs/heads/main") or ""
    blob = File(world.server.write(b"/etc/passwd"), LINK)
    plain = File(world.server.write(b"x\n"))
    changes = {"notes/link.md": blob, "notes/.GIT/hooks": plain, "notes/fine.md": plain}
    tree = world.server.edit(world.server.info(tip).tree, changes)
    world.server.names["refs/heads/main"] = world.server.commit(tree, [tip], "Other (other)", "a@b", "odd", 5)
    world.server.flush()
    outcome = one.settle()
    assert one.text("notes/fine.md") == "x\n"
    assert "notes/link.md" not in one.files() and "notes/.GIT/hooks" not in one.files()
    assert {path: rule for path, (rule, _) in outcome.held.items()} == {
        "notes/link.md": "TREE-6",
        "notes/.GIT/hooks": "TREE-7",
    }
    one.restart()
    assert set(one.settle().held) == {"notes/link.md", "notes/.GIT/hooks"}
    assert set(one.tracked()) >= {"notes/link.md", "notes/.GIT/hooks"}


def test_a_large_file_is_held_and_everything_else_goes_on() -> None:
    """TREE-6: over the configured size."""
    world, (one,) = joined("laptop")
    object.__setattr__(one.limits, "hold_back_over", 1000)
    one.write("notes/large.md", "x" * 1001)
    one.write("notes/small.md", "y\n")
    outcome = one.settle()
    assert outcome.held["notes/large.md"][0] == "TREE-6"
    assert "notes/small.md" in world.published() and "notes/large.md" not in world.published()
    one.write("notes/large.md", "x\n")
    assert one.settle().held == {}
    assert world.published()["notes/large.md"] == b"x\n"


def test_text_with_crlf_is_stored_as_lf_and_stays_on_disk_as_written() -> None:
    """TREE-5: no write follows, neither here nor later."""
    world, (one, two) = joined("laptop", "phone")
    one.write("notes/a.md", "a\r\nb\r\n")
    world.settle()
    assert world.published()["notes/a.md"] == b"a\nb\n" == two.files()["notes/a.md"]
    assert one.text("notes/a.md") == "a\r\nb\r\n"


def test_the_executable_bit_travels() -> None:
    """TREE-5, MERGE-1."""
    world, (one, two) = joined("laptop", "phone")
    one.write("tools/x.sh", "#!/bin/sh\n")
    one.tree.agent_chmod("tools/x.sh", True)
    world.settle()
    entry = two.seen.get("tools/x.sh")
    assert entry is not None and entry.file.mode == EXECUTABLE and entry.stamp.executable


def test_what_a_merge_removes_and_ignores_stays_on_disk() -> None:
    """TREE-8: the new .gitignore and the removal come in one merge."""
    world, (one, two) = joined("laptop", "phone")
    one.write("cache.db", "x\n")
    world.settle()
    tip = world.server.tip("refs/heads/main") or ""
    ignore = File(world.server.write(layout.IGNORE + b"cache.db\n"))
    tree = world.server.edit(world.server.info(tip).tree, {".gitignore": ignore, "cache.db": None})
    world.server.names["refs/heads/main"] = world.server.commit(tree, [tip], "P (p)", "a@b", "untrack", 5)
    world.server.flush()
    world.settle()
    assert one.text("cache.db") == two.text("cache.db") == "x\n"
    assert "cache.db" not in world.published()


def test_what_stayed_on_disk_gives_way_to_a_newer_version_from_elsewhere() -> None:
    """TREE-8: nobody wrote it, so it is the base of nothing but itself."""
    world, (one, two, three) = joined("laptop", "phone", "server")
    one.write("notes/keep.log", "line 1\n")
    one.write("memories/extra.md", "one\n§\ntwo\n")
    world.settle()
    one.remote.unreachable = True
    one.write("notes/keep.log", "line 1\nline 2\n")
    one.write("memories/extra.md", "one\n§\nthree\n")
    one.settle()
    two.write(".gitignore", layout.IGNORE.decode() + "*.log\nextra.md\n")
    two.delete("notes/keep.log")
    two.delete("memories/extra.md")
    two.settle()
    three.settle()
    assert three.text("notes/keep.log") == "line 1\n" and three.text("memories/extra.md") == "one\n§\ntwo\n"
    one.remote.heal()
    world.settle()
    for body in (one, two, three):
        assert body.text("notes/keep.log") == "line 1\nline 2\n"
        assert body.text("memories/extra.md") == "three\n"


def test_what_stayed_on_disk_is_recorded_when_somebody_writes_it_or_it_is_ignored_no_more() -> None:
    """TREE-8, TREE-4"""
    world, (one, two) = joined("laptop", "phone")
    one.write("a.log", "1\n")
    one.write("b.log", "1\n")
    world.settle()
    one.write(".gitignore", layout.IGNORE.decode() + "*.log\n")
    one.delete("a.log")
    one.delete("b.log")
    world.settle()
    assert two.text("a.log") == two.text("b.log") == "1\n" and "a.log" not in world.published()
    two.write("a.log", "2\n")
    world.settle()
    assert one.text("a.log") == "2\n" and "b.log" not in world.published()
    one.write(".gitignore", layout.IGNORE.decode())
    world.settle()
    assert one.text("b.log") == two.text("b.log") == "1\n"


def test_notes_and_memories_are_recorded_though_ignored() -> None:
    """TREE-4: they are the tree's own entries; what the fixed patterns name is not."""
    world, (one, two) = joined("laptop", "phone")
    one.write(".gitignore", layout.IGNORE.decode() + "secret*\nextra*\n")
    world.settle()
    for path in ("notes/secret.md", "memories/extra.md", "notes/a.incoming.md", "notes/secret.txt"):
        one.write(path, "x\n")
    world.settle()
    assert two.text("notes/secret.md") == two.text("memories/extra.md") == "x\n"
    assert two.text("notes/a.incoming.md") is None and two.text("notes/secret.txt") is None


def test_a_tracked_path_is_recorded_though_ignored_and_an_ignored_one_that_main_has_is_no_dead_end() -> None:
    """TREE-4: tracked paths are recorded even if ignored, also where one stands in the way of main's."""
    world, (one, two) = joined("laptop", "phone")
    two.remote.unreachable = True
    two.write(".gitignore", "cache.db\n")
    two.settle()
    two.write("cache.db", "mine\n")
    two.settle()
    one.write("cache.db", "theirs\n")
    one.settle()
    two.remote.heal()
    world.settle()
    assert one.text("cache.db") == two.text("cache.db") is not None
    assert world.published()["cache.db"] == two.files()["cache.db"]


def test_an_idle_body_says_once_per_heartbeat_that_it_lives() -> None:
    """FORM-6: and else makes no commits."""
    world, (one,) = joined("laptop")
    before = len(one.subjects())
    for _ in range(5):
        world.clock.advance(3600)
        one.settle()
    assert len(one.subjects()) == before
    world.clock.advance(86400)
    one.settle()
    assert one.subjects()[0].startswith("heartbeat") and len(one.subjects()) == before + 1


def test_main_is_filled_up_at_most_once_a_day() -> None:
    """TREE-1: two bodies that disagree about an entry cannot commit at each other for ever."""
    world, (one,) = joined("laptop")
    for _ in range(3):
        tip = world.server.tip("refs/heads/main") or ""
        tree = world.server.edit(world.server.info(tip).tree, {"README.md": None})
        world.server.names["refs/heads/main"] = world.server.commit(tree, [tip], "P (p)", "a@b", "no readme", 5)
        world.server.flush()
        one.settle()
    assert "README.md" not in world.published()
    world.clock.advance(86400)
    one.settle()
    assert "README.md" in world.published()


def test_a_lost_identity_comes_back_from_history_at_once() -> None:
    """TREE-1, MERGE-5: no published result lacks it, whoever removed it."""
    world, (one, two) = joined("laptop", "phone")
    agent = world.published()["agent.json"]
    head = one.soul.head() or ""
    tree = one.repo.edit(one.soul.tree_of(head), {"agent.json": None})
    one.repo.names["refs/heads/main"] = one.repo.commit(tree, [head], "P (p)", "a@b", "by hand", 5)
    one.repo.flush()
    one.delete("agent.json")
    world.settle()
    assert world.published()["agent.json"] == agent == one.files()["agent.json"] == two.files()["agent.json"]


def test_a_soul_without_an_identity_is_not_published() -> None:
    """MERGE-5: two bodies would each invent one; it waits for a body that has one."""
    world = fleet()
    one = world.body("laptop", birth=False)
    one.write("notes/a.md", "a\n")
    one.settle()
    assert one.tracked()["notes/a.md"] == b"a\n" and world.published() == {}
    world.body("phone")
    world.settle()
    assert world.published()["notes/a.md"] == b"a\n"
    assert json.loads(world.published()["agent.json"])["id"] == world.bodies["phone"].seen.recall("birth")["id"]


def test_an_identity_that_history_has_is_not_born_anew() -> None:
    """TREE-1: by whichever body it is missed, and with everything that was ever changed in it."""
    world, (one, two) = joined("laptop", "phone")
    one.write("agent.json", json.dumps({**json.loads(one.text("agent.json") or ""), "pronouns": "she"}))
    world.settle()
    agent = world.published()["agent.json"]
    head = two.soul.head() or ""
    tree = two.repo.edit(two.soul.tree_of(head), {"agent.json": None})
    two.repo.names["refs/heads/main"] = two.repo.commit(tree, [head], "P (p)", "a@b", "by hand", 5)
    two.repo.flush()
    two.delete("agent.json")
    two.run(waive=True, remote=False, publish=False)
    assert two.tracked()["agent.json"] == agent
    world.settle()
    assert world.published()["agent.json"] == agent


def test_a_body_whose_clock_was_set_back_lets_the_others_stand() -> None:
    """MERGE-6: five minutes behind its own last pass is wrong, less is not."""
    for behind, stands in ((400.0, "theirs\n"), (200.0, "ours\n")):
        world, (one, two) = joined("laptop", "phone")
        one.write("notes/a.md", "base\n")
        world.settle()
        two.write("notes/a.md", "theirs\n")
        two.settle()
        one.write("notes/a.md", "ours\n")
        one.seen.remember("clock", world.clock.now() + behind)
        one.run(waive=True)
        assert one.text("notes/a.md") == stands
        world.settle()
        assert one.text("notes/a.md") == two.text("notes/a.md") == stands


def test_deletions_travel_and_stay() -> None:
    """MERGE-2: a deletion on either side wins, and nobody brings the entry back."""
    world, (one, two) = joined("laptop", "phone")
    one.write(MEMORY, "one\n§\ntwo\n§\nthree\n")
    world.settle()
    one.write(MEMORY, "one\n§\nthree\n")
    two.write(MEMORY, "one\n§\ntwo\n§\nthree\n§\nfour\n")
    world.settle()
    assert one.text(MEMORY) == two.text(MEMORY) == "one\n§\nthree\n§\nfour\n"


def test_a_writer_that_never_read_our_write_deletes_nothing_of_it() -> None:
    """MERGE-12: what a write has not read it cannot delete."""
    world, (one, two) = joined("laptop", "phone")
    one.write(MEMORY, "old\n")
    world.settle()
    one.soul.was_read = lambda path, since: False
    two.write(MEMORY, "old\n§\nnew from the phone\n")
    world.settle()
    assert "new from the phone" in (one.text(MEMORY) or "")
    one.write(MEMORY, "old\n§\nmine\n")
    world.settle()
    assert set((one.text(MEMORY) or "").strip().split("\n§\n")) == {"old", "new from the phone", "mine"}


@pytest.mark.parametrize("reads", range(14))
def test_however_often_we_wrote_a_copy_from_before_takes_nothing_out(
    reads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MERGE-12: what came into a file is remembered for a day, also when that was more often than we count one by one.

    reads: so many of the first arrivals were read before the agent made its copy. Nobody counts beyond four here.
    """
    monkeypatch.setattr(arrivals, "MOST", 4)
    monkeypatch.setattr(arrivals, "KEPT", 2)
    world, (one, two) = joined("laptop", "phone")
    came, read_at = [f"old {number}" for number in range(20)], -1.0
    one.write(MEMORY, "\n§\n".join(came) + "\n")
    world.settle()
    one.soul.was_read = lambda path, since: read_at >= since
    for number in range(14):
        if number == reads:
            read_at, copy = one.soul.clock.boottime(), list(came)
        came.append(f"from the phone {number}")
        two.write(MEMORY, (two.text(MEMORY) or "") + f"§\n{came[-1]}\n")
        world.settle()
        if number >= reads:  # it appends without reading, and knows what it wrote: that proves nothing
            came.append(f"mine {number}")
            copy.append(f"mine {number}")
            one.write(MEMORY, (one.text(MEMORY) or "") + f"§\n{copy[-1]}\n")
            world.settle()
    dropped = copy.pop()
    one.write(MEMORY, "\n§\n".join([*copy, "mine"]) + "\n")
    world.settle()
    found = (one.text(MEMORY) or "").strip().split("\n§\n")
    assert set(found) == {*came, "mine"} - {dropped}, "and what it had read, it may take out"
    assert one.text(MEMORY) == two.text(MEMORY)


def test_a_version_that_is_no_text_tells_nothing_of_those_that_are() -> None:
    """MERGE-12: bytes that no entries can be read from came in once that day; what came after them is not taken out."""
    world, (one, two) = joined("laptop", "phone")
    for content in (b"old\n", b"\xff\n", "old\n§\nfrom the phone\n".encode()):
        two.tree.agent_write(MEMORY, content)
        world.settle()
    one.soul.was_read = lambda path, since: False
    assert "from the phone" in (one.text(MEMORY) or "")
    one.write(MEMORY, "old\n§\nmine\n")
    world.settle()
    assert set((two.text(MEMORY) or "").strip().split("\n§\n")) == {"old", "from the phone", "mine"}


def test_an_entry_of_its_own_that_came_back_is_no_sign_that_the_agent_read_it() -> None:
    """MERGE-12: what it wrote into a file that an exchange took out stands in what we lay next; it knew that before."""
    world, (one, two) = joined("laptop", "phone")
    one.write(MEMORY, "old\n§\nolder\n")
    world.settle()
    one.soul.was_read = lambda path, since: False
    writer = one.tree.agent_open(MEMORY)
    two.write(MEMORY, "old\n§\nolder\n§\nfrom the phone\n")
    two.settle()
    one.settle(passes=40)
    assert "from the phone" in (one.text(MEMORY) or ""), "it was open for too long to be waited for"
    writer.write("§\nmine\n".encode())
    writer.close()
    one.settle()
    assert "mine" in (one.text(MEMORY) or "")
    one.write(MEMORY, "old\n§\nolder\n§\nmine\n§\nmine too\n")
    world.settle()
    assert one.text(MEMORY) == two.text(MEMORY)
    found = (one.text(MEMORY) or "").strip().split("\n§\n")
    assert sorted(found) == ["from the phone", "mine", "mine too", "old", "older"]


def test_what_the_agent_wrote_after_an_unread_arrival_it_can_delete_again() -> None:
    """MERGE-12: what it wrote itself it knows, whatever came in that it never read."""
    world, (one, two) = joined("laptop", "phone")
    one.write(MEMORY, "old\n")
    world.settle()
    one.soul.was_read = lambda path, since: False
    two.write(MEMORY, "old\n§\nnew from the phone\n")
    world.settle()
    one.write(MEMORY, "old\n§\nmine\n")
    world.settle()
    one.write(MEMORY, "old\n")
    world.settle()
    assert one.text(MEMORY) == two.text(MEMORY) == "old\n§\nnew from the phone\n"


def test_a_deletion_counts_when_the_machine_started_anew_since_the_entry_came() -> None:
    """MERGE-12: boottimes of an earlier start say nothing, so nobody can tell who has read it, which counts as yes."""
    world, (one, two) = joined("laptop", "phone")
    one.write(MEMORY, "old\n")
    world.settle()
    one.soul.boot = "first"
    two.write(MEMORY, "old\n§\nnew from the phone\n")
    world.settle()
    one.restart()
    one.soul.boot, one.soul.was_read = "second", lambda path, since: False
    one.write(MEMORY, "old\n")
    world.settle()
    assert one.text(MEMORY) == two.text(MEMORY) == "old\n"


def test_a_fresh_entry_of_another_body_that_a_write_drops_is_listed() -> None:
    """MERGE-12: within a day of its arrival."""
    world, (one, two) = joined("laptop", "phone")
    two.write(MEMORY, "fresh\n§\nother\n")
    world.settle()
    one.write(MEMORY, "other\n")
    outcome = one.settle()
    assert one.text(MEMORY) == "other\n"
    assert outcome.problem is None
    assert [commit.message for commit in one.repo.log(one.soul.head() or "") if "Lost: " in commit.message] != []


def test_while_a_gitignore_is_being_written_nothing_that_it_named_is_recorded() -> None:
    """TREE-4: it is truncated first and filled then, and what was recorded once stays in history."""
    world, (one, _) = joined("laptop", "phone")
    one.write(".gitignore", "secret*\n")
    one.settle()
    one.write("secret.txt", "s\n")
    one.write("notes/secret.md", "# s\n")
    one.settle()
    one.write(".gitignore", "")
    one.run()
    one.write(".gitignore", "secret*\nother*\n")
    one.settle()
    assert "secret.txt" not in one.tracked()
    assert not any("secret.txt" in commit.message for commit in one.repo.log(one.soul.head() or ""))
    one.write(".gitignore", "")
    one.settle()
    assert "secret.txt" in one.tracked()


def test_what_a_gitignore_names_is_not_recorded_while_that_is_put_back() -> None:
    """TREE-4, GUARD-2: a fixed file that is gone comes back, and meant what it says meanwhile."""
    world, (one, _) = joined("laptop", "phone")
    one.write(".gitignore", layout.IGNORE.decode() + "secret*\n")
    one.settle()
    one.write("secret.txt", "s\n")
    one.settle()
    one.delete(".gitignore")
    one.settle()
    assert one.text(".gitignore") == layout.IGNORE.decode() + "secret*\n"
    assert "secret.txt" not in one.tracked()
    assert not any("secret.txt" in commit.message for commit in one.repo.log(one.soul.head() or ""))


def test_what_the_fixed_gitignore_names_is_not_recorded_of_a_folder_that_becomes_a_soul() -> None:
    """TREE-2, TREE-4: the rules that the soul is given hold from its first commit on."""
    one = fleet().body("laptop")
    one.write("draft.tmp", "d\n")
    one.write("todo.txt", "t\n")
    one.clock.advance(5)
    one.settle()
    assert "todo.txt" in one.tracked() and "draft.tmp" not in one.tracked()
    assert not any("draft.tmp" in commit.message for commit in one.repo.log(one.soul.head() or ""))


def test_what_the_souls_gitignore_names_is_not_recorded_on_joining_before_it_has_come() -> None:
    """TREE-4, REPO-6: files that lay there before are looked at with the rules of the soul."""
    world = fleet()
    one = world.body("laptop")
    one.write(".gitignore", layout.IGNORE.decode() + "secret*\n")
    one.settle()
    for own in (None, "other*\n"):
        two = world.body(f"phone-{own is None}".lower())
        two.write("secret.txt", "s\n")
        two.write("todo.txt", "t\n")
        if own is not None:
            two.write(".gitignore", own)
        two.settle()
        assert "todo.txt" in two.tracked() and "secret.txt" not in two.tracked()
        assert not any("secret.txt" in commit.message for commit in two.repo.log(two.soul.head() or ""))


class FailingSeen:
    """A memory whose disk fails from a certain call on."""

    def __init__(self, seen: FakeSeen, sound: int) -> None:
        self._seen = seen
        self.sound = sound  # calls that still go well

    def __getattr__(self, name: str) -> Any:
        if self.sound <= 0:
            raise Transient("the table of seen files: disk I/O error", kind="disk")
        self.sound -= 1
        return getattr(self._seen, name)


def test_a_pass_ends_in_words_wherever_its_memory_fails_and_the_next_one_goes_on() -> None:
    """GUARD-4: also in the end, where the outcome is put together and held paths are told of."""
    world, (one,) = joined("laptop")
    for sound in range(1000):
        one.write("notes/a.md", f"{sound}\n")
        world.clock.advance(5)
        failing = FailingSeen(one.seen, sound)
        one.soul.seen = cast(Seen, failing)
        outcome = one.run()
        one.soul.seen = one.seen
        if failing.sound:
            break  # the whole pass went well
        assert outcome.problem is None or (outcome.outcome, outcome.problem.kind) == ("disk", "disk")
    assert sound > 20 and outcome.problem is None and world.published()["notes/a.md"] == f"{sound}\n".encode()


def test_a_file_written_where_another_body_has_a_directory_is_kept_beside_it() -> None:
    """MERGE-8, GUARD-6: what this body never had on disk, a record takes from nobody."""
    world, (one, two) = joined("laptop", "phone")
    one.write("notes/k.md", "old\n")
    world.settle()
    two.delete("notes/k.md")
    two.write("notes/k.md/in.md", "from the phone\n")
    two.settle()
    writer = one.tree.agent_open("notes/k.md")
    one.settle()
    one.write("notes/k.md", "from the laptop\n")
    writer.truncate()
    writer.write(b"from the laptop\n")
    writer.close()
    world.settle()
    for body in (one, two):
        assert body.text("notes/k.md/in.md") == "from the phone\n"
        assert body.text("notes/k~laptop.md") == "from the laptop\n"


def test_a_file_written_below_what_is_a_file_elsewhere_leaves_that_beside() -> None:
    """MERGE-8, GUARD-6: a folder of the agent's kept the file from coming here; writing into it deletes nothing."""
    world, (one, two) = joined("laptop", "phone")
    one.tree.agent_mkdir("notes/z.md")
    two.write("notes/z.md", "from the phone\n")
    world.settle()
    one.write("notes/z.md/in.md", "from the laptop\n")
    world.settle()
    for body in (one, two):
        assert body.text("notes/z.md/in.md") == "from the laptop\n"
        assert body.text("notes/z~phone.md") == "from the phone\n"
