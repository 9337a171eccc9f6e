"""A person is told once that they are wanted, and once that all is well again, and never of what passes by itself."""

from __future__ import annotations

from typing import Any

import pytest

from bridge.adapters import desktop
from bridge.app import status
from bridge.app.attention import AGAIN, AWAKE, UNVERIFIED, Attention, Notice, reasons
from bridge.app.reporting import KINDS
from bridge.core.instants import iso

NOW = 1_800_000_000.0
HELD = {"path": "big.bin", "rule": "TREE-6", "reason": "larger than 50 MiB"}


def document(now: float = NOW, **changed: Any) -> status.Document:
    """A soul in step as of 12 seconds before."""
    fields: dict[str, Any] = {
        "agent": "kaoru", "body": "laptop", "soul": "/s", "remote": "r", "state": "idle",
        "last_verified": iso(now - 12),
    }  # fmt: skip
    return status.build(**{**fields, **changed})


def problem(kind: str) -> dict[str, Any]:
    return {"kind": kind, "message": "Permission denied\n(publickey).", "advice": "a", "since": None, "next_try": None}


def test_another_machine_under_this_bodys_name_is_told_once_and_its_end_once() -> None:
    """MERGE-9."""
    person = Person()
    for _ in range(3):
        assert person.look(warnings=["two machines share the name laptop: a commit\nWrite", "a limit"]) == ["name"]
    assert person.look(warnings=["a limit"]) == []
    assert person.states() == ["attention name", "calm"]
    assert person.heard[0].words == ("two machines share the name laptop: a commit",)


class Person:
    """Somebody who is told, and what looks for them; time goes on by a minute with each look."""

    def __init__(self, *told: str) -> None:
        self.heard: list[Notice] = []
        self.attention = Attention(self.heard.append, told, NOW)
        self.now = NOW

    def look(self, minutes: float = 1, **changed: Any) -> list[str]:
        self.now += 60 * minutes
        return self.attention.look(document(self.now, **changed), self.now)

    def states(self) -> list[str]:
        return [f"{notice.state} {','.join(notice.reasons)}".strip() for notice in self.heard]


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("network", "busy")])
def test_what_a_person_has_to_mend_is_told_once_and_its_end_once(kind: str) -> None:
    person = Person()
    person.look()
    for _ in range(5):
        assert person.look(problem=problem(kind)) == [kind]
    for _ in range(5):
        assert person.look() == []
    assert person.states() == [f"attention {kind}", "calm"]
    assert "\n" not in person.heard[0].words[0] and "Permission denied (publickey)." in person.heard[0].words[0]
    assert person.heard[0].words[0].startswith(f"{status.cause(kind)}: ")


def test_a_network_that_is_gone_for_a_while_calls_nobody() -> None:
    person = Person()
    for _ in range(100):
        person.look(problem=problem("network"))
    assert person.heard == []


def test_another_reason_is_told_beside_the_first_and_calm_only_when_all_are_gone() -> None:
    person = Person()
    person.look(held=[HELD])
    person.look(held=[HELD, {**HELD, "path": "b"}], problem=problem("auth"))
    person.look(held=[HELD])
    assert person.states() == ["attention held", "attention auth"]
    assert person.heard[0].words == ("held: big.bin (TREE-6: larger than 50 MiB)",)
    person.look()
    assert person.states()[2:] == ["calm"]


def test_a_reason_that_went_beside_another_is_told_anew_when_it_comes_back() -> None:
    person = Person()
    person.look(held=[HELD], problem=problem("auth"))
    person.look(held=[HELD])
    person.look(minutes=AGAIN / 60, held=[HELD], problem=problem("auth"))
    assert person.states() == ["attention auth,held", "attention auth"]


def test_a_held_file_that_is_being_written_again_has_not_been_mended() -> None:
    person = Person()
    for _ in range(3):
        assert person.look(held=[HELD]) == ["held"]
        assert person.look(pending=["big.bin"]) == ["held"]
    person.look()
    assert person.states() == ["attention held", "calm"]


def test_what_only_waits_calls_nobody_unless_much_would_be_deleted() -> None:
    """GUARD-2, GUARD-3: a person may want to prevent that; other waits end by themselves."""
    waits = {"path": "a", "rule": "GUARD-5", "reason": "the agent has it open"}
    assert reasons(document(pending=["a"], held=[waits])) == {}
    for rule in ("GUARD-2", "GUARD-3"):
        assert list(reasons(document(pending=["a"], held=[{**waits, "rule": rule}]))) == ["held"]


