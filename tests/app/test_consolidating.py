"""A command that rewrites memories: under the lease, merged against what it read, and never longer than the lease."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from bridge.adapters import child
from bridge.app import consolidating, leasing, requests
from bridge.app.host import Host
from bridge.core import lease
from bridge.core.errors import AnswerLost, Refused, SoulError, Transient, Unusable
from tests.app.bodies import Body, fleet
from tests.real.fleet import Body as RealBody
from tests.real.fleet import Fleet, until

MEMORY = "memories/MEMORY.md"
FIVE = "one\n§\ntwo\n§\nthree\n§\nfour\n§\nfive\n"


def pair() -> tuple[Body, Body]:
    """Two bodies that agree on five entries."""
    world = fleet()
    one, two = world.body("laptop"), world.body("phone")
    one.settle()
    one.write(MEMORY, FIVE)
    one.settle()
    two.settle()
    world.settle()
    return one, two


def begin(body: Body) -> dict[str, Any]:
    return requests.answer(body.soul, {"command": "consolidate begin", "owner": os.getpid()})


def end(body: Body, id: str) -> dict[str, Any]:
    return requests.answer(body.soul, {"command": "consolidate end", "id": id})


def test_while_a_command_reads_memories_and_notes_nothing_is_written_there() -> None:
    """MERGE-12: what it reads stays as it is; everything else is materialised."""
    one, two = pair()
    run = begin(one)
    two.write(MEMORY, FIVE + "§\nfrom the phone\n")
    two.write("notes/kyoto.md", "# kyoto\n")
    two.write("SOUL.md", "# Kaoru\n\nKind.\n")
    two.settle()
    one.settle()
    assert one.text(MEMORY) == FIVE
    assert one.text("notes/kyoto.md") is None
    assert one.text("SOUL.md") == "# Kaoru\n\nKind.\n"
    end(one, run["id"])
    assert "from the phone" in (one.text(MEMORY) or "")
    assert one.text("notes/kyoto.md") == "# kyoto\n"


def test_the_result_is_merged_against_exactly_what_the_command_read() -> None:
    """MERGE-12: what arrived meanwhile is kept, what the command left out is gone, on every body."""
    one, two = pair()
    run = begin(one)
    two.write(MEMORY, FIVE + "§\nfrom the phone\n")
    two.settle()
    one.settle()
    one.write(MEMORY, "one and two\n§\nfive\n")
    end(one, run["id"])
    two.settle()
    entries = (two.text(MEMORY) or "").strip().split("\n§\n")
    assert sorted(entries) == ["five", "from the phone", "one and two"]
    assert one.text(MEMORY) == two.text(MEMORY)


def test_a_result_in_several_steps_is_merged_step_by_step() -> None:
    """MERGE-12: each write has read the one before, never what arrived."""
    one, two = pair()
    run = begin(one)
    one.write(MEMORY, "one\n§\ntwo\n§\nthree\n§\nfour and five\n")
    one.settle()
    two.write(MEMORY, FIVE + "§\nfrom the phone\n")
    two.settle()
    one.settle()
    one.write(MEMORY, "all five\n")
    end(one, run["id"])
    two.settle()
    assert sorted((two.text(MEMORY) or "").strip().split("\n§\n")) == ["all five", "from the phone"]


def test_entries_that_arrived_just_before_were_read_by_the_command() -> None:
    """MERGE-12: the command may leave out what came in a moment ago, for it has read it."""
    one, two = pair()
    two.write(MEMORY, FIVE + "§\nfrom the phone\n")
    two.settle()
    one.settle()
    one.soul.was_read = lambda path, since: False
    run = begin(one)
    one.write(MEMORY, "all six\n")
    end(one, run["id"])
    assert one.text(MEMORY) == "all six\n"


def test_a_run_ends_with_the_machine_that_it_ran_on() -> None:
    """MERGE-12: after another start its numbers name other processes, and nothing may wait for those."""
    one, two = pair()
    begin(one)
    two.write(MEMORY, FIVE + "§\nfrom the phone\n")
    two.settle()
    one.settle()
    assert "from the phone" not in (one.text(MEMORY) or "")
    one.restart()
    one.soul.boot = "another"
    one.settle()
    assert "from the phone" in (one.text(MEMORY) or "")


def test_memory_files_that_the_command_shrank_do_not_wait() -> None:
    """LEASE-3, GUARD-2: five entries become one, and are published with the end of the lease."""
    one, two = pair()
    run = begin(one)
    one.write(MEMORY, "all five\n")
    one.write("memories/USER.md", "")
    assert end(one, run["id"]) == {"problem": None}
    two.run()
    assert two.text(MEMORY) == "all five\n"
    assert leasing.show(two.soul, {})["lease"] is None


def test_what_waited_before_the_command_began_goes_on_waiting() -> None:
    """GUARD-2: a memory file that was emptied before is none of the command's changes."""
    one, two = pair()
    one.write(MEMORY, "")
    assert MEMORY in one.settle(passes=2).pending
    run = begin(one)
    end(one, run["id"])
    assert "five" in (two.settle() and two.text(MEMORY) or "")
    assert MEMORY in one.run().pending


