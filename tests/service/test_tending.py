"""Several souls in one process: what one of them suffers is not another one's business, and systemd hears the truth."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bridge.app import keeping, tending
from bridge.app.keeping import Beat, Keeper, NotedFacts, NotedRemote, Setback, Vigil
from bridge.app.tending import Asked, Outside, Tender
from bridge.core.errors import Refused, SoulError, Transient, Unusable
from bridge.core.model import RemoteLook

ROOT = Path(__file__).parents[2]

SOON = 5.0


class HandClock:
    """A clock that only a test moves."""

    def __init__(self) -> None:
        self.at = 1000.0

    def now(self) -> float:
        return 1_700_000_000.0 + self.at

    def boottime(self) -> float:
        return self.at

    def sleep(self, seconds: float) -> None:
        self.at += seconds


class Voice:
    """What the supervisor heard."""

    def __init__(self, watchdog: float = 0.03) -> None:
        self.watchdog = watchdog
        self.heard: list[str] = []

    def say(self, *lines: str) -> None:
        self.heard += lines

    def statuses(self) -> list[str]:
        return [line for line in self.heard if line.startswith("STATUS=")]


class Log:
    """What was logged."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, dict[str, Any]]] = []

    def info(self, event: str, **fields: Any) -> None:
        self.lines.append((event, fields))

    error = info


class LiveDaemon:
    """A daemon that lives until it is stopped or fails, and makes no passes."""

    def __init__(self, fails: BaseException | None = None) -> None:
        self.life = SimpleNamespace(last=None, problem=None, progressed=0.0)
        self.failure: BaseException | None = None
        self.inbox = self
        self.hints: list[str | None] = []
        self.ended = threading.Event()
        self._fails = fails

    def hint(self, path: str | None) -> None:
        self.hints.append(path)

    def run(self) -> None:
        if self._fails is None:
            self.ended.wait(SOON)
        self.failure = self._fails

    def fail(self, error: BaseException) -> None:
        self._fails = error
        self.ended.set()


@dataclass
class Kept:
    """A soul of these tests."""

    daemon: Any
    beat: Beat
    log: list[str] = field(default_factory=list)

    def stop(self) -> None:
        self.log.append("stop")
        self.daemon.ended.set()

    def cut(self) -> None:
        self.log.append("cut")

    def close(self) -> None:
        self.log.append("close")


class World:
    """A tender in a thread of its own, over souls that do what a test says."""

    def __init__(self, *agents: str, watchdog: float = 0.03) -> None:
        self.clock = HandClock()
        self.voice, self.log = Voice(watchdog), Log()
        self.configured: dict[str, object] = {agent: "settings" for agent in agents}
        self.opens: dict[str, list[Any]] = {}  # by agent: what each opening does, the last one for ever
        self.lives: dict[str, list[Kept]] = {}
        self.setbacks: list[Setback] = []
        self.asked = Asked()
        self.raised: BaseException | None = None
        self.names = {id(settings): agent for agent, settings in self.configured.items()}
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> World:
        self._thread.start()
        return self

    def until(self, found: Callable[[], Any], what: str = "") -> None:
        end = time.monotonic() + SOON
        while not found():
            assert time.monotonic() < end, (what, self.voice.heard[-5:], self.log.lines[-5:], self.setbacks)
            time.sleep(0.002)

    def ready(self) -> World:
        self.until(lambda: "READY=1" in self.voice.heard, "ready")
        return self

    def stop(self) -> None:
        self.asked.end()
        self._thread.join(SOON)
        assert not self._thread.is_alive()

    def ended(self) -> BaseException | None:
        self._thread.join(SOON)
        assert not self._thread.is_alive()
        return self.raised

    def reload(self) -> None:
        before = self.voice.heard.count("READY=1")
        self.asked.read_again()
        self.until(lambda: self.voice.heard.count("READY=1") > before, "reloaded")

    def _configured(self) -> dict[str, object]:
        return {
            agent: value if isinstance(value, SoulError) else (agent, value) for agent, value in self.configured.items()
        }

    def _open(self, settings: Any) -> Kept:
        agent = settings[0]
        planned = self.opens.get(agent, [None])
        plan = planned.pop(0) if len(planned) > 1 else planned[0]
        if isinstance(plan, BaseException):
            raise plan
        kept = Kept(LiveDaemon(), Beat(self.clock))
        self.lives.setdefault(agent, []).append(kept)
        return kept

    def _run(self) -> None:
        outside = Outside(
            self._configured, self._open, self.setbacks.append, self.clock, self.voice, lambda: 77, self.log
        )
        try:
            Tender(outside, self.asked).run()
        except BaseException as error:  # noqa: BLE001 - asked for by the test
            self.raised = error


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeping, "FIRST_RETRY", 0.02)


