"""The look that begins a pass: which working files hold something new, which wait, which are set aside."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace

from bridge.app import freezing, withheld
from bridge.app.joining import JOINING, LEFT, NOBODY, REMOTE
from bridge.app.soul import Order, Progress, Soul
from bridge.core import bodies, layout, plan
from bridge.core.errors import Held, Moved
from bridge.core.model import EXECUTABLE, PLAIN, File, Look, Reading, SeenEntry, blob_id

WAITS = "waits"  # remembered: when suspicious disappearances began to wait, and for how long
GONE = "gone:"  # the wait of files that vanished in a mass; other waits go by their path
REMOVED = "removed:"  # the wait of a mass of removals that came from the remote
WAITING = ("GUARD-2", "so much disappeared at once that it waits before it is recorded")


@dataclass
class Found:
    """What a look found worth recording.

    versions: local versions by path, None: gone. seen: what seen becomes with them. unchanged: looked at anew, but
    nothing to record. complete: everything was looked at.
    """

    versions: dict[str, File | None] = field(default_factory=dict)
    seen: dict[str, SeenEntry | None] = field(default_factory=dict)
    unchanged: dict[str, SeenEntry] = field(default_factory=dict)
    complete: bool = False

    def leave_out(self, path: str) -> None:
        """Not now."""
        del self.versions[path], self.seen[path]


def observe(soul: Soul, order: Order, progress: Progress) -> Found:
    """Look at the working files, read what settled, and leave out what waits or is held (GUARD-5)."""
    unseen = _in_the_way_of_main(soul)
    hints = None if soul.owed is None else soul.owed | soul.watching.paths | unseen.keys()
    known = _known(soul, hints)
    look = soul.tree.look({**unseen, **known}, hints)
    # A path that was never seen is never "deleted" (GUARD-6).
    look = replace(look, gone=look.gone & known.keys())
    at = plan.Instant(soul.clock.now(), soul.clock.boottime(), soul.limits.settle, order.waive, soul.at_start)
    observation = plan.observe(look, known, soul.watching, at)
    soul.watching, soul.waiting = observation.watching, {}
    progress.pending |= observation.pending
    if observation.deadline is not None:
        progress.due(observation.deadline)
    if look.complete:
        soul.at_start = False
    soul.ignored = _ignored(soul.ignored, look, hints)
    found = Found(complete=look.complete)
    for path in withheld.worth_reading(soul, order, observation.read):
        _read(soul, order, progress, path, known.get(path), found)
    for path in observation.gone:
        found.versions[path] = found.seen[path] = None
    _keep_moves_whole(soul, progress, known, found)
    missing = sum(change.stamp is None for change in soul.watching.changes.values())
    _put_back(soul, progress, found)
    _await_rules(progress, known, found, _coming(soul, look).union(unseen) - look.special.keys())
    _guard(soul, order, progress, known, found, missing)
    withheld.set_apart(soul, progress, found)
    apart = progress.pending | soul.watching.held.keys() | soul.waiting.keys()
    for path in plan.in_the_way(found.versions, apart):
        found.leave_out(path)
        progress.pending.add(path)
    entries = {**found.unchanged, **found.seen}
    soul.watching = plan.again(soul.watching, [path for path, entry in entries.items() if entry and entry.racy])
    if soul.watching.again:
        progress.due(at.boottime + plan.RACY)
    soul.owed = frozenset()
    return found


def _keep_moves_whole(soul: Soul, progress: Progress, known: dict[str, SeenEntry], found: Found) -> None:
    """A new file with the bytes of one that is missing at its first look waits: a move is one change (MERGE-7)."""
    changes = soul.watching.changes
    leaving = {
        known[path].file.oid for path in progress.pending & known.keys() if path in changes and not changes[path].stamp
    }
    for path, version in list(found.versions.items()):
        if version is not None and path not in known and version.oid in leaving:
            found.leave_out(path)
            progress.pending.add(path)


def _await_rules(progress: Progress, known: dict[str, SeenEntry], found: Found, coming: set[str]) -> None:
    """A new file waits while a `.gitignore` above it is being written, is to be put back or has yet to come: at rest it
    may name it, and what was recorded once stays in history (TREE-4)."""
    changing = {path for path in progress.pending | progress.back | coming if layout.is_rules(path)}
    for path in found.versions.keys() - known.keys() if changing else ():
        if layout.is_own(path) or layout.is_rules(path):
            continue
        if any(path.startswith(each.removesuffix(layout.RULES)) for each in changing):
            found.leave_out(path)
            progress.pending.add(path)


def _coming(soul: Soul, look: Look) -> set[str]:
    """On joining, the `.gitignore` files that stand here otherwise than in main; of a new soul the one it is given."""
    head = soul.head()
    if head is None:
        return {layout.RULES} - look.files.keys()
    if not soul.seen.recall(JOINING):
        return set()
    files = soul.repo.files(soul.tree_of(head))
    return {path for path, file in files if layout.is_rules(path) and soul.seen_file(path) != file}


def leave(soul: Soul, paths: set[str]) -> None:
    """These working files may differ from main: the next materialisation looks at them, whatever main says."""
    left = set(soul.seen.recall(LEFT) or ())
    if not paths <= left:
        soul.seen.remember(LEFT, sorted(left | paths))


def _known(soul: Soul, hints: frozenset[str] | None) -> dict[str, SeenEntry]:
    if hints is None:
        return soul.seen.under("")
    return {path: entry for hint in hints for path, entry in soul.seen.under(hint).items()}


def _ignored(before: frozenset[str], look: Look, hints: Collection[str] | None) -> frozenset[str]:
    """What `.gitignore` leaves out (TREE-4), as of this look: of what it did not come to, as it was."""
    if look.complete or hints is None:
        return look.ignored
    looked = {hint.strip("/") for hint in hints}
    kept = frozenset(path for path in before if looked.isdisjoint(("", path, *layout.parents(path))))
    # A file in a directory that is left out is left out with it.
    return kept.union(path for path in look.ignored if kept.isdisjoint(layout.parents(path)))


def _in_the_way_of_main(soul: Soul) -> dict[str, SeenEntry]:
    """Paths of main that could not be created: what stands there is tracked, so it is recorded even if ignored."""
    left = [path for path in soul.seen.recall(LEFT) or () if soul.seen.get(path) is None]
    tree = soul.tree_of(soul.head()) if left else ""
    found = {path: soul.repo.entry(tree, path) for path in left}
    return {path: SeenEntry(file, file.oid, NOBODY) for path, file in found.items() if file is not None}


def _read(soul: Soul, order: Order, progress: Progress, path: str, entry: SeenEntry | None, found: Found) -> None:
    """Read one changed file into `found`, or say why not."""
    try:
        reason = layout.held(path, PLAIN, 0)
        if reason is not None:
            raise Held(reason[1], rule=reason[0], advice="Rename it; it stays on this body until then.")
        reading = soul.tree.read(path, soul.limits.hold_back_over)
        soul.admit(reading.content)
        version = soul.store(reading.content, path, EXECUTABLE if reading.stamp.executable else PLAIN)
        _refuse_foreign(soul, path, entry, version)
    except Moved:
        return _not_yet(soul, progress, path)
    except Held as error:
        soul.watching = plan.hold(soul.watching, path, error)
        return None
    if not _rests(soul, order, path, entry, reading):
        return _not_yet(soul, progress, path)
    now = SeenEntry(version, blob_id(reading.content), reading.stamp, plan.racy(reading.stamp, soul.clock.now()))
    if entry is not None and entry.file == version:
        found.unchanged[path] = now
    else:
        found.versions[path] = version
        found.seen[path] = now
    return None


def _not_yet(soul: Soul, progress: Progress, path: str) -> None:
    progress.pending.add(path)
    progress.due(soul.clock.boottime() + soul.limits.settle)


def _refuse_foreign(soul: Soul, path: str, entry: SeenEntry | None, version: File) -> None:
    """Raise Held for a change of another registered body's path (MERGE-9); what ever stood there is none."""
    owner = bodies.owner(path)
    if owner in (None, soul.body) or (entry is not None and entry.file == version):
        return
    tree = soul.tree_of(soul.head())
    if not bodies.foreign(path, soul.body, soul.registered(tree)) or soul.repo.entry(tree, path) == version:
        return
    known = soul.seen.recall(REMOTE)
    if entry is None and known and soul.seen.recall(JOINING) and soul.repo.ever(known, path, version.oid):
        return
    if _stood(soul, path, version):
        return
    raise Held(
        f"only the body {owner} writes here",
        rule="MERGE-9",
        advice=f"Move what you wrote to journal/{soul.body}/ or notes/.",
    )


