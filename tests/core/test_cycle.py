"""When the next pass begins."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bridge.core import cycle
from bridge.core.cycle import Cycle, Ending

NOW = 1_000.0
POLL = 30.0
CHANCES = st.floats(0, 1, exclude_max=True)


def waits(ending: Ending, times: int, chance: float = 0.0, begin: Cycle | None = None) -> list[float]:
    """Seconds until the remote is asked again, pass after pass with the same ending."""
    state, found = begin or Cycle(POLL), []
    for _ in range(times):
        state = cycle.step(state, ending, NOW, chance)
        found.append(round(state.next_remote - NOW, 6))
    return found


def test_polls_are_lively_after_a_change_and_ease_to_the_configured_pause() -> None:
    """From 1.5 s, for a minute, to poll; at random down to half of it, later to three quarters, and to a second."""
    state = cycle.step(Cycle(POLL), Ending.CHANGED, NOW - 61, 0.999999)
    assert 1.4 < state.next_remote - (NOW - 61) <= cycle.LIVELY
    fresh = cycle.step(Cycle(POLL), Ending.CHANGED, NOW - 59, 0.999999)
    assert max(waits(Ending.QUIET, 40, 0.999999, fresh)) <= cycle.LIVELY
    pauses = waits(Ending.QUIET, 40, 0.999999, state)
    assert pauses == sorted(pauses) and 29 < pauses[-1] <= POLL
    assert waits(Ending.QUIET, 40, 0.0, state)[-1] == POLL * 0.75
    assert waits(Ending.CHANGED, 1, 0.0, Cycle(POLL, pause=POLL))[0] == cycle.LEAST


def test_who_just_heard_from_another_body_listens_closely_for_some_seconds() -> None:
    """Under half a second at first, then an eighth of the age of what came: some 20 polls, then lively as ever."""
    state, now, polls = cycle.step(Cycle(POLL), Ending.CHANGED, NOW, 0.5, NOW), NOW, 0
    assert 0.3 < state.next_remote - NOW < 0.5
    while state.next_remote - now < cycle.LEAST:
        now, polls = state.next_remote, polls + 1
        state = cycle.step(state, Ending.QUIET, now, 0.5, NOW)
    assert 15 <= polls <= 20 and 6 <= now - NOW <= 10, (polls, now - NOW)
    for chance in (0.0, 0.5, 0.999):
        alike = cycle.step(state, Ending.QUIET, NOW + 15, chance, NOW)
        assert alike == cycle.step(state, Ending.QUIET, NOW + 15, chance)


def test_company_changes_nothing_about_patience() -> None:
    for ending in (Ending.MOVED, Ending.TRANSIENT, Ending.REFUSED):
        state = Cycle(POLL, failures=3)
        assert cycle.step(state, ending, NOW, 0.5, NOW) == cycle.step(state, ending, NOW, 0.5)


def test_a_configured_pause_below_the_lively_one_is_kept() -> None:
    assert all(wait <= 0.5 for ending in (Ending.CHANGED, Ending.QUIET) for wait in waits(ending, 5, 0.9, Cycle(0.5)))


def test_a_lost_race_is_run_again_in_a_flat_window() -> None:
    """4 × the last push, 0.2 to 2 s, twice that after eight losses in a row."""
    assert waits(Ending.MOVED, 10, 0.5) == [0.2] * 8 + [0.4] * 2
    assert waits(Ending.MOVED, 1, 0.5, Cycle(POLL, attempt=10.0)) == [1.0]
    assert waits(Ending.MOVED, 1, 0.5, Cycle(POLL, attempt=0.001)) == [0.1]
    assert cycle.step(Cycle(POLL, losses=9), Ending.QUIET, NOW, 0.5).losses == 0


def test_a_remote_that_cannot_be_reached_is_asked_ever_more_rarely() -> None:
    """2 s doubling to 10 min; a success forgets it."""
    found = waits(Ending.TRANSIENT, 40, 0.0)
    assert found[:4] == [1.0, 2.0, 4.0, 8.0] and found[-1] == cycle.LONGEST_RETRY / 2
    assert cycle.step(Cycle(POLL, failures=9), Ending.QUIET, NOW, 0.5).failures == 0


def test_a_refusal_is_waited_out_patiently() -> None:
    """AUTH-5: a revoked body asks rarely, and resumes by itself."""
    found = waits(Ending.REFUSED, 40, 0.0)
    assert found[0] == 45.0 and found[1] == 90.0 and found[-1] == cycle.LONGEST_REFUSAL * 0.75


@given(st.lists(st.tuples(st.sampled_from(Ending), CHANCES), max_size=60))
def test_the_remote_is_asked_again_whatever_happens(endings: list[tuple[Ending, float]]) -> None:
    """AUTH-5: nobody waits for longer than an hour, and nobody asks in a tight loop but in a race."""
    state, now = Cycle(POLL), NOW
    for ending, chance in endings:
        state = cycle.step(state, ending, now, chance)
        wait = state.next_remote - now
        assert 0 <= wait <= cycle.LONGEST_REFUSAL
        assert ending is Ending.MOVED or wait >= 1.0 - 1e-6
        now = state.next_remote
        assert state.remote_due(now)


def test_a_local_change_is_published_at_once_unless_the_remote_refuses_us() -> None:
    quiet = Cycle(POLL, next_remote=NOW + 20)
    assert cycle.hinted(quiet, NOW).next_remote == NOW
    assert cycle.hinted(Cycle(POLL, next_remote=NOW - 5), NOW).next_remote == NOW - 5
    failing = Cycle(POLL, failures=1, next_remote=NOW + 20)
    assert cycle.hinted(failing, NOW) is failing


def test_everything_is_looked_at_every_few_minutes() -> None:
    state = cycle.looked(Cycle(POLL), NOW)
    assert not state.full_due(NOW) and state.full_due(NOW + cycle.FULL_LOOK)
    assert Cycle(POLL).full_due(NOW), "and at the start"


def test_whoever_won_a_push_lets_others_go_first_while_they_are_active() -> None:
    assert cycle.courtesy(None, NOW, 5.0) == 0.0
    assert cycle.courtesy(NOW - 61, NOW, 5.0) == 0.0
    assert cycle.courtesy(NOW - 5, NOW, 5.0) == 15.0
    assert cycle.courtesy(NOW - 5, NOW, 0.01) == 1.0


def test_whoever_wins_every_race_pauses_although_nobody_else_was_seen() -> None:
    assert cycle.courtesy(None, NOW, 0.01, in_a_row=2) == 0.0
    assert cycle.courtesy(None, NOW, 0.01, in_a_row=3) == 1.0
    assert cycle.courtesy(NOW - 61, NOW, 0.5, in_a_row=4) == 1.5


def test_the_next_pass_begins_at_the_earliest_reason() -> None:
    state = Cycle(POLL, next_remote=NOW + 20, next_full=NOW + 100)
    assert cycle.next_wake(state, NOW, None) == 20
    assert cycle.next_wake(state, NOW, NOW + 0.5) == 0.5
    assert cycle.next_wake(state, NOW, NOW + 50) == 20
    assert cycle.next_wake(state, NOW + 500, None) == 0.0
