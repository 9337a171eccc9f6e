"""Another machine under this body's name is told for as long as it is there, and nobody else is taken for one."""

from __future__ import annotations

import pytest

from bridge.app import leasing, namesake
from bridge.core.errors import AnswerLost
from tests.app.bodies import Body, Fleet, fleet
from tests.app.test_pass_crash import merging, story, watch
from tests.simulation.points import Crash

DAY = 86400.0
MEMORY = "memories/MEMORY.md"


def alive(body: Body) -> Body:
    """A body whose memory is where it is now since just now."""
    body.soul.born = body.clock.now()
    body.clock.advance(2)
    return body


def twins() -> tuple[Fleet, Body, Body]:
    """One name, two machines, both up to date."""
    world = fleet()
    one = world.body("laptop")
    one.write(MEMORY, "base\n")
    one.settle()
    other = world.body("laptop")
    other.settle()
    one.settle()
    return world, alive(one), alive(other)


def speak(body: Body, name: str) -> None:
    """A body writes a note and publishes it."""
    body.write(f"notes/{name}.md", f"# {name}\n")
    body.settle()


def test_another_machine_is_told_at_every_look_until_it_was_silent_for_two_days() -> None:
    """MERGE-9."""
    world, one, other = twins()
    assert namesake.words(one.soul) == ()
    speak(other, "other")
    assert "two machines share the name laptop" in one.run().notes
    for _ in range(3):
        speak(one, "mine")
        (said,) = namesake.words(one.soul)
        assert "two machines share the name laptop" in said and "soul-bridge init kaoru --take-over" in said
    one.restart()
    assert namesake.words(one.soul) != (), "a restart forgets nothing"
    world.clock.advance(2 * DAY)
    assert namesake.words(one.soul) == ()


def test_both_machines_hear_of_it() -> None:
    """MERGE-9."""
    _, one, other = twins()
    speak(one, "one")
    speak(other, "other")
    one.settle()
    assert namesake.words(one.soul) and namesake.words(other.soul)


def test_a_person_who_takes_the_name_over_hears_no_more_of_what_was() -> None:
    """MERGE-9."""
    _, one, other = twins()
    speak(other, "first")
    one.run()
    speak(other, "second")
    one.clock.advance(2)
    namesake.take_over(one.soul)
    one.settle()
    assert namesake.words(one.soul) == ()
    speak(other, "third")
    one.run()
    assert namesake.words(one.soul) != ()


def test_what_a_restored_body_forgot_is_not_another_machines() -> None:
    """MERGE-9: its own commits are older than the moment when the backup was laid back."""
    _, one, other = twins()
    speak(other, "forgotten")
    one.clock.advance(2)
    one.soul.born = one.clock.now()
    speak(one, "again")
    assert namesake.words(one.soul) == ()


def test_what_came_before_the_last_start_of_the_machine_is_not_another_machines() -> None:
    """MERGE-9: the image of a disk was laid back, so the file of the memory is where it always was."""
    _, one, other = twins()
    speak(other, "forgotten")
    one.clock.step(5)
    one.clock._boottime = 1.0
    assert one.run().notes == () and namesake.words(one.soul) == ()


def test_a_memory_that_moved_to_another_file_is_as_old_as_that_file() -> None:
    seen = twins()[1].seen
    assert namesake.settle_in(seen, 7, 100.0) == 100.0
    assert namesake.settle_in(seen, 7, 200.0) == 100.0
    assert namesake.settle_in(seen, 8, 300.0) == 300.0


@pytest.mark.parametrize("at", range(1, 90))
def test_no_crash_makes_another_machine_of_us(at: int) -> None:
    """MERGE-9: what was pushed before main had it comes back from the remote, and is ours."""
    _, one, _ = story(merging)
    one.soul.born = 0.0
    watch(one, at)
    try:
        one.run()
    except Crash:
        one.restart()
    one.soul.born = 0.0
    one.settle()
    assert namesake.words(one.soul) == ()


def test_a_lease_whose_answer_was_lost_is_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """MERGE-9."""
    _, one, _ = twins()
    push, fetch = one.remote.push, one.remote.fetch

    def lost(expected: str | None, new: str) -> None:
        push(expected, new)
        monkeypatch.setattr(one.remote, "fetch", silent)
        raise AnswerLost("cut")

    def silent(known: object) -> None:
        raise AnswerLost("cut")

    monkeypatch.setattr(one.remote, "push", lost)
    with pytest.raises(AnswerLost):
        leasing.acquire(one.soul, {})
    monkeypatch.setattr(one.remote, "push", push)
    monkeypatch.setattr(one.remote, "fetch", fetch)
    one.settle()
    assert "locks/consolidation.json" in one.tracked() and namesake.words(one.soul) == ()
