"""While memories are consolidated, what the command reads stays as it is on disk (MERGE-12 applied).

What is remembered survives a restart of the daemon in the middle; it ends with the lease, or when nobody is left who
consolidates.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import Any

from bridge.app.joining import REMOTE
from bridge.app.soul import Soul
from bridge.core import layout, lease
from bridge.core.errors import Refused

RUN = "consolidation"  # remembered
FROZEN = ("memories/", "notes/")


@dataclass(frozen=True, slots=True)
class Run:
    """One consolidation.

    id: as its owner names it. owner, group: who consolidates, as numbers of a process and of a process group (0: not
    known yet). started: boottime from before the push of the lease. written: every lease this run wrote. boot: the
    start of the machine that those numbers belong to.
    """

    id: str
    owner: int
    group: int
    started: float
    written: tuple[str, ...]
    boot: str = ""


def current(soul: Soul) -> Run | None:
    """The run that goes on, None when there is none."""
    plain: dict[str, Any] | None = soul.seen.recall(RUN)
    if plain is None:
        return None
    written = tuple(plain["written"])
    return Run(plain["id"], plain["owner"], plain["group"], plain["started"], written, plain.get("boot", soul.boot))


def named(soul: Soul, id: str) -> Run:
    """The run of this name. Raises Refused(kind="lease") when it is over."""
    run = current(soul)
    if run is None or run.id != id:
        raise Refused(
            "this consolidation is over: its lease ran out, or it was ended",
            kind="lease",
            rule="LEASE-3",
            advice="What was written is recorded like any other change. See `soul-bridge lease show`.",
        )
    return run


def remember(soul: Soul, run: Run | None) -> None:
    """A run began or changed; None: it is over, and what waited may be materialised."""
    plain = None
    if run is not None:
        plain = {name: getattr(run, name) for name in ("id", "owner", "group", "started", "boot")}
        plain["written"] = list(run.written)
    soul.seen.remember(RUN, plain)
    soul.frozen = FROZEN if run is not None else ()
    if run is None:
        soul.lost = False


def renewed(run: Run, content: str, started: float) -> Run:
    """The run with the lease it wrote last."""
    return replace(run, started=started, written=tuple(dict.fromkeys([*run.written, content])))


def tend(soul: Soul) -> None:
    """Before each pass: let go of a run that is over, and notice a lease that is not the one it wrote."""
    run = current(soul)
    if run is None:
        if soul.frozen:
            remember(soul, None)
        return
    now = soul.clock.boottime()
    living = _lives(run.owner) or (run.group > 0 and _lives(-run.group))
    if not living or run.boot != soul.boot or not run.started <= now < run.started + lease.LASTS:
        remember(soul, None)
        return
    soul.frozen = FROZEN
    if not soul.lost and _published(soul) not in run.written:
        soul.lost = True
        soul.facts.record("lease.lost")


def exempt(soul: Soul, path: str) -> bool:
    """Whether a change of this path is a consolidation's, which GUARD-2 does not delay."""
    return bool(soul.frozen) and layout.is_memory(path)


def _published(soul: Soul) -> str:
    content = soul.content(soul.repo.entry(soul.tree_of(soul.seen.recall(REMOTE)), layout.LEASE))
    return (content or b"").decode("utf-8", "replace")


def _lives(number: int) -> bool:
    """Whether a process, or (negative) a process group, is there."""
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
