"""The table of failures in tests/TRAPS.md: every number once, and every test that it names exists."""

from __future__ import annotations

import ast
import re
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
ROW = re.compile(r"^\| (\d+) \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)
# What was collected; the numbers between were given to nothing.
ABSENT = {7, 10, 12, 13, 20, 23, 25, 28, 34, 39, 47, 49, 57, 64, 70, 76, 78, 96, 98, 111, 114, 117, 121, 123, 127}
NUMBERS = set(range(1, 140)) - ABSENT


def rows() -> list[tuple[int, str, list[str]]]:
    """Number, failure and tests of each row."""
    text = (TESTS / "TRAPS.md").read_text("utf-8")
    found = []
    for number, words, tests in ROW.findall(text):
        names = [name.strip().strip("`") for name in tests.split("<br>")]
        found.append((int(number), words, [name for name in names if name]))
    return found


def names_in(path: Path) -> set[str]:
    """The names of a module's tests."""
    tree = ast.parse(path.read_text("utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")}


def test_every_failure_is_listed_once() -> None:
    numbers = [number for number, _, _ in rows()]
    assert numbers == sorted(numbers) and len(numbers) == len(set(numbers))
    assert set(numbers) == NUMBERS


def test_every_test_that_is_named_exists() -> None:
    for number, words, tests in rows():
        assert tests, f"{number} ({words}) names no test"
        for name in tests:
            path, _, function = name.partition("::")
            assert function in names_in(TESTS.parent / path), f"{number}: {name}"


def test_every_test_of_a_trap_is_in_the_table() -> None:
    named = {name for _, _, tests in rows() for name in tests}
    for path in sorted((TESTS / "traps").glob("test_*.py")):
        if path.name != Path(__file__).name:
            assert names_in(path) <= {name.partition("::")[2] for name in named}, path.name
