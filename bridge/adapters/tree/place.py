"""The way to a path: one open directory after the other, never through a link."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bridge.adapters.tree.exchange import sync_directory, translated
from bridge.core import layout
from bridge.core.errors import Held, Moved

DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
# What Linux takes as a whole path; longer ones could be made here but not be opened by the agent.
LONGEST = 4095
# Deeper than any soul; a bound so that a hostile tree cannot use up descriptors.
DEEPEST = 100


@dataclass(frozen=True)
class Place:
    """An open way: the directories from the top down, the names that lead through them, and the last name.

    `made`: how many of the directories, counted from the deepest, were missing before.
    """

    directories: tuple[int, ...]
    names: tuple[str, ...]
    name: str
    made: int = 0

    @property
    def directory(self) -> int:
        """The open directory that holds the last name."""
        return self.directories[-1]

    def prune(self, most: int | None = None) -> None:
        """Remove directories on the way that are empty, deepest first, at most so many; never the top."""
        below_top = list(zip(self.directories, self.names, strict=False))
        for above, name in below_top[::-1][:most]:
            try:
                os.rmdir(name, dir_fd=above)
            except OSError:
                return  # not empty, or not ours to remove: it stays


def parts_of(path: str) -> list[str]:
    """The names of a path. Raises Held(rule="TREE-7") for one that could lead out of the soul or into git's own."""
    parts = path.split("/")
    for part in parts:
        if part in ("", ".", "..") or part.casefold() == ".git" or "\0" in part:
            raise Held(f"{path!r} is not touched: the name {part!r} is not safe here", rule="TREE-7")
    return parts


@contextlib.contextmanager
def way(root: Path, path: str, *, make: bool = False, folds: bool = False) -> Iterator[Place]:
    """Open the directories above a path, making the missing ones on request.

    Raises Moved when one is missing, Held when something that is no directory of this soul is on the way,
    Transient(kind="disk").
    """
    *above, name = parts_of(path)
    if make:
        reason = layout.unsafe(path)
        if reason is None and len(above) >= DEEPEST:
            reason = f"it is {DEEPEST} or more folders deep"
        if reason is None and len(os.fsencode(root / path)) > LONGEST:
            reason = "the path is too long for this system"
        if reason is not None:
            raise Held(f"{path!r} is not written: {reason}", rule="TREE-7")
    with contextlib.ExitStack() as stack:
        try:
            opened = [os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)]
            stack.callback(os.close, opened[0])
            made = 0
            for part in above:
                if make and folds:
                    refuse_twin(opened[-1], part, path)
                there = not make or exists(opened[-1], part)
                opened.append(_step(opened[-1], part, make))
                stack.callback(os.close, opened[-1])
                made += not there
                _refuse_foreign(opened[0], opened[-1], part, path)
        except OSError as error:
            raise translated(error, path) from error
        yield Place(tuple(opened), tuple(above), name, made)


def _step(directory: int, name: str, make: bool) -> int:
    try:
        return os.open(name, DIRECTORY, dir_fd=directory)
    except FileNotFoundError:
        if not make:
            raise
    with contextlib.suppress(FileExistsError):  # made by the agent just now: as good
        os.mkdir(name, dir_fd=directory)
    sync_directory(directory)
    return os.open(name, DIRECTORY, dir_fd=directory)


def _refuse_foreign(root: int, directory: int, name: str, path: str) -> None:
    if os.fstat(root).st_dev != os.fstat(directory).st_dev:
        raise Held(f"{path} is not touched: {name} is a mount point", rule="GUARD-6")
    if exists(directory, ".git"):
        raise Held(f"{path} is not touched: {name} is a nested repository", rule="TREE-6")


def exists(directory: int, name: str) -> bool:
    """Whether an open directory has this name, whatever it is."""
    try:
        os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def refuse_twin(directory: int, name: str, path: str) -> None:
    """Raise Held(rule="TREE-7") when the directory has another name that a folding file system takes for this one."""
    there = os.listdir(directory)
    if name in there:
        return
    for each in there:
        if layout.fold(each) == layout.fold(name):
            raise Held(f"{path} is not written: {each!r} is the same name on this file system", rule="TREE-7")


def folding(root: Path) -> bool:
    """Whether the file system takes names that differ in case for the same, asked of the one name always there."""
    try:
        return os.path.samestat(os.lstat(root / ".git"), os.lstat(root / ".GIT"))
    except OSError:
        return False


def kind_of(mode: int) -> str:
    """What a thing that is neither file nor directory is, in words."""
    if stat.S_ISLNK(mode):
        return "a symbolic link"
    if stat.S_ISFIFO(mode):
        return "a pipe"
    if stat.S_ISSOCK(mode):
        return "a socket"
    return "a device"


def is_link_error(error: OSError) -> bool:
    """Whether opening as a directory failed because something else stands there."""
    return error.errno in (errno.ELOOP, errno.ENOTDIR)


def mounts_below(root: Path) -> frozenset[str]:
    """Paths below the root that are mount points, bind mounts included; empty where the system does not tell."""
    try:
        with open("/proc/self/mountinfo", "rb") as table:
            lines = table.read().splitlines()
    except OSError:
        return frozenset()
    top = os.fsencode(os.path.realpath(root)).rstrip(b"/") + b"/"
    found = set()
    for line in lines:
        place = line.split(b" ", 5)[4]
        if b"\\" in place:
            place = re.sub(rb"\\([0-7]{3})", lambda octal: bytes([int(octal[1], 8)]), place)
        if place.startswith(top):
            found.add(os.fsdecode(place[len(top) :]))
    return frozenset(found)


@contextlib.contextmanager
def flocked(way: Place, path: str) -> Iterator[None]:
    """Hold the flock of `<file>.lock` where an agent keeps one; raises Moved when it is taken. Never waits."""
    descriptor = -1
    with contextlib.suppress(OSError):  # no lock file, or none that we may open
        descriptor = os.open(f"{way.name}.lock", FILE, dir_fd=way.directory)
    try:
        if descriptor >= 0:
            _take(descriptor, path)
        yield
    finally:
        if descriptor >= 0:
            os.close(descriptor)


def _take(descriptor: int, path: str) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise Moved(f"{path}.lock is taken") from error
    except OSError:
        return  # a file system without flock: then the agent has none either
