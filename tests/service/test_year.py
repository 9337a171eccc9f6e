"""What comes in a machine's life, on one with a real systemd and a real sshd: the truth is told at each step.

It boots without a network, gets one, sleeps for a day, finds another host key, and loses its own key and gets it back.
Nobody does anything about it but the owner of the host and of the machine, each once.
"""

from __future__ import annotations

import shutil
from typing import Any

import pytest

from tests.real import sshd
from tests.service.machine import absent, lived

pytestmark = pytest.mark.timeout(240)
UNIT = "soul-bridge@kaoru.service"


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    """What was told inside, by step."""
    reason = absent() or sshd.missing() or ("" if shutil.which("ip") else "ip (iproute2)")
    if reason:
        pytest.skip(reason)
    return lived("year.py", 230)


def failed(step: dict[str, Any]) -> dict[str, str]:
    """The checks of `doctor` that failed, each with its message."""
    return {one["check"]: one["message"] for one in step["doctor"]["answer"] if one["state"] == "fail"}


def remedy(step: dict[str, Any], check: str) -> str:
    """What `doctor` says to type."""
    return str(next(one["remedy"] for one in step["doctor"]["answer"] if one["check"] == check))


def measured(step: dict[str, Any]) -> dict[str, Any]:
    """What the metrics say: the state, the kinds of problem, and numbers."""
    found: dict[str, Any] = {"problems": []}
    for line in step["metrics"].splitlines():
        name, _, rest = line.partition("{")
        labels, _, value = rest.rpartition("} ")
        if name == "soul_bridge_state" and float(value):
            found["state"] = labels.partition('state="')[2].partition('"')[0]
        elif name == "soul_bridge_problem" and float(value):
            found["problems"].append(labels.partition('kind="')[2].partition('"')[0])
        elif name in ("soul_bridge_unpushed_commits", "soul_bridge_attention"):
            found[name.removeprefix("soul_bridge_")] = float(value)
    return found


def test_the_metrics_say_the_same_at_each_step(found: dict[str, Any]) -> None:
    well = {"state": "idle", "problems": [], "unpushed_commits": 0.0, "attention": 0.0}
    assert measured(found["offline"]) == {**well, "state": "waiting", "problems": ["network"], "unpushed_commits": 1.0}
    for step, kind in (("stranger", "hostkey"), ("revoked", "auth")):
        ahead = float(found[step]["status"]["answer"]["ahead"])
        refused = {"state": "refused", "problems": [kind], "unpushed_commits": ahead, "attention": 1.0}
        assert measured(found[step]) == refused, step
    for step in ("online", "accepted", "restored"):
        assert measured(found[step]) == well, step
    assert found["end"]["metrics"] == ""


def test_all_of_it_was_lived_through_by_one_process(found: dict[str, Any]) -> None:
    assert "failed" not in found, found["failed"]
    assert found["joined"]["code"] == 0 and found["installed"]["code"] == 0
    steps = [found[step]["unit"] for step in ("offline", "online", "stranger", "accepted", "revoked", "restored")]
    assert {(unit["ActiveState"], unit["NRestarts"]) for unit in steps} == {("active", "0")}
    assert len({unit["MainPID"] for unit in steps}) == 1


def test_without_a_network_it_starts_records_and_says_what_it_waits_for(found: dict[str, Any]) -> None:
    step = found["offline"]
    status = step["status"]["answer"]
    assert step["status"]["code"] == 0 and status["state"] == "waiting"
    assert status["problem"]["kind"] == "network" and "forge.example" in status["problem"]["message"]
    assert status["problem"]["next_try"] and status["ahead"] == 1
    assert "not pushed" in step["words"].splitlines()[0] and "unreachable" in step["words"].splitlines()[0]
    assert failed(step).keys() == {"host name"} and "forge.example" in remedy(step, "host name")
    assert "cannot reach forge.example" in step["journal"] and "Started" in step["journal"]
    assert "cannot reach forge.example" in step["unit"]["StatusText"]
    assert "without a network" in step["memory"] and "without a network" not in step["published"]


def test_with_a_network_it_publishes_by_itself(found: dict[str, Any]) -> None:
    in_sync(found["online"])
    assert "without a network" in found["online"]["published"]
    assert "what stood in the way is gone" in found["online"]["journal"]


def test_after_a_day_asleep_it_looks_at_once_and_trusts_no_stranger(found: dict[str, Any]) -> None:
    """AUTH-6: a changed host key is refused until a person accepts it; local work goes on."""
    step = found["stranger"]
    status = step["status"]["answer"]
    assert "woke up (slept=864" in step["journal"] and "the host key of forge.example has changed" in step["journal"]
    assert status["state"] == "refused" and status["problem"]["kind"] == "hostkey"
    assert status["ahead"] >= 1 and "accept-host-key" in status["problem"]["advice"]
    assert "the host key of forge.example has changed" in step["unit"]["StatusText"]
    assert failed(step).keys() == {"login", "problem"}
    assert "accept-host-key" in remedy(step, "login")
    assert found["elsewhere"]["code"] == 0
    assert "while you slept" not in step["memory"], "nothing is taken from a stranger"
    assert "before a stranger" not in step["published"], "and nothing given to one"


def test_the_accepted_host_key_is_all_it_waited_for(found: dict[str, Any]) -> None:
    assert found["accepting"]["code"] == 0 and found["accepting"]["answer"]["accepted"]
    step = found["accepted"]
    in_sync(step)
    assert "while you slept" in step["memory"] and "before a stranger" in step["published"]
    assert "what stood in the way is gone" in step["journal"]


def test_a_revoked_key_is_noticed_said_and_asked_about_rarely(found: dict[str, Any]) -> None:
    """AUTH-5: the session that was open when the key was taken away does not live on for ever."""
    step = found["revoked"]
    status = step["status"]["answer"]
    assert status["state"] == "refused" and status["problem"]["kind"] == "auth" and status["ahead"] == 1
    assert "key show" in status["problem"]["advice"]
    assert failed(step).keys() == {"login", "problem"} and "key show" in remedy(step, "login")
    assert step["journal"].count("problem: the server does not accept this body's key") == 1
    assert "does not accept this body's key" in step["unit"]["StatusText"]
    assert "I am revoked." in step["memory"] and "I am revoked." not in step["published"]


def test_a_restored_key_is_noticed_without_a_hand(found: dict[str, Any]) -> None:
    """AUTH-5."""
    in_sync(found["restored"])
    assert "I am revoked." in found["restored"]["published"]


def test_in_the_end_it_stops_in_sync_and_says_so(found: dict[str, Any]) -> None:
    step = found["end"]
    assert step["here"] == step["there"] and step["memory"] == step["published"]
    assert step["status"]["answer"]["state"] == "stopped" and step["status"]["answer"]["problem"] is None
    assert failed(step) == {}


def in_sync(step: dict[str, Any]) -> None:
    """What has to be told when all is well, and by whom."""
    status = step["status"]["answer"]
    assert step["here"] == step["there"] and step["memory"] == step["published"]
    assert (status["state"], status["problem"], status["ahead"], status["behind"]) == ("idle", None, 0, 0)
    assert status["warnings"] == [], "the watcher sees everything, also from within the confinement of the unit"
    assert failed(step) == {}, step["doctor"]
    assert step["words"].startswith("in sync with origin")
    assert "cannot" not in step["unit"]["StatusText"] and "changed" not in step["unit"]["StatusText"]
