"""The exchange folder: new content before it gets its name, and what left its name, with a note of what it was.

    out/<id>        before the exchange the new content, after it what came out
    out/<id>.json   the note: path, base, id of the bytes expected to come out, id and inode of the new content
    out/<id>.new    the new content, only while names are moved one after the other

A file without a note never had anything of the agent's: it is new content, and goes. A note is durable before the
exchange it tells of, and is the last to go.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from bridge.adapters.tree.exchange import ask_lease, is_file, stamp_of, sync_directory
from bridge.adapters.tree.place import DIRECTORY, FILE
from bridge.core.model import File, Leftover, Stamp, blob_id
from bridge.core.ports import Clock

# Without leases nobody can tell whether a writer is left: what came out counts as open for so long (seconds).
UNTOLD = 30.0


@dataclass(frozen=True)
class Note:
    """What the folder knows of one exchange. `new` is "" and `inode` 0 for a removal."""

    path: str
    base: File
    raw: str
    new: str
    inode: int

    def encoded(self) -> bytes:
        """The note as it lies in the folder."""
        return json.dumps(asdict(self)).encode("ascii") + b"\n"

    @staticmethod
    def decoded(content: bytes) -> Note | None:
        """A note read back; None when it is damaged."""
        try:
            found = json.loads(content)
            base = File(str(found["base"]["oid"]), int(found["base"]["mode"]))
            return Note(str(found["path"]), base, str(found["raw"]), str(found["new"]), int(found["inode"]))
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
            return None


class Out:
    """The folder `out` below the private one. Every method but `opened` and `close` works on an opened folder.

    Raises OSError; the caller translates.
    """

    def __init__(self, private: Path, clock: Clock, checkpoint: Callable[[str], None]) -> None:
        self._private = private
        self._clock = clock
        self._checkpoint = checkpoint
        self._last = 0
        self._hashed: dict[str, tuple[Stamp, str]] = {}

    @contextlib.contextmanager
    def opened(self) -> Iterator[int]:
        """The folder, made when it is missing, and ours alone until it is closed."""
        with contextlib.suppress(FileExistsError):
            self._private.mkdir(mode=0o700)
        private = os.open(self._private, DIRECTORY)
        try:
            with contextlib.suppress(FileExistsError):
                os.mkdir("out", 0o700, dir_fd=private)
                sync_directory(private)
            folder = os.open("out", DIRECTORY, dir_fd=private)
        finally:
            os.close(private)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            yield folder
        finally:
            os.close(folder)

    def exists(self) -> bool:
        """Whether anything was ever exchanged here."""
        return (self._private / "out").is_dir()

    def number(self, folder: int) -> str:
        """An id that was not used before and sorts behind all others."""
        if not self._last:  # later ones are ours: whoever else writes here has the soul's lock, and we do not run
            there = [name.partition(".")[0] for name in os.listdir(folder)]
            self._last = max((int(each) for each in there if each.isdecimal()), default=0)
        self._last = max(self._last + 1, int(self._clock.now() * 1000))
        return f"{self._last:016d}"

    def write(self, folder: int, number: str, content: bytes, mode: int) -> int:
        """Put new content down; its open descriptor. It is not durable before `os.fsync` of that."""
        self._checkpoint("write")
        made = os.open(number, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode, dir_fd=folder)
        try:
            _put(made, content)
        except OSError:
            os.close(made)
            raise
        return made

    def note(self, folder: int, number: str, note: Note) -> None:
        """Make a note durable, together with the name of the file it is about."""
        name, fresh = f"{number}.json", f"{number}.json.tmp"
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        made = os.open(fresh, flags, 0o600, dir_fd=folder)
        try:
            _put(made, note.encoded())
            os.fsync(made)
        finally:
            os.close(made)
        os.rename(fresh, name, src_dir_fd=folder, dst_dir_fd=folder)
        sync_directory(folder)

    def known(self, folder: int, number: str) -> Note | None:
        """The note of an id, None when there is none or it is damaged."""
        try:
            return Note.decoded(_bytes(folder, f"{number}.json"))
        except FileNotFoundError:
            return None

    def content(self, folder: int, number: str) -> bytes:
        """Bytes of a kept file."""
        return _bytes(folder, number)

    def discard(self, folder: int, number: str) -> None:
        """Take an id out, the note last."""
        self._hashed.pop(number, None)
        for name in (f"{number}.new", number, f"{number}.json.tmp", f"{number}.json"):
            with contextlib.suppress(FileNotFoundError, IsADirectoryError):
                os.unlink(name, dir_fd=folder)

    def recover(self, folder: int, put_back: Callable[[int, str, str], bool]) -> list[tuple[str, Note]]:
        """Undo exchanges that never took place; what is kept otherwise, oldest first.

        `put_back(folder, id, path)` gives what lies there its name again, and says whether it did: for an exchange in
        steps that stopped while the path had no file, and for what is no file and cannot be kept.
        """
        names = set(os.listdir(folder))
        kept: list[tuple[str, Note]] = []
        for number in sorted({name.partition(".")[0] for name in names}):
            note = self.known(folder, number) if f"{number}.json" in names else None
            if note is None:
                if f"{number}.json" not in names:
                    self.discard(folder, number)
                continue  # a damaged note: whatever the file is, it is not thrown away
            self._mend(folder, number, note, f"{number}.new" in names, put_back)
            if not self._there(folder, number) or self.never_exchanged(folder, number, note):
                self.discard(folder, number)
            elif is_file(folder, number):
                kept.append((number, note))
        return kept

    def _mend(
        self, folder: int, number: str, note: Note, halfway: bool, put_back: Callable[[int, str, str], bool]
    ) -> None:
        there = self._there(folder, number)
        if there and (halfway or not is_file(folder, number)):
            put_back(folder, number, note.path)
        if halfway:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(f"{number}.new", dir_fd=folder)

    def _there(self, folder: int, number: str) -> bool:
        try:
            os.stat(number, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            return False
        return True

    def never_exchanged(self, folder: int, number: str, note: Note) -> bool:
        """Whether it is still the new content; both inode and bytes must say so before anything is thrown away."""
        status = os.stat(number, dir_fd=folder, follow_symlinks=False)
        return status.st_ino == note.inode and blob_id(_bytes(folder, number)) == note.new

    def leftover(self, folder: int, number: str, note: Note) -> Leftover | None:
        """What is to be told of a kept file; None when it cannot be opened (now): it stays."""
        try:
            descriptor = os.open(number, FILE, dir_fd=folder)
        except PermissionError:
            return None
        try:
            busy = ask_lease(descriptor)
            stamp = stamp_of(os.fstat(descriptor))
            known = self._hashed.get(number)
            if known is None or known[0] != stamp or busy is not False:
                known = (stamp, _raw(descriptor, stamp.size))
                # While it is open for writing, a mapped page may change without any sign in the stamp.
                if busy is False and stamp_of(os.fstat(descriptor)) == stamp:
                    self._hashed[number] = known
        finally:
            os.close(descriptor)
        age = max(0.0, self._clock.now() - stamp.ctime_ns / 1_000_000_000)
        untold = busy is None and age < UNTOLD
        return Leftover(
            number, note.path, note.base, note.raw, note.new, known[1] != note.raw, bool(busy) or untold, age
        )


def _put(descriptor: int, content: bytes) -> None:
    """Write all of it: a disk that fills up takes a part first, and says so only to whoever goes on."""
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _bytes(folder: int, name: str) -> bytes:
    descriptor = os.open(name, FILE, dir_fd=folder)
    with os.fdopen(descriptor, "rb") as opened:
        return opened.read()


def _raw(descriptor: int, size: int) -> str:
    """Git's id of the bytes of an open file; with another size than told it is the id of nothing."""
    digest = hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)
    os.lseek(descriptor, 0, os.SEEK_SET)
    while piece := os.read(descriptor, 1 << 20):
        digest.update(piece)
    return digest.hexdigest()
