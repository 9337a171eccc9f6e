"""After everything came to rest, two bodies change the same things at once: small cases whose ending is known.

Whatever a world went through before, what it left in refs and memories must not change how these end.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.simulation.agent import DEEDS
from tests.simulation.oracle import published
from tests.simulation.world import Broken, SimBody, World

AHEAD = 300  # seconds that a commit's time may be ahead of a clock
MEMORY = "memories/duel.md"
EDIT, GONE, MOVED, NEW, CLASH = (f"notes/duel-{name}.md" for name in ("edit", "gone", "moved", "new", "clash"))
BEGINNING = {EDIT: "edit", GONE: "gone", MOVED: "moved", "notes/duel-kept.md": "kept", MEMORY: "one\n§\ntwo\n"}


@dataclass
class Duel:
    """Who publishes first, who merges, and when each of them recorded (seconds on its own clock)."""

    first: SimBody
    second: SimBody
    times: tuple[int, int] = (0, 0)


def fight(world: World, rest: Callable[[World], None]) -> None:
    """Raises Broken when a case ends otherwise than it must."""
    if len(world.bodies) < 2:
        return
    duel = Duel(*world.bodies[:2])
    for path, text in BEGINNING.items():
        DEEDS["write"](world, duel.first, path, text, "write")
    rest(world)
    _change(world, duel)
    winner = _winner(world, duel)
    rest(world)
    found = published(world)
    expected: dict[str, bytes | None] = {
        EDIT: winner.name.encode(),
        GONE: duel.second.name.encode(),
        MOVED: None,
        "notes/duel-moved-on.md": b"followed",
        NEW: winner.name.encode(),
        "notes/duel-kept.md": None,
        f"{CLASH}/in.md": b"below",
        CLASH: None,
        CLASH.removesuffix(".md") + f"~{duel.second.name}.md": b"beside",
        MEMORY: "two\n§\nof the first\n§\nof the second\n".encode(),
    }
    for path, content in expected.items():
        if found.get(path) != content:
            raise Broken(f"a duel over {path} ends with {found.get(path)!r} instead of {content!r}")


def _change(world: World, duel: Duel) -> None:
    """Each changes its files without knowing of the other, and records that."""
    deeds: list[tuple[SimBody, list[list[str]]]] = [
        (
            duel.first,
            [
                ["write", EDIT, duel.first.name, "write"],
                ["delete", GONE],
                ["move", MOVED, "notes/duel-moved-on.md"],
                ["write", NEW, duel.first.name, "rename"],
                ["delete", "notes/duel-kept.md"],
                ["write", f"{CLASH}/in.md", "below", "write"],
                ["write", MEMORY, "one\n§\ntwo\n§\nof the first\n", "write"],
            ],
        ),
        (
            duel.second,
            [
                ["write", EDIT, duel.second.name, "write"],
                ["write", GONE, duel.second.name, "append"],
                ["write", MOVED, "followed", "rename"],
                ["write", NEW, duel.second.name, "write"],
                ["write", CLASH, "beside", "write"],
                ["write", MEMORY, "two\n§\nof the second\n", "write"],
            ],
        ),
    ]
    times = []
    for body, steps in deeds:
        for name, *words in steps:
            DEEDS[name](world, body, *words)
        for _ in range(2):
            world.advance(1.0)
            times.append(int(body.clock.now()))
            world.run(body, {"look": "full", "remote": False, "publish": False}, lambda step: None)
    duel.times = times[0], times[2]
    for body in (duel.first, duel.second):
        world.run(body, {"look": "full"}, lambda step: None)


def _winner(world: World, duel: Duel) -> SimBody:
    """The newer one, as the second body sees it when it merges (MERGE-6)."""
    now, last = int(duel.second.clock.now()), duel.second.seen.recall("clock")
    if last is not None and now + AHEAD < last:
        return duel.first
    first, second = (time if time <= now + AHEAD else -1 for time in duel.times)
    return duel.second if second > first else duel.first