def _stood(soul: Soul, path: str, version: File) -> bool:
    """Whether it is an old copy of what history holds there. A held path is looked at in every pass, and history may
    be long: a no holds until main moves."""
    head = soul.head()
    if head is None or soul.strange.get(path) == (head, version.oid):
        return False
    if soul.repo.ever(head, path, version.oid):
        soul.strange.pop(path, None)
        return True
    soul.strange[path] = head, version.oid
    return False


def _rests(soul: Soul, order: Order, path: str, entry: SeenEntry | None, reading: Reading) -> bool:
    if not reading.busy:
        return True
    change = soul.watching.changes.get(path)
    lasted = soul.clock.boottime() - change.began if change else 0.0
    if order.waive:
        lasted = max(lasted, plan.LONGEST_ACTIVITY)
    seen = soul.content(entry.file) if entry is not None and soul.repo.has(entry.file.oid) else None
    return plan.at_rest(path, seen, reading.content, lasted, soul.limits.guard)


def _put_back(soul: Soul, progress: Progress, found: Found) -> None:
    """What must exist and what is in the registry is no deletion: it comes back from main (GUARD-2, MERGE-9).

    Its seen entry stays: whoever writes the file before we do has that as base.
    """
    gone = [path for path, version in found.versions.items() if version is None]
    registered: frozenset[str] = frozenset()
    if any(map(bodies.owner, gone)):
        registered = soul.registered(soul.tree_of(soul.head()))
    for path in gone:
        own = path == bodies.path(soul.body)
        if own or plan.put_back(path) or bodies.foreign(path, soul.body, registered):
            found.leave_out(path)
            progress.back.add(path)


