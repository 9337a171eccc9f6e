"""The shipped units are ones that systemd understands, and they do what the program's exit codes ask for."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SYSTEMD = Path(__file__).parents[2] / "systemd"
UNITS = {"user": SYSTEMD / "soul-bridge@.service", "system": SYSTEMD / "system" / "soul-bridge@.service"}
BOTH = pytest.mark.parametrize("manager", UNITS)


def settings(manager: str) -> dict[str, list[str]]:
    """What a unit sets, in all of its sections; a key may be there more than once."""
    found: dict[str, list[str]] = {}
    for line in UNITS[manager].read_text().splitlines():
        key, equals, value = line.partition("=")
        if equals and not line.startswith("#"):
            found.setdefault(key, []).append(value)
    return found


@BOTH
def test_a_configuration_that_cannot_work_is_not_started_again(manager: str) -> None:
    assert settings(manager)["Restart"] == ["on-failure"]
    assert settings(manager)["RestartPreventExitStatus"] == ["2"]


@BOTH
def test_systemd_never_gives_up_and_hears_from_the_program(manager: str) -> None:
    assert settings(manager)["StartLimitIntervalSec"] == ["0"]
    assert settings(manager)["Type"] == ["notify"]
    assert [line.split("/")[-1] for line in settings(manager)["ExecStart"]] == ["soul-bridge run %i"]


@BOTH
def test_stopping_has_time_for_a_last_pass_and_a_push(manager: str) -> None:
    assert settings(manager)["KillMode"] == ["mixed"]
    assert int(settings(manager)["TimeoutStopSec"][0]) >= 20


@BOTH
def test_systemd_finds_nothing_to_complain_about(manager: str, tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is missing (Debian, Ubuntu: apt-get install systemd)")
    unit = tmp_path / "soul-bridge@kaoru.service"
    lines = UNITS[manager].read_text().splitlines(keepends=True)
    started = [f"ExecStart={sys.executable}\n" if line.startswith("ExecStart=") else line for line in lines]
    unit.write_text("".join(started))
    environment = {**os.environ, "XDG_RUNTIME_DIR": str(tmp_path), "HOME": str(tmp_path)}
    words = ["systemd-analyze", "verify", f"--{manager}", "--man=no", str(unit)]
    answer = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=60, check=False)
    # Unknown settings only reach stderr, with exit code 0.
    assert (answer.returncode, answer.stderr) == (0, "")
