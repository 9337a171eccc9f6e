"""A script: everything that happens in one simulated world, as plain steps that JSON can hold.

A step is a list: its name, then its arguments. Every step means something in every world (one that does not apply
does nothing), so that a script stays a script when steps are taken out of it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Step = list[Any]


@dataclass
class Script:
    """How a world begins and what happens in it.

    hinted: at rest, passes look only where hints point. drift: how fast each body's clocks run. tick: how coarse file
    times are, in nanoseconds. why: what failed.
    """

    bodies: int
    steps: list[Step]
    seed: int = 0
    hinted: bool = False
    drift: list[float] = field(default_factory=list)
    tick: int = 0
    why: str = ""

    def dump(self) -> str:
        """As JSON, one step a line."""
        head = {name: value for name, value in vars(self).items() if name != "steps"}
        lines = ",\n  ".join(json.dumps(step) for step in self.steps)
        return json.dumps(head)[:-1] + f', "steps": [\n  {lines}\n]}}\n'

    def with_steps(self, steps: list[Step]) -> Script:
        """The same beginning, other steps."""
        return Script(**{**vars(self), "steps": steps})


def load(path: Path) -> Script:
    """A script from a file that `dump` wrote."""
    return Script(**json.loads(path.read_text()))
