"""`run` as a process: several souls, signals, and what the supervisor is told, without one."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from bridge.app.host import Host
from tests.real.fleet import Body, Fleet, until

MEMORY = "memories/MEMORY.md"


@dataclass
class Pair:
    """Two souls of one home on one host."""

    kaoru: Body
    mei: Body
    host: Host

    def start(self, *words: str, **environment: str) -> subprocess.Popen[bytes]:
        with self.log.open("wb") as log:
            return subprocess.Popen(
                self.kaoru.command("run", *words), env=self.kaoru.env(**environment), stdout=log, stderr=log
            )

    @property
    def log(self) -> Path:
        return self.kaoru.home / "run.log"

    def lives(self, body: Body, process: subprocess.Popen[bytes]) -> None:
        assert process.poll() is None, self.log.read_text()
        until(lambda: body.seen().get("daemon", {}).get("pid") == process.pid, f"{body.agent} lives")
        until(lambda: body.seen().get("state") == "idle", f"{body.agent} passes")


@pytest.fixture(scope="module")
def joined(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    place = tmp_path_factory.mktemp("run")
    host = Host(place / "host").start()
    host.create("kaoru.soul.git")
    host.create("mei.soul.git")
    kaoru = Fleet(host, place, "kaoru.soul.git").body("laptop")
    mei = Body("laptop", kaoru.home, host.address("mei.soul.git"), "mei")
    host.authorize("mei.soul.git", mei.make_key())
    mei.init("--host-key", host.fingerprint())
    mei.configure(settle="100ms", poll="500ms")
    yield Pair(kaoru, mei, host)
    host.stop()


@pytest.fixture
def pair(joined: Pair) -> Iterator[Pair]:
    """Both, with the configuration they were joined with."""
    folder = joined.kaoru.home / "config"
    before = {path: path.read_text() for path in folder.iterdir()}
    yield joined
    for path, text in before.items():
        path.write_text(text)


@contextlib.contextmanager
def running(pair: Pair, *words: str, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    process = pair.start(*words, **environment)
    try:
        yield process
        process.terminate()
        assert process.wait(20) == 0, pair.log.read_text()
    finally:
        process.kill()
        process.wait()


def told_of(pair: Pair, event: str, agent: str) -> bool:
    """Whether the log has such a line."""
    lines = [json.loads(line) for line in pair.log.read_text().splitlines() if line.startswith("{")]
    return any((line["event"], line.get("agent")) == (event, agent) for line in lines)


def test_several_souls_live_in_one_process(pair: Pair) -> None:
    with running(pair, "kaoru", "mei") as process:
        for body in (pair.kaoru, pair.mei):
            pair.lives(body, process)
            body.append(MEMORY, f"I am {body.agent}.\n")
        for body in (pair.kaoru, pair.mei):
            until(lambda one=body: one.seen()["ahead"] == 0 and one.tree()[MEMORY].count(b"I am"), "it is recorded")


def test_one_with_a_configuration_that_cannot_be_used_leaves_the_others_alone_until_it_is_mended(pair: Pair) -> None:
    path = pair.mei.home / "config" / "mei.yaml"
    good = path.read_text()
    path.write_text("agent: mei\n")
    with running(pair, "--all") as process:
        pair.lives(pair.kaoru, process)
        until(lambda: "body is missing" in pair.log.read_text(), "it is told")
        path.write_text(good)
        process.send_signal(signal.SIGHUP)
        pair.lives(pair.mei, process)


def test_only_configurations_that_cannot_be_used_end_it_with_2(pair: Pair) -> None:
    for agent in ("kaoru", "mei"):
        (pair.mei.home / "config" / f"{agent}.yaml").write_text(f"agent: {agent}\n")
    assert pair.start("--all").wait(20) == 2
    assert pair.kaoru.run("run", "kaoru", "mei").code == 2
    assert pair.kaoru.run("run", "--all", "kaoru").code == 2


def test_a_second_daemon_ends_with_1_and_the_first_one_goes_on(pair: Pair) -> None:
    with running(pair, "kaoru") as process:
        pair.lives(pair.kaoru, process)
        second = pair.kaoru.run("run", "kaoru")
        assert (second.code, str(process.pid) in second.err) == (1, True)
        told = pair.kaoru.json("status", "kaoru")["daemon"]
        assert (told["running"], told["pid"]) == (True, process.pid)


def test_a_checkout_that_is_not_there_yet_is_waited_for(pair: Pair) -> None:
    """GUARD-2: as on a disk that is mounted later; nothing is cloned into the place."""
    aside = pair.mei.soul.with_name("aside")
    pair.mei.soul.rename(aside)
    with running(pair, "kaoru", "mei") as process:
        pair.lives(pair.kaoru, process)
        until(lambda: told_of(pair, "failed", "mei"), "it is told")
        problem = pair.mei.json("status", "mei")["problem"]
        assert problem["kind"] == "disk"
        assert problem["next_try"]
        assert not pair.mei.soul.exists()
        aside.rename(pair.mei.soul)
        process.send_signal(signal.SIGHUP)
        pair.lives(pair.mei, process)
        until(lambda: pair.mei.json("status", "mei")["problem"] is None, "it is mended")


def test_a_changed_configuration_is_taken_over_without_a_new_process(pair: Pair) -> None:
    with running(pair, "kaoru", "mei") as process:
        for body in (pair.kaoru, pair.mei):
            pair.lives(body, process)
        since = {body.agent: body.seen()["daemon"]["since"] for body in (pair.kaoru, pair.mei)}
        pair.kaoru.configure(poll="700ms")
        process.send_signal(signal.SIGHUP)
        until(lambda: pair.kaoru.seen()["daemon"]["since"] != since["kaoru"], "it begins anew")
        assert pair.mei.seen()["daemon"]["since"] == since["mei"]


def test_one_process_may_open_as_many_files_as_its_user(pair: Pair) -> None:
    """A soul takes seven and more: a hundred of them would not fit into the usual 1024."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with pair.log.open("wb") as log:
        few = ["prlimit", f"--nofile=64:{most}", *pair.kaoru.command("run", "kaoru")]
        process = subprocess.Popen(few, env=pair.kaoru.env(), stdout=log, stderr=log)
    try:
        pair.lives(pair.kaoru, process)
        limits = Path("/proc", str(process.pid), "limits").read_text().splitlines()
        assert next(line.split()[3] for line in limits if line.startswith("Max open files")) == str(most)
    finally:
        process.terminate()
        assert process.wait(20) == 0


