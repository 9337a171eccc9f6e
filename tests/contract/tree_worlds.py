"""A tree and an agent beside it, once in memory and twice on a disk, with the same verbs."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

from bridge.adapters.tree import Tree
from bridge.adapters.tree.exchange import swap, swap_in_steps
from bridge.core.errors import Moved
from bridge.core.model import PLAIN, File, SeenEntry, Stamp, blob_id
from bridge.fakes.clock import FakeClock
from bridge.fakes.tree import FakeTree

LIMIT = 1 << 20


class Crash(BaseException):
    """The program was killed here."""


class ShiftedClock:
    """Real time, moved forward as tests wish."""

    def __init__(self) -> None:
        self.shift = 0.0

    def now(self) -> float:
        """Seconds since the epoch."""
        return time.time() + self.shift

    def boottime(self) -> float:
        """Seconds on a clock that only runs forward."""
        return time.monotonic() + self.shift

    def sleep(self, seconds: float) -> None:
        """Let time pass without waiting."""
        self.shift += seconds


class Handle(Protocol):
    """A descriptor of the agent, open for writing at the end of a file."""

    def write(self, content: bytes) -> Any:
        """Append."""

    def close(self) -> None:
        """Close."""


class World:
    """What a test of the port may do to the files behind its back."""

    tree: Any

    def seen(self, path: str) -> SeenEntry:
        """Read a file through the port and say what was seen."""
        reading = self.tree.read(path, LIMIT)
        mode = 0o100755 if reading.stamp.executable else PLAIN
        return SeenEntry(File(blob_id(reading.content), mode), blob_id(reading.content), reading.stamp)

    def written(self, stamp: Stamp, content: bytes) -> SeenEntry:
        """What was seen after the port wrote this content."""
        return SeenEntry(File(blob_id(content)), blob_id(content), stamp)

    def crash_at(self, name: str) -> None:
        """Kill the program at its next step of this name."""

        def kill(step: str) -> None:
            if step == name:
                raise Crash(step)

        self.tree.checkpoint = kill

    def steps_of(self, act: Callable[[], Any]) -> list[str]:
        """The steps an act takes, in order."""
        steps: list[str] = []
        self.tree.checkpoint = steps.append
        act()
        self.tree.checkpoint = lambda name: None
        return steps


class FakeWorld(World):
    """The tree in memory."""

    name = "fake"

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.tree: FakeTree = FakeTree(self.clock)
        self.write = self.tree.agent_write
        self.append = self.tree.agent_append
        self.rename_over = self.tree.agent_rename_over
        self.delete = self.tree.agent_delete
        self.mkdir = self.tree.agent_mkdir
        self.rename = self.tree.agent_rename
        self.chmod = self.tree.agent_chmod
        self.open = self.tree.agent_open
        self.paths = self.tree.paths
        self.content = self.tree.agent_read
        self.directories = self.tree.directories
        self.link = self.tree.agent_special

    def pass_time(self, seconds: float) -> None:
        """Let time pass."""
        self.clock.advance(seconds)

    def restart(self) -> None:
        """A new program on the same disk."""
        self.tree.checkpoint = lambda name: None

    @contextlib.contextmanager
    def locked(self, path: str) -> Iterator[None]:
        """Hold the flock of `<path>.lock`."""
        self.tree.locked.add(path)
        yield
        self.tree.locked.discard(path)

    @contextlib.contextmanager
    def full_disk(self) -> Iterator[None]:
        """Every write fails for want of space."""
        self.tree.full = True
        yield
        self.tree.full = False


class RealWorld(World):
    """A tree on a disk, exchanging names at once or in steps."""

    def __init__(self, base: Path, in_steps: bool) -> None:
        for directory in ("objects", "refs"):
            (base / "agent.soul" / ".git" / directory).mkdir(parents=True)
        (base / "agent.soul" / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
        self.reopen(base, in_steps)

    def reopen(self, base: Path, in_steps: bool) -> None:
        """Work on a disk that another program made."""
        self.name = "steps" if in_steps else "real"
        self.clock = ShiftedClock()
        self.root = base / "agent.soul"
        self.private = self.root / ".git" / "soul-bridge"
        self._base = base
        self._swap = swap_in_steps if in_steps else swap
        self.restart()

    def restart(self) -> None:
        """A new program on the same disk."""
        self.tree: Tree = Tree(self.root, self.private, self.clock, swap=self._swap)

    def write(self, path: str, content: bytes) -> None:
        """Open, truncate, write, close."""
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_bytes(content)

    def append(self, path: str, content: bytes) -> None:
        """Open to append, write, close."""
        with open(self.root / path, "ab") as opened:
            opened.write(content)

    def rename_over(self, path: str, content: bytes) -> None:
        """Write a temporary file and rename it over the path."""
        fresh = self._base / "fresh"
        fresh.write_bytes(content)
        fresh.replace(self.root / path)

    def delete(self, path: str) -> None:
        """Remove whatever is there."""
        place = self.root / path
        if place.is_dir() and not place.is_symlink():
            shutil.rmtree(place)
        else:
            place.unlink(missing_ok=True)

    def mkdir(self, path: str) -> None:
        """Make a directory and its parents."""
        (self.root / path).mkdir(parents=True, exist_ok=True)

    def rename(self, old: str, new: str) -> None:
        """Rename a file or a directory."""
        (self.root / new).parent.mkdir(parents=True, exist_ok=True)
        (self.root / old).rename(self.root / new)

    def chmod(self, path: str, executable: bool) -> None:
        """Set or take the executable bit."""
        (self.root / path).chmod(0o755 if executable else 0o644)

    def open(self, path: str) -> Handle:
        """A descriptor open for appending."""
        return open(self.root / path, "ab", buffering=0)

    def link(self, path: str) -> None:
        """Put a link to a place outside in place of what was there."""
        outside = self._base / "outside"
        outside.mkdir(exist_ok=True)
        self.delete(path)
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).symlink_to(outside)

    def content(self, path: str) -> bytes | None:
        """Bytes at the path, None when there is no file."""
        try:
            return (self.root / path).read_bytes()
        except OSError:
            return None

    def paths(self) -> dict[str, bytes]:
        """Every file with its bytes."""
        found = sorted(p for p in self.root.rglob("*") if p.is_file() and ".git" not in p.parts)
        return {p.relative_to(self.root).as_posix(): p.read_bytes() for p in found}

    def directories(self) -> set[str]:
        """Every directory but the top and git's."""
        found = {p.relative_to(self.root).as_posix() for p in self.root.rglob("*") if p.is_dir() and not p.is_symlink()}
        return {path for path in found if path.split("/")[0] != ".git"}

    def pass_time(self, seconds: float) -> None:
        """Let time pass."""
        self.clock.sleep(seconds)

    @contextlib.contextmanager
    def locked(self, path: str) -> Iterator[None]:
        """Hold the flock of `<path>.lock`."""
        lock = self.root / f"{path}.lock"
        with open(lock, "w") as opened:
            fcntl.flock(opened, fcntl.LOCK_EX)
            yield
        lock.unlink()

    @contextlib.contextmanager
    def full_disk(self) -> Iterator[None]:
        """Every write fails for want of space."""

        def fail(step: str) -> None:
            if step in ("write", "remove.note"):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        self.tree.checkpoint = fail
        yield
        self.tree.checkpoint = lambda name: None


def make_world(kind: str, base: Path) -> Any:
    """A fresh world of one kind: "fake", "real" or "steps"."""
    return FakeWorld() if kind == "fake" else RealWorld(base, kind == "steps")


def moved(act: Callable[[], Any]) -> bool:
    """Whether the act was refused because something is not as expected."""
    try:
        act()
    except Moved:
        return True
    return False
