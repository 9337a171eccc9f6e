"""The first half of a pass: look at the working files and record what the agent changed.

Order matters (DESIGN, Three trees): objects, `main` with its expected old value, then what was seen. An intent
written beside them lets the next pass finish after a crash in between, so that seen is never behind a record.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from bridge.app.soul import MAIN, Order, Progress, Soul
from bridge.app.standing import stand_off
from bridge.core import bodies, commits, layout, merge, plan
from bridge.core.errors import Held, Moved
from bridge.core.model import (
    EXECUTABLE,
    PLAIN,
    Content,
    File,
    Leftover,
    Lost,
    Merged,
    Reading,
    SeenEntry,
    Stamp,
    Touch,
    Triple,
    blob_id,
)

RECORDING = "recording"
WAITS = "waits"
NOBODY = Stamp(-1, 0, 0, 0)  # the stamp of bytes we did not read ourselves: equal to no file's
LONGEST_LEFTOVER = 60.0


@dataclass
class Found:
    """What a look found worth recording: local versions by path (None: gone) and what seen becomes with them."""

    versions: dict[str, File | None] = field(default_factory=dict)
    seen: dict[str, SeenEntry | None] = field(default_factory=dict)
    unchanged: dict[str, SeenEntry] = field(default_factory=dict)


def recover(soul: Soul) -> None:
    """Finish a record that a crash interrupted between moving main and remembering what was seen."""
    intent = soul.seen.recall(RECORDING)
    if intent is None:
        return
    with soul.seen.transaction():
        head = soul.head()
        if head is not None and soul.repo.has(intent["commit"]) and soul.repo.is_ancestor(intent["commit"], head):
            for path, entry in intent["entries"].items():
                soul.seen.put(path, _entry(entry))
        soul.seen.remember(RECORDING, None)


def record(soul: Soul, order: Order, progress: Progress) -> None:
    """Observe and record: first what came out of exchanges, then the working files."""
    _record_leftovers(soul, progress)
    found = _observe(soul, order, progress)
    with soul.seen.transaction():
        for path, entry in found.unchanged.items():
            soul.seen.put(path, entry)
    soul.watching = plan.finished(soul.watching, found.unchanged)
    head = soul.head()
    triples = {}
    for path, version in found.versions.items():
        entry = soul.seen.get(path)
        theirs = soul.repo.entry(soul.tree_of(head), path)
        triples[path] = Triple(entry.file if entry else None, version, theirs)
    _commit(soul, progress, head, triples, found.seen)
    soul.watching = plan.finished(soul.watching, found.versions)
    if soul.seen.recall("joining") and order.hints is None and not progress.pending:
        soul.seen.remember("joining", None)


def _record_leftovers(soul: Soul, progress: Progress) -> None:
    """Bytes that an agent wrote into a file after it left its name are a local write of that path (GUARD-4)."""
    for leftover in soul.tree.leftovers():
        if leftover.changed and (not leftover.busy or leftover.age > LONGEST_LEFTOVER):
            _record_leftover(soul, progress, leftover)
        elif leftover.age >= plan.RACY and not leftover.busy:
            soul.tree.drop(leftover.id)
        if leftover.changed or leftover.busy:
            progress.due(soul.clock.boottime() + 1)


def _record_leftover(soul: Soul, progress: Progress, leftover: Leftover) -> None:
    content = soul.tree.leftover(leftover.id)
    mode = leftover.base.mode if leftover.base is not None else PLAIN
    version = soul.store(content, leftover.path, mode)
    head = soul.head()
    theirs = soul.repo.entry(soul.tree_of(head), leftover.path)
    triples = {} if layout.is_lock(leftover.path) else {leftover.path: Triple(leftover.base, version, theirs)}
    _commit(soul, progress, head, triples, {})
    soul.tree.keep(leftover.id, version, blob_id(content))
    progress.again.add(leftover.path)


def _observe(soul: Soul, order: Order, progress: Progress) -> Found:
    hints = None if order.hints is None else order.hints | soul.watching.paths
    if hints is None:
        known = soul.seen.under("")
    else:
        known = {path: entry for hint in hints for path, entry in soul.seen.under(hint).items()}
    look = soul.tree.look(known, hints)
    at = plan.Instant(soul.clock.now(), soul.clock.boottime(), soul.limits.settle, order.waive)
    observation = plan.observe(look, known, soul.watching, at)
    soul.watching = observation.watching
    soul.waiting = {}
    progress.pending |= observation.pending
    if observation.deadline is not None:
        progress.due(observation.deadline)
    if observation.watching.again:
        progress.due(at.boottime + plan.RACY)
    found = Found()
    for path in observation.read:
        _read(soul, order, progress, path, known.get(path), found)
    _sort_gone(soul, order, progress, observation.gone, known, found)
    _guard(soul, order, progress, found)
    if order.hints is None:
        soul.at_start = False
    return found


def _read(soul: Soul, order: Order, progress: Progress, path: str, entry: SeenEntry | None, found: Found) -> None:
    """Read one changed file into `found`, or say why not."""
    try:
        _refuse_name(path)
        reading = soul.tree.read(path, soul.limits.hold_back_over)
    except Moved:
        progress.pending.add(path)
        progress.due(soul.clock.boottime() + soul.limits.settle)
        return
    except Held as error:
        soul.watching = plan.hold(plan.finished(soul.watching, [path]), path, error)
        return
    if not _rests(soul, order, path, entry, reading):
        progress.pending.add(path)
        progress.due(soul.clock.boottime() + soul.limits.settle)
        return
    progress.read.append(path)
    version = soul.store(reading.content, path, EXECUTABLE if reading.stamp.executable else PLAIN)
    racy = soul.clock.now() - reading.stamp.mtime_ns / 1e9 < plan.RACY
    now = SeenEntry(version, blob_id(reading.content), reading.stamp, racy)
    if entry is not None and entry.file == version:
        found.unchanged[path] = now
        return
    try:
        _refuse_foreign(soul, path, version)
    except Held as error:
        soul.watching = plan.hold(plan.finished(soul.watching, [path]), path, error)
        return
    found.versions[path] = version
    found.seen[path] = now


def _refuse_name(path: str) -> None:
    reason = layout.unsafe(path)
    if reason is not None:
        raise Held(f"{reason}", rule="TREE-7", advice="Rename it; it stays on this body until then.")


def _refuse_foreign(soul: Soul, path: str, version: File) -> None:
    """Another registered body's paths are its own (MERGE-9); what the tree already holds there is no change."""
    tree = soul.tree_of(soul.head())
    if soul.repo.entry(tree, path) == version:
        return
    if bodies.owner(path) not in (None, soul.body) and bodies.foreign(path, soul.body, soul.registered(tree)):
        raise Held(
            f"only the body {bodies.owner(path)} writes here",
            rule="MERGE-9",
            advice=f"Move what you wrote to journal/{soul.body}/ or notes/.",
        )


