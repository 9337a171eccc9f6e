"""Edits follow a file that the other side moved.

A move that is recognised is rewritten into triples for which the ordinary rules give the right result: at the old
place the other side did nothing, at the new place it edited what was moved there.

Rules: MERGE-7.
"""

from __future__ import annotations

from collections.abc import Mapping

from bridge.core import layout
from bridge.core.model import Decision, File, Triple, blob_id
from bridge.core.sides import same

_EMPTY = blob_id(b"")


def follow(triples: Mapping[str, Triple]) -> tuple[dict[str, Triple], list[Decision]]:
    """The triples with every edit of a moved file laid at its new place, and which edits followed."""
    found = dict(triples)
    decisions: list[Decision] = []
    for side in ("ours", "theirs"):
        for old, new in sorted(_moved(triples, side)):
            there, here = triples[old], triples[new]
            other = _other(there, side)
            if other is None or not other.regular or other == there.base or _other(here, side) is not None:
                continue
            found[old] = _laid(there, side, there.base)
            found[new] = _laid(Triple(there.base, here.ours, here.theirs), side, other)
            decisions.append(Decision(new, "MERGE-7", f"the edit of {old} follows the move"))
    return found, decisions


def _moved(triples: Mapping[str, Triple], side: str) -> list[tuple[str, str]]:
    """(old, new) for every blob that left exactly one path of a side and came to exactly one."""
    went: dict[str, list[str]] = {}
    came: dict[str, list[str]] = {}
    for path, triple in triples.items():
        version = triple.ours if side == "ours" else triple.theirs
        if triple.base and version is None and _movable(triple.base):
            went.setdefault(triple.base.oid, []).append(path)
        elif version and _movable(version) and not same(version, triple.base):
            came.setdefault(version.oid, []).append(path)
    pairs = ((went[oid], came[oid]) for oid in went.keys() & came.keys())
    single = [(old[0], new[0]) for old, new in pairs if len(old) == len(new) == 1]
    return [
        (old, new)
        for old, new in single
        if triples[new].base is None and layout.newest_wins(old) and layout.newest_wins(new)
    ]


def _movable(file: File) -> bool:
    """Two empty files have nothing in common."""
    return file.regular and file.oid != _EMPTY


def _other(triple: Triple, side: str) -> File | None:
    return triple.theirs if side == "ours" else triple.ours


def _laid(triple: Triple, side: str, version: File | None) -> Triple:
    """The triple with this version on the side that did not move the file."""
    if side == "ours":
        return Triple(triple.base, triple.ours, version)
    return Triple(triple.base, version, triple.theirs)
