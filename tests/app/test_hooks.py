"""A person's programs hear what happened, and no pass ever waits for them."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from bridge.adapters import child, hooks
from bridge.app.host import Host
from bridge.core.errors import Unusable
from bridge.fakes.clock import FakeClock
from bridge.fakes.facts import FakeFacts
from tests.app.bodies import Body, fleet
from tests.real.fleet import Fleet, until


@dataclass
class Program:
    """A hook that ends with `code` once it may, or was made to."""

    code: int
    free: threading.Event
    ended: bool = False

    def wait(self, seconds: float) -> int | None:
        return self.code if self.free.wait(min(seconds, 0.01)) else None

    def end(self, grace: float) -> int:
        self.ended = True
        return self.code if self.free.is_set() else 143


@dataclass
class Stage:
    """Hooks whose programs are played."""

    commands: dict[str, tuple[str, ...]]
    facts: FakeFacts = field(default_factory=FakeFacts)
    heard: list[dict[str, Any]] = field(default_factory=list)
    programs: list[Program] = field(default_factory=list)
    told: list[str] = field(default_factory=list)
    free: threading.Event = field(default_factory=threading.Event)
    code: int = 0
    hooks: Any = None

    def __post_init__(self) -> None:
        self.free.set()
        self.hooks = hooks.Hooks(self.facts, self.commands, self.start, FakeClock(), self.told.append)

    def start(self, command: Sequence[str], content: bytes) -> Program:
        if command[0] == "missing":
            raise Unusable("no such program")
        self.heard.append(json.loads(content))
        self.programs.append(Program(self.code, self.free))
        return self.programs[-1]

    def names(self) -> list[str]:
        return [told["event"] for told in self.heard]


@pytest.fixture
def stage() -> Iterator[Callable[..., Stage]]:
    made: list[Stage] = []

    def make(*events: str, program: str = "notify") -> Stage:
        made.append(Stage({event: (program,) for event in events}))
        return made[-1]

    yield make
    for one in made:
        one.free.set()
        one.hooks.close(5)


def test_facts_go_on_to_where_they_are_kept_whether_or_not_anybody_listens(stage: Callable[..., Stage]) -> None:
    one = stage()
    one.hooks.bind_pass("7")
    one.hooks.record("commit.recorded", commit="a")
    assert one.facts.passes == ["7"]
    assert one.facts.recorded == [("commit.recorded", {"commit": "a"})]


def test_a_program_hears_its_event_and_no_other_one(stage: Callable[..., Stage]) -> None:
    one = stage("commit.recorded")
    one.hooks.bind_pass("1800000000.7")
    one.hooks.record("remote.pushed", commit="a")
    one.hooks.record("commit.recorded", commit="a", paths=["caf\udce9"])
    one.hooks.close(5)
    assert one.heard == [
        {
            "at": "2027-01-15T08:00:00.000Z", "event": "commit.recorded", "pass": "1800000000.7", "commit": "a",
            "paths": ["caf\udce9"],
        }
    ]  # fmt: skip


def synced(one: Stage, *events: str, outcome: str = "ok") -> int:
    """How often `synced` was heard by the end of one more pass with these facts."""
    for event in events:
        one.hooks.record(event)
    one.hooks.record("pass.finished", outcome=outcome, sentence="done.")
    until(lambda: one.hooks._waiting.empty(), "the queue is empty")
    time.sleep(0.02)
    return one.names().count("synced")


def test_synced_is_a_pass_after_which_all_that_it_brought_rests_at_the_remote(stage: Callable[..., Stage]) -> None:
    one = stage("synced")
    assert synced(one) == 0
    assert synced(one, "commit.recorded") == 0
    assert synced(one) == 0
    assert synced(one, "remote.pushed") == 1
    assert synced(one) == 1
    assert synced(one, "remote.merged", "file.written") == 2
    assert synced(one, "commit.recorded", "remote.merged", outcome="offline") == 2
    assert synced(one, "remote.pushed") == 3
    assert one.heard[-1]["sentence"] == "done."


def test_on_a_fleet_synced_is_told_to_both_sides_of_a_change() -> None:
    world = fleet()
    stages: dict[str, Stage] = {}

    def body(name: str) -> Body:
        made = world.body(name)
        stages[name] = Stage({"synced": ("notify",)}, facts=made.facts)
        made.soul.facts = stages[name].hooks
        return made

    one, two = body("laptop"), body("phone")
    world.settle()
    before = {name: synced_of(stages[name]) for name in stages}
    one.write("notes/kyoto.md", "# kyoto\n")
    one.settle()
    two.settle()
    one.settle()
    assert {name: synced_of(stages[name]) - before[name] for name in stages} == {"laptop": 1, "phone": 1}
    one.remote.unreachable = True
    one.write("notes/uji.md", "# uji\n")
    one.settle()
    assert synced_of(stages["laptop"]) - before["laptop"] == 1
    for each in stages.values():
        each.hooks.close(5)


def synced_of(one: Stage) -> int:
    until(lambda: one.hooks._waiting.empty(), "the queue is empty")
    time.sleep(0.05)
    return one.names().count("synced")


def test_a_slow_program_delays_nobody_and_what_does_not_fit_is_counted(stage: Callable[..., Stage]) -> None:
    one = stage("commit.recorded")
    one.free.clear()
    begun = time.monotonic()
    for _ in range(hooks.WAITING + 40):
        one.hooks.record("commit.recorded")
    assert time.monotonic() - begun < 1
    assert 35 <= one.hooks.left_out["commit.recorded"] <= 40
    assert len(one.facts.recorded) == hooks.WAITING + 40


def test_a_program_that_takes_too_long_is_stopped_and_told_of(stage: Callable[..., Stage]) -> None:
    one = stage("synced")
    one.free.clear()
    one.hooks.longest = 0.6
    one.hooks.record("remote.merged")
    one.hooks.record("pass.finished", outcome="ok")
    until(lambda: one.told, "it is told")
    assert one.programs[0].ended
    assert one.told == ["the hook synced (notify) did not end within 0.6 s and was stopped; passes go on"]


def test_a_failing_program_is_told_of_once_and_counted_until_it_succeeds_again(stage: Callable[..., Stage]) -> None:
    one = stage("commit.recorded")
    one.code = 3
    for _ in range(3):
        one.hooks.record("commit.recorded")
    until(lambda: one.hooks.failures.get("commit.recorded") == 3, "three failures")
    assert one.told == ["the hook commit.recorded (notify) ended with exit code 3; passes go on"]
    one.code = 0
    one.hooks.record("commit.recorded")
    until(lambda: len(one.heard) == 4, "it ran")
    one.code = 4
    one.hooks.record("commit.recorded")
    until(lambda: len(one.told) == 2, "it is told again")


def test_a_program_that_is_not_there_is_told_of(stage: Callable[..., Stage]) -> None:
    one = stage("commit.recorded", program="missing")
    one.hooks.record("commit.recorded")
    until(lambda: one.told, "it is told")
    assert "could not be started" in one.told[0]


def test_closing_lets_what_waits_run_and_does_not_wait_for_ever(stage: Callable[..., Stage]) -> None:
    one = stage("commit.recorded")
    for _ in range(5):
        one.hooks.record("commit.recorded")
    one.hooks.close(5)
    assert len(one.heard) == 5
    one.hooks.record("commit.recorded")
    slow = stage("commit.recorded")
    slow.free.clear()
    slow.hooks.record("commit.recorded")
    begun = time.monotonic()
    slow.hooks.close(0.2)
    assert time.monotonic() - begun < 3
    assert slow.programs[0].ended


def started(tmp_path: Path) -> Callable[[Sequence[str], bytes], child.Child]:
    def start(command: Sequence[str], content: bytes) -> child.Child:
        descriptor = child.fed(content)
        try:
            return child.start(command, tmp_path, child.environment(), stdin=descriptor, stdout=2)
        finally:
            os.close(descriptor)

    return start


def test_a_real_program_reads_the_event_however_large_and_has_the_usual_signals(tmp_path: Path) -> None:
    """SIGIO is ignored by us and must end who does not expect it."""
    code = (
        "import json,signal,sys; told=json.load(sys.stdin); "
        "open('heard','w').write(f'{told[\"event\"]} {len(told[\"paths\"])} {int(signal.getsignal(signal.SIGIO))}')"
    )
    told: list[str] = []
    before = signal.signal(signal.SIGIO, signal.SIG_IGN)
    one = hooks.Hooks(
        FakeFacts(), {"commit.recorded": (sys.executable, "-c", code)}, started(tmp_path), FakeClock(), told.append
    )
    try:
        one.record("commit.recorded", paths=[f"notes/{number}.md" for number in range(20_000)])
        one.close(20)
    finally:
        signal.signal(signal.SIGIO, before)
    assert told == []
    assert (tmp_path / "heard").read_text() == "commit.recorded 20000 0"


def test_a_real_program_that_hangs_with_its_children_is_gone_in_time(tmp_path: Path) -> None:
    told: list[str] = []
    one = hooks.Hooks(
        FakeFacts(), {"synced": ("sh", "-c", "sleep 100 & echo $! > pid; wait")}, started(tmp_path), FakeClock(),
        told.append,
    )  # fmt: skip
    one.longest = 0.5
    one.record("remote.merged")
    one.record("pass.finished", outcome="ok")
    until(lambda: told, "it is told")
    pid = int((tmp_path / "pid").read_text())
    until(lambda: not Path(f"/proc/{pid}").exists() or ") Z " in Path(f"/proc/{pid}/stat").read_text(), "it is gone")
    one.close(1)


@pytest.fixture
def real(tmp_path: Path) -> Iterator[Fleet]:
    """A host over SSH."""
    host = Host(tmp_path / "host").start()
    host.create("kaoru.soul.git")
    made = Fleet(host, tmp_path, "kaoru.soul.git")
    yield made
    made.close()
    host.stop()


def test_configured_hooks_run_in_the_daemon_and_in_a_single_sync(real: Fleet) -> None:
    """CONTRACT: the event is JSON on standard input; a failing hook keeps nothing from being synchronised."""
    laptop, phone = real.body("laptop"), real.body("phone")
    listen = json.dumps(["sh", "-c", "cat >> heard.jsonl"])
    laptop.configure(hooks=f'{{synced: {listen}, commit.recorded: ["false"]}}')
    heard = laptop.home / "heard.jsonl"
    laptop.configure(hooks=f'{{synced: ["sh", "-c", "cat >> {heard}"], commit.recorded: ["false"]}}')
    laptop.write("notes/uji.md", "# uji\n")
    answer = laptop.run("sync", "--json")
    assert answer.expect(0)["pushed"] is True
    assert "the hook commit.recorded (false) ended with exit code 1" in answer.err
    (told,) = map(json.loads, heard.read_text().splitlines())
    assert (told["event"], told["outcome"]) == ("synced", "ok")
    laptop.start()
    phone.write("notes/kyoto.md", "# kyoto\n")
    phone.sync()
    until(lambda: len(heard.read_text().splitlines()) > 1, "the daemon told it too")
    assert laptop.stop() == 0
