"""What a local write to a memory file can have read (MERGE-12 applied): our own writes into it are remembered."""

from __future__ import annotations

import functools
import itertools
from dataclasses import astuple, dataclass, replace

from bridge.app.soul import Soul
from bridge.core import entries, layout
from bridge.core.errors import Held
from bridge.core.model import File, Lost, SeenEntry

MOST = 64  # writes into one file that are remembered one by one; when there are more,
KEPT = 32  # so many of the newest stay as they are, and older ones are remembered together


@dataclass(frozen=True, slots=True)
class _Write:
    """One write of ours into a memory file: UTC seconds, boottime, the blobs before ("": there was none) and after it,
    and the boot."""

    at: float
    boottime: float
    before: str
    after: str
    boot: str = ""

    @property
    def own(self) -> bool:
        """It stands for a version of the agent's own: nothing came with it (see `came_out`)."""
        return self.before == self.after


def remember(
    soul: Soul, path: str, before: SeenEntry | None, after: File | None, began: float, boot: str | None = None
) -> None:
    """A working file was written by us: what came into a memory file with that is remembered for a day.

    began: boottime right before, so that whoever read the file since then may have read what we wrote. boot: of which
    start of the machine that is, None: of this one.
    """
    if not layout.is_memory(path):
        return
    if after is None:
        soul.seen.remember(_name(path), None)
        return
    boot = soul.boot if boot is None else boot
    was = before.file.oid if before is not None else ""
    writes = [*_writes(soul, path), _Write(soul.clock.now(), began, was, after.oid, boot)]
    _keep(soul, path, writes)


def came_out(soul: Soul, path: str, version: File) -> None:
    """The agent wrote this version into a file that an exchange of ours took out. What we lay with its entries in it
    tells nothing about who has read that: the agent knew them before."""
    if layout.is_memory(path):
        own = _Write(soul.clock.now(), soul.clock.boottime(), version.oid, version.oid, soul.boot)
        _keep(soul, path, [*_writes(soul, path), own])


def _keep(soul: Soul, path: str, writes: list[_Write]) -> None:
    writes = writes if len(writes) <= MOST else _folded(soul, path, writes)
    soul.seen.remember(_name(path), [list(astuple(write)) for write in writes])


def _folded(soul: Soul, path: str, writes: list[_Write]) -> list[_Write]:
    """The writes, with the older ones as two: one of those that were read and one of those that were not, so that an
    agent with a copy from before them takes nothing out, however often we wrote since."""
    older = writes[:-KEPT]
    read = [write for write in older if _was_read(soul, path, write)]
    unread = [write for write in older if write not in read]
    folded = [_as_one(soul, each) for each in (read, unread) if each]
    soul.repo.flush()  # no commit holds what stands for several
    return [*folded, *writes[-KEPT:]]


def _as_one(soul: Soul, writes: list[_Write]) -> _Write:
    both = functools.reduce(entries.Arrival.then, (_arrival(soul, write) for write in writes))
    before, after = (soul.repo.write(entries.write(each)) for each in (both.before, both.after))
    return replace(writes[-1], before=before, after=after)


def _was_read(soul: Soul, path: str, write: _Write) -> bool:
    """Whether the agent may have read what was written. Of another start of the machine nobody can tell."""
    return write.boot != soul.boot or soul.was_read(path, write.boottime)


def base_of(soul: Soul, path: str, seen_file: File | None, version: File | None, came_out: bool = False) -> File | None:
    """The version that a local write is merged against: what was seen, or an older one when it did not read that.

    version: what was written, None: the file was removed. came_out: it was written into a file that an exchange of ours
    took out; what we wrote into later ones tells nothing.
    """
    if seen_file is None or not soul.repo.has(seen_file.oid):
        return None  # nothing was seen, or its bytes are gone: a base that cannot be read deletes nothing
    if not layout.is_memory(path) or path.startswith(soul.frozen):
        return seen_file
    writes = _writes(soul, path)
    if came_out:
        into = [number for number, write in enumerate(writes) if write.after == seen_file.oid and not write.own]
        writes = writes[: into[-1] + 1] if into else []
    read = [write for write in writes if _was_read(soul, path, write)]
    writes = [write for write in writes if write not in read]
    if not writes:
        return seen_file
    try:
        seen = _entries(soul, seen_file.oid)
        written = _entries(soul, version.oid) if version is not None else ()
    except Held:
        # What cannot be read as entries is merged as a whole: the one that loses is listed (MERGE-6).
        return File(writes[0].before, seen_file.mode) if writes[0].before else None
    arrived = [_arrival(soul, write) for write in writes]
    remembered = {entry for each in read for entry in itertools.chain(*astuple(_arrival(soul, each)))}
    base = entries.base_of_write(written, seen, arrived, False, remembered)
    if base == seen:
        return seen_file
    oids = [write.before for write, arrival in zip(writes, arrived, strict=True) if base and arrival.before == base]
    # The agent wrote between two of our writes: no version that ever stood there is what it had read.
    return File(oids[-1] if oids else soul.repo.write(entries.write(base)), seen_file.mode)


def stood(soul: Soul, path: str, oid: str) -> bool:
    """Whether a write of ours into a memory file is remembered that took this version's place, or laid it."""
    return bool(oid) and any(oid in (write.before, write.after) for write in _writes(soul, path))


def dropped(soul: Soul, path: str, base: File | None, version: File | None, theirs: File | None) -> tuple[Lost, ...]:
    """Their version, as lost, when a local write drops entries that arrived within the last day (MERGE-12).

    Not those that came with the file itself: on a body that has just joined everything would have arrived that day.
    """
    if not layout.is_memory(path) or base is None or theirs is None:
        return ()
    try:
        here = set(_entries(soul, version.oid)) if version is not None else set()
        there = set(_entries(soul, theirs.oid))
        came = (_arrival(soul, write) for write in _writes(soul, path) if write.before)
        arrived = {entry for each in came for entry in set(each.after) - set(each.before)}
        gone = (set(_entries(soul, base.oid)) & there & arrived) - here
    except Held:
        return ()
    return (Lost(path, theirs, "theirs"),) if gone else ()


def _writes(soul: Soul, path: str) -> list[_Write]:
    plain = soul.seen.recall(_name(path)) or []
    return [write for write in (_Write(*each) for each in plain) if _recent(soul, write) and _is_here(soul, write)]


def _recent(soul: Soul, write: _Write) -> bool:
    """Whether it was made within the last day; a clock that is set while the machine runs changes nothing about it."""
    same = bool(write.boot) and write.boot == soul.boot
    passed = soul.clock.boottime() - write.boottime if same else soul.clock.now() - write.at
    return passed < entries.RECENT


def _is_here(soul: Soul, write: _Write) -> bool:
    return (not write.before or soul.repo.has(write.before)) and soul.repo.has(write.after)


def _arrival(soul: Soul, write: _Write) -> entries.Arrival:
    return entries.Arrival(_texts(soul, write.before), _texts(soul, write.after))


def _texts(soul: Soul, oid: str) -> tuple[str, ...]:
    """Entries of a version that stood there. One that is no text had none: its write says nothing of other writes."""
    try:
        return _entries(soul, oid) if oid else ()
    except Held:
        return ()


def _entries(soul: Soul, oid: str) -> tuple[str, ...]:
    return entries.read(soul.repo.read(oid))


def _name(path: str) -> str:
    return f"arrivals:{path}"
