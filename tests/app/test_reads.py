"""Who read a file since we wrote it (MERGE-12)."""

from __future__ import annotations

import pytest

from bridge.app.reads import LATE, MOST, SOON, Reads
from bridge.core.errors import Moved
from bridge.fakes.clock import FakeClock

MEMORY = "memories/MEMORY.md"


def seeing() -> tuple[Reads, FakeClock]:
    clock = FakeClock()
    reads = Reads(clock)
    reads.watching(True)
    clock.advance(10)
    return reads, clock


def test_a_read_by_another_counts_from_its_close_on() -> None:
    reads, clock = seeing()
    written = clock.boottime()
    assert not reads.since(MEMORY, written)
    clock.advance(1)
    reads.closed(MEMORY)
    assert reads.since(MEMORY, written)
    assert not reads.since(MEMORY, clock.boottime() + 1)


def test_our_own_reads_are_not_counted_and_pay_for_one_close_each() -> None:
    reads, clock = seeing()
    written = clock.boottime()
    reads.ours(MEMORY)
    reads.ours(MEMORY)
    reads.closed(MEMORY)
    reads.closed(MEMORY)
    assert not reads.since(MEMORY, written)
    reads.closed(MEMORY)
    assert reads.since(MEMORY, written)


def test_a_read_of_ours_that_nobody_told_of_pays_for_nothing_later() -> None:
    reads, clock = seeing()
    written = clock.boottime()
    reads.ours(MEMORY)
    clock.advance(SOON + 0.1)
    reads.closed(MEMORY)
    assert reads.since(MEMORY, written)


def test_where_nobody_can_tell_it_counts_as_read() -> None:
    """MERGE-12: a watcher that cannot tell counts as yes."""
    reads, clock = seeing()
    assert reads.since(MEMORY, 0.0), "written before this process watched"
    written = clock.boottime()
    reads.watching(False)
    assert reads.since(MEMORY, written)
    clock.advance(5)
    reads.watching(True)
    assert reads.since(MEMORY, written)
    assert not reads.since(MEMORY, clock.boottime())


def test_what_is_remembered_has_a_limit_and_what_was_forgotten_counts_as_read() -> None:
    """MERGE-12: who cannot tell says yes; years of files with names of their own fill no memory."""
    reads, clock = seeing()
    written = clock.boottime()
    for number in range(3 * MOST):
        clock.advance(0.001)
        reads.ours(f"notes/ours-{number}.md")
        reads.closed(f"notes/{number}.md")
    assert len(reads._others) <= MOST and len(reads._ours) <= MOST
    assert reads.since("notes/0.md", written), "it was read, and that is forgotten"
    assert reads.since(f"notes/{3 * MOST - 1}.md", written)
    clock.advance(1)
    reads.closed(MEMORY)
    later = clock.boottime()
    assert reads.since(MEMORY, later) and not reads.since("notes/0.md", later), "what comes is told as ever"


def test_what_was_closed_before_an_exchange_was_heard_of_is_a_read_of_the_version_before() -> None:
    """MERGE-12: the watcher hears late, but in order."""
    reads, clock = seeing()
    began = clock.boottime()
    with reads.replacing(MEMORY, began):
        clock.advance(1)
        reads.closed(MEMORY)
    reads.closed(MEMORY)
    reads.left(MEMORY)
    assert not reads.since(MEMORY, began)
    assert reads.since(MEMORY, began - 1), "of what was there before it was a read"
    reads.closed(MEMORY)
    assert reads.since(MEMORY, began)


def test_of_two_exchanges_each_has_its_own_readers() -> None:
    reads, clock = seeing()
    first = clock.boottime()
    with reads.replacing(MEMORY, first):
        clock.advance(1)
    second = clock.boottime()
    with reads.replacing(MEMORY, second):
        reads.closed(MEMORY)
    assert not reads.since(MEMORY, first)
    reads.left(MEMORY)
    reads.closed(MEMORY)
    assert reads.since(MEMORY, first) and not reads.since(MEMORY, second)
    reads.left(MEMORY)
    reads.closed(MEMORY)
    assert reads.since(MEMORY, second)


