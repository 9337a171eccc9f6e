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


@BOTH
def test_a_unit_is_exposed_to_no_more_than_it_needs(manager: str, tmp_path: Path) -> None:
    """What is left is the network, the file systems it reads, and root where nobody is named."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is missing (Debian, Ubuntu: apt-get install systemd)")
    environment = {**os.environ, "XDG_RUNTIME_DIR": str(tmp_path), "HOME": str(tmp_path)}
    words = ["systemd-analyze", "security", "--offline=true", "--threshold=20", f"--{manager}", "--no-pager"]
    answer = subprocess.run(
        [*words, str(UNITS[manager])], env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert answer.returncode == 0, answer.stdout.splitlines()[-1] + answer.stderr


@BOTH
def test_neither_waits_for_the_network_nor_hides_the_reason_of_a_hang(manager: str) -> None:
    unit = settings(manager)
    assert "network-online.target" not in UNITS[manager].read_text()
    assert int(unit["WatchdogSec"][0]) <= 300
    assert "WatchdogSignal" not in unit, "SIGABRT makes the program say where it hangs"
    assert unit["LimitCORE"] == ["0"], "a dump would hold the key"
