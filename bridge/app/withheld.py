"""Paths that the server refused: held until they changed and their time has come (REPO-8, GUARD-5 applied)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, MutableMapping
from dataclasses import replace

from bridge.app.joining import NOBODY, REMOTE
from bridge.app.soul import Order, Progress, Soul
from bridge.core import publish
from bridge.core.model import File, SeenEntry

WITHHELD = "withheld"  # remembered: by path, what was refused, until when, and the delay
TRIED = "tried"  # remembered: delays of paths that are being tried again
BASES = "unpublished"  # remembered: by path, what was seen before the first change that is not published yet
REASON = ("REPO-8", "the server refused what is in it; everything else was published")


def leave_out(
    soul: Soul,
    order: Order,
    progress: Progress,
    versions: MutableMapping[str, File | None],
    unchanged: Collection[str],
) -> None:
    """Take what the server refused out of the local versions, but for what is to be tried again now.

    unchanged: paths whose working file proved to be as it was seen.
    """
    known = soul.seen.recall(WITHHELD)
    if known is None:
        return
    settled = {*unchanged, *progress.back}
    kept, tried, now = {}, soul.seen.recall(TRIED) or {}, soul.clock.now()
    for path, plain in known.items():
        entry = publish.Withheld(*plain)
        version = versions.get(path)
        if path in versions and (order.now or entry.due(version.oid if version is not None else "", now)):
            tried[path] = entry.delay
        elif path not in settled and (path in progress.pending or path in soul.watching.paths):
            versions.pop(path, None)
            kept[path] = plain
        # Else the file is as published again, or there is none: nothing is left to withhold.
    if kept != known:
        with soul.seen.transaction():
            soul.seen.remember(WITHHELD, kept or None)
            soul.seen.remember(TRIED, tried or None)
    soul.watching = replace(soul.watching, held={**soul.watching.held, **dict.fromkeys(kept, REASON)})


def remember_bases(soul: Soul, paths: Iterable[str]) -> None:
    """These paths are about to be recorded: what was seen of them stays the base until the server has taken them."""
    bases = soul.seen.recall(BASES) or {}
    entries = {path: soul.seen.get(path) for path in paths if path not in bases}
    fresh = {path: [entry.file.oid, entry.file.mode] if entry is not None else None for path, entry in entries.items()}
    if fresh:
        soul.seen.remember(BASES, bases | fresh)


def placed(soul: Soul, path: str) -> None:
    """The working file was brought to main: what is published in that is the base of what is not."""
    bases, known, head = soul.seen.recall(BASES), soul.seen.recall(REMOTE), soul.head()
    if bases is not None and path in bases and known and head and soul.repo.is_ancestor(known, head):
        file = soul.repo.entry(soul.tree_of(known), path)
        soul.seen.remember(BASES, bases | {path: [file.oid, file.mode] if file is not None else None})


def base(soul: Soul, path: str, published: File | None) -> SeenEntry | None:
    """What a refused path is a change of: as when it was recorded, else what is published."""
    bases = soul.seen.recall(BASES) or {}
    file = published
    if path in bases:
        file = File(*bases[path]) if bases[path] is not None else None
    return SeenEntry(file, file.oid, NOBODY) if file is not None else None


def published(soul: Soul) -> None:
    """The server took everything: what was tried again is as good as any other path."""
    for name in (TRIED, BASES):
        if soul.seen.recall(name) is not None:
            soul.seen.remember(name, None)
