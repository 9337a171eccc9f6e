"""What must hold when a world is at rest, told by simple models that know nothing of the program.

Memory files are sets: an entry stands exactly when somebody added it and nobody took it away. A file that one body
alone writes is as that body left it. Of every other file each last word is in what stands or in history.
"""

from __future__ import annotations

from bridge.core import layout
from bridge.core.identity import id_of
from bridge.core.model import blob_id
from tests.simulation import leases
from tests.simulation.ledger import told
from tests.simulation.world import MAIN, Broken, SimBody, World


def at_rest(world: World) -> None:
    """Raises Broken with the first thing that does not hold."""
    settled(world)
    if not world.took_theirs:
        # A person gave up what the remote had lost; it is in history only.
        _memories(world)
        _single_writers(world)
    _identity(world)
    _last_words(world)
    _commits(world)


def settled(world: World) -> None:
    """All agree, nobody waits, and nothing is left to do."""
    _agree(world)
    _nobody_waits(world)
    _quiet(world)


def published(world: World) -> dict[str, bytes]:
    """What the remote's main holds."""
    tip = world.server.tip(MAIN)
    if tip is None:
        return {}
    return {path: world.server.read(file.oid) for path, file in world.server.files(world.server.info(tip).tree)}


def _agree(world: World) -> None:
    tip, agreed = world.server.tip(MAIN), published(world)
    for body in world.bodies:
        if body.repo.tip(MAIN) != tip:
            raise Broken(f"{body.name} is at {body.repo.tip(MAIN)}, the remote at {tip}")
        files = {path: layout.stored(content, path) for path, content in body.tree.paths().items()}
        for path in sorted(files.keys() | agreed.keys()):
            if path not in agreed and body.tree.ignored(path):
                continue
            if files.get(path) != agreed.get(path):
                raise Broken(f"{path} differs on {body.name}: {files.get(path)!r}, published is {agreed.get(path)!r}")


def _nobody_waits(world: World) -> None:
    for body in world.bodies:
        outcome = body.outcome
        if outcome is None or outcome.problem is not None or outcome.pending or outcome.held:
            raise Broken(f"{body.name} waits: {outcome}")
        # By a clock that was set back, what came out may look too young to be let go for long.
        if any(leftover.changed for leftover in body.tree.leftovers()):
            raise Broken(f"{body.name} still keeps {body.tree.leftovers()}")


def _identity(world: World) -> None:
    agreed = published(world)
    if agreed and id_of(agreed.get("agent.json")) != world.server.identity:
        raise Broken(f"MERGE-5: the id was {world.server.identity}, the identity is {agreed.get('agent.json')!r}")
    leases.nobody_else_wrote_it(agreed)


def _memories(world: World) -> None:
    agreed = {path: told(content) for path, content in published(world).items() if layout.is_memory(path)}
    ledger = world.ledger
    for path, entry in sorted(ledger.added - ledger.open):
        there = entry in agreed.get(path, ())
        # A backup from before a deletion, written on by others, may bring back what was deleted since.
        if (path, entry) in ledger.removed and there and not world.rolled_back:
            raise Broken(f"MERGE-2: {entry!r} was taken out of {path} and is there")
        if (path, entry) not in ledger.removed and not there:
            raise Broken(f"MERGE-2: {entry!r} was added to {path}, never taken out, and is not there")
    for path, found in agreed.items():
        invented = {entry for entry in found if (path, entry) not in ledger.added | ledger.open}
        if invented:
            raise Broken(f"MERGE-2: nobody wrote {sorted(invented)} into {path}")


def _single_writers(world: World) -> None:
    agreed = published(world)
    for (name, path), content in sorted(world.ledger.last.items()):
        if path in world.ledger.unsure or not _owned(path, name):
            continue
        if content is None and world.rolled_back:
            continue  # a backup from before the deletion, written on by others, may bring it back
        if agreed.get(path) != (None if content is None else layout.stored(content, path)):
            raise Broken(f"{path} is {agreed.get(path)!r}; {name}, its only writer, left {content!r}")
    for path, content in agreed.items():
        told_of = path.startswith("notes/") and not path.endswith(".gitkeep") and path not in world.ledger.unsure
        # An edit may have followed a move (MERGE-7).
        if told_of and not any(content in contents for contents in world.ledger.written.values()):
            raise Broken(f"nobody wrote {content!r} into {path}")


def _owned(path: str, name: str) -> bool:
    return path.startswith((f"journal/{name}/", f"notes/own-{name}"))


def _last_words(world: World) -> None:
    """The last word of each body on each file is in history, wherever the merge went."""
    reach, agreed = dict[str, set[str]](), published(world)
    for body in world.bodies:
        for path, oids in world.history(body.repo).items():
            reach.setdefault(path, set()).update(oids)
    everywhere = set().union(*reach.values()) if reach else set()
    for (name, path), content in sorted(world.ledger.last.items()):
        if content is None or path == "agent.json" or path.startswith("bodies/"):
            continue
        if any(body.tree.ignored(path) for body in world.bodies):
            continue
        lines = set(agreed.get(path, b"").splitlines())
        if path.startswith("journal/") and lines.issuperset(content.splitlines()):
            continue  # two journals of one name become one, section by section (MERGE-9)
        if blob_id(layout.stored(content, path)) not in everywhere:
            raise Broken(f"the last word of {name} on {path} is nowhere: {content!r}")


def _commits(world: World) -> None:
    """No commit says nothing, and there are not more of them than changes explain."""
    tip = world.server.tip(MAIN)
    if tip is None:
        return
    records = 0
    for commit in world.server.log(tip):
        before = world.server.info(commit.parents[0]).tree if commit.parents else ""
        # What a person removed by hand may be told again in a commit of ours (REPO-8).
        if len(commit.parents) == 1 and not world.by_hand:
            gone = [path for path, (_, after) in world.server.diff(before, commit.tree).items() if after is None]
            if any(layout.is_required(path) or layout.is_fixed(path) for path in gone):
                raise Broken(f"GUARD-2: {commit.message!r} removed {gone}")
        if len(commit.parents) > 1:
            continue
        records += 1
        if before == commit.tree and not commit.author.startswith("A Person"):
            raise Broken(f"an empty commit: {commit.message!r}")
    bound = 2 * world.ledger.changes + 6 * len(world.bodies) + world.passes // 2 + 20
    if records > bound:
        raise Broken(f"{records} commits for {world.ledger.changes} changes")


def _quiet(world: World) -> None:
    """Once at rest, another pass changes nothing and writes nothing."""
    for body in world.bodies:
        before = _durable(body)
        world.run(body, {"look": "full"}, lambda step: None)
        world.advance(0.5)
        after = _durable(body)
        if before != after:
            changed = [name for name, one, other in zip(_DURABLE, before, after, strict=True) if one != other]
            raise Broken(f"a pass of {body.name} at rest changed {', '.join(changed)}")


_DURABLE = ("refs", "objects", "files", "seen", "memory", "pushes", "exchanges")


def _durable(body: SimBody) -> tuple[object, ...]:
    memory = {name: value for name, value in body.seen.memory.items() if name != "clock"}
    return (
        dict(body.repo.names),
        len(body.repo.objects),
        {path: inode.stamp() for path, inode in body.tree._files.items()},
        dict(body.seen.entries),
        memory,
        body.remote.pushes,
        body.tree._count,
    )
