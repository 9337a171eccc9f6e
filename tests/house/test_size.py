"""Modules and functions stay short enough to read: deciding and doing do not share a method."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2]
LONGEST_MODULE = 400
LONGEST_FUNCTION = 40


def modules() -> list[Path]:
    return sorted((ROOT / "bridge").rglob("*.py"))


def test_no_module_is_longer_than_400_lines() -> None:
    lengths = {str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in modules()}
    assert {path: length for path, length in lengths.items() if length > LONGEST_MODULE} == {}


def test_no_function_is_longer_than_40_lines() -> None:
    too_long = {}
    for path in modules():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = (node.end_lineno or node.lineno) - node.lineno + 1
                if length > LONGEST_FUNCTION:
                    too_long[f"{path.relative_to(ROOT)}:{node.lineno} {node.name}"] = length
    assert too_long == {}


def test_every_module_says_what_it_owns() -> None:
    silent = [str(path.relative_to(ROOT)) for path in modules() if not ast.get_docstring(ast.parse(path.read_text()))]
    assert silent == []
