"""Cron means what cron means, also on weekdays, and a missed time is made up for once."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from bridge.adapters.schedule import Schedule
from bridge.core.errors import Unusable
from bridge.fakes.clock import FakeClock


@pytest.fixture(autouse=True)
def utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def times(cron: str, number: int, since: str = "2027-01-15T08:00:30") -> list[str]:
    """The next times, from a Friday morning on."""
    schedule = Schedule(cron, lambda: None, jitter=0)
    now, found = datetime.fromisoformat(since).replace(tzinfo=UTC).timestamp(), []
    for _ in range(number):
        following = schedule.next_after(now)
        assert following is not None
        found.append(datetime.fromtimestamp(following, UTC).strftime("%a %d %H:%M"))
        now = following + 1
    return found


@pytest.mark.parametrize(
    ("cron", "expected"),
    [
        ("0 4 * * *", ["Sat 16 04:00", "Sun 17 04:00"]),
        ("*/20 8 * * *", ["Fri 15 08:20", "Fri 15 08:40", "Sat 16 08:00"]),
        ("0 4 * * 0", ["Sun 17 04:00", "Sun 24 04:00"]),
        ("0 4 * * 7", ["Sun 17 04:00", "Sun 24 04:00"]),
        ("0 4 * * 1", ["Mon 18 04:00"]),
        ("0 4 * * sun", ["Sun 17 04:00"]),
        ("0 4 * * 5-7", ["Sat 16 04:00", "Sun 17 04:00", "Fri 22 04:00"]),
        ("0 4 * * 0-1", ["Sun 17 04:00", "Mon 18 04:00", "Sun 24 04:00"]),
        ("0 4 * * */3", ["Sat 16 04:00", "Sun 17 04:00", "Wed 20 04:00"]),
        ("0 4 * * fri-mon", ["Sat 16 04:00", "Sun 17 04:00", "Mon 18 04:00", "Fri 22 04:00"]),
        ("0 4 17 feb *", ["Wed 17 04:00"]),
        ("0 4 20 * 1", ["Mon 18 04:00", "Wed 20 04:00", "Mon 25 04:00"]),
    ],
)
def test_the_times_are_those_of_cron(cron: str, expected: list[str]) -> None:
    assert times(cron, len(expected)) == expected


@pytest.mark.parametrize("cron", ["", "0 4 * *", "0 4 * * * *", "61 4 * * *", "0 4 * * 8", "0 4 * foo *", "0 4 * * x"])
def test_what_means_nothing_is_refused_before_anything_starts(cron: str) -> None:
    with pytest.raises(Unusable) as caught:
        Schedule(cron, lambda: None)
    assert caught.value.exit_code == 2


def test_jitter_delays_and_never_hurries() -> None:
    schedule = Schedule("0 4 * * *", lambda: None, jitter=60)
    due = datetime(2027, 1, 16, 4, tzinfo=UTC).timestamp()
    found = [schedule.next_after(due - 3600) or 0 for _ in range(20)]
    assert all(due <= one <= due + 61 for one in found)
    assert len(set(found)) > 1


def test_a_time_that_was_slept_through_is_made_up_for_once() -> None:
    called = []
    came = threading.Event()

    def due() -> None:
        called.append(1)
        came.set()

    schedule = Schedule("0 4 1 1 *", due, jitter=0)
    schedule.start()
    schedule.start()
    # As after a suspend: the job's time is long past when the scheduler looks again.
    schedule._scheduler.modify_job("consolidation", next_run_time=datetime(2026, 1, 1, tzinfo=UTC))
    assert came.wait(10)
    schedule.stop()
    schedule.stop()
    assert called == [1]


def test_the_fake_clock_stands_until_told() -> None:
    clock = FakeClock(now=100.0, boottime=5.0)
    clock.sleep(2.0)
    clock.step(-50.0)
    assert (clock.now(), clock.boottime()) == (52.0, 7.0)
    with pytest.raises(ValueError, match="step"):
        clock.advance(-1.0)
