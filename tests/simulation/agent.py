"""What agents and people do to working files: each step by its name, as a function of the body and the step's words."""

from __future__ import annotations

from collections.abc import Callable

from bridge.app import freezing
from bridge.app.joining import PLACING
from bridge.core import entries, identity, layout
from bridge.fakes.files import Inode
from tests.simulation.ledger import told
from tests.simulation.world import MAIN, SimBody, World

Deed = Callable[..., None]
DEEDS: dict[str, Deed] = {}


def deed(function: Deed) -> Deed:
    """A step of this name."""
    DEEDS[function.__name__] = function
    return function


@deed
def add(world: World, body: SimBody, path: str, entry: str, how: str) -> None:
    """One more entry in a memory file."""
    now = entries.read(_read(world, body, path) or b"")
    _put(world, body, path, entries.write((*now, entry)), how)


@deed
def drop(world: World, body: SimBody, path: str, number: int, how: str) -> None:
    """One entry of a memory file less."""
    now = list(entries.read(_read(world, body, path) or b""))
    if now:
        del now[number % len(now)]
        _put(world, body, path, entries.write(now), how)


@deed
def drop_all(world: World, body: SimBody, path: str, how: str) -> None:
    """A memory file emptied."""
    if _read(world, body, path) is not None:
        _put(world, body, path, b"", how)


@deed
def edit(world: World, body: SimBody, path: str, number: int, entry: str, how: str) -> None:
    """One entry of a memory file reworded."""
    now = list(entries.read(_read(world, body, path) or b""))
    if now:
        now[number % len(now)] = entry
        _put(world, body, path, entries.write(now), how)


@deed
def write(world: World, body: SimBody, path: str, text: str, how: str) -> None:
    """A whole file."""
    _put(world, body, path, text.encode(), how)


@deed
def append(world: World, body: SimBody, path: str, text: str) -> None:
    """More at the end of a file."""
    _put(world, body, path, (body.tree.agent_read(path) or b"") + text.encode(), "append")


@deed
def delete(world: World, body: SimBody, path: str) -> None:
    """A file less. What must be there comes back by itself (GUARD-2): that is no deletion of its entries."""
    before = _read(world, body, path)
    if before is None:
        return
    body.tree.agent_delete(path)
    _unknown_yet(world, body, path, before, None)
    if layout.is_required(path) or layout.is_fixed(path):
        comes_back(world, body, path, before)
    else:
        world.ledger.changed(body.name, path, before, None)


@deed
def move(world: World, body: SimBody, old: str, new: str) -> None:
    """A file under another name; where one of the new name is, nothing happens."""
    before = body.tree.agent_read(old)
    if before is None or body.tree.agent_read(new) is not None or not free(body, new):
        return
    body.tree.agent_rename(old, new)
    sure = layout.is_memory(old) or not old.startswith("notes/shared")
    world.ledger.changed(body.name, old, before, None, sure)
    world.ledger.changed(body.name, new, None, before, sure)


@deed
def open_file(world: World, body: SimBody, path: str) -> None:
    """A descriptor that stays open for writing."""
    if path not in body.writers and body.tree.agent_read(path) is not None:
        body.writers[path] = body.tree.agent_open(path)


@deed
def scribble(world: World, body: SimBody, path: str, text: str) -> None:
    """More through the open descriptor, wherever its file is by now."""
    writer = body.writers.get(path)
    if writer is None:
        return
    before, where = writer.inode.content, _place_of(body, writer.inode)
    more = f"\n§\n{text}\n" if layout.is_memory(where or path) else f"{text}\n"
    writer.write(more.encode())
    if where is not None:
        if body.tree._files.get(where) is writer.inode:
            body.known.setdefault(where, set()).update(told(writer.inode.content))
        world.ledger.changed(body.name, where, before, writer.inode.content)


@deed
def grip(world: World, body: SimBody, path: str) -> None:
    """A writer that has the file, and that nobody can see."""
    if path in body.tree._files:
        body.grips[path] = body.tree._files[path]


