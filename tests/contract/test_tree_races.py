"""Agents that write while files are replaced under them, and a program that is killed while it does (GUARD-4).

A small daemon stands in for the pass: it takes every change of the file, and every change of what came out, as handed
out, and lays a remote line on top. What an agent wrote must be in the file, in what is kept, or have been handed out.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

import pytest

from bridge.core.errors import Held, Moved
from bridge.core.model import File, SeenEntry, blob_id
from tests.contract.tree_worlds import LIMIT, RealWorld

PATH = "memories/MEMORY.md"
SECONDS = 1.0
TOP = Path(__file__).parents[2]

Writer = Callable[[Path, int, set[bytes]], None]


class SmallDaemon:
    """Replaces the file as often as it can; `handed` is every line that was ever taken as a local write."""

    def __init__(self, world: RealWorld) -> None:
        self.world = world
        self.handed: set[bytes] = set()
        self.patient = True
        self.replaced = 0
        self.remote = 0

    def take(self, content: bytes) -> None:
        """Hand out lines."""
        self.handed.update(content.split(b"\n"))

    def collect(self) -> bool:
        """Hand out what changed in what came out; whether nothing is left to wait for."""
        rest = True
        for kept in self.world.tree.leftovers():
            if kept.changed:
                content = self.world.tree.leftover(kept.id)
                self.take(content)
                self.world.tree.keep(kept.id, File(blob_id(content)), blob_id(content))
                rest = False
            elif kept.busy or kept.age < 0.3:
                rest = False
            else:
                self.world.tree.drop(kept.id)
        return rest

    def turn(self) -> None:
        """One pass."""
        self.collect()
        try:
            reading = self.world.tree.read(PATH, LIMIT)
            if reading.busy and self.patient:
                return
            raw = blob_id(reading.content)
            self.take(reading.content)
            self.remote += 1
            text = reading.content + b"remote %d\n" % self.remote
            self.world.tree.replace(PATH, SeenEntry(File(raw), raw, reading.stamp), text, False)
            self.replaced += 1
        except (Moved, Held):
            return

    def found(self) -> set[bytes]:
        """Every line that is anywhere."""
        lines = set(self.handed)
        for kept in self.world.tree.leftovers():
            lines.update(self.world.tree.leftover(kept.id).split(b"\n"))
        lines.update((self.world.content(PATH) or b"").split(b"\n"))
        return lines


def appends(place: Path, number: int, wrote: set[bytes]) -> None:
    line = b"append %d" % number
    descriptor = os.open(place, os.O_WRONLY | os.O_APPEND)
    os.write(descriptor, line + b"\n")
    os.close(descriptor)
    wrote.add(line)


def appends_slowly(place: Path, number: int, wrote: set[bytes]) -> None:
    line = b"slow %d" % number
    descriptor = os.open(place, os.O_WRONLY | os.O_APPEND)
    time.sleep(0.002)
    os.write(descriptor, line[:3])
    time.sleep(0.001)
    os.write(descriptor, line[3:] + b"\n")
    os.close(descriptor)
    wrote.add(line)


def truncates(place: Path, number: int, wrote: set[bytes]) -> None:
    """Each write is meant to take the place of the one before."""
    line = b"truncate %d" % number
    with open(place, "wb") as opened:
        time.sleep(0.003)
        opened.write(line + b"\n")
    wrote.clear()
    wrote.add(line)


def renames_over(place: Path, number: int, wrote: set[bytes]) -> None:
    """Each write is meant to take the place of the one before."""
    line = b"rename %d" % number
    fresh = place.with_name("fresh.tmp")
    fresh.write_bytes(line + b"\n")
    fresh.replace(place)
    wrote.clear()
    wrote.add(line)


HELD: dict[Path, BinaryIO] = {}


def holds(place: Path, number: int, wrote: set[bytes]) -> None:
    """One descriptor for ever; given back at the end by the test."""
    if place not in HELD:
        HELD[place] = open(place, "ab", buffering=0)  # noqa: SIM115 - that it stays open is what is tried
    line = b"held %d" % number
    HELD[place].write(line + b"\n")
    wrote.add(line)


@pytest.mark.parametrize("in_steps", [False, True], ids=["exchange", "steps"])
@pytest.mark.parametrize("writer", [appends, appends_slowly, truncates, renames_over, holds])
def test_no_byte_a_writer_wrote_is_lost(writer: Writer, in_steps: bool, tmp_path: Path, torture: int) -> None:
    """GUARD-4."""
    world = RealWorld(tmp_path, in_steps)
    world.write(PATH, b"first\n")
    daemon, wrote, over, pauses = SmallDaemon(world), set[bytes](), threading.Event(), random.Random(1)
    if writer is holds:
        world.tree.patience, daemon.patient = 0.02, False
    # The gap between the last look and the exchange, made wide enough for writers to fall into.
    world.tree.checkpoint = lambda step: time.sleep(0.002) if step in ("replace.exchange", "steps.new") else None

    def write() -> None:
        number = 0
        while not over.is_set():
            number += 1
            try:
                writer(world.root / PATH, number, wrote)
            except FileNotFoundError:
                continue  # between two steps: an agent that finds nothing has written nothing
            time.sleep(pauses.choice([0.001, 0.003, 0.01, 0.03]))

    thread = threading.Thread(target=write)
    thread.start()
    until = time.monotonic() + SECONDS * torture
    while time.monotonic() < until:
        daemon.turn()
        time.sleep(0.001)
    over.set()
    thread.join()
    if writer is holds:
        HELD.pop(world.root / PATH).close()
    for _ in range(100):
        if daemon.collect():
            break
        time.sleep(0.01)
    assert daemon.replaced > 0, "the daemon never had its turn"
    assert not wrote - daemon.found()


KILLED = """
import os, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from tests.contract.tree_worlds import RealWorld
world = RealWorld.__new__(RealWorld)
world.reopen(Path(sys.argv[2]), sys.argv[3] == "steps")
def kill(step):
    if step == sys.argv[5]:
        os.kill(os.getpid(), 9)