def _rests(soul: Soul, order: Order, path: str, entry: SeenEntry | None, reading: Reading) -> bool:
    if not reading.busy:
        return True
    change = soul.watching.changes.get(path)
    lasted = soul.clock.boottime() - change.began if change else 0.0
    if order.waive:
        lasted = max(lasted, plan.LONGEST_ACTIVITY)
    seen = soul.repo.read(entry.file.oid) if entry is not None and soul.repo.has(entry.file.oid) else None
    return plan.at_rest(path, seen, reading.content, reading.busy, lasted, soul.limits.guard)


def _sort_gone(
    soul: Soul, order: Order, progress: Progress, gone: tuple[str, ...], known: dict[str, SeenEntry], found: Found
) -> None:
    """Deletions: put back what must exist and what is another body's, let the rest be recorded."""
    tree = soul.tree_of(soul.head())
    registered: frozenset[str] | None = None
    for path in gone:
        if path not in known:
            continue
        registered = soul.registered(tree) if registered is None and bodies.owner(path) else registered
        if plan.put_back(path) or bodies.foreign(path, soul.body, registered or ()):
            soul.seen.put(path, None)
            soul.watching = plan.finished(soul.watching, [path])
            progress.again.add(path)
            continue
        found.versions[path] = None
        found.seen[path] = None


