"""What must come out, judged from the rows of the run and from nothing else."""

from __future__ import annotations

from bench import peers
from bench.cases import arrival, eight, merging, passes, rest, starve, transport, watch
from bench.cases.watch import OURS
from bench.results import Goal, Results
from bench.sizes import ALL

SETTLE = 0.5  # seconds, the default of the configuration


def judged(results: Results) -> list[Goal]:
    """Every goal, met or not, or None where this run did not measure it."""
    goals = [*_arrival(results), *_steady(results), *_eight(results), *_passes(results), *_rest(results)]
    return [*goals, *_merging(results)]


def _goal(words: str, found: float | None, allowed: float, unit: str) -> Goal:
    return Goal(words, found, allowed, unit, None if found is None else found <= allowed)


def _arrival(results: Results) -> list[Goal]:
    ours = results.median(arrival.REMOTE, OURS)
    # The floor is one step of a peer's work and no peer: nobody keeps two machines alike by typing.
    others = [peer.name for peer in peers.ALL if peer.name not in (OURS, watch.FLOOR)]
    medians = [each for each in (results.median(arrival.REMOTE, name) for name in others) if each is not None]
    push = results.median(transport.PUSH, transport.FLOOR)
    above = (ours - SETTLE) * 1000 / push if ours is not None and push else None
    busy, lately = results.row(arrival.THERE, OURS), results.row(arrival.LATELY, OURS)
    rested = results.row(arrival.REST_THERE, OURS)
    poll = float(ALL[results.sizes].poll.removesuffix("s"))
    return [
        _goal(
            "write → remote: median, the fastest peer allows", ours if medians else None, min(medians, default=0.0), "s"
        ),
        _goal("write → remote without settle, in pushes of git over an open connection", above, 1.5, "×"),
        _goal("A → B, busy: median", busy.median if busy else None, 1.5, "s"),
        _goal("A → B, busy: p95", busy.p95 if busy else None, 3.0, "s"),
        _goal("A → B, last change within a minute: median", lately.median if lately else None, 1.5, "s"),
        _goal("A → B, last change within a minute: p95", lately.p95 if lately else None, 3.0, "s"),
        _goal("A → B, at rest: worst", max(rested.samples) if rested and rested.samples else None, poll + 1.5, "s"),
    ]


def _steady(results: Results) -> list[Goal]:
    stale, notes = results.row(starve.STALE, OURS), results.row(starve.NOTES, OURS)
    worst = max(notes.samples) if notes and notes.samples else None
    # Five seconds of activity (GUARD-1), one push and one poll.
    return [
        _goal(
            "a file rewritten every 50 ms: B's version is never older than", stale.median if stale else None, 8.5, "s"
        ),
        _goal("beside it, other notes: A → B, worst", worst, 5.0, "s"),
    ]


def _eight(results: Results) -> list[Goal]:
    case = eight.AGREE.format(8)
    agree, tried = results.row(case, eight.OURS), results.row(eight.TRIED, eight.OURS)
    return [
        _goal("eight bodies at once agree: worst round", max(agree.samples) if agree else None, 5.0, "s"),
        _goal(
            "eight bodies at once: pushes tried, worst round", max(tried.samples) if agree and tried else None, 39, ""
        ),
    ]


def _passes(results: Results) -> list[Goal]:
    case = passes.RECORD.format("1")
    small, large = (results.median(case, passes.who(notes, 1_000)) for notes in (100, 100_000))
    ratio = large / small if small and large else None
    return [_goal("one hinted change: a pass at 100,000 notes, in passes at 100 notes", ratio, 2.0, "×")]


def _rest(results: Results) -> list[Goal]:
    name = rest.who(100)
    return [
        _goal("100 souls at rest in one process: memory", results.median(rest.MEMORY, name), 400.0, "MiB"),
        _goal("100 souls at rest in one process: processor", results.median(rest.CPU, name), 5.0, "%"),
    ]


def _merging(results: Results) -> list[Goal]:
    some, many = (results.median(merging.CASE, merging.who(entries), "") for entries in (10_000, 100_000))
    ratio = many / some / 10 if some and many else None
    return [_goal("merge of ten times as many entries (100,000), in tenfold times", ratio, 1.5, "×")]
