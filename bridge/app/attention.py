"""When a person is wanted, and when all is well again: each told once, however often a soul looks.

Calm is a soul of which nobody need know. Reasons to call somebody come from its status; that the network is gone for a
while is none, that nothing was verified for a day is one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from bridge.app import namesake, status
from bridge.core.instants import seconds
from bridge.core.words import line

UNVERIFIED = 86400.0  # seconds without a pass that saw that all is the same here and at the remote
AWAKE = 600.0  # seconds that this has to go on while somebody looks: a machine that just woke up gets its chance
GAP = 180.0  # seconds between two looks after which nobody looked meanwhile
AGAIN = 600.0  # seconds within which the same is not told a second time, though it came and went
_WAITS = ("GUARD-2", "GUARD-3")  # a deletion of much, which a person may want to prevent
_PASSING = ("network", "busy")


@dataclass(frozen=True)
class Notice:
    """What a person is told. state: attention or calm. reasons: kinds, sorted. words: a sentence for each."""

    state: str
    reasons: tuple[str, ...]
    words: tuple[str, ...]


def reasons(document: status.Document) -> dict[str, str]:
    """Why a person is wanted: words by kind of reason, but for what only time brings."""
    found = {}
    problem = document["problem"]
    if problem and problem["kind"] not in _PASSING:
        found[problem["kind"]] = f"{status.cause(problem['kind'])}: {problem['message']}".replace("\n", " ")
    pending = set(document["pending"])
    held = [item for item in document["held"] if item["path"] not in pending or item["rule"] in _WAITS]
    if held:
        more = f" and {len(held) - 1} more" if len(held) > 1 else ""
        found["held"] = f"held: {held[0]['path']}{more} ({held[0]['rule']}: {held[0]['reason']})"
    for words in document.get("warnings", ()):
        if words.startswith(namesake.CALLED):
            found["name"] = words.partition("\n")[0]
    # They go to a desktop, a terminal or a program of the owner's, and what others named is in them.
    return {kind: line(words) for kind, words in found.items()}


def is_overdue(document: status.Document, now: float, since: float) -> bool:
    """Whether nothing was verified for a day, of a soul that is meant to be. now, since: epoch seconds; since when
    somebody looks after it."""
    verified = seconds(document.get("last_verified"))
    return document["state"] not in ("paused", "stopped") and now - (verified or since) > UNVERIFIED


class Attention:
    """Whether a person is wanted for one soul, and whether they know. tell: tells them. told: what they know already.

    since: epoch seconds from which on a soul that was never verified counts as looked after.
    """

    def __init__(self, tell: Callable[[Notice], None], told: Collection[str], since: float) -> None:
        self._tell = tell
        self._told = set(told)
        self._since = since
        self._last: dict[str, float] = {}
        self._held: set[str] = set()
        self._looked = since
        self._overdue: float | None = None

    def look(self, document: status.Document, now: float) -> list[str]:
        """Tell what is new in a status; the reasons that there are, sorted. now: epoch seconds."""
        found = reasons(document)
        if self._is_overdue(document, now):
            found["unverified"] = "nothing was verified with the remote for more than a day"
        # A held file that is written again is pending for a moment: that is not the end of its being held.
        again = self._held & set(document["pending"])
        self._held = again | {item["path"] for item in document["held"]}
        if "held" in self._told and again:
            found.setdefault("held", "held")
        new = [kind for kind in sorted(found.keys() - self._told) if self._due(kind, now)]
        if new:
            self._notice("attention", new, [found[kind] for kind in new], now)
            self._told.update(new)
        elif self._told and not found:
            # Who was called is told of the end at once: that calls are not repeated bounds these as well.
            self._notice("calm", [], ["all is well again"], now)
            self._told.clear()
        elif found:
            self._told &= found.keys()  # the others are told as new if they come back
        return sorted(found)

    def _is_overdue(self, document: status.Document, now: float) -> bool:
        slept, self._looked = not 0 <= now - self._looked <= GAP, now
        if not is_overdue(document, now, self._since):
            self._overdue = None
        elif slept or self._overdue is None:
            self._overdue = now
        return self._overdue is not None and ("unverified" in self._told or now - self._overdue >= AWAKE)

    def _due(self, kind: str, now: float) -> bool:
        last = self._last.get(kind)
        return last is None or not 0 <= now - last < AGAIN

    def _notice(self, state: str, kinds: Collection[str], words: Iterable[str], now: float) -> None:
        self._last.update(dict.fromkeys(kinds, now))
        self._tell(Notice(state, tuple(kinds), tuple(words)))
