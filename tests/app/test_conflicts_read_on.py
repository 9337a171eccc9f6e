"""What is read on from an earlier look says the same as reading everything (MERGE-6)."""

from __future__ import annotations

import random

import pytest

from bridge.app import conflicts
from bridge.core import commits
from bridge.core.model import File
from bridge.fakes.repo import FakeRepo

NOW = 1_800_000_000.0
DAY = 86_400


class World:
    """A line of commits with side branches, some of which lose, restore or dismiss versions."""

    def __init__(self, seed: int) -> None:
        self.repo = FakeRepo()
        self.source = random.Random(seed)
        self.blobs = [self.repo.write(f"version {number}".encode()) for number in range(4)]
        self.time = int(NOW) - self.source.choice([5, 100, 120]) * DAY
        self.head = self.commit([])

    def commit(self, parents: list[str]) -> str:
        facts = []
        blob, path = self.source.choice(self.blobs), self.source.choice(["notes/a.md", "notes/b.md"])
        kind = self.source.choices(["nothing", "lost", commits.RESTORED, commits.DISMISSED], [5, 3, 1, 1])[0]
        if kind == "lost":
            facts.append(commits.lost(blob, path))
        elif kind != "nothing":
            facts.append((kind, conflicts.identify(blob, path)))
        tree = self.repo.edit("", {"notes/a.md": File(self.source.choice(self.blobs))})
        self.time += self.source.randrange(10 * DAY)
        time = min(self.time - self.source.randrange(3 * DAY), int(NOW))
        return self.repo.commit(tree, parents, "K (b)", "k@b", commits.message("words", "b", facts), time)

    def step(self) -> None:
        """One commit on top, or a side branch that is merged."""
        if self.source.random() < 0.7:
            self.head = self.commit([self.head])
        else:
            self.head = self.commit([self.head, self.commit([self.head])])


@pytest.mark.parametrize("seed", range(60))
def test_reading_on_finds_what_reading_everything_finds(seed: int) -> None:
    world = World(seed)
    known: conflicts.Known | None = None
    for _ in range(12):
        for _ in range(world.source.randrange(1, 3)):
            world.step()
        known = conflicts.read(world.repo, world.head, NOW, known)
        whole = conflicts.read(world.repo, world.head, NOW)
        assert known.tip == whole.tip
        shown, expected = (conflicts.standing(world.repo, each, NOW) for each in (known, whole))
        assert {one.id: one for one in shown} == {one.id: one for one in expected}


def test_a_quiet_commit_costs_no_look_at_all_of_history(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(1)
    for _ in range(20):
        world.step()
    known = conflicts.read(world.repo, world.head, NOW)
    quiet = world.repo.commit("", [world.head], "K (b)", "k@b", commits.message("words", "b", []), int(NOW))
    asked: list[str | None] = []
    log = world.repo.log
    monkeypatch.setattr(world.repo, "log", lambda tip, since=None: asked.append(since) or log(tip, since))
    assert conflicts.read(world.repo, quiet, NOW, known).found == known.found
    assert asked == [world.head]


def test_messages_of_a_megabyte_cost_no_more_than_some_of_them_and_hide_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """MERGE-6: a pack of some kilobytes holds hundreds of them."""
    repo, looked = FakeRepo(), 0
    real = commits.trailers

    def counted(text: str, most: int | None = None) -> list[tuple[str, str]]:
        nonlocal looked
        looked += len(text)
        return real(text, most)

    monkeypatch.setattr(commits, "trailers", counted)
    blob, tree = repo.write(b"a version"), repo.edit("", {})
    facts = [commits.lost(blob, "notes/a.md")]
    head = repo.commit(tree, [], "K (b)", "k@b", commits.message("words", "b", facts), int(NOW))
    large = commits.message("words", "b", [commits.lost("0" * 40, "x" * 4_000)] * 250)
    for number in range(50):
        head = repo.commit(tree, [head], "K (b)", "k@b", large, int(NOW) + number)
    (found,) = conflicts.read(repo, head, NOW).found
    assert found.path == "notes/a.md"
    assert looked < conflicts.MOST_READ + 2 * len(large) < 25 * len(large)
