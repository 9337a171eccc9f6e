"""The lease: one holder at a time, taken by the push that succeeds."""

from __future__ import annotations

import pytest

from bridge.app import leasing
from bridge.core.errors import AnswerLost, Refused, Transient
from tests.app.bodies import Body, fleet

HALF_AN_HOUR = 1800.0


def pair() -> tuple[Body, Body]:
    world = fleet()
    one, two = world.body("laptop"), world.body("phone")
    one.settle()
    two.settle()
    world.settle()
    return one, two


def test_the_lease_that_was_pushed_is_held_by_one_body() -> None:
    """LEASE-1, LEASE-2: the second one is told who holds it."""
    one, two = pair()
    assert leasing.acquire(one.soul, {})["lease"]["mine"] is True
    with pytest.raises(Refused, match="laptop") as refused:
        leasing.acquire(two.soul, {})
    assert refused.value.exit_code == 6
    assert leasing.show(two.soul, {})["lease"]["body"] == "laptop"
    assert leasing.show(one.soul, {})["lease"]["mine"] is True


def test_acquiring_again_renews() -> None:
    """LEASE-3: a holder that asks again gets a later end."""
    one, _ = pair()
    first = leasing.acquire(one.soul, {})["lease"]["until"]
    one.clock.advance(60)
    assert leasing.acquire(one.soul, {})["lease"]["until"] > first
    assert leasing.renew(one.soul, {})["lease"]["mine"] is True


def test_a_released_lease_can_be_taken_at_once() -> None:
    """LEASE-3: an early release is a commit that removes the file."""
    one, two = pair()
    leasing.acquire(one.soul, {})
    leasing.release(one.soul, {})
    assert leasing.show(two.soul, {})["lease"] is None
    assert leasing.acquire(two.soul, {})["lease"]["mine"] is True


def test_who_does_not_hold_it_can_neither_renew_nor_release() -> None:
    """LEASE-3: exit code 6, and nothing is published."""
    one, two = pair()
    leasing.acquire(one.soul, {})
    tip = two.remote.server.tip("refs/heads/main")
    for act in (leasing.renew, leasing.release):
        with pytest.raises(Refused) as refused:
            act(two.soul, {})
        assert refused.value.exit_code == 6
    assert two.remote.server.tip("refs/heads/main") == tip


def test_offline_nothing_is_acquired() -> None:
    """LEASE-2: offline is not acquired, and no lease is left on main."""
    one, _ = pair()
    one.remote.unreachable = True
    with pytest.raises(Transient):
        leasing.acquire(one.soul, {})
    assert "locks/consolidation.json" not in one.tracked()
    assert one.soul.seen.recall("lease") is None


def test_a_lapsed_lease_of_another_is_free_a_minute_after_its_end() -> None:
    """LEASE-3: and not before."""
    one, two = pair()
    leasing.acquire(one.soul, {})
    two.clock.advance(HALF_AN_HOUR + 30)
    two.restart()
    with pytest.raises(Refused):
        leasing.acquire(two.soul, {})
    two.clock.advance(40)
    assert leasing.acquire(two.soul, {})["lease"]["mine"] is True
    with pytest.raises(Refused):
        leasing.renew(one.soul, {})


def test_a_lease_whose_answer_was_lost_is_ours_when_it_arrived() -> None:
    """LEASE-2: what the remote's tip shows counts, not the answer."""
    one, _ = pair()
    one.remote.drops = 1
    assert leasing.acquire(one.soul, {})["lease"]["mine"] is True


def test_the_lease_file_reaches_the_other_bodies_and_a_local_change_to_it_does_not() -> None:
    """MERGE-10: locks are what is published."""
    one, two = pair()
    leasing.acquire(one.soul, {})
    two.settle()
    held = two.text("locks/consolidation.json")
    assert held is not None and "laptop" in held
    two.write("locks/consolidation.json", "mine!\n")
    two.settle()
    assert two.text("locks/consolidation.json") == held


def test_a_lease_that_was_taken_is_reported_though_the_remote_is_gone_a_moment_later() -> None:
    """LEASE-2: whoever holds it is told so, or it would be held for half an hour by nobody."""
    one, _ = pair()
    push = one.remote.push

    def once(expected: str | None, new: str) -> None:
        push(expected, new)
        one.remote.unreachable = True

    one.remote.push = once  # type: ignore[method-assign]
    assert leasing.acquire(one.soul, {})["lease"]["mine"] is True


def test_a_lease_that_arrived_while_nobody_could_tell_is_ours_at_the_next_try() -> None:
    """LEASE-2, LEASE-3: the answer was lost and the remote was gone: no body locks itself out for half an hour."""
    one, two = pair()
    push = one.remote.push

    def arrives_and_cuts(expected: str | None, new: str) -> None:
        push(expected, new)
        one.remote.unreachable = True
        raise AnswerLost("the connection was cut before the answer came")

    one.remote.push = arrives_and_cuts  # type: ignore[method-assign]
    with pytest.raises(Transient):
        leasing.acquire(one.soul, {})
    one.remote.push = push  # type: ignore[method-assign]
    one.remote.heal()
    with pytest.raises(Refused):
        leasing.acquire(two.soul, {})
    assert leasing.acquire(one.soul, {})["lease"]["mine"] is True
    leasing.release(one.soul, {})
    assert leasing.acquire(two.soul, {})["lease"]["mine"] is True


def test_a_lease_of_another_machine_of_the_same_name_is_not_ours() -> None:
    """LEASE-3: ours is what this very memory wrote."""
    one, _ = pair()
    leasing.acquire(one.soul, {})
    for name in ("lease", "lease tried"):
        one.seen.remember(name, None)
    with pytest.raises(Refused, match="laptop"):
        leasing.acquire(one.soul, {})
    assert leasing.show(one.soul, {})["lease"]["mine"] is False


def test_no_lease_is_taken_on_a_remote_that_was_rewritten() -> None:
    """LEASE-2, REPO-4: nothing is laid on a tip that a person has not decided about."""
    one, _ = pair()
    server = one.remote.server
    tip = server.tip("refs/heads/main")
    tree = server.info(tip).tree
    other = server.commit(tree, [], "Kaoru (tablet)", "kaoru@tablet.local", "rewritten (tablet)\n", 1_900_000_000)
    server.move("refs/heads/main", tip, other)
    for act in (leasing.acquire, leasing.show):
        with pytest.raises(Refused, match="rewritten"):
            act(one.soul, {})
    assert server.tip("refs/heads/main") == other


def test_a_lease_whose_push_was_lost_on_the_way_is_nobodys() -> None:
    """LEASE-2: no answer came, and the remote's tip shows that nothing had arrived."""
    one, two = pair()
    one.remote.swallows = 1
    with pytest.raises(Transient):
        leasing.acquire(one.soul, {})
    assert one.seen.recall("lease") is None
    assert leasing.acquire(two.soul, {})["lease"]["mine"] is True


def test_a_lease_that_nobody_holds_cannot_be_renewed() -> None:
    """LEASE-3: whoever renews believes to hold it, and what it did since its lease ran out was not under one."""
    one, _ = pair()
    for act in (leasing.renew, leasing.release):
        with pytest.raises(Refused) as refused:
            act(one.soul, {})
        assert refused.value.exit_code == 6
    assert leasing.show(one.soul, {})["lease"] is None
