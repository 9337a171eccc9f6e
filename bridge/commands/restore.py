"""`restore ID` and `restore COMMIT PATH`: bring a version back as a new commit; `--dry-run`: only look at it."""

from __future__ import annotations

import argparse
import shlex
from typing import Any

from bridge.adapters import config
from bridge.app import status
from bridge.commands import reading
from bridge.commands.context import Context
from bridge.core.errors import Refused
from bridge.core.model import File
from bridge.core.words import line

NOT_OURS = ("MERGE-9", "MERGE-10")  # why a version cannot come back, though its bytes are there


def run(arguments: argparse.Namespace, context: Context) -> int:
    """Do it. Raises Refused when it is not there or cannot stand there."""
    words = arguments.words
    named = {"id": words[0]} if len(words) == 1 else {"commit": words[0], "path": words[1].removeprefix("./")}
    if arguments.dry_run:
        look(context.settings(arguments.agent, reading=True), context, named)
        return 0
    from bridge.commands import wiring

    settings = context.settings(arguments.agent)
    answer = wiring.request(settings, context, {"command": "restore", **named})
    context.answer(answer, told(answer, "brought back"))
    return 0


def look(settings: config.Settings, context: Context, named: dict[str, Any], shown: bool = False) -> None:
    """Print what bringing a version back would change in the file that stands there now. Raises as `run`.

    shown: also a version of a path that this body does not write, and that can only be taken out.
    """
    from bridge.app import history, undoing
    from bridge.commands.diff import words_of

    with reading.repository(settings) as repo:
        tree = repo.info(history.tip_of(repo)).tree
        path, file, _ = undoing.version(repo, tree, context.clock.now(), named)
        barred = ""
        try:
            undoing.refuse_what_cannot_stand(repo, tree, settings.body, path, file)
        except Refused as error:
            if not shown or error.rule not in NOT_OURS:
                raise
            barred = error.message
        found = history.difference(repo, path, repo.entry(tree, path), file)
    again = " ".join(shlex.quote(line(str(word))) for word in (settings.agent, *named.values()))
    way = f"To bring it back like this: soul-bridge restore {again}"
    if barred:
        way = f"It cannot come back: {barred}. To take it out: {_taken_out(settings, file)}"
    words = f"{words_of([found])}\n\nNothing was changed. {way}"
    context.answer({"path": path, "blob": file.oid, "changes": [found.as_dict()]}, words)


def _taken_out(settings: config.Settings, file: File) -> str:
    return f"git -C {shlex.quote(line(str(settings.soul)))} cat-file blob {file.oid} > FILE"


def told(answer: dict[str, Any], done: str) -> str:
    """What a new commit did, safe for a terminal; paths that are held, each with its reason."""
    problem = answer["problem"]
    where = "pushed" if answer["pushed"] else f"not pushed yet: {status.cause(problem)}" if problem else "kept"
    lines = [f"{', '.join(line(path) for path in answer['paths'])}: {done} by {answer['commit'][:10]}, {where}"]
    return "\n".join([*lines, *map(status.held_row, answer.get("held", ()))])
