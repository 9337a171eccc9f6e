"""Whatever a network does: local work is recorded, nothing hangs beyond its time, nothing leaks, and it goes on."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bridge.adapters import config
from bridge.adapters.remote import Patience, Remote
from bridge.app import requests, sync
from bridge.app.soul import Order
from bridge.commands import wiring
from bridge.commands.context import Context
from tests.real import quick
from tests.real.faults import Faults
from tests.real.fleet import fsck, tree_of, until
from tests.real.quick import Body, Fleet

MEMORY = "memories/MEMORY.md"
PATIENCE = Patience(step=1.0, look=2.0, transfer=3.0)
SLACK = 6.0  # seconds beyond a deadline that a busy machine may take


@pytest.fixture(scope="module")
def faults(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Faults]:
    """The host of this module."""
    running = Faults(tmp_path_factory.mktemp("faults") / "h")
    yield running
    running.stop()


@pytest.fixture(scope="module")
def template(faults: Faults, tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    """Two bodies that joined one soul."""
    fleet = quick.empty(faults, tmp_path_factory.mktemp("network"))  # type: ignore[arg-type]
    first, second = fleet.body("laptop"), fleet.body("server")
    first.write(MEMORY, "owns a kettle\n")
    fleet.converge([first, second])
    return fleet


@pytest.fixture
def fleet(template: Fleet, faults: Faults, tmp_path: Path) -> Iterator[Fleet]:
    """The same two bodies around a repository of their own."""
    made = quick.copied(template, tmp_path)
    yield made
    faults.thaw()
    faults.fault()
    made.close()


@pytest.fixture
def laptop(fleet: Fleet) -> Body:
    return fleet.bodies["laptop"]


@pytest.fixture
def server(fleet: Fleet) -> Body:
    return fleet.bodies["server"]


@contextlib.contextmanager
def impatient(body: Body) -> Iterator[wiring.Opened]:
    """The soul of a body, opened as commands open it, with a remote that waits seconds instead of minutes."""
    places = config.locate({"SOUL_BRIDGE_HOME": str(body.home)})
    settings = config.load(places, body.agent)
    context = Context(places, True, sys.stdout, sys.stderr)
    with wiring.opened(settings, context) as found:
        found.soul.remote.close()
        found.soul.remote = Remote(wiring.access(settings, places), found.soul.repo, context.clock, PATIENCE)
        yield found


def timed(body: Body) -> tuple[sync.Outcome, float]:
    """One impatient synchronisation and how long it took."""
    with impatient(body) as found:
        began = time.monotonic()
        outcome = requests.settle(found.soul, False, lambda order: sync.run(found.soul, order))
        return outcome, time.monotonic() - began


class Held:
    """What this process holds: descriptors, threads, children (a server of other tests may be one of them)."""

    def __init__(self) -> None:
        gc.collect()
        self.threads = {thread.name for thread in threading.enumerate()}
        self.descriptors = {os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd") if _open(fd)}
        self.children = set(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())

    def nothing_more(self) -> None:
        """Nothing is held now that was not held then."""
        until(lambda: not self._more(), "nothing leaks", 5)

    def _more(self) -> set[str]:
        now = Held()
        mine = {child for child in now.children - self.children if "tests.real.faults" not in _command(child)}
        return (now.threads - self.threads) | (now.descriptors - self.descriptors) | mine


def _open(descriptor: str) -> bool:
    return os.path.lexists(f"/proc/self/fd/{descriptor}")


def _command(child: str) -> str:
    try:
        return Path(f"/proc/{child}/cmdline").read_bytes().decode(errors="replace")
    except OSError:
        return ""


def both_write(laptop: Body, server: Body, faults: Faults) -> None:
    """There is something to fetch and something to push."""
    faults.fault()
    server.append(MEMORY, "§\nfrom the server\n")
    server.sync()
    laptop.append(MEMORY, "§\nfrom the laptop\n")


def recorded_and_safe(laptop: Body) -> None:
    """What was written is in a commit, and no object is half."""
    assert b"from the laptop" in laptop.tree()[MEMORY]
    assert "from the laptop" in laptop.entries(MEMORY)
    fsck(laptop.soul)


def goes_on(laptop: Body, server: Body, faults: Faults, fleet: Fleet) -> None:
    """Without the fault everything arrives."""
    faults.fault()
    fleet.converge([laptop, server])
    assert {"from the laptop", "from the server"} <= set(server.entries(MEMORY))
    fleet.agree()


FAULTS = {
    "silent from the start": {"no_banner": True},
    "silent after login": {"stall": True},
    "a trickle": {"drip": True},
    "talk instead of the protocol": {"greeting": b"Welcome to the machine.\r\n"},
    "words on the error stream": {"refusal": b"internal server error\n"},
    "an answer lost after the push": {"drop_answer": True},
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_a_bad_remote_costs_its_time_and_nothing_else(
    fleet: Fleet, laptop: Body, server: Body, faults: Faults, fault: dict[str, object]
) -> None:
    """The pass ends within the deadline of its remote, local work is recorded, nothing is left open."""
    both_write(laptop, server, faults)
    held = Held()
    faults.fault(**fault)
    outcome, took = timed(laptop)
    assert took < 2 * (PATIENCE.look + PATIENCE.transfer) + SLACK
    if "drop_answer" in fault:
        assert outcome.pushed and outcome.outcome in ("ok", "moved")
    elif "drip" not in fault:
        assert outcome.problem is not None and not outcome.pushed
    recorded_and_safe(laptop)
    held.nothing_more()
    goes_on(laptop, server, faults, fleet)


@pytest.mark.parametrize("size", [0, 1, 3, 4, 5, 40, 61, 150, 250, 330, 400, 470, 600, 900])
def test_a_cut_anywhere_leaves_nothing_half(
    fleet: Fleet, laptop: Body, server: Body, faults: Faults, size: int
) -> None:
    """The connection ends after so many bytes: in the advertisement, between packets, in the pack, in the report."""
    both_write(laptop, server, faults)
    held = Held()
    faults.fault(cut=size)
    outcome, took = timed(laptop)
    assert took < 2 * (PATIENCE.look + PATIENCE.transfer) + SLACK
    assert outcome.outcome in ("offline", "ok", "moved")
    recorded_and_safe(laptop)
    held.nothing_more()
    goes_on(laptop, server, faults, fleet)


def test_a_refused_connection_is_told_at_once(fleet: Fleet, laptop: Body, server: Body, faults: Faults) -> None:
    """Nobody listens: no waiting at all."""
    both_write(laptop, server, faults)
    held = Held()
    with laptop.offline():
        outcome, took = timed(laptop)
    assert outcome.outcome == "offline" and took < SLACK
    recorded_and_safe(laptop)
    held.nothing_more()
    goes_on(laptop, server, faults, fleet)


def test_a_black_hole_costs_the_time_of_one_step(fleet: Fleet, laptop: Body, server: Body, faults: Faults) -> None:
    """Packets vanish: the connection is never made and never refused."""
    both_write(laptop, server, faults)
    with contextlib.ExitStack() as open_sockets:
        hole = open_sockets.enter_context(socket.socket())
        hole.bind(("127.0.0.9", faults.port))
        hole.listen(0)
        for _ in range(4):  # its queue is full: the kernel answers nobody else
            waiting = open_sockets.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(("127.0.0.9", faults.port))
        held = Held()
        with laptop.offline():
            outcome, took = timed(laptop)
        assert outcome.outcome == "offline" and took < PATIENCE.step + SLACK
        held.nothing_more()
    recorded_and_safe(laptop)
    goes_on(laptop, server, faults, fleet)


def test_a_server_that_freezes_over_an_open_session_is_left(
    fleet: Fleet, laptop: Body, server: Body, faults: Faults
) -> None:
    """SIGSTOP: the session stands and says nothing; the call ends in its time and the next one begins anew."""
    both_write(laptop, server, faults)
    held = Held()
    with impatient(laptop) as found:
        assert sync.run(found.soul, Order(None, waive=True)).problem is None
        laptop.append(MEMORY, "§\nfrom the laptop again\n")
        faults.freeze()
        began = time.monotonic()
        outcome = sync.run(found.soul, Order(None, waive=True))
        took = time.monotonic() - began
        assert outcome.outcome == "offline" and took < 2 * PATIENCE.look + SLACK
        faults.thaw()
        assert sync.run(found.soul, Order(None, waive=True)).pushed
    held.nothing_more()
    goes_on(laptop, server, faults, fleet)


def test_a_daemon_ends_in_time_although_its_server_is_frozen(
    fleet: Fleet, laptop: Body, server: Body, faults: Faults
) -> None:
    """SIGTERM while a push hangs: what was written is recorded, and systemd need not kill anybody."""
    laptop.start()
    faults.freeze()
    laptop.append(MEMORY, "§\nfrom the laptop\n")
    until(lambda: b"from the laptop" in laptop.tree()[MEMORY], "it is recorded")
    began = time.monotonic()
    assert laptop.stop(signal.SIGTERM) == 0
    assert time.monotonic() - began < 14 + SLACK
    faults.thaw()
    server.append(MEMORY, "§\nfrom the server\n")
    goes_on(laptop, server, faults, fleet)


def test_a_hook_that_refuses_leaves_nothing_behind(fleet: Fleet, laptop: Body, server: Body, faults: Faults) -> None:
    """REPO-8: refused slowly and with many words; the words are told, bounded, and nothing is left open."""
    both_write(laptop, server, faults)
    hook = fleet.bare / "hooks/pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\nsleep 0.3\nseq 1 30000 >&2\necho 'the last word' >&2\nexit 1\n")
    hook.chmod(0o755)
    held = Held()
    outcome, took = timed(laptop)
    assert outcome.outcome == "refused" and outcome.problem is not None
    assert "the last word" in outcome.problem.message and len(outcome.problem.message) < 20_000
    assert took < 4 * (PATIENCE.look + PATIENCE.transfer) + SLACK
    assert "from the server" in laptop.entries(MEMORY), "what others wrote arrives all the same"
    recorded_and_safe(laptop)
    held.nothing_more()
    hook.unlink()
    goes_on(laptop, server, faults, fleet)


def test_a_tip_that_moves_during_the_push_is_no_failure(
    fleet: Fleet, laptop: Body, server: Body, faults: Faults
) -> None:
    """COMMIT-2: somebody else's push lands between our look and the server's lock, more than once."""
    both_write(laptop, server, faults)
    server.write("notes/late.md", "# late\n")
    with server.offline():
        server.sync(code=5)
    quick.person(fleet.bare, "fetch", "-q", str(server.soul), "main:refs/tags/late")
    hook = fleet.bare / "hooks/pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(
        "#!/bin/sh\nunset GIT_QUARANTINE_PATH GIT_OBJECT_DIRECTORY GIT_ALTERNATE_OBJECT_DIRECTORIES\n"
        f"rm {hook}\nexec git update-ref refs/heads/main refs/tags/late\n"
    )
    hook.chmod(0o755)
    held = Held()
    outcome, _ = timed(laptop)
    assert outcome.pushed and outcome.outcome == "ok"
    held.nothing_more()
    assert {"notes/late.md"} <= tree_of(fleet.bare).keys()
    goes_on(laptop, server, faults, fleet)


def test_a_daemon_on_a_bad_line_agrees_in_the_end(fleet: Fleet, laptop: Body, server: Body, faults: Faults) -> None:
    """Cuts come and go for seconds while both bodies write; then both agree, and nothing is missing or double."""
    for body in (laptop, server):
        body.configure(poll="300ms")
        body.start()
    began, number = time.monotonic(), 0
    while time.monotonic() - began < 5:
        number += 1
        for body in (laptop, server):
            body.append(MEMORY, f"§\n{body.name} {number}\n")
        faults.fault(**({"cut": 97 * number % 800} if number % 2 else {"drop_answer": True}))
        time.sleep(0.5)
    faults.fault()
    wanted = {f"{name} {each}" for name in ("laptop", "server") for each in range(1, number + 1)}

    def agreed() -> bool:
        return all(wanted <= set(body.entries(MEMORY)) for body in (laptop, server)) and laptop.tip() == server.tip()

    until(agreed, "both agree", 40)
    for body in (laptop, server):
        assert body.stop() == 0
        assert len(body.entries(MEMORY)) == len(set(body.entries(MEMORY)))
    fleet.converge()
    fleet.agree()
