"""The main thread of `run`: which souls live in this process, what the supervisor is told, when all of it ends.

The supervisor hears that all is well only while every soul gets on. A soul that fails is begun again while the others
go on; a changed configuration touches no soul but the one whose it is, and one that cannot be used touches none.
"""

from __future__ import annotations

import contextlib
import queue
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from bridge.app import keeping
from bridge.app.keeping import Keeper, Kept, Setback, Vigil
from bridge.app.sync import Outcome
from bridge.core.errors import Refused, SoulError
from bridge.core.ports import Clock

STOPPING = 10.0  # seconds for the last passes, all together
CUT = 2.0  # seconds for what is left once the remote is cut off
LOOK = 1.0  # seconds between two looks at the souls
PATIENCE = 30  # seconds by which the supervisor is asked for more time while souls are opened

Configured = Mapping[str, object]  # by agent: settings, or the SoulError that keeps them from being used


class Voice(Protocol):
    """What speaks to the supervisor. watchdog: seconds within which it wants to hear from us, 0.0: never."""

    watchdog: float

    def say(self, *lines: str) -> None:
        """Send assignments such as "READY=1" as one message. Never raises."""


class Asked:
    """What signals ask for, and who waits for that.

    A handler runs in the middle of anything its thread does, also of waiting here: with an event it would now and then
    want the lock that its own thread holds, for ever. Putting into a simple queue needs none that can be held.
    """

    def __init__(self) -> None:
        self.stop = self.reload = False
        self._woken: queue.SimpleQueue[None] = queue.SimpleQueue()

    def end(self) -> None:
        """Everything is to end. May be called by a handler."""
        self.stop = True
        self._woken.put(None)

    def read_again(self) -> None:
        """The configuration is to be read again. May be called by a handler."""
        self.reload = True
        self._woken.put(None)

    def wait(self, seconds: float) -> None:
        """Until something is asked for, at most so long."""
        with contextlib.suppress(queue.Empty):
            self._woken.get(timeout=seconds)
            while True:
                self._woken.get_nowait()


@dataclass
class Outside:
    """What is needed of the outside.

    configured: reads the configuration of every soul that is meant. opener: opens a soul by its settings. tell: is
    told of each failure. monotonic: microseconds of the clock that the supervisor goes by.
    """

    configured: Callable[[], Configured]
    opener: Callable[[Any], Kept]
    tell: Callable[[Setback], None]
    clock: Clock
    voice: Voice
    monotonic: Callable[[], int]
    log: Any


