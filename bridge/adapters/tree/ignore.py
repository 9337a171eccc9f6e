"""The soul's own `.gitignore` files, at every level, and nothing else: no `info/exclude`, no global excludes (TREE-4).

Asked from the top down, as git does: what is below an ignored directory is not asked about again.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path

from pathspec import GitIgnoreSpec

from bridge.adapters.tree.globs import expression
from bridge.adapters.tree.place import DIRECTORY, FILE, parts_of
from bridge.core import layout
from bridge.core.errors import SHORT_OF

# A .gitignore longer than this is not read: nobody wrote it.
_LONGEST = 1 << 20
_MOST = 2_000  # lines of it, for the same reason: each costs time for each path


@dataclass(frozen=True)
class Level:
    """The patterns of one `.gitignore`: the directory they are relative to ("notes/"), each with whether it ignores
    or takes back, and a quick first test for all that ignore."""

    prefix: str
    patterns: tuple[tuple[re.Pattern[str], bool], ...]
    quick: re.Pattern[str] | None

    def decides(self, path: str) -> bool | None:
        """Whether the patterns ignore the path (ending in "/" for a directory); None: they say nothing."""
        below = path[len(self.prefix) :]
        if self.quick is not None and self.quick.fullmatch(below) is None:
            return None
        for pattern, ignore in reversed(self.patterns):
            if pattern.fullmatch(below):
                return ignore
        return None


Levels = tuple[Level, ...]


def ignores(levels: Levels, path: str) -> bool:
    """Whether the nearest `.gitignore` that says anything about the path ignores it."""
    for level in reversed(levels):
        decided = level.decides(path)
        if decided is not None:
            return decided
    return False


def parse(prefix: str, content: bytes) -> Level | None:
    """The patterns of a `.gitignore`; lines that are no pattern are passed over, None when there is none."""
    patterns: list[tuple[re.Pattern[str], bool]] = []
    for line in content.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "surrogateescape").split("\n", _MOST)[:_MOST]:
        if len(line) > layout.LONGEST_PATH:
            continue
        with contextlib.suppress(ValueError):
            for each in GitIgnoreSpec.from_lines([line.removesuffix("\r")]).patterns:
                if each.regex is not None and each.include is not None:
                    patterns.append((expression(each.regex.pattern), each.include))
    return Level(prefix, tuple(patterns), _quick(patterns)) if patterns else None


def _quick(patterns: list[tuple[re.Pattern[str], bool]]) -> re.Pattern[str] | None:
    """One expression for all, where none takes anything back."""
    if not all(ignore for _, ignore in patterns):
        return None
    return re.compile("|".join(f"(?:{pattern.pattern})" for pattern, _ in patterns), re.DOTALL)


class Ignoring:
    """Parsed `.gitignore` files, kept as long as they are the same files. Raises OSError when descriptors are short."""

    def __init__(self) -> None:
        self._parsed: dict[str, tuple[tuple[int, int, int, int], Level | None]] = {}

    def deeper(self, levels: Levels, directory: int, path: str) -> Levels:
        """The levels that hold inside an open directory; `path` is "" for the top. A link is not read."""
        prefix = f"{path}/" if path else ""
        level = self._level(directory, prefix)
        return levels if level is None else (*levels, level)

    def _level(self, directory: int, prefix: str) -> Level | None:
        try:
            descriptor = os.open(".gitignore", FILE, dir_fd=directory)
        except OSError as error:
            if error.errno in SHORT_OF:
                raise
            self._parsed.pop(prefix, None)
            return None
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode) or status.st_size > _LONGEST:
                return None
            identity = (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
            known = self._parsed.get(prefix)
            if known is None or known[0] != identity:
                known = (identity, parse(prefix, os.read(descriptor, _LONGEST)))
                self._parsed[prefix] = known
            return known[1]
        finally:
            os.close(descriptor)


def ignored(root: Path, path: str, ignoring: Ignoring) -> bool:
    """Whether the `.gitignore` files on the way to a path, as they are now, name it or a directory above it.

    Raises OSError when the root is gone, Held for a path that is not safe.
    """
    names = parts_of(path)
    levels: Levels = ()
    with contextlib.ExitStack() as stack:
        directory: int | None = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        here = ""
        for name in names:
            if directory is not None:
                stack.callback(os.close, directory)
                levels = ignoring.deeper(levels, directory, here)
            here = f"{here}/{name}" if here else name
            if ignores(levels, here if here == path else f"{here}/"):
                return True
            if directory is not None and here != path:
                directory = _opened(directory, name)
    return False


def _opened(directory: int, name: str) -> int | None:
    try:
        return os.open(name, DIRECTORY, dir_fd=directory)
    except OSError:
        return None  # no deeper patterns to be had; those above still count
