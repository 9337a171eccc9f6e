"""What happens to networks, clocks, disks and the remote."""

from __future__ import annotations

from bridge.app import repairing
from bridge.core.identity import id_of
from bridge.core.model import CheckoutState
from tests.simulation.agent import deed, doubt
from tests.simulation.world import MAIN, SimBody, World


@deed
def offline(world: World, body: SimBody) -> None:
    """Nothing gets through to the remote."""
    body.remote.unreachable = True


@deed
def online(world: World, body: SimBody) -> None:
    """Everything does again."""
    body.remote.heal()


@deed
def revoke(world: World, body: SimBody) -> None:
    """The body's key is gone from the server."""
    body.remote.revoke()


@deed
def read_only(world: World, body: SimBody) -> None:
    """The body's key may only read."""
    body.remote.make_read_only()


@deed
def drop_answers(world: World, body: SimBody, count: int) -> None:
    """Pushes arrive and nobody says so."""
    body.remote.drops = count


@deed
def swallow(world: World, body: SimBody, count: int) -> None:
    """Pushes do not arrive, and nobody says so."""
    body.remote.swallows = count


@deed
def full(world: World, body: SimBody, yes: bool) -> None:
    """The disk has no room."""
    body.tree.full = yes


@deed
def step_clock(world: World, body: SimBody, seconds: float) -> None:
    """Somebody sets the clock."""
    body.clock.step(seconds)
    world.skewed = True


@deed
def rebase(world: World, body: SimBody, going: bool) -> None:
    """A person is in the middle of something."""
    body.repo.checkout = CheckoutState(MAIN, "a rebase is going on" if going else "")


@deed
def detach(world: World, body: SimBody, yes: bool) -> None:
    """A person looks at an old commit."""
    body.repo.checkout = CheckoutState(None if yes else MAIN)


@deed
def restart(world: World, body: SimBody) -> None:
    """The process is stopped between two passes and starts again."""
    if body.going is None:
        world.start(body)


@deed
def forget(world: World, body: SimBody, told: bool) -> None:
    """The database of what was seen is lost; what is known (told) is what the disk was last brought to."""
    if body.going is not None or body.seen.recall("remote") is None:
        return
    if id_of(body.tree.agent_read("agent.json")) not in (None, world.server.identity):
        return  # then it looks like another agent's, and only a person can tell
    tip = body.repo.tip(MAIN)
    paths = set(body.tree.paths()) | set(body.seen.under(""))
    for path in paths | ({path for path, _ in body.repo.files(body.repo.info(tip).tree)} if tip else set()):
        doubt(world, body, path, body.tree.agent_read(path))
    published = world.server.tip(MAIN)
    for path, file in world.server.files(world.server.info(published).tree) if published else ():
        # What was taken out here and is not published comes back when nothing is known.
        world.ledger.doubt(path, world.server.read(file.oid))
    body.seen.entries.clear()
    body.seen.memory.clear()
    world.start(body)
    repairing.begin_again(body.soul, body.materialised if told else None)


@deed
def roll_back(world: World, body: SimBody, back: int) -> None:
    """The remote is restored from a backup."""
    if world.others:
        return  # what another implementation makes of that is its own affair
    tip = world.server.tip(MAIN)
    target = tip
    for _ in range(back):
        parents = world.server.info(target).parents if target else ()
        # Where it has no identity yet, the next body that comes founds another agent, and nobody may mix the two.
        target = parents[0] if parents and world.server.says(parents[0]) else target
    if target != tip:
        world.rolled_back = True
        world.server.rewriting = True
        world.server.move(MAIN, tip, target)
        world.server.rewriting = False
