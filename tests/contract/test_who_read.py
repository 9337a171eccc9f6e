"""Who read which version, with a real watcher beside a real exchange (MERGE-12, the watcher's part)."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from bridge.adapters.clock import SystemClock
from bridge.adapters.tree import Tree
from bridge.adapters.tree.exchange import swap, swap_in_steps
from bridge.adapters.watch import Watch
from bridge.app.reads import Reads
from bridge.core.errors import Moved
from bridge.core.model import File, SeenEntry, blob_id

MEMORY = "memories/MEMORY.md"
OLD, NEW = b"old\n", b"new\n"
LONGEST = 10.0  # seconds


@dataclass
class World:
    """A memory file, whoever exchanges it, and whoever watches who reads it. `late`: seconds by which it hears late."""

    root: Path
    in_steps: bool
    late: float = 0.0
    heard: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        (self.root / ".git").mkdir(parents=True)
        (self.root / "memories").mkdir()
        self.place = self.root / MEMORY
        self.place.write_bytes(OLD)
        time.sleep(0.15)  # what changed a moment ago counts as open where there are no leases
        self.clock = SystemClock()
        self.reads = Reads(self.clock)
        name = swap_in_steps if self.in_steps else swap
        self.tree = Tree(self.root, self.root / ".git/soul-bridge", self.clock, swap=name, reads=self.reads.ours)
        self.watch = Watch(self.root, lambda path: None, self)
        self.watch.start()
        self.reads.watching(True)
        self.look()

    def closed(self, path: str) -> None:
        time.sleep(self.late)
        self.reads.closed(path)
        self.heard.append("closed")

    def left(self, path: str) -> None:
        time.sleep(self.late)
        self.reads.left(path)
        self.heard.append("left")

    def came(self, path: str) -> None:
        time.sleep(self.late)
        self.reads.came(path)
        self.heard.append("came")

    def written(self, path: str) -> None:
        self.reads.written(path)
        self.heard.append("written")

    def look(self) -> SeenEntry:
        """What the file is, read by us."""
        reading = self.tree.read(MEMORY, 1000)
        oid = blob_id(reading.content)
        return SeenEntry(File(oid), oid, reading.stamp)

    def exchange(self, seen: SeenEntry, meanwhile: Callable[[str], None]) -> float:
        """Lay the new version, as the program does; the boottime at which that began."""
        self.tree.checkpoint = meanwhile
        began = self.clock.boottime()
        with contextlib.suppress(Moved), self.reads.replacing(MEMORY, began):
            self.tree.replace(MEMORY, seen, NEW, False)
        return began

    def until(self, heard: str, times: int) -> None:
        """Wait until something was heard so often."""
        end = time.monotonic() + LONGEST
        while self.heard.count(heard) < times:
            assert time.monotonic() < end, (heard, self.heard)
            time.sleep(0.005)


@pytest.fixture(params=[False, True], ids=["at once", "in steps"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path / "agent.soul", request.param)
    made.until("closed", 1)
    yield made
    made.watch.stop()


def reading(world: World, at: str, times: int) -> Callable[[str], None]:
    """An agent that reads the file at one step of the exchange."""
    return lambda step: [world.place.read_bytes() for _ in range(times)] and None if step == at else None


@pytest.mark.parametrize("late", [0.0, 0.05])
@pytest.mark.parametrize("times", [1, 2, 3])
def test_who_read_while_an_exchange_was_made_ready_has_read_the_old_version(
    world: World, times: int, late: float
) -> None:
    """However late the watcher hears of it: a stale copy that is written afterwards takes nothing out."""
    seen = world.look()
    world.until("closed", 2)
    world.late = late
    began = world.exchange(seen, reading(world, "replace.exchange", times))
    world.until("left", 1)
    assert not world.reads.since(MEMORY, began)
    world.late = 0.0
    world.place.read_bytes()
    world.until("closed", world.heard.count("closed") + 1)
    assert world.reads.since(MEMORY, began), "and who reads it afterwards has read the new one"


def test_the_first_who_reads_after_an_exchange_is_noticed(world: World) -> None:
    """Our own look at the old version, whose close nobody hears where it went, pays for no read of the new one."""
    seen = world.look()
    world.until("closed", 2)
    began = world.exchange(seen, lambda step: None)
    world.until("left", 1)
    assert world.place.read_bytes() == NEW
    world.until("closed", 3)
    assert world.reads.since(MEMORY, began)


def test_an_exchange_that_does_not_take_place_hides_no_read(world: World) -> None:
    seen = world.look()
    world.until("closed", 2)
    earlier = world.clock.boottime()
    world.exchange(seen, lambda step: world.place.write_bytes(b"agent\n") and None if step == "replace.note" else None)
    world.until("closed", 3)
    assert not world.reads.since(MEMORY, earlier), "it was our own look"
    time.sleep(0.3)
    last = world.clock.boottime()
    world.reads.recorded(MEMORY, last)
    world.place.read_bytes()
    world.until("closed", world.heard.count("closed") + 1)
    assert world.reads.since(MEMORY, last)


@pytest.mark.parametrize("habit", ["renames", "truncates"])
def test_who_reads_what_an_agent_wrote_since_has_read_nothing_of_ours(world: World, habit: str) -> None:
    """An agent that goes on with a stale copy of its own, and reads that each time, never sees what came."""
    seen = world.look()
    world.until("closed", 2)
    began = world.exchange(seen, lambda step: None)
    world.until("left", 1)
    if habit == "renames":
        fresh = world.place.with_name("fresh")
        fresh.write_bytes(b"stale\n")
        fresh.replace(world.place)
    else:
        world.place.write_bytes(b"stale\n")
    time.sleep(0.3)
    closed = world.heard.count("closed")
    world.place.read_bytes()
    world.until("closed", closed + 1)
    assert not world.reads.since(MEMORY, began)
    world.reads.recorded(MEMORY, world.clock.boottime())
    time.sleep(0.3)
    world.place.read_bytes()
    world.until("closed", closed + 2)
    assert world.reads.since(MEMORY, began), "what stands there is what was recorded"
