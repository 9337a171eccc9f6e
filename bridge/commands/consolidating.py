"""The configured consolidation with its real schedule and command, for the daemon."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

from bridge.adapters import child, config, control
from bridge.adapters.schedule import Schedule
from bridge.app import nightly as nightlies
from bridge.app import pause
from bridge.app.consolidating import Holder
from bridge.commands.context import Context
from bridge.core.errors import SoulError

GRACE = 4.0  # seconds that the command has to end when the daemon does
TO_LOG = 2  # the descriptor that what it prints goes to


def nightly(settings: config.Settings, context: Context, log: Any) -> nightlies.Nightly | None:
    """What keeps the times of a soul whose owner answers on its socket, begun; None where no time is configured.

    log: as structlog's. Raises Unusable for a bad schedule.
    """
    plan = settings.consolidation
    if plan is None:
        return None
    state = context.places.state_dir(settings.agent)

    def work(stopped: Callable[[], bool]) -> tuple[int, SoulError | None]:
        holder = Holder(asking(settings, context), starting(settings, plan.command), context.clock, stopped, GRACE)
        return holder.run()

    def fault(error: BaseException, times: int) -> None:
        say = log.error if times == 1 else log.debug
        told = {"agent": settings.agent, "again": "at its next time", "times": times}
        say("the consolidation failed", problem=repr(error), exc_info=error, **told)

    kept = nightlies.Nightly(
        work,
        nightlies.Diary(state / nightlies.MEMORY),
        context.clock,
        lambda: pause.is_paused(state),
        lambda words: context.say(f"{settings.agent}: {words}"),
        fault,
    )
    kept.start(Schedule(plan.schedule, kept.due))
    return kept


def asking(settings: config.Settings, context: Context) -> Callable[[dict[str, Any], float], dict[str, Any] | None]:
    """What asks the owner of a soul for something."""
    socket = context.places.control_socket(settings.agent)
    return lambda words, seconds: control.ask(socket, {"agent": settings.agent, **words}, seconds)


def starting(settings: config.Settings, command: Sequence[str]) -> Callable[[], child.Child]:
    """What starts the configured command in the checkout; nobody types for it."""

    def start() -> child.Child:
        nothing = os.open(os.devnull, os.O_RDONLY)
        try:
            return child.start(command, settings.soul, child.environment(), stdin=nothing, stdout=TO_LOG)
        finally:
            os.close(nothing)

    return start
