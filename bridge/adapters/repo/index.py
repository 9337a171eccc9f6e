"""Git's index, brought along so that a person's `git status` is clean and their `git commit` undoes nothing.

Read and written here, byte by byte: libgit2 offers neither stat data nor skip-worktree, and cannot open a split
index. Entries are kept as git wrote them; only those of changed paths are made anew. Extensions that can be computed
again are dropped, what is not understood makes the whole index be left alone.
"""

from __future__ import annotations

import bisect
import hashlib
import os
import re
import stat
import struct
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from bridge.adapters.repo.locks import locked
from bridge.adapters.repo.packs import settle
from bridge.adapters.repo.store import Store
from bridge.adapters.repo.trees import Diff, Trees, split
from bridge.core import errors
from bridge.core.layout import PASSED_OVER
from bridge.core.model import File, blob_id

_EXTENDED, _SKIP = 0x4000, 0x4000  # a bit of the first flags, a bit of the second ones
_NAME = 0x0FFF
_DROPPED = (b"TREE", b"UNTR", b"FSMN", b"EOIE", b"IEOT")
_KEPT = (b"REUC",)
_UNKNOWN_STAT = bytes(40)
_LARGEST = 64 << 20  # a larger working file is not read for its stat data; git will do it
_LOOKS = 256  # young files that are read again for their stat data
# What no path lacks that is refused: it names git, or has a name of dots only, or of more than ASCII.
_SUSPECT = re.compile(r"git|(^|/)\.*(/|$)|\0|[^\x00-\x7f]", re.IGNORECASE)


class _Strange(Exception):
    """The index is of a kind that is left alone."""


class _Meanwhile(Exception):
    """Somebody else wrote the index just now."""


@dataclass
class _State:
    """An index in memory. cells: raw entries by name, NUL, stage. racy: those as young as the file itself. skipped:
    those with skip-worktree, and more that once had it."""

    cells: dict[bytes, bytes] = field(default_factory=dict)
    kept: bytes = b""
    racy: set[bytes] = field(default_factory=set)
    skipped: set[bytes] = field(default_factory=set)
    mark: tuple[int, int, int] | None = None


