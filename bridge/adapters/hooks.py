"""A person's programs, run after something happened: facts pass through here on their way to where they are kept.

A pass never waits for them: they run one after the other in a thread of their own, each within its time, and what
does not fit into the queue is counted and left out.
"""

from __future__ import annotations

import contextlib
import json
import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Protocol

from bridge.core.errors import SoulError
from bridge.core.instants import iso
from bridge.core.ports import Clock, Facts

SYNCED = "synced"  # a pass brought something, and all of it rests here and at the remote
BROUGHT = ("commit.recorded", "remote.merged", "remote.pushed", "file.written")
WAITING = 64  # events at most that wait for their program
LONGEST = 30.0  # seconds that a program may take
GRACE = 2.0  # seconds to end by itself once it was asked to


class Child(Protocol):
    """A program that runs."""

    def wait(self, seconds: float) -> int | None:
        """Its exit code, None when it still runs after so many seconds."""

    def end(self, grace: float) -> int:
        """Ask all of it to end, kill what is left; its exit code."""


Start = Callable[[Sequence[str], bytes], Child]
Tell = Callable[[str], None]


class Programs:
    """Runs programs one after the other, in a thread of its own. start: starts one with these bytes on its input.

    tell: hears in words of one that fails, once until it succeeds again. failures, left_out: how often, by name.
    """

    def __init__(self, start: Start, tell: Tell, kind: str) -> None:
        self.failures: dict[str, int] = {}
        self.left_out: dict[str, int] = {}
        self.longest = LONGEST
        self._start = start
        self._tell = tell
        self._kind = kind
        self._failing: set[str] = set()
        self._waiting: queue.Queue[tuple[str, Sequence[str], bytes] | None] = queue.Queue(WAITING)
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def offer(self, name: str, command: Sequence[str], told: Mapping[str, Any]) -> None:
        """Put a program and the JSON that it is given into the queue. Never raises and never waits."""
        if self._ended.is_set():
            return
        content = json.dumps(told, ensure_ascii=True, default=str).encode() + b"\n"
        try:
            self._waiting.put_nowait((name, command, content))
        except queue.Full:
            self.left_out[name] = self.left_out.get(name, 0) + 1
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name=self._kind, daemon=True)
            self._thread.start()

    def close(self, patience: float = LONGEST) -> None:
        """Let what waits run for so many seconds at most, then end it. Never raises."""
        thread = self._thread
        if thread is None:
            return
        with contextlib.suppress(queue.Full):
            self._waiting.put_nowait(None)
        thread.join(patience)
        self._ended.set()
        thread.join(GRACE + 1.0)

    def _work(self) -> None:
        while (item := self._waiting.get()) is not None and not self._ended.is_set():
            name, command, content = item
            why = self._run(command, content)
            if why is None:
                self._failing.discard(name)
                continue
            self.failures[name] = self.failures.get(name, 0) + 1
            if name not in self._failing:
                self._failing.add(name)
                self._tell(f"the {self._kind} {name} ({command[0]}) {why}; passes go on")

    def _run(self, command: Sequence[str], content: bytes) -> str | None:
        """Run one program to its end; what went wrong, None when nothing did."""
        try:
            child = self._start(command, content)
        except (SoulError, OSError) as error:
            return f"could not be started: {error}"
        left = self.longest
        code = None
        while code is None and left > 0 and not self._ended.is_set():
            code = child.wait(min(left, 0.5))
            left -= 0.5
        end = child.end(GRACE)
        if code is None:
            return f"did not end within {self.longest:g} s and was stopped"
        return None if end == 0 else f"ended with exit code {end}"


class Hooks(Programs):
    """The port `Facts` that also runs programs. commands: by event. about: what every event says besides."""

    def __init__(
        self,
        facts: Facts,
        commands: Mapping[str, Sequence[str]],
        start: Start,
        clock: Clock,
        tell: Tell,
        about: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        super().__init__(start, tell, "hook")
        self._facts = facts
        self._commands = commands
        self._clock = clock
        self._about = about
        self._pass: str | None = None
        self._brought = self._unsent = False

    def bind_pass(self, id: str | None) -> None:
        """As the port says."""
        self._pass = id
        self._facts.bind_pass(id)

    def record(self, event: str, **fields: Any) -> None:
        """As the port says."""
        self._facts.record(event, **fields)
        self._hear(event, fields)
        self._brought |= event in BROUGHT
        # What was recorded may be pushed by a later pass: it rests at the remote only then.
        self._unsent = (self._unsent or event == "commit.recorded") and event != "remote.pushed"
        if event == "pass.finished" and fields.get("outcome") == "ok" and self._brought and not self._unsent:
            self._brought = False
            self._hear(SYNCED, fields)

    def _hear(self, event: str, fields: Mapping[str, Any]) -> None:
        if event in self._commands:
            told = {"at": iso(self._clock.now()), "event": event, **self._about, "pass": self._pass, **fields}
            self.offer(event, self._commands[event], told)
