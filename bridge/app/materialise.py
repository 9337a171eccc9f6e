"""The last part of a pass: bring the working files to what main says, one by one, each followed by its seen entry.

An intent written before the first exchange lets the next pass know which bytes are our own after a crash.
"""

from __future__ import annotations

from bridge.app.recording import NOBODY, WAITS
from bridge.app.soul import Order, Progress, Soul
from bridge.core import layout, plan
from bridge.core.errors import Held, Moved
from bridge.core.model import File, SeenEntry, blob_id

PLACING = "placing"
DONE = "materialised"
LEFT = "left"


def recover(soul: Soul) -> None:
    """After a crash: what was placed but not yet remembered is ours, not the agent's."""
    intent = soul.seen.recall(PLACING)
    if intent is None:
        return
    came_out = {leftover.path: leftover for leftover in soul.tree.leftovers()}
    with soul.seen.transaction():
        for path, (oid, mode) in intent.items():
            entry, leftover = soul.seen.get(path), came_out.get(path)
            placed = File(oid, mode) if oid else None
            if (entry.file if entry else None) == placed:
                continue
            taken = leftover is not None and entry is not None and leftover.base == entry.file
            if placed is None:
                if taken and path not in soul.tree.look({path: entry}, [path]).files:
                    soul.seen.put(path, None)
            elif taken or _stands(soul, path, placed):
                soul.seen.put(path, SeenEntry(placed, placed.oid, NOBODY))
        soul.seen.remember(PLACING, None)


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
    tree = soul.tree_of(head)
    done = soul.seen.recall(DONE) or ""
    left = set(soul.seen.recall(LEFT) or [])
    if tree == done and not left and not progress.read and not progress.again:
        return
    changed = set(soul.repo.diff(done, tree)) | left | set(progress.read) | progress.again
    wanted = {path: soul.repo.entry(tree, path) for path in sorted(changed)}
    wanted = {path: file for path, file in wanted.items() if _differs(soul, path, file)}
    ready, aside = _sort(soul, order, progress, tree, wanted)
    if ready:
        intent = {path: (file.oid, file.mode) if file else (None, 0) for path, file in ready.items()}
        soul.seen.remember(PLACING, intent)
    for path, file in ready.items():
        if not _place(soul, progress, path, file):
            aside.add(path)
    with soul.seen.transaction():
        soul.seen.remember(PLACING, None)
        soul.seen.remember(DONE, tree)
        soul.seen.remember(LEFT, sorted(aside) or None)
    soul.repo.index(done or None, tree, sorted(set(soul.unplaced) & set(wanted)))


def _differs(soul: Soul, path: str, file: File | None) -> bool:
    entry = soul.seen.get(path)
    return (entry.file if entry else None) != file


def _sort(
    soul: Soul, order: Order, progress: Progress, tree: str, wanted: dict[str, File | None]
) -> tuple[dict[str, File | None], set[str]]:
    """What can be placed now, removals first, and what is left for later passes."""
    apart = progress.pending | soul.watching.held.keys() | soul.waiting.keys()
    aside: set[str] = set()
    ready: dict[str, File | None] = {}
    for path, file in wanted.items():
        reason = _unplaceable(path, file)
        if reason is not None:
            soul.unplaced[path] = reason
        elif plan.blocked(path, apart, lambda prefix: any(other.startswith(prefix + "/") for other in apart)):
            aside.add(path)
        else:
            soul.unplaced.pop(path, None)
            ready[path] = file
    removals = [path for path, file in ready.items() if file is None]
    if _guard(soul, order, progress, removals):
        aside |= set(removals)
        ready = {path: file for path, file in ready.items() if file is not None}
        ready = {path: file for path, file in ready.items() if not _in_the_way(path, aside)}
    return dict(sorted(ready.items(), key=lambda item: (item[1] is not None, item[0]))), aside


def _in_the_way(path: str, aside: set[str]) -> bool:
    return plan.blocked(path, aside, lambda prefix: any(other.startswith(prefix + "/") for other in aside))


def _unplaceable(path: str, file: File | None) -> tuple[str, str] | None:
    """Why an entry of the tree is never created here (TREE-6, TREE-7)."""
    if file is None:
        return None
    if not file.regular:
        return ("TREE-6", "a link or submodule from the remote is never created")
    reason = layout.unsafe(path)
    return None if reason is None else ("TREE-7", reason)


def _guard(soul: Soul, order: Order, progress: Progress, removals: list[str]) -> bool:
    """Whether a remote change that removes very much waits before it is carried out (GUARD-3)."""
    waits = dict(soul.seen.recall(WAITS) or {})
    key = "remote:"
    if not plan.mass(len(removals), soul.seen.count()) or order.now:
        if waits.pop(key, None) is not None:
            soul.seen.remember(WAITS, waits or None)
        return False
    now = soul.clock.now()
    before = plan.Wait(*waits[key]) if key in waits else None
    wait = plan.wait_for(before, now, soul.limits.guard, at_start=False)
    if wait.over(now):
        waits.pop(key, None)
        soul.seen.remember(WAITS, waits or None)
        return False
    waits[key] = [wait.began, wait.length]
    soul.seen.remember(WAITS, waits)
    progress.due(soul.clock.boottime() + max(0.0, wait.began + wait.length - now))
    for path in removals:
        soul.waiting[path] = ("GUARD-3", "the remote removed so much at once that it waits before it is carried out")
    return True


def _place(soul: Soul, progress: Progress, path: str, file: File | None) -> bool:
    """Bring one path to disk and remember it; False when it has to be tried again by a later pass."""
    entry = soul.seen.get(path)
    try:
        if file is None:
            if entry is not None and not soul.tree.ignored(path):  # TREE-8: ignored now, so it stays on disk
                soul.tree.remove(path, entry)
            soul.seen.put(path, None)
        else:
            content = soul.repo.read(file.oid)
            executable = bool(file.mode & 0o111)
            if entry is None:
                stamp = soul.tree.create(path, content, executable)
            else:
                stamp = soul.tree.replace(path, entry, content, executable)
            racy = soul.clock.now() - stamp.mtime_ns / 1e9 < plan.RACY
            soul.seen.put(path, SeenEntry(file, file.oid, stamp, racy))
    except Moved:
        progress.again.add(path)
        progress.due(soul.clock.boottime() + min(soul.limits.settle, 0.2))
        return False
    except Held as error:
        soul.watching = plan.hold(soul.watching, path, error)
        return False
    progress.written.append(path)
    progress.due(soul.clock.boottime() + plan.RACY + 0.1)
    soul.facts.record("file.written", path=path, removed=file is None)
    return True
