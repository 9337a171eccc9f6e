"""Who read a file since we wrote it (MERGE-12)."""

from __future__ import annotations

from bridge.app.reads import MOST, SOON, Reads
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
