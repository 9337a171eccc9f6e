"""Instants, samples, and waiting for something to be true."""

from __future__ import annotations

import math
import os
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from bridge.adapters.clock import SystemClock

LOOK = 0.002  # seconds between looks at whether something arrived
_clock = SystemClock()
now = _clock.boottime
sleep = _clock.sleep


class NotSeen(Exception):
    """Something that was waited for did not happen."""


def until(found: Callable[[], object], what: str, longest: float, look: float = LOOK) -> float:
    """Wait until it is true; the instant at which it was. Raises NotSeen."""
    end = now() + longest
    while not found():
        if now() > end:
            raise NotSeen(f"not seen within {longest:g} s: {what}")
        sleep(look)
    return now()


def timed(work: Callable[[], object]) -> float:
    """Seconds that it takes."""
    began = now()
    work()
    return now() - began


def repeated(count: int, work: Callable[[], object]) -> list[float]:
    """Seconds that it takes, `count` times."""
    return [timed(work) for _ in range(count)]


def quantile(samples: Sequence[float], share: float) -> float:
    """The sample that at least `share` (0 … 1) of all are at most as large as; the median of an even number is the
    mean of the two in the middle."""
    ordered = sorted(samples)
    if share == 0.5 and len(ordered) % 2 == 0:
        return (ordered[len(ordered) // 2 - 1] + ordered[len(ordered) // 2]) / 2
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def run(*words: str, at: Path | None = None, env: dict[str, str] | None = None, longest: float = 600) -> str:
    """Run a program to its end; its output. Raises NotSeen when it fails."""
    done = subprocess.run(
        words, cwd=at, env=env, stdin=subprocess.DEVNULL, capture_output=True, timeout=longest, check=False
    )
    if done.returncode:
        said = (done.stdout + done.stderr).decode(errors="replace").strip()
        raise NotSeen(f"{' '.join(words[:4])} … ended with {done.returncode}: {said[-300:]}")
    return done.stdout.decode(errors="replace")


def tree_of_processes(pid: int) -> list[int]:
    """A process and its descendants."""
    found = [pid]
    for parent in found:
        for task in _listed(f"/proc/{parent}/task"):
            try:
                found += map(int, Path(f"/proc/{parent}/task/{task}/children").read_text().split())
            except OSError:
                continue
    return found


def memory(pids: Sequence[int]) -> float:
    """MiB that these processes hold; a page that several of them share counts in each, whatever else is running."""
    total = 0
    for pid in pids:
        for line in _lines(f"/proc/{pid}/smaps_rollup"):
            if line.startswith("Rss:"):
                total += int(line.split()[1])
    return total / 1024


def processor(pids: Sequence[int]) -> float:
    """Seconds of processor time that these processes have used."""
    ticks = 0
    for pid in pids:
        for line in _lines(f"/proc/{pid}/stat"):
            ticks += sum(map(int, line.rpartition(")")[2].split()[11:13]))
    return ticks / os.sysconf("SC_CLK_TCK")


def wake_ups(pids: Sequence[int]) -> int:
    """How often their threads went to sleep by themselves so far: each time, something woke them."""
    total = 0
    for pid in pids:
        for task in _listed(f"/proc/{pid}/task"):
            for line in _lines(f"/proc/{pid}/task/{task}/status"):
                if line.startswith("voluntary_ctxt_switches:"):
                    total += int(line.split()[1])
    return total


def size_of(directory: Path) -> int:
    """Bytes on disk below a directory, as `du` counts them."""
    total = 0
    for folder, _, files in os.walk(directory):
        for name in files:
            try:
                total += os.lstat(os.path.join(folder, name)).st_blocks * 512
            except FileNotFoundError:
                continue
    return total


def _listed(path: str) -> list[str]:
    try:
        return os.listdir(path)
    except OSError:
        return []


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []
