"""Poll, fetch and push alone: soul-bridge's open session beside git over ssh and libgit2."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pygit2

from bench import at_work, souls
from bench.measure import NotSeen, timed
from bench.measure import run as call
from bench.peers.pair import GitUser
from bench.results import Results
from bench.world import World

POLL, FETCH, PUSH = "poll alone", "fetch of one commit alone", "push of one commit alone"
FLOOR, OURS = "git, shared ssh", "soul-bridge"
MAIN = "refs/heads/main"


@dataclass
class Way:
    """One way to the remote. commit: makes one that can be pushed. Each leaves the clone at the remote's tip."""

    name: str
    poll: Callable[[], object]
    fetch: Callable[[], object]
    commit: Callable[[], object]
    push: Callable[[], object]


def run(world: World, results: Results) -> None:
    """Every way on a soul of ten notes."""
    for opened in (_ours, _fresh, _shared, _libgit2):
        made = souls.build(world, 10, 5)
        bare = world.server.path(made)
        with opened(world, made) as way:
            world.say(f"  {way.name}")
            _measure(world, results, way, bare)


def _measure(world: World, results: Results, way: Way, bare: Path) -> None:
    way.poll()
    polls, fetches, pushes = [], [], []
    for number in range(world.sizes.many):
        polls.append(timed(way.poll) * 1000)
        souls.advance(bare, [f"notes/f0000/{number}.md"])
        fetches.append(timed(way.fetch) * 1000)
        way.commit()
        before = call("git", "rev-parse", "main", at=bare)
        pushes.append(timed(way.push) * 1000)
        if call("git", "rev-parse", "main", at=bare) == before:
            raise NotSeen(f"{way.name} pushed nothing")
    for case, samples in ((POLL, polls), (FETCH, fetches), (PUSH, pushes)):
        results.add(case, way.name, world.network.name, "ms", samples, than=FLOOR)


@contextlib.contextmanager
def _ours(world: World, repo: str) -> Iterator[Way]:
    body = world.body("here", repo)
    with at_work.opened(body) as soul:
        tip = soul.repo.tip(MAIN) or ""
        state = {"remote": tip, "new": tip}

        def fetch() -> None:
            look = soul.remote.fetch([state["remote"]])
            state["remote"] = look.tip or ""

        def commit() -> None:
            head = soul.repo.info(state["remote"])
            blob = soul.store(os.urandom(300).hex().encode(), "notes/x.md", 0o100644)
            tree = soul.repo.edit(head.tree, {"notes/f0000/x.md": blob})
            state["new"] = soul.commit(tree, [head.oid], "one note")
            soul.repo.flush()

        def push() -> None:
            soul.remote.push(state["remote"], state["new"])
            state["remote"] = state["new"]

        yield Way(OURS, fetch, fetch, commit, push)


def _git(world: World, repo: str, *, shared: bool) -> tuple[GitUser, Way]:
    home = world.fresh("git")
    user = GitUser.make(world, home, "git", shared=shared)
    user.git(home, "clone", "-q", world.server.address(repo), "soul")
    folder = home / "soul"

    def commit() -> None:
        user.git(folder, "reset", "-q", "--hard", "origin/main")
        (folder / "notes" / "f0000" / "x.md").write_bytes(os.urandom(300).hex().encode())
        user.git(folder, "add", "-A")
        user.git(folder, "commit", "-q", "-m", "one note")

    return user, Way(
        FLOOR if shared else "git, fresh ssh",
        lambda: user.git(folder, "ls-remote", "-q", "origin", MAIN),
        lambda: user.git(folder, "fetch", "-q", "origin"),
        commit,
        lambda: user.git(folder, "push", "-q", "origin", "HEAD:main"),
    )


@contextlib.contextmanager
def _fresh(world: World, repo: str) -> Iterator[Way]:
    yield _git(world, repo, shared=False)[1]


@contextlib.contextmanager
def _shared(world: World, repo: str) -> Iterator[Way]:
    user, way = _git(world, repo, shared=True)
    try:
        yield way
    finally:
        user.hang_up()


class _Callbacks(pygit2.RemoteCallbacks):
    """A key, and the host key as libgit2's own known_hosts file has it."""

    def __init__(self, key: Path) -> None:
        super().__init__(credentials=pygit2.Keypair("git", str(key.with_name("key.pub")), str(key), ""))

    def certificate_check(self, certificate: None, valid: bool, host: bytes) -> bool:
        return valid


@contextlib.contextmanager
def _libgit2(world: World, repo: str) -> Iterator[Way]:
    user, plain = _git(world, repo, shared=False)
    home = user.key.parent
    # libgit2 of the wheel reads old key files only.
    call("ssh-keygen", "-q", "-p", "-P", "", "-N", "", "-m", "PEM", "-f", str(user.key))
    (home / ".ssh").mkdir()
    (home / ".ssh" / "known_hosts").write_text(user.known_hosts.read_text())
    pygit2.settings.homedir = str(home)
    repository = pygit2.Repository(str(home / "soul"))
    callbacks = _Callbacks(user.key)

    def remote() -> pygit2.Remote:
        # A new one each time: one that was used remembers what it heard then.
        return repository.remotes["origin"]

    yield Way(
        "libgit2",
        lambda: remote().list_heads(callbacks=callbacks),
        lambda: remote().fetch(callbacks=callbacks),
        plain.commit,
        lambda: remote().push([f"{MAIN}:{MAIN}"], callbacks=callbacks),
    )
