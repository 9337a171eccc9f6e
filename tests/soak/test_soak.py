"""What holds after a long time, in short: `python -m tests.soak` does the same at full length."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bridge.app.host import Host
from tests.soak.lease import Eight

ROUNDS = 6


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    running = Host(tmp_path / "host").start()
    yield running
    running.stop()


def test_eight_bodies_that_ask_at_once_get_one_lease_whatever_their_clocks_say(host: Host, tmp_path: Path) -> None:
    """LEASE-1, LEASE-2, LEASE-3: exactly one holder in every round, whether it gives the lease up or dies."""
    eight = Eight(host, tmp_path, seed=1)
    try:
        for number in range(ROUNDS):
            eight.round(dies=number % 3 == 2)
    finally:
        eight.close()
