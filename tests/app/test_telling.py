"""The log of a daemon: a line for each pass that did something, a problem once and then counted, else nothing."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from bridge.app.host import Host
from bridge.app.keeping import SOUND
from bridge.app.life import Life
from bridge.app.standing import StandOff
from bridge.app.sync import Outcome
from bridge.app.telling import Once, Recovery, Telling, sameness
from bridge.core import cycle
from bridge.core.errors import Refused, SoulError, Transient
from bridge.fakes.clock import FakeClock
from tests.app.bodies import fleet
from tests.real.fleet import Fleet, until

ABOUT = {"agent": "kaoru", "body": "laptop"}


class Log:
    """What was logged: level, event, fields."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str, dict[str, Any]]] = []

    def info(self, event: str, **fields: Any) -> None:
        self.lines.append(("info", event, fields))

    def warning(self, event: str, **fields: Any) -> None:
        self.lines.append(("warning", event, fields))

    def events(self) -> list[str]:
        return [event for _, event, _ in self.lines]


def outcome(problem: SoulError | None = None, **changed: Any) -> Outcome:
    """A pass that did nothing and heard from the remote unless there was a problem."""
    fields: dict[str, Any] = {
        "ending": cycle.Ending.QUIET, "outcome": "ok", "sentence": "nothing to do.", "recorded": (), "merged": (),
        "written": (), "lost": (), "fetched": problem is None, "pushed": False, "tip": "a" * 40,
        "remote_tip": "a" * 40, "pending": (), "held": {}, "problem": problem, "again": (), "deadline": None,
        "took": 0.0,
    }  # fmt: skip
    return Outcome(**{**fields, **changed})


@pytest.fixture
def log() -> Log:
    return Log()


@pytest.fixture
def telling(log: Log) -> Telling:
    return Telling(log, ABOUT, lambda: "1800000000.7")


def test_a_pass_that_did_something_is_one_line_and_another_is_none(telling: Telling, log: Log) -> None:
    telling.passed(outcome(), 0.1)
    telling.passed(outcome(pending=("a",), sentence="1 path still waiting."), 0.1)
    assert log.lines == []
    done = {"recorded": ("a", "a", "b"), "pushed": True, "sentence": "recorded 2 paths; pushed."}
    telling.passed(outcome(**done), 0.12345)
    said = {"outcome": "ok", "sentence": "recorded 2 paths; pushed.", "recorded": 2, "pushed": True, "took": 0.123}
    assert log.lines == [("info", "pass", {**ABOUT, **said, "pass": "1800000000.7"})]
    telling.passed(outcome(notes=("main was moved by hand",), sentence="main was moved by hand."), 0.1)
    assert log.events() == ["pass", "pass"]


def test_the_same_problem_is_logged_once_and_counted_until_the_remote_answers(telling: Telling, log: Log) -> None:
    """AUTH-5: nobody reads the hundredth line of the same refusal."""
    for number in range(100):
        telling.passed(outcome(Transient(f"cannot reach the host (port {number}, {number}.5 s)", advice="wait")), 0.1)
        telling.passed(outcome(fetched=False), 0.1)  # a pass that asked nobody proves nothing
    assert log.events() == ["problem"]
    assert log.lines[0][0] == "warning" and log.lines[0][2]["advice"] == "wait"
    telling.passed(outcome(), 0.1)
    assert log.events() == ["problem", "over"] and log.lines[1][2]["times"] == 100
    telling.passed(outcome(), 0.1)
    assert log.events() == ["problem", "over"]


def test_another_problem_is_another_line_and_work_beside_it_is_told_without_it(telling: Telling, log: Log) -> None:
    telling.passed(outcome(Transient("no route")), 0.1)
    refused = Refused("denied", kind="auth", rule="AUTH-2")
    telling.passed(outcome(refused, recorded=("a",), sentence="recorded a; denied."), 0.1)
    assert log.events() == ["problem", "problem", "pass"]
    assert (log.lines[1][2]["kind"], log.lines[1][2]["rule"]) == ("auth", "AUTH-2")
    assert log.lines[2][2]["sentence"] == "recorded a"


def test_a_problem_of_this_machine_is_over_with_a_pass_that_has_none(telling: Telling, log: Log) -> None:
    telling.passed(outcome(Refused("the checkout is missing", kind="disk")), 0.1)
    telling.passed(outcome(fetched=False), 0.1)
    assert log.events() == ["problem", "over"]


