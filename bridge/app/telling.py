"""What a daemon's log hears of its souls: each pass that did something, and a problem once, however often it comes."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from bridge.app.keeping import SOUND
from bridge.app.life import LOCAL
from bridge.app.standing import StandOff
from bridge.app.sync import Outcome
from bridge.core.errors import SoulError
from bridge.core.ports import Clock

_VARYING = re.compile(r"[0-9]+(?:[.][0-9]+)?")  # times and counts do not make another problem of it

UNTOLD = ("lease show", "consolidate note", "consolidate renew")  # questions, and signs of life


def sameness(error: BaseException) -> str:
    """What two problems have in common that need not be told twice."""
    kind = f"{error.kind} {error.rule}" if isinstance(error, SoulError) else type(error).__name__
    return f"{kind} {_VARYING.sub('#', str(error))}"


@dataclass
class Once:
    """Counts what goes on happening under one name. Safe from several threads."""

    _open: dict[str, tuple[str, int]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def again(self, name: str, sameness: str) -> int:
        """How often this has happened now, 1 for the first time."""
        with self._lock:
            known, times = self._open.get(name, ("", 0))
            times = times + 1 if known == sameness else 1
            self._open[name] = (sameness, times)
            return times

    def of(self, name: str) -> str:
        """What goes on under a name, "" for nothing."""
        with self._lock:
            return self._open.get(name, ("", 0))[0]

    def over(self, name: str) -> int:
        """Forget it; how often it happened."""
        with self._lock:
            return self._open.pop(name, ("", 0))[1]


class Recovery:
    """Hears when a soul that failed has lived long enough to have it told anew if it fails again.

    once: counts its failures under its agent's name.
    """

    def __init__(self, log: Any, about: dict[str, str], once: Once, clock: Clock) -> None:
        self._log = log
        self._about = about
        self._once = once
        self._clock = clock
        self._sound = clock.boottime() + SOUND

    def passed(self, outcome: Outcome, took: float) -> None:
        """A pass is over: it lives."""
        if self._clock.boottime() >= self._sound and (times := self._once.over(self._about["agent"])):
            self._log.info("over", **self._about, sentence="it lives again", times=times)

    def answered(self, command: str, error: SoulError | None) -> None:
        """A command proves nothing."""


class Telling:
    """The log of one soul. log: as structlog's. about: the fields of every line. pass_id: of the present pass."""

    def __init__(self, log: Any, about: dict[str, str], pass_id: Callable[[], str | None]) -> None:
        self._log = log
        self._about = about
        self._pass_id = pass_id
        self._once = Once()
        self._waiting = ""

    def passed(self, outcome: Outcome, took: float) -> None:
        """A pass is over. took: its seconds."""
        self._problem(outcome)
        done = {name: len(set(getattr(outcome, name))) for name in ("recorded", "merged", "written", "lost")}
        if not (any(done.values()) or outcome.pushed or outcome.notes):
            return
        # The problem was told already, once.
        problem = "" if outcome.problem is None else f"; {outcome.problem.message}."
        fields = {name: count for name, count in done.items() if count}
        self._log.info(
            "pass",
            **self._about,
            outcome=outcome.outcome,
            sentence=outcome.sentence.removesuffix(problem) if problem else outcome.sentence,
            **fields,
            pushed=outcome.pushed,
            took=round(took, 3),
            **{"pass": self._pass_id()},
        )

    def answered(self, command: str, error: SoulError | None) -> None:
        """A command that changes something was carried out here, or refused."""
        if command in UNTOLD:
            return
        if error is not None:
            self._log.info("refused", **self._about, command=command, problem=error.message, rule=error.rule)
        else:
            self._log.info("done", **self._about, command=command, **{"pass": self._pass_id()})

    def _problem(self, outcome: Outcome) -> None:
        problem = outcome.problem
        if isinstance(problem, StandOff):
            if self._waiting != problem.message:
                self._waiting = problem.message
                self._log.info("waiting", **self._about, sentence=problem.message)
            return
        self._waiting = ""
        if problem is not None:
            if self._once.again("problem", sameness(problem)) == 1:
                told = {"kind": problem.kind, "rule": problem.rule, "problem": problem.message}
                self._log.warning("problem", **self._about, **told, advice=problem.advice)
            return
        # Only an answer of the remote proves that what stood in its way is gone.
        if outcome.fetched or outcome.pushed or self._is_local():
            self._over()

    def _is_local(self) -> bool:
        return self._once.of("problem").partition(" ")[0] in LOCAL

    def _over(self) -> None:
        if times := self._once.over("problem"):
            self._log.info("over", **self._about, sentence="what stood in the way is gone", times=times)
