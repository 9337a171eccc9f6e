"""What commands ask of a soul, done by the daemon's thread or by the command itself when no daemon runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from bridge.app import accepting, consolidating, leasing, sync, undoing
from bridge.app.soul import Order, Progress, Soul
from bridge.app.standing import StandOff
from bridge.core.errors import Transient, Unusable

PASSES = 30  # of one `sync`: a lost race is tried again this often
SETTLING = 20.0  # seconds that `sync` waits at most for files that are being written

Pass = Callable[[Order], sync.Outcome]
Deed = Callable[[Soul, dict[str, Any]], dict[str, Any]]
DEEDS: dict[str, Deed] = {
    "restore": undoing.restore,
    "dismiss": undoing.dismiss,
    "revert": undoing.revert,
    "forget": undoing.forget,
    "accept-remote": accepting.accept,
    "lease show": leasing.show,
    "lease acquire": leasing.acquire,
    "lease renew": leasing.renew,
    "lease release": leasing.release,
    "consolidate begin": consolidating.begin,
    "consolidate note": consolidating.note,
    "consolidate renew": consolidating.renew,
    "consolidate end": consolidating.end,
}

# What a deed cannot do without; `restore` takes an id, or a commit and a path.
NEEDS = {
    "dismiss": ("id",),
    "revert": ("commit",),
    "forget": ("body",),
    "consolidate begin": ("owner",),
    "consolidate note": ("id", "group"),
    "consolidate renew": ("id",),
    "consolidate end": ("id",),
}


def answer(
    soul: Soul, words: dict[str, Any], told: Callable[[sync.Outcome], None] = lambda outcome: None
) -> dict[str, Any]:
    """Do what the request says; `told` hears how a `sync` went. Raises SoulError."""
    name = words.get("command")
    _refuse_nonsense(words)
    if name == "sync":
        outcome = settle(soul, bool(words.get("now")), lambda order: sync.run(soul, order))
        told(outcome)
        return report(outcome)
    if name not in DEEDS:
        raise Unusable(f"unknown request {name!r}", kind="usage")
    if name == "restore" and not words.get("id") and None in (words.get("commit"), words.get("path")):
        raise Unusable("restore takes an id, or a commit and a path", kind="usage", advice="soul-bridge restore --help")
    missing = [word for word in NEEDS.get(name, ()) if words.get(word) is None]
    if missing:
        # A command of another version than this daemon asks with other words.
        raise Unusable(
            f"the request {name!r} lacks {', '.join(missing)}",
            kind="usage",
            advice="Restart the daemon after an upgrade, or ask again with `soul-bridge --help`.",
        )
    return DEEDS[name](soul, words)


def _refuse_nonsense(words: dict[str, Any]) -> None:
    """Raise Unusable for a word whose value is of no kind that it can have: anything may be written to a socket."""
    for word, value in words.items():
        kind = {"owner": int, "group": int, "now": bool}.get(word, str)
        if value is not None and type(value) is not kind:
            raise Unusable(f"the request's {word!r} is no value that it can have", kind="usage")


def settle(soul: Soul, now: bool, run: Pass) -> sync.Outcome:
    """Passes until nothing more can be done at once: races are tried again, deletions get their second look."""
    clock = soul.clock
    end = clock.boottime() + SETTLING
    outcome = run(Order(None, waive=True, now=now))
    passes = [outcome]
    for _ in range(PASSES):
        if outcome.outcome not in ("ok", "moved") and not outcome.recorded:
            break
        if outcome.outcome == "moved":
            clock.sleep(0.2)
        elif outcome.again:
            clock.sleep(0.02)
        elif _unsettled(soul, outcome):
            if clock.boottime() >= end:
                break
            clock.sleep(min(soul.limits.settle, 1.0))
        elif outcome.problem is not None or not (outcome.recorded and not outcome.pushed):
            break
        outcome = run(Order(None, waive=True, now=now))
        passes.append(outcome)
    return together(passes)


def _unsettled(soul: Soul, outcome: sync.Outcome) -> bool:
    """Whether something waits for time alone; what the server refused may be about to be taken back (REPO-8)."""
    return any(outcome.held.get(path, ("REPO-8", ""))[0] == "REPO-8" for path in outcome.pending)


def together(passes: list[sync.Outcome]) -> sync.Outcome:
    """Several passes told as one: everything that was done, and how the last one ended."""
    last = passes[-1]
    progress = Progress(pushed=any(outcome.pushed for outcome in passes), moved=last.outcome == "moved")
    for outcome in passes:
        progress.recorded += outcome.recorded
        progress.merged += outcome.merged
        progress.written += outcome.written
        progress.lost += outcome.lost
        progress.notes += [note for note in outcome.notes if note not in progress.notes]
    return replace(
        last,
        sentence=sync.sentence(progress, last.problem, len(last.pending)),
        recorded=tuple(progress.recorded),
        merged=tuple(progress.merged),
        written=tuple(progress.written),
        lost=tuple(progress.lost),
        pushed=progress.pushed,
        fetched=any(outcome.fetched for outcome in passes),
        notes=tuple(progress.notes),
    )


def report(outcome: sync.Outcome) -> dict[str, Any]:
    """The shape of `sync --json`, with the error beside it when something stood in the way."""
    answer: dict[str, Any] = {
        "outcome": outcome.outcome,
        "sentence": outcome.sentence,
        "recorded": sorted(set(outcome.recorded)),
        "merged": sorted(set(outcome.merged)),
        "written": sorted(set(outcome.written)),
        "pushed": outcome.pushed,
        "tip": outcome.tip,
        "pending": list(outcome.pending),
        "held": [{"path": path, "rule": rule, "reason": why} for path, (rule, why) in sorted(outcome.held.items())],
    }
    if outcome.problem is not None and not isinstance(outcome.problem, StandOff):
        answer["problem"] = outcome.problem.as_dict() | {"transient": isinstance(outcome.problem, Transient)}
    return answer
