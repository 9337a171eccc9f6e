"""Another program, waited for by a process that has very many files open."""

from __future__ import annotations

import os
import resource
from pathlib import Path

from bridge.adapters import child

BEYOND = 1100  # select() knows no descriptor beyond 1023


def test_a_program_is_waited_for_and_ended_beyond_the_thousandth_descriptor(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, BEYOND + 200), hard))
    opened = [os.open("/dev/null", os.O_RDONLY) for _ in range(BEYOND)]
    try:
        assert (
            child.start(["sh", "-c", "exit 3"], tmp_path, child.environment(), stdin=opened[0], stdout=2).wait(20) == 3
        )
        slow = child.start(["sleep", "60"], tmp_path, child.environment(), stdin=opened[0], stdout=2)
        assert slow.wait(0.05) is None
        assert slow.end(0.5) == 128 + 15
    finally:
        for descriptor in opened:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
