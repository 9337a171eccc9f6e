"""The numbers of the souls of one process, for whoever watches over many of them.

What a soul's `status` says, and what only this process counted, as metrics; nothing that tells what is in a soul.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from bridge.app import status
from bridge.app.reporting import KINDS
from bridge.app.sync import Outcome
from bridge.core.errors import Refused, SoulError, Transient
from bridge.core.exposition import Family, text
from bridge.core.instants import seconds
from bridge.core.ports import Clock

RECOUNT = 60.0  # seconds after which objects and packs are counted again
RETRY = 30.0  # seconds after which an address that was in use is tried again

Address = tuple[str, int]


@dataclass
class Counts:
    """What the passes of one soul came to, since this process began. Heard in its thread, read in others."""

    passes: int = 0
    took: float = 0.0
    last: float = 0.0
    refusals: Counter[str] = field(default_factory=Counter)

    def passed(self, outcome: Outcome, took: float) -> None:
        """A pass is over, after so many seconds."""
        self.passes, self.took, self.last = self.passes + 1, self.took + took, took
        if isinstance(outcome.problem, Refused):
            self.refusals[outcome.problem.kind] += 1

    def answered(self, command: str, error: SoulError | None) -> None:
        """Commands are not counted."""


@dataclass
class Measured:
    """A soul as it is measured. soul: the name of its checkout. count: gives objects and packs of its repository."""

    soul: str
    agent: str
    body: str
    count: Callable[[], tuple[int, int]] = lambda: (0, 0)
    counts: Counts = field(default_factory=Counts)
    document: status.Document | None = None
    counted: tuple[int, int] = (0, 0)
    recount: float | None = None  # boottime at which `counted` is old

    @property
    def labels(self) -> dict[str, str]:
        """What tells its samples from another soul's."""
        return {"soul": self.soul, "agent": self.agent, "body": self.body}


def families(souls: Sequence[Measured], now: float) -> list[Family]:
    """Every metric, with the samples of all souls that told of themselves. now: seconds since the epoch."""
    found = [Family(f"soul_bridge_{name}", kind, words) for name, kind, words in _KINDS]
    by_name = {family.name.removeprefix("soul_bridge_"): family for family in found}
    for soul in souls:
        if soul.document is not None:
            _of_document(by_name, soul.labels, soul.document, now)
            _of_counts(by_name, soul)
    return found


_KINDS = (
    ("state", "gauge", "1 for the state that the soul is in, 0 for the others."),
    ("problem", "gauge", "1 for the kind of problem that stands in the way, 0 for the others."),
    ("attention", "gauge", "1 when a person is wanted, else 0."),
    ("last_verified_timestamp_seconds", "gauge", "When a pass last saw that here and at the remote are the same."),
    ("last_pass_timestamp_seconds", "gauge", "When the last pass ended."),
    ("last_pull_timestamp_seconds", "gauge", "When the remote last answered."),
    ("last_push_timestamp_seconds", "gauge", "When the remote last took something."),
    ("unpushed_commits", "gauge", "Commits that the remote has not."),
    ("unpushed_age_seconds", "gauge", "Age of the oldest commit that the remote has not, 0 when there is none."),
    ("unmerged_commits", "gauge", "Commits of the remote that are not merged here yet."),
    ("held_paths", "gauge", "Paths that are set aside, with a reason in status."),
    ("pending_paths", "gauge", "Paths that are not recorded yet."),
    ("conflicts", "gauge", "Versions that lost a merge and were neither brought back nor dismissed."),
    ("bodies", "gauge", "Bodies in the registry."),
    ("pass_duration_seconds", "summary", "Seconds that passes took."),
    ("last_pass_duration_seconds", "gauge", "Seconds that the last pass took."),
    ("refusals_total", "counter", "Passes that were refused, by the kind of refusal."),
    ("objects", "gauge", "Objects in the repository."),
    ("packs", "gauge", "Packs in the repository."),
)


def _of_document(by_name: dict[str, Family], labels: dict[str, str], document: status.Document, now: float) -> None:
    for state in status.STATES:
        by_name["state"].add({**labels, "state": state}, float(document["state"] == state))
    problem, last = document["problem"] or {}, document["last_pass"] or {}
    for kind in KINDS:
        by_name["problem"].add({**labels, "kind": kind}, float(problem.get("kind") == kind))
    for name in ("verified", "pull", "push"):
        by_name[f"last_{name}_timestamp_seconds"].add(labels, seconds(document.get(f"last_{name}")))
    since = seconds(document.get("unpushed_since"))
    for name, value in (
        ("last_pass_timestamp_seconds", seconds(last.get("at"))),
        ("attention", float(bool(document.get("attention")))),
        ("unpushed_commits", document["ahead"]),
        ("unpushed_age_seconds", 0.0 if since is None else max(0.0, now - since)),
        ("unmerged_commits", document["behind"]),
        ("held_paths", len(document["held"])),
        ("pending_paths", len(document["pending"])),
        ("conflicts", document["conflicts"]),
        ("bodies", len(document["bodies"])),
    ):
        by_name[name].add(labels, value)


