"""A command that rewrites memories while no other body does: under the lease, stopped when the lease ends.

Two sides. The owner of the soul takes the lease, freezes what the command reads, and takes the results in; whoever
runs the command asks for that, keeps the lease alive, and stops the command in time whatever the owner answers.
"""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

from bridge.app import freezing, leasing, sync
from bridge.app.soul import Order, Soul
from bridge.core import lease
from bridge.core.errors import Refused, SoulError, Transient

OWED = "lease owed"  # remembered: the lease of ours that is to be given up as soon as the remote answers
LOOKS = 40  # at the results, until they are at rest
STEP = 1.0  # seconds between looks at the command and the lease
AGAIN = 20.0  # seconds until a renewal that failed is tried again
GRACE = 10.0  # seconds that a command has to end by itself
RENEWING = 60.0  # seconds that a renewal may take
ENDING = 300.0  # seconds that taking the results in may take
STARTING = 900.0  # seconds that taking the lease may take


def begin(soul: Soul, words: dict[str, Any]) -> dict[str, Any]:
    """Take the lease and freeze what the command is going to read: {id, lease, started} (boottime, as `lease.duty`).

    Raises Refused(kind="lease") when another body, or another command here, consolidates; Transient when offline.
    """
    freezing.tend(soul)
    run = freezing.current(soul)
    if run is not None:
        raise Refused(
            f"this body consolidates already (process {run.owner})",
            kind="lease",
            rule="LEASE-1",
            advice="Wait until it is done; nothing was changed.",
        )
    soul.seen.remember(OWED, None)
    taken = leasing.acquire(soul, {})["lease"]
    held = soul.seen.recall(leasing.MEMORY)
    run = freezing.Run(uuid.uuid4().hex, int(words["owner"]), 0, held["started"], (held["content"],), soul.boot)
    freezing.remember(soul, run)
    return {"lease": taken, **_times(run)}


def note(soul: Soul, words: dict[str, Any]) -> dict[str, Any]:
    """The command runs, in this process group. Raises Refused(kind="lease") when the run is over."""
    run = replace(freezing.named(soul, words["id"]), group=int(words["group"]))
    freezing.remember(soul, run)
    return _times(run)


def renew(soul: Soul, words: dict[str, Any]) -> dict[str, Any]:
    """Extend the lease: the new time. Raises Refused(kind="lease") when it is not ours any more, Transient."""
    run = freezing.named(soul, words["id"])
    try:
        leasing.renew(soul, {})
    finally:
        # The lease may be published although what came after its push failed.
        held = soul.seen.recall(leasing.MEMORY)
        if held is not None and held["content"] not in run.written:
            run = freezing.renewed(run, held["content"], held["started"])
        tried = soul.seen.recall(leasing.TRIED)
        if tried is not None:
            # It may have arrived; that is no reason to go on for longer.
            run = freezing.renewed(run, tried, run.started)
        freezing.remember(soul, run)
    return _times(run)


def end(soul: Soul, words: dict[str, Any]) -> dict[str, Any]:
    """Take the results in, publish them, give the lease up, and let in what waited: {problem}, None if all went well.

    Raises Refused(kind="lease") when the run is over.
    """
    freezing.named(soul, words["id"])
    problem: SoulError | None = None
    try:
        _take_in(soul)
        leasing.release(soul, {})
    except SoulError as error:
        problem = error
        if isinstance(error, Transient):
            soul.seen.remember(OWED, (soul.seen.recall(leasing.MEMORY) or {}).get("content"))
    finally:
        freezing.remember(soul, None)
    sync.run(soul, Order(None, waive=True))
    return {"problem": None if problem is None else problem.as_dict()}


def give_back(soul: Soul, outcome: sync.Outcome) -> None:
    """After a pass: a lease that could not be given up when its command ended is given up once the remote answers."""
    owed = soul.seen.recall(OWED)
    if owed is None or outcome.problem is not None or not (outcome.fetched or outcome.pushed):
        return
    soul.seen.remember(OWED, None)
    if owed == (soul.seen.recall(leasing.MEMORY) or {}).get("content"):  # else it was taken anew since
        with contextlib.suppress(SoulError):
            leasing.release(soul, {})


def _take_in(soul: Soul) -> None:
    """Passes until nothing that the command wrote is left unrecorded."""
    for _ in range(LOOKS):
        outcome = sync.run(soul, Order(None, waive=True))
        waits = [path for path in outcome.pending if path not in outcome.held]
        if not waits or not any(path.startswith(freezing.FROZEN) for path in waits):
            return
        soul.clock.sleep(min(soul.limits.settle, 0.5))


