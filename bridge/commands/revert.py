"""`revert COMMIT`: take back what one commit did, as a new commit, or refuse with nothing changed."""

from __future__ import annotations

import argparse

from bridge.commands import wiring
from bridge.commands.context import Context
from bridge.commands.restore import told


def run(arguments: argparse.Namespace, context: Context) -> int:
    """Do it. Raises Refused where it cannot apply."""
    settings = context.settings(arguments.agent)
    answer = wiring.request(settings, context, {"command": "revert", "commit": arguments.words[0]})
    context.answer(answer, told(answer, "taken back"))
    return 0
