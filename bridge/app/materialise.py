"""The last part of a pass: bring the working files to what main says, one by one, each followed by its seen entry.

An intent written before the first exchange lets the next pass know which bytes are our own after a crash.
"""

from __future__ import annotations

from typing import Any

from bridge.app import arrivals
from bridge.app.joining import DONE, LEFT, NOBODY, PLACING
from bridge.app.observing import REMOVED, clocks, leave, remember_waits, waits_of
from bridge.app.soul import Order, Progress, Soul
from bridge.app.standing import INDEXED, INDEXING
from bridge.core import layout, plan
from bridge.core.errors import Held, Moved
from bridge.core.model import File, Kind, Leftover, SeenEntry, blob_id

STAYED = "stayed"  # remembered: paths that main lacks and that are left on disk, for they are ignored
UNPLACED = "unplaced"  # remembered: paths of the tree that are never created here, with rule and reason
CHEAP = 0.05  # seconds of writing git's index that nobody notices
INDEX_PAUSE = 1.0  # seconds for which a dearer one waits after a change
WAITING = ("GUARD-3", "the remote removed so much at once that it waits before it is carried out")


def recover(soul: Soul) -> None:
    """After a crash: what was placed but not yet remembered is ours, not the agent's."""
    soul.unplaced = {path: (rule, why) for path, (rule, why) in (soul.seen.recall(UNPLACED) or {}).items()}
    intent: list[Any] | None = soul.seen.recall(PLACING)
    if intent is None:
        return
    (began, files), boot = intent[:2], intent[2] if len(intent) > 2 else ""
    came_out = {leftover.path: leftover for leftover in soul.tree.leftovers()}
    with soul.seen.transaction():
        for path, (oid, mode) in files.items():
            placed = File(oid, mode) if oid else None
            if _was_placed(soul, path, placed, came_out.get(path)):
                arrivals.remember(soul, path, soul.seen.get(path), placed, began, boot)
                soul.seen.put(path, SeenEntry(placed, placed.oid, NOBODY) if placed is not None else None)
        leave(soul, set(files))
        soul.seen.remember(PLACING, None)


def _was_placed(soul: Soul, path: str, placed: File | None, leftover: Leftover | None) -> bool:
    """Whether the exchange that was intended took place, though seen does not say so."""
    entry = soul.seen.get(path)
    if (entry.file if entry is not None else None) == placed:
        return False
    if entry is None:
        return placed is not None and _stands(soul, path, placed)
    # One of an earlier exchange may still be there, for somebody has it open.
    if leftover is None or (leftover.base, leftover.new) != (entry.file, placed.oid if placed is not None else ""):
        return False
    # An exchange leaves another inode under the name.
    return soul.tree.look({path: entry}, [path]).files.get(path) != entry.stamp


def _stands(soul: Soul, path: str, placed: File) -> bool:
    try:
        return blob_id(soul.tree.read(path, soul.limits.hold_back_over).content) == placed.oid
    except (Moved, Held):
        return False


def materialise(soul: Soul, order: Order, progress: Progress) -> None:
    """Bring every path whose tree entry is not what was seen to disk, GUARD-5 paths left out."""
    head = soul.head()
    if head is None:
        return
    tree, done = soul.tree_of(head), soul.seen.recall(DONE) or ""
    left = set(soul.seen.recall(LEFT) or ()) | progress.back
    changed = (tree != done or bool(left)) and _bring(soul, order, progress, tree, done, left)
    before = soul.seen.recall(INDEXED) or done
    if (changed or before != tree) and _index_due(soul, order, progress):
        _index(soul, before if before and soul.repo.has(before) else None, tree, left)


