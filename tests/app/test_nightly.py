"""The configured consolidation runs at its times, once for what was missed, and never longer than the daemon."""

from __future__ import annotations

import io
import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from bridge.adapters import config
from bridge.app import nightly as nightlies
from bridge.app.consolidating import Holder
from bridge.app.host import Host
from bridge.app.nightly import Diary, Nightly
from bridge.commands import consolidating
from bridge.commands.context import Context
from bridge.core.errors import Refused, SoulError, Transient, Unusable
from bridge.fakes.clock import FakeClock
from tests.real.fleet import Fleet, until

DAY = 86400.0


@dataclass
class Timetable:
    """Every day at the same time; `due` is called by the test."""

    first: float
    running: bool = False

    def start(self) -> None:
        self.running = True

    def stop(self) -> None:
        self.running = False

    def next_after(self, now: float) -> float | None:
        return self.first + ((now - self.first) // DAY + 1) * DAY


@dataclass
class Night:
    """A soul's times, with a command that is played."""

    path: Path
    clock: FakeClock = field(default_factory=FakeClock)
    runs: int = 0
    ends: list[Exception | None] = field(default_factory=list)
    told: list[str] = field(default_factory=list)
    faults: list[tuple[str, int]] = field(default_factory=list)
    stopped: bool = False
    hangs: bool = False
    is_paused: bool = False
    begun: threading.Event = field(default_factory=threading.Event)
    nightly: Nightly | None = None
    table: Timetable | None = None

    def start(self) -> Night:
        self.table = Timetable(self.clock.now() + 3600)
        self.nightly = Nightly(
            self.work, Diary(self.path), self.clock, lambda: self.is_paused, self.told.append, self.fault
        )
        self.nightly.start(self.table)
        return self

    def work(self, stopped: Callable[[], bool]) -> tuple[int, SoulError | None]:
        self.runs += 1
        self.begun.set()
        while self.hangs and not stopped():
            time.sleep(0.005)
        self.stopped = stopped()
        end = self.ends.pop(0) if self.ends else None
        if end is not None:
            raise end
        return 0, None

    def fault(self, error: BaseException, times: int) -> None:
        self.faults.append((str(error), times))

    def due(self) -> None:
        assert self.nightly is not None
        self.nightly.due()

    def stop(self) -> None:
        assert self.nightly is not None
        self.nightly.stop(5)


@pytest.fixture
def night(tmp_path: Path) -> Iterator[Night]:
    made = Night(tmp_path / "consolidated")
    yield made
    if made.nightly is not None:
        made.stop()


def rest(night: Night, runs: int) -> None:
    until(lambda: night.runs == runs and night.nightly is not None and not night.nightly.busy, f"{runs} runs")
    time.sleep(0.05)
    assert night.runs == runs


def test_it_runs_when_it_is_time_and_not_before(night: Night) -> None:
    night.start()
    rest(night, 0)
    assert night.table is not None and night.table.running
    night.due()
    rest(night, 1)
    assert night.told == ["the memories were consolidated"]


def test_times_missed_while_no_daemon_ran_are_made_up_for_once(night: Night) -> None:
    Diary(night.path).write(night.clock.now() - 5 * DAY)
    night.start()
    rest(night, 1)
    night.stop()
    night.start()
    rest(night, 1)


def test_the_first_start_misses_nothing_and_neither_does_one_whose_clock_was_set_back(night: Night) -> None:
    night.start()
    rest(night, 0)
    night.stop()
    Diary(night.path).write(night.clock.now() + 100 * DAY)
    night.start()
    rest(night, 0)
    assert Diary(night.path).read() == night.clock.now()


def test_two_times_at_once_are_one_run(night: Night) -> None:
    night.hangs = True
    night.start()
    night.due()
    until(night.begun.is_set, "it runs")
    night.due()
    night.due()
    night.hangs = False
    rest(night, 2)


def test_a_run_that_could_not_reach_the_remote_is_made_up_for(night: Night, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nightlies, "AGAIN", 0.02)
    night.ends = [Transient("no route"), Transient("no route"), None]
    night.start()
    night.due()
    rest(night, 3)
    assert len([words for words in night.told if "no route" in words]) == 2


def test_where_another_body_has_the_lease_the_time_counts_as_kept(night: Night) -> None:
    """LEASE-1: then that body consolidates."""
    night.ends = [Refused("held by phone", kind="lease", rule="LEASE-2")]
    night.start()
    night.clock.advance(2 * DAY)
    night.due()
    rest(night, 1)
    assert Diary(night.path).read() == night.clock.now()
    assert night.told == ["no consolidation: held by phone"]


@pytest.mark.parametrize(
    "refusal",
    [
        Refused("the key is not authorised", kind="auth", rule="AUTH-3"),
        Refused("this body consolidates already", kind="lease", rule="LEASE-1"),
        Refused("the lease was lost, so the command was stopped", kind="lease", rule="LEASE-3"),
    ],
)
def test_a_time_at_which_nobody_consolidated_is_made_up_for(
    night: Night, monkeypatch: pytest.MonkeyPatch, refusal: SoulError
) -> None:
    monkeypatch.setattr(nightlies, "AGAIN", 0.02)
    night.ends = [refusal]
    night.start()
    night.clock.advance(2 * DAY)
    night.due()
    rest(night, 2)
    assert "it is tried again" in night.told[0] and night.told[1] == "the memories were consolidated"
    assert Diary(night.path).read() == night.clock.now()


def test_a_command_that_cannot_be_started_is_not_tried_again_at_once_and_not_taken_as_done(
    night: Night, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nightlies, "AGAIN", 0.02)
    night.ends = [Unusable("there is no such program")]
    night.start()
    kept = Diary(night.path).read()
    night.clock.advance(2 * DAY)
    night.due()
    rest(night, 1)
    assert Diary(night.path).read() == kept


def test_a_bug_is_told_as_one_and_ends_neither_the_thread_nor_what_is_made_up_for(
    night: Night, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would be noticed weeks later, by memories that nobody consolidated."""
    monkeypatch.setattr(nightlies, "AGAIN", 0.02)
    night.ends = [ValueError("bug 1"), ValueError("bug 2"), None, ValueError("bug 3")]
    night.start()
    kept = Diary(night.path).read()
    night.clock.advance(2 * DAY)
    for runs in (1, 2):
        night.due()
        rest(night, runs)  # not tried again before its next time
    assert Diary(night.path).read() == kept
    for runs in (3, 4):
        night.due()
        rest(night, runs)
    assert night.faults == [("bug 1", 1), ("bug 2", 2), ("bug 3", 1)]
    assert night.told == ["the memories were consolidated"]


def test_while_passes_are_paused_nothing_runs_and_later_it_does(night: Night, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nightlies, "AGAIN", 0.02)
    night.is_paused = True
    night.start()
    night.due()
    rest(night, 0)
    night.is_paused = False
    rest(night, 1)


def test_the_end_of_the_daemon_stops_a_run_which_is_made_up_for(night: Night) -> None:
    night.hangs = True
    night.start()
    kept = Diary(night.path).read()
    night.clock.advance(2 * DAY)
    night.due()
    until(night.begun.is_set, "it runs")
    night.stop()
    assert night.stopped
    assert Diary(night.path).read() == kept
    night.hangs = False
    night.start()
    rest(night, 2)


def test_a_diary_that_cannot_be_read_or_written_is_none(tmp_path: Path) -> None:
    path = tmp_path / "consolidated"
    path.write_text("yesterday")
    assert Diary(path).read() is None
    Diary(tmp_path / "none" / "consolidated").write(1.0)
    Diary(path).write(1.5)
    assert Diary(path).read() == 1.5


class Log:
    """Remembers what it was told, by level."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, dict[str, Any]]] = []

    def error(self, _: str, **fields: Any) -> None:
        self.lines.append(("error", fields))

    def debug(self, _: str, **fields: Any) -> None:
        self.lines.append(("debug", fields))


def test_the_log_of_the_daemon_has_a_bug_of_the_consolidation_once_with_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(holder: Holder) -> tuple[int, SoulError | None]:
        raise ValueError("a bug")

    monkeypatch.setattr(Holder, "run", broken)
    places = config.Places(*[tmp_path] * 6)
    plan = config.Consolidation("0 4 * * *", ("true",))
    settings = cast(config.Settings, SimpleNamespace(agent="kaoru", consolidation=plan, soul=tmp_path))
    places.state_dir("kaoru").mkdir(parents=True)
    log = Log()
    kept = consolidating.nightly(settings, Context(places, False, io.StringIO(), io.StringIO()), log)
    assert kept is not None
    try:
        kept.due()
        until(lambda: len(log.lines) == 1, "it is told")
        kept.due()
        until(lambda: len(log.lines) == 2, "it is told again, to whoever wants all of it")
    finally:
        kept.stop(5)
    assert [(level, fields["times"]) for level, fields in log.lines] == [("error", 1), ("debug", 2)]
    assert log.lines[0][1]["agent"] == "kaoru" and str(log.lines[0][1]["exc_info"]) == "a bug"


@pytest.fixture
def real(tmp_path: Path) -> Iterator[Fleet]:
    """A host over SSH."""
    host = Host(tmp_path / "host").start()
    host.create("kaoru.soul.git")
    made = Fleet(host, tmp_path, "kaoru.soul.git")
    yield made
    made.close()
    host.stop()


def test_a_daemon_runs_what_is_configured_and_stops_it_when_it_ends(real: Fleet) -> None:
    """LEASE-3: the lease is given up, whether the command ended or was ended."""
    body = real.body("laptop")
    command = ["sh", "-c", "cat agent.json > /dev/null; printf 'all of it\\n' > memories/MEMORY.md; read never"]
    body.configure(consolidation=json.dumps({"schedule": "0 4 * * *", "command": command}))
    (body.state / "consolidated").write_text("1000000000\n")
    body.start()
    until(lambda: real.git("show", "main:memories/MEMORY.md") == "all of it\n", "the result is published")
    until(lambda: "the memories were consolidated" in body.log() or "exit code 1" in body.log(), "it is told")
    assert "locks/consolidation.json" not in real.git("ls-tree", "-r", "--name-only", "main")
    assert body.stop() == 0
    assert float((body.state / "consolidated").read_text()) > 1_000_000_000
    body.configure(consolidation=json.dumps({"schedule": "0 4 * * *", "command": ["sh", "-c", "touch up; sleep 600"]}))
    (body.state / "consolidated").write_text("1000000000\n")
    body.start()
    until((body.soul / "up").exists, "it runs")
    assert "locks/consolidation.json" in real.git("ls-tree", "-r", "--name-only", "main")
    begun = time.monotonic()
    assert body.stop() == 0
    assert time.monotonic() - begun < 20
    assert "locks/consolidation.json" not in real.git("ls-tree", "-r", "--name-only", "main")
    assert (body.state / "consolidated").read_text() == "1000000000\n"
