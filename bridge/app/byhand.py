"""A person's commits on main, made with git beside us: what they mean for what was seen.

`git commit --all` takes a working file as it is. Where a newer version was merged and still waited (GUARD-5), that is a
local write, merged with what main had; nobody meant to remove what had just come in and was not on disk yet. And what
was committed had been on disk: it is the base of what is written there next.
"""

from __future__ import annotations

from functools import partial

from bridge.app import arrivals, withheld
from bridge.app.joining import NOBODY, REMOTE
from bridge.app.observing import leave, remember_waits, waits_of
from bridge.app.recording import Local, commit
from bridge.app.soul import Progress, Soul
from bridge.app.standing import ACCEPTED
from bridge.core import commits, plan, publish
from bridge.core.model import Commit, File, SeenEntry

Changes = dict[str, tuple[File | None, File | None]]


def settle(soul: Soul, progress: Progress) -> None:
    """Bring back, as one more commit, what commits that were just accepted took out unseen."""
    accepted = soul.seen.recall(ACCEPTED)
    if accepted is None:
        return
    before, tip = accepted
    on_disk: dict[str, File | None] = {}
    # Once something was brought back, main stands elsewhere: a crash in between does not do it twice.
    if tip == soul.head() and soul.repo.has(before):
        before, made = _below(soul, before, tip)
        on_disk = _settle(soul, progress, before, made, soul.repo.diff(soul.tree_of(before), soul.tree_of(tip)))
    with soul.seen.transaction():  # or what was seen would differ from what main had when it is done once more
        _was_on_disk(soul, on_disk)
        soul.seen.remember(ACCEPTED, None)


def _settle(soul: Soul, progress: Progress, before: str, made: int, changes: Changes) -> dict[str, File | None]:
    """Bring it back; what of the changes had been on disk."""
    changes = {path: files for path, files in changes.items() if path not in soul.unplaced}
    holds = withheld.recall(soul)
    known = {path: entry for path in changes if (entry := soul.seen.get(path)) is not None}
    look = soul.tree.look(known, sorted(changes))
    untouched = {path for path, entry in known.items() if look.files.get(path) == entry.stamp}
    triples = {}
    for path, (had, committed) in changes.items():
        entry = known.get(path)
        change = publish.ByHand(
            had,
            committed,
            entry.file if entry is not None else None,
            path in untouched,
            entry is not None and entry.stamp.ctime_ns / 1e9 + plan.RACY >= made,
            partial(_read, soul, path, entry, path in untouched, committed),
            partial(soul.tree.ignored, path),
            partial(_stood, soul, before, path, committed),
        )
        triple = publish.brought_back(path, change, path in holds)
        if triple is not None:
            triples[path] = triple
    if triples:
        commit(soul, progress, Local(triples, theirs=before))
    written = known.keys() - untouched - look.special.keys() - holds.keys()
    return {path: changes[path][1] for path in written}


def _read(soul: Soul, path: str, entry: SeenEntry | None, untouched: bool, committed: File | None) -> File | None:
    """What whoever wrote what was committed had read of the file at the most (MERGE-12)."""
    if entry is None or untouched:
        return entry.file if entry is not None else None
    return arrivals.base_of(soul, path, entry.file, committed)


def _stood(soul: Soul, before: str, path: str, committed: File | None) -> bool:
    """Whether what was committed stood there before: in a commit, or on the disk until we wrote over it."""
    oid = committed.oid if committed is not None else ""
    return arrivals.stood(soul, path, oid) or soul.repo.ever(before, path, oid)


def _below(soul: Soul, before: str, tip: str) -> tuple[str, int]:
    """The commit that the person's own stand on, and when the first of those was made (seconds since the epoch).

    Of merges nobody can tell who removed what; and what we brought to main ourselves when a crash came is no person's.
    """
    commit, made = tip, soul.repo.info(tip)
    times = [made.time]
    while commit != before and len(made.parents) == 1 and not _ours(soul, made):
        times.append(made.time)
        commit = made.parents[0]
        made = soul.repo.info(commit)
    return commit, min(times)


def _ours(soul: Soul, made: Commit) -> bool:
    """Whether this body made it, or it came from the remote."""
    known = soul.seen.recall(REMOTE)
    if known is not None and soul.repo.has(known) and soul.repo.is_ancestor(made.oid, known):
        return True
    trees = (made.tree, *(soul.tree_of(parent) for parent in made.parents))
    return made.author in {commits.author(soul.display_name(tree), soul.body) for tree in trees}


def _was_on_disk(soul: Soul, committed: dict[str, File | None]) -> None:
    """What was committed becomes what was seen, so that it counts when somebody wrote it back since.

    A working file that nobody touched shows that its commit was made without it: that one is brought to it instead.
    """
    for path, file in committed.items():
        if file is None or file.regular:
            soul.seen.put(path, None if file is None else SeenEntry(file, file.oid, NOBODY))
    leave(soul, set(committed))
    # What waited has been decided by a person.
    waits = waits_of(soul)
    if waits.keys() & committed.keys():
        remember_waits(soul, {path: wait for path, wait in waits.items() if path not in committed})