def test_waiting_for_a_person_is_told_once_for_each_reason(telling: Telling, log: Log) -> None:
    for reason in ("a rebase", "a rebase", "a merge"):
        telling.passed(outcome(StandOff(f"waiting: {reason}", kind="busy")), 0.1)
    telling.passed(outcome(), 0.1)
    telling.passed(outcome(StandOff("waiting: a merge", kind="busy")), 0.1)
    assert log.events() == ["waiting"] * 3


def test_what_a_command_changed_is_told_and_a_question_is_not(telling: Telling, log: Log) -> None:
    telling.answered("restore", None)
    telling.answered("revert", Refused("nothing is left", rule="REPO-3"))
    for question in ("lease show", "consolidate renew", "consolidate note"):
        telling.answered(question, None)
    assert log.events() == ["done", "refused"] and log.lines[0][2]["command"] == "restore"


def test_counting_is_by_name_and_sameness_and_whole_with_several_threads() -> None:
    once = Once()
    assert [once.again("a", "x"), once.again("a", "x"), once.again("b", "x"), once.again("a", "y")] == [1, 2, 1, 1]
    assert (once.over("a"), once.over("a"), once.of("b"), once.of("a")) == (1, 0, "x", "")
    threads = [threading.Thread(target=lambda: [once.again("t", "x") for _ in range(500)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert once.over("t") == 2000
    assert sameness(ValueError("after 3 s")) == sameness(ValueError("after 12.5 s")) != sameness(KeyError("after 3 s"))


def test_a_soul_that_failed_is_told_of_anew_only_after_it_lived_for_a_while(log: Log) -> None:
    clock, once = FakeClock(), Once()
    for _ in range(3):
        once.again("kaoru", "a bug")
    recovery = Recovery(log, ABOUT, once, clock)
    recovery.passed(outcome(), 0.1)
    assert (once.again("kaoru", "a bug"), log.lines) == (4, [])
    clock.sleep(SOUND + 1)
    recovery.answered("restore", None)
    assert log.lines == []
    recovery.passed(outcome(), 0.1)
    recovery.passed(outcome(), 0.1)
    assert [(event, fields["times"]) for _, event, fields in log.lines] == [("over", 4)]
    assert once.again("kaoru", "a bug") == 1


def test_the_status_counts_what_the_log_does_not_repeat() -> None:
    one = fleet().body("laptop")
    done = one.settle()
    life = Life(one.soul)
    life.note(done, None)
    assert life.verified is not None and done.tip == done.remote_tip
    verified = life.verified
    for problem in (Transient("no route"), Transient("no route"), Refused("denied", kind="auth")):
        one.clock.sleep(1)
        life.note(outcome(problem), None)
    assert (life.problem_times, life.verified) == (1, verified)
    life.note(outcome(Refused("denied", kind="auth")), None)
    assert life.problem_times == 2


@pytest.mark.parametrize(
    ("changed", "verified"),
    [({}, True), ({"remote_tip": "b" * 40}, False), ({"fetched": False}, False),
     ({"pushed": True, "fetched": False}, True),
     ({"tip": None, "remote_tip": None}, False), ({"problem": Refused("denied")}, False)],
)  # fmt: skip
def test_verified_is_what_the_remote_was_heard_to_have_too(changed: dict[str, Any], verified: bool) -> None:
    life = Life(fleet().body("laptop").soul)
    life.note(outcome(**{"fetched": True, **changed}), None)
    assert (life.verified is not None) is verified


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    place = tmp_path_factory.mktemp("telling")
    host = Host(place / "host").start()
    host.create("kaoru.soul.git")
    made = Fleet(host, place, "kaoru.soul.git")
    yield made
    made.close()
    host.stop()


def test_a_daemon_logs_each_pass_that_did_something_and_no_other(real: Fleet) -> None:
    body = real.body("laptop", poll="100ms").start()
    for number in range(3):
        body.write(f"notes/{number}.md", f"# {number}\n")
        until(lambda n=number: f"notes/{n}.md" in body.tree() and body.seen()["ahead"] == 0, "it is pushed")
    time.sleep(1)
    body.json("lease", "acquire")
    assert body.stop() == 0
    lines = [json.loads(line) for line in body.log().splitlines()]
    told = [line for line in lines if line["event"] == "pass"]
    assert sum("recorded" in line for line in told) == 3 and len(told) <= 6
    assert all((line["agent"], line["body"], bool(line["pass"])) == ("kaoru", "laptop", True) for line in told)
    assert all("recorded" in line or line["pushed"] for line in told)
    assert [line["command"] for line in lines if line["event"] == "done"] == ["lease acquire"]
    passes = {fact["pass"] for fact in map(json.loads, (body.state / "events.jsonl").read_text().splitlines())}
    assert {line["pass"] for line in told} <= passes, "a line of the log and its facts name the same pass"
