"""The soul's own `.gitignore` files, at every level, and nothing else: no `info/exclude`, no global excludes (TREE-4).

Asked from the top down, as git does: what is below an ignored directory is not asked about again.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import stat
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from pathspec import GitIgnoreSpec

from bridge.adapters.tree.globs import MOST_WILD, expression, wild
from bridge.adapters.tree.place import DIRECTORY, FILE, parts_of
from bridge.core.errors import SHORT_OF

# A .gitignore longer than this is not read: nobody wrote it.
_LONGEST = 1 << 20
# What a longer line, a line with more that is wild, or a later one says is nothing: who pushes it may mean no good, and
# a path that is not ignored is recorded, so nothing is lost.
_LONGEST_LINE = 1024
_MOST = 2_000  # lines of one file
_HARD = (256, 16_384)  # of them expressions that each path is tried with, and their characters: compiling costs time
_MOST_ABOVE = 1_024  # what one path is tried with, of all files above it
_MOST_IN_ALL = (20_000, 512, 32_768)  # lines, hard ones and their characters, of all files of different content

Ruling = tuple[int, bool]  # the number of a pattern's line, and whether it ignores or takes back


@dataclass
class Rules:
    """The patterns of one content of a `.gitignore`. Most are found by a path's name, or what it ends in; a directory's
    ends in "/". The hard ones are compiled when the first path is asked about."""

    names: dict[str, Ruling] = field(default_factory=dict)
    paths: dict[str, Ruling] = field(default_factory=dict)
    ends: dict[str, Ruling] = field(default_factory=dict)
    lengths: frozenset[int] = frozenset()  # of the ends
    hard: list[tuple[int, str]] = field(default_factory=list)
    lines: int = 0
    _compiled: list[tuple[Ruling, re.Pattern[str]]] | None = None

    @property
    def cost(self) -> int:
        """How many tries a path takes."""
        return 1 + len(self.hard) + len(self.lengths)

    @property
    def weight(self) -> tuple[int, int, int]:
        """Lines, hard ones, and their characters."""
        return self.lines, len(self.hard), sum(len(line) for _, line in self.hard)

    def decides(self, below: str) -> bool | None:
        """Whether they ignore a path relative to their directory; None: they say nothing. The last line that does."""
        name = below[below.rfind("/", 0, -1) + 1 :]
        found = [self.names.get(name), self.paths.get(below), *(self.ends.get(name[-size:]) for size in self.lengths)]
        last: Ruling = max((each for each in found if each is not None), default=(-1, False))
        for ruling, pattern in self._expressions():
            if ruling[0] < last[0]:
                break
            if pattern.fullmatch(below):
                return ruling[1]
        return None if last[0] < 0 else last[1]

    def _expressions(self) -> list[tuple[Ruling, re.Pattern[str]]]:
        if self._compiled is None:
            self._compiled = []
            for number, line in reversed(self.hard):
                with contextlib.suppress(ValueError):
                    for each in GitIgnoreSpec.from_lines([line]).patterns:
                        if each.regex is not None and each.include is not None:
                            self._compiled.append(((number, each.include), expression(each.regex.pattern)))
        return self._compiled


@dataclass(frozen=True)
class Level:
    """The rules of one `.gitignore`, and the directory they are relative to ("notes/")."""

    prefix: str
    rules: Rules

    def decides(self, path: str) -> bool | None:
        """Whether the patterns ignore the path (ending in "/" for a directory); None: they say nothing."""
        return self.rules.decides(path[len(self.prefix) :])


Levels = tuple[Level, ...]


def ignores(levels: Levels, path: str) -> bool:
    """Whether the nearest `.gitignore` that says anything about the path ignores it."""
    for level in reversed(levels):
        decided = level.decides(path)
        if decided is not None:
            return decided
    return False


def parse(content: bytes) -> Rules:
    """The patterns of a `.gitignore`; lines that are no pattern, or none that a person would write, are passed over."""
    rules, room = Rules(), _HARD[1]
    for number, line in enumerate(_lines(content)):
        text = line.rstrip()
        if not text or text.startswith("#") or len(line) > _LONGEST_LINE or wild(line) > MOST_WILD:
            continue
        rules.lines += 1
        ignore, pattern = not text.startswith("!"), text.removeprefix("!")
        if _simple(rules, pattern, (number, ignore)):
            continue
        if len(rules.hard) < _HARD[0] and len(line) <= room:
            room -= len(line)
            rules.hard.append((number, line.removesuffix("\r")))
    rules.lengths = frozenset(map(len, rules.ends))
    return rules


def _lines(content: bytes) -> list[str]:
    text = content.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "surrogateescape")
    return text.split("\n", _MOST)[:_MOST]


def _simple(rules: Rules, pattern: str, ruling: Ruling) -> bool:
    """Put a pattern where it is found without trying: a name, a path, or `*` and what a name ends in."""
    end = pattern.startswith("*")
    literal = pattern.removeprefix("*").removesuffix("/")
    below = literal.removeprefix("/")
    if wild(literal) or "\\" in literal or not below or "" in below.split("/") or (end and "/" in literal):
        return False
    place = rules.ends if end else rules.paths if "/" in literal else rules.names
    place[f"{below}/"] = ruling
    if not pattern.endswith("/"):
        place[below] = ruling
    return True


_NONE = Rules()
_Identity = tuple[int, int, int, int]


class Ignoring:
    """Parsed `.gitignore` files, kept as long as they are the same files; files of one content are parsed once. Beyond
    what is borne of all together they count as empty. Raises OSError when descriptors are short."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[_Identity, bytes]] = {}
        self._used: Counter[bytes] = Counter()
        self._rules: dict[bytes, Rules] = {}
        self._met: set[str] = set()
        self._total = [0, 0, 0]

    def deeper(self, levels: Levels, directory: int, path: str) -> Levels:
        """The levels that hold inside an open directory; `path` is "" for the top. A link is not read."""
        prefix = f"{path}/" if path else ""
        rules = self._found(directory, prefix)
        if not rules.lines or sum(level.rules.cost for level in levels) + rules.cost > _MOST_ABOVE:
            return levels
        return (*levels, Level(prefix, rules))

    def whole(self) -> None:
        """A look at everything begins: what it does not come to is forgotten by the next one."""
        for prefix in self._known.keys() - self._met:
            self._forget(prefix)
        self._met.clear()

    def _found(self, directory: int, prefix: str) -> Rules:
        try:
            descriptor = os.open(".gitignore", FILE, dir_fd=directory)
        except OSError as error:
            if error.errno in SHORT_OF:
                raise
            self._forget(prefix)
            return _NONE
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode) or status.st_size > _LONGEST:
                self._forget(prefix)
                return _NONE
            identity = (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
            self._met.add(prefix)
            known = self._known.get(prefix)
            if known is None or known[0] != identity:
                return self._read(prefix, identity, os.read(descriptor, _LONGEST))
            return self._rules[known[1]]
        finally:
            os.close(descriptor)

    def _read(self, prefix: str, identity: _Identity, content: bytes) -> Rules:
        digest = hashlib.sha256(content).digest()
        self._used[digest] += 1  # before what it was is forgotten: that may be the same
        self._forget(prefix)
        self._known[prefix] = (identity, digest)
        if digest not in self._rules:
            rules = parse(content)
            self._rules[digest] = rules if self._borne(rules) else _NONE
        return self._rules[digest]

    def _borne(self, more: Rules) -> bool:
        total = [one + other for one, other in zip(self._total, more.weight, strict=True)]
        if any(one > most for one, most in zip(total, _MOST_IN_ALL, strict=True)):
            return False
        self._total = total
        return True

    def _forget(self, prefix: str) -> None:
        known = self._known.pop(prefix, None)
        if known is None:
            return
        self._used[known[1]] -= 1
        if not self._used[known[1]]:
            del self._used[known[1]]
            gone = self._rules.pop(known[1])
            self._total = [one - other for one, other in zip(self._total, gone.weight, strict=True)]


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
