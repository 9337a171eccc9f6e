"""Years of one soul in little time: thousands of commits by two bodies, with the housekeeping that a daemon does.

Real repositories, files and sessions; only the clock is ahead. What is counted afterwards must not have grown, save
what git keeps of each commit.
"""

from __future__ import annotations

import gc
import io
import os
import random
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from bridge.adapters import config
from bridge.app import reporting, status, sync, withheld
from bridge.app.host import Host
from bridge.app.soul import Order, Soul
from bridge.app.standing import let_go
from bridge.commands import wiring
from bridge.commands.context import Context
from tests.real import quick
from tests.real.fleet import fsck
from tests.soak.clock import LaterClock, Time

MEMORY = "memories/MEMORY.md"
NOTES, ENTRIES = 40, 30  # so many notes and entries there are at all times
MINUTE, DAY = 60.0, 86_400.0
WRITES_A_DAY = 50
UPKEEP = 25  # passes between two looks at whether housekeeping is due
MIB = 2**20


@dataclass(frozen=True)
class Measure:
    """What there is after so many commits; sizes in bytes, as they lie on the disk."""

    commits: int
    git: int
    packs: int
    loose: int
    refs: int
    seen: int
    private: int
    state: int
    resident: int
    descriptors: int
    threads: int

    def line(self) -> str:
        """One line of a table."""
        sizes = f"{self.git / MIB:7.2f} {self.git / max(1, self.commits):6.0f} {self.resident / MIB:7.1f}"
        kept = f"{self.seen / 1024:7.0f} {self.private / 1024:7.0f} {self.state / 1024:7.0f}"
        return f"{self.commits:7} {sizes} {self.descriptors:4} {self.threads:4} {self.packs:5} {self.refs:5} {kept}"


HEAD = "commits    .git per commit    RSS  fds thrs packs  refs seen.db private   state (MiB, bytes, MiB, …, KiB)"


