"""What is measured. One room per case; each gives its rows to the results of the run and checks what it measured."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from bench.cases import arrival, clone, eight, growth, merging, passes, rest, starting, transport, wire
from bench.results import Results
from bench.world import World


@dataclass(frozen=True)
class Case:
    """name: as --only knows it. slow: also measured over the slow line."""

    name: str
    run: Callable[[World, Results], None]
    slow: bool = False


ALL = (
    Case("transport", transport.run, slow=True),
    Case("arrival", arrival.run, slow=True),
    Case("rested", arrival.rested),
    Case("eight", eight.run, slow=True),
    Case("merging", merging.run),
    Case("clone", clone.run),
    Case("passes", passes.run),
    Case("starting", starting.run),
    Case("rest", rest.run),
    Case("wire", wire.run),
    Case("growth", growth.run),
)
