"""The port `Tree` over a real directory."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path

from bridge.adapters.tree import exchange, place
from bridge.adapters.tree.exchange import refuse_shortage, stamp_of, translated
from bridge.adapters.tree.ignore import Ignoring, ignored
from bridge.adapters.tree.look import look
from bridge.adapters.tree.out import Note, Out
from bridge.adapters.tree.place import FILE, Place
from bridge.core.errors import Held, Moved, SoulError
from bridge.core.model import File, Leftover, Look, Presence, Reading, SeenEntry, Stamp, blob_id
from bridge.core.ports import Clock

# So long a path waits for those who have it open for writing (seconds); then it is replaced all the same, and what
# they write goes on being kept (GUARD-4).
PATIENCE = 60.0

Swap = Callable[[int, str, int, str, Callable[[str], None]], None]


class Tree:
    """Working files below `root`; `private` is `<git dir>/soul-bridge`, where what left its name is kept.

    `known_id`: the id this checkout must carry, None where none is known yet. `folds`: whether names that differ in
    case only are the same here, None to find out. `swap`: how two names change places. `checkpoint` is called with a
    name before each effect that others can see; a test that raises there has killed the program. `reads` is called
    with a path before we open its file to read it, so that a watcher can tell our reads from others' (MERGE-12).
    """

    def __init__(
        self,
        root: Path,
        private: Path,
        clock: Clock,
        known_id: str | None = None,
        *,
        folds: bool | None = None,
        swap: Swap = exchange.swap,
        checkpoint: Callable[[str], None] = lambda name: None,
        reads: Callable[[str], None] = lambda path: None,
    ) -> None:
        self.checkpoint = checkpoint
        self._reads = reads
        self.patience = PATIENCE
        self._root, self._private, self._clock = root, private, clock
        self._known_id = known_id
        self._folds = folds
        self._swap = swap
        self._out = Out(private, clock, lambda name: self.checkpoint(name))
        self._ignoring = Ignoring()
        self._waiting: dict[str, float] = {}

    def presence(self) -> Presence:
        """What stands where the checkout should be (GUARD-2). Raises Transient when descriptors are short."""
        try:
            names = os.listdir(self._root)
        except OSError as error:
            refuse_shortage(error, self._root)
            return Presence.MISSING
        if not set(names) - {"lost+found"}:
            return Presence.EMPTY  # the bare mount point of a disk that is not there, or a new disk
        git = self._private.parent
        if not (_size(git / "HEAD") and os.path.isdir(git / "objects") and os.path.isdir(git / "refs")):
            return Presence.NO_GIT
        if self._known_id is not None and (mark := self._marked()) != self._known_id:
            return Presence.UNMARKED if mark == "" else Presence.FOREIGN
        return Presence.PRESENT

    def mark(self, id: str) -> None:
        """Write the id by which this checkout is known again, durably. Raises Transient(kind="disk")."""
        try:
            self._private.mkdir(mode=0o700, exist_ok=True)
            fresh = self._private / "id.tmp"
            with open(fresh, "w", encoding="ascii") as opened:
                opened.write(f"{id}\n")
                opened.flush()
                os.fsync(opened.fileno())
            fresh.replace(self._private / "id")
            descriptor = os.open(self._private, place.DIRECTORY)
            try:
                exchange.sync_directory(descriptor)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise translated(error, str(self._private / "id")) from error
        self._known_id = id

    def marked(self) -> str | None:
        """The id that stands in the git directory, None when there is none."""
        return self._marked()

    def _marked(self) -> str | None:
        try:
            with open(self._private / "id", encoding="ascii", opener=_unwaiting) as opened:
                return opened.read(1024).strip("\0 \t\r\n")
        except (OSError, UnicodeDecodeError) as error:
            refuse_shortage(error, self._private)
            return None

    def leases(self) -> bool:
        """Whether leases can be asked for here; without them a file is left alone until quiet. Never raises."""
        for name in ("HEAD", "config"):
            with contextlib.suppress(OSError):
                descriptor = os.open(self._private.parent / name, FILE)
                try:
                    return exchange.ask_lease(descriptor) is not None
                finally:
                    os.close(descriptor)
        return False

    def look(self, known: Mapping[str, SeenEntry], hints: Collection[str] | None) -> Look:
        """See the port. Raises Moved when the checkout is gone, Transient when descriptors are short."""
        aside = ""
        with contextlib.suppress(ValueError):
            aside = self._private.relative_to(self._root).as_posix()
        return look(self._root, aside, known, hints, self._ignoring, self._folding())

    def ignored(self, path: str) -> bool:
        """See the port. Raises Moved when the checkout is gone."""
        try:
            return ignored(self._root, path, self._ignoring)
        except OSError as error:
            raise translated(error, path) from error

    def read(self, path: str, limit: int) -> Reading:
        """See the port."""
        with place.way(self._root, path) as way:
            try:
                descriptor = os.open(way.name, FILE, dir_fd=way.directory)
            except PermissionError as error:
                raise Held(f"{path} cannot be read: permission denied", rule="TREE-6") from error
            except OSError as error:
                refuse_shortage(error, path)
                raise Moved(f"{path} is gone or no regular file") from error
            try:
                self._reads(path)
                return self._reading(way, path, descriptor, limit)
            except OSError as error:
                raise Held(f"{path} cannot be read: {os.strerror(error.errno or 0)}", rule="TREE-6") from error
            finally:
                os.close(descriptor)

    def _reading(self, way: Place, path: str, descriptor: int, limit: int) -> Reading:
        before = os.fstat(descriptor)
        if not stat.S_ISREG(before.st_mode):
            raise Moved(f"{path} is no regular file")
        if before.st_size > limit:
            raise Held(f"{path} is larger than {limit} bytes", rule="TREE-6")
        busy = self._busy(descriptor)
        content = bytearray()
        while len(content) <= limit and (piece := os.read(descriptor, 1 << 20)):
            content += piece
        busy = self._busy(descriptor) or busy
        stamp = stamp_of(os.fstat(descriptor))
        if stamp != stamp_of(before) or not _names(way, descriptor):
            raise Moved(f"{path} changed while it was read")
        return Reading(bytes(content), stamp, busy)

    def replace(self, path: str, seen: SeenEntry, content: bytes, executable: bool) -> Stamp:
        """See the port."""
        with self._changing(path) as out, place.way(self._root, path) as way, self._present(way, path, seen) as present:
            number = self._out.number(out)
            try:
                made = self._out.write(out, number, content, 0o600)
                try:
                    exchange.dress_like(made, present, executable)
                    os.fsync(made)
                    before = os.fstat(made)
                    self.checkpoint("replace.note")
                    note = Note(path, seen.file, seen.raw, blob_id(content), before.st_ino)
                    self._out.note(out, number, note)
                    self._expect(way, path, seen, present)
                    self.checkpoint("replace.exchange")
                    self._swap(out, number, way.directory, way.name, self.checkpoint)
                    self._refuse_other(out, number, way, path)
                    stamp = _after(before, os.fstat(made))
                finally:
                    os.close(made)
            except (OSError, SoulError):
                self._undo(out, number)
                raise
            self.checkpoint("replace.sync")
            exchange.sync_directory(way.directory)
            return stamp

    def create(self, path: str, content: bytes, executable: bool) -> Stamp:
        """See the port."""
        folds = self._folding()
        self.checkpoint("create.parents")
        with self._changing(path) as out, place.way(self._root, path, make=True, folds=folds) as way:
            number = self._out.number(out)
            try:
                self._free(way, path, folds)
                with place.flocked(way, path):
                    made = self._out.write(out, number, content, 0o777 if executable else 0o666)
                    try:
                        exchange.dress_for(made, way.directory, executable)
                        os.fsync(made)
                        before = os.fstat(made)
                        self.checkpoint("create.rename")
                        exchange.place_new(out, number, way.directory, way.name)
                        stamp = _after(before, os.fstat(made))
                    finally:
                        os.close(made)
            except (OSError, SoulError):
                with contextlib.suppress(OSError):
                    self._out.discard(out, number)
                way.prune(way.made)
                raise
            self.checkpoint("create.sync")
            exchange.sync_directory(way.directory)
            return stamp

    def remove(self, path: str, seen: SeenEntry) -> None:
        """See the port."""
        with self._changing(path) as out, place.way(self._root, path) as way, self._present(way, path, seen) as present:
            number = self._out.number(out)
            try:
                self.checkpoint("remove.note")
                self._out.note(out, number, Note(path, seen.file, seen.raw, "", 0))
                self._expect(way, path, seen, present)
                self.checkpoint("remove.rename")
                os.rename(way.name, number, src_dir_fd=way.directory, dst_dir_fd=out)
                self._refuse_other(out, number, way, path)
            except (OSError, SoulError):
                self._undo(out, number)
                raise
            self.checkpoint("remove.prune")
            exchange.sync_directory(way.directory)
            way.prune()

    def leftovers(self) -> list[Leftover]:
        """See the port. Raises Transient(kind="disk")."""
        if not self._out.exists():
            return []
        with self._changing("what was exchanged") as out:
            kept = self._out.recover(out, self._put_back)
            told = [self._out.leftover(out, number, note) for number, note in kept]
            return [each for each in told if each is not None]

    def leftover(self, id: str) -> bytes:
        """See the port. Raises Moved when it is gone."""
        with self._changing(f"leftover {id}") as out:
            return self._out.content(out, id)

    def keep(self, id: str, base: File, raw: str) -> None:
        """See the port. Durable; raises Moved when it is gone, Transient(kind="disk")."""
        with self._changing(f"leftover {id}") as out:
            note = self._out.known(out, id)
            if note is None:
                raise Moved(f"leftover {id} is gone")
            self._out.note(out, id, Note(note.path, base, raw, note.new, note.inode))

    def drop(self, id: str) -> None:
        """See the port."""
        with self._changing(f"leftover {id}") as out:
            self._out.discard(out, id)

    # Below: what the verbs are made of.

    def _folding(self) -> bool:
        if self._folds is None:
            self._folds = place.folding(self._root)
        return self._folds

    @contextlib.contextmanager
    def _changing(self, path: str) -> Iterator[int]:
        """The exchange folder, ours alone; what the operating system refuses meanwhile is told by family."""
        try:
            with self._out.opened() as out:
                yield out
        except OSError as error:
            raise translated(error, path) from error

    def _undo(self, out: int, number: str) -> None:
        """Take back an exchange that failed, unless something of the agent's came out: that stays, with its note."""
        with contextlib.suppress(OSError):
            note = self._out.known(out, number)
            # It may have stood under the name for a moment, and somebody may have opened it there.
            if note is None or self._out.never_exchanged(out, number, note):
                self._out.discard(out, number)
            return
        with contextlib.suppress(OSError):
            self._out.discard(out, number)

    def _refuse_other(self, out: int, number: str, way: Place, path: str) -> None:
        """A link or directory that took the file's place in the last moment goes back to where it was put."""
        if not exchange.is_file(out, number):
            self.checkpoint("other.back")
            exchange.give_back(out, number, way.directory, way.name)
            raise Moved(f"{path} is no longer a regular file")

    def _put_back(self, out: int, number: str, path: str) -> bool:
        try:
            with place.way(self._root, path) as way:
                if exchange.is_file(out, number):
                    exchange.place_new(out, number, way.directory, way.name)
                else:
                    exchange.give_back(out, number, way.directory, way.name)
                exchange.sync_directory(way.directory)
        except (OSError, SoulError):
            return False
        return True

    @contextlib.contextmanager
    def _present(self, way: Place, path: str, seen: SeenEntry) -> Iterator[int]:
        """The present file, open for reading, as it was last seen, with its `.lock` taken where there is one."""
        with place.flocked(way, path):
            present = os.open(way.name, FILE, dir_fd=way.directory)
            try:
                self._expect(way, path, seen, present)
                yield present
            except BaseException:
                self._reads(path)  # it stays where it was, and a watcher sees that we close it
                raise
            finally:
                os.close(present)

    def _expect(self, way: Place, path: str, seen: SeenEntry, present: int) -> None:
        status = os.fstat(present)
        if not stat.S_ISREG(status.st_mode) or stamp_of(status) != seen.stamp or not _names(way, present):
            self._waiting.pop(path, None)
            raise Moved(f"{path} is not as it was last seen")
        now = self._clock.boottime()
        if not self._busy(present):
            self._waiting.pop(path, None)
        elif now - self._waiting.setdefault(path, now) < self.patience:
            raise Moved(f"{path} is open for writing")

    def _busy(self, descriptor: int) -> bool:
        return exchange.open_for_writing(descriptor, self._clock.now())

    def _free(self, way: Place, path: str, folds: bool) -> None:
        if folds:
            place.refuse_twin(way.directory, way.name, path)
        try:
            status = os.stat(way.name, dir_fd=way.directory, follow_symlinks=False)
        except FileNotFoundError:
            return
        if stat.S_ISREG(status.st_mode):
            raise Moved(f"{path} is there already")
        what = "a directory" if stat.S_ISDIR(status.st_mode) else place.kind_of(status.st_mode)
        raise Held(f"{path} is not written: {what} is there", rule="GUARD-6")


def _unwaiting(path: str, flags: int) -> int:
    """Open what should be a file; a pipe in its place is not waited for."""
    return os.open(path, flags | os.O_NONBLOCK)


def _names(way: Place, descriptor: int) -> bool:
    """Whether the last name of the way still names the open file."""
    try:
        return os.path.samestat(os.stat(way.name, dir_fd=way.directory, follow_symlinks=False), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _after(before: os.stat_result, now: os.stat_result) -> Stamp:
    """The stamp of new content under its name; a write into it since then makes the stamp match nothing."""
    return Stamp(
        before.st_size, before.st_mtime_ns, now.st_ctime_ns, before.st_ino, bool(before.st_mode & stat.S_IXUSR)
    )


def _size(path: Path) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0