def _guard(soul: Soul, order: Order, progress: Progress, found: Found) -> None:
    """Let suspicious disappearances wait (GUARD-2); the beginning of each wait is stored."""
    waits = {key: plan.Wait(*wait) for key, wait in (soul.seen.recall(WAITS) or {}).items()}
    kept = {key: wait for key, wait in waits.items() if key.startswith("remote:")}
    gone = [path for path, version in found.versions.items() if version is None]
    doubtful = {path: path for path in found.versions if _emptied(soul, path, found)}
    if plan.mass(len(gone), soul.seen.count()):
        doubtful |= dict.fromkeys(gone, "gone:")
    now = soul.clock.now()
    for path, key in doubtful.items():
        wait = plan.wait_for(waits.get(key), now, soul.limits.guard, soul.at_start)
        if order.now or wait.over(now):
            continue
        if key not in kept and key not in waits:
            soul.facts.record("guard.waiting", path=path, until=wait.began + wait.length)
        kept[key] = wait
        del found.versions[path], found.seen[path]
        soul.waiting[path] = ("GUARD-2", "so much disappeared at once that it waits before it is recorded")
        progress.pending.add(path)
        progress.due(soul.clock.boottime() + max(0.0, wait.began + wait.length - now))
    # A wait of a file that was not looked at this time goes on.
    looked = found.versions.keys() | set(progress.read)
    kept |= {k: w for k, w in waits.items() if order.hints is not None and k not in looked and k != "gone:"}
    if kept != waits:
        soul.seen.remember(WAITS, {key: [wait.began, wait.length] for key, wait in kept.items()} or None)


def _emptied(soul: Soul, path: str, found: Found) -> bool:
    entry, version = soul.seen.get(path), found.versions[path]
    if entry is None or version is None or not layout.is_memory(path) or not soul.repo.has(entry.file.oid):
        return False
    return plan.suspicious(path, soul.repo.read(entry.file.oid), soul.repo.read(version.oid))


def _commit(
    soul: Soul,
    progress: Progress,
    head: str | None,
    triples: dict[str, Triple],
    entries: dict[str, SeenEntry | None],
) -> None:
    """Merge local versions into HEAD's tree, commit if that changes it, then remember what was seen."""
    tree = soul.tree_of(head)
    merged = merge.trees(triples, _facts(soul, head))
    changes = changed(soul, merged, tree)
    if changes or merged.lost:
        words = describe(soul, tree, changes) if changes else "keep " + ", ".join(sorted({x.path for x in merged.lost}))
        changes |= _beat(soul, tree, changes)
        commit = _with_lost(soul, head, tree, changes, merged.lost, words)
        soul.repo.flush()
        stand_off(soul)
        soul.seen.remember(
            RECORDING, {"commit": commit, "entries": {path: _plain(entry) for path, entry in entries.items()}}
        )
        soul.repo.move(MAIN, head, commit)
        soul.facts.record("commit.recorded", commit=commit, paths=sorted(changes))
        for lost in merged.lost:
            soul.facts.record("conflict.resolved", path=lost.path, lost=lost.file.oid, commit=commit)
        progress.recorded += sorted(changes)
        progress.lost += [lost.path for lost in merged.lost]
    with soul.seen.transaction():
        for path, entry in entries.items():
            soul.seen.put(path, entry)
        soul.seen.remember(RECORDING, None)
        soul.seen.remember("main", soul.head())


