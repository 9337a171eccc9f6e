"""A clock that stands until it is told to go on."""

from __future__ import annotations


class FakeClock:
    """Two clocks set by hand: the wall's, which may step, and the one that only runs forward."""

    def __init__(self, now: float = 1_800_000_000.0, boottime: float = 1_000.0) -> None:
        self._now = now
        self._boottime = boottime

    def now(self) -> float:
        """Seconds since the epoch, UTC."""
        return self._now

    def boottime(self) -> float:
        """Seconds on a clock that only runs forward."""
        return self._boottime

    def sleep(self, seconds: float) -> None:
        """Let both clocks run, at once."""
        self.advance(max(0.0, seconds))

    def advance(self, seconds: float) -> None:
        """Let both clocks run. Raises ValueError for a step back."""
        if seconds < 0:
            raise ValueError("time does not run back: use step")
        self._now += seconds
        self._boottime += seconds

    def step(self, seconds: float) -> None:
        """Set only the wall's clock forward or back, as a person or NTP does."""
        self._now += seconds
