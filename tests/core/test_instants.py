"""Instants as text."""

from __future__ import annotations

import pytest

from bridge.core import instants


@pytest.mark.parametrize("at", [0.0, 1_800_000_000.125, 253_402_300_799.0])
def test_an_instant_survives_being_written(at: float) -> None:
    text = instants.iso(at)
    assert text is not None and text.endswith("Z")
    assert instants.seconds(text) == pytest.approx(at, abs=0.001)


@pytest.mark.parametrize("at", [None, 1e18, float("nan"), float("inf")])
def test_what_no_calendar_has_is_no_instant(at: float | None) -> None:
    assert instants.iso(at) is None


@pytest.mark.parametrize("text", [None, 5, "yesterday", ""])
def test_what_is_no_instant_reads_as_none(text: object) -> None:
    assert instants.seconds(text) is None
