"""Another machine that uses this body's name (MERGE-9 applied): commits of that name come that were not made here.

A body that was brought back from a backup has forgotten commits too. Those are older than the moment when its memory
came to where it is now, or than this machine's last start; only newer ones are another's.
"""

from __future__ import annotations

from typing import Any

from bridge.app.soul import Progress, Soul
from bridge.core import bodies
from bridge.core.instants import iso
from bridge.core.ports import Seen

CALLED = "two machines share the name"  # how what is said of it begins
NAMESAKE = "namesake"  # remembered: the last commit of this body's name that another machine made, and when it was met
SEAT = "seat"  # remembered: the file that this memory is in, and since when
OFFERED = "offered"  # remembered: commits that were sent to the remote before main had them
MOST_OFFERED = 16
LOOKED_AT = 1000  # commits
QUIET = 2 * 86400.0  # seconds without such a commit: a body shows itself once a day (FORM-6)


def settle_in(seen: Seen, inode: int, since: float) -> float:
    """Since when this memory is in the file where it is now, epoch seconds; `since`: if it was never known there."""
    seat = seen.recall(SEAT)
    if seat is None or seat["inode"] != inode:
        seat = {"inode": inode, "since": since}
        seen.remember(SEAT, seat)
    return float(seat["since"])


def offer(soul: Soul, commit: str) -> None:
    """Remember that a commit is sent which main has not yet: after a crash it comes back, and is ours."""
    if commit != soul.head():
        offered = [one for one in soul.seen.recall(OFFERED) or [] if one != commit]
        soul.seen.remember(OFFERED, [*offered, commit][-MOST_OFFERED:])


def look(soul: Soul, progress: Progress, ours: str | None, theirs: str) -> None:
    """Whether another machine made some of what is fetched: remembered, and told."""
    if ours in (None, theirs):
        return
    clock = soul.clock
    since = max(soul.born, clock.now() - clock.boottime())
    offered = [commit for commit in soul.seen.recall(OFFERED) or [] if soul.repo.has(commit)]
    for number, commit in enumerate(soul.repo.log(theirs, ours)):
        if number >= LOOKED_AT:
            return
        if commit.body != soul.body or commit.time <= since:
            continue
        if any(soul.repo.is_ancestor(commit.oid, one) for one in offered):
            continue
        fields = bodies.read(soul.content(soul.repo.entry(commit.tree, bodies.path(soul.body)))) or {}
        found = {"body": soul.body, "commit": commit.oid, "made": commit.time, "host": bodies.said(fields, "host")}
        soul.seen.remember(NAMESAKE, {**found, "met": clock.now()})
        progress.notes.append(_called(soul.body))
        return


def words(soul: Soul) -> tuple[str, ...]:
    """What a person has to know as long as it is so: nothing, or one warning with what to do."""
    found = soul.seen.recall(NAMESAKE)
    if found is None or found["body"] != soul.body or not 0 <= soul.clock.now() - found["met"] < QUIET:
        return ()
    return (
        f"{_called(soul.body)}: a commit of that name, of {iso(found['made'])}{_host(soul, found)}, was not made here. "
        "Nothing is lost.\n"
        f"{ways(soul.agent)}",
    )


def ways(agent: str) -> str:
    """What a person does about it, by which machine is left."""
    return (
        f"Write another `body` into the configuration of one of them, then `soul-bridge init {agent}` there. If "
        f"only this machine is left: `soul-bridge init {agent} --take-over`"
    )


def take_over(soul: Soul) -> None:
    """A person says that this machine is the body from now on: what was made until now is not another's."""
    seat, now = soul.seen.recall(SEAT), soul.clock.now()
    with soul.seen.transaction():
        soul.seen.remember(NAMESAKE, None)
        if seat is not None:
            soul.seen.remember(SEAT, {**seat, "since": now})
    soul.born = now


def _called(body: str) -> str:
    return f"{CALLED} {body}"


def _host(soul: Soul, found: dict[str, Any]) -> str:
    host = found["host"]
    return f" on {host}" if isinstance(host, str) and host and host != soul.host else ""
