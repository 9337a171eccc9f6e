"""The lease on consolidating memories: whose it is, until when, and what its holder has to do next.

Two clocks: `now_ms` is UTC in milliseconds, which the lease states and nobody trusts far; `boottime` is in seconds on
a clock of this machine that runs through suspend.

Rules: FORM-7, LEASE-1, LEASE-2, LEASE-3.
"""

from __future__ import annotations

import enum
import json
from dataclasses import dataclass

from bridge.core import jsontext
from bridge.core.model import Problem

LASTS = 30 * 60  # seconds
RENEWED_AFTER = LASTS / 2
STOPS_BEFORE = 60  # seconds before its end at which the holder has stopped
GRACE_MS = 60_000  # past `until` before another may take it
LATEST_MS = 253_402_300_800_000  # the year 10000: nobody can write such an end as a date
SURE_AFTER = LASTS + 60  # seconds of seeing the same lease after which it is over, whatever clocks say


@dataclass(frozen=True, slots=True)
class Lease:
    """A lease as published. until: milliseconds since the epoch."""

    body: str
    until: int


@dataclass(frozen=True, slots=True)
class Sighting:
    """What looks at the remote found: its lease file (None: none), since which look (boottime), and whether the look
    before found another or none. Not to be kept across a restart of the machine."""

    content: bytes | None
    since: float
    appeared: bool


@dataclass(frozen=True, slots=True)
class Free:
    """Nobody holds it: whoever pushes first takes it."""


@dataclass(frozen=True, slots=True)
class Mine:
    """The published lease is byte for byte what this body wrote."""

    until: int


@dataclass(frozen=True, slots=True)
class HeldBy:
    """Another holds it, by its own words until `until` (None: unreadable); free in `wait` seconds at the latest."""

    body: str
    until: int | None
    wait: float


class Duty(enum.Enum):
    """What a holder has to do."""

    KEEP = "keep"
    RENEW = "renew"
    STOP = "stop"


def read(content: bytes | None) -> Lease | None:
    """The lease a file states, None when it is absent or states none."""
    fields = jsontext.read(content) or {}
    body, until = fields.get("body"), fields.get("until")
    if not isinstance(body, str) or isinstance(until, bool) or not isinstance(until, int | float):
        return None
    return Lease(body, int(until)) if 0 <= until < LATEST_MS else None


def write(body: str, until_ms: int) -> bytes:
    """Bytes of a lease: one line, one LF."""
    fields = {"body": body, "until": until_ms}
    return jsontext.encode(json.dumps(fields, ensure_ascii=False, separators=(",", ":")) + "\n")


def until(now_ms: int) -> int:
    """The end that a lease taken now states."""
    return now_ms + LASTS * 1000


def sight(before: Sighting | None, published: bytes | None, boottime: float) -> Sighting:
    """What is known after one more look. before: None at the first look of this run."""
    if before is not None and before.content == published:
        return before
    return Sighting(published, boottime, appeared=before is not None)


def decide(sighting: Sighting, ours: bytes | None, now_ms: int, boottime: float) -> Free | Mine | HeldBy:
    """Whose the lease is. ours: the bytes this body wrote when it last took or renewed it, None when it let go.

    One that this body saw appear is another's for SURE_AFTER from the look that found it, whatever clocks say. One
    that was there at the first look is free GRACE_MS after its end, and after SURE_AFTER as well: its end may be a
    wrong clock's, but no lease lasts longer than that.
    """
    if sighting.content is None:
        return Free()
    lease = read(sighting.content)
    if lease is not None and sighting.content == ours:
        return Mine(lease.until)
    wait = sighting.since + SURE_AFTER - boottime
    if lease is not None and not sighting.appeared:
        wait = min(wait, (lease.until + GRACE_MS - now_ms) / 1000)
    if wait <= 0:
        return Free()
    return HeldBy(lease.body if lease else "", lease.until if lease else None, wait)


def duty(started: float, boottime: float) -> Duty:
    """What the holder of a lease has to do. started: boottime from before the push that took or renewed it."""
    if boottime >= stops(started):
        return Duty.STOP
    return Duty.RENEW if boottime >= renews(started) else Duty.KEEP


def renews(started: float) -> float:
    """Boottime at which the holder renews."""
    return started + RENEWED_AFTER


def stops(started: float) -> float:
    """Boottime at which the holder's command must have stopped, unless it was renewed."""
    return started + LASTS - STOPS_BEFORE


def problems(path: str, content: bytes) -> list[Problem]:
    """Where a lease file is not of FORM-7."""
    lease = read(content)
    if lease is None:
        return [Problem("FORM-7", path, 0, 'must be {"body":"<body>","until":<unix ms>}')]
    if write(lease.body, lease.until) != content:
        return [Problem("FORM-7", path, 1, f"not written as {write(lease.body, lease.until).decode().strip()}")]
    return []
