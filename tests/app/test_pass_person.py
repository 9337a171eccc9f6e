"""The pass and a person who uses git in the checkout (REPO-7)."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from bridge.app import byhand, leasing, publishing, repairing
from bridge.core import cycle
from bridge.core.errors import Moved
from bridge.core.model import CheckoutState, File
from tests.app.bodies import Body, Fleet, fleet

MAIN = "refs/heads/main"


def grown(*names: str) -> tuple[Fleet, list[Body]]:
    """Bodies that know each other, with a note in two versions."""
    world = fleet()
    bodies = [world.body(name) for name in names]
    world.settle()
    for text in ("first\n", "second\n"):
        bodies[0].write("notes/a.md", text)
        world.settle()
    return world, bodies


def by_hand(body: Body, parent: str, changes: dict[str, str | None], ago: float = 0.0) -> str:
    """A person's commit on top of a commit, not yet on any branch. ago: seconds."""
    files = {p: None if text is None else File(body.repo.write(text.encode())) for p, text in changes.items()}
    tree = body.repo.edit(body.repo.info(parent).tree, files)
    made = body.repo.commit(
        tree, [parent], "A Person", "person@example.invalid", "by hand", int(body.clock.now() - ago)
    )
    body.repo.flush()
    return made


def test_a_commit_by_hand_on_top_of_main_is_accepted() -> None:
    """REPO-7: and published like ours."""
    world, (one, two) = grown("laptop", "phone")
    one.write("notes/a.md", "by hand\n")
    one.repo.names[MAIN] = commit = by_hand(one, one.soul.head() or "", {"notes/a.md": "by hand\n"})
    world.settle()
    assert two.text("notes/a.md") == "by hand\n"
    assert two.repo.is_ancestor(commit, two.soul.head() or "")


def test_a_commit_by_hand_of_a_memory_that_waits_takes_out_nothing_that_was_not_on_disk_yet() -> None:
    """REPO-7, GUARD-5: what was merged meanwhile stays, what the person took out is out."""
    world, (one, two) = grown("laptop", "phone")
    memory = "memories/MEMORY.md"
    one.write(memory, "a\n§\nb\n§\nc\n§\nd\n")
    world.settle()
    one.write(memory, "a\n")
    one.settle()
    two.write(memory, "a\n§\nb\n§\nc\n§\nd\n§\nfrom the phone\n")
    two.settle()
    one.settle()
    assert one.text(memory) == "a\n"
    head = one.soul.head() or ""
    assert "from the phone" in one.repo.read(one.repo.entry(one.repo.info(head).tree, memory).oid).decode()
    one.repo.names[MAIN] = commit = by_hand(one, head, {memory: "a\n"})
    world.settle()
    assert one.text(memory) == two.text(memory) == "a\n§\nfrom the phone\n" and not one.run().recorded
    assert one.repo.is_ancestor(commit, two.soul.head() or "")


def test_a_commit_by_hand_of_a_note_that_waits_keeps_the_newer_version_where_conflicts_finds_it() -> None:
    """REPO-7, MERGE-6: the person's is the newest, the other is told as lost."""
    world, (one, two) = grown("laptop", "phone")
    two.write("notes/a.md", "from the phone\n")
    two.settle()
    writer = one.tree.agent_open("notes/a.md")
    one.settle()
    assert one.text("notes/a.md") == "second\n"
    head = one.soul.head() or ""
    lost = one.repo.entry(one.repo.info(head).tree, "notes/a.md")
    writer.truncate()
    writer.write(b"by hand\n")
    one.repo.names[MAIN] = by_hand(one, head, {"notes/a.md": "by hand\n"})
    outcome = one.run()
    assert lost is not None and one.text("notes/a.md") == "by hand\n" and outcome.lost == ("notes/a.md",)
    assert f"Lost: {lost.oid}" in one.repo.info(one.soul.head() or "").message
    writer.close()
    world.settle()
    assert two.text("notes/a.md") == one.text("notes/a.md") == "by hand\n"


def test_what_was_committed_by_hand_and_written_back_before_we_looked_is_written_back() -> None:
    """REPO-7: what was committed had been on disk; nobody undoes what the agent did after that."""
    world, (one, two) = grown("laptop", "phone")
    one.write("notes/a.md", "by hand\n")
    one.repo.names[MAIN] = by_hand(one, one.soul.head() or "", {"notes/a.md": "by hand\n"})
    one.write("notes/a.md", "second\n")
    world.settle()
    assert one.text("notes/a.md") == two.text("notes/a.md") == "second\n"


