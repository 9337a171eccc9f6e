"""Who read a file since we wrote it (MERGE-12, the watcher's part): closes after reads, our own not counted.

The kernel says that a file was closed after reading, not by whom. So every read of ours is announced before it
happens, and pays for one close that the watcher sees soon after.
"""

from __future__ import annotations

import math
import threading

from bridge.core.ports import Clock

MOST = 10_000  # paths that are remembered; of those that were read longest ago, nobody can tell from then on
SOON = 2.0  # seconds within which the watcher tells of a read of ours; later it was lost, and pays for nothing


class Reads:
    """Boottimes of the last close after a read that was not ours, by path. Safe from several threads."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._began = clock.boottime()
        self._ours: dict[str, list[float]] = {}
        self._full = MOST
        self._others: dict[str, float] = {}
        self._blind = True
        self._lock = threading.Lock()

    def watching(self, sees: bool) -> None:
        """Whether the watcher sees everything: while it does not, nobody can tell who read what."""
        with self._lock:
            if self._blind and sees:
                self._began = self._clock.boottime()
            self._blind = not sees

    def ours(self, path: str) -> None:
        """We are about to open this file for reading."""
        with self._lock:
            now = self._clock.boottime()
            waiting = [at for at in self._ours.get(path, ()) if now - at < SOON]
            self._ours[path] = [*waiting, now]
            if len(self._ours) > self._full:
                self._ours = {known: at for known, at in self._ours.items() if now - at[-1] < SOON}
                self._full = max(MOST, 2 * len(self._ours))  # a first look at many files is one sweep more, not many

    def closed(self, path: str) -> None:
        """The watcher saw this file closed after a read."""
        with self._lock:
            now = self._clock.boottime()
            waiting = [at for at in self._ours.pop(path, ()) if now - at < SOON]
            if not waiting:
                self._others[path] = now
                if len(self._others) > MOST:
                    self._forget()
            elif waiting[1:]:
                self._ours[path] = waiting[1:]

    def _forget(self) -> None:
        """Let go of half, as years of files with names of their own want: before the last of them we knew nothing."""
        ordered = sorted(self._others.items(), key=lambda item: item[1])
        self._began = math.nextafter(ordered[MOST // 2][1], math.inf)
        self._others = dict(ordered[MOST // 2 + 1 :])

    def since(self, path: str, boottime: float) -> bool:
        """Whether somebody else closed the file after reading it since then; True where nobody can tell."""
        with self._lock:
            if self._blind or boottime < self._began:
                return True
            return self._others.get(path, -1.0) >= boottime
