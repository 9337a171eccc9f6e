"""What agents and people do to working files: each step by its name, as a function of the body and the step's words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bridge.core import entries, identity, layout
from bridge.core.model import File
from bridge.fakes.files import Inode
from tests.simulation.ledger import told
from tests.simulation.script import Step
from tests.simulation.world import MAIN, Broken, SimBody, World

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
        _comes_back(world, body, path, before)
    else:
        world.ledger.changed(body.name, path, before, None)


@deed
def move(world: World, body: SimBody, old: str, new: str) -> None:
    """A file under another name; where one of the new name is, nothing happens."""
    before = body.tree.agent_read(old)
    if before is None or body.tree.agent_read(new) is not None or not _free(body, new):
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
def vanish(world: World, body: SimBody, path: str) -> None:
    """A file is gone, not because anybody wanted it; it may come back."""
    content = body.tree.agent_read(path)
    if content is None:
        return
    body.vanished[path] = content
    body.tree.agent_delete(path)
    if layout.is_required(path) or layout.is_fixed(path):
        _comes_back(world, body, path, content)
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
    gone_before = body.vanished or body.seen.recall("waits") or any(body.seen.under("").keys() - files.keys())
    if body.going is not None or tip is None or gone_before:
        return
    for path, content in files.items():
        body.tree.agent_delete(path)
        if layout.is_required(path) or layout.is_fixed(path):
            _comes_back(world, body, path, content)
    for step in nested:
        steps(step)
    for path, content in files.items():
        if body.tree.agent_read(path) is None and _free(body, path):
            body.tree.agent_write(path, content)
        elif body.tree.agent_read(path) != content:
            # Something took its place; what was not recorded before is gone with its file.
            doubt(world, body, path, content)
            world.ledger.last.pop((body.name, path), None)
    _refuse_deletions(body, tip)


def _refuse_deletions(body: SimBody, since: str) -> None:
    for one in body.repo.log(body.repo.tip(MAIN) or since, since):
        if one.body == body.name and len(one.parents) == 1:
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
        # Main may be ahead of the files: such a commit takes back what is not on the disk yet.
        world.ledger.doubt(path, body.repo.read(file.oid))
        world.ledger.doubt(path, content)
    author, mail = f"A Person ({body.name})", "person@example.invalid"
    made = body.repo.commit(body.repo.edit(tree, changes), [tip], author, mail, "by hand", int(body.clock.now()))
    body.repo.flush()
    body.repo.names[MAIN] = made


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
        body.blind.setdefault(path, set()).update(told(body.tree.agent_read(path)))
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
    if fields is not None:
        fields.pop("seed", None)
        fields[key] = value
        body.tree.agent_write(identity.PATH, identity.write(fields))


@deed
def break_identity(world: World, body: SimBody) -> None:
    """The agent writes something else where its identity was."""
    if body.tree.agent_read(identity.PATH) is not None:
        body.tree.agent_write(identity.PATH, b"not an identity\n")


@deed
def link(world: World, body: SimBody, path: str) -> None:
    """A symbolic link takes a file's place."""
    if body.tree.agent_read(path) is not None:
        vanish(world, body, path)
        del body.vanished[path]
        body.tree.agent_special(path)


@deed
def alone(world: World, body: SimBody) -> None:
    """A soul is begun here without the remote, as `init --offline` does."""
    if body.going is None and body.seen.recall("remote") is None:
        body.seen.remember("alone", True)


@deed
def copy_of(world: World, body: SimBody, other: int) -> None:
    """Before a body ever asked the remote, another's files are copied to its disk."""
    source = world.body(other)
    if body.seen.recall("main") is None and body.going is None and body is not source:
        for path, content in source.tree.paths().items():
            if not path.startswith("locks/") and body.tree.agent_read(path) is None and not body.tree._barred(path):
                body.tree.agent_write(path, content)
                world.ledger.doubt(path, content)


def _read(world: World, body: SimBody, path: str) -> bytes | None:
    body.read_at[path] = body.clock.boottime()
    content = body.tree.agent_read(path)
    # Whoever reads what it wrote itself before we looked counts as having read what it wrote over.
    world.ledger.open |= {(path, entry) for entry in body.blind.pop(path, ())}
    body.known.setdefault(path, set()).update(told(content))
    return content


def _put(world: World, body: SimBody, path: str, content: bytes, how: str) -> None:
    tree = body.tree
    if not _free(body, path):
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


def _free(body: SimBody, path: str) -> bool:
    """Whether a file may be written there: no directory, nothing unreadable, no file above it."""
    tree = body.tree
    above = any(parent in tree._files for parent in _parents(path))
    return not (tree._barred(path) or path in tree.directories() or above)


def _restore(world: World, body: SimBody, path: str, file: File | None) -> None:
    before = body.tree.agent_read(path)
    if body.tree._barred(path):
        return
    if file is None:
        body.tree.agent_delete(path)
    elif file.regular:
        body.tree.agent_rename_over(path, body.repo.read(file.oid))
    doubt(world, body, path, before)
    doubt(world, body, path, body.tree.agent_read(path))
    if not layout.is_memory(path):
        world.ledger.last[body.name, path] = body.tree.agent_read(path)


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
    if before is not None and body.seen.get(path) is None:
        world.ledger.open |= {(path, entry) for entry in told(before) - told(after)}
        if after is None:
            world.ledger.unsure.add(path)


def _comes_back(world: World, body: SimBody, path: str, content: bytes) -> None:
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


def words_of(body: SimBody, path: str) -> frozenset[str]:
    """The entries that a body's working file holds."""
    return told(body.tree.agent_read(path))


def names(steps: Any) -> set[str]:
    """The names of steps."""
    return {step[0] for step in steps}
