"""Objects of one git directory: what is new is kept in memory, the rest is read from packs and loose files.

libgit2 is given the packs and nothing else. Loose objects, which only a person's own git writes, are inflated and
checked here: libgit2 spins for ever on a truncated one. So alternates, replace refs and grafts are not followed
either: nothing that could follow them is ever asked.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import stat
import zlib
from collections import OrderedDict
from pathlib import Path

import pygit2

from bridge.adapters.repo import packs
from bridge.core import errors

EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
KINDS = {"commit": 1, "tree": 2, "blob": 3, "tag": 4}
_WORDS = {number: word for word, number in KINDS.items()}
_OID = re.compile(r"[0-9a-f]{40}\Z")
_SPILL = 128 << 20  # new objects beyond this many bytes are written early rather than kept
_REMEMBERED = 16 << 20  # bytes of small objects kept from earlier reads
_SMALL = 1 << 20
LARGEST = 64 << 20  # bytes of a tree or commit; memory would not hold what a larger one unpacks to


def configure() -> None:
    """Make libgit2 obey no configuration and hold few files open; once per program, the settings are global."""
    for level in (
        pygit2.enums.ConfigLevel.PROGRAMDATA,
        pygit2.enums.ConfigLevel.SYSTEM,
        pygit2.enums.ConfigLevel.XDG,
        pygit2.enums.ConfigLevel.GLOBAL,
    ):
        pygit2.settings.search_path[level] = ""
    pygit2.settings.owner_validation = False  # libgit2 opens no repository here; the caller looks at the owner
    pygit2.settings.mwindow_file_limit = 16
    pygit2.settings.enable_fsync_gitdir(True)
    pygit2.settings.enable_strict_hash_verification(True)


def name(kind: str, content: bytes) -> str:
    """Git's id of an object."""
    return hashlib.sha1(b"%s %d\0" % (kind.encode(), len(content)) + content, usedforsecurity=False).hexdigest()


class Store:
    """The object directory. `new`: objects not yet written, by id, each (kind, content)."""

    def __init__(self, directory: Path) -> None:
        configure()
        self.directory = directory
        self._looked, self._packs = 0, pygit2.Odb()
        self.new: dict[str, tuple[str, bytes]] = {}
        self._weight = 0
        self._recent: OrderedDict[str, tuple[str, bytes]] = OrderedDict()
        self._recent_weight = 0
        self.reopen()

    def reopen(self) -> None:
        """Look at the packs afresh: after some came or went, deleted ones are let go of."""
        looked, fresh = self._pack_time(), pygit2.Odb()
        try:
            fresh.add_backend(pygit2.OdbBackendPack(str(self.directory)), 1)
        except OSError as error:
            raise unreadable(f"{self.directory}/pack", error) from error
        self._looked, self._packs = looked, fresh

    def add(self, kind: str, content: bytes) -> str:
        """Id of an object, kept in memory unless it is already here and whole. Raises Transient(kind="disk")."""
        oid = name(kind, content)
        if self._pack_time() != self._looked:
            self.reopen()  # what a person's gc took away must not count as stored
        if oid not in self.new and not self._stored(oid):
            self.new[oid] = (kind, content)
            self._weight += len(content)
            if self._weight > _SPILL:
                self.flush()
        return oid

    def has(self, oid: str) -> bool:
        """Whether the object is here; a loose one only when it is whole."""
        if oid in self.new or oid in self._recent or oid == EMPTY_TREE:
            return True
        return _OID.match(oid) is not None and self._stored(oid)

    def _stored(self, oid: str) -> bool:
        """Whether it is on the disk: what is only at hand from an earlier read may be gone from there."""
        try:
            return self._packs.exists(pygit2.Oid(hex=oid)) or self._loose(oid) is not None
        except (errors.Refused, pygit2.GitError):
            return False
        except OSError as error:
            raise unreadable(f"object {oid}", error) from error

    def header(self, oid: str) -> tuple[str, int]:
        """Kind and length of an object. Raises Refused(kind="internal") when it is not here or damaged."""
        if oid not in self.new and oid not in self._recent and _OID.match(oid):
            kind, size = self._packed_header(oid)
            if kind:
                return kind, size
        kind, content = self.get(oid)
        return kind, len(content)

    def get(self, oid: str) -> tuple[str, bytes]:
        """Kind and content of an object. Raises Refused(kind="internal") when it is not here or damaged."""
        found = self.new.get(oid) or self._recent.get(oid)
        if found is not None:
            return found
        if oid == EMPTY_TREE:
            return "tree", b""
        if not _OID.match(oid):
            raise ValueError(f"not an object id: {oid!r}")
        kind, size = self._packed_header(oid)
        if kind not in ("", "blob") and size > LARGEST:
            raise damaged(f"object {oid}, a {kind} of {size} bytes, is larger than any of a soul")
        found = self._packed(oid) or self._loose(oid)
        if found is None:
            raise damaged(f"object {oid} is not here")
        self._remember(oid, found)
        return found

    def read(self, kind: str, oid: str) -> bytes:
        """Content of an object of this kind. Raises Refused(kind="internal") when it is another, gone or damaged."""
        found, content = self.get(oid)
        if found != kind:
            raise damaged(f"object {oid} is a {found}, not a {kind}")
        return content

    def flush(self) -> None:
        """Write every new object as one durable pack. Raises Transient(kind="disk")."""
        if self.new:
            packs.write(self.directory / "pack", self.new)
            self.discard()

    def discard(self) -> None:
        """Forget the new objects."""
        self.new = {}
        self._weight = 0

    def close(self) -> None:
        """Let go of the packs and of all that was read."""
        self._packs = pygit2.Odb()
        self._recent.clear()
        self._recent_weight = 0

    def _pack_time(self) -> int:
        try:
            (self.directory / "pack").mkdir(exist_ok=True)
            return os.stat(self.directory / "pack").st_mtime_ns
        except OSError as error:
            raise unreadable(f"{self.directory}/pack", error) from error

    def _packed_header(self, oid: str) -> tuple[str, int]:
        """Kind and length of an object of a pack, ("", 0) when no pack can tell."""
        try:
            kind, size = self._packs.read_header(pygit2.Oid(hex=oid))
            return _WORDS[int(kind)], size
        except (KeyError, OSError, pygit2.GitError):
            return "", 0

    def _packed(self, oid: str) -> tuple[str, bytes] | None:
        wanted = pygit2.Oid(hex=oid)
        for again in (True, False):
            try:
                kind, content = self._packs.read(wanted)
                return _WORDS[int(kind)], content
            except KeyError:
                return None
            except (OSError, pygit2.GitError) as error:
                # A pack that was repacked away and is no longer open reads like a damaged one, once.
                if again:
                    self.reopen()
                    continue
                if self._loose(oid) is None:
                    raise damaged(f"object {oid} is damaged: {error}") from error
        return None

    def _loose(self, oid: str) -> tuple[str, bytes] | None:
        path = self.directory / oid[:2] / oid[2:]
        try:
            return read_loose(path, oid)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise unreadable(f"object {oid}", error) from error

    def forget(self) -> None:
        """Keep nothing at hand any more: what is read again is read from the disk."""
        self._recent.clear()
        self._recent_weight = 0

    def _remember(self, oid: str, found: tuple[str, bytes]) -> None:
        """Keep what history is made of at hand; the contents of files are read once."""
        if found[0] == "blob" or len(found[1]) > _SMALL:
            return
        self._recent[oid] = found
        self._recent_weight += len(found[1]) + 200
        while self._recent_weight > _REMEMBERED:
            _, (_, content) = self._recent.popitem(last=False)
            self._recent_weight -= len(content) + 200


