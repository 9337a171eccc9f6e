"""What begins and ends with a pass is told once, and as what it is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bridge.app.life import Life
from bridge.core.errors import HostKeyChanged, Refused, SoulError, Transient
from tests.app.bodies import fleet

STANDS = Transient("the remote stands behind", kind="network", rule="REPO-4")


@pytest.mark.parametrize(
    ("problems", "told"),
    [
        ([HostKeyChanged("changed", rule="AUTH-6"), None], ["hostkey.changed"]),
        ([Refused("not pinned", kind="hostkey", rule="AUTH-6"), None], []),
        ([Transient("no route"), Transient("no route"), None], ["remote.unreachable", "remote.restored"]),
        ([STANDS, None], []),
        ([STANDS, Transient("no route"), None], ["remote.unreachable", "remote.restored"]),
        ([Refused("read-only", kind="auth"), None], ["auth.refused", "auth.restored"]),
    ],
)
def test_a_problem_is_told_as_what_it_is(problems: list[SoulError | None], told: list[str]) -> None:
    """AUTH-6, REPO-4: never pinned is not changed, standing behind is not unreachable."""
    one = fleet().body("laptop")
    outcome = one.settle()
    life = Life(one.soul)
    one.facts.recorded.clear()
    for problem in problems:
        life.note(replace(outcome, problem=problem, fetched=problem is None), None)
    assert [name for name, _ in one.facts.recorded] == told
