"""Commits that no branch holds are kept for a while, and not for ever."""

from __future__ import annotations

from bridge.app import standing
from bridge.core import publish
from tests.app.bodies import fleet

A_DAY = 86400.0


def test_a_kept_commit_goes_after_thirty_days_and_not_before() -> None:
    """REPO-7: what a person's reset took off main can be had back for a month."""
    world = fleet()
    one = world.body("laptop")
    one.settle()
    standing.keep(one.soul, one.soul.head() or "")
    standing.let_go(one.soul)
    for _ in range(30):
        one.clock.advance(A_DAY)
        standing.let_go(one.soul)
        assert len(one.repo.refs(publish.KEEP)) == 1
    one.clock.advance(A_DAY)
    standing.let_go(one.soul, {one.soul.head() or ""})
    assert len(one.repo.refs(publish.KEEP)) == 1, "somebody needs it"
    standing.let_go(one.soul)
    assert one.repo.refs(publish.KEEP) == {}
    assert one.soul.seen.recall(standing.KEPT) is None


def test_a_clock_that_jumped_ahead_once_is_not_thirty_days() -> None:
    """REPO-7: the time a commit was kept begins when it is first looked at, and again after a clock set back."""
    world = fleet()
    one = world.body("laptop")
    one.settle()
    standing.keep(one.soul, one.soul.head() or "")
    one.clock.step(100 * A_DAY)
    standing.let_go(one.soul)
    one.clock.step(-100 * A_DAY)
    standing.let_go(one.soul)
    one.clock.advance(20 * A_DAY)
    standing.let_go(one.soul)
    assert len(one.repo.refs(publish.KEEP)) == 1