def _bring(soul: Soul, order: Order, progress: Progress, tree: str, done: str, left: set[str]) -> bool:
    """Carry it out from the tree `done`; `left` then holds what later passes have to try. False: nothing changed."""
    wanted = {path: soul.repo.entry(tree, path) for path in left.union(soul.repo.diff(done, tree))}
    unplaced = {path: why for path, file in wanted.items() if file and (why := layout.unplaceable(path, file.regular))}
    # What is not looked at now is as it was: as unsafe as before.
    soul.unplaced = {path: why for path, why in soul.unplaced.items() if path not in wanted} | unplaced
    wanted = {
        path: file
        for path, file in wanted.items()
        if path not in unplaced and (path in progress.back or soul.seen_file(path) != file)
    }
    aside = _aside(soul, order, progress, wanted)
    ready = {path: wanted[path] for path in sorted(wanted.keys() - aside, key=lambda path: _turn(path, wanted[path]))}
    if ready:
        intent = {path: (file.oid, file.mode) if file is not None else (None, 0) for path, file in ready.items()}
        soul.seen.remember(PLACING, [soul.clock.boottime(), intent, soul.boot])
    try:
        for path, file in ready.items():
            if _has_to_wait(path, file, aside) or not _place(soul, progress, path, file):
                aside.add(path)
    finally:
        soul.watching = plan.again(soul.watching, progress.young)
    if tree == done and aside == left and not ready:
        return False
    with soul.seen.transaction():
        soul.seen.remember(PLACING, None)
        soul.seen.remember(DONE, tree)
        soul.seen.remember(LEFT, sorted(aside) or None)
        soul.seen.remember(UNPLACED, soul.unplaced or None)
    left.clear()
    left.update(aside)
    return True


def _index(soul: Soul, before: str | None, tree: str, left: set[str]) -> None:
    """git's index follows; where another git held it, the next pass tries again."""
    never_came = {path for path in left if path in soul.watching.held and soul.seen.get(path) is None}
    absent, began = sorted(never_came.union(soul.unplaced)), soul.clock.boottime()
    # Crashes may have come between the index and the memory of it: entries of what it was brought to are ours as well.
    reached = list(soul.seen.recall(INDEXING) or ())
    if tree not in reached:
        soul.seen.remember(INDEXING, [*reached, tree])
    others = [each for each in reached if each != tree and soul.repo.has(each)]
    followed = [soul.repo.index(each, tree, absent) for each in (*others, before)]
    if all(followed):
        with soul.seen.transaction():
            soul.seen.remember(INDEXED, tree)
            soul.seen.remember(INDEXING, None)
    elif not any(followed):
        # Another git has it: it did not come here, and that may go on for long.
        soul.seen.remember(INDEXING, reached or None)
    soul.indexing, soul.index_due = soul.clock.boottime() - began, None


def _index_due(soul: Soul, order: Order, progress: Progress) -> bool:
    """Whether git's index is written in this pass. It is written whole, whatever changed: where that takes its time,
    it is done after a second without delaying what is to be published, and at once before a process ends."""
    now = soul.clock.boottime()
    if order.waive or soul.indexing < CHEAP:
        return True
    soul.index_due = now + INDEX_PAUSE if soul.index_due is None else soul.index_due
    if now < soul.index_due:
        progress.due(soul.index_due)
    return now >= soul.index_due


def stay(soul: Soul, path: str) -> None:
    """A working file that main lacks is left where it is, as long as it is ignored (TREE-8)."""
    soul.seen.remember(STAYED, sorted({*(soul.seen.recall(STAYED) or ()), path}))


def settle_stayed(soul: Soul) -> None:
    """What stayed and is ignored no more is a file like any other: new, unless main has one there."""
    stayed = soul.seen.recall(STAYED)
    if not stayed:
        return
    tree = soul.tree_of(soul.head())
    left = []
    with soul.seen.transaction():
        for path in stayed:
            if soul.seen.get(path) is None or soul.repo.kind(tree, path) is not Kind.ABSENT:
                continue
            if soul.tree.ignored(path):
                left.append(path)
            else:
                soul.seen.put(path, None)
                soul.owed = None if soul.owed is None else soul.owed | {path}
        if left != stayed:
            soul.seen.remember(STAYED, left or None)


