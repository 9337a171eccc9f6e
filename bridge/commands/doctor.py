"""`doctor`: checks everything from the configuration to write access, each with its remedy."""

from __future__ import annotations

import argparse

from bridge.adapters import keys
from bridge.commands.context import Context
from bridge.core.errors import SoulError


def run(arguments: argparse.Namespace, context: Context) -> int:
    """Print the checks; 1 if any fails."""
    rows = []
    try:
        settings = context.settings(arguments.agent)
        rows.append({"check": "configuration", "state": "ok", "message": "it can be used", "remedy": ""})
        key = keys.load(settings.key, settings.soul)
        rows.append({"check": "key", "state": "ok", "message": key.fingerprint, "remedy": ""})
    except SoulError as error:
        rows.append({"check": "start", "state": "fail", "message": error.message, "remedy": error.advice})
    context.answer(rows, "\n".join(f"{row['state']:<4}  {row['check']}: {row['message']}" for row in rows))
    return int(any(row["state"] == "fail" for row in rows))
