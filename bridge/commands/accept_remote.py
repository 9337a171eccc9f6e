"""`accept-remote`: a person's decision after the remote's history was rewritten; both sides are shown first."""

from __future__ import annotations

import argparse

from bridge.adapters.config import Settings
from bridge.commands import wiring
from bridge.commands.context import Context
from bridge.core.words import line, readable


def run(arguments: argparse.Namespace, context: Context) -> int:
    """Show both sides, or accept the remote's. Raises Refused when it was not rewritten."""
    settings = context.settings(arguments.agent)
    choice = "merge" if arguments.merge else "theirs" if arguments.theirs else None
    if choice is None or not context.json:
        _show(settings, context, choice)
    if choice is not None:
        done = wiring.request(settings, context, {"command": "accept-remote", "choice": choice})
        context.answer(done, readable(f"Done: {done['sentence']} What main was is kept at {done['kept']}."))
    return 0


def _show(settings: Settings, context: Context, choice: str | None) -> None:
    answer = wiring.request(settings, context, {"command": "accept-remote", "choice": None})
    lines = [f"only here ({len(answer['only_here'])} shown):", *(f"  {each}" for each in answer["only_here"])]
    lines += [f"only on the remote ({len(answer['only_there'])} shown):"]
    lines += [f"  {each}" for each in answer["only_there"]]
    if choice is None:
        again = f"soul-bridge accept-remote {settings.agent}"
        lines.append(f"Choose: {again} --merge (keep both histories), or {again} --theirs")
    context.answer(answer, "\n".join(line(each) for each in lines))