@deed
def late(world: World, body: SimBody, path: str, text: str) -> None:
    """It writes at last. Two seconds after its file left its name is later than such a writer can be (GUARD-4)."""
    inode = body.grips.get(path)
    where = _place_of(body, inode) if inode is not None else None
    if inode is None or where is None:
        return
    if body.tree._files.get(where) is not inode and body.clock.now() - inode.ctime_ns / 1e9 > 1.9:
        return
    before = inode.content
    more = f"\n§\n{text}\n" if layout.is_memory(where) else f"{text}\n"
    body.tree._fill(inode, before + more.encode())
    if body.tree._files.get(where) is inode:
        body.known.setdefault(where, set()).update(told(inode.content))
    world.ledger.changed(body.name, where, before, inode.content)


@deed
def close_file(world: World, body: SimBody, path: str) -> None:
    """The descriptor is closed."""
    writer = body.writers.pop(path, None)
    if writer is not None:
        writer.close()


@deed
def chmod(world: World, body: SimBody, path: str, executable: bool) -> None:
    """The executable bit."""
    if body.tree.agent_read(path) is not None:
        body.tree.agent_chmod(path, executable)


@deed
def remember(world: World, body: SimBody, path: str) -> None:
    """The agent reads a memory file and will write from this copy later."""
    content = _read(world, body, path)
    if content is not None:
        body.copies[path] = content


@deed
def stale(world: World, body: SimBody, path: str, entry: str, how: str) -> None:
    """The agent writes a memory file from its old copy, without reading it again (MERGE-12)."""
    if path in body.copies:
        content = entries.write((*entries.read(body.copies[path]), entry))
        body.copies[path] = content
        there = told(body.tree.agent_read(path))
        body.blind.setdefault(path, set()).update(there)
        # What is written while memories are consolidated has read all that the command reads (MERGE-12).
        if path in body.mixed or body.seen.recall(freezing.RUN) is not None:
            world.ledger.open |= {(path, entry) for entry in there}
        _put(world, body, path, content, how)


@deed
def foreign(world: World, body: SimBody, other: int, text: str) -> None:
    """The agent writes into another body's journal, where it must not (MERGE-9)."""
    owner = world.body(other)
    tip = body.repo.tip(MAIN)
    path = f"journal/{owner.name}/2027-01-01.md"
    if tip is None or body.repo.entry(body.repo.info(tip).tree, f"bodies/{owner.name}.json") is None or owner is body:
        return
    body.tree.agent_append(path, text.encode())


@deed
def lock(world: World, body: SimBody, text: str) -> None:
    """The agent writes a lease by hand; that is none."""
    if not body.tree._barred("locks/consolidation.json"):
        body.tree.agent_write("locks/consolidation.json", text.encode())


@deed
def field(world: World, body: SimBody, key: str, value: str) -> None:
    """The agent changes who it is."""
    fields = identity.read(body.tree.agent_read(identity.PATH))
    # Where nothing is known of before, another id is another agent: only a person can tell.
    if fields is not None and (key != "id" or body.seen.recall("remote") is not None):
        fields.pop("seed", None)
        fields[key] = value
        body.tree.agent_write(identity.PATH, identity.write(fields))


@deed
def break_identity(world: World, body: SimBody) -> None:
    """The agent writes something else where its identity was."""
    if body.tree.agent_read(identity.PATH) is not None:
        body.tree.agent_write(identity.PATH, b"not an identity\n")


@deed
def alone(world: World, body: SimBody) -> None:
    """A soul is begun here without the remote, as `init --offline` does."""
    if body.going is None and body.seen.recall("remote") is None:
        body.seen.remember("alone", True)


