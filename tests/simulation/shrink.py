"""A failing script made smaller: steps are taken out as long as it still fails."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

from tests.simulation.script import Script, Step

Fails = Callable[[Script], bool]


def shrink(script: Script, fails: Fails, budget: int = 3000) -> Script:
    """A script that fails with fewer and simpler steps, after at most so many trials."""
    trials = 0

    def still(steps: list[Step]) -> bool:
        nonlocal trials
        trials += 1
        return trials <= budget and fails(script.with_steps(steps))

    steps = script.steps
    changed = True
    while changed and trials < budget:
        steps, fewer = _fewer(steps, still)
        steps, simpler = _simpler(steps, still)
        changed = fewer or simpler
    return script.with_steps(steps)


def _fewer(steps: list[Step], still: Callable[[list[Step]], bool]) -> tuple[list[Step], bool]:
    """Whole runs of steps taken out, long ones first."""
    changed, size = False, max(1, len(steps) // 2)
    while True:
        at = 0
        while at < len(steps):
            shorter = steps[:at] + steps[at + size :]
            if still(shorter):
                steps, changed = shorter, True
            else:
                at += size
        if size == 1:
            return steps, changed
        size = max(1, size // 2)


def _simpler(steps: list[Step], still: Callable[[list[Step]], bool]) -> tuple[list[Step], bool]:
    """Passes without what happens meanwhile, or with less of it, or alive to the end."""
    changed = False
    for at in range(len(steps)):
        progress = True
        while progress:
            progress = False
            for smaller in _variants(steps[at]):
                trial = [*steps[:at], smaller, *steps[at + 1 :]]
                if still(trial):
                    steps, changed, progress = trial, True, True
                    break
    return steps, changed


def _variants(step: Step) -> Iterator[Step]:
    if step[0] != "pass":
        return
    words: dict[str, Any] = step[2]
    for name in words:
        yield [*step[:2], {key: value for key, value in words.items() if key != name}]
    for number, (point, nested) in enumerate(words.get("between", ())):
        for less in _without(nested):
            between = copy.deepcopy(words["between"])
            between[number] = [point, less]
            yield [*step[:2], {**words, "between": [each for each in between if each[1]]}]


def _without(nested: list[Step]) -> Iterator[list[Step]]:
    for at in range(len(nested)):
        yield nested[:at] + nested[at + 1 :]
        for smaller in _variants(nested[at]):
            yield [*nested[:at], smaller, *nested[at + 1 :]]