class Index:
    """The index of one git directory, kept in memory while nobody else writes it.

    reads: called with a path before its working file is opened.
    """

    def __init__(
        self, git_dir: Path, store: Store, trees: Trees, reads: Callable[[str], None] = lambda path: None
    ) -> None:
        self._reads = reads
        self._git_dir = git_dir
        self._path = git_dir / "index"
        self._store = store
        self._trees = trees
        self._state = _State()

    def follow(self, expected: str | None, new: str, absent: Collection[str]) -> bool:
        """Entries that are as in tree `expected` become as in `new`, others are somebody's staged work and stay.

        expected: None when it is not known what the index was last brought to; then entries follow whose working
        file is as in `new`, gone ones included. absent: paths that are not in the working files on purpose; they get
        skip-worktree. Paths that git takes into no index (`.git`, `..`) are left out. Nothing happens, and nothing is
        raised, when the index is locked or strange. False: it was locked or written by another just then.
        """
        if os.path.lexists(self._path.with_name("index.lock")):
            return False
        try:
            self._load()
            changed = self._change(expected, new, set(absent))
            if changed:
                self._write(changed)
        except _Strange:
            self._state = _State()
        except (OSError, errors.SoulError, _Meanwhile):
            self._state = _State()
            return False
        return True

    def known(self) -> tuple[tuple[int, int, int], bool] | None:
        """The index that was read or written last (time, length, inode), and whether a path stands unmerged in it."""
        if self._state.mark is None:
            return None
        return self._state.mark, any(key[-1] for key in self._state.cells)

    def _change(self, expected: str | None, new: str, absent: set[str]) -> set[bytes]:
        """Change the cells of what differs; the names of those that did."""
        changed, added = set(), {}
        for path, (old, file) in self._differing(expected, new).items():
            key = _key(path)
            present = self._file(key)
            if _refused(path) or self._conflicted(key):
                continue
            if present not in (old, file) and (expected is not None or not self._arrived(path, file)):
                continue
            if file is None:
                if present is not None:
                    del self._state.cells[key]
                    changed.add(key)
            elif present is None:
                added[key] = (path, file)
            else:
                changed |= self._set(key, path, file, path in absent)
        names = sorted(self._state.cells)
        for key, (path, file) in added.items():
            if not self._blocked(key, names):
                changed |= self._set(key, path, file, path in absent)
        return changed | self._skip(new, absent)

    def _differing(self, expected: str | None, new: str) -> Diff:
        """What the index may have to follow: all that the tree or the index holds when nothing is known of before."""
        if expected is not None and self._state.mark:
            return self._trees.diff(expected, new)
        everything = self._trees.diff("", new)
        for key in self._state.cells:
            everything.setdefault(key[:-2].decode("utf-8", "surrogateescape"), (None, None))
        return everything

    def _arrived(self, path: str, file: File | None) -> bool:
        """Whether the working file is what the new tree holds."""
        if file is None:
            return not os.path.lexists(self._git_dir.parent / path)
        return file.regular and self._look(path, file) != _UNKNOWN_STAT

    def _set(self, key: bytes, path: str, file: File, skip: bool) -> set[bytes]:
        """Make one cell; the stat data are those of the working file when it holds exactly this."""
        head = _UNKNOWN_STAT if skip or not file.regular else self._look(path, file)
        cell = _cell(key, head[:24] + struct.pack(">I", file.mode) + head[28:], bytes.fromhex(file.oid), skip)
        if self._state.cells.get(key) == cell:
            return set()
        self._state.cells[key] = cell
        if skip:
            self._state.skipped.add(key)
        return {key}

    def _skip(self, new: str, absent: set[str]) -> set[bytes]:
        """Give absent paths skip-worktree, and take it from paths whose file has come."""
        changed = set()
        wanted = {_key(path): path for path in absent}
        for key, path in wanted.items():
            cell = self._state.cells.get(key)
            if cell is not None and not _skipped(cell) and self._file(key) == self._trees.entry(new, path):
                self._state.cells[key] = _cell(key, cell[:40], cell[40:60], True)
                self._state.skipped.add(key)
                changed.add(key)
        for key in self._state.skipped - wanted.keys():
            path = key[:-2].decode("utf-8", "surrogateescape")
            file = self._file(key)
            if file is None or not _skipped(self._state.cells[key]):
                self._state.skipped.discard(key)
            elif os.path.lexists(self._git_dir.parent / path):
                changed |= self._set(key, path, file, False)
        return changed

    def _look(self, path: str, file: File) -> bytes:
        """The forty bytes of stat data of a working file whose content is `file`, else zeros: git then compares."""
        try:
            handle = os.open(
                self._git_dir.parent / path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
            )
        except (OSError, ValueError):
            return _UNKNOWN_STAT
        self._reads(path)
        before = os.fstat(handle)
        if not stat.S_ISREG(before.st_mode) or before.st_size > _LARGEST:
            os.close(handle)
            return _UNKNOWN_STAT
        with os.fdopen(handle, "rb") as opened:
            content = opened.read()
            if _stat(before) != _stat(os.fstat(handle)):
                return _UNKNOWN_STAT
        if file.oid not in (blob_id(content), blob_id(content.replace(b"\r\n", b"\n"))):
            return _UNKNOWN_STAT
        return _stat(before)

    def _file(self, key: bytes) -> File | None:
        cell = self._state.cells.get(key)
        return File(cell[40:60].hex(), int.from_bytes(cell[24:28])) if cell else None

    def _conflicted(self, key: bytes) -> bool:
        return any(key[:-1] + bytes([stage]) in self._state.cells for stage in (1, 2, 3))

    def _blocked(self, key: bytes, names: list[bytes]) -> bool:
        """Whether a staged file stands where a folder of this path goes, or staged files below it."""
        name = key[:-2]
        parts = name.split(b"/")
        if any(b"/".join(parts[:end]) + b"\0\0" in self._state.cells for end in range(1, len(parts))):
            return True
        at = bisect.bisect_left(names, name + b"/")
        return at < len(names) and names[at].startswith(name + b"/")

    def _load(self) -> None:
        """Read the index, unless it is the one we know. Raises _Strange, OSError."""
        try:
            with open(self._path, "rb", opener=lambda path, flags: os.open(path, flags | os.O_NONBLOCK)) as file:
                mark = _mark(os.fstat(file.fileno()))
                if mark == self._state.mark:
                    return
                self._state = parse(file.read())
                self._state.mark = mark
        except FileNotFoundError:
            self._state = _State()
            return
        limit = _seconds(mark)
        self._state.racy = {key for key, cell in self._state.cells.items() if cell[8:12] >= limit}

    def _write(self, changed: set[bytes]) -> None:
        """Write the index through its lock. What was as young as the old file must not look settled by the new one.

        Raises _Meanwhile when somebody else wrote it.
        """
        state = self._state
        self._settle(state.racy - changed)
        state.cells = {key: state.cells[key] for key in sorted(state.cells)}
        content = serialise(state.cells.values(), state.kept)
        with locked(self._git_dir, self._path, content, attempts=1) as lock:
            if self._mark() != state.mark:
                raise _Meanwhile
            state.mark = _mark(os.lstat(lock))
            lock.rename(self._path)
        # Whoever calls remembers what it was brought to: an older index would then pass for staged work.
        settle(self._git_dir)
        limit = _seconds(state.mark)
        state.racy = {key for key in state.racy | changed if state.cells.get(key, b"")[8:12] >= limit}

    def _settle(self, young: set[bytes]) -> None:
        """Look at young entries again; what cannot be vouched for gets the length 0, by which git compares bytes."""
        for number, key in enumerate(young):
            cell = self._state.cells[key]
            file = self._file(key)
            path = key[:-2].decode("utf-8", "surrogateescape")
            if file is None or number >= _LOOKS or self._look(path, file)[28:] != cell[28:40]:
                self._state.cells[key] = cell[:36] + bytes(4) + cell[40:]

    def _mark(self) -> tuple[int, int, int] | None:
        try:
            return _mark(os.lstat(self._path))
        except FileNotFoundError:
            return None