@pytest.fixture
def world() -> Iterator[World]:
    made = World("kaoru", "mei")
    yield made
    made.stop()


def test_ready_is_said_once_all_were_opened_and_before_that_more_time_is_asked_for(world: World) -> None:
    gate = threading.Event()
    opened = world._open

    def slowly(settings: Any) -> Kept:
        gate.wait(SOON)
        return opened(settings)

    world._open = slowly  # type: ignore[method-assign]
    world.start()
    world.until(lambda: any(line.startswith("EXTEND_TIMEOUT_USEC=") for line in world.voice.heard))
    assert "READY=1" not in world.voice.heard
    gate.set()
    world.ready()
    assert world.voice.heard.count("READY=1") == 1


def test_a_fault_of_one_soul_leaves_the_others_alone_and_it_begins_again(world: World) -> None:
    world.start().ready()
    other = world.lives["mei"][0]
    world.lives["kaoru"][0].daemon.fail(KeyError("a bug"))
    world.until(lambda: len(world.lives["kaoru"]) == 2, "it lives again")
    assert (other.log, len(world.lives["mei"])) == ([], 1)
    assert world.lives["kaoru"][0].log == ["close"]
    (setback,) = world.setbacks
    assert (setback.agent, repr(setback.error), setback.wait) == ("kaoru", "KeyError('a bug')", keeping.FIRST_RETRY)
    assert world.raised is None


def test_a_soul_that_does_not_live_is_named_in_the_status_of_the_unit(world: World) -> None:
    world.opens["kaoru"] = [Transient("the disk is full", kind="disk")]
    world.start().ready()
    world.until(lambda: any("kaoru: does not live: the disk is full" in line for line in world.voice.statuses()))
    assert "mei" in world.lives


def test_what_is_in_the_way_is_named_in_the_status_of_the_unit_until_it_is_gone(world: World) -> None:
    """A pass in between that did not ask the remote has nothing to do, which is not all there is to say."""
    del world.configured["mei"]
    world.start().ready()
    life = world.lives["kaoru"][0].daemon.life
    life.last = SimpleNamespace(sentence="nothing to do.", outcome="ok", recorded=0, merged=0, written=0, pushed=False)
    life.problem = Refused("the host key has changed", kind="hostkey")
    world.until(lambda: world.voice.statuses()[-1:] == ["STATUS=kaoru: the host key has changed."])
    life.problem = None
    world.until(lambda: world.voice.statuses()[-1:] == ["STATUS=kaoru: nothing to do."])


def test_the_pauses_grow_and_a_long_life_makes_them_short_again() -> None:
    pauses = [keeping.pause_after(failures) for failures in range(1, 25)]
    assert pauses == sorted(pauses)
    assert pauses[-1] == keeping.LONGEST_RETRY
    clock, told, plan = HandClock(), [], [OSError(), OSError(), OSError(), None]
    lived = threading.Event()

    def opener() -> Kept:
        step = plan.pop(0) if plan else None
        if step is not None:
            raise step
        kept = Kept(LiveDaemon(ValueError("later")), Beat(clock))
        clock.at += keeping.SOUND
        if not plan:
            lived.set()
        return kept

    keeper = Keeper("kaoru", opener, clock, told.append)
    keeper.start()
    assert lived.wait(SOON)
    end = time.monotonic() + SOON
    while len(told) < 4 and time.monotonic() < end:
        time.sleep(0.002)
    keeper.stop()
    assert keeper.join(SOON)
    waits = [setback.wait for setback in told[:4]]
    assert waits == [keeping.pause_after(1), keeping.pause_after(2), keeping.pause_after(3), keeping.pause_after(1)]


