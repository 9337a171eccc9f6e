"""When the next pass begins: hints, settling files, polls that adapt, patience after refusals.

The daemon asks `next_wake`; only numbers go in and out. All instants are seconds of the boot-time clock.

Rules: AUTH-5.
"""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass, replace

LIVELY = 1.5  # seconds between polls after a change anywhere, at most
LEAST = 1.0  # and at least, unless a person configures less
FRESH_CHANGE = 60.0  # so long after it
CLOSE = 0.4  # seconds between polls in a conversation: right after another body's commit came,
PART_OF_AGE = 0.125  # and then this part of its age, so that a poll adds an eighth to the time that passed anyway
EASING = 1.25  # each quiet poll later than that lengthens the next pause by this
FIRST_RETRY = 2.0
LONGEST_RETRY = 600.0
FIRST_REFUSAL = 60.0
LONGEST_REFUSAL = 3600.0
MOVED_WINDOW = (0.2, 2.0)
FULL_LOOK = 300.0  # seconds between looks at everything, whatever the hints say
UNBROKEN = 3  # pushes in a row after which there may be company that never gets its turn
FRESH_COMPANY = 60.0  # another body counts as active this long after its last commit was seen


class Ending(enum.Enum):
    """How a pass ended, as far as the next one is concerned."""

    CHANGED = "changed"  # something was recorded, merged or written
    QUIET = "quiet"
    MOVED = "moved"  # lost a race: look again soon
    TRANSIENT = "transient"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Cycle:
    """Where the life of passes stands. poll: seconds between polls when quiet (configured). changed: boottime of the
    last change anywhere."""

    poll: float
    pause: float = LIVELY
    failures: int = 0
    losses: int = 0
    next_remote: float = 0.0
    next_full: float = 0.0
    attempt: float = 0.1  # seconds the last push took
    changed: float = -math.inf

    def remote_due(self, now: float) -> bool:
        """Whether the remote may be asked now."""
        return now >= self.next_remote

    def full_due(self, now: float) -> bool:
        """Whether everything should be looked at."""
        return now >= self.next_full


def step(cycle: Cycle, ending: Ending, now: float, chance: float, company: float | None = None) -> Cycle:
    """The cycle after a pass. `chance`: a random number in [0, 1), so that a fleet does not ask in step.

    company: when another body's commit was last seen, None if never.
    """
    if ending is Ending.MOVED:
        # Somebody always wins a race, so a flat window is best; it only grows when losing goes on and on.
        window = min(max(4 * cycle.attempt, MOVED_WINDOW[0]), MOVED_WINDOW[1]) * (2 if cycle.losses >= 8 else 1)
        return replace(cycle, losses=cycle.losses + 1, failures=0, next_remote=now + chance * window)
    if ending is Ending.TRANSIENT:
        wait = min(FIRST_RETRY * 2**cycle.failures, LONGEST_RETRY)
        return replace(
            cycle, failures=min(cycle.failures + 1, 32), losses=0, next_remote=now + wait * (0.5 + chance / 2)
        )
    if ending is Ending.REFUSED:
        wait = min(FIRST_REFUSAL * 2**cycle.failures, LONGEST_REFUSAL)
        return replace(
            cycle, failures=min(cycle.failures + 1, 32), losses=0, next_remote=now + wait * (0.75 + chance / 4)
        )
    changed = now if ending is Ending.CHANGED else cycle.changed
    eased = max(cycle.pause, LIVELY) * EASING if now - changed > FRESH_CHANGE else LIVELY
    pause = min(eased, cycle.poll)
    spread = 0.5 if pause <= LIVELY else 0.25
    wait = max(pause * (1 - spread + chance * spread), min(LEAST, pause))
    if company is not None:
        wait = min(wait, max(CLOSE, (now - company) * PART_OF_AGE) * (0.8 + chance * 0.4))
    return replace(cycle, pause=pause, failures=0, losses=0, next_remote=now + wait, changed=changed)


def hinted(cycle: Cycle, now: float) -> Cycle:
    """The cycle after a local change: with something to publish, the remote is asked at once, unless it refuses us."""
    return cycle if cycle.failures else replace(cycle, next_remote=min(cycle.next_remote, now))


def looked(cycle: Cycle, now: float) -> Cycle:
    """The cycle after a look at everything."""
    return replace(cycle, next_full=now + FULL_LOOK)


def courtesy(company: float | None, now: float, took: float, in_a_row: int = 1) -> float:
    """Seconds to wait after a won push while another body is active, so that slow links get their turn.

    company: when another body's commit was last seen, None if never. took: seconds the push took. in_a_row: pushes
    won without a pause between them; whoever wins every race never learns that somebody else is running.
    """
    alone = company is None or now - company > FRESH_COMPANY
    if alone and in_a_row < UNBROKEN:
        return 0.0
    return max(1.0, 3 * took)


def next_wake(cycle: Cycle, now: float, deadline: float | None) -> float:
    """Seconds until the next pass must begin without a hint; `deadline`: when a pending path may be ready."""
    moments = [cycle.next_remote, cycle.next_full] + ([deadline] if deadline is not None else [])
    return max(0.0, min(moments) - now)
