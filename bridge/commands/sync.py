"""`sync`: one pass now, told in one sentence."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from bridge.app import pause, status
from bridge.commands import wiring
from bridge.commands.context import Context
from bridge.core import nextstep
from bridge.core.errors import EXIT_CODES
from bridge.core.words import readable


def run(arguments: argparse.Namespace, context: Context) -> int:
    """Synchronise once; the exit code says what stood in the way, paths that wait are no failure."""
    settings = context.settings(arguments.agent)
    answer = wiring.request(settings, context, {"command": "sync", "now": arguments.now})
    problem = answer.pop("problem", None)
    words = told(answer)
    if pause.is_paused(context.places.state_dir(settings.agent)):
        words += f"\n  still paused: no other pass until soul-bridge resume {settings.agent}"
    if problem is not None:
        error = {key: problem[key] for key in ("kind", "rule", "message", "advice")}
        context.answer({**answer, "error": error}, words)
        context.say(f"  next: {problem['advice']}" if problem["advice"] else "  local work is safe")
        return EXIT_CODES[problem["kind"]]
    context.answer(answer, words)
    steps = nextstep.of_all(answer["held"], settings.agent, settings.body, str(settings.soul))
    if answer["outcome"] == "waiting" and "waiting: " in answer["sentence"]:
        steps.append(f"finish it, or {nextstep.of_git(answer['sentence'], str(settings.soul))}")
    for step in steps:
        context.say(f"  next: {step}")
    return 0


def told(answer: Mapping[str, Any]) -> str:
    """What was done, and every path that is held with its reason, safe for a terminal."""
    return "\n".join([readable(answer["sentence"]), *map(status.held_row, answer["held"])])
