"""What every command is given: the places, the clock, and where its answer and its words go."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TextIO

from bridge.adapters import config
from bridge.adapters.clock import SystemClock
from bridge.core.errors import SoulError, Unusable
from bridge.core.words import escaped, line, readable, wrapped

if TYPE_CHECKING:
    from bridge.core.ports import Clock

_LONGEST = 20_000  # characters of one message
_NARROWEST = 40  # columns; nobody reads less


class Unwritten(OSError):
    """The answer could not be written: there is nobody to tell on that stream."""


@dataclass(frozen=True)
class Context:
    """One call of the program. `out` takes the answer and nothing else, `err` the words for people.

    heard: takes those words instead of `err` where they belong into a log. typed: the words of the call, so that what
    a person reads of them again cannot be taken for words of ours.
    """

    places: config.Places
    json: bool
    out: TextIO
    err: TextIO
    clock: Clock = SystemClock()
    heard: Callable[[str], None] | None = None
    typed: tuple[str, ...] = ()

    def agent(self, named: str | None) -> str:
        """The soul that is meant: the one named, else the only one configured. Raises Unusable, which lists them."""
        known = config.agents(self.places)
        if named is not None:
            if named not in known:
                config.load(self.places, named)
            return named
        if len(known) == 1:
            return known[0]
        if known:
            raise Unusable(
                f"several souls are configured: {', '.join(known)}",
                kind="usage",
                advice=f"name the one that is meant{self._with(known[0])}",
            )
        raise Unusable(
            f"no soul is configured in {self.places.config}",
            advice="soul-bridge init AGENT --remote git@HOST:OWNER/AGENT.soul.git",
        )

    def _with(self, agent: str) -> str:
        """What was typed, with an agent's name in it."""
        words = list(self.typed)
        at = next((at for at, word in enumerate(words, 1) if word[:1] != "-"), None)
        if at is None:
            return ""
        return f": soul-bridge {shlex.join([*words[:at], '--agent', agent, *words[at:]])}"

    def settings(self, named: str | None, *, reading: bool = False) -> config.Settings:
        """The settings of the soul that is meant. Raises Unusable. `reading`: for a command that changes nothing."""
        agent = self.agent(named)
        return config.load_to_read(self.places, agent) if reading else config.load(self.places, agent)

    def log(self) -> Any:
        """The log on standard error, or in the journal that it leads to, as SOUL_BRIDGE_LOG and NO_COLOR want it."""
        from bridge.adapters import events

        journal = events.journal_of(self.err, self.places.journal)
        return events.logger(self.places.log, self.places.color, self.err, journal)

    def answer(self, document: Any, words: str) -> None:
        """Print the answer: the document with --json, else the words (made safe for a terminal by the caller)."""
        self.line((_json(document) if self.json else words).rstrip("\n"))

    def line(self, words: str, *, now: bool = True) -> None:
        """Print a line of an answer that comes piece by piece; `now`: it is to be seen at once. Raises Unwritten."""
        try:
            self.out.write(words + "\n")
            if now:
                self.out.flush()
        except OSError as error:
            raise Unwritten(error.errno, error.strerror) from error

    def say(self, words: str) -> None:
        """Tell a person something that is not the answer."""
        if self.heard is not None:
            self.heard(readable(words, _LONGEST))
            return
        with contextlib.suppress(OSError):
            # Where both go into one pipe, what was said first comes first.
            self.out.flush()
        with contextlib.suppress(OSError):
            self.err.write(self._fitting(readable(words, _LONGEST)) + "\n")
            self.err.flush()

    def _fitting(self, words: str) -> str:
        """Prose within the width of a terminal; a script gets its lines whole."""
        try:
            columns = os.get_terminal_size(self.err.fileno()).columns if self.err.isatty() else 0
        except (OSError, ValueError):  # no file, or none that has a width
            columns = 0
        return wrapped(words, max(columns, _NARROWEST)) if columns else words

    def progress(self, words: str) -> None:
        """How far something long is, for a person who waits at a terminal; nobody else is told."""
        if not self.json and self.err.isatty():
            self.err.write(f"\r{readable(words)}\x1b[K\r")
            self.err.flush()

    def fail(self, error: SoulError) -> int:
        """Report an error, in the shape that was asked for; returns its exit code."""
        if self.json:
            self.answer({"error": error.as_dict()}, "")
        first, end, rest = self._echoed(error.message).partition("\n")
        rule = f" ({error.rule})" if error.rule else ""
        self.say(f"soul-bridge: {first}{rule}{end}{rest}")
        if error.advice:
            self.say(f"  next: {self._echoed(error.advice)}")
        return error.exit_code

    def _echoed(self, words: str) -> str:
        """Words of ours in which no word that was typed begins a line of its own."""
        for word in self.typed:
            for part in (word, word.partition("=")[2]):
                if part.strip() and part != (safe := line(part)):
                    words = words.replace(part, safe)
        return words


def _json(document: Any) -> str:
    return escaped(json.dumps(document, ensure_ascii=False, indent=2))