def changed(soul: Soul, merged: Merged, tree: str) -> dict[str, File | None]:
    """The entries by which the merged result differs from a tree, new content stored."""
    changes: dict[str, File | None] = {}
    for path, file in merged.files.items():
        if isinstance(file, Content):
            file = File(soul.repo.write(file.data), file.mode)
        if file != soul.repo.entry(tree, path):
            changes[path] = file
    return changes


def describe(soul: Soul, tree: str, changes: dict[str, File | None]) -> str:
    """The description of a commit in words (COMMIT-1)."""

    def content(file: File | None) -> bytes | None:
        return soul.repo.read(file.oid) if file is not None and file.regular else None

    pairs = {path: (content(soul.repo.entry(tree, path)), content(file)) for path, file in changes.items()}
    return commits.describe(pairs)


def _with_lost(
    soul: Soul,
    head: str | None,
    tree: str,
    changes: dict[str, File | None],
    lost: tuple[Lost, ...],
    words: str,
) -> str:
    """The record's commit; local versions that lost get a commit of their own, its second parent."""
    parents = [head] if head else []
    kept: dict[str, File | None] = {version.path: version.file for version in lost if version.side == "ours"}
    if kept and head:
        parents.append(soul.commit(soul.repo.edit(tree, kept), [head], "set aside: " + describe(soul, tree, kept)))
    trailers = [commits.lost(version.file.oid, version.path) for version in lost]
    return soul.commit(soul.repo.edit(tree, changes), parents, words, trailers)


def _beat(soul: Soul, tree: str, changes: dict[str, File | None]) -> dict[str, File | None]:
    """This body's entry in the registry moves together with other changes (FORM-6)."""
    path = f"bodies/{soul.body}.json"
    if path in changes or path in soul.watching.changes or path in soul.watching.held:
        return {}
    return {path: beat(soul, tree)}


def beat(soul: Soul, tree: str) -> File:
    """The registry entry of this body as of now."""
    path = f"bodies/{soul.body}.json"
    file = soul.repo.entry(tree, path)
    current = soul.repo.read(file.oid) if file is not None and file.regular else None
    content = bodies.beat(current, soul.body, "soul-bridge", soul.version, soul.host, soul.clock.now())
    return File(soul.repo.write(content))


def _facts(soul: Soul, head: str | None) -> merge.Facts:
    now = int(soul.clock.now())
    tree = soul.tree_of(head)
    known = soul.seen.recall("remote")
    return merge.Facts(
        read=soul.repo.read,
        touched_ours=lambda path: Touch(now, soul.body),
        touched_theirs=lambda path: soul.repo.touched(head, path, None) if head else None,
        kind_ours=lambda path: soul.repo.kind(tree, path),
        kind_theirs=lambda path: soul.repo.kind(tree, path),
        now=now,
        clock_wrong=clock_wrong(soul),
        identity=soul.seen.recall("identity"),
        joining=bool(soul.seen.recall("joining")),
        published=lambda path, oid: bool(known) and soul.repo.ever(known, path, oid),
    )


def clock_wrong(soul: Soul) -> bool:
    """Whether this body's clock is more than five minutes earlier than at its last stored pass (MERGE-6)."""
    last = soul.seen.recall("clock")
    return last is not None and soul.clock.now() + 300 < last


def _plain(entry: SeenEntry | None) -> list[object] | None:
    if entry is None:
        return None
    stamp = entry.stamp
    numbers = [stamp.size, stamp.mtime_ns, stamp.ctime_ns, stamp.inode, stamp.executable]
    return [entry.file.oid, entry.file.mode, entry.raw, numbers, entry.racy]


def _entry(plain: list | None) -> SeenEntry | None:
    if plain is None:
        return None
    oid, mode, raw, numbers, racy = plain
    return SeenEntry(File(oid, mode), raw, Stamp(*numbers), racy)
