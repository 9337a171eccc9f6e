"""What agents wrote and took away: the ground on which the oracle stands.

Memory files are told by entry, everything else by whole contents. Whatever happened in a way that makes two endings
right is `open`: the oracle then asks only that all bodies agree.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from bridge.core import entries, layout
from bridge.core.errors import Held

Key = tuple[str, str]  # path and entry


def told(content: bytes | None) -> frozenset[str]:
    """The entries of a memory file."""
    try:
        return frozenset(entries.read(content or b""))
    except Held:
        return frozenset()


@dataclass
class Ledger:
    """added, removed, open: entries by path. last: what an agent last did to a path of its body. written: all whole
    contents by path. unsure: paths whose whole content may end in more than one way. changes: how many there were."""

    added: set[Key] = field(default_factory=set)
    removed: set[Key] = field(default_factory=set)
    open: set[Key] = field(default_factory=set)
    last: dict[tuple[str, str], bytes | None] = field(default_factory=dict)
    written: dict[str, set[bytes]] = field(default_factory=lambda: defaultdict(set))
    unsure: set[str] = field(default_factory=set)
    changes: int = 0

    def changed(self, body: str, path: str, before: bytes | None, after: bytes | None, sure: bool = True) -> None:
        """The agent of a body changed a working file."""
        if before == after:
            return
        self.changes += 1
        if layout.is_memory(path):
            return self._memory(path, told(before), told(after), sure)
        self.last[body, path] = after
        if after is not None:
            self.written[path].add(layout.stored(after, path))
        if not sure:
            self.unsure.add(path)
        return None

    def doubt(self, path: str, content: bytes | None) -> None:
        """What a path holds here may come or go by more than one rule."""
        self.unsure.add(path)
        if layout.is_memory(path):
            self.open |= {(path, entry) for entry in told(content)}

    def _memory(self, path: str, before: frozenset[str], after: frozenset[str], sure: bool) -> None:
        for entry in after - before:
            if (path, entry) in self.added:
                self.open.add((path, entry))
            self.added.add((path, entry))
        for entry in before - after:
            self.added.add((path, entry))
            self.removed.add((path, entry))
        if not sure:
            self.open |= {(path, entry) for entry in before ^ after}
