"""The life of one soul in a running process: hints in, passes out, state said honestly.

One thread owns a soul; watcher, control socket and signals only leave notes in its inbox.
"""

from __future__ import annotations

import contextlib
import random
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol

from bridge.app import consolidating, publishing, requests, sync, withheld
from bridge.app.inbox import Inbox, Notes, Request
from bridge.app.life import LOCAL, Life
from bridge.app.soul import Order
from bridge.app.standing import is_damage, let_go
from bridge.core import cycle
from bridge.core.errors import Moved, Refused, SoulError, Transient

GATHER = 0.03  # seconds to wait after a first hint: a burst of writes is one pass
UPKEEP = 60.0  # seconds between looks, when it is quiet, at whether the repository wants to be put together
OVERDUE = 600.0  # seconds more after which it is looked at although it is never quiet


class Watcher(Protocol):
    """Something that leaves hints."""

    def start(self) -> None:
        """Begin."""

    def stop(self) -> None:
        """End; no hint comes afterwards."""

    def problems(self) -> list[str]:
        """What keeps it from seeing everything, for people."""


Report = Callable[[Life], None]


class Ear(Protocol):
    """What hears of passes and of what commands asked, in the soul's thread."""

    def passed(self, outcome: sync.Outcome, took: float) -> None:
        """A pass is over, after so many seconds."""

    def answered(self, command: str, error: SoulError | None) -> None:
        """A command was carried out, or refused."""