def test_notes_that_vanish_in_a_mass_wait_all_the_same() -> None:
    """GUARD-2: only memory files are not delayed."""
    one, two = pair()
    for number in range(40):
        one.write(f"notes/{number}.md", f"# {number}\n")
    one.settle()
    two.settle()
    run = begin(one)
    for number in range(40):
        one.delete(f"notes/{number}.md")
    end(one, run["id"])
    two.settle()
    assert two.text("notes/7.md") == "# 7\n"


def test_one_command_at_a_time_and_one_body_at_a_time() -> None:
    """LEASE-1: exit code 6 for the second one, here and elsewhere."""
    one, two = pair()
    run = begin(one)
    for body in (one, two):
        with pytest.raises(Refused) as refused:
            begin(body)
        assert refused.value.exit_code == 6
    assert two.soul.frozen == ()
    end(one, run["id"])
    end(two, begin(two)["id"])


def test_offline_no_command_begins() -> None:
    """LEASE-2: exit code 5, nothing is frozen."""
    one, _ = pair()
    one.remote.unreachable = True
    with pytest.raises(Transient) as offline:
        begin(one)
    assert offline.value.exit_code == 5
    assert one.soul.frozen == ()


def test_a_command_that_ends_offline_has_its_results_recorded_and_lets_the_rest_in() -> None:
    """LEASE-3: the lease is given up as soon as the remote answers again."""
    one, two = pair()
    run = begin(one)
    one.write(MEMORY, "all five\n")
    one.remote.unreachable = True
    problem = end(one, run["id"])["problem"]
    assert problem["kind"] == "network"
    assert one.tracked()[MEMORY] == b"all five\n"
    assert one.soul.frozen == ()
    one.remote.heal()
    consolidating.give_back(one.soul, one.run())
    assert leasing.show(two.soul, {})["lease"] is None
    two.settle()
    assert two.text(MEMORY) == "all five\n"
    tip = one.remote.server.tip("refs/heads/main")
    consolidating.give_back(one.soul, one.run())
    assert one.remote.server.tip("refs/heads/main") == tip


def test_a_lease_that_was_taken_anew_since_is_not_given_up() -> None:
    one, _ = pair()
    run = begin(one)
    one.remote.unreachable = True
    end(one, run["id"])
    one.remote.heal()
    one.clock.advance(60)
    leasing.acquire(one.soul, {})
    consolidating.give_back(one.soul, one.run())
    assert leasing.show(one.soul, {})["lease"]["mine"] is True


def test_a_restart_in_the_middle_changes_nothing() -> None:
    """MERGE-12: the next process knows that the command still reads."""
    one, two = pair()
    run = begin(one)
    one.restart()
    two.write(MEMORY, FIVE + "§\nfrom the phone\n")
    two.settle()
    one.settle()
    assert one.text(MEMORY) == FIVE
    assert requests.answer(one.soul, {"command": "consolidate renew", "id": run["id"]})["started"] > run["started"]
    end(one, run["id"])
    assert "from the phone" in (one.text(MEMORY) or "")


def dead() -> int:
    """The number of a process that is no more."""
    gone = subprocess.Popen(["true"])
    gone.wait()
    return gone.pid


