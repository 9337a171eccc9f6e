"""`conflicts`: versions that lost a merge; `--show ID` looks at one, `--dismiss ID` takes one off the list."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from bridge.app import conflicts
from bridge.commands import reading
from bridge.commands.context import Context
from bridge.core.instants import iso
from bridge.core.words import readable


def run(arguments: argparse.Namespace, context: Context) -> int:
    """Print or dismiss. Raises Refused for an id that names none."""
    settings = context.settings(arguments.agent, reading=True)
    if arguments.show:
        from bridge.commands import restore

        restore.look(settings, context, {"id": arguments.show})
        return 0
    if arguments.dismiss:
        from bridge.commands import wiring

        answer = wiring.request(settings, context, {"command": "dismiss", "id": arguments.dismiss})
        context.answer(answer, f"{arguments.dismiss} is off the list; its version stays in history")
        return 0
    with reading.repository(settings) as repo:
        rows = [{**asdict(one), "at": iso(one.at)} for one in conflicts.listed(repo, context.clock.now())]
    lines = [
        f"{row['id']}  {(row['at'] or '')[:16].replace('T', ' ')}  {row['body']:<10} {row['path']}" for row in rows
    ]
    if lines:
        lines.append("Look at one: soul-bridge conflicts --show ID; bring it back: soul-bridge restore ID;")
        lines.append("take it off the list: soul-bridge conflicts --dismiss ID")
    context.answer(rows, "\n".join(readable(line) for line in lines) or "no version lost a merge in the last 90 days")
    return 0
