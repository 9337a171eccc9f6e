"""Between any two port calls of a pass the world may go on, or the process may die."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

# Calls that neither change anything nor read what another could change meanwhile are no points: they only cost time.
QUIET = {
    "repo": {"has", "read", "size", "write", "info", "entry", "kind", "files", "diff", "edit", "bases"}
    | {"is_ancestor", "touched", "ever", "log", "commit"},
    "seen": {"get", "under", "count", "recall"},
    "tree": {"ignored"},
    "remote": set(),
}


class Crash(BaseException):
    """The process is gone, here and now."""


class Watched:
    """A port whose calls are points: `point(name)` is called before and after each."""

    def __init__(self, port: Any, name: str, point: Callable[[str], None]) -> None:
        self._port = port
        self._name = name
        self._point = point

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._port, name)
        if not callable(found) or name in QUIET[self._name]:
            return found
        label = f"{self._name}.{name}"
        if name == "transaction":
            return lambda: self._transaction(label)

        def call(*arguments: Any, **named: Any) -> Any:
            self._point(label + " before")
            answer = found(*arguments, **named)
            self._point(label + " after")
            return answer

        return call

    @contextmanager
    def _transaction(self, label: str) -> Iterator[None]:
        self._point(label + " before")
        with self._port.transaction():
            yield
            self._point(label + " inside")
        self._point(label + " after")
