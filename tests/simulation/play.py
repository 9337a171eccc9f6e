"""Playing a script: step by step, then to rest, with everything that must hold looked at on the way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bridge.app import accepting, freezing
from bridge.core.errors import SoulError
from tests.simulation import accidents, duels, faults, leases, oracle, others, scanner
from tests.simulation.agent import DEEDS
from tests.simulation.script import Script, Step
from tests.simulation.world import Broken, SimBody, World

ROUNDS = 40
LONG_ROUNDS = (14, 27)
FOUND = 3_700.0  # seconds: longer than any wait of GUARD-2


def play(script: Script, trace: Callable[[str], None] = lambda line: None) -> World:
    """The world at rest after the script. Raises Broken, or what a bug raises."""
    world = World(script, trace)
    for step in script.steps:
        trace(str(step))
        take(world, step)
    heal(world)
    if scanner.may_rest(world):
        rest(world)
        scanner.at_rest(world)
    if world.scanned:
        scanner.scan(world, world.bodies[0], False)
    rest(world)
    oracle.at_rest(world)
    if script.seed % 3 == 0:
        trace("— two bodies change the same things at once")
        duels.fight(world, rest)
        oracle.settled(world)
    return world


def take(world: World, step: Step) -> None:
    """One step; each takes a moment."""
    world.advance(0.001)
    name, number, *words = step
    if name == "advance":
        world.advance(number)
    elif name == "pass":
        _pass(world, world.body(number), words[0])
    elif name == "other":
        others.take(world, number, *words)
    elif name == "lease":
        leases.ACTS[words[0]](world, world.body(number), words[1], lambda nested: take(world, nested))
    elif name == "blink":
        accidents.blink(world, world.body(number), words[0], lambda nested: take(world, nested))
    else:
        DEEDS[name](world, world.body(number), *words)


def _pass(world: World, body: SimBody, words: dict[str, Any]) -> None:
    before, frozen = body.tree.paths(), freezing.current(body.soul) if body.going is None else None
    world.run(body, words, lambda nested: take(world, nested))
    if "between" not in words:
        leases.stays_frozen(world, body, before, frozen)


def heal(world: World) -> None:
    """Every fault ends but what the server minds: networks, disks, people's work, open files, hidden directories, what
    is nobody's to write."""
    world.trace("— everything heals")
    for body in world.bodies:
        faults.online(world, body)
        faults.full(world, body, False)
        faults.detach(world, body, False)
    for number in world.others:
        others.take(world, number, "sync")
    leases.let_go(world)
    for body in world.bodies:
        for path in list(body.writers):
            DEEDS["close_file"](world, body, path)
        for path in list(body.tree._special):
            body.tree.agent_show(path) if path in body.tree.directories() else body.tree.agent_delete(path)
        for directory in sorted(body.tree.directories(), reverse=True):
            # An empty directory would keep a file of its name away until somebody removes it.
            body.tree._prune(directory + "/nothing")


def rest(world: World) -> None:
    """Passes and time until nothing moves any more. Raises Broken when that does not come."""
    quiet = 0
    for number in range(ROUNDS):
        moved = [body.name for body in world.bodies if _moved(world, body, number)]
        # What nobody saw happen waits for an hour, also while a server refuses everything else (GUARD-2).
        world.advance(FOUND if quiet == 1 or number in LONG_ROUNDS else 3.0)
        quiet = 0 if moved else quiet + 1
        if quiet == 4:
            return
    raise Broken(f"no rest after {ROUNDS} rounds: {', '.join(moved)} still at work")


def _moved(world: World, body: SimBody, number: int) -> bool:
    """One more pass; whether anything came of it."""
    look = "hints" if world.script.hinted and number % 100 != 50 else "full"
    before = body.repo.tip("refs/heads/main"), dict(body.tree.paths())
    # A person lets what was refused go, once it may.
    now = not world.scanning and any(rule == "REPO-8" for rule, _ in body.soul.watching.held.values())
    world.run(body, {"look": look, "now": now}, lambda step: None)
    outcome = body.outcome
    if outcome is None:
        raise Broken(f"{body.name} made no pass")
    if outcome.problem is not None and outcome.problem.kind == "rewritten" and world.rolled_back:
        world.trace(f"  {body.name}: a person accepts the remote")
        _accept(world, body)
        return True
    _give_up_foreign(world, body)
    after = body.repo.tip("refs/heads/main"), dict(body.tree.paths())
    return before != after or outcome.problem is not None or outcome.outcome != "ok" or outcome.pushed


def _accept(world: World, body: SimBody) -> None:
    choice = "theirs" if world.script.seed % 3 == 0 else "merge"
    world.took_theirs |= choice == "theirs"
    try:
        accepting.accept(body.soul, {"choice": choice})
    except SoulError as error:
        world.trace(f"  accept-remote: {error.message}")


def _give_up_foreign(world: World, body: SimBody) -> None:
    """The agent takes back what it wrote into another body's paths: it could never be recorded there."""
    for path, (rule, _) in dict(body.soul.watching.held).items():
        if rule == "MERGE-9" and body.tree.agent_read(path) is not None:
            body.tree.agent_delete(path)
            world.ledger.last.pop((body.name, path), None)
            world.ledger.unsure.add(path)