def _of_counts(by_name: dict[str, Family], soul: Measured) -> None:
    counts, labels = soul.counts, soul.labels
    by_name["pass_duration_seconds"].add(labels, counts.took, "_sum")
    by_name["pass_duration_seconds"].add(labels, counts.passes, "_count")
    by_name["last_pass_duration_seconds"].add(labels, counts.last if counts.passes else None)
    for kind in KINDS:
        by_name["refusals_total"].add({**labels, "kind": kind}, counts.refusals[kind])
    by_name["objects"].add(labels, soul.counted[0])
    by_name["packs"].add(labels, soul.counted[1])


class Listening(Protocol):
    """What answers on addresses of this machine."""

    def open(self, address: Address, answer: Callable[[], str]) -> None:
        """Answer there. Raises Transient when it cannot be had."""

    def close(self, address: Address) -> None:
        """Answer there no more. Never raises."""


@dataclass(eq=False)
class Seat:
    """A soul's place on the board: where its numbers are wanted, and why they cannot be had there."""

    measured: Measured
    listen: Address | None
    file: Path | None
    unheard: str = ""
    unwritten: str = ""
    retry: float = 0.0


class Board:
    """Which soul's numbers are wanted where; several souls may share an address or a file. Safe from several threads.

    write: puts a text into a file, whole; raises Transient.
    """

    def __init__(self, clock: Clock, listening: Listening, write: Callable[[Path, str], None]) -> None:
        self._clock = clock
        self._listening = listening
        self._write = write
        self._seats: list[Seat] = []
        self._open: set[Address] = set()
        self._lock = threading.RLock()

    def join(self, measured: Measured, listen: Address | None, file: Path | None) -> Seat:
        """A soul whose numbers are wanted."""
        with self._lock:
            self._seats.append(Seat(measured, listen, file))
            return self._seats[-1]

    def tell(self, seat: Seat, document: status.Document) -> list[str]:
        """What is known of a soul now; why its numbers cannot be had, for people. Never raises."""
        with self._lock:
            seat.measured.document = document
            self._listen(seat)
            self._publish(seat)
            return [words for words in (seat.unheard, seat.unwritten) if words]

    def leave(self, seat: Seat) -> None:
        """A soul that does not live any more: its file says so, and nobody is answered for it."""
        with self._lock:
            if seat not in self._seats:
                return
            if seat.measured.document is not None:
                seat.measured.document = {**seat.measured.document, "state": "stopped"}
                self._publish(seat)
            self._seats.remove(seat)
            if seat.listen in self._open and not any(other.listen == seat.listen for other in self._seats):
                self._open.discard(seat.listen)
                self._listening.close(seat.listen)

    def at(self, address: Address) -> str:
        """What is answered at an address."""
        with self._lock:
            return self._text([seat for seat in self._seats if seat.listen == address])

    def _listen(self, seat: Seat) -> None:
        now, address = self._clock.boottime(), seat.listen
        if address is None or address in self._open or (seat.unheard and now < seat.retry):
            seat.unheard = "" if address in self._open else seat.unheard
            return
        try:
            self._listening.open(address, lambda: self.at(address))
        except Transient as error:
            seat.unheard, seat.retry = f"{error.message}\n{error.advice}", now + RETRY
            return
        self._open.add(address)
        seat.unheard = ""

    def _publish(self, seat: Seat) -> None:
        if seat.file is None:
            return
        seat.unwritten = ""
        try:
            self._write(seat.file, self._text([other for other in self._seats if other.file == seat.file]))
        except Transient as error:
            seat.unwritten = f"{error.message}\n{error.advice}"

    def _text(self, seats: list[Seat]) -> str:
        now = self._clock.boottime()
        for seat in seats:
            measured = seat.measured
            if measured.recount is None or now >= measured.recount:
                measured.counted, measured.recount = measured.count(), now + RECOUNT
        return text(families([seat.measured for seat in seats], self._clock.now()))
