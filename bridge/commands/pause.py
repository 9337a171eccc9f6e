"""`pause` and `resume`: stop and start the passes of one soul, now and after a restart."""

from __future__ import annotations

import argparse

from bridge.adapters import control, formats
from bridge.app import pause
from bridge.commands.context import Context
from bridge.core.errors import SoulError

_TIMEOUT = 5.0  # seconds for a running daemon to take notice


def run(arguments: argparse.Namespace, context: Context) -> int:
    """Remember the decision first, then tell a daemon that runs: one that does not listen finds it by itself."""
    agent = context.agent(arguments.agent)
    state, stop = context.places.state_dir(agent), arguments.command == "pause"
    formats.refuse_newer(state)
    changed = pause.pause(state) if stop else pause.resume(state)
    request = {"command": arguments.command, "agent": agent}
    try:
        told = control.ask(context.places.control_socket(agent), request, _TIMEOUT) is not None
    except SoulError as error:
        told = True
        context.say(f"{error.message}; the decision is kept and holds from the next pass")
    already = "" if changed else " already"
    if stop:
        words = (
            f"{agent} is{already} paused: no pass begins by itself until `soul-bridge resume {agent}`; "
            "`soul-bridge sync` still makes one when you ask for it"
        )
    else:
        daemon = "passes go on" if told else f"no daemon runs here: `soul-bridge run {agent}`"
        words = f"{agent} was not paused; {daemon}" if already else f"{agent} is resumed; {daemon}"
    context.answer({"agent": agent, "paused": stop, "changed": changed, "daemon": told}, words)
    return 0
