"""The only room that reads time."""

from __future__ import annotations

import time
from pathlib import Path

_BOOT = Path("/proc/sys/kernel/random/boot_id")


class SystemClock:
    """This machine's clock."""

    def now(self) -> float:
        """Seconds since the epoch, UTC; may jump."""
        return time.time()

    def boottime(self) -> float:
        """Seconds on a clock that only runs forward and through suspend."""
        return time.clock_gettime(time.CLOCK_BOOTTIME)

    def sleep(self, seconds: float) -> None:
        """Wait at least so long; nothing at all for a length below zero."""
        if seconds > 0:
            time.sleep(seconds)


def boot() -> str:
    """Which start of the machine this is, "" where that cannot be told: boottimes of another one mean nothing."""
    try:
        return _BOOT.read_text("ascii").strip()
    except (OSError, UnicodeDecodeError):
        return ""


def monotonic_microseconds() -> int:
    """Microseconds of the clock that systemd goes by, which stands still in suspend."""
    return time.monotonic_ns() // 1000