def test_when_nobody_is_left_who_consolidates_memories_come_in_again() -> None:
    one, two = pair()
    requests.answer(one.soul, {"command": "consolidate begin", "owner": dead()})
    two.write(MEMORY, FIVE + "§\nfrom the phone\n")
    two.settle()
    one.settle()
    assert "from the phone" in (one.text(MEMORY) or "")


def test_a_command_whose_caller_died_still_reads_undisturbed() -> None:
    one, two = pair()
    run = requests.answer(one.soul, {"command": "consolidate begin", "owner": dead()})
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as orphan:
        requests.answer(one.soul, {"command": "consolidate note", "id": run["id"], "group": orphan.pid})
        two.write(MEMORY, FIVE + "§\nfrom the phone\n")
        two.settle()
        one.settle()
        assert one.text(MEMORY) == FIVE
        orphan.kill()
        orphan.wait()
    one.settle()
    assert "from the phone" in (one.text(MEMORY) or "")


def test_nothing_stays_frozen_beyond_the_lease() -> None:
    one, two = pair()
    run = begin(one)
    two.write("notes/kyoto.md", "# kyoto\n")
    two.settle()
    one.clock.advance(lease.LASTS)
    one.settle()
    assert one.text("notes/kyoto.md") == "# kyoto\n"
    for command in ("renew", "end", "note"):
        with pytest.raises(Refused) as over:
            requests.answer(one.soul, {"command": f"consolidate {command}", "id": run["id"], "group": 0})
        assert over.value.exit_code == 6


def test_another_lease_at_the_remote_is_noticed_once() -> None:
    """LEASE-3: a lease that is not byte for byte ours is another's, and so is none."""
    one, two = pair()
    begin(one)
    assert one.soul.lost is False
    leasing.release(one.soul, {})
    two.settle()
    leasing.acquire(two.soul, {})
    one.settle()
    one.settle()
    assert one.soul.lost is True
    assert len(one.facts.named("lease.lost")) == 1


def test_a_renewed_lease_is_not_another_one() -> None:
    """LEASE-3."""
    one, _ = pair()
    run = begin(one)
    one.clock.advance(lease.RENEWED_AFTER)
    renewed = requests.answer(one.soul, {"command": "consolidate renew", "id": run["id"]})
    one.settle()
    assert one.soul.lost is False
    assert renewed["started"] >= run["started"] + lease.RENEWED_AFTER


def test_a_renewal_whose_answer_was_lost_is_not_another_lease() -> None:
    """LEASE-3: the push arrived, whatever the next look says."""
    one, _ = pair()
    run = begin(one)
    one.clock.advance(lease.RENEWED_AFTER)
    real, one.remote.fetch = one.remote.fetch, lambda known: real(known)  # type: ignore[method-assign]
    pushes = one.remote.push

    def arrives_and_cuts(expected: str | None, new: str) -> None:
        pushes(expected, new)
        one.remote.unreachable = True
        raise AnswerLost("the connection was cut before the answer came")

    one.remote.push = arrives_and_cuts  # type: ignore[method-assign]
    with pytest.raises(Transient):
        requests.answer(one.soul, {"command": "consolidate renew", "id": run["id"]})
    one.remote.push = pushes  # type: ignore[method-assign]
    one.remote.heal()
    one.settle()
    assert one.soul.lost is False


@dataclass
class Command:
    """A command that runs for so many seconds of a fake clock, or until it is ended."""

    clock: Any
    lasts: float
    code: int = 0
    group: int = 4242
    ended: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.begun = self.clock.boottime()

    def wait(self, seconds: float) -> int | None:
        left = self.begun + self.lasts - self.clock.boottime()
        if left <= seconds:
            self.clock.advance(max(0.0, left))
            return self.code
        self.clock.advance(seconds)
        return None

    def end(self, grace: float) -> int:
        self.ended.append(self.clock.boottime())
        return self.code if self.clock.boottime() >= self.begun + self.lasts else 143


@dataclass
class Desk:
    """The owner of a soul on fakes; `fails`: what a request meets instead."""

    body: Body
    fails: dict[str, SoulError | None] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    passes: bool = False

    def __call__(self, words: dict[str, Any], seconds: float) -> dict[str, Any] | None:
        name = words["command"].removeprefix("consolidate ")
        self.asked.append(name)
        if name in self.fails:
            error = self.fails[name]
            if error is not None:
                raise error
            return None
        if name == "look":
            if self.passes:
                self.body.run()
            return {"lost": self.body.soul.lost}
        return requests.answer(self.body.soul, words)


