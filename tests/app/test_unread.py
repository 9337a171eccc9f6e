"""MERGE-12 at its edges: what a write had not read it takes out of no memory, however it was written."""

from __future__ import annotations

import pytest

from bridge.app import conflicts
from tests.app.bodies import Body, joined

PROJECTS = "memories/projects.md"
OLD, NEW = "old", "from the phone"


def text(*entries: str) -> str:
    return "\n§\n".join(entries) + "\n"


def entries_of(body: Body) -> set[str]:
    return set((body.text(PROJECTS) or "").strip().split("\n§\n"))


def unread(*first: str) -> tuple[Body, Body]:
    """Two bodies, and a memory with these entries; nobody reads anything on the first one from then on."""
    world, (one, two) = joined("laptop", "phone")
    if first:
        one.write(PROJECTS, text(*first))
        world.settle()
    one.soul.boot, one.soul.was_read = "this start", lambda path, since: False
    two.write(PROJECTS, text(*first, NEW))
    for body in (two, one):
        body.settle()
    assert NEW in entries_of(one)
    return one, two


def agree(one: Body, two: Body) -> None:
    for body in (one, two, one):
        body.settle()
    assert one.text(PROJECTS) == two.text(PROJECTS)


def test_a_write_over_a_memory_that_has_just_come_into_being_takes_nothing_out() -> None:
    """Who writes a file that it does not know of has read nothing of it."""
    one, two = unread()
    one.write(PROJECTS, text("mine"))
    agree(one, two)
    assert entries_of(one) == {NEW, "mine"}


def test_a_memory_that_went_and_came_again_is_as_unread_as_a_new_one() -> None:
    one, two = unread(OLD)
    two.delete(PROJECTS)
    two.settle()
    one.settle()
    two.write(PROJECTS, text("second life"))
    two.settle()
    one.settle()
    one.write(PROJECTS, text("mine"))
    agree(one, two)
    assert {"second life", "mine"} <= entries_of(one)


def test_a_removal_takes_out_what_was_read_and_no_more() -> None:
    """Some agents remove a file and make it anew."""
    one, two = unread(OLD)
    one.delete(PROJECTS)
    one.settle()
    one.write(PROJECTS, text("mine"))
    agree(one, two)
    assert entries_of(one) == {NEW, "mine"}


def test_a_memory_under_a_new_name_leaves_nothing_at_the_old_one() -> None:
    """MERGE-7: who moves a file takes along what it did not read."""
    one, two = unread(OLD)
    one.write("memories/plans.md", one.text(PROJECTS) or "")
    one.delete(PROJECTS)
    agree(one, two)
    assert one.text(PROJECTS) is None and two.text("memories/plans.md") == text(OLD, NEW)


def test_a_stale_copy_that_is_no_text_hides_nothing_that_came_in() -> None:
    """MERGE-6: such a file cannot be merged by its entries, so the whole version that loses is listed."""
    one, two = unread(OLD)
    stale = "old\n§\nminé".encode()[:-1]
    one.tree.agent_write(PROJECTS, stale)
    for body in (one, two, one):
        body.settle()
    lost = {one.repo.read(each.blob) for each in conflicts.listed(one.repo, one.soul.clock.now())}
    assert text(OLD, NEW).encode() in lost | {one.tree.agent_read(PROJECTS)}


@pytest.mark.parametrize("seconds", [3 * 86400.0, -3 * 86400.0])
def test_a_clock_that_is_set_makes_nothing_read(seconds: float) -> None:
    """A machine without a clock of its own learns the time after it began to work."""
    one, two = unread(OLD)
    one.clock.step(seconds)
    one.write(PROJECTS, text(OLD, "mine"))
    agree(one, two)
    assert NEW in entries_of(one)


def test_what_came_with_the_file_itself_and_was_read_goes_without_a_word() -> None:
    """On a body that has just joined everything came that day; a consolidation there is no conflict."""
    world, (one, two) = joined("laptop", "phone")
    two.write(PROJECTS, text(OLD, NEW))
    world.settle()
    one.write(PROJECTS, text(NEW))
    agree(one, two)
    assert entries_of(two) == {NEW} and conflicts.listed(one.repo, one.soul.clock.now()) == []
