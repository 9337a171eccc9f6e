"""A fleet on fakes: bodies of one agent, each with a disk of its own, around one server."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from bridge.app import sync
from bridge.app.soul import Limits, Order, Soul
from bridge.fakes.clock import FakeClock
from bridge.fakes.facts import FakeFacts
from bridge.fakes.remote import FakeRemote
from bridge.fakes.repo import FakeRepo
from bridge.fakes.seen import FakeSeen
from bridge.fakes.tree import FakeTree

SETTLED = 3.0  # seconds: longer than settle, and than a file counts as racy


@dataclass
class Body:
    """One body: its ports, and a soul that a restart makes anew."""

    name: str
    clock: FakeClock
    repo: FakeRepo
    seen: FakeSeen
    tree: FakeTree
    remote: FakeRemote
    facts: FakeFacts
    limits: Limits
    soul: Soul

    def restart(self) -> None:
        """What only the process knew is gone."""
        self.repo.discard()
        self.soul = _soul(self)

    def run(self, **order: object) -> sync.Outcome:
        """One pass that looks at everything."""
        return sync.run(self.soul, Order(**order))  # type: ignore[arg-type]

    def settle(self, passes: int = 8, **order: object) -> sync.Outcome:
        """Passes with time between them until one has nothing left to do, at most so many."""
        outcome = self.run(**order)
        for _ in range(passes):
            self.clock.advance(SETTLED)
            outcome = self.run(**order)
            if outcome.outcome == "ok" and not (outcome.recorded or outcome.merged or outcome.written or outcome.again):
                break
        return outcome

    def write(self, path: str, text: str) -> None:
        """The agent writes a file."""
        self.tree.agent_write(path, text.encode())

    def delete(self, path: str) -> None:
        """The agent removes a file."""
        self.tree.agent_delete(path)

    def text(self, path: str) -> str | None:
        """What stands in a working file."""
        content = self.tree.agent_read(path)
        return None if content is None else content.decode()

    def files(self) -> dict[str, bytes]:
        """All working files."""
        return self.tree.paths()

    def tracked(self) -> dict[str, bytes]:
        """All files of main."""
        tree = self.soul.tree_of(self.soul.head())
        return {path: self.repo.read(file.oid) if file.regular else b"" for path, file in self.repo.files(tree)}

    def subjects(self) -> list[str]:
        """Subjects of main's commits, newest first."""
        head = self.soul.head()
        return [commit.message.split("\n")[0] for commit in self.repo.log(head)] if head else []


@dataclass
class Fleet:
    """One server and the bodies around it; their clocks are one clock."""

    agent: str
    server: FakeRepo
    clock: FakeClock
    bodies: dict[str, Body]

    def body(self, name: str, limits: Limits | None = None, birth: bool = True) -> Body:
        """A new body, never started before."""
        repo = FakeRepo()
        body = Body(
            name,
            self.clock,
            repo,
            FakeSeen(),
            FakeTree(self.clock),
            FakeRemote(self.server, repo),
            FakeFacts(),
            limits or Limits(),
            None,  # type: ignore[arg-type]
        )
        if birth:
            id = str(uuid.uuid5(uuid.NAMESPACE_DNS, name))
            body.seen.remember("birth", {"id": id, "created": 1_800_000_000_000, "display_name": "Kaoru"})
        body.soul = _soul(body)
        self.bodies[name] = body
        return body

    def settle(self, rounds: int = 6) -> None:
        """Every body in turn, until nothing moves."""
        for _ in range(rounds):
            for body in self.bodies.values():
                body.settle()

    def published(self) -> dict[str, bytes]:
        """All files of the server's main."""
        tip = self.server.tip("refs/heads/main")
        if tip is None:
            return {}
        return {path: self.server.read(file.oid) for path, file in self.server.files(self.server.info(tip).tree)}


def fleet(agent: str = "kaoru") -> Fleet:
    """A server with nothing on it, and no body yet."""
    return Fleet(agent, FakeRepo(), FakeClock(), {})


def _soul(body: Body) -> Soul:
    return Soul(
        "kaoru", body.name, body.repo, body.seen, body.remote, body.tree, body.clock, body.facts, limits=body.limits
    )


def joined(*names: str) -> tuple[Fleet, list[Body]]:
    """Bodies that know each other and have nothing left to do."""
    world = fleet()
    bodies = [world.body(name) for name in names]
    world.settle()
    return world, bodies
