"""The whole of `validate`: each file is asked about in the room of its rule."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping

from bridge.core import bodies, entries, identity, journal, layout, lease, notes
from bridge.core.model import EXECUTABLE, PLAIN, Problem

# The first whose question is answered with yes has the file.
_ROOMS: tuple[tuple[Callable[[str], bool], Callable[[str, bytes], list[Problem]]], ...] = (
    (lambda path: path in (identity.PATH, "SOUL.md"), identity.problems),
    (layout.is_memory, entries.problems),
    (lambda path: path.startswith("journal/"), journal.problems),
    (lambda path: path.startswith("notes/"), notes.problems),
    (lambda path: path.startswith("bodies/"), bodies.problems),
    (lambda path: path == layout.LEASE, lease.problems),
)


def problems(files: Mapping[str, tuple[bytes, int, int]]) -> list[Problem]:
    """Every broken rule of form in a tree, sorted by path and line. files: content, mode and size in bytes, by path."""
    found = _missing(files) + _twins(files)
    for path, (content, mode, size) in files.items():
        found += layout.problems(path, content, mode, size)
        room = next((ask for applies, ask in _ROOMS if applies(path)), None)
        if room and mode in (PLAIN, EXECUTABLE):
            found += room(path, content)
    version = layout.version(files[".soul-spec.json"][0]) if ".soul-spec.json" in files else None
    if version != layout.SPEC_VERSION and version is not None:
        # Another version of the rules has other fixed contents (TREE-3).
        found = [problem for problem in found if problem.rule != "TREE-2" or problem.path == ".soul-spec.json"]
    return sorted(found, key=lambda problem: (problem.path, problem.line, problem.rule, problem.message))


def _missing(files: Mapping[str, object]) -> list[Problem]:
    absent = layout.missing(list(files), "", "", b"")
    return [
        Problem("TREE-1", path.removesuffix(".gitkeep"), 0, "missing: it is filled in at the next connection")
        for path in absent
    ]


def _twins(files: Mapping[str, object]) -> list[Problem]:
    same: dict[str, list[str]] = defaultdict(list)
    for path in files:
        same[layout.fold(path)].append(path)
    return [
        Problem("TREE-7", path, 0, f"where case and composition of letters do not count it is the same as {first!r}")
        for first, *others in map(sorted, same.values())
        for path in others
    ]
