"""`bodies`: who is in the fleet, with which key, how to revoke each; `bodies forget B` takes a dead one out of it."""

from __future__ import annotations

import argparse
from typing import Any

from bridge.adapters import config
from bridge.app import history, revoking
from bridge.commands import reading
from bridge.commands.context import Context
from bridge.core import address, identity
from bridge.core.errors import Refused, Unusable
from bridge.core.words import counted, line, readable

_LONGEST = 200_000  # characters of a list


def run(arguments: argparse.Namespace, context: Context) -> int:
    """Print, forget, or say how to revoke. Raises Refused for a body that is not there."""
    settings = context.settings(arguments.agent, reading=True)
    words = arguments.words
    if words:
        if len(words) != 2 or words[0] != "forget":
            raise Unusable("bodies takes nothing, or: forget B", kind="usage", advice="soul-bridge bodies --help")
        from bridge.commands import wiring

        answer = wiring.request(settings, context, {"command": "forget", "body": words[1]})
        context.answer(
            answer, readable(f"{line(words[1])} is out of the registry; its journal stays. {_revoke(settings.agent)}")
        )
        return 0
    with reading.repository(settings) as repo:
        rows = history.fleet(repo, arguments.revoke_steps or settings.body)
        more = history.unlisted(repo, len(rows))
    _with_keys(rows, settings)
    if arguments.revoke_steps is not None:
        return _steps(arguments.revoke_steps, rows, settings, context)
    lines = [each for row in rows for each in _lines(row, settings.body)]
    lines += [f"and {counted(more, 'more file')} of the registry not listed: too many, or not readable"] if more else []
    context.answer(rows, readable("\n".join([*lines, _revoke(settings.agent)]), _LONGEST))
    return 0


def _with_keys(rows: list[dict[str, Any]], settings: config.Settings) -> None:
    """Add what is known of each body's key: this body's own, and one that waits to take its place."""
    from bridge.adapters import keys

    for row in rows:
        own = row["body"] == settings.body
        row["waiting"] = None
        if own:
            row["fingerprint"] = keys.fingerprint(settings.key) or row["fingerprint"]
            row["waiting"] = keys.fingerprint(settings.key.with_name(f"{settings.key.name}.next"))


def _lines(row: dict[str, Any], own: str) -> list[str]:
    here = "  (this body)" if row["body"] == own else ""
    lines = [
        f"{row['body']:<16} {row['kind']:<8} {row['host'] or '-':<20} {row['last_seen'] or 'never':<26} "
        f"{counted(row['commits'], 'commit')}{here}"
    ]
    if row["fingerprint"]:
        lines.append(f"{'':16} key {row['fingerprint']}")
    if row["waiting"]:
        lines.append(f"{'':16} and a new one that waits, {row['waiting']}: soul-bridge key rotate")
    # What another body says of itself is no line of ours.
    return [line(each) for each in lines]


def _steps(body: str, rows: list[dict[str, Any]], settings: config.Settings, context: Context) -> int:
    # A name that is none could make a command out of what is printed.
    row = next((row for row in rows if row["body"] == body and identity.NAME.fullmatch(body)), None)
    if row is None:
        known = ", ".join(line(row["body"], 40) for row in rows) or "none"
        raise Refused(
            f"no body {readable(body, 40)!r} is in the registry of {settings.agent}: there are {known}",
            kind="rule",
            rule="AUTH-5",
            advice=_advice_of(body, settings.agent),
        )
    where = address.parse(settings.remote)
    lost = revoking.Lost(settings.agent, body, row["fingerprint"], body == settings.body)
    found = revoking.steps(where, lost)
    document = {**row, "titles": list(lost.titles), "steps": [one.as_dict() for one in found]}
    context.answer(document, readable(revoking.words(lost, found), _LONGEST))
    return 0


def _advice_of(body: str, agent: str) -> str:
    """What to do about a body that is not in the registry: it was mistyped, or forgotten and its key was not."""
    look = f"Nothing was changed. soul-bridge bodies {agent}"
    if not identity.NAME.fullmatch(body):
        return look
    titles = '" or "'.join(revoking.Lost(agent, body, None).titles)
    return f'{look}\nIf it was forgotten, its key at the host is titled "{titles}".'


def _revoke(agent: str) -> str:
    return (
        f'To revoke a body, delete its deploy key at the host: it is titled "soul-bridge BODY" or '
        f'"{agent}.BODY soul-bridge", and\n`soul-bridge bodies {agent} --revoke-steps BODY` says how; its local copy '
        "stays with it."
    )
