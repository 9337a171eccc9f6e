"""What the remote's answer and the checkout's refs mean, and what may be done about them.

Rules: REPO-3, REPO-4, REPO-5, REPO-6, REPO-7, COMMIT-2.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass

from bridge.core import layout
from bridge.core.errors import Refused
from bridge.core.layout import MAIN
from bridge.core.model import CheckoutState, File, RemoteLook, Triple
from bridge.core.words import line

KEEP = "refs/soul-bridge/keep/"
LOCKED = ("HEAD", "config", "index", "packed-refs", "shallow", "ORIG_HEAD")  # of a git directory; and every ref
STALE = 600.0  # seconds after which a lock, or a half-written pack, belongs to no git that is alive
LOOKS_BEFORE_FORWARD = 2  # a remote that stands behind is believed at the second look (REPO-4)


class Standing(enum.Enum):
    """Where the remote's main stands, against the tip this body last saw there."""

    SAME = "same"
    AHEAD = "ahead"  # a descendant: the ordinary case
    BEHIND = "behind"  # an ancestor, or gone: a restored backup (REPO-4)
    REWRITTEN = "rewritten"  # neither (REPO-4)
    EMPTY = "empty"  # never had a main, still has none: ours to fill (REPO-5)
    NEW = "new"  # has a main, and this body never saw it: to be joined (REPO-6)


def standing(known: str | None, look: RemoteLook, is_ancestor: Callable[[str, str], bool]) -> Standing:
    """Classify a look at the remote.

    known: the remote tip last seen, None before the first contact. Raises Refused(kind="not-a-soul") when there are
    branches but no main (REPO-5).
    """
    if look.tip is None:
        if any(name.startswith("refs/heads/") for name in look.others):
            raise no_main(look)
        return Standing.EMPTY if known is None else Standing.BEHIND
    if known is None:
        return Standing.NEW
    if look.tip == known:
        return Standing.SAME
    if is_ancestor(known, look.tip):
        return Standing.AHEAD
    return Standing.BEHIND if is_ancestor(look.tip, known) else Standing.REWRITTEN


def no_main(look: RemoteLook) -> Refused:
    """The refusal of a remote that has branches but no main."""
    names = ", ".join(name.removeprefix("refs/heads/") for name in look.others[:3])
    return Refused(
        f"the remote has no branch main, but {names}",
        kind="not-a-soul",
        rule="REPO-5",
        advice="Nothing was written there. A soul lives on main: rename the branch on the server, "
        "or give soul-bridge an empty repository.",
    )


def rewritten(known: str, tip: str) -> Refused:
    """The refusal of a remote whose published history was rewritten."""
    return Refused(
        f"the remote's history was rewritten: its main is {tip[:10]}, which does not contain {known[:10]}",
        kind="rewritten",
        rule="REPO-4",
        advice="Nothing was merged or pushed; work goes on locally. Look at both with "
        "`soul-bridge accept-remote`, then choose --merge or --theirs.",
    )


def not_a_soul(names: list[str]) -> Refused:
    """The refusal of a repository that holds something else: these, at its top level."""
    but = f", but {', '.join(map(line, names[:3]))}" if names else ""
    return Refused(
        f"the remote is not a soul: it has no agent.json that says who it is{but}",
        kind="not-a-soul",
        rule="REPO-5",
        advice="Nothing was written there. Check the address in the configuration, or use an empty repository.",
    )


def two_agents(ours: str | None, theirs: str | None, advice: str = "") -> Refused:
    """The refusal of a repository that is another agent's, with both ids. advice: other than to look at `remote`."""
    return Refused(
        f"two different agents: this checkout is {ours}, the remote is {theirs}",
        kind="identity",
        rule="MERGE-5",
        advice=advice
        or "Nothing was merged, written or pushed. Correct `remote` in the configuration: this agent's own one. "
        "The other agent needs a body of its own, in an empty folder.",
    )


