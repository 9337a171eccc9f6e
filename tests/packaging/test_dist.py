"""Wheel and source distribution are whole and always the same, and run where nothing of the sources is."""

from __future__ import annotations

import os
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

from tests.packaging.building import ELSEWHERE, ROOT, digest, run


@pytest.fixture(scope="module")
def wheel(dist: Path) -> Path:
    return next(dist.glob("*.whl"))


def committed(export: Path) -> list[str]:
    """Every path that the commit has, links not followed."""
    return run("git", "ls-files", "-z", cwd=export).strip("\0").split("\0")


def through_links(export: Path) -> set[str]:
    """Every file that is to be found below bridge/, as the program sees it."""
    found = set()
    for folder, _, names in os.walk(export / "bridge", followlinks=True):
        found |= {str((Path(folder) / name).relative_to(export)) for name in names}
    return found


def test_the_wheel_holds_every_file_that_the_program_reads(export: Path, wheel: Path) -> None:
    """Modules, schemas, units: all that lies below the package but for pages for people."""
    held = set(zipfile.ZipFile(wheel).namelist())
    needed = {name for name in through_links(export) if not name.endswith(".md")}
    assert {Path(name).suffix for name in needed} == {".py", ".json", ".service", ".typed"}
    assert len([name for name in needed if name.endswith(".service")]) == 2
    assert needed - held == set()


def test_the_wheel_holds_nothing_but_the_program(export: Path, wheel: Path) -> None:
    held = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert held - through_links(export) == set()


def test_the_source_distribution_is_the_whole_project(export: Path, dist: Path) -> None:
    with tarfile.open(next(dist.glob("*.tar.gz"))) as files:
        members = files.getmembers()
    held = {member.name.partition("/")[2] for member in members}
    links = {name for name in committed(export) if (export / name).is_symlink()}
    assert set(committed(export)) - links - held == set()
    assert {name for name in through_links(export) if not name.endswith(".md")} - held == set()
    assert {(member.uname, member.uid, member.mode & 0o022) for member in members} == {("root", 0, 0)}


def test_the_same_commit_gives_the_same_bytes(export: Path, dist: Path, tmp_path: Path) -> None:
    run(sys.executable, export / "scripts" / "dist", "--output", tmp_path, cwd=tmp_path, umask=0o077, **ELSEWHERE)
    assert [digest(tmp_path / made.name) for made in dist.iterdir()] == [digest(made) for made in dist.iterdir()]


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program of a fresh environment: the wheel without the network; the libraries are those that are here."""
    place = tmp_path_factory.mktemp("installed")
    run(sys.executable, "-m", "venv", "--without-pip", place / "venv", cwd=place)
    python = place / "venv" / "bin" / "python"
    install = ["install", "--quiet", "--no-index", "--no-deps"]
    run(sys.executable, "-m", "pip", "--python", python, *install, wheel, cwd=place, PIP_CONFIG_FILE=os.devnull)
    packages = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=place).strip())
    (packages / "libraries.pth").write_text(f"{sysconfig.get_path('purelib')}\n{sysconfig.get_path('platlib')}\n")
    found = run(python, "-c", "import bridge; print(bridge.__file__)", cwd=place).strip()
    assert Path(found).is_relative_to(packages)
    return python.with_name("soul-bridge")


def test_what_was_installed_runs_away_from_the_sources(installed: Path, tmp_path: Path) -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert run(installed, "--version", cwd=tmp_path) == f"soul-bridge {version}\n"
    assert "usage: soul-bridge" in run(installed, "--help", cwd=tmp_path)
    assert "complete -F _soul_bridge" in run(installed, "completion", "bash", cwd=tmp_path)
    assert run(installed, "man", cwd=tmp_path).startswith(".TH SOUL-BRIDGE 1 ")


def test_what_was_installed_makes_a_soul_and_finds_its_schemas(installed: Path, tmp_path: Path) -> None:
    home = {"SOUL_BRIDGE_HOME": str(tmp_path), "HOME": str(tmp_path)}
    run(installed, "init", "kaoru", "--offline", "--remote", "git@h.example:kaoru.soul.git", cwd=tmp_path, **home)
    assert run(installed, "validate", cwd=tmp_path, **home)
    assert (tmp_path / "souls" / "kaoru.soul" / "agent.json").is_file()


def test_the_demo_runs_from_what_was_installed(installed: Path, tmp_path: Path) -> None:
    said = run(installed, "demo", cwd=tmp_path, HOME=str(tmp_path))
    assert "statements were true" in said
