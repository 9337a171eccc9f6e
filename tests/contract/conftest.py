"""What every contract suite shares: git, run for a second opinion, without anybody's configuration."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Git = Callable[..., str]


@pytest.fixture
def git(tmp_path_factory: pytest.TempPathFactory) -> Git:
    """Run git in a directory and answer what it said; a failure fails the test."""
    home = tmp_path_factory.mktemp("home")
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("GIT_")},
        "HOME": str(home), "XDG_CONFIG_HOME": str(home), "GIT_CONFIG_NOSYSTEM": "1", "LC_ALL": "C",
        "GIT_AUTHOR_NAME": "A Person", "GIT_AUTHOR_EMAIL": "person@example.org",
        "GIT_COMMITTER_NAME": "A Person", "GIT_COMMITTER_EMAIL": "person@example.org",
    }  # fmt: skip

    def run(directory: Path, *args: str, stdin: bytes = b"", **more: str) -> str:
        done = subprocess.run(
            ["git", *args], cwd=directory, env={**environment, **more}, input=stdin, capture_output=True, timeout=60
        )
        assert done.returncode == 0, done.stderr.decode("utf-8", "replace")
        return done.stdout.decode("utf-8", "surrogateescape")

    return run