def parse(raw: bytes) -> _State:
    """An index of version 2, 3 or 4. Raises _Strange when it is damaged, split, or has unknown extensions."""
    body = raw[:-20]
    if raw[-20:] not in (hashlib.sha1(body, usedforsecurity=False).digest(), bytes(20)):
        raise _Strange("damaged")
    try:
        signature, version, count = struct.unpack_from(">4sII", body)
        if signature != b"DIRC" or version not in (2, 3, 4):
            raise _Strange("unknown version")
        state = _State()
        at, name = 12, b""
        for _ in range(count):
            cell, at, name = _next(body, at, name, version)
            key = name + bytes([0, cell[60] >> 4 & 3])
            state.cells[key] = cell
            if _skipped(cell):
                state.skipped.add(key)
        state.kept = _extensions(body, at)
    except (struct.error, ValueError, IndexError) as error:
        raise _Strange(str(error)) from error
    return state


def serialise(cells: Collection[bytes], kept: bytes) -> bytes:
    """The bytes of an index: version 3 when an entry needs its second flags, else 2."""
    version = 3 if any(cell[60] & 0x40 for cell in cells) else 2
    body = b"".join([struct.pack(">4sII", b"DIRC", version, len(cells)), *cells, kept])
    return body + hashlib.sha1(body, usedforsecurity=False).digest()


def _next(body: bytes, at: int, previous: bytes, version: int) -> tuple[bytes, int, bytes]:
    """One entry as it stands in versions 2 and 3, where the next one starts, and its name."""
    start = at + 62 + (2 if body[at + 60] & 0x40 else 0)
    if version < 4:
        end = body.index(b"\0", start)
        following = at + ((end - at + 8) & ~7)
        return body[at:following], following, body[start:end]
    strip = body[start] & 127
    while body[start] & 128:
        start += 1
        strip = (strip + 1 << 7) | (body[start] & 127)
    end = body.index(b"\0", start + 1)
    name = previous[: len(previous) - strip] + body[start + 1 : end]
    head = body[at : at + 62 + (2 if body[at + 60] & 0x40 else 0)]
    return _padded(head, name), end + 1, name


def _extensions(body: bytes, at: int) -> bytes:
    kept = b""
    while at < len(body):
        name, length = struct.unpack_from(">4sI", body, at)
        end = at + 8 + length
        if name in _KEPT:
            kept += body[at:end]
        elif name not in _DROPPED or end > len(body):
            raise _Strange(f"extension {name!r}")
        at = end
    return kept


def _cell(key: bytes, head: bytes, oid: bytes, skip: bool) -> bytes:
    """A raw entry of stage 0. head: the forty bytes before the id."""
    name = key[:-2]
    flags = min(len(name), _NAME) | (_EXTENDED if skip else 0)
    return _padded(head + oid + struct.pack(">H", flags) + (struct.pack(">H", _SKIP) if skip else b""), name)


def _padded(head: bytes, name: bytes) -> bytes:
    length = len(head) + len(name)
    return head + name + bytes(8 - length % 8)


def _skipped(cell: bytes) -> bool:
    return bool(cell[60] & 0x40) and bool(cell[62] & 0x40)


def _stat(found: os.stat_result) -> bytes:
    """Stat data as git keeps them: the lower 32 bits of each number."""
    numbers: Iterable[int] = (
        *divmod(found.st_ctime_ns, 10**9),
        *divmod(found.st_mtime_ns, 10**9),
        found.st_dev,
        found.st_ino,
        found.st_mode,
        found.st_uid,
        found.st_gid,
        found.st_size,
    )
    return struct.pack(">10I", *(number & 0xFFFFFFFF for number in numbers))


def _seconds(mark: tuple[int, int, int]) -> bytes:
    """The index file's time as an entry would hold it; git tells young entries by seconds."""
    return struct.pack(">I", mark[0] // 10**9 & 0xFFFFFFFF)


def _mark(found: os.stat_result) -> tuple[int, int, int]:
    return found.st_mtime_ns, found.st_size, found.st_ino


def _key(path: str) -> bytes:
    return b"/".join(split(path)) + b"\0\0"


def _refused(path: str) -> bool:
    """Whether git takes no such path into an index; everything else stays in it, or a commit would remove it."""
    if not _SUSPECT.search(path):
        return False
    if "\0" in path:
        return True
    for name in path.split("/"):
        shown = re.split(r"[:\\]", name.translate(PASSED_OVER))[0].rstrip(". ").lower()
        if name in ("", ".", "..") or shown in (".git", "git~1"):
            return True
    return False
