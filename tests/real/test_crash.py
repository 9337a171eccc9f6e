"""A daemon killed at any instant: the repository is whole, nothing an agent wrote is lost, the next pass goes on."""

from __future__ import annotations

import random
import subprocess
import threading
import time
from collections.abc import Callable

import pytest

from tests.real.fleet import Body, Fleet, fsck
from tests.real.rows import entries

ROUNDS = 30
LONGEST_STORY = 30.0  # seconds
SEED = 20260103


class Agent:
    """Writes into a body without a pause, in the ways agents do, and remembers what it wrote."""

    def __init__(self, body: Body, pause: float) -> None:
        self.body, self.pause = body, pause
        self.entries: dict[str, set[str]] = {}
        self.notes: dict[str, str] = {}
        self._chance = random.Random(f"{SEED}{body.name}")
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._work)

    def __enter__(self) -> Agent:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._thread.join()

    def _work(self) -> None:
        number = 0
        while not self._over.wait(self.pause * self._chance.random()):
            number += 1
            text = f"{self.body.name} {number}"
            habit = self._chance.choice(("append", "rename_over", "write", "note"))
            if habit == "note":
                path = f"notes/{self.body.name}/{number % 7}.md"
                self.notes[path] = f"# {number % 7}\n\n{text}\n"
                self.body.rename_over(path, self.notes[path])
                continue
            path = f"memories/{habit}.md"
            if habit == "append":
                self.body.append(path, f"§\n{text}\n")
            else:
                getattr(self.body, habit)(path, entries(*self.body.entries(path), text))
            self.entries.setdefault(path, set()).add(text)


@pytest.fixture(scope="module")
def pair(found: Callable[..., Fleet]) -> Fleet:
    """Two bodies; the other one is never killed."""
    fleet = found()
    fleet.within = True
    for name in ("victim", "other"):
        fleet.body(name, poll="200ms")
    for body in fleet.bodies.values():
        for habit in ("append", "rename_over", "write"):
            body.write(f"memories/{habit}.md", entries("base"))
    fleet.converge()
    return fleet


def test_a_daemon_that_is_killed_at_any_instant_loses_nothing(pair: Fleet, torture: int) -> None:
    """GUARD-4, REPO-3: kill -9 under load, start again, same result."""
    victim, other = pair.bodies["victim"], pair.bodies["other"]
    chance = random.Random(SEED)
    end = time.monotonic() + LONGEST_STORY * torture
    killed = 0
    other.start()
    with Agent(victim, 0.1) as here, Agent(other, 0.4) as there:
        while killed < ROUNDS * torture and time.monotonic() < end:
            victim.start(ready=chance.random() < 0.5)
            time.sleep(chance.random() * 1.2)
            assert victim.daemon is not None
            assert victim.daemon.poll() is None, victim.log()
            victim.daemon.kill()
            victim.daemon.wait()
            killed += 1
            fsck(victim.soul)
            if killed % 10 == 0:
                assert victim.sync()["outcome"] in ("ok", "moved"), "the next pass completes"
    assert killed >= 5
    victim.start()
    pair.settled(60 * torture)
    pair.agree()
    fsck(pair.bare)
    for body in (victim, other):
        for agent in (here, there):
            _has(agent, body)
    assert victim.stop() == other.stop() == 0
    assert "Traceback" not in victim.log() + other.log()


def _has(agent: Agent, body: Body) -> None:
    """What an agent wrote is there, or, where the other one rewrote the file from what it had read before it came and
    nobody lived to see that (MERGE-12: who cannot tell counts as having read), it is on the list of conflicts."""
    listed = body.json("conflicts")
    for path, written in agent.entries.items():
        missing = written - set(body.entries(path))
        blobs = [one["blob"] for one in listed if one["path"] == path] if missing else []
        kept = {entry for blob in blobs for entry in body.git("cat-file", "blob", blob).split("\n§\n")}
        missing -= {entry.strip() for entry in kept}
        assert missing == set(), f"{body.name} lacks of {path}: {sorted(missing)[:5]}"
        assert not blobs or not path.endswith("append.md"), "who only appends deletes nothing"
    for path, content in agent.notes.items():
        assert body.read(path) == content, path


def test_a_pass_that_is_killed_at_any_instant_is_finished_by_the_next(pair: Fleet, torture: int) -> None:
    """GUARD-4: the same for one-shot passes, killed at eight instants from start to end."""
    victim, other = pair.bodies["victim"], pair.bodies["other"]
    chance = random.Random(SEED + 1)
    began = time.monotonic()
    victim.run("sync", SOUL_BRIDGE_LOG="info")
    length = time.monotonic() - began
    written: list[str] = []
    for number in range(8 * torture):
        for body in (victim, other):
            body.append("memories/append.md", f"§\npass {body.name} {number}\n")
            written.append(f"pass {body.name} {number}")
        victim.write(f"notes/{number}.md", f"# {number}\n")
        if number % 3 == 0:
            other.sync()
        _killed_after(victim, length * (0.2 + 0.8 * chance.random()))
        fsck(victim.soul)
    pair.converge()
    files = pair.agree()
    assert set(written) <= set(victim.entries("memories/append.md"))
    assert all(files[f"notes/{number}.md"] == f"# {number}\n".encode() for number in range(8 * torture))


def _killed_after(body: Body, seconds: float) -> None:
    process = subprocess.Popen(
        body.command("sync"), env=body.env(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    time.sleep(seconds)
    process.kill()
    process.wait()


def test_bodies_that_push_at_the_same_moment_all_arrive(pair: Fleet) -> None:
    """COMMIT-2: pushes that race are tried again, none is forced, each arrives."""
    bodies = list(pair.bodies.values())
    for number in range(4):
        for body in bodies:
            body.append("memories/append.md", f"§\nrace {body.name} {number}\n")
        pair.everyone(Body.sync)
    pair.converge()
    pair.agree()
    wanted = {f"race {body.name} {number}" for body in bodies for number in range(4)}
    assert wanted <= set(bodies[0].entries("memories/append.md"))
