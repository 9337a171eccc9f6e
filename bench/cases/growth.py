"""How a repository grows with changes."""

from __future__ import annotations

from bench import at_work, souls
from bench.measure import NotSeen, size_of
from bench.peers.pair import GitUser
from bench.results import Results
from bench.world import World
from bridge.app import sync
from bridge.app.soul import Order

OURS, GIT, PACKED = "soul-bridge", "plain git", "plain git after git gc"
CASE = "growth of the body's .git per 1,000 changes"
HOST = "growth of the host's repository per 1,000 changes"


def run(world: World, results: Results) -> None:
    """One note after the other, each change a commit that is pushed at once."""
    changes = world.sizes.growth
    world.say(f"  {changes:,} changes")
    _ours(world, results, changes)
    _git(world, results, changes)


def _rows(world: World, results: Results, who: str, grown: tuple[float, float], changes: int) -> None:
    scale = 1000 / changes / 2**20
    results.add(CASE, who, world.network.name, "MiB", [grown[0] * scale], than=GIT)
    results.add(HOST, who, world.network.name, "MiB", [grown[1] * scale], than=GIT)


def _ours(world: World, results: Results, changes: int) -> None:
    repo = souls.build(world, 100, 5)
    body, bare = world.body("here", repo), world.server.path(repo)
    git_dir = body.soul() / ".git"
    before = size_of(git_dir), size_of(bare)
    with at_work.opened(body) as soul:
        for number in range(changes):
            path = souls.note(number * 7 % 100)
            (body.soul() / path).write_bytes(souls.text(number, 2_000_000 + number))
            outcome = sync.run(soul, Order(frozenset([path]), waive=True, remote=False))
            if not outcome.pushed:
                raise NotSeen(f"not pushed: {outcome.sentence}")
            if number % 200 == 199:
                soul.repo.maintain()  # the daemon does so when it rests
        soul.repo.maintain()
    _rows(world, results, OURS, (size_of(git_dir) - before[0], size_of(bare) - before[1]), changes)


def _git(world: World, results: Results, changes: int) -> None:
    repo, home = souls.build(world, 100, 5), world.fresh("growth")
    user = GitUser.make(world, home, "git", shared=True)
    user.git(home, "clone", "-q", world.server.address(repo), "soul")
    folder, bare = home / "soul", world.server.path(repo)
    user.git(folder, "config", "gc.auto", "0")
    before = size_of(folder / ".git"), size_of(bare)
    for number in range(changes):
        (folder / souls.note(number * 7 % 100)).write_bytes(souls.text(number, 2_000_000 + number))
        user.git(folder, "commit", "-q", "-a", "-m", "one note")
        user.git(folder, "push", "-q", "origin", "HEAD:main")
    _rows(world, results, GIT, (size_of(folder / ".git") - before[0], size_of(bare) - before[1]), changes)
    user.git(folder, "gc", "-q")
    user.git(bare, "-c", "safe.directory=*", "gc", "-q")
    _rows(world, results, PACKED, (size_of(folder / ".git") - before[0], size_of(bare) - before[1]), changes)
    user.hang_up()
