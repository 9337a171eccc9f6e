"""Versions that lost a merge, computed from history, so that every body lists the same.

A version leaves the list when a commit says that it was restored or dismissed, or when its bytes stand again where
they were lost.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from bridge.app.soul import Soul
from bridge.core import commits

DAYS = 90
SHORT = 12  # hex digits of an id


@dataclass(frozen=True, slots=True)
class Conflict:
    """A lost version: its id, where and when it lost, in which commit, by the body that merged."""

    id: str
    path: str
    body: str
    at: int
    commit: str
    blob: str


def listed(soul: Soul) -> list[Conflict]:
    """Open ones of the last 90 days, newest first."""
    head = soul.head()
    if head is None:
        return []
    oldest = soul.clock.now() - DAYS * 86400
    tree = soul.tree_of(head)
    closed: set[str] = set()
    found: dict[str, Conflict] = {}
    for commit in soul.repo.log(head):
        if commit.time < oldest - 86400 * 7:
            break
        for key, value in commits.trailers(commit.message):
            if key in (commits.RESTORED, commits.DISMISSED):
                closed.add(value.strip())
        if commit.time < oldest:
            continue
        for blob, path in commits.lost_trailers(commit.message):
            id = identify(blob, path)
            if id not in closed and id not in found and soul.repo.has(blob):
                found[id] = Conflict(id, path, commit.body, commit.time, commit.oid, blob)
    return [one for one in found.values() if not _stands(soul, tree, one)]


def identify(blob: str, path: str) -> str:
    """The id of a lost version: the same on every body."""
    return hashlib.sha256(f"{blob} {path}".encode("utf-8", "surrogateescape")).hexdigest()[:SHORT]


def _stands(soul: Soul, tree: str, conflict: Conflict) -> bool:
    file = soul.repo.entry(tree, conflict.path)
    return file is not None and file.oid == conflict.blob
