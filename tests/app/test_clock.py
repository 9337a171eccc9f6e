"""A clock that nobody set, as a machine without a battery starts with (MERGE-6)."""

from __future__ import annotations

import pytest

from tests.app.bodies import fleet


@pytest.mark.parametrize("shown", [-500_000_000.0, -1.0, 0.0, 1_000_000_000.0])
def test_a_clock_that_was_never_set_makes_no_commit_of_long_ago(shown: float) -> None:
    """MERGE-6: git takes no time before 1970, and the others would have the word for ever after."""
    world = fleet()
    one, two = world.body("laptop"), world.body("phone")
    world.settle()
    before = min(commit.time for commit in one.repo.log(one.soul.head() or ""))
    one.clock.step(shown - one.clock.now())
    one.write("notes/a.md", "a\n")
    world.settle()
    assert two.files()["notes/a.md"] == b"a\n"
    times = [commit.time for commit in one.repo.log(one.soul.head() or "")]
    assert min(times) >= before and one.soul.head() == two.soul.head()
