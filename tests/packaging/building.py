"""Programs of other folders, called as if on another machine, and what they made, as one line to compare."""

from __future__ import annotations

import hashlib
import os
import re
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
    answer = subprocess.run(
        list(map(str, words)), cwd=cwd, env={**kept, **environment}, capture_output=True, text=True, timeout=110,
        check=False, umask=umask,
    )  # fmt: skip
    assert answer.returncode == 0, (words, answer.stdout[-3000:], answer.stderr[-3000:])
    return answer.stdout


def digest(path: Path) -> str:
    """A file's name and what is in it."""
    return f"{path.name} {hashlib.sha256(path.read_bytes()).hexdigest()}"
