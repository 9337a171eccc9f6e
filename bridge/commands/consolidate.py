"""`consolidate -- CMD …`: run a command that rewrites memories while no other body does."""

from __future__ import annotations

import argparse
import contextlib
import shlex
import shutil
import signal
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from bridge.adapters import child, config, control
from bridge.app import consolidating
from bridge.commands import run as daemon
from bridge.commands.context import Context
from bridge.core.errors import Unusable

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
TRIES = 10  # looks for a daemon that is being restarted
PAUSE = 0.5  # seconds between them


def run(arguments: argparse.Namespace, context: Context) -> int:
    """Run the command under the lease; its exit code. Raises Refused(kind="lease"), Transient, Unusable.

    With --json the command's own output goes to standard error.
    """
    command, named = arguments.rest, arguments.agent
    if not command and named not in (None, *config.agents(context.places)):
        raise Unusable(
            "a command is needed, and it comes behind --",
            kind="usage",
            advice=f"soul-bridge consolidate -- {shlex.quote(named)}",
        )
    settings = context.settings(named)
    if not command:
        raise Unusable("a command is needed", kind="usage", advice=f"soul-bridge consolidate {settings.agent} -- CMD …")
    if "/" not in command[0] and shutil.which(command[0]) is None:
        raise Unusable(f"there is no program {command[0]}", kind="usage", advice=f"command -v {command[0]}")
    with _stopping() as stop, _owner(settings, context) as owner:
        output = 2 if context.json else -1

        def start() -> child.Child:
            return child.start(command, settings.soul, child.environment(), stdout=output)

        code, problem = consolidating.Holder(owner.ask, start, context.clock, lambda: bool(stop)).run()
    if problem is not None:
        context.say(f"soul-bridge: {problem.message}\n  The results are recorded here; the lease ends by itself.")
    if stop:
        code = 128 + stop[0]
    if context.json:
        context.answer({"code": code, "problem": None if problem is None else problem.as_dict()}, "")
    return code


@dataclass
class Owner:
    """Whoever owns the soul: the daemon that runs, or one of our own for as long as the command runs."""

    settings: config.Settings
    context: Context
    own: list[daemon.Running] = field(default_factory=list)
    _met: bool = False

    def ask(self, words: dict[str, Any], seconds: float) -> dict[str, Any] | None:
        """Have it do something. A daemon that went away is waited for before its place is taken."""
        socket = self.context.places.control_socket(self.settings.agent)
        words = {"agent": self.settings.agent, **words}
        for attempt in range(TRIES + 1):
            answer = control.ask(socket, words, seconds)
            if answer is not None or words["command"] == "consolidate look":
                self._met = True
                return answer
            if not self._met or attempt == TRIES:
                self.own += daemon.start([self.settings], self.context)
                self._met = True
            else:
                self.context.clock.sleep(PAUSE)
        return control.ask(socket, words, seconds)


@contextlib.contextmanager
def _owner(settings: config.Settings, context: Context) -> Iterator[Owner]:
    owner = Owner(settings, context)
    try:
        yield owner
    finally:
        daemon.stop(owner.own)


@contextlib.contextmanager
def _stopping() -> Iterator[list[int]]:
    """The signals that asked for an end, as long as this lasts."""
    came: list[int] = []
    before = {number: signal.signal(number, lambda number, frame: came.append(number)) for number in SIGNALS}
    try:
        yield came
    finally:
        for number, action in before.items():
            signal.signal(number, action)