def test_a_commit_that_was_made_without_the_working_file_comes_to_it() -> None:
    """REPO-7: nobody touched the file, so it did not say otherwise."""
    world, (one, two) = grown("laptop", "phone")
    one.clock.advance(10.0)
    one.settle()
    one.repo.names[MAIN] = by_hand(one, one.soul.head() or "", {"notes/a.md": "from nowhere\n"})
    world.settle()
    assert one.text("notes/a.md") == two.text("notes/a.md") == "from nowhere\n"


def test_a_file_that_left_the_index_only_stays() -> None:
    """REPO-7, GUARD-6: it is there, so it is recorded."""
    world, (one, two) = grown("laptop", "phone")
    one.repo.names[MAIN] = by_hand(one, one.soul.head() or "", {"notes/a.md": None})
    world.settle()
    assert one.text("notes/a.md") == two.text("notes/a.md") == "second\n"


def test_a_commit_of_the_files_as_they_were_right_before_we_wrote_them_undoes_nothing() -> None:
    """REPO-7: between main's move and the working file's, a person's `commit --all` takes the old version."""
    world, (one, two) = grown("laptop", "phone")
    two.write("notes/a.md", "third\n")
    world.settle()
    one.repo.names[MAIN] = by_hand(one, one.soul.head() or "", {"notes/a.md": "second\n"}, ago=60.0)
    world.settle()
    assert one.text("notes/a.md") == two.text("notes/a.md") == "third\n"


def test_a_hard_reset_becomes_a_recorded_undo() -> None:
    """REPO-7: main is put back, the files are observed, so nothing of what was published is taken away."""
    world, (one, two) = grown("laptop", "phone")
    head = one.soul.head() or ""
    one.repo.names[MAIN] = one.repo.info(head).parents[0]
    one.write("notes/a.md", "first\n")
    one.settle()
    assert one.repo.is_ancestor(head, one.soul.head() or "")
    world.settle()
    assert one.text("notes/a.md") == two.text("notes/a.md") == "first\n"


def test_a_soft_reset_is_nothing() -> None:
    """REPO-7: main is put back where it was."""
    world, (one,) = grown("laptop")
    head = one.soul.head() or ""
    one.repo.names[MAIN] = one.repo.info(head).parents[0]
    outcome = one.settle()
    assert one.repo.tip(MAIN) == head == world.server.tip(MAIN) and not outcome.recorded


def test_an_amended_commit_is_kept_under_a_ref_and_its_files_are_read() -> None:
    """REPO-7: main stands where it stood, plus what the files hold."""
    world, (one,) = grown("laptop")
    head = one.soul.head() or ""
    amended = by_hand(one, one.repo.info(head).parents[0], {"notes/a.md": "amended\n"})
    one.write("notes/a.md", "amended\n")
    one.repo.names[MAIN] = amended
    one.settle()
    assert one.repo.tip("refs/soul-bridge/keep/" + amended) == amended
    assert one.repo.is_ancestor(head, one.soul.head() or "")
    assert world.published()["notes/a.md"] == b"amended\n"


def test_a_deleted_main_is_put_back() -> None:
    """REPO-7: where main stands is ours to say."""
    world, (one,) = grown("laptop")
    head = one.soul.head()
    del one.repo.names[MAIN]
    one.settle()
    assert one.repo.tip(MAIN) == head == world.server.tip(MAIN)


@pytest.mark.parametrize(
    "state",
    [
        CheckoutState(None),
        CheckoutState("refs/heads/experiment"),
        CheckoutState(MAIN, "a rebase is going on"),
        CheckoutState(MAIN, "index.lock is 3 s old"),
    ],
)
def test_the_pass_stands_off_while_a_person_works(state: CheckoutState) -> None:
    """REPO-7: nothing is recorded or written; it says what is waited for, and goes on by itself."""
    world, (one, two) = grown("laptop", "phone")
    one.repo.checkout = state
    one.write("notes/b.md", "b\n")
    two.write("notes/c.md", "c\n")
    world.settle()
    outcome = one.run()
    assert outcome.outcome == "waiting" and outcome.ending is cycle.Ending.QUIET
    assert outcome.problem is not None and outcome.problem.rule == "REPO-7"
    assert "notes/b.md" not in one.tracked() and one.text("notes/c.md") is None
    one.repo.checkout = CheckoutState(MAIN)
    world.settle()
    assert one.files() == two.files() == world.published()


