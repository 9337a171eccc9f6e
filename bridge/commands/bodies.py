"""`bodies`: who is in the fleet and how to revoke each; `bodies forget B` takes a dead one out of the registry."""

from __future__ import annotations

import argparse

from bridge.app import history
from bridge.commands import reading
from bridge.commands.context import Context
from bridge.core.errors import Unusable
from bridge.core.words import readable


def run(arguments: argparse.Namespace, context: Context) -> int:
    """Print or forget. Raises Refused for a body that is not there."""
    settings = context.settings(arguments.agent, reading=True)
    words = arguments.words
    if words:
        if len(words) != 2 or words[0] != "forget":
            raise Unusable("bodies takes nothing, or: forget B", kind="usage", advice="soul-bridge bodies --help")
        from bridge.commands import wiring

        answer = wiring.request(settings, context, {"command": "forget", "body": words[1]})
        context.answer(
            answer, readable(f"{words[1]} is out of the registry; its journal stays. {_revoke(settings.agent)}")
        )
        return 0
    with reading.repository(settings) as repo:
        rows = history.fleet(repo)
    lines = [
        f"{row['body']:<16} {row['kind']:<8} {row['host'] or '-':<20} {row['last_seen'] or 'never':<26} "
        f"{row['commits']} commits"
        for row in rows
    ]
    context.answer(rows, "\n".join(readable(line) for line in [*lines, _revoke(settings.agent)]))
    return 0


def _revoke(agent: str) -> str:
    return (
        f'To revoke a body, delete its deploy key at the host: it is titled "{agent}.BODY soul-bridge"; '
        "its local copy stays with it."
    )
