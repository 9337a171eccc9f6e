"""`log [PATH]`: history in words, newest first; `-n NUMBER` as many commits."""

from __future__ import annotations

import argparse
import itertools
import sys
from typing import Any

from bridge.app import history
from bridge.commands import reading
from bridge.commands.context import Context
from bridge.core.instants import iso
from bridge.core.words import line as safe

SHOWN = 50  # commits in words where nobody says how many; --json has all then


def run(arguments: argparse.Namespace, context: Context) -> int:
    """Print it. Raises Refused when there is no history yet."""
    wanted = arguments.number
    settings = context.settings(arguments.agent, reading=True)
    path = arguments.words[0].removeprefix("./").rstrip("/") if arguments.words else None
    with reading.repository(settings) as repo:
        found = history.log(repo, path)
        most = wanted if wanted is not None else None if context.json else SHOWN + 1
        rows = [shape(row) for row in itertools.islice(found, most if most is None else min(most, sys.maxsize))]
    lines = [line(row) for row in rows[: SHOWN if wanted is None else wanted]]
    if wanted is None and len(rows) > SHOWN:
        lines.append(f"… older ones: soul-bridge log -n {10 * SHOWN}, or git log in {safe(str(settings.soul))}")
    context.answer(rows, "\n".join(lines) or f"no commit has touched {safe(path or 'anything')}")
    return 0


def shape(row: dict[str, Any]) -> dict[str, Any]:
    """A row with its time as text."""
    return {**row, "at": iso(row["at"])}


def line(row: dict[str, Any]) -> str:
    """A row on one line, safe for a terminal; the body, which a subject of ours ends with, is told once."""
    at = (row["at"] or "")[:16].replace("T", " ")
    subject = row["subject"].removesuffix(f" ({row['body']})")
    return safe(f"{row['commit'][:10]}  {at}  {row['body'] or '?':<10} {subject}")