def stranger(ours: str | None, theirs: str | None, related: bool, names: list[str]) -> Refused | None:
    """The refusal of what took the place of a remote that was met, None where that is the same soul, rewritten.

    ours, theirs: the ids. related: the two histories have a commit in common. names: what is at its top level. Nobody
    can accept it: what was published for one agent would be merged into another one, or into no soul at all.
    """
    if theirs is None:
        return None if related else not_a_soul(names)
    return None if ours in (None, theirs) else two_agents(ours, theirs)


class Main(enum.Enum):
    """What to do about where a checkout's main was found (REPO-7)."""

    KEEP = "keep"  # as we left it
    ACCEPT = "accept"  # a person committed on top
    PUT_BACK = "put back"  # a person moved it elsewhere


def main_moved(known: str | None, tip: str | None, is_ancestor: Callable[[str, str], bool]) -> Main:
    """Decide about main: `known` is where we left it, `tip` where it is; None is absent."""
    if known == tip:
        return Main.KEEP
    if tip is not None and (known is None or is_ancestor(known, tip)):
        return Main.ACCEPT
    return Main.PUT_BACK


def in_the_way(state: CheckoutState) -> str:
    """What a person does in the checkout that every pass waits for, in words; "" when nothing is (REPO-7)."""
    reasons = [state.busy] if state.busy else []
    if state.head is None:
        reasons.append("HEAD is detached")
    elif state.head != MAIN:
        reasons.append(f"the branch {state.head.removeprefix('refs/heads/')} is checked out, not main")
    return "; ".join(reasons)


@dataclass(frozen=True, slots=True)
class ByHand:
    """One path that a person's commits on main changed, and its working file.

    had, committed: what main had and what it got. seen: what was last seen of the working file. untouched: that is
    still there, by its stamp. ours_since: we wrote it after the first of the commits, or shortly before. Asked only
    where it matters: read, what its writer had read at the most (MERGE-12); ignored, whether a `.gitignore` names it;
    stood, whether what was committed stood there before.
    """

    had: File | None
    committed: File | None
    seen: File | None
    untouched: bool
    ours_since: bool
    read: Callable[[], File | None]
    ignored: Callable[[], bool]
    stood: Callable[[], bool]


def brought_back(path: str, change: ByHand, held: bool) -> Triple | None:
    """The merge that follows a person's commits of a path, None where nothing does. held: it is withheld (REPO-8).

    Who has the lease is what a body published, not what was committed by hand: main's stands again (MERGE-10).
    """
    if layout.is_lock(path):
        return _as_it_was(change)
    return taken_out_held(change) if held else taken_out(change)


def _as_it_was(change: ByHand) -> Triple:
    return Triple(change.committed, change.committed, change.had)


def taken_out(change: ByHand) -> Triple | None:
    """The merge that brings back what a person's commits took out unseen (REPO-7): base, theirs, and what main had.

    A working file that lagged behind main was committed as it was: that is a write of what was seen. None: nothing was.
    """
    had, committed = change.had, change.committed
    if had is None:
        return None
    if change.seen != had or not change.untouched:
        read = change.read()
        return Triple(read, committed, had) if read != had else None
    if committed is None:
        # It left git's index only; a file that is there is recorded, unless it is ignored.
        return None if change.ignored() else Triple(None, None, had)
    if not change.ours_since:
        return None
    return Triple(committed if change.stood() else None, committed, had)


def taken_out_held(change: ByHand) -> Triple | None:
    """The same for a withheld path: main has a version that was never on this disk, and what is there is the business
    of its side branch (REPO-8). Where that was committed, main gets back what it had."""
    if change.untouched and (change.seen is None or change.seen != change.committed):
        return None
    return _as_it_was(change)


@dataclass(frozen=True, slots=True)
class Push:
    """A push that may be sent: main from `expected` to `new`."""

    expected: str | None
    new: str


def may_push(expected: str | None, new: str, is_ancestor: Callable[[str, str], bool]) -> Push:
    """The push, only if it makes history grow: the protocol itself knows no fast-forward (REPO-3).

    Raises ValueError otherwise: that is a bug of the caller, nothing was sent.
    """
    if expected is not None and not is_ancestor(expected, new):
        raise ValueError(f"{new} does not descend from {expected}")
    return Push(expected, new)
