"""What a deliberate fault is, and laying it into a copy of the program."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Fault:
    """One mistake that somebody could make.

    name: what the program does wrongly then. file: below `bridge`. old, new: the text and what it becomes; old stands
    there exactly once. rule: what it breaks. tests: those expected to notice, fastest first, as pytest takes them.
    """

    name: str
    file: str
    old: str
    new: str
    rule: str
    tests: tuple[str, ...]

    def lay(self, root: Path) -> str:
        """The text of the file below `root` with the fault in it. Raises Stale when its text is not there just once."""
        text = (root / "bridge" / self.file).read_text("utf-8")
        times = text.count(self.old)
        if times != 1:
            raise Stale(f"“{self.name}”: its text stands {times} times in bridge/{self.file}, not once: {self.old!r}")
        return text.replace(self.old, self.new)


class Stale(Exception):
    """The program changed under a fault: the table of faults has to follow it."""


class Broken(Exception):
    """A fault proved nothing: it broke the program, or its tests fail without it, too."""
