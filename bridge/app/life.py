"""What is known about a soul between passes: the last outcome, and what stands in the way since when."""

from __future__ import annotations

from dataclasses import dataclass

from bridge.app.soul import Soul
from bridge.app.standing import StandOff
from bridge.app.sync import Outcome
from bridge.core.errors import HostKeyChanged, SoulError, Transient

BROKE = {"auth": "auth.refused", "hostkey": "hostkey.changed", "network": "remote.unreachable"}
BROKE["identity"] = "identity.refused"
MENDED = {"auth.refused": "auth.restored", "remote.unreachable": "remote.restored"}
LOCAL = ("busy", "disk", "config")  # what a pass without an answer of the remote can prove to be over


@dataclass
class Life:
    """A soul and its state. Times are UTC seconds; `warnings`: what a person may mend. `sighted`: the watcher
    sees everything. `verified`: when a pass last heard from the remote that main stands there as it does here.
    `problem_times`: passes that the problem stood in the way of."""

    soul: Soul
    paused: bool = False
    syncing: bool = False
    last: Outcome | None = None
    last_at: float | None = None
    last_pull: float | None = None
    last_push: float | None = None
    problem: SoulError | None = None
    problem_since: float | None = None
    problem_times: int = 0
    verified: float | None = None
    next_try: float | None = None
    warnings: tuple[str, ...] = ()
    sighted: bool = True
    progressed: float = 0.0
    broke: str | None = None  # the event that told of the problem

    @property
    def state(self) -> str:
        """One of the words of `status --json`."""
        if self.paused:
            return "paused"
        if self.syncing or self.last is None:
            return "syncing"
        if isinstance(self.last.problem, StandOff) or isinstance(self.problem, Transient):
            return "waiting"
        if self.problem is not None:
            return "refused"
        return "settling" if self.last.pending else "idle"

    def note(self, outcome: Outcome, next_try: float | None) -> None:
        """Remember a pass, and tell what began or ended with it. next_try: when the remote is asked again."""
        now = self.soul.clock.now()
        self.last, self.last_at = outcome, now
        if outcome.fetched or outcome.pushed:
            self.last_pull = now
            if outcome.problem is None and outcome.tip is not None and outcome.tip == outcome.remote_tip:
                self.verified = now
        if outcome.pushed:
            self.last_push = now
        problem = None if isinstance(outcome.problem, StandOff) else outcome.problem
        if problem is None:
            # Only an answer of the remote proves that what stood in its way is gone.
            if self.problem is not None and (outcome.fetched or outcome.pushed or self.problem.kind in LOCAL):
                self._tell(MENDED.get(self.broke or ""))
                self.problem = self.problem_since = self.next_try = self.broke = None
            return
        if self.problem is None or self.problem.kind != problem.kind:
            self.problem_since, self.problem_times = now, 0
        self.problem_times += 1
        broke = _event(problem)
        if broke != self.broke:
            self._tell(broke, message=problem.message)
        self.problem, self.next_try, self.broke = problem, next_try, broke

    def _tell(self, event: str | None, **fields: str) -> None:
        if event is not None:
            self.soul.facts.record(event, **fields)


def _event(problem: SoulError) -> str | None:
    """What tells of a problem; None where nothing does, or something else did already."""
    if problem.kind == "hostkey" and not isinstance(problem, HostKeyChanged):
        return None  # never pinned
    if problem.kind == "network" and problem.rule == "REPO-4":
        return None  # the remote did answer: it stands behind
    return BROKE.get(problem.kind)