def test_one_more_look_comes_right_before_main_moves() -> None:
    """REPO-7: a rebase that begins in the middle of a pass finds main where it was."""
    world, (one,) = grown("laptop")
    one.write("notes/b.md", "b\n")
    one.run()
    world.clock.advance(1)
    looks = iter([CheckoutState(MAIN), CheckoutState(MAIN, "a rebase is going on")])
    one.repo.state = lambda: next(looks)  # type: ignore[method-assign]
    head = one.soul.head()
    assert one.run().outcome == "waiting"
    assert one.repo.tip(MAIN) == head
    del one.repo.state  # type: ignore[method-assign]
    one.settle()
    assert "notes/b.md" in world.published()


def test_a_reset_in_the_middle_of_a_pass_takes_nothing_back() -> None:
    """REPO-7: main moves only from where we left it, never from where a person put it meanwhile."""
    world, (one,) = grown("laptop")
    one.write("notes/b.md", "b\n")
    one.run()
    world.clock.advance(1)
    head = one.soul.head() or ""
    flush = one.repo.flush

    def reset_meanwhile() -> None:
        flush()
        one.repo.names[MAIN] = one.repo.info(head).parents[0]

    one.repo.flush = reset_meanwhile  # type: ignore[method-assign]
    assert one.run().outcome == "moved"
    del one.repo.flush  # type: ignore[method-assign]
    world.settle()
    assert one.repo.is_ancestor(head, one.soul.head() or "")
    assert world.published()["notes/b.md"] == b"b\n" and world.published()["notes/a.md"] == b"second\n"


def test_the_index_follows_what_was_materialised() -> None:
    """REPO-7: a person's `git status` is clean."""
    _, (one, two) = grown("laptop", "phone")
    assert one.repo.indexed == one.soul.tree_of(one.soul.head())
    assert two.repo.indexed == two.soul.tree_of(two.soul.head())


def test_a_second_commit_by_hand_before_the_first_was_settled_is_settled_with_it(monkeypatch: Any) -> None:
    """REPO-7, GUARD-5: whatever came between, nothing is taken out that was not on disk yet."""
    world, (one, two) = grown("laptop", "phone")
    memory = "memories/MEMORY.md"
    one.write(memory, "a\n§\nb\n§\nc\n§\nd\n")
    world.settle()
    one.write(memory, "a\n")
    one.settle()
    two.write(memory, "a\n§\nb\n§\nc\n§\nd\n§\nfrom the phone\n")
    two.settle()
    one.settle()
    one.repo.names[MAIN] = by_hand(one, one.soul.head() or "", {memory: "a\n"})
    with monkeypatch.context() as patch:
        patch.setattr(byhand, "settle", lambda soul, progress: (_ for _ in ()).throw(Moved("cut short")))
        one.run()
    one.repo.names[MAIN] = by_hand(one, one.soul.head() or "", {"notes/b.md": "more\n"})
    one.write("notes/b.md", "more\n")
    world.settle()
    assert one.text(memory) == two.text(memory) == "a\n§\nfrom the phone\n"


def test_a_commit_by_hand_of_a_stale_copy_deletes_nothing_that_its_writer_had_not_read() -> None:
    """MERGE-12, REPO-7: it is a local write like any other, whoever commits it."""
    world, (one, two) = grown("laptop", "phone")
    memory = "memories/MEMORY.md"
    one.write(memory, "a\n§\nb\n")
    world.settle()
    two.write(memory, "a\n§\nb\n§\nfrom the phone\n")
    two.settle()
    one.settle()
    one.soul.was_read = lambda path, since: False
    one.write(memory, "a\n§\nnew\n")
    one.repo.names[MAIN] = by_hand(one, one.soul.head() or "", {memory: "a\n§\nnew\n"})
    world.settle()
    assert one.text(memory) == two.text(memory)
    assert sorted(one.text(memory).rstrip("\n").split("\n§\n")) == ["a", "from the phone", "new"]


