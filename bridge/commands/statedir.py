"""The state directory under a daemon, made again where it was removed or replaced: commands find the daemon by it.

What a person decided (`pause`) and what a checkout is known by are in memory, and are put back with it; the status and
the facts are written anew by whoever writes them.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from bridge.adapters import control, folders, formats, lock
from bridge.app import pause
from bridge.core.errors import SoulError, Transient

ROOM = 64 << 10  # bytes that a pass needs at the least for its memory and its note
REST = 15  # looks that are let pass before one who could not be helped is looked at again


class StateDirectory:
    """Of one soul that runs. held: its lock at `lock_file`. put_back: writes what else has to be there.

    say: hears once that it was gone, and once for each reason why it cannot be made. Used by the soul's thread;
    `watch` may be called by another.
    """

    def __init__(
        self, path: Path, held: lock.Lock, lock_file: Path, put_back: Callable[[], None], say: Callable[[str], None]
    ) -> None:
        self.server: control.Server | None = None
        self._path = path
        self._held = held
        self._lock_file = lock_file
        self._put_back = put_back
        self._say = say
        self._paused = False
        self._told = ""
        self._writes = True
        self._looks = 0

    @property
    def stands(self) -> bool:
        """Whether others find the lock and the socket by their names."""
        return self._held.stands(self._lock_file) and (self.server is None or self.server.stands)

    def watch(self, missed: Callable[[], None]) -> None:
        """Call `missed` where it does not stand; for one that stays so, not at every look. Never raises."""
        self._looks = 0 if self.stands else self._looks + 1
        if self._looks % REST == 1:
            missed()

    def is_paused(self) -> bool:
        """Whether a person stopped the passes; the directory is put back first, with that."""
        self.tend()
        self._paused = pause.is_paused(self._path)
        return self._paused

    def tend(self) -> None:
        """Make again what is gone. Never raises: what keeps it from being made is said once."""
        if self.stands:
            self._told = ""
            return
        try:
            self._make()
        except SoulError as error:
            self._once(f"the state directory was taken away, and {error.message}")
            return
        self._told = ""
        self._say(f"{self._path} was taken away or replaced while the daemon ran; what it needs there is made again")

    def written(self, done: bool) -> None:
        """Whether the status could be written there; that it could not is said once."""
        if not done and self._writes and self.stands:
            self._say(f"the status cannot be written to {self._path}; passes go on. See: ls -ld {self._path}")
        self._writes = done

    def _once(self, words: str) -> None:
        if self._told != words:
            self._told = words
            self._say(f"{words}; passes go on, but commands find no daemon. See: ls -ld {self._path.parent}")

    def _make(self) -> None:
        gone = not self._held.stands(self._lock_file)
        make(self._path)
        formats.settle(self._path)
        self._held.renew(self._lock_file)
        if gone:
            self._put_back()
            if self._paused:
                pause.pause(self._path)
        if self.server is not None:
            self.server.renew()


def make(path: Path) -> None:
    """Make a state directory where there is none (0700). Raises Transient(kind="disk")."""
    try:
        folders.make(path)
    except OSError as error:
        raise Transient(
            f"{path} cannot be made: {error.strerror}",
            kind="disk",
            advice=f"See what is in the way: ls -ld {path.parent}",
        ) from error


def keeper(soul: Path, lock_file: Path) -> int | None:
    """The process that keeps the soul in a checkout although the lock in its state directory is free: that directory
    was taken away from it. None where nobody does."""
    pid = lock.holder(soul / ".git" / "soul-bridge" / "lock")
    # Whoever began in between holds both.
    return None if pid is None or lock.is_held(lock_file) else pid


def warning(pid: int, state: Path) -> str:
    """What is said of a soul of which that is so."""
    return (
        f"process {pid} keeps this soul, but its state directory {state} was taken away: it is made again within "
        "seconds, or the log of that process says why it cannot be"
    )


def is_full(place: Path) -> bool:
    """Whether the file system that holds a folder has no room left for a pass or a note."""
    try:
        found = os.statvfs(place)
    except OSError:
        return False  # what is the matter there, others say
    return found.f_bavail * found.f_frsize < ROOM or (found.f_files > 0 and found.f_favail == 0)
