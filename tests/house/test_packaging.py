"""Pins name every file they allow, and what runs is pinned as what checks."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PINNED = re.compile(r"^([a-z0-9][a-z0-9.-]*)==([^ ]+) \\$")
HASH = re.compile(r"^    --hash=sha256:[0-9a-f]{64}( \\)?$")


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
