"""A clock that runs with the machine's, but is so much later, and wrong by so much."""

from __future__ import annotations

from dataclasses import dataclass

from bridge.adapters.clock import SystemClock


@dataclass
class Time:
    """What all bodies share: how much later it is than it really is, in seconds."""

    passed: float = 0.0


class LaterClock(SystemClock):
    """A machine's clock; `wrong`: seconds by which somebody set it wrong. What runs through suspend cannot be set."""

    def __init__(self, time: Time) -> None:
        self._time = time
        self.wrong = 0.0

    def now(self) -> float:
        return super().now() + self._time.passed + self.wrong

    def boottime(self) -> float:
        return super().boottime() + self._time.passed
