"""Worlds whose server refuses what holds a secret (REPO-8), and what the simulation would find there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import Any

import pytest

from bridge.app import withholding
from bridge.app.soul import Soul
from bridge.core.model import Merged
from bridge.core.withhold import Withheld
from tests.simulation.__main__ import failure
from tests.simulation.generate import generate
from tests.simulation.script import Script

WORLDS = 30


def scripts() -> Iterator[Script]:
    """Scripts in which the server scans from the beginning."""
    return (script for script in map(generate, range(1000, 2000)) if ["scan", 0] in [step[:2] for step in script.steps])


@pytest.mark.parametrize("number", range(WORLDS))
def test_only_what_the_server_minds_is_held_and_all_of_it_arrives_in_the_end(number: int) -> None:
    """REPO-8, GUARD-5: bodies rest while the server scans, held paths excepted, and agree when it no longer does."""
    assert failure(next(islice(scripts(), number, None))) == ""


def test_a_pass_that_withholds_nothing_of_what_was_refused_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The simulation has to be able to fail: main without a path that is seen and not held is a deletion (REPO-8)."""
    monkeypatch.setattr(withholding, "_new_holds", lambda *arguments: {})
    assert any(failure(script) for script in scripts())


def test_a_pass_that_takes_main_for_the_base_of_what_is_held_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The simulation has to be able to fail: what a refused write had not read would be deleted (REPO-8, MERGE-12)."""
    joined = withholding._joined

    def wrong(soul: Soul, holds: dict[str, Withheld], since: Any, theirs: str) -> Merged:
        return joined(soul, {path: replace(hold, base=theirs) for path, hold in holds.items()}, since, theirs)

    monkeypatch.setattr(withholding, "_joined", wrong)
    assert any(failure(script) for script in scripts())
