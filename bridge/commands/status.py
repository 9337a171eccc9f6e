"""`status`: what the last pass knew, and whether anybody is making passes. Loads no configuration unless it must."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from bridge.adapters import config, formats, lock
from bridge.app import pause, status
from bridge.commands import statedir
from bridge.commands.context import Context
from bridge.core.errors import Transient, Unusable
from bridge.core.instants import seconds


def run(arguments: argparse.Namespace, context: Context) -> int:
    """Print the status of one soul, once or, with --watch, for ever; 0 whenever it could be told."""
    agent = context.agent(arguments.agent)
    if arguments.watch:
        from bridge.commands import watching

        return watching.run(lambda: look(context, agent), context)
    document = look(context, agent)
    context.answer(document, status.readable(document, context.clock.now()))
    return 0


def look(context: Context, agent: str) -> status.Document:
    """The document as it holds now. Raises Unusable where nothing at all can be told."""
    places = context.places
    formats.refuse_newer(places.state_dir(agent))
    pid = lock.holder(places.lock_file(agent))
    running = pid is not None or lock.is_held(places.lock_file(agent))
    found = status.read(places.status_file(agent))
    document = found or _configured(config.load(places, agent))
    if (
        not running
        and (keeper := statedir.keeper(Path(str(document.get("soul"))), places.lock_file(agent))) is not None
    ):
        document = _warned(document, statedir.warning(keeper, places.state_dir(agent)))
        pid, running = keeper, True
    elif found is not None and _newer(places.config_file(agent), places.status_file(agent), document):
        document = _compared(context, agent, document, running)
    document = _full(document, [Path(str(document["soul"])), places.state_dir(agent)])
    return status.current(document, running=running, pid=pid, paused=pause.is_paused(places.state_dir(agent)))


def _full(document: status.Document, places: Sequence[Path]) -> status.Document:
    """The document, with a full disk told: on one, nobody can leave a note of what it was that failed."""
    full = next((place for place in places if statedir.is_full(place)), None)
    if full is None or document.get("problem"):
        return document
    error = Transient(f"the disk of {full} is full: nothing can be recorded or noted there", kind="disk")
    told = {"kind": error.kind, "message": error.message, "advice": error.advice, "since": None, "next_try": None}
    return {**document, "state": "waiting", "problem": {**told, "times": 1}}


def _newer(configured: Path, told: Path, document: status.Document) -> bool:
    """Whether the configuration was changed since whoever wrote the document read it."""
    try:
        since = seconds((document.get("daemon") or {}).get("since"))
        return configured.stat().st_mtime >= (told.stat().st_mtime if since is None else since)
    except OSError:
        return True


def _compared(context: Context, agent: str, document: status.Document, running: bool) -> status.Document:
    """What an older document is worth beside the configuration as it is now."""
    path = context.places.config_file(agent)
    try:
        fresh = _configured(config.load(context.places, agent))
    except Unusable as error:
        if not running:
            told = {"kind": "config", "message": error.message, "advice": error.advice, "since": None}
            return {**document, "problem": {**told, "next_try": None}}
        goes_on = f"the daemon goes on with the one it read before, and would not start with this one\n{error.message}"
        return _warned(document, goes_on)
    same = ("agent", "body", "soul", "remote")
    if not running:
        return {**document, **{name: fresh[name] for name in same}}
    other = [name for name in same if fresh[name] != document.get(name)]
    if other:
        words = f"{path} says another {' and '.join(other)} than the daemon goes by: restart it, or send it SIGHUP"
        return _warned(document, words)
    return document


def _warned(document: status.Document, words: str) -> status.Document:
    return {**document, "warnings": [*document.get("warnings", ()), words]}


def _configured(settings: config.Settings) -> status.Document:
    return status.build(
        agent=settings.agent,
        body=settings.body,
        soul=str(settings.soul),
        remote=settings.remote,
        state="stopped",
    )
