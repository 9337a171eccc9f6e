"""Each library is known to one room, so that replacing it touches one room."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]

# The git host of `demo` is the other end of the line: it speaks SSH, and makes a host key, by itself.
ROOMS = {
    "apscheduler": {"adapters/schedule"},
    "cryptography": {"adapters/keys", "app/host"},
    "jsonschema": {"adapters/config"},
    "paramiko": {"adapters/remote", "app/host"},
    "pathspec": {"adapters/tree"},
    "pygit2": {"adapters/repo"},
    "sqlite3": {"adapters/seen"},
    "structlog": {"adapters/events"},
    "watchdog": {"adapters/watch"},
    "yaml": {"adapters/config"},
}


def room_of(module: Path) -> str:
    """`adapters/tree` for adapters/tree.py and for every module of the package adapters/tree."""
    return "/".join(module.relative_to(ROOT / "bridge").with_suffix("").parts[:2])


def known_to() -> dict[str, set[str]]:
    """For each library, the rooms that import it, at their top or inside a function."""
    found: dict[str, set[str]] = {library: set() for library in ROOMS}
    for module in (ROOT / "bridge").rglob("*.py"):
        for node in ast.walk(ast.parse(module.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            for library in {name.partition(".")[0] for name in names} & ROOMS.keys():
                found[library].add(room_of(module))
    return found


def test_each_library_is_known_to_one_room() -> None:
    assert known_to() == ROOMS


def test_every_dependency_has_its_room() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    names = {re.split(r"[<>=!~]", line)[0].replace("pyyaml", "yaml") for line in project["dependencies"]}
    assert names == ROOMS.keys() - {"sqlite3"}
