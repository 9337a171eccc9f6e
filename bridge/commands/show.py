"""`show COMMIT`: one commit in words."""

from __future__ import annotations

import argparse

from bridge.app import history
from bridge.commands import reading
from bridge.commands.context import Context
from bridge.commands.diff import words_of
from bridge.commands.log import line, shape


def run(arguments: argparse.Namespace, context: Context) -> int:
    """Print it. Raises Refused for an id that names no commit."""
    settings = context.settings(arguments.agent, reading=True)
    with reading.repository(settings) as repo:
        commit = history.resolve(repo, arguments.words[0])
        before = repo.info(commit.parents[0]).tree if commit.parents else ""
        found = history.differences(repo, before, commit.tree)
        row = shape(history.row(commit, [each.path for each in found]))
    document = {
        **row,
        "parents": list(commit.parents),
        "message": commit.message,
        "changes": [each.as_dict() for each in found],
    }
    context.answer(document, line(row) + "\n\n" + words_of(found))
    return 0
