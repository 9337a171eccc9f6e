"""Where the souls of a daemon are told of beside their status: the log, numbers, and a person who is wanted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bridge.adapters import config, desktop, metrics
from bridge.adapters.hooks import Programs
from bridge.adapters.repo import counts
from bridge.app import status
from bridge.app.attention import Attention, Notice
from bridge.app.daemon import Ear
from bridge.app.metrics import Board, Measured
from bridge.app.telling import Once, Recovery, Telling
from bridge.commands import wiring
from bridge.commands.context import Context
from bridge.core.instants import iso

PATIENCE = 2.0  # seconds that programs have to come to their end when the daemon ends


@dataclass
class Outlet:
    """Of one soul that lives. ears: hear of its passes. tell: makes the status document whole, and passes it on."""

    ears: Sequence[Ear] = ()
    tell: Callable[[status.Document], status.Document] = lambda document: document
    close: Callable[[], None] = lambda: None


@dataclass
class _Watched:
    """Whether a person is wanted for a soul, remembered through its failures. settings: by which they are told."""

    settings: config.Settings
    attention: Attention
    programs: Programs


@dataclass
class Outlets:
    """Of one process. log: as structlog's. failures: of souls that do not live, by agent."""

    context: Context
    log: Any
    board: Board
    failures: Once = field(default_factory=Once)
    _watched: dict[str, _Watched] = field(default_factory=dict)

    @classmethod
    def of(cls, context: Context, log: Any) -> Outlets:
        """With the real listener and files."""
        return cls(context, log, Board(context.clock, metrics.Listener(context.clock), metrics.write))

    def open(self, settings: config.Settings, pass_id: Callable[[], str | None]) -> Outlet:
        """For a soul that was opened. pass_id: of its present pass."""
        about = {"agent": settings.agent, "body": settings.body}
        recovery = Recovery(self.log, about, self.failures, self.context.clock)
        ears: list[Ear] = [Telling(self.log, about, pass_id), recovery]
        if settings.metrics is None:
            return Outlet(ears, lambda document: self.look(settings.agent, document))
        objects = settings.soul / ".git"
        measured = Measured(settings.soul.name, settings.agent, settings.body, lambda: counts(objects))
        seat = self.board.join(measured, settings.metrics.listen, settings.metrics.file)

        def tell(document: status.Document) -> status.Document:
            document = self.look(settings.agent, document)
            return {**document, "warnings": [*document["warnings"], *self.board.tell(seat, document)]}

        return Outlet([*ears, measured.counts], tell, lambda: self.board.leave(seat))

    def watch(self, settings: config.Settings) -> None:
        """Look after a soul from now on, also where it cannot be opened."""
        known, now = self._watched.get(settings.agent), self.context.clock.now()
        if known is not None and known.settings == settings:
            return
        if known is not None:
            known.programs.close(PATIENCE)
        before = status.read(self.context.places.status_file(settings.agent)) or {}
        # Not in the checkout: that it is gone may be what is told.
        programs = Programs(wiring.fed(Path("/")), self.context.say, "notice")
        attention = Attention(self._telling(settings, programs), before.get("attention") or (), now)
        self._watched[settings.agent] = _Watched(settings, attention, programs)

    def look(self, agent: str, document: status.Document) -> status.Document:
        """The document with why a person is wanted, of which they are told."""
        watched = self._watched.get(agent)
        if watched is None:
            return document
        return {**document, "attention": watched.attention.look(document, self.context.clock.now())}

    def close(self) -> None:
        """Let what is being told come to its end."""
        for watched in self._watched.values():
            watched.programs.close(PATIENCE)

    def _telling(self, settings: config.Settings, programs: Programs) -> Callable[[Notice], None]:
        about = {"agent": settings.agent, "body": settings.body}

        def tell(notice: Notice) -> None:
            self.log.info(notice.state, **about, sentence="; ".join(notice.words), reasons=list(notice.reasons))
            if not settings.notify:
                return
            command = _command(settings, notice)
            if command is None:
                self.context.say(f"{settings.agent}: notify: desktop needs notify-send, which is not installed")
                return
            told = {"at": iso(self.context.clock.now()), "event": notice.state, **about}
            programs.offer(notice.state, command, {**told, "reasons": notice.reasons, "words": notice.words})

        return tell


def _command(settings: config.Settings, notice: Notice) -> Sequence[str] | None:
    if not isinstance(settings.notify, str):
        return settings.notify
    title = f"{settings.agent} ({settings.body})"
    urgent = notice.state == "attention"
    words = "\n".join(notice.words)
    return desktop.command(title, words, urgent=urgent)