def test_configuration_errors_of_all_souls_end_the_program(world: World) -> None:
    world.configured = {"kaoru": Unusable("no body"), "mei": Unusable("no agent")}
    error = world.start().ended()
    assert isinstance(error, Unusable)
    assert error.exit_code == 2
    assert "READY=1" not in world.voice.heard


def test_a_configuration_error_of_one_soul_does_not(world: World) -> None:
    world.configured["kaoru"] = Unusable("kaoru.yaml:3:1: body is missing")
    world.start().ready()
    assert list(world.lives) == ["mei"]
    assert any("kaoru: the configuration cannot be used" in line for line in world.voice.statuses())


def test_souls_that_cannot_be_opened_with_their_configuration_end_the_program(world: World) -> None:
    nothing = Refused("there is no soul there", kind="config")
    world.opens = {"kaoru": [nothing], "mei": [nothing]}
    assert world.start().ended() is nothing


def test_a_second_daemon_is_told_at_once(world: World) -> None:
    busy = Refused("another soul-bridge holds it", kind="busy")
    world.opens = {"kaoru": [busy], "mei": [busy]}
    assert world.start().ended() is busy


def test_what_passes_by_itself_is_waited_for_from_the_start(world: World) -> None:
    """A disk that is mounted later, at boot: no exit, no limit of starts."""
    absent = Refused("the folder is not there", kind="disk")
    world.opens = {"kaoru": [absent, absent, None], "mei": [Transient("the disk is full", kind="disk")]}
    world.start().ready()
    world.until(lambda: "kaoru" in world.lives, "it lives in the end")
    assert world.raised is None


