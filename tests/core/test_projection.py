"""What a framework with a limit gets, and that its answer deletes nothing it was not given."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bridge.core import projection

ENTRIES = st.lists(st.text(alphabet="abc", min_size=1, max_size=6), max_size=8)


@given(entries=ENTRIES, limit=st.integers(0, 40) | st.none())
def test_a_framework_gets_whole_entries_within_its_limit(entries: list[str], limit: int | None) -> None:
    """FRAMEWORK-1"""
    found = projection.project(entries, limit)
    assert limit is None or len(projection.JOINT.join(found.kept)) <= limit
    assert sorted([*found.kept, *found.left_out]) == sorted(found.whole) == sorted(set(entries))
    assert projection.project(found.kept, limit).kept == found.kept


@given(entries=ENTRIES, limit=st.integers(0, 40))
def test_what_comes_back_unchanged_changes_nothing(entries: list[str], limit: int) -> None:
    """FRAMEWORK-1"""
    found = projection.project(entries, limit)
    assert projection.take_back(found, found.kept) == found.whole


@given(entries=ENTRIES, limit=st.integers(0, 40), returned=ENTRIES)
def test_what_was_left_out_is_never_deleted(entries: list[str], limit: int, returned: list[str]) -> None:
    """FRAMEWORK-1: what was given and is gone is deleted, what is new is added, all else stays."""
    found = projection.project(entries, limit)
    back = projection.take_back(found, returned)
    assert set(back) == set(found.left_out) | set(returned)


def test_a_limit_may_count_something_else_than_letters() -> None:
    """FRAMEWORK-1"""
    found = projection.project(["海海", "a"], 4, measure=lambda text: len(text.encode()))
    assert found.kept == ("a",)
