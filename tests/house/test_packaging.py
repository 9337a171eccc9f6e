"""What is built is whole and always the same, and it runs where nothing of the sources is: wheel, archive, package."""

from __future__ import annotations

import gzip
import hashlib
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PINNED = re.compile(r"^([a-z0-9][a-z0-9.-]*)==([^ ]+) \\$")
HASH = re.compile(r"^    --hash=sha256:[0-9a-f]{64}( \\)?$")
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


@pytest.fixture(scope="module")
def export(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What is committed, by itself; others may go on committing meanwhile."""
    place = tmp_path_factory.mktemp("export")
    run("git", "-c", "safe.directory=*", "clone", "-q", "--no-local", ROOT, place / "clone", cwd=place)
    return place / "clone"


@pytest.fixture(scope="module")
def dist(export: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with wheel and source distribution."""
    place = tmp_path_factory.mktemp("dist")
    run(sys.executable, export / "scripts" / "dist", "--output", place, cwd=place)
    assert [path.name.split("-")[0] for path in place.iterdir()] == ["soul_bridge", "soul_bridge"]
    return place


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


# --- the Debian package ----------------------------------------------------------------------------------------------


def build_deb(export: Path, place: Path, **how: object) -> Path:
    if shutil.which("dpkg-deb") is None:
        pytest.skip("dpkg-deb is missing (Debian, Ubuntu: apt-get install dpkg)")
    python = os.path.realpath(sys._base_executable)  # type: ignore[attr-defined]
    words = [sys.executable, export / "scripts" / "deb", "--python", python, "--compression", "none"]
    return Path(run(*words, "--output", place, cwd=place, **how).strip())  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def deb(export: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package, not compressed."""
    return build_deb(export, tmp_path_factory.mktemp("deb"))


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


def test_the_same_commit_gives_the_same_package(export: Path, deb: Path, tmp_path: Path) -> None:
    assert digest(build_deb(export, tmp_path, umask=0o077, **ELSEWHERE)) == digest(deb)


# --- pins ------------------------------------------------------------------------------------------------------------


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
