"""Who read a file since we wrote it (MERGE-12, the watcher's part): closes after reads, our own not counted.

The kernel says that a file was closed after reading, not by whom. So every read of ours is announced before its
close, and pays for one close that the watcher sees soon after.

Nor does it say which version. What the watcher hears comes late, but in order: a close that it hears before our
exchange of that file was of the version before, even if it was heard, or happened, after we had set about the
exchange. And once an agent wrote the file, who reads it reads what that agent made of it, which may be an older copy:
such reads count again when that was recorded.
"""

from __future__ import annotations

import contextlib
import math
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeVar

from bridge.core.ports import Clock

_T = TypeVar("_T")

MOST = 10_000  # paths that are remembered; of those that were read longest ago, nobody can tell from then on
SOON = 2.0  # seconds within which the watcher tells of a read of ours; later it was lost, and pays for nothing
LATE = 30.0  # seconds within which it tells of an exchange; later it never saw it


@dataclass(eq=False, slots=True)
class _Exchange:
    """When it began and when it was done, boottimes; the watcher has not told of it yet. came: of a file that took the
    name since."""

    began: float
    done: float = math.inf
    came: bool = False


class Reads:
    """Boottimes of the last close after a read that was not ours, by path. Safe from several threads."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._began = clock.boottime()
        self._ours: dict[str, list[float]] = {}
        self._full = MOST
        self._others: dict[str, float] = {}
        self._exchanges: dict[str, list[_Exchange]] = {}
        self._written: dict[str, float] = {}
        self._coming: dict[str, float] = {}
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

    @contextlib.contextmanager
    def replacing(self, path: str, began: float) -> Iterator[None]:
        """Around an exchange of this file that began at this boottime; an error says that it did not take place."""
        exchange = _Exchange(began)
        with self._lock:
            self._exchanges[path] = [*self._unheard(path), exchange]
            if len(self._exchanges) > MOST:
                self._exchanges = {known: late for known in self._exchanges if (late := self._unheard(known))}
        try:
            yield
        except BaseException:
            with self._lock:
                _keep(self._exchanges, path, [one for one in self._exchanges.get(path, ()) if one is not exchange])
            raise
        with self._lock:
            exchange.done = self._clock.boottime()

    def left(self, path: str) -> None:
        """The watcher saw that this file gave up its name, as it does in an exchange."""
        with self._lock:
            exchanges = self._exchanges.get(path, [])
            if not exchanges:
                self._note(self._written, path)
            else:
                self._written.pop(path, None)  # ours stands there now
                if not exchanges[0].came:
                    self._note(self._coming, path)  # names are moved one after the other here
                # What we closed before that was told before that: the kernel told two closes as one.
                _, later = self._owed(path, exchanges[0].done)
                _keep(self._ours, path, later)
                _keep(self._exchanges, path, exchanges[1:])

    def came(self, path: str) -> None:
        """The watcher saw a file take this name."""
        with self._lock:
            for exchange in self._unheard(path)[:1]:
                exchange.came = True
            if self._clock.boottime() - self._coming.pop(path, -math.inf) >= SOON:
                self._note(self._written, path)

    def written(self, path: str) -> None:
        """The watcher saw this file written in place."""
        with self._lock:
            self._note(self._written, path)

    def recorded(self, path: str, began: float) -> None:
        """What stood there after this boottime has been recorded: if nobody wrote since, a read is a read of that."""
        with self._lock:
            if self._written.get(path, math.inf) < began:
                del self._written[path]

    def _note(self, moments: dict[str, float], path: str) -> None:
        moments.pop(path, None)
        moments[path] = self._clock.boottime()
        if len(moments) > MOST:
            del moments[next(iter(moments))]

    def closed(self, path: str) -> None:
        """The watcher saw this file closed after a read."""
        with self._lock:
            exchanges = self._unheard(path)
            before, later = self._owed(path, exchanges[0].done if exchanges else math.inf)
            _keep(self._ours, path, before[1:] + later)
            if not before and path not in self._written:
                when = math.nextafter(exchanges[0].began, -math.inf) if exchanges else self._clock.boottime()
                self._others[path] = max(self._others.get(path, -1.0), when)
                if len(self._others) > MOST:
                    self._forget()

    def _owed(self, path: str, done: float) -> tuple[list[float], list[float]]:
        """When we read the file without having heard of its close: before an exchange was done, and since."""
        now = self._clock.boottime()
        waiting = [at for at in self._ours.get(path, ()) if now - at < SOON]
        return [at for at in waiting if at < done], [at for at in waiting if at >= done]

    def _unheard(self, path: str) -> list[_Exchange]:
        now = self._clock.boottime()
        return [one for one in self._exchanges.get(path, ()) if now - one.began < LATE]

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


def _keep(known: dict[str, list[_T]], path: str, kept: list[_T]) -> None:
    known.pop(path, None)
    if kept:
        known[path] = kept
