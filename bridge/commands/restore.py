"""`restore ID` and `restore COMMIT PATH`: bring a version back as a new commit."""

from __future__ import annotations

import argparse

from bridge.commands import wiring
from bridge.commands.context import Context
from bridge.core.words import readable


def run(arguments: argparse.Namespace, context: Context) -> int:
    """Do it. Raises Refused when it is not there or cannot stand there."""
    settings = context.settings(arguments.agent)
    words = arguments.words
    named = {"id": words[0]} if len(words) == 1 else {"commit": words[0], "path": words[1].removeprefix("./")}
    answer = wiring.request(settings, context, {"command": "restore", **named})
    context.answer(answer, readable(told(answer, "brought back")))
    return 0


def told(answer: dict[str, object], done: str) -> str:
    """One line about a new commit."""
    paths = answer["paths"]
    where = "pushed" if answer["pushed"] else f"not pushed yet ({answer['problem']})" if answer["problem"] else "kept"
    return f"{', '.join(paths) if isinstance(paths, list) else ''}: {done} by {str(answer['commit'])[:10]}, {where}"
