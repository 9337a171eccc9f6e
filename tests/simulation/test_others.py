"""Worlds in which some bodies run another implementation (COMMIT-3), and what would be found there."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import pytest

from bridge.core import entries
from tests.simulation.__main__ import failure
from tests.simulation.generate import generate
from tests.simulation.script import Script

WORLDS = 30


def scripts() -> Iterator[Script]:
    """Scripts in which others take part."""
    made = map(generate, range(6000, 12000))
    return (script for script in made if sum(step[0] == "other" for step in script.steps) > 4 and script.bodies < 9)


@pytest.mark.parametrize("number", range(WORLDS))
def test_beside_another_implementation_nothing_is_lost_and_all_agree(number: int) -> None:
    """COMMIT-3, FORM-3, MERGE-10: its form, its subjects, its merges and its fixed files are history like any other."""
    assert failure(next(islice(scripts(), number, None))) == ""


def test_who_splits_memories_only_where_our_own_form_does_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The simulation has to be able to fail: FORM-3."""
    monkeypatch.setattr(entries, "_split", lambda text: iter(text.removesuffix("\n").split("\n§\n") if text else ()))
    assert any(failure(script) for script in scripts())
