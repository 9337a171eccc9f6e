"""Paths that the server refused, as this body remembers them; a pass looks at them and leaves them where they are.

What is withheld of a path is a side branch of main for that one path: the kept commit that has it, and the published
one that it left. Seen stays what it was, so that the working file is a local change of that branch (GUARD-5).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import astuple, replace
from typing import TYPE_CHECKING, Any

from bridge.app.soul import Apart, Order, Progress, Soul
from bridge.core import plan
from bridge.core.errors import Held, Moved
from bridge.core.model import SeenEntry
from bridge.core.withhold import Withheld

if TYPE_CHECKING:
    from bridge.app.observing import Found

WITHHELD = "withheld"  # remembered: by path
RULE = "REPO-8"


def plain(hold: Withheld) -> tuple[Any, ...]:
    """As JSON holds it."""
    return astuple(hold)


def recall(soul: Soul) -> dict[str, Withheld]:
    """All of them, by path; one whose version is nowhere any more is an ordinary path."""
    holds = {path: Withheld(*words) for path, words in (soul.seen.recall(WITHHELD) or {}).items()}
    return {path: hold for path, hold in holds.items() if soul.repo.has(hold.commit)}


def remember(soul: Soul, holds: Mapping[str, Withheld]) -> None:
    """All of them; status tells of them, and this pass leaves them alone."""
    soul.seen.remember(WITHHELD, {path: plain(hold) for path, hold in holds.items()} or None)
    others = {path: why for path, why in soul.watching.held.items() if why[0] != RULE}
    soul.watching = replace(soul.watching, held={**_reasons(holds), **others})


def worth_reading(soul: Soul, order: Order, paths: Iterable[str]) -> list[str]:
    """The changed paths without those withheld ones that nobody hinted at and whose time has not come."""
    holds, now = recall(soul), soul.clock.now()

    def worth(path: str) -> bool:
        hold = holds.get(path)
        return hold is None or order.now or soul.owed is None or path in soul.owed or hold.due(True, now)

    return [path for path in paths if worth(path)]


def set_apart(soul: Soul, progress: Progress, found: Found) -> None:
    """Take what the server refused out of what a look found; what can be tried again goes into progress.apart."""
    holds = recall(soul)
    if not holds:
        return
    elsewhere = progress.pending | soul.watching.held.keys() | soul.waiting.keys()
    for path, hold in holds.items():
        if path in progress.back:
            progress.back.discard(path)
            _put_back(soul, progress, path, hold)
        elif path in found.versions:
            progress.apart[path] = Apart(True, found.versions[path], found.seen[path])
            found.leave_out(path)
        elif path not in elsewhere and (path in found.unchanged or path not in soul.watching.changes):
            progress.apart[path] = Apart(False)
    soul.watching = replace(soul.watching, held={**_reasons(holds), **soul.watching.held})


def _put_back(soul: Soul, progress: Progress, path: str, hold: Withheld) -> None:
    """A file that must exist comes back as it was last recorded, which is not what main has (GUARD-2)."""
    file = soul.repo.entry(soul.tree_of(hold.commit), path)
    if file is None:
        progress.apart[path] = Apart(False)
        return
    try:
        stamp = soul.tree.create(path, soul.repo.read(file.oid), bool(file.mode & 0o111))
    except Moved:
        progress.pending.add(path)
    except Held as error:
        soul.watching = plan.hold(soul.watching, path, error)
    else:
        soul.seen.put(path, SeenEntry(file, file.oid, stamp, plan.racy(stamp, soul.clock.now())))
        soul.watching = plan.again(plan.finished(soul.watching, [path]), [path])
        progress.written.append(path)


def let_go(soul: Soul, progress: Progress, paths: Collection[str]) -> None:
    """Main has what these paths hold now: they are like all others again. Within a transaction of the caller's."""
    remember(soul, {path: hold for path, hold in recall(soul).items() if path not in paths})
    for path in paths:
        apart = progress.apart.pop(path, None)
        if apart is None or not apart.changed:
            continue  # what is still going on in the working file stays watched
        soul.watching = plan.finished(soul.watching, [path])
        soul.seen.put(path, apart.entry)
        if apart.entry is not None and apart.entry.racy:
            soul.watching = plan.again(soul.watching, [path])
            progress.due(soul.clock.boottime() + plan.RACY)


def _reasons(holds: Mapping[str, Withheld]) -> dict[str, tuple[str, str]]:
    return {path: (RULE, hold.reason) for path, hold in holds.items()}
