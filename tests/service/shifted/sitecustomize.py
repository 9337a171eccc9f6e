"""Lets a whole machine believe that it slept: every Python here that has this folder on its path is so much later.

The kernel's clocks belong to everybody on the machine, so they cannot be set. Like a real sleep it moves the clock of
the wall and the one that runs through suspend, and not the one that stands still.
"""

from __future__ import annotations

import time

PLACE = "/run/slept"  # holds the seconds that were slept so far

_time, _clock = time.time, time.clock_gettime


def slept() -> float:
    """Seconds."""
    try:
        with open(PLACE, encoding="ascii") as file:
            return float(file.read())
    except OSError:
        return 0.0


time.time = lambda: _time() + slept()
time.clock_gettime = lambda clock: _clock(clock) + (slept() if clock == time.CLOCK_BOOTTIME else 0.0)