def test_an_old_copy_of_the_checkout_laid_over_it_takes_back_nothing_that_was_recorded_since() -> None:
    """REPO-7: what this body brought its files to is remembered outside of the checkout; it goes on from there."""
    world, (one, two) = grown("laptop", "phone")
    copied = copy.deepcopy((one.seen.entries, one.seen.memory, one.soul.head(), one.tree.paths()))
    one.remote.unreachable = True
    one.write("memories/MEMORY.md", "not published yet\n")
    one.settle()
    newest = one.soul.head()
    entries, memory, one.repo.names[MAIN], files = copied
    one.seen.entries, one.seen.memory = entries, memory
    one.write("memories/MEMORY.md", files["memories/MEMORY.md"].decode())
    one.restart()
    repairing.bring_forward(one.soul, newest)
    one.remote.heal()
    world.settle()
    assert one.text("memories/MEMORY.md") == two.text("memories/MEMORY.md") == "not published yet\n"
    assert newest is not None and one.repo.is_ancestor(newest, world.server.tip(MAIN) or "")


def test_a_checkout_that_is_as_it_was_left_is_not_brought_anywhere() -> None:
    """REPO-7"""
    _, (one,) = grown("laptop")
    head = one.soul.head()
    for commit in (None, head, "0" * 40, one.repo.info(head or "").parents[0]):
        repairing.bring_forward(one.soul, commit)
        assert one.seen.recall("main") == head


@pytest.mark.parametrize("others", [1, 0])
def test_the_remotes_last_tip_that_a_persons_housekeeping_took_comes_again(
    others: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """REPO-7: while main waits for a person no ref holds it; what this body still has of it is enough to ask again."""
    world, (one, *rest) = grown("laptop", *["phone"][:others])
    for two in rest:
        two.write("notes/b.md", "from the phone\n")
        two.settle()
    one.write("notes/a.md", "from the laptop\n")
    with monkeypatch.context() as patch:
        # The merge is published; that main goes there is what the person keeps from happening.
        patch.setattr(publishing, "_adopt", lambda *_: (_ for _ in ()).throw(Moved("main is not checked out")))
        one.settle(passes=2)
    pushed, head = one.seen.recall("remote"), one.soul.head()
    if others:
        assert pushed != head
    for lost in [each.oid for each in one.repo.log(pushed, head)]:
        del one.repo.objects[lost]
    one.restart()
    repairing.find_remote_again(one.soul)
    assert one.repo.has(one.seen.recall("remote"))
    world.settle()
    assert world.server.is_ancestor(pushed, world.server.tip(MAIN) or "")
    assert one.text("notes/a.md") == "from the laptop\n" and one.soul.head() == world.server.tip(MAIN)


def test_a_body_alone_whose_published_commits_are_gone_asks_from_its_first_one_on() -> None:
    """REPO-7"""
    world, (one,) = grown("laptop")
    first = [each.oid for each in one.repo.log(one.soul.head() or "")][-1]
    one.seen.remember("remote", "0" * 40)
    repairing.find_remote_again(one.soul)
    assert one.seen.recall("remote") == first
    world.settle()
    assert one.seen.recall("remote") == world.server.tip(MAIN)


def test_a_remotes_last_tip_that_is_here_stays_remembered() -> None:
    _, (one,) = grown("laptop")
    known = one.seen.recall("remote")
    repairing.find_remote_again(one.soul)
    assert one.seen.recall("remote") == known is not None


@pytest.mark.parametrize("committed", ["no lease\n", None])
def test_a_person_commits_no_lease(committed: str | None) -> None:
    """MERGE-10: who holds it is what a body published; what lies there otherwise is put back, committed or not."""
    world, (one, two) = grown("laptop", "phone")
    leasing.acquire(two.soul, 600.0)
    world.settle()
    lease = two.text("locks/consolidation.json")
    assert lease and one.text("locks/consolidation.json") == lease
    if committed is not None:
        one.write("locks/consolidation.json", committed)
    one.repo.names[MAIN] = by_hand(one, one.soul.head() or "", {"locks/consolidation.json": committed})
    world.settle()
    assert one.text("locks/consolidation.json") == two.text("locks/consolidation.json") == lease