def _read(world: World, body: SimBody, path: str) -> bytes | None:
    content = body.tree.agent_read(path)
    if content is None:
        return None
    body.read_at[path] = body.clock.boottime()
    # Who reads while we write has read the one version or the other.
    (body.mixed.add if body.going is not None else body.mixed.discard)(path)
    # Whoever reads what it wrote itself before we looked counts as having read what it wrote over.
    world.ledger.open |= {(path, entry) for entry in body.blind.pop(path, ())}
    body.known.setdefault(path, set()).update(told(content))
    return content


def _put(world: World, body: SimBody, path: str, content: bytes, how: str) -> None:
    tree = body.tree
    if not free(body, path):
        return
    before = tree.agent_read(path)
    if before is None and body.seen.get(path) is not None:
        # A file made anew where one vanished unnoticed: what the old one held was there and is not.
        doubt(world, body, path, None)
    if how == "rename":
        tree.agent_rename_over(path, content)
    elif how == "append" and before is not None and content.startswith(before):
        tree.agent_append(path, content[len(before) :])
    else:
        tree.agent_write(path, content)
    _unknown_yet(world, body, path, before, content)
    known = body.known.setdefault(path, set())
    if layout.is_memory(path):
        # What the agent never saw it cannot have taken out.
        before = entries.write(entry for entry in entries.read(before or b"") if entry in known)
    known |= told(content)
    world.ledger.changed(body.name, path, before, content)


def free(body: SimBody, path: str) -> bool:
    """Whether a file may be written there: no directory, nothing unreadable, no file above it."""
    tree = body.tree
    above = any(parent in tree._files for parent in _parents(path))
    return not (tree._barred(path) or path in tree.directories() or above)


def doubt(world: World, body: SimBody, path: str, content: bytes | None) -> None:
    """What is here, was seen here or stands on main may come back or go."""
    world.ledger.doubt(path, content)
    tip, seen = body.repo.tip(MAIN), body.seen.get(path)
    file = body.repo.entry(body.repo.info(tip).tree, path) if tip is not None else None
    for version in (file, seen.file if seen is not None else None):
        if version is not None and body.repo.has(version.oid):
            world.ledger.doubt(path, body.repo.read(version.oid))


def _unknown_yet(world: World, body: SimBody, path: str, before: bytes | None, after: bytes | None) -> None:
    """What a crash kept us from knowing as placed looks like a file that the agent made: nothing is deleted there."""
    if before is not None and (body.seen.get(path) is None or _made_again(body, path)):
        world.ledger.open |= {(path, entry) for entry in told(before) - told(after)}
        if after is None:
            world.ledger.unsure.add(path)


def _made_again(body: SimBody, path: str) -> bool:
    """Whether a crash left open if we made a file anew that had gone: nothing came out of its name that tells."""
    intent = body.seen.recall(PLACING) if body.going is None else None
    return intent is not None and path in intent[1] and not any(one.path == path for one in body.tree.leftovers())


def comes_back(world: World, body: SimBody, path: str, content: bytes) -> None:
    """What main has of a file that is gone stays; only what was not recorded yet may come or go."""
    tip, seen = body.repo.tip(MAIN), body.seen.get(path)
    file = body.repo.entry(body.repo.info(tip).tree, path) if tip is not None else None
    known = [version for version in (file, seen.file if seen is not None else None) if version is not None]
    contents = [content, *(body.repo.read(version.oid) for version in known if body.repo.has(version.oid))]
    if layout.is_memory(path) and len(contents) == 3:
        sides = [told(each) for each in contents]
        world.ledger.open |= {(path, entry) for entry in frozenset().union(*sides) - sides[0].intersection(*sides)}
    else:
        for each in contents:
            world.ledger.doubt(path, each)
    world.ledger.last.pop((body.name, path), None)


def _place_of(body: SimBody, inode: Inode) -> str | None:
    """The path an open file goes by, also after it left its name; None when its name was deleted by the agent."""
    for path, each in body.tree._files.items():
        if each is inode:
            return path
    for number, each in body.tree._out.items():
        if each is inode and number in body.tree._notes:
            return body.tree._notes[number].path
    return None


def _parents(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:length]) for length in range(1, len(parts))]