def _times(run: freezing.Run) -> dict[str, Any]:
    return {"id": run.id, "started": run.started}


class Child(Protocol):
    """A command that runs, with all that it starts in a group of its own."""

    @property
    def group(self) -> int: ...

    def wait(self, seconds: float) -> int | None:
        """Its exit code, None when it still runs after so many seconds."""

    def end(self, grace: float) -> int:
        """Ask all of it to end, kill what is left after so many seconds; its exit code."""


class Ticks(Protocol):
    """The clock that a lease is counted by."""

    def boottime(self) -> float: ...


Ask = Callable[[dict[str, Any], float], dict[str, Any] | None]


@dataclass
class Holder:
    """Runs a command under the lease. ask: has the owner of the soul do something, within so many seconds (None: there
    is no owner now). start: starts the command. stopped: whether it is wanted to end. grace: seconds that it has then.
    """

    ask: Ask
    start: Callable[[], Child]
    clock: Ticks
    stopped: Callable[[], bool] = lambda: False
    grace: float = GRACE
    _started: float = 0.0

    def run(self) -> tuple[int, SoulError | None]:
        """The command's exit code, and what kept its results from being published or the lease from being given up.

        Raises Refused(kind="lease") when the lease is another's, or was lost and the command therefore stopped;
        Transient when the lease could not be taken; Unusable when the command cannot be started.
        """
        held = self._asked({"command": "consolidate begin", "owner": os.getpid()}, STARTING)
        self._take(held)
        id = held["id"]
        lost: SoulError | None = None
        try:
            child = self.start()
            try:
                self._try({"command": "consolidate note", "id": id, "group": child.group}, RENEWING)
                lost = self._watch(child, id)
            finally:
                code = child.end(self.grace)
        finally:
            problem = self._end(id)
        if lost is not None:
            raise lost
        return code, problem

    def _watch(self, child: Child, id: str) -> SoulError | None:
        """Keep the lease as long as the command runs; why it has to be stopped, None when it need not be."""
        again = self._started
        while child.wait(STEP) is None and not self.stopped():
            now = self.clock.boottime()
            duty = lease.duty(self._started, now)
            if duty is lease.Duty.STOP:
                return _lost("the lease ends in a minute and could not be renewed")
            seen = self._try({"command": "consolidate look", "id": id}, STEP)
            if seen is not None and seen.get("lost"):
                return _lost("another lease was read at the remote")
            if duty is lease.Duty.RENEW and now >= again:
                again = now + AGAIN
                refusal = self._renew(id)
                if refusal is not None:
                    return _lost(refusal.message)
        return None

    def _renew(self, id: str) -> SoulError | None:
        """Renew; the refusal when the lease is not ours any more. What may pass is tried again later."""
        seconds = max(STEP, min(RENEWING, lease.stops(self._started) - self.clock.boottime()))
        try:
            held = self.ask({"command": "consolidate renew", "id": id}, seconds)
        except SoulError as error:
            return error if error.kind == "lease" else None
        if held is not None:
            self._take(held)
        return None

    def _end(self, id: str) -> SoulError | None:
        try:
            problem = self._asked({"command": "consolidate end", "id": id}, ENDING)["problem"]
        except SoulError as error:
            return error
        if problem is None:
            return None
        family = Transient if problem["kind"] in ("network", "busy", "disk") else Refused
        return family(problem["message"], kind=problem["kind"], rule=problem["rule"], advice=problem["advice"])

    def _take(self, held: dict[str, Any]) -> None:
        self._started = held["started"]

    def _try(self, words: dict[str, Any], seconds: float) -> dict[str, Any] | None:
        try:
            return self.ask(words, seconds)
        except SoulError:
            return None

    def _asked(self, words: dict[str, Any], seconds: float) -> dict[str, Any]:
        answer = self.ask(words, seconds)
        if answer is None:
            raise Transient("the daemon is gone", kind="busy", advice="soul-bridge status")
        return answer


def _lost(why: str) -> Refused:
    return Refused(
        f"the consolidation lease was lost ({why}), so the command was stopped",
        kind="lease",
        rule="LEASE-3",
        advice="What it wrote until then is recorded and merged. `soul-bridge lease show` says who consolidates now.",
    )
