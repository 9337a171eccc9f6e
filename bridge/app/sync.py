"""The pass: observe, record, fetch, merge, publish, materialise, once.

Every pass begins by looking, so a crash at any instruction needs no other recovery than the two intents that
`recording` and `materialise` leave. Contents are moved, never judged: nothing here looks at what an agent wrote.

Rules: CONTENT-1.
"""

from __future__ import annotations

from dataclasses import dataclass

from bridge.app import byhand, filling, freezing, materialise, publishing, recording, standing, withholding
from bridge.app.joining import ALONE, JOINING, REMOTE
from bridge.app.soul import Order, Progress, Soul
from bridge.core import cycle, words
from bridge.core.errors import Moved, Refused, SoulError, Transient

TOLD = "held"  # remembered: held paths that a fact told of, with rule and reason
GUARDS = ("GUARD-2", "GUARD-3")


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a pass ended.

    ending: for the cycle. outcome: ok, waiting, offline, refused, moved or disk. sentence: what was done, for people.
    recorded, merged, written, lost: paths. pushed: whether the remote took something. tip, remote_tip: ids.
    pending: unsettled and waiting paths. held: path → (rule, reason). problem: what stood in the way.
    deadline: boottime at which a pending path may be ready. notes: what a person has to know, beside all that.
    """

    ending: cycle.Ending
    outcome: str
    sentence: str
    recorded: tuple[str, ...]
    merged: tuple[str, ...]
    written: tuple[str, ...]
    lost: tuple[str, ...]
    fetched: bool
    pushed: bool
    tip: str | None
    remote_tip: str | None
    pending: tuple[str, ...]
    held: dict[str, tuple[str, str]]
    problem: SoulError | None
    again: tuple[str, ...]
    deadline: float | None
    took: float
    notes: tuple[str, ...] = ()


def run(soul: Soul, order: Order) -> Outcome:
    """One pass. Raises nothing for what the outside does, a memory that fails in the end included: what comes out is a
    bug or the end of the process."""
    progress = Progress()
    soul.passes += 1
    soul.owed = None if order.hints is None or soul.owed is None else soul.owed | order.hints
    soul.facts.bind_pass(f"{int(soul.clock.now())}.{soul.passes}")
    try:
        freezing.tend(soul)
        _local(soul, order, progress)
        if _known(soul):
            _remote(soul, order, progress)
        materialise.materialise(soul, order, progress)
        _remember_pass(soul)
    except SoulError as error:
        progress.problem = progress.problem or error
    finally:
        soul.repo.discard()
    outcome = soul.ended = _outcome(soul, progress, _tips(soul, progress))
    if not soul.at_start:
        _tell_held(soul, outcome)
    soul.facts.record("pass.finished", outcome=outcome.outcome, sentence=outcome.sentence)
    return outcome


def _local(soul: Soul, order: Order, progress: Progress) -> None:
    standing.presence(soul)
    soul.placed()
    standing.stand_off(soul)
    recording.recover(soul)
    withholding.recover(soul)
    materialise.recover(soul)
    standing.settle_main(soul, progress)
    byhand.settle(soul, progress)
    if not _known(soul) and order.remote:
        # Nothing is recorded before the remote answered once: what is there may be an old copy (REPO-6).
        publishing.meet(soul, progress)
    if not _known(soul):
        return
    if soul.seen.recall(JOINING):
        soul.owed = None
    materialise.settle_stayed(soul)
    recording.record(soul, order, progress)
    filling.fill(soul, progress)
    filling.heartbeat(soul, progress)


def _known(soul: Soul) -> bool:
    return soul.seen.recall(REMOTE) is not None or bool(soul.seen.recall(ALONE))


def _remote(soul: Soul, order: Order, progress: Progress) -> None:
    """Speak to the remote; what it refuses does not keep merged files from reaching the disk."""
    if not (order.remote or (order.publish and publishing.ahead(soul))):
        return
    try:
        soul.unrecorded()
        publishing.exchange(soul, progress, order.now)
    except (Transient, Refused) as error:
        progress.problem = error


def _remember_pass(soul: Soul) -> None:
    """The time of the last pass, to notice a clock that was set back; rarely written, it need not be exact."""
    last, now = soul.seen.recall(recording.CLOCK), soul.clock.now()
    if last is None or now - last >= 60:
        soul.seen.remember(recording.CLOCK, now)


def _tell_held(soul: Soul, outcome: Outcome) -> None:
    """Say which paths became held, each once for a reason, across restarts; guards tell of their waits themselves."""
    try:
        before = {path: (rule, why) for path, (rule, why) in (soul.seen.recall(TOLD) or {}).items()}
    except SoulError:
        return  # as below
    held = {path: why for path, why in outcome.held.items() if why[0] not in GUARDS}
    # A held file that is written again is pending for a moment: that is not the end of its being held.
    told = {path: why for path, why in before.items() if path in outcome.pending} | held
    if told == before:
        return
    try:
        soul.seen.remember(TOLD, told or None)
    except SoulError:
        return  # a full disk: it is told once it can be remembered
    for path, (rule, reason) in sorted(held.items()):
        if before.get(path) != (rule, reason):
            soul.facts.record("file.held", path=path, rule=rule, reason=reason)


def _tips(soul: Soul, progress: Progress) -> tuple[str | None, str | None]:
    """Main's tip here and on the remote, as far as known; where that cannot be told, it is what stood in the way."""
    try:
        return soul.head(), progress.remote_tip or soul.seen.recall(REMOTE)
    except SoulError as error:
        progress.problem = progress.problem or error
        return None, progress.remote_tip


