"""The consolidation lease, taken and given up by pushes on the fetched tip (LEASE rules applied).

A lease commit is on no local branch until the remote took it: there is no moment in which a body believes that it
holds a lease nobody published.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bridge.app import namesake, sync
from bridge.app.joining import REMOTE, refuse_stranger
from bridge.app.soul import Order, Soul
from bridge.core import layout, lease, publish
from bridge.core.errors import AnswerLost, Moved, Refused, SoulError, Transient
from bridge.core.instants import iso
from bridge.core.model import File

TRIES = 10
MEMORY = "lease"  # remembered: the lease that was taken, with the boottime from before its push
TRIED = "lease tried"  # remembered: one that was sent, until it is known whether it arrived


def show(soul: Soul, words: dict[str, Any]) -> dict[str, Any]:
    """Who holds the lease, by the remote: {"lease": {body, until, mine} or None}."""
    tip = _look(soul)
    verdict = _verdict(soul, tip)
    if isinstance(verdict, lease.Free):
        return {"lease": None}
    until = verdict.until
    body = soul.body if isinstance(verdict, lease.Mine) else verdict.body
    return {"lease": _shape(body, until, isinstance(verdict, lease.Mine))}


def acquire(soul: Soul, words: dict[str, Any]) -> dict[str, Any]:
    """Take the lease, or renew it when it is ours. Raises Refused(kind="lease") when another body holds it."""
    return {"lease": _write(soul, must_be_mine=False)}


def renew(soul: Soul, words: dict[str, Any]) -> dict[str, Any]:
    """Extend our lease. Raises Refused(kind="lease") when it is not ours."""
    return {"lease": _write(soul, must_be_mine=True)}


def release(soul: Soul, words: dict[str, Any]) -> dict[str, Any]:
    """Give our lease up, with everything recorded so far. Raises Refused(kind="lease") when it is not ours."""
    _pass(soul)

    def free(tip: str) -> bytes | None:
        _insist_mine(soul, tip)
        return None

    _push(soul, free, "give up the consolidation lease")
    soul.seen.remember(MEMORY, None)
    soul.facts.record("lease.released")
    sync.run(soul, Order(None, waive=True))
    return {"lease": None}


def _write(soul: Soul, must_be_mine: bool) -> dict[str, Any]:
    _pass(soul)
    started = soul.clock.boottime()

    def take(tip: str) -> bytes:
        nonlocal started
        verdict = _verdict(soul, tip)
        if isinstance(verdict, lease.HeldBy):
            raise _held_by(verdict)
        if must_be_mine and not isinstance(verdict, lease.Mine):
            raise _not_mine()
        started = soul.clock.boottime()
        return lease.write(soul.body, lease.until(int(soul.clock.now() * 1000)))

    content = _push(soul, take, "take the consolidation lease")
    with soul.seen.transaction():
        soul.seen.remember(MEMORY, {"content": (content or b"").decode(), "started": started})
        soul.seen.remember(TRIED, None)
    soul.sighting = lease.sight(soul.sighting, content, soul.clock.boottime())
    until = lease.read(content)
    soul.facts.record("lease.taken", until=until.until if until else None)
    # It is ours from here on: what keeps its commit from reaching main now is the next pass's business.
    sync.run(soul, Order(None, waive=True))
    return _shape(soul.body, until.until if until else None, True)


def _push(soul: Soul, decide: Callable[[str], bytes | None], words: str) -> bytes | None:
    """Publish the lease file that `decide(tip)` wants (None: gone), on the tip just fetched; the bytes published."""
    for _ in range(TRIES):
        tip = _look(soul)
        content = decide(tip)
        tree = soul.tree_of(tip)
        change = None if content is None else File(soul.repo.write(content))
        if soul.repo.entry(tree, layout.LEASE) == change:
            return content
        commit = soul.commit(soul.repo.edit(tree, {layout.LEASE: change}), [tip], words)
        soul.repo.flush()
        namesake.offer(soul, commit)
        # Written down first: a push whose answer never comes may have arrived, and then the lease is ours.
        soul.seen.remember(TRIED, content.decode() if content is not None else None)
        try:
            soul.remote.push(tip, commit)
            return content
        except Moved:
            soul.clock.sleep(0.05)
        except AnswerLost:
            found = _look(soul)
            if soul.repo.is_ancestor(commit, found):
                return content
            raise
    raise Transient("the remote moved at every try", kind="network", rule="LEASE-2", advice="Try again in a moment.")


def _look(soul: Soul) -> str:
    """The remote's tip, fetched now. Raises Refused when it is not one to build on."""
    known = soul.seen.recall(REMOTE)
    tips = [tip for tip in (soul.head(), known) if tip]
    found = soul.remote.fetch(tips)
    standing = publish.standing(known, found, soul.repo.is_ancestor)
    if found.tip is not None and standing is publish.Standing.REWRITTEN:
        refuse_stranger(soul, found.tip)
    if found.tip is None or standing not in (publish.Standing.SAME, publish.Standing.AHEAD):
        raise Refused(
            "the remote is not where a lease could be taken: nothing is published there, or its history was rewritten",
            kind="lease",
            rule="REPO-4",
            advice="Run `soul-bridge sync` and `soul-bridge status` first.",
        )
    soul.sighting = lease.sight(soul.sighting, _published(soul, found.tip), soul.clock.boottime())
    return found.tip


def _published(soul: Soul, tip: str) -> bytes | None:
    return soul.content(soul.repo.entry(soul.tree_of(tip), layout.LEASE))


def written(soul: Soul) -> tuple[bytes, ...]:
    """The leases that are ours if they are what is published: the one that was taken, and the one that was tried."""
    taken, tried = soul.seen.recall(MEMORY), soul.seen.recall(TRIED)
    return tuple(text.encode() for text in (taken["content"] if taken else None, tried) if text)


def _verdict(soul: Soul, tip: str) -> lease.Free | lease.Mine | lease.HeldBy:
    sighting = soul.sighting or lease.sight(None, _published(soul, tip), soul.clock.boottime())
    ours = sighting.content if sighting.content in written(soul) else None
    return lease.decide(sighting, ours, int(soul.clock.now() * 1000), soul.clock.boottime())


def _insist_mine(soul: Soul, tip: str) -> None:
    if not isinstance(_verdict(soul, tip), lease.Mine):
        raise _not_mine()


def _not_mine() -> Refused:
    return Refused(
        "this body does not hold the consolidation lease",
        kind="lease",
        rule="LEASE-3",
        advice="See who does with `soul-bridge lease show`; take it with `soul-bridge lease acquire`.",
    )


def _held_by(verdict: lease.HeldBy) -> Refused:
    until = f" until {iso(verdict.until / 1000)}" if verdict.until is not None else ""
    return Refused(
        f"the consolidation lease is held by {verdict.body or 'an unreadable lease'}{until}",
        kind="lease",
        rule="LEASE-2",
        advice=f"It is free in {max(1, round(verdict.wait / 60))} min at the latest; nothing was changed. "
        "`soul-bridge lease show` says how it stands.",
    )


def _pass(soul: Soul) -> None:
    """A whole pass; what keeps the remote from answering keeps the lease from being touched."""
    outcome = sync.run(soul, Order(None, waive=True))
    if isinstance(outcome.problem, SoulError) and outcome.problem.kind not in ("rejected",):
        raise outcome.problem


def _shape(body: str, until: int | None, mine: bool) -> dict[str, Any]:
    return {"body": body, "until": None if until is None else iso(until / 1000), "mine": mine}
