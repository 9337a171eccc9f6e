"""Worlds in which bodies take the consolidation lease and rewrite memories under it, and what would be found there."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import pytest

from bridge.app import materialise
from bridge.core import lease
from tests.simulation.__main__ import failure
from tests.simulation.generate import generate
from tests.simulation.script import Script

WORLDS = 30


def scripts() -> Iterator[Script]:
    """Scripts in which leases are taken."""
    made = map(generate, range(3000, 6000))
    return (script for script in made if sum(step[0] == "lease" for step in script.steps) > 4 and script.bodies < 9)


@pytest.mark.parametrize("number", range(WORLDS))
def test_one_body_holds_the_lease_and_what_its_command_reads_stays(number: int) -> None:
    """LEASE-1, LEASE-2, LEASE-3, MERGE-12: with crashes, lost answers and whoever else is at work."""
    assert failure(next(islice(scripts(), number, None))) == ""


def test_a_lease_that_is_taken_from_its_holder_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The simulation has to be able to fail: LEASE-1."""
    monkeypatch.setattr(lease, "decide", lambda *arguments: lease.Free())
    assert any("LEASE-1" in failure(script) for script in scripts())


def test_a_pass_that_writes_what_a_command_reads_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The simulation has to be able to fail: MERGE-12."""
    aside = materialise._aside

    def thawed(soul, order, progress, wanted):  # type: ignore[no-untyped-def]
        frozen, soul.frozen = soul.frozen, ()
        try:
            return aside(soul, order, progress, wanted)
        finally:
            soul.frozen = frozen

    monkeypatch.setattr(materialise, "_aside", thawed)
    assert any("MERGE-12" in failure(script) for script in scripts())
