"""Entries of memory files: the laws that hold for any three versions, and the few things laws do not say."""

from __future__ import annotations

import functools
import itertools
import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.core import entries
from bridge.core.entries import Arrival
from bridge.core.errors import Held
from tests.pace import patience

SMALL = [word for length in range(4) for word in itertools.product("abc", repeat=length)]
# Everything that the reading of a file turns on.
TRICKY = st.text(alphabet="ab§ \t\r\n\ufeff\xa0\u3000\u2028", max_size=40)
WORDS = st.lists(st.sampled_from("abcdefgh"), max_size=8).map(tuple)


def once(words: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(words))


def inserted_one_by_one(base: tuple[str, ...], ours: tuple[str, ...], theirs: tuple[str, ...]) -> tuple[str, ...]:
    """MERGE-2 and MERGE-3 word for word, without a thought for speed."""
    dropped = {entry for entry in base if entry not in ours or entry not in theirs}
    result = [entry for entry in once(theirs) if entry not in dropped]
    additions = {entry for entry in theirs if entry not in base and entry not in ours}
    before: list[str] = []
    for entry in once(ours):
        if entry not in dropped and entry not in result:
            there = [earlier for earlier in before if earlier in result]
            place = result.index(there[-1]) + 1 if there else 0
            while place < len(result) and result[place] in additions:
                place += 1
            result.insert(place, entry)
        before.append(entry)
    return tuple(result)


def test_merge_is_the_rule_word_for_word_on_every_small_triple() -> None:
    """MERGE-2, MERGE-3 over all 64,000 triples of up to three entries."""
    for base, ours, theirs in itertools.product(SMALL, repeat=3):
        assert entries.merge(base, ours, theirs) == inserted_one_by_one(base, ours, theirs)


@given(base=WORDS, ours=WORDS, theirs=WORDS)
def test_no_entry_is_invented_lost_or_brought_back(
    base: tuple[str, ...], ours: tuple[str, ...], theirs: tuple[str, ...]
) -> None:
    """MERGE-2"""
    result = entries.merge(base, ours, theirs)
    assert result == inserted_one_by_one(base, ours, theirs)
    assert len(result) == len(set(result))
    assert set(result) <= set(ours) | set(theirs), "invented"
    assert (set(ours) | set(theirs)) - set(base) <= set(result), "an addition was lost"
    assert not (set(base) - set(ours)) & set(result), "a deletion of ours was undone"
    assert set(base) & set(result) == set(base) & set(ours) & set(theirs), "a deletion on either side wins"


@given(base=WORDS, other=WORDS)
def test_a_side_that_changed_nothing_leaves_the_other_as_it_is(base: tuple[str, ...], other: tuple[str, ...]) -> None:
    """MERGE-2; the order of ours when theirs did not change is MERGE-1's business, on bytes."""
    assert entries.merge(base, base, other) == once(other)
    assert set(entries.merge(base, other, base)) == set(other)
    assert entries.merge(base, other, other) == once(other)


@given(base=WORDS, ours=WORDS, theirs=WORDS)
def test_merging_again_changes_nothing(base: tuple[str, ...], ours: tuple[str, ...], theirs: tuple[str, ...]) -> None:
    """MERGE-3, MERGE-11: the same merge replayed, with either parent, ends in the same bytes."""
    result = entries.merge(base, ours, theirs)
    assert entries.merge(base, ours, result) == result
    assert entries.merge(theirs, result, theirs) == result
    assert entries.write(entries.merge(base, ours, theirs)) == entries.write(result)


@given(base=WORDS, ours=WORDS, theirs=WORDS)
def test_what_they_published_keeps_its_order(
    base: tuple[str, ...], ours: tuple[str, ...], theirs: tuple[str, ...]
) -> None:
    """MERGE-3"""
    result = entries.merge(base, ours, theirs)
    published = [entry for entry in result if entry in theirs]
    assert published == [entry for entry in once(theirs) if entry in result]


@given(content=st.binary(max_size=60) | TRICKY.map(lambda text: text.encode()))
def test_no_bytes_break_the_reader(content: bytes) -> None:
    """FORM-3: any bytes are read or held, and every other question about them has an answer."""
    entries.problems("memories/MEMORY.md", content)
    entries.suspicious(content, b"a\n")
    entries.suspicious(b"a\n", content)
    try:
        read = entries.read(content)
    except Held as error:
        assert error.rule == "FORM-3" and error.advice
    else:
        assert all(entry and entry == entry.strip(entries.WHITE) for entry in read)


@given(text=TRICKY)
def test_what_was_read_is_written_and_read_again_unchanged(text: str) -> None:
    """FORM-3: also where white space went that had kept a sign from being a separator."""
    read = entries.read(text.encode())
    written = entries.write(read)
    assert entries.read(written) == read
    assert entries.write(entries.read(written)) == written
    assert entries.problems("memories/MEMORY.md", written) == []


def test_a_line_that_would_cut_an_entry_in_two_is_indented() -> None:
    """FORM-3: an entry that no reader made is still one entry when it comes back."""
    assert entries.read(entries.write(["a\n§\nb", "c"])) == ("a\n §\nb", "c")


