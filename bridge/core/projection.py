"""What a framework with a limit gets of a memory file, and what its answer means.

Rules: FRAMEWORK-1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bridge.core import entries as memory

JOINT = f"\n{memory.SEPARATOR}\n"


@dataclass(frozen=True, slots=True)
class Projection:
    """Entries a framework was given and entries it was not, each in the soul's order; `whole` is all of them."""

    kept: tuple[str, ...]
    left_out: tuple[str, ...]
    whole: tuple[str, ...]


def project(entries: Sequence[str], limit: int | None, measure: Callable[[str], int] = len) -> Projection:
    """Whole entries, in order, as long as they fit; one that does not fit is passed over, later ones may.

    limit: of what `measure` counts, separators between entries included; None is no limit.
    """
    whole = tuple(dict.fromkeys(entries))
    kept: list[str] = []
    left_out: list[str] = []
    room, joint = limit, measure(JOINT)
    for entry in whole:
        cost = measure(entry) + (joint if kept else 0)
        if room is not None and cost > room:
            left_out.append(entry)
            continue
        room = None if room is None else room - cost
        kept.append(entry)
    return Projection(tuple(kept), tuple(left_out), whole)


def take_back(projection: Projection, returned: Sequence[str]) -> tuple[str, ...]:
    """The soul's entries after the framework returned its own: what it was not given it cannot have deleted."""
    return memory.merge(projection.kept, projection.whole, returned)
