"""The table of faults in tests/README.md: written between two marks, read back for the faults that were not tried."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from tests.faults.fault import ROOT, Fault

PAGE = ROOT / "tests" / "README.md"
BEGIN, END = "<!-- faults: begin, written by python -m tests.faults --write -->", "<!-- faults: end -->"
HEAD = "| fault | where | breaks | noticed by |\n|---|---|---|---|\n"
_ROW = re.compile(r"^\| (?P<name>.+?) \| `(?P<file>[\w/.]+)` \| (?P<rule>[^|]+) \| `(?P<test>[^|]+)` \|$", re.MULTILINE)


def table(text: str) -> str:
    """What stands between the marks. Raises ValueError when they are not there."""
    return text[text.index(BEGIN) + len(BEGIN) : text.index(END)]


def rows(text: str) -> dict[str, tuple[str, str, str]]:
    """File, rule and test by the name of the fault."""
    return {row["name"]: (row["file"], row["rule"], row["test"]) for row in _ROW.finditer(table(text))}


def written(text: str, faults: Iterable[Fault], caught: Mapping[str, str]) -> str:
    """The page with the table anew. caught: the test by the name of the fault.

    A fault that was neither tried now nor stands there is left out; tests/house insists on all of them.
    """
    before = rows(text)
    lines = []
    for fault in faults:
        test = caught.get(fault.name) or (before[fault.name][2] if fault.name in before else "")
        if test:
            lines.append(f"| {fault.name} | `{fault.file}` | {fault.rule} | `{test}` |\n")
    start, end = text.index(BEGIN) + len(BEGIN), text.index(END)
    return text[:start] + "\n" + HEAD + "".join(lines) + text[end:]


def plain(node: str) -> str:
    """A test without the parameters of its case and the folder that all share, as the table names it."""
    return node.partition("[")[0].removeprefix("tests/")


def write(faults: Iterable[Fault], caught: Mapping[str, str], page: Path = PAGE) -> None:
    """Write the table."""
    page.write_text(written(page.read_text("utf-8"), faults, caught), "utf-8")
