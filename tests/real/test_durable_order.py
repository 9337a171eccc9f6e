"""In which order a pass makes things durable: a lost power supply forgets whatever was not, in any order it likes.

A killed process proves nothing of that kind, for the kernel outlives it. So every effect of a pass is noted, and what
each one needs has to be durable before it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from bridge.adapters.repo import Repo
from bridge.core.model import File
from tests.effects import Effect, watched
from tests.real.fleet import Body, Fleet, git
from tests.real.rows import entries

MEMORY = "memories/MEMORY.md"


@dataclass
class Disk:
    """What of a soul would survive a power cut, as the effects of a pass tell it.

    synced: files whose bytes are durable, by their present name. unsettled: directories in which a name came or went
    since they were last synchronised. wrong: what was done too early.
    """

    soul: Path
    synced: set[str] = field(default_factory=set)
    unsettled: dict[str, str] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    told: list[str] = field(default_factory=list)

    def note(self, effect: Effect) -> None:
        """One more effect, about to happen."""
        if not effect.kind.startswith("seen") and not all(map(self._ours, effect.paths[:1])):
            return
        self.told.append(str(effect))
        match effect.kind:
            case "fsync":
                self.synced.add(effect.paths[0])
                self.unsettled.pop(effect.paths[0], None)
            case "write":
                self.synced.discard(effect.paths[0])
            case "rename" | "exchange" | "link":
                self._named(effect.kind, *effect.paths)
            case "seen COMMIT":
                self._remembered(effect.more)

    def _named(self, kind: str, old: str, new: str) -> None:
        """A file gets a name that others read."""
        leaves = not self._private(old) and self._private(new)
        if not leaves and "tmp_objdir" not in old and old not in self.synced:
            self.wrong.append(f"{kind} of {old} to {new}: its bytes are not durable")
        if new.endswith(".idx") and not Path(new).with_suffix(".pack").exists():
            self.wrong.append(f"{new} is there before its pack")
        if new.endswith("/refs/heads/main"):
            self._main(Path(old).read_text().strip())
        if kind == "exchange":
            self._settled(str(self._out()), "an exchange before its note is durable")
        self.unsettled[str(Path(old if leaves else new).parent)] = f"{kind} to {new}"
        self.synced |= {new} if old in self.synced else set()

    def _main(self, oid: str) -> None:
        if "missing" in git(self.soul, "cat-file", "--batch-check", stdin=f"{oid}^{{tree}}\n".encode()):
            self.wrong.append(f"main names {oid}, which is not written yet")
        self._settled(str(self.soul / ".git" / "objects" / "pack"), "main moves before the names of its packs are")

    def _remembered(self, connection: sqlite3.Connection) -> None:
        """What was seen never runs ahead of what stands on the disk."""
        for directory, why in self.unsettled.items():
            if not self._private(directory + "/") or directory == str(self._out()):
                self.wrong.append(f"seen is written before {directory} is durable, after {why}")
        if connection.execute("PRAGMA synchronous").fetchone() != (2,):
            self.wrong.append("the end of a transaction is not durable")

    def _settled(self, directory: str, words: str) -> None:
        if directory in self.unsettled:
            self.wrong.append(f"{words}: {self.unsettled[directory]}")

    def _out(self) -> Path:
        return self.soul / ".git" / "soul-bridge" / "out"

    def _private(self, path: str) -> bool:
        return path.startswith(f"{self.soul}/.git/soul-bridge/")

    def _ours(self, path: str) -> bool:
        return path.startswith(f"{self.soul}/")


@pytest.fixture(scope="module")
def pair(found: Callable[..., Fleet]) -> Fleet:
    """Two bodies that have much to tell each other."""
    fleet = found()
    fleet.within = True
    for name in ("laptop", "server"):
        fleet.body(name)
    for name in ("goes", "stays", "theirs"):
        fleet.bodies["laptop"].write(f"notes/{name}.md", f"# {name}\n")
    fleet.bodies["laptop"].write(MEMORY, entries("one", "two"))
    fleet.converge()
    return fleet


def test_nothing_is_named_or_remembered_before_it_is_durable(pair: Fleet) -> None:
    """GUARD-4: bytes before names, packs before main, names before what was seen; and nothing is written in place."""
    laptop, server = pair.bodies["laptop"], pair.bodies["server"]
    server.append(MEMORY, "§\ntheirs\n")
    server.write("notes/stays.md", "# stays\n\ntheirs\n")
    server.write("notes/new/theirs.md", "# theirs\n")
    server.remove("notes/goes.md")
    server.sync()
    server.sync()
    laptop.append(MEMORY, "§\nours\n")
    laptop.write("notes/ours.md", "# ours\n")
    disk = Disk(laptop.soul)
    with watched(disk.note):
        _synced(laptop)
        _synced(laptop)
    assert set(laptop.entries(MEMORY)) == {"one", "two", "theirs", "ours"}
    assert (laptop.read("notes/goes.md"), laptop.read("notes/new/theirs.md")) == (None, "# theirs\n")
    assert disk.wrong == []
    for kind in ("exchange", "rename", "fsync", "seen COMMIT"):
        assert any(line.startswith(kind) for line in disk.told), f"no {kind} was seen at all"
    assert any("main.lock main" in line for line in disk.told)
    assert sum(".idx" in line and "rename" in line for line in disk.told) >= 2, "a pack was written, one was received"


def test_a_ref_never_names_what_is_not_written_yet(tmp_path: Path) -> None:
    """GUARD-4: also where the caller left it to the ref to write new objects."""
    soul = tmp_path / "soul"
    repo = Repo.create(soul)
    tree = repo.edit("", {"a/b": File(repo.write(b"text"))})
    commit = repo.commit(tree, [], "Kaoru (laptop)", "kaoru@laptop.local", "a change (laptop)\n", 1_700_000_000)
    disk = Disk(soul)
    with watched(disk.note):
        repo.move("refs/heads/main", None, commit)
    assert disk.wrong == [] and any("main.lock main" in line for line in disk.told)


def _synced(body: Body) -> None:
    assert body.sync()["outcome"] in ("ok", "moved")
