"""A push that the server refuses for what is in it: the rest is published without that, and tried again (REPO-8).

Main then stands at what was published, the commit that had the refused path is kept under a ref, and the working file
stays as the agent wrote it: a local change that is held.
"""

from __future__ import annotations

from dataclasses import replace

from bridge.app.joining import REMOTE
from bridge.app.recording import beat, describe
from bridge.app.soul import KNOWN, MAIN, Progress, Soul
from bridge.app.standing import keep, stand_off
from bridge.app.withheld import BASES, REASON, TRIED, WITHHELD, base
from bridge.core import bodies, publish
from bridge.core.errors import Refused
from bridge.core.model import File


def rebuild(soul: Soul, progress: Progress, expected: str | None, candidate: str, refusal: Refused) -> None:
    """Find the paths that the server refuses and publish everything else. Raises `refusal` when it is not about paths,
    Moved and Transient when somebody was quicker or nobody answers."""
    if expected is None:
        raise refusal
    before, after = soul.tree_of(expected), soul.tree_of(candidate)
    changes: dict[str, File | None] = {path: file for path, (_, file) in soul.repo.diff(before, after).items()}
    own = bodies.path(soul.body)
    changes[own] = beat(soul, before)
    tip = expected

    def push(paths: frozenset[str]) -> bool:
        nonlocal tip
        tree = soul.tree_of(tip)
        part = {path: changes[path] for path in paths}
        commit = soul.commit(soul.repo.edit(tree, part), [tip], describe(soul, tree, part))
        soul.repo.flush()
        try:
            soul.remote.push(tip, commit)
        except Refused as error:
            if error.kind != "rejected":
                raise
            return False
        tip = commit
        soul.seen.remember(REMOTE, tip)
        progress.pushed, progress.remote_tip = True, tip
        return True

    refused = publish.withhold(changes.keys(), refusal.message, own, push)
    if not refused:
        raise refusal
    _set_aside(soul, candidate, tip, refused, refusal)
    progress.notes.append("the server refuses " + ", ".join(sorted(refused)) + ": held, everything else was published")


def _set_aside(soul: Soul, had: str, tip: str, refused: frozenset[str], refusal: Refused) -> None:
    """Main moves to what was published; what was refused is a local change again, held."""
    now, head = soul.clock.now(), soul.head()
    bases = soul.repo.bases(head, tip) if head is not None else []
    tree = soul.tree_of(bases[0]) if bases else ""
    tried = soul.seen.recall(TRIED) or {}
    entries = {}
    for path in refused:
        seen = soul.seen.get(path)
        # Held is what the working file holds, whatever a merge had made of it.
        entries[path] = publish.withheld(seen.file.oid if seen is not None else "", now, tried.get(path, 0.0))
    stand_off(soul)
    for commit in {had, head} - {None}:
        keep(soul, str(commit))
    with soul.seen.transaction():
        for path in refused:
            soul.seen.put(path, base(soul, path, soul.repo.entry(tree, path)))
        plain = {path: [entry.oid, entry.until, entry.delay] for path, entry in entries.items()}
        soul.seen.remember(WITHHELD, {**(soul.seen.recall(WITHHELD) or {}), **plain})
        soul.seen.remember(TRIED, None)
        soul.seen.remember(BASES, None)
        soul.repo.move(MAIN, head, tip)
        soul.seen.remember(KNOWN, tip)
    soul.watching = replace(soul.watching, held={**soul.watching.held, **dict.fromkeys(refused, REASON)})
    for path in refused:
        soul.facts.record("file.held", path=path, rule="REPO-8", reason=refusal.message)
