"""`status`: what the last pass knew, and whether anybody is making passes. Loads no configuration unless it must."""

from __future__ import annotations

import argparse

from bridge.adapters import config, lock
from bridge.app import pause, status
from bridge.commands.context import Context
from bridge.core.errors import Unusable


def run(arguments: argparse.Namespace, context: Context) -> int:
    """Print the status of one soul; 0 whenever it could be told."""
    agent = context.agent(arguments.agent)
    places = context.places
    pid = lock.holder(places.lock_file(agent))
    running = pid is not None or lock.is_held(places.lock_file(agent))
    document = status.read(places.status_file(agent))
    if document is None or (not running and _newer(places, agent)):
        document = _from_settings(context, agent, document)
    document = status.current(document, running=running, pid=pid, paused=pause.is_paused(places.state_dir(agent)))
    context.answer(document, status.readable(document, context.clock.now()))
    return 0


def _newer(places: config.Places, agent: str) -> bool:
    """Whether the configuration was changed after the last pass, so that what was told then may not hold."""
    try:
        return places.config_file(agent).stat().st_mtime >= places.status_file(agent).stat().st_mtime
    except OSError:
        return True


def _from_settings(context: Context, agent: str, document: status.Document | None) -> status.Document:
    try:
        settings = config.load(context.places, agent)
    except Unusable as error:
        if document is None:
            raise
        problem = {"kind": "config", "message": error.message, "advice": error.advice, "since": None, "next_try": None}
        return {**document, "problem": problem}
    fresh = status.build(
        agent=settings.agent,
        body=settings.body,
        soul=str(settings.soul),
        remote=settings.remote,
        state="stopped",
    )
    same = ("agent", "body", "soul", "remote")
    return {**document, **{name: fresh[name] for name in same}} if document else fresh
