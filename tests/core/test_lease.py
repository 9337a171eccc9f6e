"""The lease: whatever the clocks say, no two bodies believe at one moment that they hold it."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.core import lease
from bridge.core.lease import Duty, Free, HeldBy, Mine, Sighting


@given(
    pushed=st.floats(0, 4000),
    first=st.floats(0, 4000),
    after=st.floats(0, 7200),
    skew=st.integers(-(10**7), 10**7),
    theirs=st.integers(-(10**7), 10**7),
)
def test_nobody_takes_a_lease_seen_to_appear_while_its_holder_works(
    pushed: float, first: float, after: float, skew: int, theirs: int
) -> None:
    """LEASE-2, LEASE-3: both clocks may be wrong by hours. All times are on one true clock, in seconds."""
    content = lease.write("pi", lease.until(int(pushed * 1000) + theirs))
    looked = pushed + first
    sighting = lease.sight(lease.sight(None, None, pushed - 1), content, looked)
    taken_at = looked + after
    answer = lease.decide(sighting, None, int(taken_at * 1000) + skew, taken_at)
    assert isinstance(answer, HeldBy) or lease.duty(pushed, taken_at) is Duty.STOP


@given(pushed=st.floats(0, 4000), after=st.floats(0, 7200), skew=st.integers(-119_000, 119_000))
def test_nobody_takes_a_lease_found_at_the_first_look_while_its_holder_works(
    pushed: float, after: float, skew: int
) -> None:
    """LEASE-3: here clocks count, and two minutes between them are allowed for."""
    content = lease.write("pi", lease.until(int(pushed * 1000)))
    taken_at = pushed + after
    answer = lease.decide(lease.sight(None, content, pushed), None, int(taken_at * 1000) + skew, taken_at)
    assert isinstance(answer, HeldBy) or lease.duty(pushed, taken_at) is Duty.STOP


@given(content=st.none() | st.binary(max_size=30), ours=st.none() | st.binary(max_size=30), now=st.integers())
def test_no_bytes_break_the_decision_and_every_lease_ends(content: bytes | None, ours: bytes | None, now: int) -> None:
    """LEASE-3: whatever stands there, after 31 minutes of it another may go on."""
    sighting = lease.sight(None, content, 0)
    assert isinstance(lease.decide(sighting, ours, now, 0), Free | Mine | HeldBy)
    assert isinstance(lease.decide(sighting, None, now, lease.SURE_AFTER), Free)
    lease.problems("locks/consolidation.json", content or b"")


def test_a_wait_is_over_when_it_said_it_would_be() -> None:
    """LEASE-3"""
    content = lease.write("pi", 2_000_000)
    for appeared, start in itertools.product([False, True], [0, 1_000_000, 3_000_000]):
        sighting = Sighting(content, 100.0, appeared)
        answer = lease.decide(sighting, None, start, 100.0)
        if isinstance(answer, HeldBy):
            assert (answer.body, answer.until) == ("pi", 2_000_000)
            later = lease.decide(sighting, None, start + int(answer.wait * 1000), 100.0 + answer.wait)
            assert later == Free()
            just_before = lease.decide(sighting, None, start + int(answer.wait * 1000) - 1, 99.0 + answer.wait)
            assert isinstance(just_before, HeldBy)


def test_looks_remember_when_a_lease_appeared() -> None:
    """LEASE-3"""
    first = lease.sight(None, b"a", 1)
    assert first == Sighting(b"a", 1, appeared=False)
    assert lease.sight(first, b"a", 2) is first
    assert lease.sight(first, b"b", 3) == Sighting(b"b", 3, appeared=True)
    assert lease.sight(lease.sight(first, None, 4), b"a", 5) == Sighting(b"a", 5, appeared=True)


def test_a_lease_is_valid_for_thirty_minutes_and_written_on_one_line() -> None:
    """FORM-7, LEASE-1"""
    content = lease.write("pi", lease.until(1_000))
    assert content == b'{"body":"pi","until":1801000}\n'
    assert lease.read(content) == lease.Lease("pi", 1_801_000)
    assert lease.problems("locks/consolidation.json", content) == []


def test_the_holder_renews_at_half_time_and_stops_a_minute_before_the_end() -> None:
    """LEASE-3"""
    assert lease.renews(10.0) == 910.0
    assert lease.stops(10.0) == 1750.0
    duties = [lease.duty(10.0, at) for at in (10.0, 909.9, 910.0, 1749.9, 1750.0, 9999.0)]
    assert duties == [Duty.KEEP, Duty.KEEP, Duty.RENEW, Duty.RENEW, Duty.STOP, Duty.STOP]


@pytest.mark.parametrize(
    ("content", "line"), [(b"", 0), (b"[]", 0), (b'{"body": "pi", "until": 1}\n', 1), (b'{"body":"pi","until":1}', 1)]
)
def test_a_lease_of_another_form_is_reported(content: bytes, line: int) -> None:
    """FORM-7"""
    found = lease.problems("locks/consolidation.json", content)
    assert [(problem.rule, problem.line) for problem in found] == [("FORM-7", line)]


def test_a_lease_is_mine_only_when_it_is_the_very_one_that_i_wrote() -> None:
    """LEASE-3: two machines may share a name; one renewed since is another one, too."""
    mine, other = lease.write("laptop", 1_800_000), lease.write("laptop", 1_800_001)
    for ours in (mine, None):
        verdict = lease.decide(lease.sight(None, other, 0.0), ours, 0, 0.0)
        assert isinstance(verdict, HeldBy) and verdict.body == "laptop"
    assert lease.decide(lease.sight(None, mine, 0.0), mine, 0, 0.0) == Mine(1_800_000)
