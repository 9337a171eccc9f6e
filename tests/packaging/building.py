"""Programs of other folders, called as if on another machine, and what they made, as one line to compare."""

from __future__ import annotations

import hashlib
import os
import re
import signal
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
PINNED = re.compile(r"^([a-z0-9][a-z0-9.-]*)==([^ ]+) \\$")
ELSEWHERE = {"TZ": "Pacific/Apia", "LC_ALL": "C", "HOME": "/nonexistent"}


def run(*words: object, cwd: Path, umask: int = 0o022, **environment: str) -> str:
    """What a program says when it ends well."""
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "SOUL_BRIDGE_", "GIT_"))
    }
    with subprocess.Popen(
        list(map(str, words)), cwd=cwd, env={**kept, **environment}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, umask=umask, start_new_session=True,
    ) as program:  # fmt: skip
        try:
            said, complained = program.communicate(timeout=110)
        except BaseException:
            # Whatever it started goes with it: daemons outlive a demo that is killed.
            os.killpg(program.pid, signal.SIGKILL)
            raise
    assert program.returncode == 0, (words, said[-3000:], complained[-3000:])
    return said


def digest(path: Path) -> str:
    """A file's name and what is in it."""
    return f"{path.name} {hashlib.sha256(path.read_bytes()).hexdigest()}"