def _outcome(soul: Soul, progress: Progress, tips: tuple[str | None, str | None]) -> Outcome:
    problem = progress.problem
    pending = progress.pending | soul.waiting.keys()
    if isinstance(problem, standing.StandOff):
        outcome, ending = "waiting", cycle.Ending.QUIET
    elif isinstance(problem, Moved) or (problem is None and progress.moved):
        outcome, ending = "moved", cycle.Ending.MOVED
    elif isinstance(problem, Transient):
        outcome, ending = {"disk": "disk", "busy": "waiting"}.get(problem.kind, "offline"), cycle.Ending.TRANSIENT
    elif problem is not None:
        outcome, ending = "refused", cycle.Ending.REFUSED
    else:
        busy = progress.recorded or progress.merged or progress.written or progress.pushed
        outcome, ending = "ok", cycle.Ending.CHANGED if busy else cycle.Ending.QUIET
    return Outcome(
        ending,
        outcome,
        sentence(progress, problem, len(pending)),
        tuple(progress.recorded),
        tuple(progress.merged),
        tuple(progress.written),
        tuple(progress.lost),
        progress.fetched,
        progress.pushed,
        *tips,
        tuple(sorted(pending)),
        {**soul.watching.held, **soul.waiting, **soul.unplaced},
        problem,
        tuple(sorted(progress.again)),
        progress.deadline,
        progress.took,
        tuple(progress.notes),
    )


def sentence(progress: Progress, problem: SoulError | None, pending: int) -> str:
    """What the pass did, in one sentence."""
    parts = []
    for word, paths in (("recorded", progress.recorded), ("merged", progress.merged), ("wrote", progress.written)):
        if paths:
            parts.append(f"{word} {_paths(paths)}")
    if progress.lost:
        parts.append(f"kept the older version of {_paths(progress.lost)} in history")
    if progress.pushed:
        parts.append("pushed")
    if pending:
        parts.append(f"{pending} path{'s' * (pending > 1)} still waiting")
    parts += progress.notes
    if problem is not None:
        parts.append(problem.message.rstrip("."))
    elif progress.moved:
        parts.append("another body was quicker, trying again")
    return ("; ".join(parts) or "nothing to do") + "."


def _paths(paths: list[str]) -> str:
    unique = sorted(set(paths))
    return words.line(unique[0]) if len(unique) == 1 else f"{len(unique)} paths"