def holder(
    body: Body, lasts: float, code: int = 0, **fails: SoulError | None
) -> tuple[consolidating.Holder, Desk, Any]:
    desk = Desk(body, fails)
    made: list[Command] = []

    def start() -> Command:
        made.append(Command(body.clock, lasts, code))
        return made[-1]

    return consolidating.Holder(desk, start, body.clock), desk, made


def test_the_command_runs_under_the_lease_and_its_exit_code_is_returned() -> None:
    """LEASE-1."""
    one, two = pair()
    held, desk, made = holder(one, 10, code=3)
    assert held.run() == (3, None)
    assert [name for name in desk.asked if name != "look"] == ["begin", "note", "end"]
    assert leasing.show(two.soul, {})["lease"] is None
    assert len(made) == 1


def test_a_long_command_keeps_its_lease_by_renewing_at_half_time() -> None:
    """LEASE-3."""
    one, _ = pair()
    held, desk, _ = holder(one, 3 * 3600)
    began = one.clock.boottime()
    assert held.run() == (0, None)
    assert 11 <= desk.asked.count("renew") <= 13
    assert one.clock.boottime() - began == pytest.approx(3 * 3600, abs=60)


def test_a_lease_that_cannot_be_renewed_ends_the_command_a_minute_early() -> None:
    """LEASE-3: whatever the clocks of others say, the command is over before the lease is."""
    one, _ = pair()
    held, desk, made = holder(one, 3 * 3600, renew=Transient("no route"))
    began = one.clock.boottime()
    with pytest.raises(Refused, match="could not be renewed") as lost:
        held.run()
    assert lost.value.exit_code == 6
    stopped = made[0].ended[0] - began
    assert lease.LASTS - lease.STOPS_BEFORE - 2 <= stopped <= lease.LASTS - lease.STOPS_BEFORE + 2
    assert desk.asked.count("renew") > 10
    assert desk.asked[-1] == "end"


def test_a_daemon_that_is_gone_ends_the_command_a_minute_early_too() -> None:
    """LEASE-3."""
    one, _ = pair()
    held, _, made = holder(one, 3 * 3600, renew=None, look=None)
    began = one.clock.boottime()
    with pytest.raises(Refused):
        held.run()
    assert made[0].ended[0] - began <= lease.LASTS - lease.STOPS_BEFORE + 2


def test_a_refused_renewal_ends_the_command_at_once() -> None:
    """LEASE-3."""
    one, _ = pair()
    held, _, made = holder(one, 3 * 3600, renew=Refused("not ours", kind="lease"))
    began = one.clock.boottime()
    with pytest.raises(Refused, match="not ours"):
        held.run()
    assert made[0].ended[0] - began <= lease.RENEWED_AFTER + 5


def test_another_lease_ends_the_command_and_its_results_are_still_recorded() -> None:
    """LEASE-3: what it wrote is a local write like any other."""
    one, two = pair()
    held, desk, made = holder(one, 1000)
    desk.passes = True
    begun = held.start

    def start() -> Any:
        started = begun()
        leasing.release(one.soul, {})
        two.settle()
        leasing.acquire(two.soul, {})
        one.write(MEMORY, "all five\n")
        return started

    held.start = start
    with pytest.raises(Refused, match="another lease"):
        held.run()
    assert len(made[0].ended) == 1
    two.settle()
    assert two.text(MEMORY) == "all five\n"
    assert leasing.show(two.soul, {})["lease"]["mine"] is True


def test_a_held_lease_keeps_the_command_from_starting() -> None:
    """LEASE-2: exit code 6."""
    one, two = pair()
    leasing.acquire(two.soul, {})
    held, _, made = holder(one, 10)
    with pytest.raises(Refused, match="phone"):
        held.run()
    assert made == []


def test_a_command_that_cannot_start_gives_the_lease_back() -> None:
    one, two = pair()

    def start() -> Any:
        raise Unusable("no such program")

    with pytest.raises(Unusable):
        consolidating.Holder(Desk(one), start, one.clock).run()
    assert leasing.show(two.soul, {})["lease"] is None
    assert one.soul.frozen == ()