class Years:
    """Two bodies of one soul that go on and on, open until `close`."""

    def __init__(self, host: Host, root: Path, seed: int = 1) -> None:
        self._time, self._random = Time(), random.Random(seed)
        root.mkdir(exist_ok=True)
        self._fleet = quick.empty(host, root)
        self._ends = ExitStack()
        self._passes = 0
        self._bodies = [self._open(name) for name in ("laptop", "server")]

    def close(self) -> None:
        """Let go of both."""
        self._ends.close()

    def live(self, commits: int) -> Measure:
        """Go on until there are so many commits; what there is then, at rest."""
        while self._commits() < commits:
            for _ in range(UPKEEP):
                self._live()
            self._upkeep()
        self._rest()
        return self._measure()

    def check(self) -> None:
        """Both agree with the host, and git finds nothing wrong."""
        assert len({self._fleet.tip(), *(body.tip() for body in self._fleet.bodies.values())}) == 1
        for body in self._fleet.bodies.values():
            fsck(body.soul)
            assert body.git("status", "--porcelain") == ""

    def _live(self) -> None:
        """One of them writes something and makes a pass, now and then both at once."""
        self._passes += 1
        self._time.passed += MINUTE if self._passes % WRITES_A_DAY else DAY
        first = self._passes % 3 == 0
        name, soul = self._bodies[first]
        if self._passes % 10 == 0:  # the other one wrote too: a merge, and often a version that loses
            other = self._bodies[not first][0]
            self._write(other)
        path = self._write(name)
        whole = self._passes % 20 == 0
        self._told(name, soul, sync.run(soul, Order(None if whole else frozenset([path]), waive=True)))
        if self._passes % 5 == 0:
            name, soul = self._bodies[not first]
            self._told(name, soul, sync.run(soul, Order(None, waive=True)))

    def _write(self, name: str) -> str:
        place, number = self._fleet.bodies[name].soul, self._passes
        if number % 4 == 0:
            entries = (place / MEMORY).read_text().rstrip("\n").split("\n§\n")
            kept = [entry for entry in entries if entry][-ENTRIES + 1 :]
            (place / MEMORY).write_text("\n§\n".join([*kept, f"remembers number {number} by {name}"]) + "\n")
            return MEMORY
        path = f"notes/n{self._random.randrange(NOTES)}.md"
        words = " ".join(str(self._random.randrange(10**9)) for _ in range(40))
        (place / path).parent.mkdir(exist_ok=True)
        (place / path).write_text(f"# {Path(path).stem}\n\nVersion {number} by {name}.\n{words}\n")
        return path

    def _told(self, name: str, soul: Soul, outcome: sync.Outcome) -> None:
        assert outcome.problem is None, outcome.problem
        path = self._fleet.bodies[name].state / "status.json"
        life = reporting.resumed(soul, status.read(path))
        life.note(outcome, None)
        status.write(path, reporting.Reporter(name, "", os.getpid(), None, None).document(life))

    def _upkeep(self) -> None:
        for _, soul in self._bodies:
            let_go(soul, {hold.commit for hold in withheld.recall(soul).values()})
            soul.repo.maintain()
        if self._passes % (20 * UPKEEP) == 0:  # the host's own business, which hosts see to
            subprocess.run(["git", "-C", str(self._fleet.bare), "gc", "-q", "--prune=now"], check=True)

    def _rest(self) -> None:
        for _ in range(3):
            self._time.passed += MINUTE
            for name, soul in self._bodies:
                self._told(name, soul, sync.run(soul, Order(None, waive=True)))
        self._upkeep()

    def _commits(self) -> int:
        return int(self._fleet.git("rev-list", "--count", "main"))

    def _measure(self) -> Measure:
        gc.collect()
        body = self._fleet.bodies["laptop"]
        git = body.soul / ".git"
        private = body.private()
        resident = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmRSS"))
        return Measure(
            self._commits(), size(git), len(list((git / "objects/pack").glob("*.pack"))),
            len(list((git / "objects").glob("??/*"))), len(body.git("for-each-ref").splitlines()),
            sum(size(place) for place in private.glob("seen*")), size(private), size(body.state),
            int(resident.split()[1]) * 1024, len(os.listdir("/proc/self/fd")), threading.active_count(),
        )  # fmt: skip

    def _open(self, name: str) -> tuple[str, Soul]:
        body = self._fleet.body(name)
        places = config.locate(body.env())
        context = Context(places, True, io.StringIO(), io.StringIO(), LaterClock(self._time))
        opened = self._ends.enter_context(wiring.opened(config.load(places, body.agent), context))
        return name, opened.soul


def size(place: Path) -> int:
    """Bytes on the disk, of a file or of everything below a folder."""
    return sum(path.lstat().st_blocks * 512 for path in _files(place))


def _files(place: Path) -> Iterator[Path]:
    if place.is_file():
        yield place
    for folder, _, names in os.walk(place):
        for name in names:
            path = Path(folder, name)
            if os.path.lexists(path):
                yield path


def steady(measures: list[Measure]) -> list[str]:
    """What grew between the second and the last measure although it must not, in words."""
    early, last = measures[1], measures[-1]
    allowed = {
        "packs": 60,
        "loose": early.loose + 100,
        "refs": early.refs + 40,
        # sqlite's log alone may become 4 MiB before it begins anew.
        "seen": max(early.seen, 5 * MIB) + MIB,
        "private": max(early.private, 5 * MIB) + MIB,
        "state": 5 * MIB,
        "resident": early.resident + 16 * MIB,
        "descriptors": early.descriptors + 8,
        "threads": early.threads + 4,
        # Each commit is kept, with the versions that it brought; the older ones take ever less room.
        "git": early.git + (last.commits - early.commits) * 16 * 1024,
    }
    found = {name: getattr(last, name) for name in allowed}
    return [f"{name}: {found[name]} is more than {most}" for name, most in allowed.items() if found[name] > most]
