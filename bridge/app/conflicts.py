"""Versions that lost a merge, computed from history, so that every body lists the same.

A version leaves the list when a commit says that it was restored or dismissed, or when its bytes stand again where
they were lost.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

from bridge.app import history
from bridge.core import commits
from bridge.core.errors import Refused
from bridge.core.layout import MAIN
from bridge.core.ports import Repo

DAYS = 90
SHORT = 12  # hex digits of an id
SKEWED = 7 * 86400.0  # seconds by which a commit may be older than one it follows
MOST = 5_000  # lost versions that are listed
MOST_OF_ONE = 1_000  # of them from one commit: a message could claim more than anybody reads, and hide the others
MOST_FACTS = 2 * MOST_OF_ONE  # of all kinds that are read of one commit
LARGE = 1 << 14  # characters of a message that takes time to read
MOST_READ = 1 << 22  # characters of such messages that are read, newest first; small ones are read all the same
ALL_OLD = 500  # so many older commits one after the other end the search; one with a false time hides nothing
_ID = re.compile(rf"[0-9a-f]{{{SHORT}}}")
CLOSING = (commits.RESTORED, commits.DISMISSED)


@dataclass(frozen=True, slots=True)
class Conflict:
    """A lost version: its id, where and when it lost, in which commit, by the body that merged."""

    id: str
    path: str
    body: str
    at: int
    commit: str
    blob: str


@dataclass(frozen=True, slots=True)
class Known:
    """What history up to a commit says: losses that nothing closed, and ids that were closed. A later look reads on
    from there."""

    tip: str
    found: tuple[Conflict, ...]
    closed: frozenset[str]


def listed(repo: Repo, now: float) -> list[Conflict]:
    """Open ones of the last 90 days, newest first. now: seconds since the epoch."""
    head = repo.tip(MAIN)
    return [] if head is None else standing(repo, read(repo, head, now), now)


def standing(repo: Repo, known: Known, now: float) -> list[Conflict]:
    """Those that are open in the tree of the commit."""
    oldest, tree = now - DAYS * 86400, repo.info(known.tip).tree
    return [one for one in known.found if one.at >= oldest and not _stands(repo, tree, one)]


def read(repo: Repo, head: str, now: float, known: Known | None = None) -> Known:
    """What history up to `head` says; only what is new since `known` is read, where that cannot make a difference."""
    if known is not None and known.tip == head:
        return known
    if known is not None and repo.has(known.tip) and repo.is_ancestor(known.tip, head):
        fresh = _walk(repo, head, known.tip, now)
        before = {one.id for one in known.found} | known.closed
        # What closes, and what was lost before, may stand anywhere between what is known.
        if not fresh.closed and not before & {one.id for one in fresh.found}:
            return Known(head, fresh.found + known.found, known.closed)
    return _walk(repo, head, None, now)


def _walk(repo: Repo, head: str, since: str | None, now: float) -> Known:
    oldest = now - DAYS * 86400
    closed: set[str] = set()
    found: dict[str, Conflict] = {}
    old = spent = 0
    for commit in repo.log(head, since):
        old = old + 1 if commit.time < oldest - SKEWED else 0
        if old > ALL_OLD:
            break
        if len(commit.message) > LARGE:
            spent += len(commit.message)
            if spent > MOST_READ:
                continue
        facts = commits.trailers(commit.message, MOST_FACTS)
        closed |= {value for key, value in facts if key in CLOSING and _ID.fullmatch(value)}
        lost = commits.lost_among(facts)[:MOST_OF_ONE] if commit.time >= oldest else []
        for blob, path in lost:
            id = identify(blob, path)
            if len(found) < MOST and id not in closed and id not in found and repo.has(blob):
                found[id] = Conflict(id, path, commit.body, commit.time, commit.oid, blob)
    return Known(head, tuple(found.values()), frozenset(closed))


def pick(repo: Repo, now: float, words: str) -> Conflict:
    """The open conflict that an id or its beginning names. Raises Refused when none or several do."""
    found = [one for one in listed(repo, now) if one.id.startswith(words.lower())] if len(words) >= 4 else []
    if len(found) != 1:
        what = "no lost version has" if not found else f"{len(found)} lost versions have"
        advice = "Nothing was changed. `soul-bridge conflicts` lists them."
        if not found and _is_commit(repo, words):
            advice += f" For a commit: `soul-bridge restore {words} PATH`, or `soul-bridge revert {words}`."
        raise Refused(f"{what} the id {words!r}", kind="rule", rule="MERGE-6", advice=advice)
    return found[0]


def _is_commit(repo: Repo, words: str) -> bool:
    try:
        return history.resolve(repo, words) is not None
    except Refused:
        return False


def identify(blob: str, path: str) -> str:
    """The id of a lost version: the same on every body."""
    return hashlib.sha256(f"{blob} {path}".encode("utf-8", "surrogateescape")).hexdigest()[:SHORT]


def _stands(repo: Repo, tree: str, conflict: Conflict) -> bool:
    file = repo.entry(tree, conflict.path)
    return file is not None and file.oid == conflict.blob
