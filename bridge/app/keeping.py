"""Several souls in one process: each lives in a thread of its own and begins again, ever later, when it fails.

What one of them does, hangs in or dies of is never another one's business. Nothing here knows what a soul is made of:
it is opened by a function that is passed in.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from bridge.app.daemon import Daemon
from bridge.core.errors import SoulError, Unusable
from bridge.core.model import RemoteLook
from bridge.core.ports import Clock, Facts, Remote

FIRST_RETRY = 2.0  # seconds before a soul that failed begins again; each further failure doubles it
LONGEST_RETRY = 300.0
SOUND = 600.0  # a life of so many seconds makes the next failure a first one again
LONGEST_STEP = 900.0  # seconds that a pass may take between two signs of getting on
LONGEST_CALL = 2100.0  # the same while the remote is spoken to: a whole transfer may take half an hour
ASLEEP = 30.0  # seconds between two looks that were to be a second apart


class Kept(Protocol):
    """An open soul and its daemon."""

    @property
    def daemon(self) -> Daemon:
        """What makes its passes."""

    @property
    def beat(self) -> Beat:
        """Its signs of life."""

    def stop(self) -> None:
        """Ask for the end; from another thread. Never raises."""

    def cut(self) -> None:
        """End what goes on with the remote; from another thread. Never raises."""

    def close(self) -> None:
        """Let go of everything, once the daemon has ended."""


@dataclass(frozen=True)
class Setback:
    """A soul that does not live. wait: seconds until it begins again, None: not before its configuration changed."""

    agent: str
    error: BaseException
    wait: float | None


def pause_after(failures: int) -> float:
    """Seconds to wait after so many failures in a row."""
    return min(FIRST_RETRY * 2.0 ** min(failures - 1, 16), LONGEST_RETRY)


def is_final(error: BaseException) -> bool:
    """Whether waiting cannot help: only another configuration can."""
    return isinstance(error, Unusable) or (isinstance(error, SoulError) and error.exit_code == 2)


class Beat:
    """When a soul last got on, and how long what it does now may take."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._mark = (clock.boottime(), LONGEST_STEP)

    def got_on(self, may_take: float = LONGEST_STEP) -> None:
        """Something was done; what follows may take `may_take` seconds."""
        self._mark = (self._clock.boottime(), may_take)

    def is_overdue(self, now: float, since: float) -> bool:
        """Whether nothing was done for too long at the boottime `now`; `since`: an instant that counts as a sign."""
        at, may_take = self._mark
        return now - max(at, since) > may_take


class NotedRemote:
    """A remote whose calls have a longer limit and whose answers are signs of getting on."""

    def __init__(self, remote: Remote, beat: Beat) -> None:
        self._remote = remote
        self._beat = beat

    def fetch(self, known: Collection[str]) -> RemoteLook:
        """As the port says."""
        with self._call():
            return self._remote.fetch(known)

    def push(self, expected: str | None, new: str) -> None:
        """As the port says."""
        with self._call():
            self._remote.push(expected, new)

    def close(self) -> None:
        """As the port says."""
        self._remote.close()

    @contextlib.contextmanager
    def _call(self) -> Iterator[None]:
        self._beat.got_on(LONGEST_CALL)
        try:
            yield
        finally:
            self._beat.got_on()


class NotedFacts:
    """Facts each of which is a sign of getting on. pass_id: the pass that they belong to."""

    def __init__(self, facts: Facts, beat: Beat) -> None:
        self.pass_id: str | None = None
        self._facts = facts
        self._beat = beat

    def bind_pass(self, id: str | None) -> None:
        """As the port says."""
        self.pass_id = id
        self._facts.bind_pass(id)

    def record(self, event: str, **fields: Any) -> None:
        """As the port says."""
        self._facts.record(event, **fields)
        self._beat.got_on()


