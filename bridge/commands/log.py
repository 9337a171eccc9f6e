"""`log [PATH]`: history in words, newest first."""

from __future__ import annotations

import argparse
import itertools
from typing import Any

from bridge.app import history
from bridge.commands import reading
from bridge.commands.context import Context
from bridge.core.instants import iso
from bridge.core.words import readable

SHOWN = 50  # commits in words; --json has all


def run(arguments: argparse.Namespace, context: Context) -> int:
    """Print it. Raises Refused when there is no history yet."""
    settings = context.settings(arguments.agent, reading=True)
    path = arguments.words[0].removeprefix("./").rstrip("/") if arguments.words else None
    with reading.repository(settings) as repo:
        found = history.log(repo, path)
        rows = [shape(row) for row in (found if context.json else itertools.islice(found, SHOWN + 1))]
    lines = [line(row) for row in rows[:SHOWN]]
    if len(rows) > SHOWN:
        lines.append(f"… older ones: soul-bridge log --json, or git log in {settings.soul}")
    context.answer(rows, "\n".join(lines) or "no commit has touched it")
    return 0


def shape(row: dict[str, Any]) -> dict[str, Any]:
    """A row with its time as text."""
    return {**row, "at": iso(row["at"])}


def line(row: dict[str, Any]) -> str:
    """A row on one line, safe for a terminal."""
    at = (row["at"] or "")[:16].replace("T", " ")
    return readable(f"{row['commit'][:10]}  {at}  {row['body'] or '?':<10} {row['subject']}")