def test_what_comes_and_goes_is_not_told_again_and_again_and_its_end_is_told_at_last() -> None:
    person = Person()
    for _ in range(int(AGAIN / 120)):
        person.look(problem=problem("disk"))
        person.look()
    assert person.states() == ["attention disk", "calm"]
    for _ in range(int(AGAIN / 60) + 1):
        person.look(problem=problem("disk"))
    assert person.states() == ["attention disk", "calm", "attention disk"], "it stayed, so it is told"
    person.look()
    assert person.states()[-1] == "calm"


def test_a_soul_that_was_not_verified_for_a_day_is_told_of_while_it_is_awake() -> None:
    person = Person()
    old = iso(NOW - UNVERIFIED - 1)
    assert person.look(minutes=1, last_verified=old, problem=problem("network")) == []
    for _ in range(int(AWAKE / 60)):
        found = person.look(last_verified=old, problem=problem("network"))
    assert found == ["unverified"]
    person.look(minutes=1)
    assert person.states() == ["attention unverified", "calm"]


def test_a_machine_that_slept_for_days_gets_its_chance_before_anybody_is_called() -> None:
    person = Person()
    old = iso(NOW)
    for _ in range(20):
        assert person.look(minutes=3 * 24 * 60, last_verified=old) == []
    assert person.look(last_verified=iso(person.now)) == []
    assert person.heard == []


def test_a_soul_that_a_person_stopped_is_not_called_for() -> None:
    person = Person()
    for state in ("paused", "stopped"):
        for _ in range(30):
            assert person.look(state=state, last_verified=iso(NOW - 9 * UNVERIFIED)) == []


def test_a_soul_that_never_was_verified_counts_from_when_somebody_looks() -> None:
    person = Person()
    for _ in range(30):
        assert person.look(last_verified=None) == []
    for _ in range(24 * 60):
        person.look(last_verified=None)
    assert person.states() == ["attention unverified"]


def test_a_restart_forgets_nothing_that_was_told() -> None:
    person = Person("auth")
    assert person.look(problem=problem("auth")) == ["auth"]
    assert person.heard == []
    person.look()
    assert person.states() == ["calm"]


def test_each_call_has_its_end_however_soon_the_next_one_follows() -> None:
    """A key refused and mended, and minutes later a rewritten remote accepted: each is told, and each end."""
    person = Person()
    for kind in ("auth", "rewritten", "disk"):
        person.look(problem=problem(kind))
        person.look()
    assert person.states() == ["attention auth", "calm", "attention rewritten", "calm", "attention disk", "calm"]


def found(*names: str) -> Any:
    return lambda name: f"/bin/{name}" if name in names else None


def test_the_desktop_is_told_by_the_program_that_is_there() -> None:
    said = desktop.command("-t", "-b <b>&", urgent=True, which=found("notify-send", "osascript"))
    assert said == ["/bin/notify-send", "--app-name=soul-bridge", "--urgency=critical", "--", "-t", "-b &lt;b&gt;&amp;"]
    said = desktop.command("t", "b", urgent=False, which=found("notify-send"))
    assert said and "--urgency=normal" in said
    said = desktop.command("t", 'b" & do shell script "x', urgent=True, which=found("osascript"))
    assert said and said[0] == "/bin/osascript" and said[-2:] == ["t", 'b" & do shell script "x']
    assert not any("do shell" in word for word in said[:-1])
    assert desktop.command("t", "b", urgent=True, which=found()) is None
    cut = desktop.command("t", "b" * 10_000, urgent=True, which=found("notify-send"))
    assert cut and len(cut[-1]) == desktop.LONGEST


EVIL = "x\u202egnp\x1b[2J\x1b]0;t\x07\x00\n  next: rm -r ."


def test_what_others_named_is_shown_to_a_person_as_one_plain_line() -> None:
    """A name from the remote steers no terminal and no desktop, writes no line, and keeps no program from starting."""
    said = reasons(document(held=[{**HELD, "path": EVIL}], warnings=[f"two machines share the name {EVIL}"]))
    said |= reasons(document(problem={**problem("auth"), "message": EVIL}))
    shown = desktop.command(EVIL, EVIL, urgent=True, which=lambda name: f"/usr/bin/{name}")
    assert len(said) == 3 and shown is not None
    for words in (*said.values(), *shown):
        assert words.isprintable() and "\n" not in words
