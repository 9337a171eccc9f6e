"""Kill -9 between any two steps of a pass, start again: the same result."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator

import pytest

from tests.app.bodies import Body, Fleet, fleet
from tests.simulation.points import Crash, Watched

MEMORY = "memories/MEMORY.md"
Prepare = Callable[[Fleet, Body, Body], None]


def watch(body: Body, at: int) -> list[str]:
    """Let the body's next process die at a point; the points that it goes by."""
    passed: list[str] = []

    def point(label: str) -> None:
        passed.append(label)
        if len(passed) == at:
            raise Crash

    for name in ("repo", "seen", "tree", "remote"):
        setattr(body.soul, name, Watched(getattr(body, name), name, point))
    body.tree.checkpoint = point
    return passed


def recording(world: Fleet, one: Body, two: Body) -> None:
    """A local change of every kind."""
    one.write(MEMORY, "base\n§\nmine\n")
    one.write("notes/new.md", "new\n")
    one.write("SOUL.md", "# Kaoru\n\nmine\n")
    one.delete("notes/old.md")


def merging(world: Fleet, one: Body, two: Body) -> None:
    """Changes on both sides, some of them of the same paths."""
    recording(world, one, two)
    two.write(MEMORY, "base\n§\ntheirs\n")
    two.write("SOUL.md", "# Kaoru\n\ntheirs\n")
    two.write("notes/theirs.md", "theirs\n")
    two.delete("notes/other.md")
    two.settle()


def merging_later(world: Fleet, one: Body, two: Body) -> None:
    """The same, with ours recorded before."""
    merging(world, one, two)
    one.remote.unreachable = True
    one.settle()
    one.remote.heal()


def joining(world: Fleet, one: Body, two: Body) -> None:
    """A body that comes with old copies and words of its own."""
    two.write(MEMORY, "base\n§\nlater\n")
    two.write("notes/old.md", "changed\n")
    two.settle()
    recording(world, one, two)
    one.write("notes/old.md", "old\n")
    for path in one.seen.under(""):
        one.seen.put(path, None)
    one.seen.memory = {"birth": one.seen.memory["birth"]}
    one.repo.names.clear()


def being_written(world: Fleet, one: Body, two: Body) -> None:
    """What came out of an exchange is written on."""
    two.write(MEMORY, "base\n§\ntheirs\n")
    two.settle()
    held = one.tree._files[MEMORY]
    one.run()
    one.tree._fill(held, "base\n§\nlate\n".encode())


STORIES = [recording, merging, merging_later, joining, being_written]


def story(prepare: Prepare) -> tuple[Fleet, Body, Body]:
    """Two bodies, and what there is to do for the first."""
    world = fleet()
    one, two = world.body("laptop"), world.body("phone")
    one.write(MEMORY, "base\n")
    for name in ("old", "other", "third"):
        one.write(f"notes/{name}.md", f"{name}\n")
    world.settle()
    prepare(world, one, two)
    world.clock.advance(3)
    one.restart()
    return world, one, two


def ending(world: Fleet, one: Body, two: Body) -> dict[str, bytes]:
    """Everything at rest, times aside."""
    for _ in range(2):
        for body in (one, two):
            body.settle(3)
    assert one.files() == two.files() == world.published() == one.tracked()
    return {path: content for path, content in world.published().items() if not path.startswith("bodies/")}


def crashes(beginning: tuple[Fleet, Body, Body]) -> Iterator[int]:
    """Every point of the two passes after a start."""
    world, one, _ = beginning
    passed = watch(one, 0)
    one.run()
    world.clock.advance(3)
    one.run()
    yield from range(1, len(passed) + 1)


@pytest.mark.parametrize("prepare", STORIES, ids=[each.__name__ for each in STORIES])
def test_a_crash_at_any_point_changes_nothing_in_the_end(prepare: Prepare) -> None:
    """REPO-6, GUARD-4: objects, main, seen and files survive in that order, and the next pass finds its way."""
    beginning = story(prepare)
    expected = ending(*copy.deepcopy(beginning))
    for at in crashes(copy.deepcopy(beginning)):
        world, one, two = copy.deepcopy(beginning)
        passed = watch(one, at)
        try:
            one.run()
            world.clock.advance(3)
            one.run()
        except Crash:
            pass
        one.tree.checkpoint = lambda name: None
        one.restart()
        found = ending(world, one, two)
        assert found == expected, f"died at point {at}, {passed[-1]}"
