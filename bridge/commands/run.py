"""`run`: the daemon, in the foreground, for one or several souls."""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import os
import resource
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bridge.adapters import child, config, control, formats
from bridge.adapters.clock import monotonic_microseconds
from bridge.adapters.lock import Lock
from bridge.adapters.notify import Notifier
from bridge.adapters.tree import prepare_process
from bridge.adapters.watch import Watch
from bridge.app import freezing, status
from bridge.app.daemon import Daemon
from bridge.app.inbox import Inbox
from bridge.app.keeping import Beat, NotedFacts, NotedRemote, Setback
from bridge.app.life import Life
from bridge.app.nightly import Nightly
from bridge.app.reads import Reads
from bridge.app.reporting import KINDS, Reporter, resumed
from bridge.app.soul import Soul
from bridge.app.telling import sameness
from bridge.app.tending import Asked, Outside, Tender
from bridge.commands import consolidating, wiring
from bridge.commands.context import Context
from bridge.commands.outlets import Outlet, Outlets
from bridge.commands.statedir import StateDirectory
from bridge.core.errors import Refused, SoulError, Transient, Unusable
from bridge.core.instants import iso

PROMPT = ("pause", "resume", "consolidate look")  # requests that the soul's thread is not asked for
STOPPING = 10.0  # seconds for the last pass


@dataclass
class Running:
    """One soul of this process: what `Kept` says."""

    opened: wiring.Opened
    daemon: Daemon
    server: control.Server
    beat: Beat
    outlet: Outlet
    nightly: Nightly | None = None

    def stop(self) -> None:
        """Ask for the end: a consolidation is stopped, nobody is answered any more, what is unsettled is recorded, one
        push is tried."""
        if self.nightly is not None and self.nightly.busy:
            threading.Thread(target=self._stop, name="stopping", daemon=True).start()
        else:
            self._stop()

    def _stop(self) -> None:
        if self.nightly is not None:
            self.nightly.stop()
        self.server.close()
        self.daemon.stop()

    def cut(self) -> None:
        """End what goes on with the remote."""
        self.opened.soul.remote.close()

    def close(self) -> None:
        """Let go of everything, once the daemon has ended; who still waits for an answer hears that none comes."""
        if self.nightly is not None:
            self.nightly.stop(0.0)
        self.server.close()
        for request in self.daemon.inbox.take(0).requests:
            request.finish(error=Transient("the daemon ended before it did this", kind="busy", advice="try again"))
        self.opened.close()
        self.outlet.close()


def run(arguments: argparse.Namespace, context: Context) -> int:
    """Run until told to stop. Raises Unusable for a configuration that cannot work, Refused for a second daemon."""
    configured = _configured(arguments, context)
    asked = Asked()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, frame: asked.end())
    signal.signal(signal.SIGHUP, lambda number, frame: asked.read_again())
    os.chdir("/")
    prepare_process()
    _take_descriptors()
    # The supervisor ends what hangs with SIGABRT: where each thread hung is then in the log.
    with contextlib.suppress(OSError, ValueError, AttributeError):
        faulthandler.enable()
    if os.getpid() == 1:
        threading.Thread(target=child.bury, name="burying", daemon=True).start()
    log = context.log()
    context = replace(context, heard=lambda words: log.warning("notice", sentence=words))
    outlets = Outlets.of(context, log)
    outside = Outside(
        configured, lambda settings: _one(settings, context, outlets), _telling(context, outlets), context.clock,
        Notifier(), monotonic_microseconds, log,
    )  # fmt: skip
    log.info("started", pid=os.getpid())
    try:
        Tender(outside, asked).run()
    finally:
        outlets.close()
    log.info("stopped")
    return 0


