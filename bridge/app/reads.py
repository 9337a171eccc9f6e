"""Who read a file since we wrote it (MERGE-12, the watcher's part): closes after reads, our own not counted.

The kernel says that a file was closed after reading, not by whom. So every read of ours is announced before its
close, and pays for one close that the watcher sees soon after.

Nor does it say when. What the watcher hears comes late, but in order: a close that it hears before our exchange of that
file was of the version before, even if it was heard, or happened, after we had set about the exchange.
"""

from __future__ import annotations

import math
import threading

from bridge.core.ports import Clock

MOST = 10_000  # paths that are remembered; of those that were read longest ago, nobody can tell from then on
SOON = 2.0  # seconds within which the watcher tells of a read of ours; later it was lost, and pays for nothing
LATE = 30.0  # seconds within which it tells of an exchange; later it never saw it


class Reads:
    """Boottimes of the last close after a read that was not ours, by path. Safe from several threads."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._began = clock.boottime()
        self._ours: dict[str, list[float]] = {}
        self._full = MOST
        self._others: dict[str, float] = {}
        self._exchanges: dict[str, list[float]] = {}
        self._blind = True
        self._lock = threading.Lock()

    def watching(self, sees: bool) -> None:
        """Whether the watcher sees everything: while it does not, nobody can tell who read what."""
        with self._lock:
            if self._blind and sees:
                self._began = self._clock.boottime()
            self._blind = not sees

    def ours(self, path: str) -> None:
        """We are reading this file, and have not closed it yet."""
        with self._lock:
            now = self._clock.boottime()
            waiting = [at for at in self._ours.get(path, ()) if now - at < SOON]
            self._ours[path] = [*waiting, now]
            if len(self._ours) > self._full:
                self._ours = {known: at for known, at in self._ours.items() if now - at[-1] < SOON}
                self._full = max(MOST, 2 * len(self._ours))  # a first look at many files is one sweep more, not many

    def replacing(self, path: str, began: float | None) -> None:
        """An exchange of this file begins, at this boottime. None: the last one that began did not take place."""
        with self._lock:
            if began is None:
                self._keep(self._exchanges, path, self._exchanges.get(path, [])[:-1])
                return
            self._exchanges[path] = [*self._unheard(path), began]
            if len(self._exchanges) > MOST:
                self._exchanges = {known: late for known in self._exchanges if (late := self._unheard(known))}

    def left(self, path: str) -> None:
        """The watcher saw that this file gave up its name, as it does in an exchange."""
        with self._lock:
            waiting = self._exchanges.pop(path, [])
            if waiting:
                # What we closed before that was told before that: the kernel told two closes as one.
                _, later = self._owed(path, waiting[0])
                self._keep(self._ours, path, later)
            self._keep(self._exchanges, path, waiting[1:])

    def closed(self, path: str) -> None:
        """The watcher saw this file closed after a read."""
        with self._lock:
            exchanges = self._unheard(path)
            first = exchanges[0] if exchanges else math.inf
            before, later = self._owed(path, first)
            self._keep(self._ours, path, before[1:] + later)
            if not before:
                when = math.nextafter(first, -math.inf) if exchanges else self._clock.boottime()
                self._others[path] = max(self._others.get(path, -1.0), when)
                if len(self._others) > MOST:
                    self._forget()

    def _owed(self, path: str, exchange: float) -> tuple[list[float], list[float]]:
        """When we read the file without having heard of its close: before an exchange, and since."""
        now = self._clock.boottime()
        waiting = [at for at in self._ours.get(path, ()) if now - at < SOON]
        return [at for at in waiting if at < exchange], [at for at in waiting if at >= exchange]

    def _keep(self, times: dict[str, list[float]], path: str, kept: list[float]) -> None:
        times.pop(path, None)
        if kept:
            times[path] = kept

    def _unheard(self, path: str) -> list[float]:
        now = self._clock.boottime()
        return [began for began in self._exchanges.get(path, ()) if now - began < LATE]

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
