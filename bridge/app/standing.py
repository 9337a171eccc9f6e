"""Where main stands, and who else is at work in the checkout (REPO-7 applied)."""

from __future__ import annotations

from collections.abc import Collection

from bridge.app.soul import KNOWN, Progress, Soul
from bridge.core import publish
from bridge.core.errors import Moved, Refused, SoulError
from bridge.core.layout import MAIN
from bridge.core.model import Presence

INDEXED = "indexed"  # remembered: the tree that git's index was last brought to
INDEXING = "index trees"  # remembered: the trees that it may have been brought to since, by a crash or a person
ACCEPTED = "accepted"  # remembered: from where to where commits that a person made moved main, until they are settled

KEPT = "kept"  # remembered: since when each ref below publish.KEEP was seen
KEPT_FOR = 30 * 86400.0  # seconds
ABSENCES = {
    Presence.MISSING: "the checkout is missing",
    Presence.EMPTY: "the checkout is empty",
    Presence.FOREIGN: "another repository stands where the checkout should be",
    Presence.UNMARKED: "the checkout has lost its mark (.git/soul-bridge/id), so that it may be another's",
    Presence.NO_GIT: "the checkout's .git is missing or damaged",
}


class StandOff(Moved):
    """A person is at work with git here: nothing is done until that is over."""


class Damaged(Refused):
    """The git directory is missing or damaged beside soul files: opening the soul anew mends that."""


def is_damage(error: SoulError | None) -> bool:
    """Whether only opening the soul anew can help: its repository, or our memory in it, is not whole any more."""
    return isinstance(error, Damaged) or (isinstance(error, Refused) and error.kind == "internal")


def stand_off(soul: Soul) -> None:
    """Raise StandOff while a person's git work is going on in the checkout."""
    reason = publish.in_the_way(soul.repo.state())
    if reason:
        raise StandOff(
            f"waiting: {reason}", kind="busy", rule="REPO-7", advice="It goes on by itself when that is over."
        )


def presence(soul: Soul) -> None:
    """Raise Refused when the checkout is not the one this body knows (GUARD-2): nothing is recorded then."""
    found = soul.tree.presence()
    if found is not Presence.PRESENT:
        family = Damaged if found is Presence.NO_GIT else Refused
        raise family(
            ABSENCES[found],
            kind="disk",
            rule="GUARD-2",
            advice=f"Nothing was recorded or deleted. Bring the folder back, or have a fresh one: {anew(soul.agent)}.",
        )


def anew(agent: str) -> str:
    """How a checkout that is gone is made anew: a daemon lets nobody else do it, and does not do it by itself."""
    return (
        f"first stop a daemon that runs (`systemctl --user stop soul-bridge@{agent}`, or end `soul-bridge run`), "
        f"then `soul-bridge init {agent}`"
    )


def settle_main(soul: Soul, progress: Progress) -> None:
    """Accept commits a person made on main; put main back when a person moved it elsewhere."""
    known, tip = soul.seen.recall(KNOWN), soul.repo.tip(MAIN)
    verdict = publish.main_moved(known, tip, soul.repo.is_ancestor)
    if verdict is publish.Main.PUT_BACK:
        if tip is not None:
            keep(soul, tip)
        soul.repo.move(MAIN, tip, known)
        # `reset --hard` brought the index where it moved main; left there, a person's next commit would do the same.
        if tip is not None and soul.repo.index(soul.tree_of(tip), soul.tree_of(known), sorted(soul.unplaced)):
            soul.seen.remember(INDEXED, soul.tree_of(known))
        progress.notes.append("main was moved by hand; it was put back and the files are read as they are")
    elif verdict is publish.Main.ACCEPT:
        with soul.seen.transaction():
            # Commits that came before the last ones were settled are settled with them.
            before = (soul.seen.recall(ACCEPTED) or [known])[0]
            soul.seen.remember(ACCEPTED, [before, tip] if before is not None else None)
            soul.seen.remember(KNOWN, tip)
            # A person's commit brought the index there; a crash of ours right after main moved did not.
            tree, reached = soul.tree_of(tip), soul.seen.recall(INDEXING) or []
            if tree not in reached:
                soul.seen.remember(INDEXING, [*reached, tree])


def advance(soul: Soul, expected: str | None, new: str) -> None:
    """Move main from where we left it to a commit made durable before. Raises StandOff and Moved, moving nothing."""
    soul.repo.flush()
    stand_off(soul)
    soul.repo.move(MAIN, expected, new)
    soul.seen.remember(KNOWN, new)


def keep(soul: Soul, commit: str) -> None:
    """Keep a commit that no branch holds reachable, under a ref of our own."""
    name = publish.KEEP + commit
    if soul.repo.tip(name) is None:
        soul.repo.move(name, None, commit)


def let_go(soul: Soul, needed: Collection[str] = ()) -> None:
    """Kept commits go after 30 days, by then somebody would have missed them; those that are `needed` stay."""
    now = soul.clock.now()
    since: dict[str, float] = soul.seen.recall(KEPT) or {}
    found = soul.repo.refs(publish.KEEP)
    left = {name: min(since.get(name, now), now) for name in found}
    old = [name for name, at in left.items() if now - at > KEPT_FOR and found[name] not in needed]
    for name in old:
        soul.repo.move(name, found[name], None)
        del left[name]
    if left != since:
        soul.seen.remember(KEPT, left or None)
