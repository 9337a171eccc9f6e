"""A person's decision after the remote's history was rewritten (REPO-4 applied)."""

from __future__ import annotations

from typing import Any

from bridge.app import publishing, sync
from bridge.app.joining import REMOTE, refuse_stranger, remember_identity
from bridge.app.recording import changed, describe
from bridge.app.soul import KNOWN, Order, Soul
from bridge.app.standing import keep, stand_off
from bridge.core import merge, publish
from bridge.core.errors import Refused, SoulError, Unusable
from bridge.core.layout import MAIN
from bridge.core.model import Triple

SHOWN = 10


def accept(soul: Soul, words: dict[str, Any]) -> dict[str, Any]:
    """Show both sides, or accept the remote's with `choice` "merge" or "theirs".

    {"known", "remote", "only_here", "only_there", "kept", "tip"}. Raises Refused when there is nothing to accept.
    """
    first = sync.run(soul, Order(None, waive=True, remote=False, publish=False))
    if isinstance(first.problem, SoulError):
        raise first.problem
    known, head = soul.seen.recall(REMOTE), soul.head()
    look = soul.remote.fetch([tip for tip in (head, known) if tip])
    standing = publish.standing(known, look, soul.repo.is_ancestor)
    if known is None or head is None or look.tip is None or standing is not publish.Standing.REWRITTEN:
        raise Refused(
            "the remote's history was not rewritten: there is nothing to accept",
            kind="rule",
            rule="REPO-4",
            advice="`soul-bridge sync` goes on as always.",
        )
    refuse_stranger(soul, look.tip)
    answer = _sides(soul, known, head, look.tip)
    choice = words.get("choice")
    if choice is None:
        return answer
    if choice not in ("merge", "theirs"):
        raise Unusable("choose --merge or --theirs", kind="usage", rule="REPO-4")
    _accept(soul, choice, known, head, look.tip)
    outcome = sync.run(soul, Order(None, waive=True))
    if outcome.problem is not None:
        raise outcome.problem
    return answer | {"kept": publish.KEEP + head, "tip": soul.head(), "sentence": outcome.sentence}


def _sides(soul: Soul, known: str, head: str, theirs: str) -> dict[str, Any]:
    def subjects(tip: str, since: str) -> list[str]:
        commits = list(soul.repo.log(tip, since))
        return [f"{commit.oid[:10]} {commit.message.partition(chr(10))[0]}" for commit in commits[:SHOWN]]

    return {
        "known": known,
        "remote": theirs,
        "only_here": subjects(head, theirs),
        "only_there": subjects(theirs, head),
    }


def _accept(soul: Soul, choice: str, known: str, head: str, theirs: str) -> None:
    """Build what main becomes, keep what it was under a ref, move it; the remote's new tip is what we know now."""
    if choice == "merge" and not soul.repo.bases(head, theirs):
        raise Refused(
            "the two histories have no commit in common, and a soul has one root only",
            kind="rewritten",
            rule="REPO-6",
            advice="Use `soul-bridge accept-remote --theirs`: what was never published is applied again on theirs.",
        )
    with soul.seen.transaction():
        remember_identity(soul, soul.tree_of(theirs))
        merged = publishing.merge_commit(soul, head, theirs)[0] if choice == "merge" else None
        result = merged or _again_on(soul, known, head, theirs)
        soul.repo.flush()
        stand_off(soul)
        keep(soul, head)
        soul.repo.move(MAIN, head, result)
        soul.seen.remember(KNOWN, result)
        soul.seen.remember(REMOTE, theirs)
        soul.seen.remember(publishing.BEHIND, None)


def _again_on(soul: Soul, known: str, head: str, theirs: str) -> str:
    """Theirs, with what this body never published applied again."""
    repo = soul.repo
    known_tree, theirs_tree = soul.tree_of(known), soul.tree_of(theirs)
    ours, there = repo.diff(known_tree, soul.tree_of(head)), repo.diff(known_tree, theirs_tree)
    triples = {}
    for path in ours.keys() | there.keys():
        base = (ours.get(path) or there[path])[0]
        triples[path] = Triple(base, ours[path][1] if path in ours else base, there[path][1] if path in there else base)
    merged = merge.trees(triples, publishing.facts(soul, known, head, theirs))
    changes = changed(soul, merged, theirs_tree)
    if not changes:
        return theirs
    return soul.commit(repo.edit(theirs_tree, changes), [theirs], describe(soul, theirs_tree, changes))
