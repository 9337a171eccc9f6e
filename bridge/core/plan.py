"""What of a look at the working files may be recorded now, what waits, what is set aside, what may be written.

Everything here turns a look into a choice; reading and writing is the pass's business.

Rules: GUARD-1, GUARD-2, GUARD-3, GUARD-5, GUARD-6.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from bridge.core import entries, layout
from bridge.core.errors import Held
from bridge.core.model import Look, SeenEntry, Stamp

LONGEST_ACTIVITY = 5.0  # seconds of unbroken writing after which a file is read all the same (GUARD-1)
RACY = 2.0  # seconds a file must be old before an equal stamp proves equal bytes
FOUND_AT_START = 60  # times `guard` that a disappearance waits which nobody saw happen (GUARD-2)
MANY_GONE = 50
FEW_GONE = 4


@dataclass(frozen=True, slots=True)
class Activity:
    """A change that is being watched: the stamp now (None: gone), since when it is so, since when it changes."""

    stamp: Stamp | None
    since: float
    began: float


@dataclass(frozen=True, slots=True)
class Watching:
    """What a process remembers between looks: changes going on, paths to look at again, paths set aside."""

    changes: Mapping[str, Activity] = field(default_factory=dict)
    again: frozenset[str] = frozenset()
    held: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    @property
    def paths(self) -> frozenset[str]:
        """What the next look has to include, whatever the hints say."""
        return self.again | self.changes.keys() | self.held.keys()


@dataclass(frozen=True, slots=True)
class Instant:
    """The two clocks at one moment and what is waived: `settle` seconds of quiet, waived at `sync` and shutdown."""

    now: float
    boottime: float
    settle: float
    waive: bool = False


@dataclass(frozen=True, slots=True)
class Observation:
    """What the look means: `read` these now, these are `gone`, these are `pending`, keep `watching`.

    deadline: boottime at which a pending path may be ready; None when nothing waits for time alone.
    """

    read: tuple[str, ...]
    gone: tuple[str, ...]
    pending: frozenset[str]
    watching: Watching
    deadline: float | None


def observe(look: Look, seen: Mapping[str, SeenEntry], watching: Watching, at: Instant) -> Observation:
    """Sort what was looked at (GUARD-1, GUARD-6). `seen`: entries of every known path that was looked at."""
    read: list[str] = []
    gone: list[str] = []
    again: set[str] = set()
    changes: dict[str, Activity] = {} if look.complete else _not_looked_at(look, seen, watching.changes)
    ready: dict[str, float] = {}
    for path, stamp in look.files.items():
        entry = seen.get(path)
        if entry is not None and entry.stamp == stamp:
            if not entry.racy:
                continue
            if not at.waive and 0 <= at.now - stamp.mtime_ns / 1e9 < RACY:
                again.add(path)
                continue
        change = _activity(watching.changes.get(path), stamp, at)
        due = min(change.since + at.settle, change.began + LONGEST_ACTIVITY)
        changes[path] = change
        if at.waive or at.boottime >= due:
            read.append(path)
        else:
            ready[path] = due
    for path in look.gone:
        change = _activity(watching.changes.get(path), None, at)
        changes[path] = change
        # Two looks, `settle` apart, are never waived: a rename in progress looks like a deletion once.
        if change.since < at.boottime and at.boottime >= change.since + at.settle:
            gone.append(path)
        else:
            ready[path] = change.since + at.settle
    held = dict(look.special) if look.complete else {**_still_held(look, watching.held), **look.special}
    return Observation(
        tuple(sorted(read)),
        tuple(sorted(gone)),
        frozenset(ready),
        Watching(changes, frozenset(again), held),
        min(ready.values(), default=None),
    )


def _not_looked_at(look: Look, seen: Mapping[str, SeenEntry], changes: Mapping[str, Activity]) -> dict[str, Activity]:
    looked = look.files.keys() | look.gone | look.special.keys() | seen.keys()
    return {path: change for path, change in changes.items() if path not in looked}


def _still_held(look: Look, held: Mapping[str, tuple[str, str]]) -> dict[str, tuple[str, str]]:
    looked = look.files.keys() | look.gone
    return {path: reason for path, reason in held.items() if path not in looked}


def _activity(before: Activity | None, stamp: Stamp | None, at: Instant) -> Activity:
    if before is not None and before.stamp == stamp:
        return before
    began = before.began if before is not None else at.boottime
    if stamp is None:
        return Activity(None, at.boottime, began)
    # A file that has been quiet on disk for longer than we have been looking need not wait once more.
    age = at.now - stamp.ctime_ns / 1e9
    since = at.boottime - age if 0 <= age else at.boottime
    return Activity(stamp, since, min(began, since))


def finished(watching: Watching, paths: Iterable[str]) -> Watching:
    """`watching` without the changes that were recorded or proved to be none."""
    done = set(paths)
    return replace(watching, changes={path: change for path, change in watching.changes.items() if path not in done})


def hold(watching: Watching, path: str, error: Held) -> Watching:
    """`watching` with a path set aside for the reason that the error gives (GUARD-5)."""
    return replace(watching, held={**watching.held, path: (error.rule, error.message)})


def at_rest(path: str, seen: bytes | None, now: bytes, busy: bool, lasted: float, guard: float) -> bool:
    """Whether bytes just read may be recorded although someone may have the file open for writing (GUARD-1).

    seen: the bytes last seen there. lasted: seconds since the change began. A file open for writing is recorded when
    nothing of the last seen version is missing from it and it has been changing for 5 s, or after `guard`.
    """
    if not busy or lasted >= guard:
        return True
    return lasted >= LONGEST_ACTIVITY and grown(path, seen, now)


def grown(path: str, seen: bytes | None, now: bytes) -> bool:
    """Whether nothing of the last seen version is missing: all its entries, or all its bytes as a beginning."""
    if seen is None:
        return True
    if layout.is_memory(path):
        try:
            return set(entries.read(seen)) <= set(entries.read(now))
        except Held:
            pass
    return now.startswith(seen)


def mass(gone: int, tracked: int) -> bool:
    """Whether so many of all tracked files are gone that it may be an accident (GUARD-2, GUARD-3)."""
    return gone >= MANY_GONE or (gone >= FEW_GONE and 2 * gone >= tracked)


@dataclass(frozen=True, slots=True)
class Wait:
    """A suspicious disappearance that waits: when it was noticed (UTC seconds) and how long it waits (seconds)."""

    began: float
    length: float

    def over(self, now: float) -> bool:
        """Whether the wait has ended. A clock that was set back starts it over only by ending it later."""
        return now >= self.began + self.length


def wait_for(before: Wait | None, now: float, guard: float, at_start: bool) -> Wait:
    """The wait that goes on, or a new one: `guard` seconds, 60 times that when it was found at a start (GUARD-2)."""
    if before is not None and before.began <= now:
        return before
    return Wait(now, guard * (FOUND_AT_START if at_start else 1))


def suspicious(path: str, seen: bytes, now: bytes) -> bool:
    """Whether a memory file lost so much at once that it may be an accident (GUARD-2)."""
    return layout.is_memory(path) and entries.suspicious(seen, now)


def put_back(path: str) -> bool:
    """Whether a file that is gone is put back instead of recorded (GUARD-2)."""
    return layout.is_fixed(path) or layout.is_required(path)


def blocked(path: str, apart: Collection[str], below: Callable[[str], bool]) -> bool:
    """Whether a path that is set aside stands at, above or (`below(path)`) under this one (GUARD-5)."""
    if path in apart:
        return True
    parent = path
    while "/" in parent:
        parent = parent.rpartition("/")[0]
        if parent in apart:
            return True
    return below(path)
