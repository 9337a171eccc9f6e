"""A pair under observation: notes are written into it, and the instants at which they arrive are kept."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from bench.measure import NotSeen, now, sleep, until
from bench.peers.pair import Pair
from bench.results import Results
from bench.world import World

FLOOR, OURS = "plain git", "soul-bridge"


@dataclass
class Arrivals:
    """Seconds from writes to the remote and to the other folder; `missed`: writes that were not seen in time."""

    remote: list[float] = field(default_factory=list)
    there: list[float] = field(default_factory=list)
    missed: int = 0

    def rows(self, results: Results, world: World, cases: tuple[str, str], who: str) -> None:
        """Two rows."""
        note = f"{self.missed} not seen within {world.sizes.longest:g} s" if self.missed else ""
        line = world.network.name
        results.add(cases[0], who, line, "s", self.remote, note=note, than=FLOOR)
        results.add(cases[1], who, line, "s", self.there, note=note, than=OURS)


@dataclass
class Watch:
    """Writes notes into a pair and notes when each of them arrived."""

    pair: Pair
    longest: float
    found: Arrivals = field(default_factory=Arrivals)
    serial: int = 0

    def one(self, look: float = 0.002) -> None:
        """Write one note and wait for it at both places."""
        self.serial += 1
        name, content = f"notes/bench/n{self.serial:03d}.md", f"# n{self.serial:03d}\n\n{random.random()}\n"  # noqa: S311
        before = self.pair.mark()
        self.pair.write(name, content)
        self._await(name, content, before, now(), look)

    def _await(self, name: str, content: str, before: object, began: float, look: float) -> None:
        remote = there = None
        while remote is None or there is None:
            mark, at = self.pair.mark(), now()
            if remote is None and mark != before:
                before = mark
                remote = at if self.pair.arrived(name, content) else None
            if there is None and self.pair.reads(name) == content:
                there = at
            if at - began > self.longest:
                self.found.missed += 1
                break
            sleep(look)
        self.found.remote += [remote - began] if remote is not None else []
        self.found.there += [there - began] if there is not None else []

    def ready(self) -> None:
        """Wait until the pair works at all. Raises NotSeen."""
        written: dict[str, str] = {}
        for number in range(10):
            name = f"notes/bench/w{number}.md"
            written[name] = f"# w{number}\n\nready\n"
            self.pair.write(name, written[name])
            try:
                until(lambda: self._any(written), "the pair works", self.longest / 10 + 5, 0.02)
                return
            except NotSeen:
                continue
        raise NotSeen("nothing arrived at the other machine")

    def _any(self, written: dict[str, str]) -> bool:
        # Of what acts by the clock, the first one may well arrive while the third is awaited.
        return any(self.pair.reads(name) == content for name, content in written.items())
