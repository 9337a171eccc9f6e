"""An in-memory `Tree` over the simulated disk of `bridge.fakes.files`.

`.gitignore` is read at the top only and understood as patterns for the names on a path.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

from bridge.core import layout
from bridge.core.errors import Held, Moved, Transient
from bridge.core.model import File, Leftover, Look, Presence, Reading, SeenEntry, Stamp, blob_id
from bridge.core.ports import Clock
from bridge.fakes.files import Files, Inode, parents, whole, within


@dataclass
class Note:
    """What the exchange folder knows about one kept inode; `made` is the inode of the new content."""

    path: str
    base: File
    raw: str
    new: str
    made: int


class FakeTree(Files):
    """The port `Tree` over two dictionaries.

    `full` and `readonly` make every change fail as a full or read-only disk does; `folding` makes names that differ
    only in case the same; `locked` holds paths whose `<file>.lock` somebody has; `state` is what `presence` answers;
    `patience` is how many seconds a path waits for those who have it open for writing.
    `checkpoint` is called with a name before each visible effect: a test that raises there has killed the program.
    """

    def __init__(self, clock: Clock, checkpoint: Callable[[str], None] = lambda name: None, tick_ns: int = 0) -> None:
        super().__init__(clock, tick_ns)
        self.checkpoint = checkpoint
        self.state = Presence.PRESENT
        self.full = self.readonly = self.folding = False
        self.locked: set[str] = set()
        self.patience = 60.0
        self._waiting: dict[str, float] = {}
        self.unwritable: set[str] = set()
        self._out: dict[str, Inode] = {}
        self._notes: dict[str, Note] = {}

    # The port.

    def presence(self) -> Presence:
        """As `Tree.presence`."""
        return self.state

    def look(self, known: Mapping[str, SeenEntry], hints: Collection[str] | None) -> Look:
        """As `Tree.look`."""
        wanted = None if hints is None else [whole(hint) for hint in hints]
        files: dict[str, Stamp] = {}
        special = {path: why for path, why in self._special.items() if within(path, wanted)}
        gone: set[str] = set()
        patterns, ignored = self._ignoring(), set[str]()
        for path in [p for p in self._files if within(p, wanted)]:
            if self._barred(path) is not None:
                continue
            if path not in known and _named(path, patterns) and not layout.is_own(path):
                ignored.add(path)
                continue
            files[path] = self._files[path].stamp()
        for path in known:
            if within(path, wanted) and path not in files:
                why = self._barred(path)
                if why is None:
                    gone.add(path)
                else:
                    special[path] = why
        return Look(files, special, frozenset(gone), hints is None, frozenset(ignored))

    def ignored(self, path: str) -> bool:
        """As `Tree.ignored`."""
        return _named(path, self._ignoring())

    def read(self, path: str, limit: int) -> Reading:
        """As `Tree.read`."""
        why = self._barred(path)
        if why is not None:
            raise Held(f"{path} cannot be read: {why[1]}", rule="TREE-6")
        inode = self._files.get(path)
        if inode is None:
            raise Moved(f"{path} is gone")
        if len(inode.content) > limit:
            raise Held(f"{path} is larger than {limit} bytes", rule="TREE-6")
        return Reading(inode.content, inode.stamp(), inode.writers > 0)

    def replace(self, path: str, seen: SeenEntry, content: bytes, executable: bool) -> Stamp:
        """As `Tree.replace`."""
        self._expect(path, seen)
        number = self._write(content, executable)
        self.checkpoint("replace.note")
        made = self._out[number]
        self._notes[number] = Note(path, seen.file, seen.raw, blob_id(content), made.number)
        self._expect_still(path, seen, number)
        self.checkpoint("replace.exchange")
        self._refuse_other(path, number)
        self._out[number], self._files[path] = self._files[path], made
        self._changed(self._out[number])
        self._changed(made)
        stamp = made.stamp()  # before anybody can have written into it under its name
        self.checkpoint("replace.sync")
        return stamp

    def create(self, path: str, content: bytes, executable: bool) -> Stamp:
        """As `Tree.create`."""
        self._writable(path)
        self._free(path)
        self.checkpoint("create.parents")
        made = set(parents(path)) - self._directories
        self._directories |= made
        try:
            number = self._write(content, executable)
        except Transient:
            self._directories -= made
            raise
        self.checkpoint("create.rename")
        if path in self._files:
            self.drop(number)
            raise Moved(f"{path} appeared meanwhile")
        inode = self._files[path] = self._out.pop(number)
        self._changed(inode)
        stamp = inode.stamp()
        self.checkpoint("create.sync")
        return stamp

    def remove(self, path: str, seen: SeenEntry) -> None:
        """As `Tree.remove`."""
        self._expect(path, seen)
        self._full()
        number = self._next()
        self.checkpoint("remove.note")
        self._notes[number] = Note(path, seen.file, seen.raw, "", 0)
        self._expect_still(path, seen, number)
        self.checkpoint("remove.rename")
        self._refuse_other(path, number)
        self._out[number] = self._files.pop(path)
        self._changed(self._out[number])
        self.checkpoint("remove.prune")
        self._prune(path)

    def leftovers(self) -> list[Leftover]:
        """As `Tree.leftovers`."""
        for number in sorted(set(self._out) | set(self._notes)):
            inode, note = self._out.get(number), self._notes.get(number)
            if inode is None or note is None or (note.made == inode.number and blob_id(inode.content) == note.new):
                self.drop(number)
        return [self._leftover(number, self._notes[number]) for number in sorted(self._out)]

    def leftover(self, id: str) -> bytes:
        """As `Tree.leftover`."""
        if id not in self._out:
            raise Moved(f"leftover {id} is gone")
        return self._out[id].content

    def keep(self, id: str, base: File, raw: str) -> None:
        """As `Tree.keep`."""
        if id not in self._notes:
            raise Moved(f"leftover {id} is gone")
        self._full()
        self._notes[id].base, self._notes[id].raw = base, raw

    def drop(self, id: str) -> None:
        """As `Tree.drop`."""
        self._out.pop(id, None)
        self._notes.pop(id, None)

    # Below: the simulated disk.

    def _next(self) -> str:
        self._count += 1
        return f"{self._count:012d}"

    def _write(self, content: bytes, executable: bool) -> str:
        number = self._next()
        self.checkpoint("write")
        self._full()
        self._out[number] = self._inode(content, executable)
        return number

    def _full(self) -> None:
        if self.full:
            raise Transient("no space left on device", kind="disk")
        if self.readonly:
            raise Transient("the file system is read-only", kind="disk")

    def _ignoring(self) -> list[str]:
        ignore = self._files.get(".gitignore")
        lines = (ignore.content if ignore else b"").decode("utf-8", "replace").split("\n")
        return [line.strip().rstrip("/") for line in lines if line.strip() and not line.startswith("#")]

    def _expect(self, path: str, seen: SeenEntry) -> None:
        self._writable(path)
        inode = self._files.get(path)
        if inode is None or inode.stamp() != seen.stamp:
            self._waiting.pop(path, None)
            raise Moved(f"{path} is not as it was last seen")
        now = self._clock.boottime()
        if not inode.writers:
            self._waiting.pop(path, None)
        elif now - self._waiting.setdefault(path, now) < self.patience:
            raise Moved(f"{path} is open for writing")

    def _expect_still(self, path: str, seen: SeenEntry, number: str) -> None:
        try:
            self._expect(path, seen)
        except (Moved, Held):
            self.drop(number)
            raise

    def _refuse_other(self, path: str, number: str) -> None:
        """What takes the file's place after the last look: another file comes out and is kept, others stay."""
        if path not in self._files:
            self.drop(number)
            raise Moved(f"{path} is no longer a regular file")

    def _writable(self, path: str) -> None:
        why = self._barred(path)
        if why is not None:
            raise Held(f"{path} cannot be written: {why[1]}", rule=why[0])
        if path in self.unwritable:
            raise Held(f"{path} cannot be written: permission denied", rule="GUARD-6")
        if path in self.locked:
            raise Moved(f"{path}.lock is taken")

    def _free(self, path: str) -> None:
        if path in self._files:
            raise Moved(f"{path} is there already")
        if path in self._directories:
            raise Held(f"{path} cannot be created: a directory is there", rule="GUARD-6")
        for parent in parents(path):
            if parent in self._files:
                raise Held(f"{path} cannot be created: {parent} is a file", rule="GUARD-6")
        if self.folding:
            there = {*self._files, *self._directories}
            names = {each.casefold() for each in there}
            for each in (path, *parents(path)):
                if each not in there and each.casefold() in names:
                    raise Held(f"{path} cannot be created: the twin of another name", rule="TREE-7")

    def _prune(self, path: str) -> None:
        for parent in parents(path):
            below = (*self._files, *self._directories, *self._special)
            if any(each.startswith(whole(parent)) for each in below):
                return
            self._directories.discard(parent)

    def _leftover(self, number: str, note: Note) -> Leftover:
        inode = self._out[number]
        age = max(0.0, self._clock.now() - inode.ctime_ns / 1_000_000_000)
        changed = blob_id(inode.content) != note.raw
        return Leftover(number, note.path, note.base, note.raw, note.new, changed, inode.writers > 0, age)


def _named(path: str, patterns: list[str]) -> bool:
    """Whether a pattern names a part of the path."""
    return any(fnmatchcase(part, each) for part in path.split("/") for each in patterns)
