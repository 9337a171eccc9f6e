"""How much slower than usual this machine is now, so that a busy one is no failure where a time is promised."""

from __future__ import annotations

import os
import time

USUAL = 0.011  # seconds that the same work takes where the promises were measured


def patience() -> float:
    """A factor for time limits, 1.0 at least: a fixed piece of work is timed, and the queue for the cores counted."""
    took = []
    for _ in range(3):
        started = time.perf_counter()
        total = 0
        for number in range(200_000):
            total += number & 7
        took.append(time.perf_counter() - started)
    queue = os.getloadavg()[0] / (os.cpu_count() or 1)
    return max(1.0, min(took) / USUAL, queue)