def test_the_watchdog_hears_nothing_while_one_soul_hangs(world: World) -> None:
    world.start().ready()
    world.until(lambda: world.voice.heard.count("WATCHDOG=1") > 2)
    for _ in range(int(keeping.LONGEST_STEP // 20) + 2):  # in steps, or it would be a sleep of the machine
        world.clock.at += 20.0
        world.lives["mei"][0].beat.got_on()
        heard = len(world.voice.heard)
        world.until(lambda before=heard: time.sleep(0.03) or len(world.voice.heard) >= before)
    silent = world.voice.heard.count("WATCHDOG=1")
    time.sleep(0.2)
    assert world.voice.heard.count("WATCHDOG=1") == silent
    world.lives["kaoru"][0].beat.got_on()
    world.until(lambda: world.voice.heard.count("WATCHDOG=1") > silent, "it is fed again")


def test_a_soul_that_waits_to_begin_again_does_not_hang(world: World) -> None:
    world.opens["kaoru"] = [Unusable("no")]
    world.start().ready()
    for _ in range(60):
        world.clock.at += 20.0
        world.lives["mei"][0].beat.got_on()
        time.sleep(0.01)
    silent = world.voice.heard.count("WATCHDOG=1")
    world.until(lambda: world.voice.heard.count("WATCHDOG=1") > silent)


def test_a_machine_that_slept_is_noticed_and_nobody_is_blamed(world: World) -> None:
    world.start().ready()
    world.clock.at += 8 * 3600.0
    world.until(lambda: ("woke up", {"slept": 28800}) in world.log.lines)
    fed = world.voice.heard.count("WATCHDOG=1")
    world.until(lambda: world.voice.heard.count("WATCHDOG=1") > fed + 2, "the watchdog is fed after a sleep")
    for lives in world.lives.values():
        assert lives[0].daemon.hints == [None]
        assert lives[0].log == ["cut"], "a connection from before is not waited for"


def test_a_sleep_is_a_jump_between_two_looks_not_the_sum_of_short_ones() -> None:
    clock = HandClock()
    vigil = Vigil(clock)
    for _ in range(100):
        clock.at += 5.0
        assert vigil.look() == 0.0
    woke = vigil.woke
    clock.at += 31.0
    assert vigil.look() == 31.0
    assert vigil.woke == clock.at > woke


def test_a_reload_touches_only_the_soul_whose_settings_changed(world: World) -> None:
    world.start().ready()
    world.configured["kaoru"] = "others"
    world.reload()
    world.until(lambda: len(world.lives["kaoru"]) == 2)
    assert world.lives["kaoru"][0].log == ["stop", "close"]
    assert (len(world.lives["mei"]), world.lives["mei"][0].log) == (1, [])
    assert world.lives["mei"][0].daemon.hints == [None]
    told = world.voice.heard
    assert told.index("RELOADING=1") + 1 == told.index("MONOTONIC_USEC=77")
    assert "READY=1" in told[told.index("RELOADING=1") :]


def test_a_changed_soul_that_is_long_in_ending_is_taken_on_again_once_it_has(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tending, "STOPPING", 0.03)
    monkeypatch.setattr(tending, "CUT", 0.03)
    gate = threading.Event()
    slow = world._open

    def slowly(settings: Any) -> Kept:
        kept = slow(settings)
        if settings == ("kaoru", "slow"):
            kept.daemon.run = lambda: gate.wait(SOON)
        return kept

    world._open = slowly  # type: ignore[method-assign]
    world.configured["kaoru"] = "slow"
    world.start().ready()
    world.configured["kaoru"] = "others"
    world.reload()
    assert len(world.lives["kaoru"]) == 1, "it has not ended yet"
    gate.set()
    world.until(lambda: len(world.lives["kaoru"]) == 2, "it lives again")
    world.configured["kaoru"] = "once more"
    world.reload()
    world.until(lambda: len(world.lives["kaoru"]) == 3, "and is an ordinary soul")


def test_a_keeper_hangs_long_past_its_end_and_while_it_opens_again_after_a_failure() -> None:
    clock, gate = HandClock(), threading.Event()
    steps: list[BaseException | None] = [Transient("the disk is full", kind="disk"), None]
    opening = threading.Event()

    def opener() -> Kept:
        step = steps.pop(0)
        if step is not None:
            raise step
        opening.set()
        gate.wait(SOON)
        return Kept(LiveDaemon(), Beat(clock))

    keeper = Keeper("kaoru", opener, clock, lambda setback: None)
    keeper.start()
    assert opening.wait(SOON) and keeper.error is not None
    assert not keeper.is_stuck(clock.at, 0.0)
    clock.at += keeping.LONGEST_STEP + 1
    assert keeper.is_stuck(clock.at, 0.0), "it hangs while it is opened"
    assert not keeper.is_stuck(clock.at, clock.at), "a sleep of the machine excuses it"
    keeper.stop()
    assert not keeper.is_stuck(clock.at, 0.0), "it has its time to end"
    clock.at += keeping.LONGEST_STEP + 1
    assert keeper.is_stuck(clock.at, 0.0), "it does not end"
    gate.set()
    assert keeper.join(SOON)
    assert not keeper.is_stuck(clock.at, 0.0), "it has ended"


def test_a_reload_with_a_configuration_that_cannot_be_used_changes_nothing_and_says_so(world: World) -> None:
    world.start().ready()
    world.configured["kaoru"] = Unusable("kaoru.yaml:1:1: unknown key")
    world.reload()
    assert (len(world.lives["kaoru"]), world.lives["kaoru"][0].log) == (1, [])
    wanted = "kaoru: the configuration cannot be used; the one before it holds"
    world.until(lambda: any(wanted in line for line in world.voice.statuses()))
    world.configured["kaoru"] = "settings"
    world.reload()
    assert (len(world.lives["kaoru"]), world.raised) == (1, None)


def test_a_reload_brings_new_souls_and_lets_removed_ones_go(world: World) -> None:
    world.start().ready()
    del world.configured["mei"]
    world.configured["ren"] = "settings"
    world.reload()
    world.until(lambda: "ren" in world.lives)
    assert world.lives["mei"][0].log == ["stop", "close"]
    assert world.lives["kaoru"][0].log == []


def test_a_reload_tries_again_at_once_what_failed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeping, "FIRST_RETRY", 300.0)
    world.opens["kaoru"] = [Transient("the disk is full", kind="disk"), None]
    world.start().ready()
    world.reload()
    world.until(lambda: "kaoru" in world.lives)


def test_the_end_is_told_and_every_soul_is_stopped_and_closed() -> None:
    world = World("kaoru", "mei").start().ready()
    world.stop()
    assert world.voice.heard[-1] == "STOPPING=1"
    assert [lives[0].log for lives in world.lives.values()] == [["stop", "close"]] * 2
    assert world.raised is None


def test_a_stop_while_souls_are_opened_or_waited_for_ends_them_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeping, "FIRST_RETRY", 300.0)
    world = World("kaoru")
    world.opens["kaoru"] = [Transient("no", kind="disk")]
    world.start().ready()
    began = time.monotonic()
    world.stop()
    assert time.monotonic() - began < 2.0


