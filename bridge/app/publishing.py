"""The middle of a pass: fetch, merge in the object store, publish with the expected old tip.

The candidate of a merge is on no branch until the remote took it; when the remote moved meanwhile it is dropped and
made again, so a lost race leaves nothing behind.
"""

from __future__ import annotations

from bridge.app import namesake, withholding
from bridge.app.joining import ALONE, IDENTITY, REMOTE, first_contact, refuse_stranger, remember_identity
from bridge.app.recording import changed, clock_wrong, describe, tell
from bridge.app.soul import Progress, Soul
from bridge.app.standing import StandOff, advance
from bridge.core import commits, identity, merge, publish
from bridge.core.errors import AnswerLost, Moved, Refused, Transient
from bridge.core.model import Merged, RemoteLook, Triple

BEHIND = "behind"  # remembered: where the remote stood behind what it had, and how many looks found it there


def meet(soul: Soul, progress: Progress) -> None:
    """Ask a remote that was never met who lives there. Raises Transient and Refused; nothing was written then."""
    _theirs(soul, progress, _fetch(soul, progress))


def exchange(soul: Soul, progress: Progress, now: bool = False) -> None:
    """Bring main and the remote's main together, as far as the remote lets us.

    now: a person asked for what is withheld, too (REPO-8). Raises Transient and Refused for what the remote said; what
    could be merged is on main by then. Sets progress.moved when the race was lost: the next pass looks again.
    """

    def push(expected: str | None, new: str) -> None:
        _push(soul, progress, expected, new)

    try:
        refused = _bring_together(soul, progress)
        if refused is not None:
            withholding.withhold_from(soul, progress, push, refused)
        withholding.retry(soul, progress, push, now)
    except StandOff:
        raise
    except Moved:
        progress.moved = True


def _bring_together(soul: Soul, progress: Progress) -> Refused | None:
    """Publish main as it is, or merged; the refusal when the server said no to what was laid on its tip."""
    refused, known = None, soul.seen.recall(REMOTE)
    if ahead(soul):
        try:
            _push(soul, progress, known, soul.head() or "")
            return None
        except Moved:
            pass
        except Refused as error:
            refused = error  # a key that may only read is told before the tip is: others may have written
    theirs, expected = _theirs(soul, progress, _fetch(soul, progress))
    if refused is not None and theirs == known:
        return refused
    return _integrate(soul, progress, theirs, expected)


def ahead(soul: Soul) -> bool:
    """Whether main holds something that the remote, as last seen, does not."""
    known, head = soul.seen.recall(REMOTE), soul.head()
    if known is None or head in (None, known) or soul.seen.recall(BEHIND) is not None:
        return False
    return soul.repo.is_ancestor(known, head or "") and _publishable(soul, head or "")


def _fetch(soul: Soul, progress: Progress) -> RemoteLook:
    look = soul.remote.fetch([tip for tip in (soul.head(), soul.seen.recall(REMOTE)) if tip])
    progress.fetched = True
    progress.remote_tip = look.tip
    return look


def _theirs(soul: Soul, progress: Progress, look: RemoteLook) -> tuple[str | None, str | None]:
    """The tip to merge (None: nothing) and the tip to expect when pushing; the remote's is remembered (REPO-4)."""
    known = soul.seen.recall(REMOTE)
    standing = publish.standing(known, look, soul.repo.is_ancestor)
    if standing is publish.Standing.REWRITTEN:
        refuse_stranger(soul, look.tip or "")
        soul.facts.record("remote.rewritten", known=known, tip=look.tip)
        raise publish.rewritten(known or "", look.tip or "")
    if standing is publish.Standing.BEHIND:
        return _behind(soul, progress, look, known)
    if standing in (publish.Standing.EMPTY, publish.Standing.NEW):
        first_contact(soul, progress, look)
    elif standing is publish.Standing.AHEAD or soul.seen.recall(BEHIND) is not None:
        with soul.seen.transaction():
            soul.seen.remember(REMOTE, look.tip)
            soul.seen.remember(BEHIND, None)
            remember_identity(soul, soul.tree_of(look.tip))
    return look.tip, look.tip


def _behind(soul: Soul, progress: Progress, look: RemoteLook, known: str | None) -> tuple[str | None, str | None]:
    """A remote that stands behind what it had (a restored backup) is brought forward at the second look."""
    before = soul.seen.recall(BEHIND)
    looks = before["looks"] + 1 if before is not None and before["tip"] == look.tip else 1
    soul.seen.remember(BEHIND, {"tip": look.tip, "looks": looks})
    if looks < publish.LOOKS_BEFORE_FORWARD:
        soul.facts.record("remote.rolled_back", known=known, tip=look.tip)
        raise Transient(
            "the remote stands behind what it had before, as after a restored backup",
            kind="network",
            rule="REPO-4",
            advice="Nothing is lost; if it still stands there at the next look, it is brought forward again.",
        )
    progress.notes.append("the remote stood behind and is brought forward again")
    return known, look.tip


