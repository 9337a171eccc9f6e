"""What holds after a long time, in short: `python -m tests.soak` does the same at full length."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bridge.app.host import Host
from tests.soak.lease import Eight
from tests.soak.years import Years, steady

ROUNDS = 6
POINTS = (60, 120, 240)  # commits


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    running = Host(tmp_path / "host").start()
    yield running
    running.stop()


def test_eight_bodies_that_ask_at_once_get_one_lease_whatever_their_clocks_say(host: Host, tmp_path: Path) -> None:
    """LEASE-1, LEASE-2, LEASE-3: exactly one holder in every round, whether it gives the lease up or dies."""
    eight = Eight(host, tmp_path / "lease", seed=1)
    try:
        for number in range(ROUNDS):
            eight.round(dies=number % 3 == 2)
    finally:
        eight.close()


def test_months_of_two_bodies_leave_nothing_behind_but_their_history(host: Host, tmp_path: Path) -> None:
    """Neither what is remembered, nor memory, nor descriptors grow with what was done; both end the same."""
    years = Years(host, tmp_path / "years")
    try:
        measures = [years.live(commits) for commits in POINTS]
        years.check()
    finally:
        years.close()
    assert steady(measures) == [], measures
