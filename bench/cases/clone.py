"""The first clone of a soul, and the first fill of an empty remote with notes that lay there before."""

from __future__ import annotations

from pathlib import Path

from bench import souls
from bench.measure import run as call
from bench.measure import timed
from bench.peers.pair import GitUser
from bench.results import Results
from bench.world import AGENT, Body, World

CLONE, FILL = "first clone of {} notes", "first fill with {} notes"
OURS, GIT = "soul-bridge", "plain git"


def run(world: World, results: Results) -> None:
    """Every size, beside `git clone` and `git add, commit, push`."""
    for notes in world.sizes.notes:
        world.say(f"  {notes:,} notes")
        made, line = souls.made(world, notes, world.sizes.commits[0]), world.network.name
        results.add(CLONE.format(f"{notes:,}"), OURS, line, "s", [made.took], than=GIT)
        results.add(CLONE.format(f"{notes:,}"), GIT, line, "s", [_git_clone(world, made.repo)], than=GIT)
        results.add(FILL.format(f"{notes:,}"), OURS, line, "s", [_fill(world, notes)], than=GIT)
        results.add(FILL.format(f"{notes:,}"), GIT, line, "s", [_git_fill(world, notes)], than=GIT)


def _git_clone(world: World, repo: str) -> float:
    home = world.fresh("clone")
    user = GitUser.make(world, home, "git")
    return timed(lambda: user.git(home, "clone", "-q", world.server.address(repo), "soul"))


def _lay(folder: Path, notes: int) -> None:
    for number in range(notes):
        path = folder / souls.note(number)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(souls.text(number, 0))


def _fill(world: World, notes: int) -> float:
    repo = world.repo("fill")
    body = Body("here", world.fresh("fill"))
    world.server.authorize(body.make_key())
    _lay(body.soul(), notes)
    took = timed(lambda: world.join(body, repo, AGENT, apart=True))
    _check(world, repo, notes)
    return took


def _git_fill(world: World, notes: int) -> float:
    repo = world.repo("gitfill")
    home = world.fresh("gitfill")
    user = GitUser.make(world, home, "git")
    _lay(home, notes)

    def fill() -> None:
        user.git(home, "init", "-q", "-b", "main")
        user.git(home, "add", "notes")
        user.git(home, "commit", "-q", "-m", "begin")
        user.git(home, "push", "-q", world.server.address(repo), "main")

    took = timed(fill)
    _check(world, repo, notes)
    return took


def _check(world: World, repo: str, notes: int) -> None:
    held = call("git", "ls-tree", "-r", "--name-only", "main", "notes/f0000", at=world.server.path(repo)).split()
    if len(held) != min(notes, souls.FOLDER):
        raise AssertionError(f"the remote holds {len(held)} notes of the first folder")
