"""One pass on souls of many sizes: what it costs follows what changed, not what there is."""

from __future__ import annotations

from dataclasses import replace

from bench import at_work, souls
from bench.measure import NotSeen, now, repeated, sleep, timed
from bench.results import Results
from bench.world import World
from bridge.app import status, sync
from bridge.app.soul import Order, Soul

RECORD = "pass: {} changed, the watcher told which"
REPORT = "… and its status"
PUBLISH = "… and its push"
LATER = "… and the look at it two seconds later, with git's index"
TAKE = "pass: {} changed elsewhere, fetched and written"
FULL = "full look, nothing changed"
FIRST = "first pass after a start"
AGED = 2.2  # seconds after which a file is no longer young enough to be read twice


def who(notes: int, commits: int) -> str:
    """The row's name of a soul."""
    return f"{notes:,} notes, {commits:,} commits"


def run(world: World, results: Results) -> None:
    """Every number of notes, and one of them on a long history."""
    for commits in world.sizes.commits:
        for notes in world.sizes.notes if commits == world.sizes.commits[0] else world.sizes.notes[1:2]:
            world.say(f"  {who(notes, commits)}")
            _soul(world, results, souls.made(world, notes, commits))


def _soul(world: World, results: Results, made: souls.Made) -> None:
    name = who(made.notes, made.commits)
    smallest = who(world.sizes.notes[0], world.sizes.commits[0])
    line = world.network.name
    with at_work.opened(made.body) as soul:
        soul.limits = replace(soul.limits, settle=0.0)
        results.add(FIRST, name, line, "ms", [timed(lambda: _pass(soul, None)) * 1000], than=smallest)
        looks = repeated(min(3, world.sizes.many), lambda: _pass(soul, None))
        results.add(FULL, name, line, "ms", [each * 1000 for each in looks], than=smallest)
        for changed in world.sizes.changed:
            _changed(world, results, made, soul, changed, name, smallest)


def _changed(
    world: World, results: Results, made: souls.Made, soul: Soul, changed: int, name: str, smallest: str
) -> None:
    reporter, place = at_work.reporter(made.body), made.body.home / "state" / "kaoru" / "status.json"
    life = _Life(soul)
    times = min(world.sizes.many, 10 if changed == 1 else 3)
    found: dict[str, list[float]] = {RECORD: [], REPORT: [], PUBLISH: [], LATER: [], TAKE: []}
    for number in range(times):
        paths = frozenset(_write(made, changed, number))
        began = now()
        outcome = _pass(soul, paths)
        found[RECORD].append((now() - began) * 1000)
        if len([path for path in outcome.recorded if path in paths]) != changed:
            raise NotSeen(f"recorded {len(outcome.recorded)} paths of {changed}: {outcome.sentence}")
        life.life.note(outcome, None)
        found[REPORT].append(timed(lambda: status.write(place, reporter.document(life.life))) * 1000)
        found[PUBLISH].append(timed(lambda: _pushed(soul)) * 1000)
        sleep(AGED)
        found[LATER].append(timed(lambda: _pass(soul, frozenset())) * 1000)
        souls.advance(world.server.path(made.repo), [souls.note(each) for each in range(changed)])
        found[TAKE].append(timed(lambda: _taken(soul, changed)) * 1000)
        sleep(AGED)
        _pass(soul, frozenset())
    for case, samples in found.items():
        title = case.format(f"{changed:,}")
        title = title if case in (RECORD, TAKE) else f"{RECORD.format(f'{changed:,}')} {case}"
        results.add(title, name, world.network.name, "ms", samples, than=smallest)


class _Life:
    def __init__(self, soul: Soul) -> None:
        from bridge.app.life import Life

        self.life = Life(soul)


def _write(made: souls.Made, changed: int, version: int) -> list[str]:
    paths = [souls.note(each) for each in range(changed)]
    for number, path in enumerate(paths):
        target = made.body.soul() / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(souls.text(number, 1_000_000 + version))
    return paths


def _pass(soul: Soul, hints: frozenset[str] | None) -> sync.Outcome:
    outcome = sync.run(soul, Order(hints, now=True, remote=False, publish=False))
    if outcome.problem is not None:
        raise NotSeen(str(outcome.problem))
    return outcome


def _pushed(soul: Soul) -> None:
    outcome = sync.run(soul, Order(frozenset(), remote=False, publish=True))
    if not outcome.pushed:
        raise NotSeen(f"not pushed: {outcome.sentence}")


def _taken(soul: Soul, changed: int) -> None:
    outcome = sync.run(soul, Order(frozenset(), now=True, remote=True))
    if len(outcome.written) != changed:
        raise NotSeen(f"wrote {len(outcome.written)} paths of {changed}: {outcome.sentence}")