class SlowRemote:
    """A remote whose answer takes as long as a test says."""

    def __init__(self, clock: HandClock, beat_of: Callable[[], Beat]) -> None:
        self.clock, self.beat_of = clock, beat_of
        self.overdue: list[bool] = []

    def fetch(self, known: object) -> RemoteLook:
        self.clock.at += keeping.LONGEST_STEP * 2
        self.overdue.append(self.beat_of().is_overdue(self.clock.at, 0.0))
        self.clock.at += keeping.LONGEST_CALL
        self.overdue.append(self.beat_of().is_overdue(self.clock.at, 0.0))
        raise Transient("gone")

    def push(self, expected: str | None, new: str) -> None:
        """Done."""

    def close(self) -> None:
        """Done."""


def test_a_long_transfer_is_no_hang_but_has_its_limit() -> None:
    clock = HandClock()
    beat = Beat(clock)
    remote = SlowRemote(clock, lambda: beat)
    with pytest.raises(Transient):
        NotedRemote(remote, beat).fetch([])  # type: ignore[arg-type]
    assert remote.overdue == [False, True]
    assert not beat.is_overdue(clock.at, 0.0), "an answer, whatever it is, is a sign"


def test_a_fact_is_a_sign_of_getting_on() -> None:
    clock = HandClock()
    beat = Beat(clock)
    clock.at += keeping.LONGEST_STEP + 1
    assert beat.is_overdue(clock.at, 0.0)
    facts = SimpleNamespace(record=lambda event, **fields: None, bind_pass=lambda id: None)
    NotedFacts(facts, beat).record("file.written", path="SOUL.md")  # type: ignore[arg-type]
    assert not beat.is_overdue(clock.at, 0.0)


STORM = """
import signal
from bridge.app.tending import Asked

asked, heard = Asked(), 0

def hear(number, frame):
    global heard
    heard += 1
    (asked.end if heard >= 10_000 else asked.read_again)()

signal.signal(signal.SIGALRM, hear)
signal.setitimer(signal.ITIMER_REAL, 0.00005, 0.00005)
while not asked.stop:
    asked.wait(0.00001)
signal.setitimer(signal.ITIMER_REAL, 0)
"""


def test_a_signal_at_any_instant_of_waiting_is_heard() -> None:
    """A handler that wants a lock which its own thread holds would keep the process from ever ending."""
    done = subprocess.run([sys.executable, "-c", STORM], cwd=ROOT, timeout=60, check=False)
    assert done.returncode == 0
