"""Facts kept in a list."""

from __future__ import annotations

from typing import Any


class FakeFacts:
    """Collects facts as (event, fields), oldest first."""

    def __init__(self) -> None:
        self.recorded: list[tuple[str, dict[str, Any]]] = []
        self.passes: list[str | None] = []

    def bind_pass(self, id: str | None) -> None:
        """As the port says."""
        self.passes.append(id)

    def record(self, event: str, **fields: Any) -> None:
        """Keep one fact."""
        self.recorded.append((event, fields))

    def named(self, event: str) -> list[dict[str, Any]]:
        """The fields of every fact of this name."""
        return [fields for name, fields in self.recorded if name == event]