class Keeper:
    """Keeps one soul alive from `start` to `stop`.

    open_soul: opens it, with every lock it needs. tell: is told of each failure, in the soul's own thread.
    failures: in a row. error: why it does not live now.
    """

    def __init__(
        self, agent: str, open_soul: Callable[[], Kept], clock: Clock, tell: Callable[[Setback], None]
    ) -> None:
        self.agent = agent
        self.kept: Kept | None = None
        self.error: BaseException | None = None
        self.failures = 0
        self.tried = threading.Event()  # it was opened once, or failed to be
        self._open = open_soul
        self._clock = clock
        self._tell = tell
        self._began = clock.boottime()
        self._step: float | None = self._began  # boottime since which it is being opened or closed
        self._ending: float | None = None  # boottime since which its end is wanted
        self._end = threading.Event()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._keep, name=f"soul-{agent}", daemon=True)

    def start(self) -> None:
        """Begin, in a thread of its own."""
        self._thread.start()

    def stop(self) -> None:
        """Ask for the end; what is going on ends as `Daemon.stop` says."""
        with self._lock:
            if self._ending is None:
                self._ending = self._clock.boottime()
            self._end.set()
            if self.kept is not None:
                self.kept.stop()

    def join(self, timeout: float) -> bool:
        """Wait for the end; whether it came."""
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def cut(self) -> None:
        """End what goes on with the remote, so that a dead connection is not waited for."""
        kept = self.kept
        if kept is not None:
            kept.cut()

    def look_again(self) -> None:
        """Have everything looked at, now."""
        kept = self.kept
        if kept is not None:
            kept.daemon.inbox.hint(None)

    @property
    def problem(self) -> SoulError | None:
        """What is in the way of its passes, None when nothing is."""
        kept = self.kept
        return kept.daemon.life.problem if kept is not None else None

    def is_stuck(self, now: float, since: float) -> bool:
        """Whether it hangs, at the boottime `now`. `since`: when the machine last woke up, which excuses what was."""
        step = self._step if self._ending is None else self._ending
        if step is not None:
            return self._thread.is_alive() and now - max(step, since) > LONGEST_STEP
        kept = self.kept
        if kept is None:
            return False  # it waits until it begins again
        return kept.beat.is_overdue(now, max(since, kept.daemon.life.progressed))

    def _keep(self) -> None:
        while not self._end.is_set():
            error = self._live()
            if error is None or self._end.is_set():
                break
            lived = self._clock.boottime() - self._began
            self.failures = 1 if lived >= SOUND else self.failures + 1
            wait = None if is_final(error) else pause_after(self.failures)
            self.error = error
            self.tried.set()
            self._tell(Setback(self.agent, error, wait))
            self._end.wait(wait)
        self.tried.set()

    def _live(self) -> BaseException | None:
        """One life; what it ended with, None for an end that was asked for."""
        self._began = self._step = self._clock.boottime()
        try:
            kept = self._open()
        except BaseException as error:  # noqa: BLE001 - kept, told, and tried again
            self._step = None
            return error
        with self._lock:
            self.kept, self.error = kept, None
            self._step = None
            if self._end.is_set():
                kept.stop()
        self.tried.set()
        try:
            kept.daemon.run()
        except BaseException as error:  # noqa: BLE001 - as any other end: told, and tried again
            return error
        finally:
            self.kept = None
            with contextlib.suppress(SoulError, OSError):
                kept.close()
            self._step = None
        return kept.daemon.failure


class Vigil:
    """Notices that the machine slept, or that this process was held: far more time passed than was waited.

    Boot time runs on in suspend, which makes waits longer than they were meant; so whoever waits is told.
    woke: the boottime of the last such look.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last = clock.boottime()
        self.woke = self._last

    def look(self) -> float:
        """Seconds that were slept through since the last look, 0.0 when none were. Call it about once a second."""
        now = self._clock.boottime()
        passed, self._last = now - self._last, now
        if passed <= ASLEEP:
            return 0.0
        self.woke = now
        return passed