def test_a_person_can_stop_it_and_the_lease_is_given_up() -> None:
    one, two = pair()
    held, _, made = holder(one, 1000)
    held.stopped = lambda: bool(made) and one.clock.boottime() > made[0].begun + 5
    assert held.run() == (143, None)
    assert leasing.show(two.soul, {})["lease"] is None


def run(tmp_path: Path, script: str, **more: Any) -> child.Child:
    return child.start(["sh", "-c", script], tmp_path, {**child.environment(), **more.pop("env", {})}, **more)


def test_a_child_runs_in_the_directory_and_its_code_is_a_shells(tmp_path: Path) -> None:
    assert run(tmp_path, "pwd > here; exit 7").wait(10) == 7
    assert (tmp_path / "here").read_text().strip() == str(tmp_path)
    assert run(tmp_path, "kill -9 $$").wait(10) == 137
    assert child.start([str(tmp_path / "none")], tmp_path, {}, stdout=os.open(os.devnull, os.O_WRONLY)).wait(10) in (
        126,
        127,
    )


def test_a_child_and_all_it_started_is_asked_to_end_and_then_killed(tmp_path: Path) -> None:
    started = run(tmp_path, "trap '' TERM; sleep 60 & echo $! > pid; touch up; wait; sleep 60")
    until((tmp_path / "up").exists, "it runs")
    assert started.wait(0.05) is None
    begun = time.monotonic()
    assert started.end(0.3) == 137
    assert time.monotonic() - begun < 5
    assert gone(int((tmp_path / "pid").read_text()))


def test_what_a_child_left_behind_ends_with_it(tmp_path: Path) -> None:
    started = run(tmp_path, "sleep 60 & echo $! > pid; exit 0")
    assert started.wait(10) == 0
    assert started.end(2) == 0
    assert gone(int((tmp_path / "pid").read_text()))


def test_a_stopped_child_ends_too(tmp_path: Path) -> None:
    started = run(tmp_path, "touch up; kill -STOP $$; sleep 60")
    until((tmp_path / "up").exists, "it runs")
    assert started.end(2) == 143


def gone(pid: int) -> bool:
    def ended() -> bool:
        try:
            return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
        except FileNotFoundError:
            return True

    return bool(until(ended, "the process is gone", 5))