def _guard(
    soul: Soul, order: Order, progress: Progress, known: dict[str, SeenEntry], found: Found, missing: int
) -> None:
    """Let suspicious disappearances wait (GUARD-2); the beginning of each wait is stored. missing: all files gone."""
    before, at = waits_of(soul), clocks(soul)
    # A wait of what was not judged this time goes on: it was not looked at, or is not at rest yet.
    waits = {key: wait for key, wait in before.items() if _unjudged(soul, found, progress, key, known)}
    for path, key in _doubtful(soul, before, found, missing).items():
        change = soul.watching.changes.get(path)
        wait = plan.wait_for(before.get(key), at, soul.limits.guard, found=change is not None and change.found)
        if order.now or not wait.left(at):
            continue
        if key not in before and key not in waits:
            soul.facts.record("guard.waiting", rule=WAITING[0], path=path, until=wait.began + wait.length)
        waits[key] = wait
        found.leave_out(path)
        soul.waiting[path] = WAITING
        progress.due(at.boottime + wait.left(at))
    for key in sorted(before.keys() - waits.keys()):
        soul.facts.record("guard.passed", rule=WAITING[0], path=None if key == GONE else key)
    if waits != before:
        remember_waits(soul, waits)


def clocks(soul: Soul) -> plan.Clocks:
    """What waits are measured by."""
    return plan.Clocks(soul.clock.now(), soul.clock.boottime(), soul.boot)


def waits_of(soul: Soul) -> dict[str, plan.Wait]:
    """What waits, by path or by the key of a mass."""
    return {key: plan.Wait(*wait) for key, wait in (soul.seen.recall(WAITS) or {}).items()}


def remember_waits(soul: Soul, waits: dict[str, plan.Wait]) -> None:
    """Remember what waits, durably."""
    plain = {key: [wait.began, wait.length, wait.boottime, wait.boot] for key, wait in waits.items()}
    soul.seen.remember(WAITS, plain or None)


def _doubtful(soul: Soul, before: dict[str, plan.Wait], found: Found, missing: int) -> dict[str, str]:
    """Paths that may have to wait, each with the key of its wait; a mass is judged by everything that is gone now."""
    doubtful = {path: path for path in found.versions if _emptied(soul, path, found)}
    gone = [path for path, version in found.versions.items() if version is None]
    if GONE in before or (missing >= plan.FEW_GONE and plan.mass(missing, soul.seen.count())):
        doubtful |= dict.fromkeys(gone, GONE)
    # What waited before a consolidation began was not its doing, nor what goes together with files it has no use for.
    elsewhere = any(not path.startswith(freezing.FROZEN) for path in gone)
    own = [] if elsewhere else [path for path, key in doubtful.items() if key not in before]
    exempt = {path for path in own if freezing.exempt(soul, path)}
    return {path: key for path, key in doubtful.items() if path not in exempt}


def _unjudged(soul: Soul, found: Found, progress: Progress, key: str, known: dict[str, SeenEntry]) -> bool:
    if key == REMOVED:
        return True
    if key == GONE:
        return any(change.stamp is None for path, change in soul.watching.changes.items() if path in progress.pending)
    return key in progress.pending or (not found.complete and key not in known)


def _emptied(soul: Soul, path: str, found: Found) -> bool:
    entry, version = soul.seen.get(path), found.versions[path]
    if entry is None or version is None or not layout.is_memory(path) or not soul.repo.has(entry.file.oid):
        return False
    before, now = soul.content(entry.file), soul.content(version)
    return before is not None and now is not None and plan.suspicious(path, before, now)
