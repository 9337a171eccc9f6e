"""A file where the other side has a directory: the directory stays, the file is kept beside it.

Rules: MERGE-8.
"""

from __future__ import annotations

import itertools
import posixpath
import re
from collections.abc import Mapping

from bridge.core import layout
from bridge.core.model import Decision, Kind, Triple
from bridge.core.sides import Facts, Version, identify

LONGEST = 255  # bytes of one name, what common file systems take
LONGEST_EXTENSION = 64  # bytes; what is longer is not an extension but part of the name
LONGEST_BODY = 40

_ODD = re.compile(r"[^A-Za-z0-9]+")


def keep(
    files: Mapping[str, Version | None], triples: Mapping[str, Triple], facts: Facts
) -> tuple[dict[str, Version | None], list[Decision]]:
    """The result of a merge with every file that stands where a directory is moved beside it, and what was moved.

    `files` names both, the file and at least one path below it, whoever changed them.
    """
    result = dict(files)
    decisions: list[Decision] = []
    for path, version in _in_the_way(files):
        beside = _place(path, version, result, triples[path], facts)
        result[path] = None
        result[beside] = version
        decisions.append(Decision(path, "MERGE-8", f"the directory stays, the file is kept as {beside}"))
    return result, decisions


def name(path: str, mark: str) -> str:
    """The path with a mark between stem and extension, its last part within LONGEST bytes; the stem gives way."""
    directory, slash, last = path.rpartition("/")
    stem, extension = posixpath.splitext(last)
    if _size(extension) > LONGEST_EXTENSION or extension == ".":
        stem, extension = last, ""
    stem = stem[:LONGEST]
    while _size(stem + mark + extension) > LONGEST:
        stem = stem[:-1]
    return directory + slash + stem + mark + extension


def _in_the_way(files: Mapping[str, Version | None]) -> list[tuple[str, Version]]:
    """Files that have others below them, sorted. With a "/" behind each path, what is below one comes right after."""
    present = sorted((path + "/", version) for path, version in files.items() if version is not None)
    return [
        (path[:-1], version) for (path, version), (below, _) in itertools.pairwise(present) if below.startswith(path)
    ]


def _place(path: str, version: Version, result: Mapping[str, Version | None], triple: Triple, facts: Facts) -> str:
    """The first name beside a path that is free in both trees and in the result, or holds this very file already."""
    body, number = _body(path, triple, facts), 1
    while True:
        beside = name(path, f"~{body}" if number == 1 else f"~{body}-{number}")
        there = result.get(beside)
        if there is not None and identify(there) == identify(version):
            return beside
        free = there is None and facts.kind_ours(beside) is facts.kind_theirs(beside) is Kind.ABSENT
        if free and (_may_be_created(beside) or not _may_be_created(path)):
            return beside
        number += 1


def _body(path: str, triple: Triple, facts: Facts) -> str:
    """The body whose commit last changed the file, as part of a name. It comes from a commit, so it can be anything."""
    touch = (facts.touched_theirs if triple.ours is None else facts.touched_ours)(path)
    plain = _ODD.sub("-", touch.body).lower().strip("-") if touch else ""
    return plain[:LONGEST_BODY].rstrip("-") or "unknown"


def _may_be_created(path: str) -> bool:
    """Whether the last part of a path is a name for every disk: `git` beside `~1` would be none (TREE-7)."""
    return layout.unsafe(path.rpartition("/")[2]) is None


def _size(text: str) -> int:
    return len(text.encode("utf-8", "surrogateescape"))