class Tender:
    """Keeps the souls of one process until it is asked to stop."""

    def __init__(self, outside: Outside, asked: Asked) -> None:
        self._out = outside
        self._asked = asked
        self._keepers: dict[str, Keeper] = {}
        self._settings: dict[str, object] = {}
        self._wanted: Configured = {}
        self._leaving: set[str] = set()  # agents of keepers that were asked to end and have not ended in time
        self._unusable: dict[str, SoulError] = {}
        self._vigil = Vigil(outside.clock)
        self._first = True  # the supervisor has not heard READY yet
        self._announced = False  # nor after the last reload
        self._shown = ""

    def run(self) -> None:
        """Until the end. Raises what keeps every soul from living: Unusable, and at the start also what is a second
        daemon or a bug; everything else is waited for."""
        voice = self._out.voice
        self._wanted = self._out.configured()
        self._take_on(self._wanted)
        try:
            while not self._asked.stop:
                self._look()
                self._asked.wait(min(voice.watchdog / 3 or LOOK, LOOK))
        finally:
            voice.say("STOPPING=1")
            self._part_with(self._keepers.values())

    def _look(self) -> None:
        slept = self._vigil.look()
        if slept:
            self._out.log.info("woke up", slept=round(slept))
            for keeper in self._keepers.values():
                keeper.cut()
                keeper.look_again()
        if self._asked.reload:
            self._asked.reload = False
            self._reload()
        self._come_back()
        if not self._announced:
            self._announce()
        else:
            self._end_if_hopeless()
        now, voice = self._out.clock.boottime(), self._out.voice
        if voice.watchdog and not any(each.is_stuck(now, self._vigil.woke) for each in self._keepers.values()):
            voice.say("WATCHDOG=1")
        self._show()

    def _come_back(self) -> None:
        """Take on again those that did not end in time when their configuration changed, once they have ended."""
        ended = {agent for agent in self._leaving if self._keepers[agent].join(0.0)}
        if not ended:
            return
        self._leaving -= ended
        for agent in ended:
            del self._keepers[agent]
        self._out.log.info("ended at last", souls=sorted(ended))
        self._take_on({agent: self._wanted[agent] for agent in ended & self._wanted.keys()})

    def _take_on(self, wanted: Configured) -> None:
        for agent, settings in wanted.items():
            if agent in self._keepers:
                continue
            if isinstance(settings, SoulError):
                self._unusable[agent] = settings
                continue
            self._keepers[agent] = self._keeper(agent, settings)
            self._settings[agent] = settings
            self._keepers[agent].start()
        for agent, error in self._unusable.items():
            self._out.log.error("unusable", agent=agent, problem=error.message, advice=error.advice)

    def _keeper(self, agent: str, settings: object) -> Keeper:
        return Keeper(agent, lambda: self._out.opener(settings), self._out.clock, self._out.tell)

    def _reload(self) -> None:
        """Read the configuration again: changed souls begin anew, new ones come, removed ones go, the others stay."""
        self._out.voice.say("RELOADING=1", f"MONOTONIC_USEC={self._out.monotonic()}")
        wanted = self._wanted = self._out.configured()
        self._unusable = {agent: found for agent, found in wanted.items() if isinstance(found, SoulError)}
        leaving = []
        for agent, keeper in self._keepers.items():
            if agent in self._leaving:
                continue
            changed = agent not in self._unusable and wanted.get(agent) != self._settings[agent]
            if changed or keeper.error is not None:
                leaving.append(keeper)
            else:
                keeper.look_again()
        for keeper in leaving:
            self._out.log.info("leaving", agent=keeper.agent)
        for keeper in self._part_with(leaving):
            again = "once it has ended" if keeper.agent in wanted else "never"
            self._out.log.error("does not end yet", agent=keeper.agent, again=again)
            self._leaving.add(keeper.agent)
            leaving.remove(keeper)
        for keeper in leaving:
            del self._keepers[keeper.agent]
        self._take_on(wanted)
        self._announced = False
        self._out.log.info("reloaded", souls=sorted(self._keepers))

    def _announce(self) -> None:
        """Say READY once every soul was opened or failed to be: the remote is not waited for."""
        if not all(keeper.tried.is_set() for keeper in self._keepers.values()):
            self._out.voice.say(f"EXTEND_TIMEOUT_USEC={PATIENCE * 1_000_000}")
            return
        self._end_if_hopeless()
        self._announced, self._first = True, False
        self._out.voice.say("READY=1")
        self._out.log.info("ready", souls=sorted(self._keepers))

    def _end_if_hopeless(self) -> None:
        """Raise where no soul lives and none will."""
        errors: list[BaseException | None] = [*self._unusable.values()]
        errors += [keeper.error for keeper in self._keepers.values()]
        found = [error for error in errors if error is not None]
        ends = _ends_a_start if self._first else keeping.is_final
        if len(found) == len(errors) and all(ends(error) for error in found):
            raise found[0] if found else Refused("no soul is left", kind="config", advice="soul-bridge init")

    def _part_with(self, keepers: Iterable[Keeper]) -> list[Keeper]:
        """End them all within one time; those that do not end."""
        clock, left = self._out.clock, list(keepers)
        for keeper in left:
            keeper.stop()
        for patience in (STOPPING, CUT):
            until = clock.boottime() + patience
            left = [keeper for keeper in left if not keeper.join(max(0.0, until - clock.boottime()))]
            for keeper in left:
                keeper.cut()
        return left

    def _show(self) -> None:
        """STATUS for the supervisor where it changed."""
        words = [self._sentence(agent) for agent in sorted(self._keepers.keys() | self._unusable.keys())]
        text = "; ".join(words)
        if text != self._shown:
            self._shown = text
            self._out.voice.say(f"STATUS={text}")

    def _sentence(self, agent: str) -> str:
        keeper, unusable = self._keepers.get(agent), self._unusable.get(agent)
        if unusable is not None:
            old = "; the one before it holds" if keeper is not None and keeper.error is None else ""
            return f"{agent}: the configuration cannot be used{old}: {unusable.message}"
        if keeper is None or keeper.error is not None:
            return f"{agent}: does not live: {keeper.error if keeper is not None else 'not started'}"
        last, problem = _last(keeper), keeper.problem
        if last is None:
            return f"{agent}: beginning."
        # A pass that did not ask the remote says nothing of what is in the way there; it is in the way all the same.
        return f"{agent}: {problem.message.rstrip('.') + '.' if problem is not None else last.sentence}"


def _last(keeper: Keeper) -> Outcome | None:
    kept = keeper.kept
    return kept.daemon.life.last if kept is not None else None


def _ends_a_start(error: BaseException) -> bool:
    """Whether somebody who starts the program is told at once, instead of having it wait."""
    second_daemon = isinstance(error, Refused) and error.kind == "busy"
    return keeping.is_final(error) or second_daemon or not isinstance(error, SoulError)