class Daemon:
    """Runs passes of one soul until it is told to stop."""

    def __init__(
        self,
        life: Life,
        watcher: Watcher,
        inbox: Inbox,
        poll: float,
        report: Report,
        paused: Callable[[], bool],
        ears: Sequence[Ear] = (),
    ) -> None:
        soul = life.soul
        self.life = life
        self.inbox = inbox
        self._soul = soul
        self._watcher = watcher
        self._report = report
        self._paused = paused
        self._ears = ears
        self._cycle = cycle.Cycle(poll)
        self._deadline: float | None = None
        self._quiet_until = 0.0
        self._pushed_at, self._in_a_row = 0.0, 0
        self._next_upkeep = 0.0
        self._upkeep: tuple[str, ...] = ()
        self._thread = threading.Thread(target=self.run, name=f"soul-{soul.agent}", daemon=True)
        self.failure: BaseException | None = None

    def start(self) -> None:
        """Begin in a thread of its own."""
        self._thread.start()

    def stop(self) -> None:
        """Ask for the end: what is unsettled is recorded, one push is tried (GUARD-1)."""
        self.inbox.stop()

    def join(self, timeout: float) -> bool:
        """Wait for the end; whether it came."""
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def run(self) -> None:
        """Pass after pass. A bug, which no family of errors names, or a damaged repository ends this soul and is kept
        as `failure`, for whoever watches over this thread."""
        try:
            self._watcher.start()
            self._live()
        except BaseException as error:  # noqa: BLE001 - raised again by whoever watches over this thread
            self.failure = error
        finally:
            self.inbox.close()
            self._watcher.stop()
            self._soul.remote.close()
            self._tell()

    def _live(self) -> None:
        notes = Notes(frozenset(), True, (), False)
        while True:
            self._serve(notes)
            if notes.stop:
                self._last_pass()
                return
            self.life.progressed = self._soul.clock.boottime()
            notes = self.inbox.take(self._pause(), self._gather)

    def _gather(self) -> None:
        threading.Event().wait(GATHER)

    def _pause(self) -> float:
        if self.life.paused:
            return 60.0
        return min(cycle.next_wake(self._cycle, self._soul.clock.boottime(), self._deadline), 60.0)

    def _serve(self, notes: Notes) -> None:
        """One pass for what came in, then the answers of those who asked for more."""
        self.life.paused = self._paused()
        plain = [request for request in notes.requests if request.words.get("command") != "sync"]
        asked = [request for request in notes.requests if request.words.get("command") == "sync"]
        for request in plain:
            self._answer(request)
        if asked:
            self._sync(asked)
        elif not self.life.paused and not notes.stop:
            consolidating.give_back(self._soul, self._pass(self._order(notes, bool(plain))))
        self._tell()

    def _order(self, notes: Notes, urgent: bool) -> Order:
        now = self._soul.clock.boottime()
        everything = notes.everything or self._cycle.full_due(now)
        due = self._cycle.remote_due(now) or urgent
        publish = not self._cycle.failures and now >= self._quiet_until
        return Order(None if everything else notes.paths, remote=due, publish=due or publish)

    def _pass(self, order: Order, by_hand: bool = False) -> sync.Outcome:
        """One pass; one that a person asked for does not make the daemon more patient than it was."""
        soul, life = self._soul, self.life
        begun = soul.clock.boottime()
        life.syncing = True
        outcome = sync.run(soul, order)
        life.syncing = False
        now = soul.clock.boottime()
        if order.hints is None:
            self._cycle = cycle.looked(self._cycle, now)
        asked = outcome.fetched or outcome.pushed or outcome.problem is not None
        fruitless = outcome.ending in (cycle.Ending.TRANSIENT, cycle.Ending.REFUSED)
        if (asked or order.remote) and not (by_hand and fruitless and self._cycle.failures):
            chance = random.random()  # noqa: S311 - jitter only
            self._cycle = cycle.step(self._cycle, outcome.ending, now, chance, soul.company)
        if outcome.pushed:
            self._cycle = replace(self._cycle, attempt=max(outcome.took, 0.01))
            self._in_a_row = self._in_a_row + 1 if now - self._pushed_at < cycle.LIVELY else 1
            self._pushed_at = now
            self._quiet_until = now + cycle.courtesy(soul.company, now, outcome.took, self._in_a_row)
        self._deadline = outcome.deadline
        if publishing.ahead(soul) and not outcome.pushed and not self._cycle.failures and self._quiet_until > now:
            self._deadline = min(self._deadline or self._quiet_until, self._quiet_until)
        if now >= self._next_upkeep + (0.0 if outcome.ending is cycle.Ending.QUIET else OVERDUE):
            self._next_upkeep = now + UPKEEP
            self._keep_up()
        for path in outcome.again:
            self.inbox.hint(path)
        if outcome.problem is None and life.problem is not None and life.problem.kind in LOCAL:
            # What was in the way here is gone: nothing speaks against asking the remote at once.
            self._cycle = replace(self._cycle, failures=0, next_remote=now)
        unseen = tuple(self._watcher.problems())
        life.sighted, life.warnings = not unseen, (*unseen, *self._upkeep)
        life.note(outcome, soul.clock.now() + max(0.0, self._cycle.next_remote - soul.clock.boottime()))
        for ear in self._ears:
            ear.passed(outcome, now - begun)
        if outcome.problem is not None and is_damage(outcome.problem):
            raise outcome.problem  # whoever keeps this soul opens it again, which mends it (REPO-7)
        return outcome

    def _tell(self) -> None:
        """Say how things are; that this cannot be said (a full disk) must not end the one who keeps them."""
        with contextlib.suppress(SoulError):
            self._report(self.life)

    def _keep_up(self) -> None:
        """Housekeeping when nothing else is to be done; that it cannot be done is told, and stops nothing."""
        self._upkeep = ()
        try:
            let_go(self._soul, {hold.commit for hold in withheld.recall(self._soul).values()})
            self._soul.repo.maintain()
        except (Moved, Transient, Refused) as error:
            self._upkeep = (error.message,)

    def _sync(self, asked: list[Request]) -> None:
        now = any(request.words.get("now") for request in asked)
        try:
            outcome = requests.settle(self._soul, now, lambda order: self._pass(order, by_hand=True))
        except BaseException as error:
            for request in asked:
                request.finish(error=error)
            raise
        for request in asked:
            request.finish(requests.report(outcome))

    def _answer(self, request: Request) -> None:
        """Do what a command asked, in this thread; its errors are its own."""
        refusal = None
        try:
            request.finish(requests.answer(self._soul, request.words))
        except SoulError as error:
            refusal = error
            request.finish(error=error)
        except BaseException as error:
            request.finish(error=error)
            raise
        for ear in self._ears:
            ear.answered(str(request.words.get("command")), refusal)
        self.inbox.hint(None)

    def _last_pass(self) -> None:
        """Record what is unsettled and push once; the configured poll plays no part any more."""
        if self.life.paused:
            return
        self._pass(Order(None, waive=True, remote=False, publish=True))
