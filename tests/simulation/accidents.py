"""What happens to working files without their agent: accidents, disks that blink, people who use git by hand."""

from __future__ import annotations

from collections.abc import Callable

from bridge.app.joining import PLACING
from bridge.app.soul import KNOWN
from bridge.core import layout, plan
from bridge.core.model import File
from tests.simulation.agent import comes_back, deed, doubt, free
from tests.simulation.script import Step
from tests.simulation.world import MAIN, Broken, SimBody, World


@deed
def vanish(world: World, body: SimBody, path: str) -> None:
    """A file is gone, not because anybody wanted it; it may come back."""
    content = body.tree.agent_read(path)
    if content is None:
        return
    body.vanished[path] = content
    body.tree.agent_delete(path)
    if layout.is_required(path) or layout.is_fixed(path):
        comes_back(world, body, path, content)
    else:
        doubt(world, body, path, content)
        world.ledger.last.pop((body.name, path), None)


@deed
def wipe(world: World, body: SimBody) -> None:
    """Everything is gone."""
    for path in list(body.tree.paths()):
        vanish(world, body, path)


@deed
def come_back(world: World, body: SimBody) -> None:
    """What vanished is there again, where nothing took its place."""
    for path, content in sorted(body.vanished.items()):
        if body.tree.agent_read(path) is None and not body.tree._barred(path) and path not in body.tree.directories():
            body.tree.agent_write(path, content)
            doubt(world, body, path, content)
            if not layout.is_memory(path):
                world.ledger.last[body.name, path] = content
    body.vanished.clear()


def blink(world: World, body: SimBody, nested: list[Step], steps: Callable[[Step], None]) -> None:
    """Everything is gone for less than any guard, and then it is there again: nothing of that may be recorded."""
    tip, files = body.repo.tip(MAIN), body.tree.paths()
    known = body.seen.recall(KNOWN) or tip  # where main stood, should a person have moved it since
    gone_before = body.vanished or body.seen.recall("waits") or any(body.seen.under("").keys() - files.keys())
    # What a crash left open is settled by what is there; where nothing is, a file that comes back is the agent's.
    gone_before = gone_before or body.seen.recall(PLACING)
    few = len(body.seen.under("").keys() & files.keys()) < plan.FEW_GONE  # so few may go: they are no mass (GUARD-2)
    if body.going is not None or tip is None or known is None or gone_before or few:
        return
    for path, content in files.items():
        body.tree.agent_delete(path)
        if layout.is_required(path) or layout.is_fixed(path):
            comes_back(world, body, path, content)
    for step in nested:
        steps(step)
    for path, content in files.items():
        if body.tree.agent_read(path) is None and free(body, path):
            body.tree.agent_write(path, content)
        elif body.tree.agent_read(path) != content:
            # Something took its place; what was not recorded before is gone with its file.
            doubt(world, body, path, content)
            world.ledger.last.pop((body.name, path), None)
    _refuse_deletions(body, {one.oid for begun in (tip, known) for one in body.repo.log(begun)})


def _refuse_deletions(body: SimBody, before: set[str]) -> None:
    tip = body.repo.tip(MAIN)
    for one in body.repo.log(tip) if tip is not None else ():
        if one.oid not in before and one.body == body.name and len(one.parents) == 1:
            changes = body.repo.diff(body.repo.info(one.parents[0]).tree, one.tree)
            gone = [path for path, (_, after) in changes.items() if after is None]
            if gone:
                raise Broken(f"GUARD-2: {gone} were gone for a moment and are recorded as deleted")


@deed
def hide(world: World, body: SimBody, directory: str) -> None:
    """A directory cannot be read."""
    if directory in body.tree.directories() and directory not in body.tree._special:
        body.tree.agent_hide(directory)


@deed
def show(world: World, body: SimBody, directory: str) -> None:
    """It can be read again."""
    if directory in body.tree._special:
        body.tree.agent_show(directory)


@deed
def reset(world: World, body: SimBody, back: int, hard: bool) -> None:
    """A person resets main to an earlier commit, and with it (hard) the files that differ between the two."""
    tip = body.repo.tip(MAIN)
    target = tip
    for _ in range(back):
        parents = body.repo.info(target).parents if target else ()
        target = parents[0] if parents else target
    if tip is None or target is None:
        return
    body.repo.names[MAIN] = target
    if hard:
        now, then = body.repo.info(tip).tree, body.repo.info(target).tree
        for path, (_, file) in body.repo.diff(now, then).items():
            _restore(world, body, path, file)


@deed
def commit(world: World, body: SimBody) -> None:
    """A person commits what the files hold, by hand, on top of main."""
    tip = body.repo.tip(MAIN)
    if tip is None or body.repo.checkout.head != MAIN:
        return
    tree = body.repo.info(tip).tree
    changes: dict[str, File | None] = {}
    for path, file in body.repo.files(tree):
        content = body.tree.agent_read(path)
        stored = None if content is None else layout.stored(content, path)
        if stored is None:
            changes[path] = None
        elif body.repo.read(file.oid) != stored:
            changes[path] = File(body.repo.write(stored), file.mode)
        else:
            continue
        # Main may be ahead of the files: such a commit takes back nothing of a memory that is not on the disk yet.
        if content is None or not layout.is_memory(path):
            world.ledger.doubt(path, body.repo.read(file.oid))
            world.ledger.doubt(path, content)
    world.by_hand = True
    author, mail = f"A Person ({body.name})", "person@example.invalid"
    made = body.repo.commit(body.repo.edit(tree, changes), [tip], author, mail, "by hand", int(body.clock.now()))
    body.repo.flush()
    body.repo.names[MAIN] = made


@deed
def link(world: World, body: SimBody, path: str) -> None:
    """A symbolic link takes a file's place."""
    if body.tree.agent_read(path) is not None:
        vanish(world, body, path)
        del body.vanished[path]
        body.tree.agent_special(path)


@deed
def copy_of(world: World, body: SimBody, other: int) -> None:
    """Before a body ever asked the remote, another's files are copied to its disk."""
    source = world.body(other)
    if body.seen.recall("main") is None and body.going is None and body is not source:
        for path, content in source.tree.paths().items():
            if not path.startswith("locks/") and body.tree.agent_read(path) is None and not body.tree._barred(path):
                body.tree.agent_write(path, content)
                world.ledger.doubt(path, content)


def _restore(world: World, body: SimBody, path: str, file: File | None) -> None:
    before = body.tree.agent_read(path)
    if body.tree._barred(path):
        return
    if file is None:
        body.tree.agent_delete(path)
    elif file.regular:
        body.tree.agent_rename_over(path, content := body.repo.read(file.oid))
        # An edit like any other: what was there since the birth may follow a move from here (MERGE-7).
        world.ledger.written[path].add(content)
    doubt(world, body, path, before)
    doubt(world, body, path, body.tree.agent_read(path))
    if not layout.is_memory(path):
        world.ledger.last[body.name, path] = body.tree.agent_read(path)
