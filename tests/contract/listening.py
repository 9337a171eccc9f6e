"""Ears that pass on what was closed after a read, and nothing else."""

from __future__ import annotations

from collections.abc import Callable


class Closes:
    """Ears for `Watch`."""

    def __init__(self, told: Callable[[str], object]) -> None:
        self.closed = told

    def left(self, path: str) -> None:
        """Nobody asks."""

    came = written = left
