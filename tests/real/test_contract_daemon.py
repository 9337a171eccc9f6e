"""The daemon as systemd, a person and a script see it: states, signals, notices, faults of the network, revocation."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.real.faulty_host import FaultyHost
from tests.real.fleet import Body, Fleet, until


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FaultyHost]:
    """A host that checks a key at every command, as the big ones do, and has faults on request."""
    place = tmp_path_factory.mktemp("faulty") / "h"
    place.mkdir()
    running = FaultyHost(place)
    running.start()
    yield running
    running.stop()


@pytest.fixture(scope="module", autouse=True)
def revoked(
    found: Callable[..., Fleet], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Fleet, dict[str, Any]]]:
    """A running body whose key was taken away and given back a moment later; the last test sees what became of it."""
    place = tmp_path_factory.mktemp("revoking") / "h"
    place.mkdir()
    host = FaultyHost(place)
    host.start()
    fleet = found(on=host)
    body = fleet.body("laptop", poll="200ms")
    body.start()
    fleet.server.revoke(fleet.repository, body.public_line())
    body.write("notes/revoked.md", "# revoked\n")
    refused = until(lambda: _problem(body, "auth") and "notes/revoked.md" in body.tree() and body.seen(), "it is told")
    calls = len(host.log)
    logins = host.logins
    time.sleep(2)
    story = {"refused": refused, "asked": len(host.log) - calls, "logins": host.logins - logins}
    fleet.server.authorize(fleet.repository, body.public_line())
    yield fleet, story
    body.stop()
    host.stop()


def _problem(body: Body, kind: str) -> bool:
    return bool((body.seen().get("problem") or {}).get("kind") == kind)


@pytest.fixture
def faulty(host: FaultyHost, found: Callable[..., Fleet]) -> Iterator[Fleet]:
    """A fleet of its own on that host."""
    fleet = found(on=host)
    yield fleet
    host.heal()
    fleet.close()


class Supervisor:
    """The notify socket of a service manager: every message in order. As a context: closed at its end."""

    def __init__(self, path: Path) -> None:
        self.messages: list[str] = []
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(path))
        self._socket.setblocking(False)
        self.path = path

    def lines(self) -> list[str]:
        """What was said so far."""
        while True:
            try:
                self.messages += self._socket.recv(65536).decode().splitlines()
            except BlockingIOError:
                return self.messages

    def __enter__(self) -> Supervisor:
        return self

    def __exit__(self, *error: object) -> None:
        self._socket.close()


def test_a_supervisor_is_told_of_the_life_of_the_daemon(fleet: Fleet) -> None:
    """run: READY=1 after the first pass, STATUS=, WATCHDOG=1 all the time, STOPPING=1, exit 0 on SIGTERM."""
    with Supervisor(fleet.root / "notify") as supervisor:
        body = fleet.body("laptop")
        body.start(NOTIFY_SOCKET=str(supervisor.path), WATCHDOG_USEC="900000")
        until(lambda: "READY=1" in supervisor.lines(), "it is ready")
        body.write("notes/a.md", "# a\n")
        until(
            lambda: any(line.startswith("STATUS=kaoru: ") for line in supervisor.lines()), "it is told how things are"
        )
        count = supervisor.lines().count("WATCHDOG=1")
        time.sleep(1.5)
        assert supervisor.lines().count("WATCHDOG=1") >= count + 2
        assert body.stop(signal.SIGTERM) == 0
        lines = supervisor.lines()
        assert "STOPPING=1" in lines and lines.index("READY=1") < lines.index("STOPPING=1")
        assert "Traceback" not in body.log()


def test_states_are_told_as_they_are(fleet: Fleet) -> None:
    """status: idle, paused, stopped; pid and since; a second daemon is exit 1; commands go through the daemon."""
    body = fleet.body("laptop").start()
    assert body.daemon is not None
    document = until(lambda: (found := body.status())["state"] == "idle" and found, "it is idle")
    assert document["daemon"]["running"] is True and document["daemon"]["pid"] == body.daemon.pid
    assert document["daemon"]["since"].endswith("Z") and document["problem"] is None
    assert document["last_pass"] and document["last_pull"] and document["tip"] == document["remote_tip"] == fleet.tip()
    second = body.run("run", "--json")
    assert second.expect(1)["error"]["kind"] == "busy" and str(body.daemon.pid) in second.out
    assert not re.search(r"in [0-9]+ s", second.err), "it ends, and does not try again"
    assert body.sync()["outcome"] == "ok"
    assert body.json("init", "kaoru")["state"] == "running"
    assert body.json("pause")["daemon"] is True
    until(lambda: body.seen().get("state") == "paused", "it is paused")
    body.write("notes/paused.md", "# paused\n")
    time.sleep(1.5)
    assert "notes/paused.md" not in body.tree()
    assert body.stop() == 0 and body.status()["state"] == "paused"
    body.start(ready=False)
    until(lambda: body.status()["daemon"]["running"], "it runs again")
    time.sleep(1)
    assert body.status()["state"] == "paused" and "notes/paused.md" not in body.tree(), "a pause survives a restart"
    assert body.sync()["recorded"] and body.status()["state"] == "paused", "sync runs one pass and stays paused"
    body.json("resume")
    until(lambda: body.status()["state"] == "idle", "it goes on")
    assert body.stop() == 0
    document = body.status()
    assert document["state"] == "stopped" and document["daemon"] == {"running": False, "pid": None, "since": None}
    assert document["tip"] == body.tip() and document["last_push"]


def test_init_beside_a_daemon_says_what_stands_in_the_way(fleet: Fleet) -> None:
    """init, AUTH-3: what the daemon or the host refuses is told with its exit code; words nobody hears are refused."""
    body = fleet.body("laptop").start()
    for words, named in ((("--take-over",), "--take-over"), (("--display-name", "Mei"), "--display-name")):
        error = body.json("init", "kaoru", *words, code=1)["error"]
        assert error["kind"] == "busy" and named in error["message"] and "Stop the daemon" in error["advice"]
    assert body.json("init", "kaoru")["state"] == "running"
    fleet.git("update-ref", "refs/heads/main", fleet.git("commit-tree", "main^{tree}", "-m", "rewritten").strip())
    assert body.json("init", "kaoru", code=3)["error"]["kind"] == "rewritten"
    fleet.server.revoke(fleet.repository, body.public_line())
    error = body.json("init", "kaoru", code=4)["error"]
    assert error["kind"] == "auth" and body.public_line().split()[1] in error["message"] + error["advice"]
    assert body.stop() == 0


def test_signals_end_it_cleanly_or_have_it_read_its_configuration_again(fleet: Fleet) -> None:
    """run: SIGHUP takes the new configuration, SIGINT ends it with 0, what was unsettled is recorded and pushed."""
    body = fleet.body("laptop").start()
    body.configure(settle="1h")
    assert body.daemon is not None
    body.daemon.send_signal(signal.SIGHUP)
    until(lambda: "reload" in body.log(), "it was read")
    time.sleep(1)
    body.write("notes/unsettled.md", "# unsettled\n")
    until(lambda: "notes/unsettled.md" in body.seen().get("pending", []), "it waits for settle")
    assert body.status()["state"] == "settling" and "notes/unsettled.md" not in body.tree()
    assert body.stop(signal.SIGINT) == 0
    assert "notes/unsettled.md" in fleet.git("ls-tree", "-r", "--name-only", "main").split()
    assert "Traceback" not in body.log()


def test_facts_are_followed_as_they_come(fleet: Fleet) -> None:
    """events --follow: JSON lines, past tense, never the contents of files."""
    body = fleet.body("laptop").start()
    with subprocess.Popen(
        body.command("events", "--follow"), env=body.env(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as follower:
        assert follower.stdout is not None
        os.set_blocking(follower.stdout.fileno(), False)
        body.write("notes/followed.md", "# the secret words of the agent\n")
        said = b""

        def follow() -> bool:
            nonlocal said
            said += (follower.stdout.read() if follower.stdout else b"") or b""
            return b"notes/followed.md" in said and b"remote.pushed" in said

        until(follow, "the facts arrive")
        follower.terminate()
    facts = [json.loads(line) for line in said.splitlines() if line.endswith(b"}")]
    assert all({"at", "event", "agent", "body"} <= set(fact) for fact in facts) and b"secret words" not in said
    assert body.stop() == 0


def test_a_daemon_without_a_server_keeps_working_and_goes_on_by_itself(faulty: Fleet, host: FaultyHost) -> None:
    """status: waiting with problem network, ahead counts, next_try is told; afterwards idle by itself."""
    body = faulty.body("laptop", poll="200ms").start()
    host.refusal = b"remote: the service is down for maintenance\n"
    body.write("notes/meanwhile.md", "# meanwhile\n")
    document = until(lambda: (found := body.status())["ahead"] == 1 and found["problem"] and found, "it is told")
    assert document["state"] in ("waiting", "refused", "syncing") and document["problem"]["since"]
    assert "maintenance" in document["problem"]["message"]
    assert "notes/meanwhile.md" in body.tree()
    host.heal()
    assert body.sync()["pushed"] is True
    until(lambda: body.status()["problem"] is None, "nothing is wrong any more")
    assert body.stop() == 0


@pytest.mark.parametrize("fault", ["drop_answer", "cut", "greeting"])
def test_no_fault_of_the_network_costs_anything(faulty: Fleet, host: FaultyHost, fault: str) -> None:
    """COMMIT-2: an answer that is lost, cut or no answer: told, nothing lost, nothing twice."""
    body = faulty.body("laptop")
    body.write("notes/fault.md", f"# {fault}\n")
    commits = len(faulty.history())
    if fault == "cut":
        host.cut = 60
    elif fault == "greeting":
        host.greeting = b"Welcome to the machine\n"
    else:
        host.drop_answer = True
    done = body.run("sync", "--json")
    # What a server says in words is taken for its refusal, not for a fault of the line.
    assert done.code == {"drop_answer": 0, "greeting": 4}.get(fault, 5), done
    assert "notes/fault.md" in body.tree() and "Traceback" not in done.err
    host.heal()
    assert body.sync()["outcome"] == "ok"
    assert faulty.tip() == body.tip() and len(faulty.history()) == commits + 1
    faulty.agree()


def test_a_full_disk_is_told_and_nothing_is_lost(fleet: Fleet) -> None:
    """Errors: a git directory that cannot be written: exit 1 or told in status, no traceback, and it goes on after."""
    body = fleet.body("laptop")
    body.write("notes/full.md", "# full\n")
    done = subprocess.run(
        ["sh", "-c", 'ulimit -f 0; trap "" XFSZ; exec "$@"', "sh", *body.command("sync", "--json")],
        env=body.env(), capture_output=True, text=True, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.returncode != 0 and "Traceback" not in done.stderr, done.stderr
    body.sync()
    assert "notes/full.md" in body.tree()
    fleet.agree()


def test_a_revoked_body_is_calm_and_goes_on_by_itself_when_it_may_again(
    revoked: tuple[Fleet, dict[str, Any]],
) -> None:
    """AUTH-5: it kept its copy and commits, said so plainly, asked rarely, and published by itself afterwards."""
    fleet, story = revoked
    body = fleet.bodies["laptop"]
    document = story["refused"]
    assert document["state"] == "refused" and document["ahead"] >= 1 and document["problem"]["next_try"]
    assert document["problem"]["advice"] and story["asked"] <= 1 and story["logins"] <= 1
    until(lambda: body.seen().get("problem") is None, "it goes on by itself", 90)
    until(lambda: "notes/revoked.md" in fleet.git("ls-tree", "-r", "--name-only", "main").split(), "it is published")
    facts = [fact["event"] for fact in body.json("events")]
    assert facts.count("auth.refused") == 1 and facts.count("auth.restored") == 1
