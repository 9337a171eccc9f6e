"""A damaged or lost git directory beside soul files (REPO-7 applied): a fresh one, the broken one kept aside.

It is never taken for a new soul: the next pass joins the remote again, and what was last materialised is the base of
its first record, so that edits are edits, old copies are old copies, and an absent file is no deletion.
"""

from __future__ import annotations

import os
from pathlib import Path

from bridge.app.joining import BASE, DONE, JOINING, REMOTE
from bridge.app.soul import KNOWN, Soul
from bridge.app.standing import anew
from bridge.core.errors import Refused, Transient
from bridge.core.layout import MAIN
from bridge.core.ports import Repo

GIT = ".git"


def whole(repo: Repo) -> bool:
    """Whether main's tip and everything in its tree can be read; True where there is no main yet.

    Raises Transient where that cannot be told now.
    """
    try:
        tip = repo.tip(MAIN)
        if tip is None:
            return True
        return all(repo.has(file.oid) for _, file in repo.files(repo.info(tip).tree) if file.regular)
    except Refused:
        return False


def refuse_unless_repairable(agent: str, soul: Path, known: bool, problem: str) -> None:
    """Raise Refused where a fresh git directory would be wrong: nothing is known of this soul, or its files are gone.

    known: whether this body carried the soul here before.
    """
    names = set(os.listdir(soul)) - {GIT} if soul.is_dir() else set()
    if not known or not names:
        raise Refused(
            f"{soul} cannot be used: {problem if soul.is_dir() else 'the checkout is missing'}",
            kind="disk",
            rule="GUARD-2",
            advice="Nothing was recorded, deleted or cloned. Bring the folder back, or have a fresh one: "
            f"{anew(agent)}; in another place: `soul-bridge init {agent} --soul DIR`.",
        )


def set_aside(soul: Path, now: float) -> Path | None:
    """Move what stands at .git out of the checkout, beside it; where to, None when there is nothing.

    Raises Transient(kind="disk").
    """
    broken = soul / GIT
    if not os.path.lexists(broken):
        return None
    target = soul.parent / f"{soul.name}.damaged-git-{int(now)}"
    number = 0
    while os.path.lexists(target):
        number += 1
        target = soul.parent / f"{soul.name}.damaged-git-{int(now)}-{number}"
    try:
        broken.rename(target)
    except OSError as error:
        raise Transient(
            f"{broken} cannot be moved aside: {error.strerror}", kind="disk", rule="REPO-7", advice=f"ls -ld {soul}"
        ) from error
    return target


def wake(soul: Soul, fresh: bool, materialised: str | None) -> None:
    """What a memory is told before the first pass. fresh: it, or its git directory, was made anew."""
    if fresh and soul.seen.recall(KNOWN) is None:
        begin_again(soul, materialised)
    find_remote_again(soul)
    bring_forward(soul, materialised)


def begin_again(soul: Soul, materialised: str | None) -> None:
    """Tell a memory that is fresh what the checkout held: `materialised`, the commit last brought to disk whole.

    Where nobody knows, everything that lies there counts as an old copy, whatever main says (REPO-6). Where a person
    moved main back from there meanwhile, that is known, too: what was not published yet is in no other place (REPO-7).
    """
    head = soul.head()
    with soul.seen.transaction():
        if materialised and head and soul.repo.has(materialised):
            # From here on main is watched: whoever moves it back before the next pass takes nothing out of the soul.
            soul.seen.remember(KNOWN, head if soul.repo.is_ancestor(materialised, head) else materialised)
        soul.seen.remember(BASE, materialised)
        soul.seen.remember(JOINING, True if materialised is None else None)


def bring_forward(soul: Soul, materialised: str | None) -> None:
    """Where an old copy of the checkout was laid over it, main goes on from where this body brought it (REPO-7).

    materialised: the commit last brought to disk whole, as remembered outside of the checkout. What was recorded since
    the copy was made may not have been published: no ref holds it any more, and the files do not show it.
    """
    known = soul.seen.recall(KNOWN)
    if materialised is None or known in (None, materialised) or not soul.repo.has(materialised):
        return
    if soul.seen.recall(DONE) != soul.tree_of(materialised) and soul.repo.is_ancestor(known, materialised):
        soul.seen.remember(KNOWN, materialised)


def find_remote_again(soul: Soul) -> None:
    """Where the remote's last tip is not here any more, remember a commit that it had before, so that it comes again.

    No ref holds that tip while main waits for a person (REPO-7), and their `git gc --prune=now` takes it.
    """
    known, head = soul.seen.recall(REMOTE), soul.head()
    if known is None or head is None or soul.repo.has(known):
        return
    oldest = head
    for commit in soul.repo.log(head):
        oldest = commit.oid
        if commit.body != soul.body:
            break  # it came from there
    soul.seen.remember(REMOTE, oldest)


def materialised(soul: Soul) -> str | None:
    """The commit whose tree the working files were last brought to whole, None while some are left."""
    head = soul.head()
    if head is None or soul.seen.recall("left") or soul.seen.recall("materialised") != soul.tree_of(head):
        return None
    return head