def test_what_hangs_is_written_down_when_the_supervisor_ends_it(pair: Pair) -> None:
    process = pair.start("kaoru")
    pair.lives(pair.kaoru, process)
    process.send_signal(signal.SIGABRT)
    assert process.wait(20) == -signal.SIGABRT
    said = pair.log.read_text()
    assert "Fatal Python error: Aborted" in said
    assert said.count("Thread 0x") >= 2


def test_ready_does_not_wait_for_a_host_that_never_answers(pair: Pair, tmp_path: Path) -> None:
    """No network at boot is no reason to fail, and none to hold up others; nor does it hold up the end."""
    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as supervisor,
    ):
        supervisor.bind(str(tmp_path / "notify"))
        supervisor.settimeout(20)
        port = silent.getsockname()[1]
        pair.kaoru.configure(remote=f"ssh://git@127.0.0.1:{port}/kaoru.soul.git")
        pinned = pair.host.host_key_line().replace(f":{pair.host.port} ", f":{port} ")
        with (pair.kaoru.home / "known_hosts").open("a") as known:
            known.write(pinned + "\n")
        environment = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "3000000"}
        with running(pair, "kaoru", **environment):
            heard: list[str] = []
            while "READY=1" not in heard:
                heard.append(supervisor.recv(65536).decode())
            assert not any(line.startswith("STATUS=") and "reach" in line for line in heard)
            while heard.count("WATCHDOG=1") < 3:
                heard.append(supervisor.recv(65536).decode())


def test_a_fault_in_one_soul_is_told_in_its_status_and_it_begins_again(pair: Pair, tmp_path: Path) -> None:
    """A bug of ours in the middle of a pass: put into one soul by the environment of the test."""
    (tmp_path / "sitecustomize.py").write_text(FAULT)
    path = f"{tmp_path}{os.pathsep}{pair.kaoru.env()['PYTHONPATH']}"
    with running(pair, "kaoru", "mei", PYTHONPATH=path) as process:
        pair.lives(pair.kaoru, process)
        until(lambda: told_of(pair, "failed", "mei"), "it is told")
        assert "ZeroDivisionError" in pair.log.read_text()
        pair.lives(pair.mei, process)
        assert json.loads((pair.mei.state / "status.json").read_bytes())["problem"] is None


FAULT = """
import importlib.abc, sys

class Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "bridge.app.tending":
            sys.meta_path.remove(self)
            from bridge.app import sync
            run = sync.run
            def first(soul, order):
                if soul.agent == "mei":
                    sync.run = run
                    1 / 0
                return run(soul, order)
            sync.run = first
        return None

sys.meta_path.insert(0, Finder())
"""
