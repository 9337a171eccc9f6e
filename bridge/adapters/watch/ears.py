"""Who listens to what a soul's watcher hears."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

OnHint = Callable[[str | None], None]


class Ears(Protocol):
    """What becomes of a file, told by its path relative to the root, in the order of what happened."""

    def closed(self, path: str) -> None:
        """It was closed after it was opened for reading only, by whomever, ours included."""

    def left(self, path: str) -> None:
        """It gave its name up, as it does when another takes its place in an exchange."""

    def came(self, path: str) -> None:
        """One got a name, or was made."""

    def written(self, path: str) -> None:
        """It was written in place."""
