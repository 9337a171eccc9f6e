"""Kill -9 between any two steps of a search for what a server refuses, start again: nothing lost, nothing half."""

from __future__ import annotations

import contextlib
import copy

import pytest

from bridge.fakes.remote import accept
from tests.app.bodies import Body, Fleet, fleet
from tests.app.test_pass_crash import watch
from tests.app.test_withholding import MEMORY, entries, judged, scan
from tests.simulation.points import Crash


def beginning(first: bool) -> tuple[Fleet, Body]:
    """A body whose next passes search: what it wrote holds secrets, and others wrote meanwhile. first: nobody did, for
    it is the first push of the soul."""
    world = fleet()
    one, two = world.body("laptop"), world.body("phone")
    one.write(MEMORY, "base\n")
    if not first:
        world.settle()
        two.write(MEMORY, "base\n§\nfrom the phone\n")
        two.settle()
    judged(world, lambda server, expected, new: scan(server, expected, new, "a secret was found"))
    one.write(MEMORY, "base\n§\nmine\n")
    one.write("notes/a.md", "a\n")
    one.write("notes/b.md", "SECRET\n")
    one.write("notes/c.md", "c\n")
    world.clock.advance(3)
    one.restart()
    return world, one


def search(world: Fleet, one: Body) -> None:
    """The passes that may die."""
    for now in (False, False, True):
        one.run(now=now)
        world.clock.advance(3)


def rest(world: Fleet) -> None:
    """Everything at rest."""
    for _ in range(2):
        for body in world.bodies.values():
            body.settle(3)


@pytest.mark.parametrize("first", [False, True])
def test_a_crash_at_any_point_of_a_search_loses_nothing_and_leaves_nothing_half(first: bool) -> None:
    """REPO-8: main as it was, or paths withheld; what the server accepts in the end is everything."""
    start = beginning(first)
    world, one = copy.deepcopy(start)
    passed = watch(one, 0)
    search(world, one)
    for at in range(1, len(passed) + 1):
        world, one = copy.deepcopy(start)
        labels = watch(one, at)
        with contextlib.suppress(Crash):
            search(world, one)
        one.tree.checkpoint = lambda name: None
        one.restart()
        said = f"died at point {at}, {labels[-1]}"
        one.settle(3)
        world.clock.advance(200)
        rest(world)
        assert one.run().held.keys() <= {"notes/b.md"}, said
        assert one.files() | {"notes/b.md": b""} == world.published() | {"notes/b.md": b""}, said
        assert one.text("notes/b.md") == "SECRET\n" and world.published()["notes/c.md"] == b"c\n", said
        judged(world, accept)
        one.run(now=True)
        rest(world)
        two = world.bodies["phone"]
        assert one.files() == two.files() == world.published() == one.tracked(), said
        assert entries(two) == {"base", "mine"} | ({"from the phone"} if not first else set()), said
        assert two.text("notes/b.md") == "SECRET\n", said