def plain(path: Path) -> bytes:
    """Bytes of a regular file of git's own. Raises OSError, also for a pipe, which might never give any."""
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "is no regular file")
        return file.read()


def read_loose(path: Path, oid: str) -> tuple[str, bytes]:
    """A loose object, inflated and checked. Raises Refused(kind="internal") when damaged, OSError when unreadable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        try:
            whole = _inflate(file.read())
        except zlib.error as error:
            raise damaged(f"loose object {oid} is damaged: {error}") from error
    head, _, content = whole.partition(b"\0")
    kind, _, size = head.decode("ascii", "replace").partition(" ")
    if kind not in KINDS or size != str(len(content)):
        raise damaged(f"loose object {oid} is damaged: its length is not what its head says")
    if hashlib.sha1(whole, usedforsecurity=False).hexdigest() != oid:
        raise damaged(f"loose object {oid} is damaged: its bytes are not those of its name")
    return kind, content


def _inflate(packed: bytes) -> bytes:
    """Inflate a loose object, never further than its own head says. Raises zlib.error when it is cut short."""
    stream = zlib.decompressobj()
    start = stream.decompress(packed, 64)
    head, nul, _ = start.partition(b"\0")
    size = head.rpartition(b" ")[2]
    if not nul or not size.isdigit():
        raise zlib.error("no head")
    rest = stream.decompress(stream.unconsumed_tail, max(1, int(size) + len(head) + 2 - len(start)))
    if not stream.eof or stream.unused_data:
        raise zlib.error("cut short, or longer than its head says")
    return start + rest


def unreadable(what: str, error: OSError) -> errors.SoulError:
    """The error for what is there and cannot be read. A machine that is short of descriptors for a moment, or a disk
    that does not answer, says nothing about what lies there: nothing may be set aside for that."""
    words = error.strerror or str(error)

    def among(numbers: tuple[int, ...]) -> bool:
        # libgit2 passes the system's words on, and not their number.
        return error.errno in numbers or any(os.strerror(number) in words for number in numbers)

    if among(errors.SHORT_OF):
        return errors.Transient(f"{what} cannot be read now: {words}", kind="busy")
    if among(errors.FAILING):
        return errors.Transient(
            f"{what} cannot be read: {words}",
            kind="disk",
            advice="nothing was changed and nothing is set aside; look at the disk: sudo dmesg | tail",
        )
    return damaged(f"{what} cannot be read: {words}")


def damaged(message: str) -> errors.Refused:
    """The error for what history needs and the git directory no longer holds."""
    return errors.Refused(
        message,
        kind="internal",
        rule="REPO-7",
        advice="the files are safe; run `soul-bridge doctor`, which says how the git directory is made anew",
    )