def _take_descriptors() -> None:
    """As many open files as this user may have: a soul takes seven and more, and what is usual is 1024 for a process,
    for the sake of programs that know no higher ones."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _configured(arguments: argparse.Namespace, context: Context) -> Callable[[], dict[str, object]]:
    """What reads the settings of each soul that is meant, or the error that keeps them from being used."""
    if arguments.all and arguments.agents:
        raise Unusable("--all means every soul; name none with it", kind="usage", advice="soul-bridge run --all")
    named = [] if arguments.all else arguments.agents or [context.agent(arguments.agent)]

    def configured() -> dict[str, object]:
        found: dict[str, object] = {}
        for agent in config.agents(context.places) if arguments.all else named:
            try:
                found[agent] = config.load(context.places, agent)
            except Unusable as error:
                found[agent] = error
        return found

    return configured


def _telling(context: Context, outlets: Outlets) -> Callable[[Setback], None]:
    """What logs that a soul does not live, once for the same reason, and puts it into its `status`."""
    once, log = outlets.failures, outlets.log

    def tell(setback: Setback) -> None:
        error, wait = setback.error, setback.wait
        times = once.again(setback.agent, sameness(error))
        say = log.error if times == 1 else log.debug
        again = "when its configuration was corrected: then send SIGHUP" if wait is None else f"in {wait:g} s"
        if wait is not None and isinstance(error, Refused) and error.kind == "busy":
            again = "once the other daemon has ended, if this process has other souls to live for"
        told = {"agent": setback.agent, "again": again, "times": times}
        if isinstance(error, SoulError):
            say("failed", problem=error.message, advice=error.advice, **told)
        else:
            say("failed", problem=repr(error), exc_info=error, **told)
        if getattr(error, "kind", "") != "busy":  # then the status is another daemon's
            _note(context, setback, outlets)

    return tell


def _note(context: Context, setback: Setback, outlets: Outlets) -> None:
    path, now = context.places.status_file(setback.agent), context.clock.now()
    try:
        formats.refuse_newer(path.parent)
    except SoulError:
        return  # whose status that is knows better
    document = status.read(path)
    if document is None:
        return
    error, wait = setback.error, setback.wait
    if not isinstance(error, SoulError):
        words = f"this is a fault of soul-bridge, not yours: {type(error).__name__}: {error}"
        error = SoulError(words, advice="Its log has the details; the soul begins again by itself.")
    before = document.get("problem") or {}
    same = before.get("kind") == error.kind
    problem = {
        "kind": error.kind if error.kind in KINDS else "internal",
        "message": error.message,
        "advice": error.advice,
        "since": (before.get("since") if same else None) or iso(now),
        "next_try": None if wait is None else iso(now + wait),
        "times": 1 + (before.get("times", 0) if same else 0),
    }
    document = {**document, "state": "refused" if wait is None else "waiting", "problem": problem}
    status.write(path, outlets.look(setback.agent, document))


def start(all_settings: list[config.Settings], context: Context) -> list[Running]:
    """Souls whose threads run and whose sockets answer; all of them or none. Raises as `run`."""
    souls: list[Running] = []
    try:
        for settings in all_settings:
            souls.append(_one(settings, context))
    except BaseException:
        for soul in souls:
            soul.close()
        raise
    for soul in souls:
        soul.daemon.start()
    return souls


def stop(souls: list[Running]) -> None:
    """End them: what is unsettled is recorded, one push is tried."""
    for soul in souls:
        soul.stop()
    for soul in souls:
        if not soul.daemon.join(STOPPING):
            soul.cut()
            soul.daemon.join(2.0)
        soul.close()


def _one(settings: config.Settings, context: Context, outlets: Outlets | None = None) -> Running:
    """One soul, open. outlets: where it is told of; None for one that lives for a test or a demo, quietly and without
    its schedule."""
    places = context.places
    lock = wiring.lock_of(settings, places)
    lock.acquire()
    let_go = lock.release
    try:
        if outlets is not None:
            outlets.watch(settings)
        opened = wiring.open_soul(settings, context, lock)
        let_go = opened.close
        soul, beat = opened.soul, Beat(context.clock)
        facts = NotedFacts(soul.facts, beat)
        soul.remote, soul.facts = NotedRemote(soul.remote, beat), facts
        outlet = Outlet() if outlets is None else outlets.open(settings, lambda: facts.pass_id)
        let_go = _one_after_another(outlet.close, let_go)
        freezing.tend(soul)
        inbox = Inbox()
        state = _state(settings, context, lock)
        before = status.read(places.status_file(settings.agent))
        reporter = Reporter(str(settings.soul), settings.remote, os.getpid(), iso(context.clock.now()), before)
        daemon = Daemon(
            resumed(soul, before),
            Watch(settings.soul, inbox.hint, opened.reads),
            inbox,
            settings.poll,
            _report(reporter, places.state_dir(settings.agent), state, opened.reads, outlet),
            state.is_paused,
            outlet.ears,
        )
        server = _server(places.control_socket(settings.agent), inbox, soul, lock, state)
        let_go = _one_after_another(server.close, let_go)
        # After the server: a run that was missed begins at once, and asks this daemon.
        nightly = consolidating.nightly(settings, context, outlets.log) if outlets is not None else None
    except BaseException:
        let_go()
        raise
    return Running(opened, daemon, server, beat, outlet, nightly)


def _server(path: Path, inbox: Inbox, soul: Soul, lock: Lock, state: StateDirectory) -> control.Server:
    """What answers commands, begun; while nobody asks, it sees to it that they find it."""

    def idle() -> None:
        state.watch(lambda: inbox.hint(None))

    state.server = control.Server(path, _answer(inbox, soul), lock, idle, PROMPT)
    state.server.start()
    return state.server


def _one_after_another(*ends: Callable[[], None]) -> Callable[[], None]:
    def end() -> None:
        for each in ends:
            each()

    return end


def _state(settings: config.Settings, context: Context, lock: Lock) -> StateDirectory:
    """The state directory under this daemon, with what the checkout is known by."""
    places = context.places
    mark = formats.line_of(places.state_dir(settings.agent) / wiring.MARK)

    def put_back() -> None:
        if mark is not None:
            formats.put(places.state_dir(settings.agent) / wiring.MARK, mark)

    def say(words: str) -> None:
        context.say(f"{settings.agent}: {words}")

    return StateDirectory(places.state_dir(settings.agent), lock, places.lock_file(settings.agent), put_back, say)


def _report(
    reporter: Reporter, place: Path, state: StateDirectory, reads: Reads, outlet: Outlet
) -> Callable[[Life], None]:
    def report(life: Life) -> None:
        reads.watching(life.last is not None and life.sighted)
        state.tend()
        state.written(status.write(place / "status.json", outlet.tell(reporter.document(life))))
        wiring.note_materialised(life.soul, place)

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
