"""The configured consolidation: run at its times, once for every time that was missed, ended with the daemon.

A time counts as kept when the command ran to its end, or when another body had the lease: then it consolidates. One
that was refused otherwise, found the remote unreachable, passes paused, lost the lease or was cut off by the end of the
daemon is made up for.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from bridge.app.telling import Once, sameness
from bridge.core.errors import SoulError, Unusable
from bridge.core.ports import Clock

AGAIN = 600.0  # seconds until a time that could not be kept is tried again
ENDING = 8.0  # seconds that a run may take to end when the daemon does
HELD = ("lease", "LEASE-2")  # kind and rule of the refusal that says another body has the lease
MEMORY = "consolidated"  # in the state directory: when a time was last kept


class Timetable(Protocol):
    """When it is time; calls what it was made with, at those times."""

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def next_after(self, now: float) -> float | None:
        """The next time after `now`, in seconds since the epoch."""


# Runs the command under the lease, until its end or until it is asked to stop: its exit code, and what kept its
# results from being published. Raises as `Holder.run`.
Work = Callable[[Callable[[], bool]], tuple[int, SoulError | None]]


class Diary:
    """When a time was last kept, across restarts: a file with seconds since the epoch."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> float | None:
        """The last time, None when there was none."""
        with contextlib.suppress(OSError, ValueError):
            return float(self._path.read_text("ascii"))
        return None

    def write(self, now: float) -> None:
        """Remember it. Never raises: the worst is a run too many."""
        fresh = self._path.with_name(f".{self._path.name}.new")
        with contextlib.suppress(OSError):
            fresh.write_text(f"{now}\n", "ascii")
            os.replace(fresh, self._path)


class Nightly:
    """Keeps the times of one soul from `start` to `stop`. `due` is what its timetable calls.

    paused: whether a person stopped the passes. tell: hears in words how each run went. fault: hears of a bug that
    ended a run, and how often in a row it was the same one.
    """

    def __init__(
        self,
        work: Work,
        diary: Diary,
        clock: Clock,
        paused: Callable[[], bool],
        tell: Callable[[str], None],
        fault: Callable[[BaseException, int], None],
    ) -> None:
        self.busy = False
        self._work = work
        self._diary = diary
        self._clock = clock
        self._paused = paused
        self._tell = tell
        self._fault = fault
        self._faults = Once()
        self._wake = threading.Event()
        self._ending = threading.Event()
        self._timetable: Timetable | None = None
        self._thread = threading.Thread(target=self._keep, name="consolidation", daemon=True)

    def due(self) -> None:
        """It is time, now."""
        self._wake.set()

    def start(self, timetable: Timetable) -> None:
        """Begin; a time that was missed since the last one that was kept is made up for at once."""
        now, last = self._clock.now(), self._diary.read()
        if last is None or last > now:
            self._diary.write(now)
        else:
            missed = timetable.next_after(last)
            if missed is not None and missed <= now:
                self.due()
        self._timetable = timetable
        self._thread.start()
        timetable.start()

    def stop(self, patience: float = ENDING) -> None:
        """End; a command that runs is stopped. Waits so many seconds for that at most."""
        self._ending.set()
        self._wake.set()
        if self._timetable is not None:
            self._timetable.stop()
            self._thread.join(patience)

    def _keep(self) -> None:
        pause: float | None = None
        while True:
            self._wake.wait(pause)
            self._wake.clear()
            if self._ending.is_set():
                return
            self.busy = True
            pause = None if self._faultless() else AGAIN
            self.busy = False

    def _faultless(self) -> bool:
        """`_once`, whose bugs end no thread. After one the next time is waited for: a command that was run ten times
        an hour would fill history with leases."""
        try:
            done = self._once()
        except BaseException as error:  # noqa: BLE001 - told, and tried again
            self._fault(error, self._faults.again(MEMORY, sameness(error)))
            return True
        self._faults.over(MEMORY)
        return done

    def _once(self) -> bool:
        """Run the command once; whether that is all until the next time."""
        again = f"it is tried again in {AGAIN / 60:g} min"
        if self._paused():
            return False
        try:
            code, problem = self._work(self._ending.is_set)
        except Unusable as error:
            # Tried again it would only fill history with leases: the next time, or the next start, makes up for it.
            self._tell(f"no consolidation: {error.message}")
            return True
        except SoulError as error:
            if (error.kind, error.rule) != HELD:
                self._tell(f"no consolidation: {error.message}; {again}")
                return False
            self._tell(f"no consolidation: {error.message}")
        else:
            if self._ending.is_set():
                return False
            lines = f"the consolidation ended with exit code {code}" if code else "the memories were consolidated"
            self._tell(lines + (f"; not published yet: {problem.message}" if problem else ""))
        self._diary.write(self._clock.now())
        return True
