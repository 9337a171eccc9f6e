"""What the agent changed becomes a commit: local versions merged into main's tree.

Order matters (bridge/README.md, Three trees): objects, `main` with its expected old value, then what was seen. An
intent written beside them lets the next pass finish after a crash in between, so that seen is never behind a record.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from bridge.app import arrivals
from bridge.app.joining import IDENTITY, JOINING, LATE, RECORDING, REMOTE, settle_identity
from bridge.app.observing import Found, leave, observe
from bridge.app.soul import KNOWN, Order, Progress, Soul
from bridge.app.standing import advance, keep
from bridge.core import bodies, commits, identity, layout, merge, newest, plan
from bridge.core.layout import MAIN
from bridge.core.model import (
    PLAIN,
    Content,
    File,
    Kind,
    Leftover,
    Lost,
    Merged,
    SeenEntry,
    Stamp,
    Touch,
    Triple,
    blob_id,
)

CLOCK = "clock"  # remembered: when a pass was last stored, UTC seconds
LONGEST_LEFTOVER = 60.0  # seconds a writer may keep a file open that has left its name, before it is read all the same


@dataclass
class Local:
    """Local versions on their way into a commit.

    triples: base, the local version and main's, by path. entries: what seen becomes. lost: versions that lost before
    the merge. leftover: the kept file that they came from. theirs: the commit whose version is merged with them, where
    that is not main.
    """

    triples: dict[str, Triple] = field(default_factory=dict)
    entries: dict[str, SeenEntry | None] = field(default_factory=dict)
    lost: tuple[Lost, ...] = ()
    leftover: tuple[str, File, str] | None = None
    theirs: str | None = None


def recover(soul: Soul) -> None:
    """Finish a record that a crash interrupted between moving main and remembering what was seen."""
    intent = soul.seen.recall(RECORDING)
    if intent is None:
        return
    tip, commit = soul.repo.tip(MAIN), intent["commit"]
    done = tip is not None and soul.repo.has(commit) and soul.repo.is_ancestor(commit, tip)
    if done:
        _remember(soul, commit, {path: entry_of(entry) for path, entry in intent["entries"].items()})
        if intent["leftover"] is not None:
            _keep_leftover(soul, *intent["leftover"])
    elif soul.repo.has(commit):
        keep(soul, commit)
    soul.seen.remember(RECORDING, None)


def record(soul: Soul, order: Order, progress: Progress) -> None:
    """Observe and record: first what came out of exchanges, then the working files."""
    for leftover in soul.tree.leftovers():
        if leftover.changed and (not leftover.busy or leftover.age > LONGEST_LEFTOVER):
            _record_leftover(soul, progress, leftover)
        elif leftover.age >= plan.RACY and not leftover.busy and not leftover.changed:
            soul.tree.drop(leftover.id)
            continue
        progress.due(soul.clock.boottime() + plan.RACY)
    began = soul.clock.boottime()
    found = observe(soul, order, progress)
    with soul.seen.transaction():
        for path, entry in found.unchanged.items():
            soul.seen.put(path, entry)
    soul.watching = plan.finished(soul.watching, found.unchanged)
    commit(soul, progress, _local(soul, found))
    soul.watching = plan.finished(soul.watching, found.versions)
    for path in (*found.unchanged, *found.versions):
        soul.recorded(path, began)
    if not progress.pending:
        _end_joining(soul, found.complete)


def _end_joining(soul: Soul, complete: bool) -> None:
    """What lay here when the soul came is recorded, once everything was looked at; but for what is held."""
    joining, late = soul.seen.recall(JOINING), soul.seen.recall(LATE) or []
    if joining and not complete:
        return
    # What is held is looked at in each pass.
    held = [path for path in soul.watching.held if (joining or path in late) and soul.seen.get(path) is None]
    if joining or len(held) < len(late):
        with soul.seen.transaction():
            soul.seen.remember(LATE, sorted(held) or None)
            soul.seen.remember(JOINING, None)


def _local(soul: Soul, found: Found) -> Local:
    tree, joining = soul.tree_of(soul.head()), bool(soul.seen.recall(JOINING))
    local = Local(entries=found.seen)
    there = {version.oid for version in found.versions.values() if version is not None}
    for path, version in found.versions.items():
        seen, theirs = soul.seen_file(path), soul.repo.entry(tree, path)
        if joining and path == identity.PATH and seen is None and version is not None:
            local.triples[path], local.lost = settle_identity(soul, version, theirs)
            continue
        if bodies.owner(path) not in (None, soul.body) and bodies.foreign(path, soul.body, soul.registered(tree)):
            # What nobody else may write got this far as an old copy of what stood there: main's stands (MERGE-9).
            local.triples[path] = Triple(version, version, theirs)
            continue
        moved = version is None and seen is not None and seen.oid in there
        base = seen if moved else arrivals.base_of(soul, path, seen, version)
        local.triples[path] = Triple(base, version, theirs)
        local.lost += arrivals.dropped(soul, path, base, version, theirs)
    return local


def _record_leftover(soul: Soul, progress: Progress, leftover: Leftover) -> None:
    """Bytes that an agent wrote into a file after it left its name are a local write of that path (GUARD-4)."""
    content, path = soul.tree.leftover(leftover.id), leftover.path
    version = soul.store(content, path, leftover.base.mode if leftover.base is not None else PLAIN)
    tree = soul.tree_of(soul.head())
    raw = blob_id(content)
    local = Local(leftover=(leftover.id, version, raw))
    if bodies.foreign(path, soul.body, soul.registered(tree)):
        # Nothing may be recorded there, and there is no working file to leave it in: history keeps it (MERGE-9).
        local.lost = (Lost(path, version, "ours"),)
    else:
        base = arrivals.base_of(soul, path, leftover.base, version, came_out=True)
        arrivals.came_out(soul, path, version)
        local.triples[path] = Triple(base, version, soul.repo.entry(tree, path))
    commit(soul, progress, local)
    _keep_leftover(soul, leftover.id, version, raw)
    progress.again.add(path)


def _keep_leftover(soul: Soul, id: str, version: File | list[Any], raw: str) -> None:
    """From now on the recorded bytes are what is expected of the leftover, where it is still kept."""
    if any(leftover.id == id for leftover in soul.tree.leftovers()):
        soul.tree.keep(id, version if isinstance(version, File) else File(*version), raw)


def commit(soul: Soul, progress: Progress, local: Local) -> None:
    """Merge local versions into main's tree, commit if that changes it, then remember what was seen."""
    head = soul.head()
    tree = soul.tree_of(head)
    merged = merge.trees(local.triples | _around(soul, tree, local), _facts(soul, head, local.theirs or head))
    lost = tuple(dict.fromkeys(merged.lost + local.lost))
    changes = changed(soul, merged, tree)
    if not changes and not lost:
        # What was seen is the base of what comes next: its bytes have to stay, though no commit holds them.
        soul.repo.flush()
        return _remember(soul, head, local.entries) if local.entries else None
    words = describe(soul, tree, changes) if changes else "keep " + ", ".join(sorted({x.path for x in lost}))
    changes |= _beat(soul, tree, changes)
    made = with_lost(soul, head, tree, changes, lost, words)
    soul.repo.flush()
    soul.seen.remember(RECORDING, _intent(made, local))
    advance(soul, head, made)
    soul.facts.record("commit.recorded", commit=made, paths=sorted(changes))
    for version in lost:
        soul.facts.record("conflict.resolved", path=version.path, lost=version.file.oid, commit=made)
    tell(soul, progress, merged, ("MERGE-5",))
    progress.recorded += sorted(changes)
    progress.lost += [version.path for version in lost]
    return _remember(soul, made, local.entries)


