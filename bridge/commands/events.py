"""`events`: the facts that are kept, and with --follow those to come, as JSON lines."""

from __future__ import annotations

import argparse
import json

from bridge.adapters import formats
from bridge.adapters.clock import SystemClock
from bridge.adapters.events import read_events
from bridge.commands.context import Context


def run(arguments: argparse.Namespace, context: Context) -> int:
    """Print facts, oldest first: a line each, or one list with --json, which cannot follow."""
    agent = context.agent(arguments.agent)
    formats.refuse_newer(context.places.state_dir(agent))
    path = context.places.events_file(agent)
    facts = read_events(path, arguments.follow, SystemClock().sleep)
    if context.json and not arguments.follow:
        context.answer(list(facts), "")
        return 0
    for fact in facts:
        context.line(json.dumps(fact), now=arguments.follow)
    return 0
