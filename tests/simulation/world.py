"""A world of bodies around one remote: time, disks and networks that a script drives, and nothing else does."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

from bridge.app import repairing, sync
from bridge.app.soul import Limits, Order, Soul
from bridge.core.identity import id_of
from bridge.core.model import Commit
from bridge.fakes.clock import FakeClock
from bridge.fakes.facts import FakeFacts
from bridge.fakes.files import Inode, Writer
from bridge.fakes.remote import FakeRemote
from bridge.fakes.repo import FakeRepo
from bridge.fakes.seen import FakeSeen
from bridge.fakes.tree import FakeTree
from tests.simulation.ledger import Ledger
from tests.simulation.points import Crash, Watched
from tests.simulation.script import Script, Step

MAIN = "refs/heads/main"
FIRST = ("amber", "birch", "cedar", "delta", "ember", "fjord", "grove", "haven")
NAMES = (*FIRST, *(f"{name}{number}" for number in range(2, 9) for name in FIRST))
Point = int | list[Any]
DEEPEST = 2  # passes inside passes inside passes


class Broken(Exception):
    """Something that must hold does not."""


class Server(FakeRepo):
    """The remote: what is published only ever grows, but for the faults of the script."""

    def __init__(self) -> None:
        super().__init__()
        self.rewriting = False
        self.identity: str | None = None

    def move(self, ref: str, expected: str | None, new: str | None) -> None:
        grows = expected is None or (new is not None and self.is_ancestor(expected, new))
        if ref == MAIN and not grows and not self.rewriting:
            raise Broken(f"REPO-3: the remote's main went from {expected} to {new}, no descendant")
        super().move(ref, expected, new)
        if ref == MAIN and new is not None and self.identity is None:
            self.identity = self.says(new)

    def says(self, commit: str) -> str | None:
        """The id that a commit states."""
        file = self.entry(self.info(commit).tree, "agent.json")
        return None if file is None else id_of(self.read(file.oid))


@dataclass
class Going:
    """A pass under way: which points it went by, what happens at which, and at which it dies.

    A point is told by its number, or by its label and how often that came by.
    """

    between: list[tuple[Point, list[Step]]] = field(default_factory=list)
    crash: Point | None = None
    points: int = 0
    labels: Counter[str] = field(default_factory=Counter)

    def at(self, point: Point | None, label: str) -> bool:
        """Whether the pass is at this point now."""
        return point in (self.points, [label, self.labels[label]])


@dataclass
class SimBody:
    """One body: what outlives its process, and its process.

    materialised: the commit that its disk was last brought to whole. writers: descriptors that its agent has open.
    grips: files it is about to write without anybody noticing. vanished: files that may come back. read_at, copies,
    known: when its agent last read a file (boottime), what it remembers of it, and which entries it ever saw there.
    blind: what it wrote over without having read it. mixed: files it last read while a pass was under way.
    """

    name: str
    clock: FakeClock
    rate: float
    repo: FakeRepo
    seen: FakeSeen
    tree: FakeTree
    remote: FakeRemote
    soul: Soul
    fresh: bool = True
    going: Going | None = None
    outcome: sync.Outcome | None = None
    hints: set[str] = field(default_factory=set)
    materialised: str | None = None
    writers: dict[str, Writer] = field(default_factory=dict)
    grips: dict[str, Inode] = field(default_factory=dict)
    vanished: dict[str, bytes] = field(default_factory=dict)
    read_at: dict[str, float] = field(default_factory=dict)
    copies: dict[str, bytes] = field(default_factory=dict)
    known: dict[str, set[str]] = field(default_factory=dict)
    blind: dict[str, set[str]] = field(default_factory=dict)
    mixed: set[str] = field(default_factory=set)


class World:
    """All of it.

    trace: what happened, for people. elapsed: true seconds since the beginning. skewed: somebody set a clock. others:
    bodies that run another implementation. holders: until when (elapsed) which body may believe that it has the lease.
    """

    def __init__(self, script: Script, trace: Callable[[str], None] = lambda line: None) -> None:
        FakeRepo._reachable.clear()
        self.script = script
        self.trace = trace
        self.server = Server()
        self.ledger = Ledger()
        self.facts = FakeFacts()
        self.bodies: list[SimBody] = []
        self.rolled_back = self.scanned = self.scanning = self.took_theirs = self.by_hand = False
        self.passes = self.deaths = 0
        self.elapsed, self.skewed = 0.0, False
        self.holders: dict[str, float] = {}
        self.others: dict[int, Any] = {}
        for number in range(script.bodies):
            self.bodies.append(self._body(number))

    def body(self, number: int) -> SimBody:
        """The body that a step's number means."""
        return self.bodies[number % len(self.bodies)]

    def advance(self, seconds: float) -> None:
        """Time goes by for everybody, a little faster for some."""
        self.elapsed += seconds
        for body in self.bodies:
            body.clock.advance(seconds * body.rate)

    def start(self, body: SimBody) -> None:
        """A new process in place of the old one: only what is durable is left."""
        body.repo.discard()
        body.soul = self._soul(body)
        body.fresh, body.going = True, None
        body.hints.clear()
        body.tree.hints.clear()

    def run(self, body: SimBody, words: dict[str, Any], steps: Callable[[Step], None]) -> None:
        """A pass of a body, with what happens meanwhile; what its process cannot survive starts it again."""
        body.hints |= set(body.tree.hints)
        body.tree.hints.clear()
        # As the watcher says it: an ignore file that changed, also by us, may change everything.
        whole = body.fresh or words.get("look", "full") == "full" or ".gitignore" in body.hints
        hints = None if whole else frozenset(body.hints)
        order = Order(
            hints,
            bool(words.get("waive")),
            bool(words.get("now")),
            bool(words.get("remote", True)),
            bool(words.get("publish", True)),
        )

        def a_pass() -> None:
            body.hints.clear()
            body.fresh = False
            body.outcome = sync.run(body.soul, order)

        if not self.act(body, words, steps, a_pass) or body.outcome is None:
            return
        body.hints |= {*body.outcome.again, *(path for path in body.outcome.written if path == ".gitignore")}
        body.materialised = repairing.materialised(body.soul) or body.materialised
        self.trace(f"  {body.name}: {body.outcome.outcome}: {body.outcome.sentence}")

    def act(
        self, body: SimBody, words: dict[str, Any], steps: Callable[[Step], None], doing: Callable[[], None]
    ) -> bool:
        """Have a body's process do something; False when it did not end: it is busy, or it died of it."""
        depth = sum(other.going is not None for other in self.bodies)
        if body.going is not None or depth > DEEPEST:
            return False
        body.going = Going([(at, nested) for at, nested in words.get("between", ())], words.get("crash"))
        self.steps = steps
        self.passes += 1
        try:
            doing()
        except Crash:
            self.deaths += 1
            self.trace(f"  {body.name} died")
            self.start(body)
            return False
        finally:
            body.going = None
        return True

    def point(self, body: SimBody, label: str) -> None:
        """A pass went by a point."""
        going = body.going
        if going is None:
            return
        going.points += 1
        going.labels[label] += 1
        now = [each for each in going.between if going.at(each[0], label)]
        going.between = [each for each in going.between if each not in now]
        for step in [step for _, nested in now for step in nested]:
            self.trace(f"  … at point {going.points} of {body.name}, {label}:")
            self.steps(step)
        if going.at(going.crash, label):
            self.trace(f"  {body.name} dies at point {going.points}, {label}")
            raise Crash

    def history(self, repo: FakeRepo, *more: str) -> dict[str, set[str]]:
        """Every blob that a path ever held in what the repository's main and kept refs reach."""
        tips = {tip for ref, tip in repo.names.items() if ref == MAIN or ref.startswith("refs/soul-bridge/")}
        found: dict[str, set[str]] = {}
        for oid in {oid for tip in tips | set(more) for oid in repo.ancestors(tip)}:
            for path, file in repo.files(cast(Commit, repo.info(oid)).tree):
                found.setdefault(path, set()).add(file.oid)
        return found

    def _body(self, number: int) -> SimBody:
        name = NAMES[number]
        rate = self.script.drift[number] if number < len(self.script.drift) else 1.0
        clock = FakeClock(boottime=1_000.0 + number)
        repo = FakeRepo()
        remote = FakeRemote(self.server, repo)
        tree = FakeTree(clock, lambda label: self.point(body, "tree " + label), self.script.tick)
        body = SimBody(name, clock, rate, repo, FakeSeen(), tree, remote, cast(Soul, None))
        birth = {"id": str(uuid.UUID(int=number, version=4)), "created": 1_800_000_000_000, "display_name": "Kaoru"}
        body.seen.remember("birth", birth)
        body.soul = self._soul(body)
        return body

    def _soul(self, body: SimBody) -> Soul:
        def watched(port: Any, name: str) -> Any:
            return Watched(port, name, lambda label: self.point(body, label))

        return Soul(
            "kaoru",
            body.name,
            watched(body.repo, "repo"),
            watched(body.seen, "seen"),
            watched(body.remote, "remote"),
            watched(body.tree, "tree"),
            body.clock,
            self.facts,
            limits=Limits(),
            was_read=lambda path, since: body.read_at.get(path, 0.0) > since,
        )