def _around(soul: Soul, tree: str, local: Local) -> dict[str, Triple]:
    """What main has in the way of local versions. What this body had there has made way for a version; what it never
    had is nothing that it could remove (GUARD-6), and what was written into a file that left its name removed nothing.
    """
    found = standing_around(soul, tree, local.triples)
    if local.leftover is not None:
        return {path: Triple(None, None, file) for path, file in found.items()}
    return {path: Triple(soul.seen_file(path), None, file) for path, file in found.items()}


def standing_around(soul: Soul, tree: str, triples: Mapping[str, Triple]) -> dict[str, File | None]:
    """Files of a tree above and below the places of local versions, which cannot stand there with them (MERGE-8)."""
    files = [path for path, triple in triples.items() if triple.ours is not None]
    above = {parent for path in files for parent in layout.parents(path)}
    found = {parent for parent in above if soul.repo.kind(tree, parent) is Kind.FILE}
    for path in files:
        if soul.repo.kind(tree, path) is Kind.DIRECTORY:
            found |= {below for below, _ in soul.repo.files(tree, path)}
    return {path: soul.repo.entry(tree, path) for path in found - triples.keys()}


def tell(soul: Soul, progress: Progress, merged: Merged, rules: tuple[str, ...]) -> None:
    """What a merge decided by these rules, a person has to know."""
    told = {f"{each.path}: {each.words} ({each.rule})": each for each in merged.decisions if each.rule in rules}
    for words, decision in told.items():
        progress.notes.append(words)
        soul.facts.record("conflict.resolved", path=decision.path, rule=decision.rule, words=decision.words)


