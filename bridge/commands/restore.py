"""`restore ID` and `restore COMMIT PATH`: bring a version back as a new commit; `--dry-run`: only look at it."""

from __future__ import annotations

import argparse
from typing import Any

from bridge.adapters import config
from bridge.commands import reading
from bridge.commands.context import Context
from bridge.core.words import readable


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
    context.answer(answer, readable(told(answer, "brought back")))
    return 0


def look(settings: config.Settings, context: Context, named: dict[str, Any]) -> None:
    """Print what bringing a version back would change in the file that stands there now. Raises as `run`."""
    from bridge.app import history, undoing
    from bridge.commands.diff import words_of

    with reading.repository(settings) as repo:
        tree = repo.info(history.tip_of(repo)).tree
        path, file, _ = undoing.version(repo, tree, context.clock.now(), named)
        undoing.refuse_what_cannot_stand(repo, tree, settings.body, path, file)
        found = history.difference(repo, path, repo.entry(tree, path), file)
    again = f"soul-bridge restore {' '.join(str(word) for word in named.values())}"
    words = f"{words_of([found])}\n\nNothing was changed. To bring it back like this: {readable(again)}"
    context.answer({"path": path, "blob": file.oid, "changes": [found.as_dict()]}, words)


def told(answer: dict[str, object], done: str) -> str:
    """One line about a new commit."""
    paths = answer["paths"]
    where = "pushed" if answer["pushed"] else f"not pushed yet ({answer['problem']})" if answer["problem"] else "kept"
    return f"{', '.join(paths) if isinstance(paths, list) else ''}: {done} by {str(answer['commit'])[:10]}, {where}"
