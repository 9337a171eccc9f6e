"""A soul opened in this process, as the daemon opens it, so that a pass can be measured alone."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Iterator

from bench.world import AGENT, Body
from bridge.adapters import config
from bridge.app.reporting import Reporter
from bridge.app.soul import Soul
from bridge.commands import wiring
from bridge.commands.context import Context


def context_of(body: Body) -> Context:
    """The places of a body."""
    places = config.locate({"SOUL_BRIDGE_HOME": str(body.home), "HOME": os.environ.get("HOME", "/")})
    return Context(places, True, io.StringIO(), io.StringIO())


@contextlib.contextmanager
def opened(body: Body, agent: str = AGENT) -> Iterator[Soul]:
    """The soul, under its lock; no daemon may run."""
    context = context_of(body)
    with wiring.opened(context.settings(agent), context) as found:
        yield found.soul


def reporter(body: Body) -> Reporter:
    """What writes the status after a pass."""
    return Reporter(str(body.soul()), "", 1, None)
