"""Whether git's index holds paths that stand unmerged (REPO-7).

`git stash pop`, `git merge --squash` and `git cherry-pick -n` leave no other trace of a conflict: the working file has
both sides between marks, and a person has yet to choose.
"""

from __future__ import annotations

import hashlib
import os
import stat
import struct
from pathlib import Path

_STAGE = 0x30
_EXTENDED = 0x40


class Unmerged:
    """Of one index file; it is read again only when another stands there than at the last look."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._mark: tuple[int, int, int] | None = None
        self._found = False

    def learn(self, mark: tuple[int, int, int], found: bool) -> None:
        """What is known of the index with this mark, so that nobody reads it again: it may be ten megabytes."""
        self._mark, self._found = mark, found

    def found(self) -> bool:
        """Whether a path stands unmerged. An index that is missing, damaged or cannot be read says nothing of that, and
        stops nobody. Never raises."""
        try:
            mark = _mark(os.stat(self._path))
            if mark != self._mark:
                with open(self._path, "rb", opener=lambda path, flags: os.open(path, flags | os.O_NONBLOCK)) as file:
                    opened = os.fstat(file.fileno())
                    self._found = stat.S_ISREG(opened.st_mode) and holds_any(file.read())
                self._mark = _mark(opened)
        except OSError:
            self._mark, self._found = None, False
        return self._found


def holds_any(raw: bytes) -> bool:
    """Whether an index of version 2, 3 or 4 has an entry of another stage than 0; False for what is none."""
    body = raw[:-20]
    if raw[-20:] not in (hashlib.sha1(body, usedforsecurity=False).digest(), bytes(20)):
        return False
    try:
        signature, version, count = struct.unpack_from(">4sII", body)
        if signature != b"DIRC" or version not in (2, 3, 4):
            return False
        at = 12
        for _ in range(count):
            if body[at + 60] & _STAGE:
                return True
            at = _following(body, at, version)
    except (struct.error, ValueError, IndexError):
        pass
    return False


def _following(body: bytes, at: int, version: int) -> int:
    """Where the entry after the one at `at` starts."""
    start = at + 62 + (2 if body[at + 60] & _EXTENDED else 0)
    if version < 4:
        return at + ((body.index(b"\0", start) - at + 8) & ~7)
    while body[start] & 128:
        start += 1
    return body.index(b"\0", start + 1) + 1


def _mark(found: os.stat_result) -> tuple[int, int, int]:
    return found.st_mtime_ns, found.st_size, found.st_ino
