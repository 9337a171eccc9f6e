"""What the program makes for itself is nobody else's business, whatever the umask says."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bridge.adapters import keys
from bridge.app import pause
from bridge.commands import statedir

ROOT = Path(__file__).parents[2]
MAKERS: list[Callable[[Path], object]] = [
    statedir.make,
    pause.pause,
    lambda path: keys.generate(path / "kaoru.laptop", "kaoru@laptop"),
]


@pytest.fixture
def open_to_all() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def modes(root: Path) -> dict[str, str]:
    return {str(path.relative_to(root)): oct(path.stat().st_mode & 0o777) for path in root.rglob("*") if path.is_dir()}


@pytest.mark.usefixtures("open_to_all")
@pytest.mark.parametrize("make", MAKERS)
def test_folders_are_closed_and_nobody_else_can_rename_them(tmp_path: Path, make: Callable[[Path], object]) -> None:
    make(tmp_path / "one" / "two" / "three")
    assert modes(tmp_path) == {"one": "0o755", "one/two": "0o755", "one/two/three": "0o700"}
    (tmp_path / "one").chmod(0o711)
    make(tmp_path / "one" / "other")
    assert modes(tmp_path)["one"] == "0o711", "what is there already keeps its mode"


@pytest.mark.usefixtures("open_to_all")
def test_a_first_command_leaves_nothing_open(tmp_path: Path) -> None:
    words = ["init", "kaoru", "--remote", "ssh://git@127.0.0.1:9/kaoru.soul.git", "--body", "laptop"]
    environment = {**os.environ, "SOUL_BRIDGE_HOME": str(tmp_path / "home"), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-m", "bridge", *words],
        env=environment,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )
    found = modes(tmp_path)
    assert {"home", "home/config", "home/keys", "home/state", "home/state/kaoru"} <= found.keys(), done.stderr
    assert {found[f"home/{name}"] for name in ("config", "keys", "state/kaoru")} == {"0o700"}
    assert {found[name] for name in ("home", "home/state")} == {"0o755"}
