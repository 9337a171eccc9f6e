"""Which of two whole versions stands: for everything that cannot be merged by its parts.

Rules: MERGE-6.
"""

from __future__ import annotations

from collections.abc import Iterable

from bridge.core import identity
from bridge.core.model import Decision, File, Touch, Triple
from bridge.core.sides import Facts, Outcome, dropped

AHEAD = 300  # seconds that a commit's time may be ahead of the merging body's clock
EARLIEST = 1_577_836_800  # 2020-01-01: a clock that shows less is one that nobody set
SET_BACK = 300  # seconds that a clock may be behind itself before it counts as wrong


def merge(path: str, triple: Triple, facts: Facts) -> Outcome:
    """The version that stands where both sides changed a path differently; the other one is lost."""
    side, why = _choose(path, triple, facts)
    winner = triple.ours if side == "ours" else triple.theirs
    decision = Decision(path, "MERGE-6", f"{side} stands: {why}")
    return Outcome(winner, dropped(path, triple, winner), (decision,))


def clock_wrong(last: float | None, now: float) -> bool:
    """Whether a body's clock shows much less than at its last stored pass, or a time that cannot be. Seconds since the
    epoch; None: no pass."""
    return now < EARLIEST or (last is not None and now + SET_BACK < last)


def moment(now: float, known: Iterable[int]) -> int:
    """The time of a new commit: now, or where no clock can show that, the newest of the times that are known."""
    return int(now) if now >= EARLIEST else max([EARLIEST, *known])


def from_future(time: int, now: float) -> bool:
    """Whether a commit's time is so far ahead of a body's clock that it says nothing. Both: seconds since the epoch."""
    return time > now + AHEAD


def _choose(path: str, triple: Triple, facts: Facts) -> tuple[str, str]:
    """The side that stands, and why. The first clause that applies decides."""
    ours, theirs = triple.ours, triple.theirs
    if ours is None or theirs is None:
        return ("theirs" if ours is None else "ours"), "an edit beats a deletion"
    if _untouched(ours, facts):
        return "theirs", "ours is blank or seed text"
    if _untouched(theirs, facts):
        return "ours", "theirs is blank or seed text"
    if facts.joins(path, triple):
        return "theirs", "what is published wins on joining"
    if facts.clock_wrong:
        return "theirs", "the clock of this body is wrong"
    if _instant(facts.touched_ours(path), facts.now) > _instant(facts.touched_theirs(path), facts.now):
        return "ours", "it is newer"
    return "theirs", "ours is not newer"


def _untouched(file: File, facts: Facts) -> bool:
    """Whether a version holds nothing that anybody wrote. Links have no text, and a gitlink's bytes are not here."""
    content = facts.content(file)
    return content is not None and identity.is_seed_text(content)


def _instant(touch: Touch | None, now: int) -> tuple[bool, int]:
    """When a side changed the path, comparable; an unknown time is older than every known one."""
    if touch is None or from_future(touch.time, now):
        return False, 0
    return True, touch.time
