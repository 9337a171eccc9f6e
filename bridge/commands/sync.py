"""`sync`: one pass now, told in one sentence."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from bridge.adapters import config
from bridge.app import namesake, pause, status
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
        rule = f" ({problem['rule']})" if problem["rule"] else ""
        # What was refused stands in the answer, behind what was done all the same.
        context.say(f"soul-bridge: {answer['outcome']}{rule}; files and commits here are safe")
        steps = [problem["advice"] or f"`soul-bridge status {settings.agent}` says how it goes on"]
    else:
        context.answer(answer, words)
        steps = _steps(answer, settings)
    for step in steps:
        context.say(f"  next: {step}")
    return EXIT_CODES[problem["kind"]] if problem is not None else 0


def _steps(answer: Mapping[str, Any], settings: config.Settings) -> list[str]:
    """What a person may do next, where nothing failed."""
    steps = nextstep.of_all(answer["held"], settings.agent, settings.body, str(settings.soul))
    if answer["outcome"] == "waiting" and "waiting: " in answer["sentence"]:
        steps.append(f"finish it, or {nextstep.of_git(answer['sentence'], str(settings.soul))}")
    if namesake.CALLED in answer["sentence"]:
        steps.append(namesake.ways(settings.agent))
    return steps


def told(answer: Mapping[str, Any]) -> str:
    """What was done, and every path that is held with its reason, safe for a terminal."""
    return "\n".join([readable(answer["sentence"]), *map(status.held_row, answer["held"])])
