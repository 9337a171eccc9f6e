"""What `status` says of a soul beside its passes."""

from __future__ import annotations

import json

import pytest

from bridge.app import attention, history, leasing, status
from bridge.app.life import Life
from bridge.app.reporting import Reporter
from bridge.core import lease
from bridge.core.errors import AnswerLost, Transient
from bridge.core.model import File, Look
from tests.app.bodies import fleet


def test_the_lease_is_told_as_whoever_asks_for_it_would_be_answered() -> None:
    """LEASE-2: whose it is, and none once it has lapsed, though main did not move since."""
    world = fleet()
    one, two = world.body("laptop"), world.body("phone")
    world.settle()
    leasing.acquire(one.soul, {})
    world.settle()
    mine, theirs = Reporter("/soul", "remote", None, None), Reporter("/soul", "remote", None, None)
    own = mine.document(Life(one.soul))["lease"]
    assert own["body"] == "laptop" and own["mine"] is True
    assert theirs.document(Life(two.soul))["lease"] == {**own, "mine": False}
    world.clock.advance(lease.LASTS + lease.GRACE_MS / 1000 + 1)
    assert theirs.document(Life(two.soul))["lease"] is None


def test_a_lease_that_arrived_while_nobody_could_tell_is_told_as_ours() -> None:
    """LEASE-3: as `lease show` tells it."""
    world = fleet()
    one = world.body("laptop")
    world.settle()
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
    one.settle()
    told = Reporter("/soul", "remote", None, None).document(Life(one.soul))["lease"]
    assert told == leasing.show(one.soul, {})["lease"] and told["mine"] is True


def test_what_another_program_holds_for_a_moment_is_no_fault_and_calls_nobody() -> None:
    """A lock of another git, a machine short of descriptors: told as what it is, neither offline nor our own fault."""
    one = fleet().body("laptop")
    one.settle()

    def held(known: object, hints: object) -> Look:
        raise Transient("another git holds main.lock", kind="busy")

    one.tree.look = held  # type: ignore[method-assign]
    outcome, life = one.run(), Life(one.soul)
    life.note(outcome, None)
    told = Reporter("/soul", "remote", None, None).document(life)
    assert outcome.outcome == told["last_pass"]["outcome"] == "waiting" and told["problem"]["kind"] == "busy"
    assert attention.reasons(told) == {}
    assert status.sentence(told, one.clock.now()) == "another git holds main.lock."


def test_no_lease_is_none() -> None:
    """LEASE-1."""
    one = fleet().body("laptop")
    one.settle()
    assert Reporter("/soul", "remote", None, None).document(Life(one.soul))["lease"] is None


def test_many_bodies_under_one_large_file_are_listed_briefly_and_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """FORM-6: a pack of some kilobytes names one file thousands of times; huge ones are not read."""
    one = fleet().body("laptop")
    one.settle()
    repo, tip = one.soul.repo, one.soul.head()
    assert tip is not None
    long = repo.write(json.dumps({"kind": "k" * 20_000, "host": "h" * 20_000, "lastSeen": "l" * 20_000}).encode())
    huge = repo.write(json.dumps({"kind": "k" * 240_000}).encode())
    changes: dict[str, File | None] = {f"bodies/b{number:05}.json": File(long) for number in range(1_500)}
    changes["bodies/huge.json"] = File(huge)
    tree = repo.edit(repo.info(tip).tree, changes)
    texts: list[str] = []
    read = repo.read
    monkeypatch.setattr(repo, "read", lambda oid: texts.append(oid) or read(oid))
    rows = history.registry(repo, tree, "laptop")
    names = [name for name, _ in rows]
    assert len(rows) == 1_000 and "laptop" in names and "huge" not in names
    assert texts.count(long) <= 2 and texts.count(huge) <= 1  # the double reads to tell a size, too
    assert len(json.dumps(rows)) < 500_000
