"""`run`: the daemon, in the foreground, for one or several souls."""

from __future__ import annotations

import argparse
import os
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bridge.adapters import config, control
from bridge.adapters.notify import Notifier
from bridge.adapters.watch import Watch
from bridge.app import freezing, pause, status
from bridge.app.daemon import Daemon
from bridge.app.inbox import Inbox
from bridge.app.life import Life
from bridge.app.reads import Reads
from bridge.app.reporting import Reporter, resumed
from bridge.app.soul import Soul
from bridge.commands import wiring
from bridge.commands.context import Context
from bridge.core.instants import iso

STOPPING = 10.0  # seconds for the last pass (CONTRACT)
STUCK = 1200.0  # seconds without progress after which the supervisor is no longer told that all is well


@dataclass
class Running:
    """One soul of this process."""

    opened: wiring.Opened
    daemon: Daemon
    server: control.Server


@dataclass
class Process:
    """What signals set and the main thread waits for."""

    wake: threading.Event = field(default_factory=threading.Event)
    stopping: bool = False
    reload: bool = False

    def stop(self, number: int, frame: object) -> None:
        """SIGTERM, SIGINT."""
        self.stopping = True
        self.wake.set()

    def again(self, number: int, frame: object) -> None:
        """SIGHUP."""
        self.reload = True
        self.wake.set()


def run(arguments: argparse.Namespace, context: Context) -> int:
    """Run until told to stop. Raises Unusable for a configuration that cannot work, Refused for a second daemon."""
    names = arguments.agents or [context.agent(arguments.agent)]
    notifier = Notifier()
    process = Process()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, process.stop)
    signal.signal(signal.SIGHUP, process.again)
    os.chdir("/")
    log = context.log()
    while True:
        souls = start([context.settings(name) for name in names], context)
        log.info("started", souls=names, pid=os.getpid())
        try:
            code = _watch_over(souls, process, notifier, log)
        finally:
            notifier.say("STOPPING=1")
            stop(souls)
        if not process.reload or process.stopping:
            log.info("stopped", souls=names)
            return code
        process.reload = False
        process.wake.clear()
        log.info("reloaded", souls=names)


def start(all_settings: list[config.Settings], context: Context) -> list[Running]:
    """Souls whose threads run and whose sockets answer; all of them or none. Raises as `run`."""
    souls: list[Running] = []
    try:
        for settings in all_settings:
            souls.append(_one(settings, context))
    except BaseException:
        for soul in souls:
            soul.server.close()
            soul.opened.close()
        raise
    for soul in souls:
        soul.daemon.start()
    return souls


def _one(settings: config.Settings, context: Context) -> Running:
    places = context.places
    lock = wiring.lock_of(settings, places)
    lock.acquire()
    try:
        opened = wiring.open_soul(settings, context, lock)
        freezing.tend(opened.soul)
        inbox = Inbox()
        state = places.state_dir(settings.agent)
        before = status.read(places.status_file(settings.agent))
        reporter = Reporter(str(settings.soul), settings.remote, os.getpid(), iso(context.clock.now()), before)
        daemon = Daemon(
            resumed(opened.soul, before),
            Watch(settings.soul, inbox.hint, opened.reads.closed),
            inbox,
            settings.poll,
            _report(reporter, state, opened.reads),
            lambda: pause.is_paused(state),
        )
        server = control.Server(places.control_socket(settings.agent), _answer(inbox, opened.soul), lock)
        server.start()
    except BaseException:
        lock.release()
        raise
    return Running(opened, daemon, server)


def _report(reporter: Reporter, state: Path, reads: Reads) -> Callable[[Life], None]:
    def report(life: Life) -> None:
        reads.watching(life.last is not None and not life.warnings)
        status.write(state / "status.json", reporter.document(life))
        wiring.note_materialised(life.soul, state)

    return report


def _answer(inbox: Inbox, soul: Soul) -> control.Answer:
    def answer(words: dict[str, Any]) -> dict[str, Any]:
        if words.get("command") == "consolidate look":
            return {"lost": soul.lost or not soul.frozen}
        if words.get("command") in ("pause", "resume"):
            inbox.hint(None)
            return {"done": True}
        return inbox.ask(words)

    return answer


def _watch_over(souls: list[Running], process: Process, notifier: Notifier, log: Any) -> int:
    """Wait for a signal or the end of a soul, telling the supervisor how things are."""
    ready = False
    shown: dict[str, str] = {}
    period = min(notifier.watchdog / 3 or 1.0, 1.0)
    while not process.stopping and not process.reload:
        if not ready and all(soul.daemon.life.last is not None or soul.daemon.life.paused for soul in souls):
            notifier.say("READY=1")
            ready = True
        if notifier.watchdog and all(_progresses(soul) for soul in souls):
            notifier.say("WATCHDOG=1")
        _tell(souls, notifier, log, shown)
        for soul in souls:
            if soul.daemon.failure is not None:
                raise soul.daemon.failure
        process.wake.wait(period)
    return 0


def _progresses(soul: Running) -> bool:
    clock = soul.opened.soul.clock
    return clock.boottime() - soul.daemon.life.progressed < STUCK or soul.daemon.life.progressed == 0


def _tell(souls: list[Running], notifier: Notifier, log: Any, shown: dict[str, str]) -> None:
    for soul in souls:
        life, agent = soul.daemon.life, soul.opened.settings.agent
        if life.last is None or shown.get(agent) == life.last.sentence:
            continue
        shown[agent] = life.last.sentence
        notifier.say(f"STATUS={agent}: {life.last.sentence}")
        if life.last.sentence != "nothing to do.":
            log.info("pass", agent=agent, outcome=life.last.outcome, sentence=life.last.sentence)


def stop(souls: list[Running]) -> None:
    """End them: what is unsettled is recorded, one push is tried."""
    for soul in souls:
        soul.server.close()
        soul.daemon.stop()
    for soul in souls:
        if not soul.daemon.join(STOPPING):
            soul.opened.soul.remote.close()
            soul.daemon.join(2.0)
        soul.opened.close()
