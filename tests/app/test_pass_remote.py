"""The pass and a remote that refuses, forgets, is rewritten, loses answers or was quicker for somebody else."""

from __future__ import annotations

import pytest

from bridge.core import cycle
from bridge.core.errors import Moved
from bridge.fakes.repo import FakeRepo
from tests.app.bodies import Body, Fleet, fleet

MAIN = "refs/heads/main"


def joined(*names: str) -> tuple[Fleet, list[Body]]:
    """Bodies that know each other and have nothing left to do."""
    world = fleet()
    bodies = [world.body(name) for name in names]
    world.settle()
    return world, bodies


def test_an_unreachable_remote_keeps_nobody_from_recording() -> None:
    """Work is safe locally and published when the remote is back."""
    world, (one,) = joined("laptop")
    one.remote.unreachable = True
    one.write("notes/a.md", "a\n")
    outcome = one.settle()
    assert outcome.outcome == "offline" and outcome.ending is cycle.Ending.TRANSIENT
    assert "notes/a.md" in one.tracked() and "notes/a.md" not in world.published()
    one.remote.heal()
    assert one.run().pushed and "notes/a.md" in world.published()


def test_a_lost_answer_of_a_push_that_arrived_is_a_push() -> None:
    """COMMIT-2: the remote's tip is read again before anything is decided."""
    world, (one,) = joined("laptop")
    one.write("notes/a.md", "a\n")
    one.run()
    world.clock.advance(1)
    one.remote.drops = 1
    outcome = one.run()
    assert outcome.outcome == "ok" and outcome.pushed
    assert one.soul.head() == world.server.tip(MAIN) == outcome.remote_tip
    pushes = one.remote.pushes
    one.settle()
    assert one.remote.pushes == pushes


def test_a_lost_answer_of_a_push_that_did_not_arrive_is_tried_again() -> None:
    """COMMIT-2: the same commit, not another one."""
    world, (one,) = joined("laptop")
    one.write("notes/a.md", "a\n")
    one.run()
    world.clock.advance(1)
    one.remote.swallows = 1
    assert one.run().outcome == "offline"
    head = one.soul.head()
    assert one.run().pushed and world.server.tip(MAIN) == head


def test_a_lost_answer_and_a_crash_after_it_lose_nothing() -> None:
    """REPO-6: what this body published itself is not joined again."""
    world = fleet()
    one = world.body("laptop")
    one.write("notes/a.md", "a\n")
    one.run()
    world.clock.advance(1)
    one.remote.drops = 1
    one.remote.fetch = lambda known: (_ for _ in ()).throw(KeyboardInterrupt)  # type: ignore[method-assign]
    one.soul.seen.remember("alone", True)
    with pytest.raises(KeyboardInterrupt):
        one.run()
    one.restart()
    del one.remote.fetch  # type: ignore[method-assign]
    one.settle()
    assert one.soul.head() == world.server.tip(MAIN)
    assert "joined" not in " ".join(one.soul.repo.refs("refs/soul-bridge/"))
    assert one.text("notes/a.md") == "a\n"


def test_a_read_only_key_still_brings_what_others_wrote() -> None:
    """AUTH-3: what is merged reaches the disk though the push is refused."""
    world, (one, two) = joined("laptop", "phone")
    two.write("notes/a.md", "a\n")
    two.settle()
    one.remote.make_read_only()
    one.write("notes/b.md", "b\n")
    outcome = one.settle()
    assert outcome.outcome == "refused" and outcome.ending is cycle.Ending.REFUSED
    assert outcome.problem is not None and outcome.problem.kind == "auth"
    assert one.text("notes/a.md") == "a\n" and "notes/b.md" in one.tracked()
    one.remote.heal()
    world.settle()
    assert two.text("notes/b.md") == "b\n"


def test_what_came_with_a_refused_push_is_on_disk_after_that_very_pass() -> None:
    """AUTH-3, AUTH-5: a pass that had both to publish and to take in does not end where it is refused."""
    _, (one, two) = joined("laptop", "phone")
    two.write("notes/a.md", "a\n")
    two.settle()
    one.remote.make_read_only()
    one.write("notes/b.md", "b\n")
    outcome = one.run(waive=True)
    assert outcome.outcome == "refused" and "notes/b.md" in outcome.recorded
    assert one.text("notes/a.md") == "a\n"


def test_a_revoked_body_keeps_recording_and_resumes_by_itself() -> None:
    """AUTH-5: it publishes nothing meanwhile."""
    world, (one, two) = joined("laptop", "phone")
    one.remote.revoke()
    one.write("notes/a.md", "a\n")
    assert one.settle().outcome == "refused"
    assert "notes/a.md" in one.tracked() and "notes/a.md" not in world.published()
    one.remote.heal()
    world.settle()
    assert two.text("notes/a.md") == "a\n"