def _turn(path: str, file: File | None) -> tuple[int, str]:
    """What is ignored is known before anything is removed (TREE-8); removals make room for creations."""
    if file is None:
        return 1, path
    return (0 if layout.is_rules(path) else 2), path


def _has_to_wait(path: str, file: File | None, aside: set[str]) -> bool:
    """Whether something that could not be placed is in the way, or says whether a removal stays on disk."""
    if file is None:
        return any(path.startswith(other.removesuffix(layout.RULES)) for other in aside if layout.is_rules(other))
    return bool(plan.in_the_way([path], aside))


def _aside(soul: Soul, order: Order, progress: Progress, wanted: dict[str, File | None]) -> set[str]:
    """What cannot be placed now and is left for later passes (GUARD-3, GUARD-5, MERGE-12)."""
    apart = progress.pending | soul.watching.held.keys() | soul.waiting.keys()
    aside = set(plan.in_the_way(wanted, apart))
    aside |= {path for path in wanted if any(path.startswith(frozen) for frozen in soul.frozen)}
    removals = {path for path in wanted.keys() - aside if wanted[path] is None}
    if _guard(soul, order, progress, len(removals)):
        soul.waiting |= dict.fromkeys(removals, WAITING)
        aside |= removals
    return aside


def _guard(soul: Soul, order: Order, progress: Progress, removals: int) -> bool:
    """Whether a remote change that removes very much waits before it is carried out (GUARD-3)."""
    waits, at = waits_of(soul), clocks(soul)
    before = waits.get(REMOVED)
    if order.now or removals < plan.FEW_GONE or not plan.mass(removals, soul.seen.count()):
        wait = None
    else:
        wait = plan.wait_for(before, at, soul.limits.guard, found=False)
        wait = wait if wait.left(at) else None
    if wait is None:
        if waits.pop(REMOVED, None) is not None:
            remember_waits(soul, waits)
            soul.facts.record("guard.passed", rule=WAITING[0], path=None)
        return False
    if before is None:
        soul.facts.record("guard.waiting", rule=WAITING[0], path=None, until=wait.began + wait.length)
    if wait != before:
        remember_waits(soul, waits | {REMOVED: wait})
    progress.due(at.boottime + wait.left(at))
    return True


def _place(soul: Soul, progress: Progress, path: str, file: File | None) -> bool:
    """Bring one path to disk and remember it; False when it has to be tried again by a later pass."""
    before, began = soul.seen.get(path), soul.clock.boottime()
    try:
        after = _exchange(soul, path, None if path in progress.back else before, file, began)
    except Moved:
        progress.again.add(path)
        progress.due(soul.clock.boottime() + min(soul.limits.settle, 0.2))
        return False
    except Held as error:
        soul.watching = plan.hold(soul.watching, path, error)
        return False
    with soul.seen.transaction():
        soul.seen.put(path, after)
        arrivals.remember(soul, path, before, file, began)
    progress.written.append(path)
    if after is not None and after.racy:
        progress.young.add(path)
    progress.due(soul.clock.boottime() + plan.RACY + 0.1)
    soul.facts.record("file.written", path=path, removed=file is None)
    return True


def _exchange(soul: Soul, path: str, before: SeenEntry | None, file: File | None, began: float) -> SeenEntry | None:
    """Change the working file; the entry it has then."""
    if file is None:
        if before is not None and soul.tree.ignored(path):
            # TREE-8: it stays, and is known: whoever writes it next has read this version, and nobody else wrote it.
            stay(soul, path)
            return before
        if before is not None:
            soul.tree.remove(path, before)
        return None
    content, executable = soul.repo.read(file.oid), bool(file.mode & 0o111)
    if before is None:
        stamp = soul.tree.create(path, content, executable)
    else:
        with soul.replacing(path, began):
            stamp = soul.tree.replace(path, before, content, executable)
    return SeenEntry(file, file.oid, stamp, plan.racy(stamp, soul.clock.now()))
