"""From the start of the program to its first pass and to its first answer."""

from __future__ import annotations

from bench import souls
from bench.cases.passes import who
from bench.measure import timed
from bench.results import Results
from bench.world import World

START, STATUS, VERSION = "start until the first pass is done", "soul-bridge status", "soul-bridge --version"
AWAKE = "memory of the daemon right after its start"


def run(world: World, results: Results) -> None:
    """Souls of every size."""
    from bench.measure import memory

    line = world.network.name
    smallest = who(world.sizes.notes[0], world.sizes.commits[0])
    for commits in world.sizes.commits:
        for notes in world.sizes.notes:
            made = souls.made(world, notes, commits)
            body, samples, held = made.body, [], []
            for _ in range(min(3, world.sizes.many)):
                samples.append(timed(body.start))
                held.append(memory([body.daemon.pid]) if body.daemon else 0.0)
                body.stop()
            results.add(START, who(notes, commits), line, "s", samples, than=smallest)
            results.add(AWAKE, who(notes, commits), line, "MiB", held, than=smallest)
    body = souls.made(world, world.sizes.notes[0], world.sizes.commits[0]).body
    for case, words in ((STATUS, ("status", "--json")), (VERSION, ("--version",))):
        samples = [timed(lambda: body.call(*words)) for _ in range(min(5, world.sizes.many))]  # noqa: B023
        results.add(case, "soul-bridge", line, "s", samples)
