"""What is installed is whole: the wheel holds the schemas, its script starts, and pins name every file they allow."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PINNED = re.compile(r"^([a-z0-9][a-z0-9.-]*)==([^ ]+) \\$")
HASH = re.compile(r"^    --hash=sha256:[0-9a-f]{64}( \\)?$")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from a copy so that nothing is left beside the sources."""
    place = tmp_path_factory.mktemp("build")
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for name in ("bridge", "spec", "systemd"):
        shutil.copytree(ROOT / name, place / name, symlinks=True, ignore=ignored)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, place)
    words = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(place / "dist"), str(place)]
    answer = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    assert answer.returncode == 0, answer.stdout[-2000:] + answer.stderr[-2000:]
    return next((place / "dist").glob("*.whl"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, installed by itself into a directory."""
    place = tmp_path_factory.mktemp("installed")
    words = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--target", str(place)]
    subprocess.run([*words, str(wheel)], check=True, timeout=120, capture_output=True)
    return place


def test_the_wheel_holds_every_module_schema_and_unit(wheel: Path) -> None:
    held = set(zipfile.ZipFile(wheel).namelist())
    modules = {str(path.relative_to(ROOT)) for path in (ROOT / "bridge").rglob("*.py")}
    schemas = {f"bridge/schemas/{path.name}" for path in (ROOT / "spec" / "schemas").glob("*.json")}
    units = {f"bridge/units/{path.relative_to(ROOT / 'systemd')}" for path in (ROOT / "systemd").rglob("*.service")}
    assert schemas
    assert len(units) == 2
    assert (modules | schemas | units | {"bridge/py.typed"}) - held == set()


def test_the_wheel_holds_nothing_but_the_program(wheel: Path) -> None:
    tops = {name.partition("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"bridge"}


def test_the_installed_script_starts_away_from_the_sources(installed: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(installed), "HOME": str(tmp_path)}
    code = "import bridge, sys; from bridge.cli import main; print(bridge.__file__); sys.exit(main(['--help']))"
    words = [sys.executable, "-c", code]
    answer = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.startswith(str(installed))
    assert "usage: soul-bridge" in answer.stdout


def test_every_dependency_of_the_program_is_pinned() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed = {re.split(r"[<>=!~]", line)[0] for line in project["dependencies"]}
    asked = {line for line in (ROOT / "requirements" / "run.in").read_text().split("\n") if line and line[0] != "#"}
    pinned = {m[1] for m in map(PINNED.match, (ROOT / "requirements" / "run.txt").read_text().splitlines()) if m}
    assert needed == asked
    assert needed <= pinned


@pytest.mark.parametrize("name", ["run.txt", "dev.txt"])
def test_a_pin_is_an_exact_version_with_hashes_and_no_address(name: str) -> None:
    lines = (ROOT / "requirements" / name).read_text().splitlines()
    assert [line for line in lines if not PINNED.match(line) and not HASH.match(line)] == []
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        assert not PINNED.match(line) or HASH.match(following), line


def test_what_runs_and_what_checks_are_pinned_to_the_same_versions() -> None:
    def pins(name: str) -> dict[str, str]:
        lines = (ROOT / "requirements" / name).read_text().splitlines()
        return {m[1]: m[2] for m in map(PINNED.match, lines) if m}

    assert pins("run.txt").items() <= pins("dev.txt").items()
