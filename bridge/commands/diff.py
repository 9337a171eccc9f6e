"""`diff A [B] [PATH]`: what changed between two commits, or since one."""

from __future__ import annotations

import argparse
import re

from bridge.app import history
from bridge.commands import reading
from bridge.commands.context import Context
from bridge.core.words import line

LONGEST = 100_000  # characters of a line


def run(arguments: argparse.Namespace, context: Context) -> int:
    """Print it. Raises Refused for an id that names no commit."""
    settings = context.settings(arguments.agent, reading=True)
    first, *rest = arguments.words
    with reading.repository(settings) as repo:
        second = rest.pop(0) if rest and (len(rest) == 2 or _is_commit(rest[0])) else "HEAD"
        path = rest[0].removeprefix("./").rstrip("/") if rest else None
        before, after = history.resolve(repo, first), history.resolve(repo, second)
        found = history.differences(repo, before.tree, after.tree, path)
    context.answer([each.as_dict() for each in found], words_of(found) or "no difference")
    return 0


def _is_commit(word: str) -> bool:
    return bool(re.fullmatch(r"(?i)[0-9a-f]{4,40}|head|main", word))


def words_of(found: list[history.Difference]) -> str:
    """Differences for people, safe for a terminal; lines keep their indentation, for it may be all that changed."""
    said = []
    for each in found:
        said.append(line(f"{each.path} ({each.change})"))
        said += [f"  {line(part, LONGEST)}".rstrip(" ") for whole in each.lines for part in whole.split("\n")]
    return "\n".join(said).rstrip("\n")