def test_a_child_gets_the_usual_signals_and_none_of_our_own_surroundings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SIGIO is ignored by us and must not be by it; what systemd and git tell us is not for it."""
    for name in ("NOTIFY_SOCKET", "WATCHDOG_USEC", "GIT_DIR", "GIT_INDEX_FILE"):
        monkeypatch.setenv(name, "/x")
    monkeypatch.setenv("MY_KEY", "kept")
    before = signal.signal(signal.SIGIO, signal.SIG_IGN)
    try:
        code = "import os,signal as s; print(int(s.getsignal(s.SIGIO)), os.getpgrp() == os.getpid(), dict(os.environ))"
        child.start([sys.executable, "-c", code], tmp_path, child.environment(), stdout=_file(tmp_path)).wait(20)
    finally:
        signal.signal(signal.SIGIO, before)
    said = (tmp_path / "out").read_text()
    assert said.startswith("0 True ")
    assert "'MY_KEY': 'kept'" in said
    assert not [name for name in ("NOTIFY_SOCKET", "WATCHDOG_USEC", "GIT_DIR", "GIT_INDEX_FILE") if name in said]


def _file(tmp_path: Path) -> int:
    return os.open(tmp_path / "out", os.O_WRONLY | os.O_CREAT, 0o600)


@pytest.fixture
def real(tmp_path: Path) -> Iterator[Fleet]:
    """Two bodies on a host over SSH."""
    host = Host(tmp_path / "host").start()
    host.create("kaoru.soul.git")
    made = Fleet(host, tmp_path, "kaoru.soul.git")
    yield made
    made.close()
    host.stop()


def consolidate(body: RealBody, script: str, *words: str) -> Any:
    return body.run("consolidate", *words, "--", "sh", "-c", script)


@pytest.mark.parametrize("daemon", [False, True])
def test_a_real_command_with_and_without_a_daemon(real: Fleet, daemon: bool) -> None:
    """LEASE-1, LEASE-3, GUARD-2, MERGE-12: and commands work while it runs."""
    laptop, phone = real.body("laptop"), real.body("phone")
    phone.within = True  # what the laptop does is the point
    laptop.write(MEMORY, FIVE)
    laptop.sync()
    phone.sync()
    if daemon:
        laptop.start()
    script = (
        "pwd; until [ -e go ]; do sleep 0.05; done; cat memories/MEMORY.md > seen.txt; "
        f"{sys.executable} -m bridge sync --json > sync.txt; {sys.executable} -m bridge lease show --json > lease.txt; "
        "printf 'all five\\n' > memories/MEMORY.md; exit 5"
    )
    answers: list[Any] = []
    thread = threading.Thread(target=lambda: answers.append(consolidate(laptop, script)))
    thread.start()
    until(lambda: '"body":"laptop"' in (_published(real) or ""), "the lease is published")
    assert consolidate(phone, "true", "--json").expect(6)["error"]["kind"] == "lease"
    phone.write(MEMORY, FIVE + "§\nfrom the phone\n")
    phone.sync()
    laptop.write("go", "")
    thread.join(60)
    (answer,) = answers
    assert (answer.code, answer.out.strip(), answer.err) == (5, str(laptop.soul), "")
    assert laptop.read("seen.txt") == FIVE
    assert '"outcome": "ok"' in (laptop.read("sync.txt") or "")
    assert '"mine": true' in (laptop.read("lease.txt") or "")
    assert sorted(laptop.entries(MEMORY)) == ["all five", "from the phone"]
    assert _published(real) is None
    phone.sync()
    assert sorted(phone.entries(MEMORY)) == ["all five", "from the phone"]
    assert laptop.status()["daemon"]["running"] is daemon


def _published(real: Fleet) -> str | None:
    try:
        return real.git("show", "main:locks/consolidation.json")
    except AssertionError:
        return None


def test_a_real_command_is_ended_by_a_signal_and_the_lease_is_given_up(real: Fleet) -> None:
    laptop = real.body("laptop")
    laptop.sync()
    words = laptop.command("consolidate", "--", "sh", "-c", "touch up; sleep 300 & wait")
    with subprocess.Popen(words, env=laptop.env(), stdin=subprocess.DEVNULL) as calling:
        until((laptop.soul / "up").exists, "it runs")
        calling.send_signal(signal.SIGTERM)
        assert calling.wait(30) == 143
    assert _published(real) is None


def test_a_killed_caller_leaves_a_soul_that_goes_on(real: Fleet) -> None:
    """Killed without a word: the lease ends by itself, and memories come in again once its command is over."""
    laptop = real.body("laptop").start()
    words = laptop.command("consolidate", "--", "sh", "-c", "echo $$ > pid; touch up; sleep 300")
    with subprocess.Popen(words, env=laptop.env(), stdin=subprocess.DEVNULL) as calling:
        until((laptop.soul / "up").exists, "it runs")
        calling.kill()
    os.killpg(int(laptop.read("pid") or 0), signal.SIGKILL)
    phone = real.body("phone")
    phone.append(MEMORY, "§\nfrom the phone\n")
    phone.sync()
    until(lambda: "from the phone" in (laptop.read(MEMORY) or ""), "it is written here")
    assert consolidate(laptop, "exit 4").code == 4


def test_offline_and_without_a_command_it_says_so(real: Fleet) -> None:
    laptop = real.body("laptop")
    assert laptop.json("consolidate", code=2)["error"]["kind"] == "usage"
    refused = laptop.run("consolidate", "--json", "--", "no-such-program").expect(2)
    assert "no program" in refused["error"]["message"]
    with laptop.offline():
        assert consolidate(laptop, "true", "--json").expect(5)["error"]["kind"] == "network"


def test_with_json_the_answer_is_one_document_and_the_commands_words_are_on_the_other_stream(real: Fleet) -> None:
    laptop = real.body("laptop")
    answer = consolidate(laptop, "echo hello; exit 3", "--json")
    assert (answer.code, answer.document) == (3, {"code": 3, "problem": None})
    assert answer.err == "hello\n"
