"""`conflicts`: versions that lost a merge; `--show ID` looks at one, `--dismiss ID` takes one off the list."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from bridge.app import conflicts
from bridge.commands import reading
from bridge.commands.context import Context
from bridge.core.instants import iso
from bridge.core.words import line


def run(arguments: argparse.Namespace, context: Context) -> int:
    """Print or dismiss. Raises Refused for an id that names none."""
    settings = context.settings(arguments.agent, reading=True)
    if arguments.show:
        from bridge.commands import restore

        restore.look(settings, context, {"id": arguments.show}, shown=True)
        return 0
    if arguments.dismiss:
        from bridge.commands import wiring

        answer = wiring.request(settings, context, {"command": "dismiss", "id": arguments.dismiss})
        context.answer(answer, f"{line(arguments.dismiss)} is off the list; its version stays in history")
        return 0
    with reading.repository(settings) as repo:
        rows = [{**asdict(one), "at": iso(one.at)} for one in conflicts.listed(repo, context.clock.now())]
    context.answer(rows, told(rows, settings.agent) or "no version lost a merge in the last 90 days")
    return 0


def told(rows: Sequence[Mapping[str, Any]], agent: str) -> str:
    """Lost versions, one on a line, safe for a terminal, and what to do about them; "" for none."""
    if not rows:
        return ""
    lines = [
        line(f"{row['id']}  {(row['at'] or '')[:16].replace('T', ' ')}  {row['body']:<10} {row['path']}")
        for row in rows
    ]
    id = rows[0]["id"] if len(rows) == 1 else "ID"
    look, back = f"soul-bridge conflicts {agent} --show {id}", f"soul-bridge restore {agent} {id}"
    lines.append(f"Look at one: {look}; bring it back: {back};")
    lines.append(f"take it off the list: soul-bridge conflicts {agent} --dismiss {id}")
    return "\n".join(lines)
