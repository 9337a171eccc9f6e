"""A pass that is killed right before any of its effects: whole repository, nothing lost, the next pass completes."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest

from tests.real.fleet import Body, Fleet, fsck
from tests.real.mortal import Mortal
from tests.real.rows import entries

SAMPLE = 40
WANTED = {"fsync", "rename", "seen", "send"}  # kinds of effects that a sample has to have met
MEMORY = "memories/MEMORY.md"
SHARED = "notes/shared.md"


@pytest.fixture(scope="module")
def mortal() -> Iterator[Mortal]:
    """A program that can die."""
    made = Mortal()
    yield made
    made.close()


@dataclass
class Story:
    """Two bodies that write the same files, one of which dies again and again, and all that was ever written."""

    fleet: Fleet
    victim: Body
    other: Body
    number: int = 0
    entries: set[str] = field(default_factory=set)
    versions: list[str] = field(default_factory=list)

    def write(self) -> None:
        """What one pass has to bring together: changes on both sides, of the same files and of different ones."""
        self.number += 1
        for body in (self.other, self.victim):
            text = f"{body.name} {self.number}"
            body.append(MEMORY, f"§\n{text}\n")
            self.entries.add(text)
            body.rename_over(SHARED, f"# shared\n\n{text}\n")
            body.write(f"notes/{body.name}/{self.number}.md", f"# {text}\n")
            self.versions += [f"# shared\n\n{text}\n", f"# {text}\n"]
            if self.number > 1:
                body.remove(f"notes/{body.name}/{self.number - 1}.md")
            if body is self.other:
                assert body.sync()["outcome"] == "ok"

    def holds(self, where: str) -> None:
        """The next pass completes, and everything is there."""
        fsck(self.victim.soul)
        done = self.victim.run("sync", "--json")
        assert done.code == 0 and done.document["outcome"] in ("ok", "moved"), (where, done)
        assert self.entries <= set(self.victim.entries(MEMORY)), where
        assert self.victim.read(f"notes/victim/{self.number}.md") == f"# victim {self.number}\n", where
        assert self.victim.read(f"notes/other/{self.number}.md") == f"# other {self.number}\n", where

    def ends(self) -> None:
        """Both are equal, and every version that was ever written is in what is published."""
        self.fleet.converge()
        files = self.fleet.agree()
        assert [path for path in files if path.startswith("notes/victim/")] == [f"notes/victim/{self.number}.md"]
        objects = set(self.fleet.git("rev-list", "--objects", "main").split())
        lost = [text for text in self.versions if _blob(text) not in objects]
        assert lost == []
        fsck(self.fleet.bare)


@pytest.fixture
def story(found: Callable[..., Fleet]) -> Story:
    """Two bodies that agree."""
    fleet = found()
    fleet.within = True
    other, victim = fleet.body("other"), fleet.body("victim")
    other.write(MEMORY, entries("base"))
    fleet.converge()
    return Story(fleet, victim, other, entries={"base"})


def test_a_pass_that_dies_before_any_of_its_effects_loses_nothing(story: Story, mortal: Mortal, torture: int) -> None:
    """GUARD-4, REPO-3, MERGE-2: before each fsync, name, exchange, commit, packet and child: an even sample, or all."""
    story.write()
    whole = mortal.call(story.victim, 0, "sync")
    assert (whole.code, whole.last) == (0, "")
    story.holds("nothing happened")
    died = {}
    sample = SAMPLE if torture == 1 else whole.effects
    even = [1 + place * whole.effects // sample for place in range(sample)]
    others = [at for at in range(1, whole.effects + 1) if at not in even]
    kinds: set[str] = set()
    for number, at in enumerate((*even, *others)):
        if number >= sample and kinds >= WANTED:
            break  # every kind was there
        story.write()
        end = mortal.call(story.victim, at, "sync")
        story.holds(f"died before effect {at} of {whole.effects}: {end.last}")
        if end.last:
            died[at] = end.last
            kinds.add(end.last.split()[0])
    assert len(died) > sample * 0.9, "nearly every call died where it was to"
    assert kinds >= WANTED
    story.ends()


def _blob(text: str) -> str:
    data = text.encode()
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()