world.tree.patience = 0.0
seen = world.seen("a.md")
world.tree.checkpoint = kill
if sys.argv[4] == "replace":
    world.tree.replace("a.md", seen, b"new", False)
if sys.argv[4] == "create":
    world.tree.create("deep/er/b.md", b"new", False)
if sys.argv[4] == "remove":
    world.tree.remove("a.md", seen)
"""
STEPS = [
    *[("real", "replace", step) for step in ("write", "replace.note", "replace.exchange", "replace.sync")],
    *[("steps", "replace", step) for step in ("replace.exchange", "steps.aside", "steps.new", "replace.sync")],
    *[("real", "create", step) for step in ("create.parents", "write", "create.rename", "create.sync")],
    *[("real", "remove", step) for step in ("remove.note", "remove.rename", "remove.prune")],
]


@pytest.mark.parametrize(("kind", "act", "step"), STEPS)
def test_kill_9_at_every_step_loses_nothing(kind: str, act: str, step: str, tmp_path: Path) -> None:
    """GUARD-4: a writer holds the file open across the death of the program."""
    world = RealWorld(tmp_path, kind == "steps")
    world.write("a.md", b"old")
    seen = world.seen("a.md")
    with open(world.root / "a.md", "ab", buffering=0) as writer:
        words = [sys.executable, "-c", KILLED, str(TOP), str(tmp_path), kind, act, step]
        ended = subprocess.run(words, capture_output=True, text=True, timeout=60)
        assert ended.returncode == -signal.SIGKILL, ended.stderr
        world.restart()
        assert all(kept.busy and kept.base == seen.file for kept in world.tree.leftovers())
        writer.write(b" more")
    kept = [world.tree.leftover(each.id) for each in world.tree.leftovers() if each.changed]
    assert [*kept, world.content("a.md")].count(b"old more") == 1
    assert world.content("a.md") in (b"old more", b"new", None)
    assert world.content("deep/er/b.md") in (None, b"new")
    if world.content("a.md") is None:
        assert act == "remove" and kept