def test_a_lost_race_drops_the_candidate_and_is_run_again() -> None:
    """COMMIT-2: somebody else pushed between our fetch and our push; no commit of the lost merge stays."""
    world, (one, two) = joined("laptop", "phone")
    for body, name in ((one, "one"), (two, "two")):
        body.remote.unreachable = True
        body.write(f"notes/{name}.md", f"{name}\n")
        body.settle()
        body.remote.heal()
    two.run()
    push, sent = one.remote.push, []

    def too_late(expected: str | None, new: str) -> None:
        sent.append(new)
        raise Moved("the remote's main moved")

    one.remote.push = too_late  # type: ignore[method-assign]
    head = one.soul.head()
    outcome = one.run()
    assert outcome.outcome == "moved" and outcome.ending is cycle.Ending.MOVED
    assert len(sent) == 2 and one.soul.head() == head and not outcome.merged
    one.remote.push = push  # type: ignore[method-assign]
    world.settle()
    assert world.published()["notes/one.md"] == b"one\n" and world.published()["notes/two.md"] == b"two\n"


def test_a_restored_backup_is_brought_forward_at_the_second_look() -> None:
    """REPO-4: the remote stands at an ancestor of what it had."""
    world, (one, two) = joined("laptop", "phone")
    one.write("notes/a.md", "a\n")
    world.settle()
    tip = world.server.tip(MAIN) or ""
    one.remote.rewrite(world.server.info(tip).parents[0])
    first = one.run()
    assert first.outcome == "offline" and first.problem is not None and first.problem.rule == "REPO-4"
    assert world.server.tip(MAIN) != tip
    second = one.run()
    assert second.outcome == "ok" and second.pushed and "forward" in second.sentence
    assert world.server.tip(MAIN) == tip
    assert two.run().outcome == "ok"


def test_a_remote_that_lost_its_main_is_brought_forward_too() -> None:
    """REPO-4: an empty repository in place of the known one."""
    world, (one,) = joined("laptop")
    tip = world.server.tip(MAIN)
    one.remote.rewrite(None)
    assert one.run().outcome == "offline"
    assert one.run().pushed and world.server.tip(MAIN) == tip


def test_a_backup_that_is_taken_back_meanwhile_is_no_backup() -> None:
    """REPO-4: only two looks in a row count."""
    world, (one,) = joined("laptop")
    one.write("notes/a.md", "a\n")
    one.settle()
    tip = world.server.tip(MAIN) or ""
    older = world.server.info(tip).parents[0]
    one.remote.rewrite(older)
    one.run()
    one.remote.rewrite(tip)
    assert one.run().outcome == "ok"
    one.remote.rewrite(older)
    assert one.run().outcome == "offline"


def test_a_rewritten_remote_is_refused_while_local_commits_go_on() -> None:
    """REPO-4: neither merged nor pushed; a person decides."""
    world, (one,) = joined("laptop")
    _rewrite(world.server)
    other = world.server.tip(MAIN)
    one.write("notes/a.md", "a\n")
    outcome = one.settle()
    assert outcome.outcome == "refused" and outcome.problem is not None and outcome.problem.kind == "rewritten"
    assert "notes/a.md" in one.tracked() and world.server.tip(MAIN) == other
    assert "accept-remote" in outcome.problem.advice


def _rewrite(server: FakeRepo) -> None:
    tip = server.tip(MAIN) or ""
    server.names[MAIN] = server.commit(server.info(tip).tree, [], "P (p)", "a@b", "squashed", 9)
    server.flush()


def test_a_refusal_by_the_server_is_said_in_its_words() -> None:
    """COMMIT-2: success is what the server said."""
    world, (one,) = joined("laptop")
    one.remote.hook = lambda server, expected, new: "hook: no thanks"
    one.write("notes/a.md", "a\n")
    outcome = one.settle()
    assert outcome.outcome == "refused" and outcome.problem is not None
    assert outcome.problem.kind == "rejected" and "no thanks" in outcome.problem.message
    assert "notes/a.md" not in world.published()


def test_without_the_word_remote_a_pass_asks_nobody() -> None:
    """A pass that only looks at the files, and one that only publishes."""
    world, (one,) = joined("laptop")
    fetches, pushes = one.remote.fetches, one.remote.pushes
    one.write("notes/a.md", "a\n")
    one.settle(remote=False, publish=False)
    assert (one.remote.fetches, one.remote.pushes) == (fetches, pushes)
    one.run(remote=False)
    assert (one.remote.fetches, one.remote.pushes) == (fetches, pushes + 1)
    assert "notes/a.md" in world.published()
