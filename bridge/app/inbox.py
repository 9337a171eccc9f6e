"""Where hints and requests wait for the one thread that owns a soul: many notes are taken as one."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from bridge.core.errors import Transient, doubtful

ANSWERED = 900.0  # seconds for the soul's thread to do what a command asks


@dataclass(eq=False)
class Request:
    """Something a command asks of the daemon; `finish` hands the answer or the error back."""

    words: dict[str, Any]
    answer: dict[str, Any] | None = None
    error: BaseException | None = None
    done: threading.Event = field(default_factory=threading.Event)

    def finish(self, answer: dict[str, Any] | None = None, error: BaseException | None = None) -> None:
        """Wake whoever asked. What it was finished with first holds."""
        if not self.done.is_set():
            self.answer, self.error = answer, error
            self.done.set()

    def wait(self) -> dict[str, Any]:
        """The answer. Raises the error it was finished with, Transient(kind="busy") when none comes in time."""
        if not self.done.wait(ANSWERED):
            raise doubtful(self.words, f"the daemon did not answer within {ANSWERED:g} s")
        if self.error is not None:
            raise self.error
        return self.answer or {}


@dataclass(frozen=True)
class Notes:
    """What came in: hinted paths, whether everything is to be looked at, requests, and whether to stop."""

    paths: frozenset[str]
    everything: bool
    requests: tuple[Request, ...]
    stop: bool


class Inbox:
    """Notes from other threads. `take` empties it."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._paths: set[str] = set()
        self._everything = False
        self._requests: list[Request] = []
        self._unanswered: set[Request] = set()
        self._stop = self._closed = False

    def hint(self, path: str | None) -> None:
        """Look at a path again, None: at everything."""
        with self._changed:
            if path is None:
                self._everything = True
            else:
                self._paths.add(path)
            self._changed.notify()

    def ask(self, words: dict[str, Any]) -> dict[str, Any]:
        """Have the owner do something and wait for its answer. Raises what it raised, and Transient(kind="busy") when
        the owner ended before it came to it."""
        request = Request(words)
        with self._changed:
            if self._closed:
                raise _ended()
            self._requests.append(request)
            self._unanswered.add(request)
            self._changed.notify()
        try:
            return request.wait()
        finally:
            with self._changed:
                self._unanswered.discard(request)

    def stop(self) -> None:
        """Tell the owner to finish."""
        with self._changed:
            self._stop = True
            self._changed.notify()

    def close(self) -> None:
        """The owner has ended: whoever still waits for an answer is told, and so is whoever asks from now on."""
        with self._changed:
            self._closed = True
            for request in self._unanswered:
                request.finish(error=_ended())

    def take(self, timeout: float, linger: Callable[[], None] = lambda: None) -> Notes:
        """Everything that waits, after at most `timeout` seconds; `linger` runs once something came, to gather more."""
        with self._changed:
            self._changed.wait_for(self._waiting, timeout)
            something = bool(self._paths) and not self._stop and not self._requests
        if something:
            linger()
        with self._changed:
            notes = Notes(frozenset(self._paths), self._everything, tuple(self._requests), self._stop)
            self._paths.clear()
            self._requests.clear()
            self._everything = False
            return notes

    def _waiting(self) -> bool:
        return bool(self._paths or self._everything or self._requests or self._stop)


def _ended() -> Transient:
    return Transient(
        "the soul's thread ended before it came to this; nothing of it was done",
        kind="busy",
        advice="soul-bridge status",
    )
