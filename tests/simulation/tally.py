"""What was explored since exploring last found a fault, added up over runs, and the figure of it in the README."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.simulation.world import World

FILE = Path(__file__).parent / "explored.json"
README = Path(__file__).parents[2] / "README.md"
BEGIN, END = "<!-- explored: written by `python -m tests.simulation --tally` -->", "<!-- /explored -->"


@dataclass
class Tally:
    """seeds: worlds. steps: of scripts. passes: of bodies. deaths: processes that died in the middle of one. changes:
    of files, by agents. lost: worlds in which something was lost or obeyed that must not be."""

    seeds: int = 0
    steps: int = 0
    passes: int = 0
    deaths: int = 0
    changes: int = 0
    lost: int = 0

    def count(self, steps: int, world: World | None) -> None:
        """One more world; None: it failed."""
        self.seeds += 1
        self.steps += steps
        self.lost += world is None
        if world is not None:
            self.passes += world.passes
            self.deaths += world.deaths
            self.changes += world.ledger.changes

    def add_to(self, path: Path) -> Tally:
        """This and what the file holds, which holds it from then on. After a world that failed it begins anew."""
        before = json.loads(path.read_text()) if path.exists() else {}
        both = Tally(**{name: number + before.get(name, 0) for name, number in asdict(self).items()})
        total = Tally() if self.lost else both
        path.write_text(json.dumps(asdict(total), indent=2) + "\n")
        return total

    def figure(self) -> str:
        """A table for people."""
        heads = ("worlds", "steps", "passes", "processes killed in one", "changes by agents")
        numbers = (self.seeds, self.steps, self.passes, self.deaths, self.changes)
        row = " | ".join(f"{number:,}" for number in numbers)
        return f"| {' | '.join(heads)} |\n|{'---:|' * len(heads)}\n| {row} |"


def tell(readme: Path, total: Tally) -> None:
    """Write the figure between its marks. Raises ValueError when a mark is missing."""
    text = readme.read_text("utf-8")
    begin, end = text.index(BEGIN) + len(BEGIN), text.index(END)
    readme.write_text(f"{text[:begin]}\n{total.figure()}\n{text[end:]}", "utf-8")
