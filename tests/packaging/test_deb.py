"""The Debian package is whole, always the same, runs where it is unpacked, and leaves a person's things alone."""

from __future__ import annotations

import gzip
import os
import re
import shutil
import sys
import tomllib
from pathlib import Path

import pytest

from tests.packaging.building import ELSEWHERE, PINNED, ROOT, digest, run


def build_deb(export: Path, dist: Path, place: Path, **how: object) -> Path:
    if shutil.which("dpkg-deb") is None:
        pytest.skip("dpkg-deb is missing (Debian, Ubuntu: apt-get install dpkg)")
    python = os.path.realpath(sys._base_executable)  # type: ignore[attr-defined]
    words = [sys.executable, export / "scripts" / "deb", "--dist", dist, "--python", python, "--compression", "none"]
    return Path(run(*words, "--output", place, cwd=place, **how).strip())  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def deb(export: Path, dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package, not compressed."""
    return build_deb(export, dist, tmp_path_factory.mktemp("deb"))


@pytest.fixture(scope="module")
def root(deb: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder into which the package was unpacked."""
    place = tmp_path_factory.mktemp("root")
    run("dpkg-deb", "-x", deb, place, cwd=place)
    return place


def test_the_package_holds_program_units_page_and_completions(deb: Path) -> None:
    listed = run("dpkg-deb", "-c", deb, cwd=deb.parent).splitlines()
    assert {line.split()[1] for line in listed} == {"root/root"}
    held = {line.split(" ./", 1)[1] for line in listed if not line.endswith("/")}
    for name in (
        "usr/bin/soul-bridge -> ../lib/soul-bridge/bin/soul-bridge",
        "usr/lib/soul-bridge/pyvenv.cfg",
        "usr/lib/systemd/user/soul-bridge@.service",
        "usr/lib/systemd/system/soul-bridge@.service",
        "usr/share/man/man1/soul-bridge.1.gz",
        "usr/share/bash-completion/completions/soul-bridge",
        "usr/share/zsh/vendor-completions/_soul-bridge",
        "usr/share/fish/vendor_completions.d/soul-bridge.fish",
        "usr/share/doc/soul-bridge/copyright",
        "usr/share/doc/soul-bridge/changelog.gz",
    ):
        assert name in held
    elsewhere = ("usr/lib/soul-bridge/", "usr/lib/systemd/", "usr/share/", "usr/bin/soul-bridge")
    assert [name for name in held if not name.startswith(elsewhere)] == []
    assert [name for name in held if "/pip/" in name or "/pytest/" in name or "direct_url" in name] == []


def test_the_package_holds_every_library_that_is_pinned_and_no_other(root: Path) -> None:
    found = {path.name.rsplit("-", 1)[0] for path in root.glob("usr/lib/soul-bridge/lib/*/site-packages/*.dist-info")}
    pinned = {m[1] for m in map(PINNED.match, (ROOT / "requirements" / "run.txt").read_text().splitlines()) if m}
    assert {re.sub(r"[-_.]+", "-", name.removesuffix(".dist").split("-")[0]).lower() for name in found} == {
        *pinned, "soul-bridge",
    }  # fmt: skip


def test_the_package_says_what_it_needs(deb: Path) -> None:
    field = {
        name: run("dpkg-deb", "-f", deb, name, cwd=deb.parent).strip()
        for name in ("Package", "Version", "Depends", "Architecture")
    }
    assert field["Package"] == "soul-bridge"
    assert field["Version"] == tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    # Compiled libraries fit one minor version of Python and one kind of machine.
    assert f"python3.{sys.version_info.minor}," in field["Depends"]
    assert field["Architecture"] == run("dpkg", "--print-architecture", cwd=deb.parent).strip()


def test_the_packaged_units_start_the_packaged_program(root: Path) -> None:
    for scope in ("user", "system"):
        text = (root / f"usr/lib/systemd/{scope}/soul-bridge@.service").read_text()
        assert re.findall(r"^ExecStart=(.*)$", text, re.MULTILINE) == ["/usr/bin/soul-bridge run %i"]


def test_the_packaged_program_runs_and_writes_no_byte_code(root: Path, tmp_path: Path) -> None:
    python, script = root / "usr/lib/soul-bridge/bin/python3", root / "usr/lib/soul-bridge/bin/soul-bridge"
    assert script.read_text().splitlines()[0] == "#!/usr/lib/soul-bridge/bin/python3 -I"
    before = sorted(root.rglob("*"))
    home = {"SOUL_BRIDGE_HOME": str(tmp_path), "HOME": str(tmp_path)}
    assert run(python, "-I", script, "--version", cwd=tmp_path).startswith("soul-bridge ")
    words = ["init", "kaoru", "--offline", "--remote", "git@h.example:kaoru.soul.git"]
    run(python, "-I", script, *words, cwd=tmp_path, **home)
    assert run(python, "-I", script, "validate", cwd=tmp_path, **home)
    assert sorted(root.rglob("*")) == before


def test_the_packaged_page_is_the_one_of_the_program(root: Path) -> None:
    text = gzip.decompress((root / "usr/share/man/man1/soul-bridge.1.gz").read_bytes()).decode()
    assert re.match(r'\.TH SOUL-BRIDGE 1 "\d{4}-\d\d-\d\d" ', text)
    assert ".SS init" in text


def test_taking_the_package_away_touches_nothing_of_a_person_and_says_so(deb: Path, tmp_path: Path) -> None:
    run("dpkg-deb", "-e", deb, tmp_path / "control", cwd=tmp_path)
    scripts = {name: (tmp_path / "control" / name) for name in ("postinst", "prerm", "postrm")}
    assert [name for name, path in scripts.items() if re.search(r"\b(rm|find|deluser)\b", path.read_text())] == []
    said = run("sh", scripts["postrm"], "purge", cwd=tmp_path, PATH="/usr/bin:/bin")
    assert "~/souls" in said
    assert "keys" in said
    assert run("sh", scripts["postrm"], "remove", cwd=tmp_path, PATH="/usr/bin:/bin") == ""


def test_the_same_commit_gives_the_same_package(export: Path, dist: Path, deb: Path, tmp_path: Path) -> None:
    assert digest(build_deb(export, dist, tmp_path, umask=0o077, **ELSEWHERE)) == digest(deb)


SYSTEMCTL = """#!/bin/sh
echo "$*" >> "$LOG"
case "$*" in
"--user --machine=1000@.host list-units "*) echo "soul-bridge@zoe.service loaded active running" ;;
*"list-units"*"user@"*) echo "user@1000.service loaded active running" ;;
*"list-units"*"soul-bridge@"*)
    echo "soul-bridge@kaoru.service loaded active running"
    echo "soul-bridge@mei.service loaded active running" ;;
*"--property=ExecStart"*"@mei.service") echo "{ path=/usr/local/bin/soul-bridge ; argv[]=x }" ;;
*"--property=ExecStart"*) echo "{ path=/usr/bin/soul-bridge ; argv[]=x }" ;;
esac
"""


def test_services_of_the_package_are_stopped_with_it_and_those_of_another_program_are_not(tmp_path: Path) -> None:
    """Of the machine and of every user who is there; the file is what prerm and postinst call."""
    systemctl = tmp_path / "systemctl"
    systemctl.write_text(SYSTEMCTL)
    systemctl.chmod(0o755)
    text = (ROOT / "scripts" / "debian" / "services").read_text()
    (tmp_path / "booted").mkdir()
    (tmp_path / "services").write_text(text.replace("/run/systemd/system", str(tmp_path / "booted")))
    path = {"PATH": f"{tmp_path}:/usr/bin:/bin", "LOG": str(tmp_path / "log")}
    run("sh", tmp_path / "services", "stop", cwd=tmp_path, **path)
    asked = (tmp_path / "log").read_text().splitlines()
    assert [line for line in asked if " stop " in f" {line}"] == [
        "stop soul-bridge@kaoru.service",
        "--user --machine=1000@.host stop soul-bridge@zoe.service",
    ]


def test_where_no_systemd_runs_nothing_is_asked_of_it(tmp_path: Path) -> None:
    text = (ROOT / "scripts" / "debian" / "services").read_text()
    (tmp_path / "services").write_text(text.replace("/run/systemd/system", str(tmp_path / "not there")))
    assert run("sh", tmp_path / "services", "stop", cwd=tmp_path, PATH=str(tmp_path / "nothing") + ":/bin") == ""