def _remember(soul: Soul, head: str | None, entries: dict[str, SeenEntry | None]) -> None:
    """Seen follows main. Whether main still holds what was recorded when files are brought to it remains to be seen."""
    with soul.seen.transaction():
        for path, entry in entries.items():
            soul.seen.put(path, entry)
        leave(soul, set(entries))
        soul.seen.remember(RECORDING, None)
        soul.seen.remember(KNOWN, head)


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

    def read(path: str, file: File | None) -> bytes | None:
        # Only of memories are the bytes looked at, and they may be many.
        return soul.content(file) if layout.is_memory(path) or file is None else b""

    return commits.describe(
        {path: (read(path, soul.repo.entry(tree, path)), read(path, file)) for path, file in changes.items()}
    )


def with_lost(
    soul: Soul,
    head: str | None,
    tree: str,
    changes: dict[str, File | None],
    lost: tuple[Lost, ...],
    words: str,
    time: int | None = None,
) -> str:
    """The record's commit; local versions that lost get a commit of their own, its second parent."""
    parents = [head] if head else []
    ours = {version.path: version.file for version in lost if version.side == "ours"}
    kept: dict[str, File | None] = {path: file for path, file in ours.items() if soul.repo.entry(tree, path) != file}
    if kept and not head:
        # History has one beginning; what is set aside leaves it.
        head = soul.commit(soul.repo.edit(tree, changes), [], words, [], time)
        parents, tree, changes, words = [head], soul.tree_of(head), {}, "keep " + ", ".join(sorted(kept))
    if kept and head:
        aside = "set aside: " + describe(soul, tree, kept)
        parents.append(soul.commit(soul.repo.edit(tree, kept), [head], aside, None, time))
    trailers = [commits.lost(version.file.oid, version.path) for version in lost]
    return soul.commit(soul.repo.edit(tree, changes), parents, words, trailers, time)


def _beat(soul: Soul, tree: str, changes: dict[str, File | None]) -> dict[str, File | None]:
    """This body's entry in the registry moves together with other changes (FORM-6)."""
    path = bodies.path(soul.body)
    return {} if path in changes or being_written(soul, path) else {path: beat(soul, tree)}


def being_written(soul: Soul, path: str) -> bool:
    """Whether the agent has a hand in a working file that we would change."""
    return path in soul.watching.changes or path in soul.watching.held


def beat(soul: Soul, tree: str) -> File:
    """The registry entry of this body as of now."""
    current = soul.content(soul.repo.entry(tree, bodies.path(soul.body)))
    content = bodies.beat(current, soul.body, "soul-bridge", soul.version, soul.host, soul.clock.now(), soul.key())
    return File(soul.repo.write(content))


def _facts(soul: Soul, head: str | None, theirs: str | None) -> merge.Facts:
    now, tree, known = int(soul.clock.now()), soul.tree_of(head), soul.seen.recall(REMOTE)
    there = soul.tree_of(theirs)
    return merge.Facts(
        read=soul.repo.read,
        touched_ours=lambda path: Touch(now, soul.body),
        touched_theirs=lambda path: soul.repo.touched(theirs, path, None) if theirs else None,
        kind_ours=lambda path: soul.repo.kind(tree, path),
        kind_theirs=lambda path: soul.repo.kind(there, path),
        now=now,
        clock_wrong=clock_wrong(soul),
        identity=soul.seen.recall(IDENTITY),
        joining=bool(soul.seen.recall(JOINING)),
        late=soul.seen.recall(LATE) or (),
        published=lambda path, oid: bool(known) and soul.repo.ever(known, path, oid),
        recorded=lambda path, oid: head is not None and soul.repo.ever(head, path, oid),
    )


def clock_wrong(soul: Soul) -> bool:
    """Whether this body's clock was set back since its last stored pass (MERGE-6)."""
    return newest.clock_wrong(soul.seen.recall(CLOCK), soul.clock.now())


def _intent(commit: str, local: Local) -> dict[str, Any]:
    leftover = None
    if local.leftover is not None:
        id, version, raw = local.leftover
        leftover = [id, [version.oid, version.mode], raw]
    entries = {path: plain_entry(entry) for path, entry in local.entries.items()}
    return {"commit": commit, "entries": entries, "leftover": leftover}


def plain_entry(entry: SeenEntry | None) -> list[Any] | None:
    """A seen entry as an intent holds it."""
    if entry is None:
        return None
    stamp = entry.stamp
    numbers = [stamp.size, stamp.mtime_ns, stamp.ctime_ns, stamp.inode, stamp.executable]
    return [entry.file.oid, entry.file.mode, entry.raw, numbers, entry.racy]


def entry_of(plain: list[Any] | None) -> SeenEntry | None:
    """What `plain_entry` made plain."""
    if plain is None:
        return None
    oid, mode, raw, numbers, racy = plain
    return SeenEntry(File(oid, mode), raw, Stamp(*numbers), racy)
