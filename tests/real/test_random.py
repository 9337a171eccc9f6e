"""Three real bodies that write, delete, move, commit by hand and synchronise in random orders, online and offline."""

from __future__ import annotations

import hashlib
import random
from dataclasses import dataclass, field

import pytest

from tests.real.fleet import Body, Fleet, git
from tests.real.rows import entries

STEPS = 40
MEMORY = "memories/MEMORY.md"
NOTES = tuple(f"notes/{name}.md" for name in ("tea", "moon", "travel/kyoto", "travel/uji"))


@dataclass
class Story:
    """What the agents did: entries that were added and deleted, and versions of notes that a pass has seen."""

    fleet: Fleet
    chance: random.Random
    added: set[str] = field(default_factory=set)
    deleted: set[str] = field(default_factory=set)
    recorded: set[tuple[str, str]] = field(default_factory=set)
    forgot: set[str] = field(default_factory=set)
    number: int = 0

    def step(self) -> None:
        """One body does one thing."""
        body = self.chance.choice(list(self.fleet.bodies.values()))
        deeds = (self.add, self.add, self.delete, self.note, self.note, self.remove, self.move, self.by_hand)
        self.chance.choice((*deeds, *(self.sync,) * 6, self.sync_offline))(body)

    def add(self, body: Body) -> None:
        """The agent remembers something."""
        self.number += 1
        text = f"{body.name} {self.number}"
        found = body.entries(MEMORY)
        found.insert(self.chance.randint(0, len(found)), text)
        self.chance.choice((body.write, body.rename_over))(MEMORY, entries(*found))
        self.added.add(text)

    def delete(self, body: Body) -> None:
        """The agent forgets something it has read, never so much between two passes that it would wait (GUARD-2)."""
        found = body.entries(MEMORY)
        if len(found) > 2 and body.name not in self.forgot:
            self.forgot.add(body.name)
            self.deleted.add(found.pop(self.chance.randrange(len(found))))
            body.rename_over(MEMORY, entries(*found))

    def note(self, body: Body) -> None:
        """The agent writes a whole note."""
        self.number += 1
        body.write(self.chance.choice(NOTES), f"# note\n\n{body.name} {self.number}\n")

    def remove(self, body: Body) -> None:
        """The agent removes a note."""
        found = [path for path in NOTES if body.read(path) is not None]
        if found:
            body.remove(self.chance.choice(found))

    def move(self, body: Body) -> None:
        """The agent renames a note."""
        found = [path for path in NOTES if body.read(path) is not None]
        free = [path for path in NOTES if body.read(path) is None]
        if found and free:
            old, new = body.soul / self.chance.choice(found), body.soul / self.chance.choice(free)
            new.parent.mkdir(parents=True, exist_ok=True)
            old.rename(new)

    def by_hand(self, body: Body) -> None:
        """A person commits what is there."""
        body.git("add", "-A")
        body.git("commit", "-q", "-m", "by hand", check=False)

    def sync(self, body: Body) -> None:
        """A pass, after which what stood there is in history for ever."""
        before = {path: body.read(path) for path in NOTES}
        assert body.sync()["outcome"] in ("ok", "moved")
        self.forgot.discard(body.name)
        self.recorded |= {(path, content) for path, content in before.items() if content}

    def sync_offline(self, body: Body) -> None:
        """A pass without a server."""
        with body.offline():
            assert body.run("sync", "--json").code in (0, 5)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A few stories, or many."""
    metafunc.parametrize("seed", range(3 * metafunc.config.getoption("--torture")))


def test_bodies_that_do_anything_in_any_order_agree_and_lose_nothing(near: Fleet, seed: int) -> None:
    """MERGE-2, MERGE-6, MERGE-11, REPO-3, REPO-7: equal trees, one root, every entry and every version is somewhere."""
    for name in ("laptop", "server", "phone"):
        near.body(name, settle="20ms")
    story = Story(near, random.Random(seed))
    for _ in range(STEPS):
        story.step()
    near.converge(near.shuffled(seed))
    near.agree()
    body = near.bodies["laptop"]
    found = body.entries(MEMORY)
    assert sorted(found) == sorted(story.added - story.deleted)
    objects = set(git(near.bare, "rev-list", "--objects", "main").split())
    for path, content in story.recorded:
        assert _blob(content) in objects, (path, content)
    tip = near.tip()
    for _ in range(2):
        for each in near.shuffled(seed + 1):
            each.sync()
    assert near.tip() == tip


def _blob(content: str) -> str:
    data = content.encode()
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()
