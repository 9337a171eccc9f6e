"""What of a look at the working files may be recorded now, what waits, what is set aside, what may be written.

Everything here turns a look into a choice; reading and writing is the pass's business.

Rules: GUARD-1, GUARD-2, GUARD-3, GUARD-5, GUARD-6.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
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
    """A change that is being watched.

    stamp: as it is now (None: gone). since, began: boottime at which it became so, and at which the changing began.
    found: nobody saw it happen, it was there when the process began to look.
    """

    stamp: Stamp | None
    since: float
    began: float
    found: bool = False


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
    """The two clocks at one moment, and how to look.

    settle: seconds of quiet. waive: they are not waited for (`sync`, shutdown). first: nothing was looked at before.
    """

    now: float
    boottime: float
    settle: float
    waive: bool = False
    first: bool = False


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
    """Sort what was looked at (GUARD-1, GUARD-6).

    `seen`: entries of every known path that was looked at; `watching.paths` are among what was looked at.
    """
    read: list[str] = []
    gone: list[str] = []
    again: set[str] = set()
    changes: dict[str, Activity] = {}
    ready: dict[str, float] = {}
    for path, stamp in look.files.items():
        entry = seen.get(path)
        if entry is not None and entry.stamp == stamp:
            if not entry.racy:
                continue
            if not at.waive and racy(stamp, at.now):
                again.add(path)
                continue
        change = changes[path] = _activity(watching.changes.get(path), stamp, at)
        due = min(change.since + at.settle, change.began + LONGEST_ACTIVITY)
        if at.waive or at.boottime >= due:
            read.append(path)
        else:
            ready[path] = due
    for path in look.gone:
        change = changes[path] = _activity(watching.changes.get(path), None, at)
        # Two looks, `settle` apart, are never waived: a rename in progress looks like a deletion once.
        if change.since < at.boottime and at.boottime >= change.since + at.settle:
            gone.append(path)
        else:
            ready[path] = change.since + at.settle
    after = Watching(changes, frozenset(again), dict(look.special))
    deadline = min(ready.values(), default=None)
    return Observation(tuple(sorted(read)), tuple(sorted(gone)), frozenset(ready), after, deadline)


def racy(stamp: Stamp, now: float) -> bool:
    """Whether the file was touched so shortly before `now` that an equal stamp does not prove equal bytes."""
    return abs(now - stamp.ctime_ns / 1e9) < RACY


def _activity(before: Activity | None, stamp: Stamp | None, at: Instant) -> Activity:
    if before is not None and before.stamp == stamp:
        return before
    began = at.boottime if before is None else before.began
    found = at.first if before is None else before.found
    if stamp is None:
        return Activity(None, at.boottime, began, found)
    # A file that has been quiet on disk for longer than we have been looking need not wait once more.
    since = at.boottime - max(0.0, at.now - stamp.ctime_ns / 1e9)
    return Activity(stamp, since, min(began, since), found)


def finished(watching: Watching, paths: Iterable[str]) -> Watching:
    """`watching` without the changes that were recorded or proved to be none."""
    done = set(paths)
    return replace(watching, changes={path: change for path, change in watching.changes.items() if path not in done})


def hold(watching: Watching, path: str, error: Held) -> Watching:
    """`watching` with a path set aside for the reason that the error gives (GUARD-5)."""
    return replace(finished(watching, [path]), held={**watching.held, path: (error.rule, error.message)})


def again(watching: Watching, paths: Iterable[str]) -> Watching:
    """`watching` with paths that the next look has to include."""
    return replace(watching, again=watching.again.union(paths))


def at_rest(path: str, seen: bytes | None, now: bytes, lasted: float, guard: float) -> bool:
    """Whether bytes just read may be recorded although someone has the file open for writing (GUARD-1).

    seen: the bytes last seen there. lasted: seconds since the change began. It is recorded when nothing of the last
    seen version is missing from it and it has been changing for 5 s, or after `guard`.
    """
    return lasted >= guard or (lasted >= LONGEST_ACTIVITY and grown(path, seen, now))


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
class Clocks:
    """What the clocks say: UTC seconds, boottime, and which start of the machine that counts from, "" when unknown."""

    now: float
    boottime: float
    boot: str


@dataclass(frozen=True, slots=True)
class Wait:
    """A suspicious disappearance that waits: when it was noticed, by each clock, and how long it waits (seconds)."""

    began: float
    length: float
    boottime: float = 0.0
    boot: str = ""

    def left(self, at: Clocks) -> float:
        """Seconds until it is over; 0.0 when it is."""
        # A machine that learns the time only after it started sets its clock forward by days.
        passed = at.boottime - self.boottime if self._same_boot(at) else at.now - self.began
        return max(0.0, self.length - passed)

    def next(self, at: Clocks) -> Wait:
        """This wait as it goes on. One that began in the future, by a clock that was set back since, begins now."""
        if self._same_boot(at) or self.began <= at.now:
            return self
        return Wait(at.now, self.length, at.boottime, at.boot)

    def _same_boot(self, at: Clocks) -> bool:
        return bool(at.boot) and self.boot == at.boot


def wait_for(before: Wait | None, at: Clocks, guard: float, found: bool) -> Wait:
    """The wait that goes on, or a new one: `guard` seconds, 60 times that when it was found at a start (GUARD-2)."""
    if before is None:
        return Wait(at.now, guard * (FOUND_AT_START if found else 1), at.boottime, at.boot)
    return before.next(at)


def suspicious(path: str, seen: bytes, now: bytes) -> bool:
    """Whether a memory file lost so much at once that it may be an accident (GUARD-2)."""
    return layout.is_memory(path) and entries.suspicious(seen, now)


def put_back(path: str) -> bool:
    """Whether a file that is gone is put back instead of recorded (GUARD-2)."""
    return layout.is_fixed(path) or layout.is_required(path)


def in_the_way(paths: Iterable[str], apart: Collection[str]) -> frozenset[str]:
    """Those of the paths at, above or below which one of `apart` stands (GUARD-5)."""
    above = {parent for path in apart for parent in layout.parents(path)}

    def stands(path: str) -> bool:
        return path in apart or path in above or any(parent in apart for parent in layout.parents(path))

    return frozenset(filter(stands, paths))
