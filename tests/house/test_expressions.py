"""An expression that says where a text ends means its end: `$` would let a line end follow."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2]
CALLS = ("compile", "search", "match", "fullmatch", "sub", "subn", "findall", "finditer", "split")
# What is suspect is looked at more closely: a line end more is one reason more.
SUSPICIOUS = {"adapters/repo/index.py"}


def ends(tree: ast.AST) -> list[str]:
    """Patterns with a `$` that is neither escaped nor meant to be the end of every line."""
    found = []
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in CALLS):
            continue
        if not (isinstance(node.func.value, ast.Name) and node.func.value.id == "re" and node.args):
            continue
        texts = [each.value for each in ast.walk(node.args[0]) if isinstance(each, ast.Constant)]
        pattern = "".join(text.decode("latin-1") if isinstance(text, bytes) else str(text) for text in texts)
        if "$" in pattern.replace(r"\$", "").replace("[$]", "") and "MULTILINE" not in ast.unparse(node):
            found.append(pattern)
    return found


def test_no_expression_takes_a_line_end_for_the_end_of_the_text() -> None:
    modules = sorted((ROOT / "bridge").rglob("*.py"))
    assert ends(ast.parse(r"re.compile('a\\$|b$')")) and not ends(ast.parse(r"re.search('a\\$', x)"))
    found = {str(path.relative_to(ROOT / "bridge")): ends(ast.parse(path.read_text())) for path in modules}
    assert {name: patterns for name, patterns in found.items() if patterns and name not in SUSPICIOUS} == {}


def test_every_match_says_where_it_ends() -> None:
    """`match` leaves the end open: it is for a part of a text, or has its own end."""
    source = "\n".join(path.read_text() for path in (ROOT / "bridge").rglob("*.py"))
    assert "re.match(" not in source
