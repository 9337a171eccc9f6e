"""The shipped unit is one that systemd understands, and it does what the program's exit codes ask for."""

from __future__ import annotations

import configparser
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
UNIT = ROOT / "systemd" / "soul-bridge@.service"


def section(name: str) -> dict[str, str]:
    unit = configparser.ConfigParser(interpolation=None, strict=True)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read_string(UNIT.read_text())
    return dict(unit[name])


def test_a_configuration_that_cannot_work_is_not_started_again() -> None:
    service = section("Service")
    assert service["Restart"] == "on-failure"
    assert service["RestartPreventExitStatus"] == "2"


def test_systemd_never_gives_up_and_hears_from_the_program() -> None:
    assert section("Unit")["StartLimitIntervalSec"] == "0"
    assert section("Service")["Type"] == "notify"
    assert section("Service")["ExecStart"].endswith("soul-bridge run %i")


def test_systemd_finds_nothing_to_complain_about(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is missing (Debian, Ubuntu: apt-get install systemd)")
    unit = tmp_path / "soul-bridge@kaoru.service"
    unit.write_text(UNIT.read_text().replace("%h/.local/bin/soul-bridge", sys.executable))
    environment = {**os.environ, "XDG_RUNTIME_DIR": str(tmp_path), "HOME": str(tmp_path)}
    words = ["systemd-analyze", "verify", "--user", "--man=no", str(unit)]
    answer = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=60, check=False)
    # Unknown settings only reach stderr, with exit code 0.
    assert (answer.returncode, answer.stderr) == (0, "")
