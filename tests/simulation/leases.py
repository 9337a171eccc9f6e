"""Bodies that take the consolidation lease and rewrite memories under it; at most one may ever hold it (LEASE-1)."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from bridge.app import consolidating, freezing, leasing
from bridge.core import layout, lease
from bridge.core.errors import SoulError
from tests.simulation.agent import deed
from tests.simulation.script import Step
from tests.simulation.world import Broken, SimBody, World

MARGIN = 5.0  # seconds by which clocks of different bodies may drift apart in the time of a lease
GONE = 4_194_304  # the number of no process
Words = dict[str, Any]
Steps = Callable[[Step], None]


def acquire(world: World, body: SimBody, words: Words, steps: Steps) -> None:
    """A person types `lease acquire`."""
    _asked(world, body, words, steps, lambda: leasing.acquire(body.soul, {}))


def renew(world: World, body: SimBody, words: Words, steps: Steps) -> None:
    """Or `lease renew`."""
    _asked(world, body, words, steps, lambda: leasing.renew(body.soul, {}))


def release(world: World, body: SimBody, words: Words, steps: Steps) -> None:
    """Or `lease release`."""
    # From the moment it is asked for, nothing is done under it any more.
    world.holders.pop(body.name, None)
    _asked(world, body, words, steps, lambda: leasing.release(body.soul, {}))


def begin(world: World, body: SimBody, words: Words, steps: Steps) -> None:
    """A command begins to consolidate; what the agent does from now on, it does. dead: nobody will end it."""
    owner = GONE if words.get("dead") else os.getpid()
    _asked(world, body, words, steps, lambda: consolidating.begin(body.soul, {"owner": owner}))


def end(world: World, body: SimBody, words: Words, steps: Steps) -> None:
    """The command is done."""
    run = freezing.current(body.soul)
    if run is not None and body.going is None:
        world.holders.pop(body.name, None)
        _asked(world, body, words, steps, lambda: consolidating.end(body.soul, {"id": run.id}))


ACTS = {"acquire": acquire, "renew": renew, "release": release, "begin": begin, "end": end}


def _asked(world: World, body: SimBody, words: Words, steps: Steps, doing: Callable[[], Words]) -> None:
    """Do it, and look who holds the lease then."""
    if body.going is not None or body.seen.recall("main") is None:
        return
    world.ledger.changes += 3  # it may be written, renewed and given up: each is a commit
    looked = body.soul.sighting is not None
    answers: list[Words] = []

    def asked() -> None:
        try:
            answers.append(doing())
        except SoulError as error:
            world.trace(f"  {body.name}: {error.message}")

    world.act(body, words, steps, asked)
    held = body.seen.recall(leasing.MEMORY)
    if answers and answers[0].get("lease") and held is not None:
        _holds(world, body, looked, float(held["started"]))


def _holds(world: World, body: SimBody, looked: bool, started: float) -> None:
    """A body was told that the lease is its own, until a minute before it ends by a clock that runs through suspend."""
    left = started + lease.LASTS - lease.STOPS_BEFORE - body.clock.boottime()
    others = {name: until for name, until in world.holders.items() if name != body.name and until > world.elapsed}
    world.trace(f"  {body.name} holds the lease for {left:.0f} s")
    # Whoever had not looked before it was taken has to believe what it says, and clocks lie.
    if others and looked and not world.skewed:
        raise Broken(f"LEASE-1: {body.name} took the lease that {sorted(others)} hold")
    world.holders[body.name] = world.elapsed + left - MARGIN


@deed
def die(world: World, body: SimBody) -> None:
    """The command that consolidates is killed, and whoever called it."""
    plain = body.seen.recall(freezing.RUN)
    if plain is not None and body.going is None:
        body.seen.remember(freezing.RUN, plain | {"owner": GONE})
        world.holders.pop(body.name, None)


def stays_frozen(world: World, body: SimBody, before: dict[str, bytes], run: freezing.Run | None) -> None:
    """MERGE-12: a pass writes nothing that the command reads. Raises Broken."""
    if run is None or freezing.current(body.soul) != run or run.owner == GONE:
        return
    after = body.tree.paths()
    changed = sorted(path for path in before if path.startswith(freezing.FROZEN) and after.get(path) != before[path])
    if changed:
        raise Broken(f"MERGE-12: while {body.name} consolidates, a pass changed {changed}")


def let_go(world: World) -> None:
    """Before everything comes to rest, every command ends."""
    for body in world.bodies:
        if body.seen.recall(freezing.RUN) is not None:
            end(world, body, {}, lambda step: None)
    world.holders.clear()


def nobody_else_wrote_it(published: dict[str, bytes]) -> None:
    """MERGE-10: what stands where the lease stands, a body wrote that took it; agents write no such text there."""
    for path, content in published.items():
        if path.startswith("locks/") and (path != layout.LEASE or lease.read(content) is None):
            raise Broken(f"MERGE-10: {content!r} was published as {path}")