def _integrate(soul: Soul, progress: Progress, theirs: str | None, expected: str | None) -> Refused | None:
    """Merge their tip into main, publish the result, and move main to it, published or not. As `_bring_together`."""
    head = soul.head()
    if theirs is not None:
        namesake.look(soul, progress, head, theirs)
    if head is not None and head == theirs == expected:
        return None  # most looks find what this body published itself
    candidate, merged, paths = (head, None, []) if theirs is None else merge_commit(soul, head, theirs)
    if candidate is None or not _publishable(soul, candidate):
        return None
    problem: Transient | Refused | None = None
    if candidate != expected:
        try:
            _push(soul, progress, expected, candidate)
        except (Transient, Refused) as error:
            problem = error
    if candidate != head:
        _adopt(soul, progress, head, candidate, merged, paths)
    if isinstance(problem, Refused) and expected == soul.seen.recall(REMOTE):
        return problem
    if problem is not None:
        raise problem
    return None


def _publishable(soul: Soul, commit: str) -> bool:
    """Whether a commit may be published: never without an identity (MERGE-5), for two bodies would each invent one.

    A soul that was published without one has to get it first.
    """
    if soul.seen.recall(REMOTE) is not None and soul.seen.recall(IDENTITY) is None:
        return True
    return identity.id_of(soul.content(soul.repo.entry(soul.tree_of(commit), identity.PATH))) is not None


def _adopt(
    soul: Soul, progress: Progress, head: str | None, candidate: str, merged: Merged | None, paths: list[str]
) -> None:
    advance(soul, head, candidate)
    progress.merged += paths
    soul.facts.record("remote.merged", commit=candidate, paths=paths)
    soul.company = soul.clock.boottime()
    for lost in merged.lost if merged is not None else ():
        progress.lost.append(lost.path)
        soul.facts.record("conflict.resolved", path=lost.path, lost=lost.file.oid, commit=candidate)
    if merged is not None:
        tell(soul, progress, merged, ("MERGE-5", "MERGE-9"))


def merge_commit(soul: Soul, ours: str | None, theirs: str) -> tuple[str, Merged | None, list[str]]:
    """A commit that holds both tips, what the merge decided, and the paths that change for this body.

    `theirs` itself when it already says everything, `ours` when theirs is part of it.
    """
    repo = soul.repo
    if ours is not None and repo.is_ancestor(theirs, ours):
        return ours, None, []
    bases = repo.bases(ours, theirs) if ours is not None else []
    if ours is not None and not bases:
        raise publish.rewritten(ours, theirs)
    base = bases[0] if bases else None
    ours_tree, theirs_tree = soul.tree_of(ours), soul.tree_of(theirs)
    triples = _triples(soul, soul.tree_of(base), ours_tree, theirs_tree)
    merged = merge.trees(triples, facts(soul, base, ours, theirs))
    tree = repo.edit(theirs_tree, changed(soul, merged, theirs_tree))
    paths = sorted(repo.diff(ours_tree, tree))
    if tree == theirs_tree and (ours is None or base == ours):
        return theirs, merged, paths
    parents = [ours, theirs] if ours is not None else [theirs]
    shown = {path: repo.entry(tree, path) for path in paths}
    words = "merge " + describe(soul, ours_tree, shown) if shown else "merge, nothing new here"
    trailers = [commits.lost(version.file.oid, version.path) for version in merged.lost]
    return soul.commit(tree, parents, words, trailers), merged, paths


def _triples(soul: Soul, base: str, ours: str, theirs: str) -> dict[str, Triple]:
    left, right = soul.repo.diff(base, ours), soul.repo.diff(base, theirs)
    triples = {}
    for path in left.keys() | right.keys():
        before = left[path][0] if path in left else right[path][0]
        triples[path] = Triple(
            before, left[path][1] if path in left else before, right[path][1] if path in right else before
        )
    return triples


def facts(soul: Soul, base: str | None, ours: str | None, theirs: str) -> merge.Facts:
    """What a merge of two tips may ask about their history."""
    repo = soul.repo
    ours_tree, theirs_tree = soul.tree_of(ours), soul.tree_of(theirs)
    return merge.Facts(
        read=repo.read,
        touched_ours=lambda path: repo.touched(ours, path, base) if ours else None,
        touched_theirs=lambda path: repo.touched(theirs, path, base),
        kind_ours=lambda path: repo.kind(ours_tree, path),
        kind_theirs=lambda path: repo.kind(theirs_tree, path),
        now=int(soul.clock.now()),
        clock_wrong=clock_wrong(soul),
        identity=soul.seen.recall(IDENTITY),
    )


def _push(soul: Soul, progress: Progress, expected: str | None, new: str) -> None:
    """Publish, and believe only what the server said or what the remote's tip shows."""
    push = publish.may_push(expected, new, soul.repo.is_ancestor)
    soul.repo.flush()
    namesake.offer(soul, push.new)
    progress.tries += 1
    began = soul.clock.boottime()
    try:
        soul.remote.push(push.expected, push.new)
    except AnswerLost:
        tip = _fetch(soul, progress).tip
        if tip is None or not soul.repo.has(tip) or not soul.repo.is_ancestor(push.new, tip):
            raise
    progress.took = soul.clock.boottime() - began
    progress.pushed = True
    progress.remote_tip = push.new
    with soul.seen.transaction():
        soul.seen.remember(REMOTE, push.new)
        soul.seen.remember(BEHIND, None)
        soul.seen.remember(ALONE, None)
        remember_identity(soul, soul.tree_of(push.new))
    soul.facts.record("remote.pushed", commit=push.new, expected=push.expected)