@pytest.mark.parametrize("heard", ["within", "after"])
def test_an_exchange_that_does_not_take_place_is_forgotten_and_its_look_is_ours(heard: str) -> None:
    reads, clock = seeing()
    earlier = clock.boottime()
    clock.advance(0.1)
    with pytest.raises(Moved), reads.replacing(MEMORY, clock.boottime()):
        clock.advance(0.001)
        reads.ours(MEMORY)
        if heard == "within":
            reads.closed(MEMORY)
        raise Moved("written meanwhile")
    if heard == "after":
        reads.closed(MEMORY)
    assert not reads.since(MEMORY, earlier)
    reads.closed(MEMORY)
    assert reads.since(MEMORY, clock.boottime())


def test_an_exchange_that_the_watcher_never_saw_hides_nothing_for_long() -> None:
    reads, clock = seeing()
    for number in range(3 * MOST):
        clock.advance(0.1)
        with reads.replacing(f"memories/{number}.md", clock.boottime()):
            pass
    assert len(reads._exchanges) <= MOST
    with reads.replacing(MEMORY, clock.boottime()):
        clock.advance(LATE + 1)
    reads.closed(MEMORY)
    assert reads.since(MEMORY, clock.boottime())


def test_what_left_its_name_takes_what_we_owed_for_it_along() -> None:
    """Closes of ours that the kernel told as one pay for no read of the next version."""
    reads, clock = seeing()
    reads.ours(MEMORY)
    clock.advance(0.1)
    with reads.replacing(MEMORY, clock.boottime()):
        reads.left(MEMORY)
    reads.closed(MEMORY)
    assert reads.since(MEMORY, clock.boottime())


def test_our_look_at_what_we_just_laid_pays_for_its_own_close_only() -> None:
    """It may be announced before the watcher has heard of the exchange, and of the agent's read before it."""
    reads, clock = seeing()
    began = clock.boottime()
    with reads.replacing(MEMORY, began):
        clock.advance(0.001)
    reads.ours(MEMORY)
    reads.closed(MEMORY)
    reads.left(MEMORY)
    reads.closed(MEMORY)
    assert not reads.since(MEMORY, began)
    reads.closed(MEMORY)
    assert reads.since(MEMORY, began)


def test_a_file_that_an_agent_moves_away_changes_nothing_about_our_reads() -> None:
    reads, clock = seeing()
    reads.ours(MEMORY)
    reads.left(MEMORY)
    reads.closed(MEMORY)
    assert not reads.since(MEMORY, clock.boottime())


def test_what_an_agent_wrote_hides_ours_until_it_is_recorded() -> None:
    reads, clock = seeing()
    began = clock.boottime()
    with reads.replacing(MEMORY, began):
        reads.came(MEMORY)
        reads.left(MEMORY)
    clock.advance(1)
    reads.written(MEMORY)
    reads.closed(MEMORY)
    assert not reads.since(MEMORY, began)
    reads.recorded(MEMORY, clock.boottime() - 0.5)
    reads.closed(MEMORY)
    assert reads.since(MEMORY, began) is False, "it was written after what was recorded had been looked at"
    clock.advance(1)
    reads.recorded(MEMORY, clock.boottime())
    reads.closed(MEMORY)
    assert reads.since(MEMORY, began)


@pytest.mark.parametrize("hears", ["came", "left"])
def test_a_name_that_an_agent_gave_or_took_hides_ours_too(hears: str) -> None:
    reads, clock = seeing()
    began = clock.boottime()
    with reads.replacing(MEMORY, began):
        reads.came(MEMORY)
        reads.left(MEMORY)
    getattr(reads, hears)(MEMORY)
    reads.closed(MEMORY)
    assert not reads.since(MEMORY, began)


def test_where_names_are_moved_one_after_the_other_the_one_that_comes_is_ours() -> None:
    reads, clock = seeing()
    began = clock.boottime()
    with reads.replacing(MEMORY, began):
        reads.left(MEMORY)
        reads.came(MEMORY)
    reads.closed(MEMORY)
    assert reads.since(MEMORY, began)
    reads.came(MEMORY)
    later = clock.boottime()
    clock.advance(1)
    reads.closed(MEMORY)
    assert not reads.since(MEMORY, later + 0.5)


def test_what_is_remembered_of_writes_has_a_limit() -> None:
    reads, _ = seeing()
    for number in range(2 * MOST):
        reads.written(f"notes/{number}.md")
    assert len(reads._written) <= MOST
