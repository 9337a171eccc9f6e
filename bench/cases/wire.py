"""Bytes on the wire per poll and per change, counted between the two ends."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator

from bench import at_work, souls
from bench.measure import NotSeen, sleep
from bench.peers.pair import GitUser
from bench.results import Results
from bench.world import Body, World
from bridge.app import sync
from bridge.app.soul import Order, Soul

POLL, CHANGE = "on the wire per poll", "on the wire per change of one note, pushed"
OURS, SHARED, FRESH = "soul-bridge", "git, shared ssh", "git, fresh ssh"


class Meter:
    """Stands between bodies and server, and counts what it carries."""

    def __init__(self, host: str, port: int) -> None:
        self.carried = 0
        self._there = (host, port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Take no more connections."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def counted(self, work: Callable[[], object]) -> float:
        """KiB that went either way while it was done, and until all is quiet."""
        before = self.carried
        work()
        while True:
            now = self.carried
            sleep(0.05)
            if now == self.carried:
                return (now - before) / 1024

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near = self._listener.accept()[0]
                far = socket.create_connection(self._there)
                for one, other in ((near, far), (far, near)):
                    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    threading.Thread(target=self._carry, args=(one, other), daemon=True).start()

    def _carry(self, one: socket.socket, other: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while piece := one.recv(65536):
                self.carried += len(piece)
                other.sendall(piece)
            other.shutdown(socket.SHUT_WR)


def run(world: World, results: Results) -> None:
    """A soul of a hundred notes; a change is one note."""
    meter = Meter(world.network.address, world.server.port)
    try:
        with _ours(world, meter) as (poll, change):
            _rows(world, results, meter, OURS, poll, change)
        for shared in (True, False):
            with _git(world, meter, shared) as (poll, change):
                _rows(world, results, meter, SHARED if shared else FRESH, poll, change)
    finally:
        meter.close()


Deeds = tuple[Callable[[], object], Callable[[], object]]


def _rows(
    world: World, results: Results, meter: Meter, who: str, poll: Callable[[], object], change: Callable[[], object]
) -> None:
    change()
    poll()
    times = min(5, world.sizes.many)
    polls = [meter.counted(poll) for _ in range(times)]
    changes = [meter.counted(change) for _ in range(times)]
    if not all(polls + changes):
        raise NotSeen(f"{who}: nothing went over the wire")
    results.add(POLL, who, world.network.name, "KiB", polls, than=SHARED)
    results.add(CHANGE, who, world.network.name, "KiB", changes, than=SHARED)


@contextlib.contextmanager
def _ours(world: World, meter: Meter) -> Iterator[Deeds]:
    repo = souls.build(world, 100, 5)
    body = world.body("here", repo)
    _redirect(world, body, meter)
    number = iter(range(1000))
    with at_work.opened(body) as soul:

        def change() -> None:
            path = souls.note(3)
            (body.soul() / path).write_bytes(souls.text(3, 5_000_000 + next(number)))
            if not sync.run(soul, Order(frozenset([path]), waive=True, remote=False)).pushed:
                raise NotSeen("nothing was pushed")

        yield lambda: _poll(soul), change


def _poll(soul: Soul) -> None:
    if not sync.run(soul, Order(frozenset(), remote=True)).fetched:
        raise NotSeen("the remote was not asked")


def _redirect(world: World, body: Body, meter: Meter) -> None:
    """Let the body's address lead through the meter, and pin the host there too."""
    path, known = body.home / "config" / "kaoru.yaml", body.home / "known_hosts"
    old, new = f"{world.network.address}:{world.server.port}", f"127.0.0.1:{meter.port}"
    path.write_text(path.read_text().replace(old, new))
    pinned = known.read_text()
    known.write_text(
        pinned + pinned.replace(f"[{world.network.address}]:{world.server.port}", f"[127.0.0.1]:{meter.port}")
    )


@contextlib.contextmanager
def _git(world: World, meter: Meter, shared: bool) -> Iterator[Deeds]:
    repo, home = souls.build(world, 100, 5), world.fresh("wire")
    user = GitUser.make(world, home, "git", shared=shared)
    old, new = f"{world.network.address}:{world.server.port}", f"127.0.0.1:{meter.port}"
    hosts = user.known_hosts
    hosts.write_text(
        hosts.read_text()
        + hosts.read_text().replace(f"[{world.network.address}]:{world.server.port}", f"[127.0.0.1]:{meter.port}")
    )
    user.git(home, "clone", "-q", world.server.address(repo).replace(old, new), "soul")
    folder, number = home / "soul", iter(range(1000))

    def change() -> None:
        (folder / souls.note(3)).write_bytes(souls.text(3, 5_000_000 + next(number)))
        user.git(folder, "commit", "-q", "-a", "-m", "one note")
        user.git(folder, "push", "-q", "origin", "HEAD:main")

    try:
        yield lambda: user.git(folder, "ls-remote", "-q", "origin", "refs/heads/main"), change
    finally:
        user.hang_up()
