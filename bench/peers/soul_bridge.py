"""soul-bridge as it comes: its defaults, two daemons."""

from __future__ import annotations

import sys

from bench.peers.pair import GitPair, Pair, Peer
from bench.world import ROOT, Body, World


class SoulPair(GitPair):
    """Two bodies of one soul."""

    def __init__(self, world: World) -> None:
        repo = world.repo("kaoru")
        self.bodies = [world.body(name, repo, poll=world.sizes.poll) for name in ("here", "there")]
        super().__init__(self.bodies[0].soul(), self.bodies[1].soul(), world.server.path(repo))
        for body in self.bodies:
            body.start()

    def pids(self) -> list[int]:
        """The daemon of `there`."""
        return [body.daemon.pid for body in self.bodies[1:] if body.daemon is not None]

    def close(self) -> None:
        """Stop both daemons."""
        for body in self.bodies:
            body.stop()


def _open(world: World) -> Pair:
    return SoulPair(world)


def body_of(pair: Pair, number: int) -> Body:
    """One of the bodies of a pair of this peer."""
    assert isinstance(pair, SoulPair)  # noqa: S101 - a case asks its own pair only
    return pair.bodies[number]


PEER = Peer(
    "soul-bridge",
    "as it comes (settle 500 ms, poll 30 s; 5 s in quick runs), one open SSH session",
    (),
    (sys.executable, "-c", f"import sys; sys.path.insert(0, {str(ROOT)!r}); import bridge; print(bridge.__version__)"),
    _open,
)
