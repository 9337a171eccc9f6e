"""The machine that a run was made on, in words."""

from __future__ import annotations

import os
import platform
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import pygit2

from bench.measure import NotSeen, run
from bridge import __version__
from bridge.adapters.clock import SystemClock


def described(place: Path) -> dict[str, str]:
    """What a reader needs to judge the numbers; `place`: where the run keeps its files."""
    load = os.getloadavg()
    return {
        "when": f"{datetime.fromtimestamp(SystemClock().now(), UTC):%Y-%m-%d %H:%M} UTC",
        "processor": f"{os.cpu_count()} × {_processor()}",
        "memory": f"{os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE') / 2**30:.1f} GiB",
        "load before": " ".join(f"{each:.2f}" for each in load),
        "system": f"Linux {platform.release()} {platform.machine()}",
        "files on": _file_system(place),
        "fsync": f"{_fsync(place):.2f} ms",
        "Python": platform.python_version(),
        "soul-bridge": __version__,
        "git": _said("git", "--version").removeprefix("git version "),
        "OpenSSH": _said("sh", "-c", "ssh -V 2>&1").partition(",")[0],
        "pygit2": f"{version('pygit2')} (libgit2 {pygit2.LIBGIT2_VERSION})",
        "paramiko": version("paramiko"),
    }


def _said(*words: str) -> str:
    try:
        return run(*words).strip()
    except (NotSeen, OSError):
        return "?"


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _file_system(place: Path) -> str:
    return _said("stat", "-f", "-c", "%T", str(place))


def _fsync(place: Path) -> float:
    """Milliseconds that making a small file durable takes, the median of twenty."""
    from bench.measure import quantile, timed

    path = place / "fsync"

    def once() -> None:
        with path.open("wb") as file:
            file.write(b"x")
            file.flush()
            os.fsync(file.fileno())

    found = quantile([timed(once) for _ in range(20)], 0.5) * 1000
    path.unlink()
    return found