def test_ten_thousand_entries_are_merged_from_bytes_to_bytes_in_a_tenth_of_a_second() -> None:
    """MERGE-2: 1 MiB on each side, with changes in every tenth entry."""
    whole = [f"entry {number} ".ljust(100, "x") for number in range(10_000)]
    ours = [text + "o" if number % 20 == 5 else text for number, text in enumerate(whole) if number % 40]
    theirs = [text + "t" if number % 20 == 7 else text for number, text in enumerate(whole) if number % 41]
    base, here, there = (entries.write(texts) for texts in (whole, ours, theirs))
    took = []
    for _ in range(5):
        started = time.perf_counter()
        result = entries.write(entries.merge(*map(entries.read, (base, here, there))))
        took.append(time.perf_counter() - started)
    assert len(result) > 900_000
    # Measuring which lines ran makes every line several times slower.
    assert min(took) < (0.1 if sys.gettrace() is None else 1.0)


@pytest.mark.parametrize("piece", ["§\n", "\r\n", "§", " ", "a\n§\n", "\n §", "\u3000"])
def test_no_file_of_a_megabyte_takes_long(piece: str) -> None:
    """FORM-3: reading is linear whatever is in the file."""
    content = piece.encode() * (1_000_000 // len(piece.encode()))
    started = time.perf_counter()
    entries.write(entries.read(content))
    assert time.perf_counter() - started < 2 * patience()


def test_the_problems_of_a_memory_file_name_their_lines() -> None:
    """FORM-3"""

    def lines(text: str) -> list[int]:
        return [problem.line for problem in entries.problems("memories/USER.md", text.encode())]

    assert lines("a\n§\nb\n") == lines("") == lines("a\r\n§\r\nb\r\n") == []
    assert lines("\ufeffa\n") == [1]
    assert lines("§\na\n") == [1]
    assert lines("a\n§ \nb\n") == [2]
    assert lines("a\n§\n§\nb\n") == [3]
    assert lines("a\n§\n") == [3]
    assert lines("a") == [1]
    assert lines("a\n\n") == [3]
    assert lines("a\n\n§\nb\n") == [0]
    assert [problem.rule for problem in entries.problems("memories/USER.md", b"\xff")] == ["FORM-3"]


@given(seen=WORDS, unread=st.lists(st.sampled_from("uvwxyz"), min_size=1, max_size=4, unique=True), own=WORDS)
def test_what_a_write_has_not_read_it_does_not_delete(
    seen: tuple[str, ...], unread: list[str], own: tuple[str, ...]
) -> None:
    """MERGE-12: a writer with an old copy deletes from that copy only, however often we wrote meanwhile."""
    versions = [once(seen) + tuple(unread[:length]) for length in range(len(unread) + 1)]
    arrivals = [Arrival(before, after) for before, after in itertools.pairwise(versions)]
    base = entries.base_of_write(own, versions[-1], arrivals, read_since=False)
    assert base == versions[0]
    assert set(unread) <= set(entries.merge(base, own, versions[-1]))


@given(seen=WORDS, arrived=st.lists(st.sampled_from("uvwxyz"), min_size=2, max_size=4, unique=True), own=WORDS)
def test_what_a_write_has_read_it_may_delete(seen: tuple[str, ...], arrived: list[str], own: tuple[str, ...]) -> None:
    """MERGE-12: one entry of the newest arrival shows that all that came before was there to be read."""
    versions = [once(seen) + tuple(arrived[:length]) for length in range(len(arrived) + 1)]
    arrivals = [Arrival(before, after) for before, after in itertools.pairwise(versions)]
    written = (*own, arrived[-1])
    base = entries.base_of_write(written, versions[-1], arrivals, read_since=False)
    assert base == versions[-1]
    assert set(entries.merge(base, written, versions[-1])) == set(written)
    assert entries.base_of_write(own, versions[-1], arrivals, read_since=True) == versions[-1]


@given(st.lists(st.lists(st.sampled_from("abcdef"), unique=True).map(tuple), min_size=2, max_size=6))
def test_writes_that_follow_each_other_are_one_write(versions: list[tuple[str, ...]]) -> None:
    """MERGE-12: nothing stood between them, so nothing is added to the first version and the last."""
    writes = [Arrival(one, two) for one, two in itertools.pairwise(versions) if one != two]
    if writes:
        assert functools.reduce(Arrival.then, writes) == Arrival(writes[0].before, writes[-1].after)


def test_what_the_agent_wrote_between_two_writes_came_with_neither() -> None:
    """MERGE-12: it stands on both sides of the write that stands for the two."""
    one, two = Arrival(("a",), ("a", "b")), Arrival(("a", "b", "own"), ("a", "b", "own", "c"))
    assert one.then(two) == Arrival(("a", "own"), ("a", "b", "own", "c"))
    assert one.then(Arrival(("a", "own"), ("a", "own"))) == Arrival(("a", "own"), ("a", "b", "own"))
