"""What was last seen, in memory: a transaction that does not end well leaves nothing behind."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from bridge.core.model import SeenEntry


class FakeSeen:
    """Entries by path and remembered values by name."""

    def __init__(self) -> None:
        self.entries: dict[str, SeenEntry] = {}
        self.memory: dict[str, str] = {}
        self._depth = 0

    @contextmanager
    def transaction(self) -> Iterator[None]:
        if self._depth:
            yield
            return
        before = dict(self.entries), dict(self.memory)
        self._depth = 1
        try:
            yield
        except BaseException:
            self.entries, self.memory = before
            raise
        finally:
            self._depth = 0

    def get(self, path: str) -> SeenEntry | None:
        return self.entries.get(path)

    def put(self, path: str, entry: SeenEntry | None) -> None:
        if entry is None:
            self.entries.pop(path, None)
        else:
            self.entries[path] = entry

    def under(self, directory: str) -> dict[str, SeenEntry]:
        return {
            path: entry
            for path, entry in sorted(self.entries.items())
            if not directory or path == directory or path.startswith(directory + "/")
        }

    def count(self) -> int:
        return len(self.entries)

    def recall(self, name: str) -> Any:
        text = self.memory.get(name)
        return None if text is None else json.loads(text)

    def remember(self, name: str, value: Any) -> None:
        if value is None:
            self.memory.pop(name, None)
        else:
            self.memory[name] = json.dumps(value)
