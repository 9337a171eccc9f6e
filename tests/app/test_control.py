"""A command and a daemon understand each other, and nobody else gets a word in."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import stat
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bridge import cli_parser
from bridge.adapters import control
from bridge.core.errors import SHOWS, Refused, SoulError, Transient


class Holding:
    def __init__(self, held: bool = True) -> None:
        self.held = held


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """A daemon that knows a few words."""
    if request["command"] == "refuse":
        raise Refused("the key is refused", kind="auth", rule="AUTH-5", advice="soul-bridge key show")
    if request["command"] == "wait":
        time.sleep(5)
    if request["command"] == "crash":
        raise KeyError("oops")
    return {"said": request["command"], "bytes": len(request.get("text", ""))}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "control.sock"


@pytest.fixture
def server(path: Path) -> Iterator[control.Server]:
    made = control.Server(path, answer, Holding())
    made.start()
    yield made
    made.close()


def raw(path: Path, sent: bytes, shut: bool = False) -> dict[str, Any]:
    """What comes back for these bytes."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(10)
        connection.connect(str(path))
        connection.sendall(sent)
        if shut:
            connection.shutdown(socket.SHUT_WR)
        received = b"".join(iter(lambda: connection.recv(65536), b""))
    found: dict[str, Any] = json.loads(received)
    return found


def test_a_request_is_answered(server: control.Server, path: Path) -> None:
    assert control.ask(path, {"command": "sync", "text": "ü" * 1000}, 5) == {"said": "sync", "bytes": 1000}


def test_where_no_daemon_is_there_is_no_answer(path: Path) -> None:
    assert control.ask(path, {"command": "sync"}, 1) is None
    assert control.ask(path.parent / "none" / "control.sock", {"command": "sync"}, 1) is None


def test_the_daemons_own_error_arrives_as_it_was(server: control.Server, path: Path) -> None:
    with pytest.raises(Refused) as caught:
        control.ask(path, {"command": "refuse"}, 5)
    assert caught.value.as_dict() == {
        "kind": "auth", "rule": "AUTH-5", "message": "the key is refused", "advice": "soul-bridge key show"
    }  # fmt: skip


def test_a_fault_of_the_daemon_is_told_and_the_next_request_is_answered(
    server: control.Server, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(SoulError, match="KeyError") as caught:
        control.ask(path, {"command": "crash"}, 5)
    assert caught.value.kind == "internal"
    assert "Traceback" in caplog.text
    assert control.ask(path, {"command": "again"}, 5) == {"said": "again", "bytes": 0}


def test_a_slow_answer_is_not_waited_for_and_holds_nobody_up(server: control.Server, path: Path) -> None:
    slow = threading.Thread(target=lambda: pytest.raises(Transient, control.ask, path, {"command": "wait"}, 0.5))
    slow.start()
    assert control.ask(path, {"command": "quick"}, 2) == {"said": "quick", "bytes": 0}
    slow.join()


@pytest.mark.parametrize(
    "sent", [b"hello\n", b"[1]\n", b"\xff\n", b"{}" * 40_000 + b"\n", b'{"command": "x"}', b"[" * 60_000 + b"\n"]
)
def test_what_is_not_a_request_is_refused(server: control.Server, path: Path, sent: bytes) -> None:
    error = raw(path, sent, shut=True)["error"]
    assert error["kind"] == "usage" and "`soul-bridge --help`" in error["advice"]


def test_a_silent_visitor_does_not_stay(server: control.Server, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "PATIENCE", 0.2)
    assert raw(path, b'{"comm')["error"]["kind"] == "usage"


def test_a_visitor_who_speaks_ever_more_slowly_does_not_stay(
    server: control.Server, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control, "PATIENCE", 0.5)
    with socket.socket(socket.AF_UNIX) as slow:
        slow.connect(str(path))
        slow.settimeout(0.1)
        begun = time.monotonic()
        said = b""
        while not said:
            assert time.monotonic() < begun + 5
            with contextlib.suppress(BrokenPipeError):  # it was shown out between two of its words
                slow.sendall(b" ")
            with contextlib.suppress(TimeoutError):
                said = slow.recv(1000)
    assert json.loads(said)["error"]["kind"] == "usage"


def test_silent_visitors_keep_nobody_out(server: control.Server, path: Path) -> None:
    """As many as there are, whoever asks is answered, and they are told that they have to go."""
    crowd = [socket.socket(socket.AF_UNIX) for _ in range(3 * control.CONNECTIONS)]
    try:
        for one in crowd:
            one.connect(str(path))
        for word in ("pause", "sync"):
            assert control.ask(path, {"command": word}, 2)["said"] == word
        crowd[0].settimeout(2)
        assert b"not a request" in crowd[0].recv(1000)
    finally:
        for one in crowd:
            one.close()


def test_where_no_thread_is_to_be_had_the_next_visitor_is_answered(
    server: control.Server, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start, left = threading.Thread.start, [1]

    def starting(thread: threading.Thread) -> None:
        if thread.name == "control-answer" and left:
            left.pop()
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", starting)
    with pytest.raises(Transient):
        control.ask(path, {"command": "sync"}, 2)
    assert control.ask(path, {"command": "sync"}, 2)["said"] == "sync"


def test_more_commands_than_can_wait_are_told_to_come_again_and_those_that_take_no_time_are_answered(
    path: Path,
) -> None:
    go, heard = threading.Event(), threading.Semaphore(0)

    def answer(request: dict[str, Any]) -> dict[str, Any]:
        heard.release()
        return {"done": request["command"] == "pause" or go.wait(20)}

    server = control.Server(path, answer, Holding(), prompt=("pause",))
    server.start()
    waiting = [
        threading.Thread(target=control.ask, args=(path, {"command": "sync"}, 20)) for _ in range(control.CONNECTIONS)
    ]
    try:
        for one in waiting:
            one.start()
        assert all(heard.acquire(timeout=5) for _ in waiting)
        with pytest.raises(Transient, match="nothing of this one was done") as caught:
            control.ask(path, {"command": "sync"}, 5)
        assert caught.value.kind == "busy"
        assert control.ask(path, {"command": "pause"}, 2) == {"done": True}
    finally:
        go.set()
        for one in waiting:
            one.join()
        server.close()


def test_only_the_owner_may_use_the_socket(server: control.Server, path: Path) -> None:
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_ISSOCK(path.stat().st_mode)


def test_another_user_is_refused_even_where_the_file_lets_him(
    server: control.Server, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(Refused, match="only the user") as caught:
        control.ask(path, {"command": "sync"}, 5)
    assert caught.value.exit_code == 4
    assert f"`sudo -u '#{os.getuid() + 1}' soul-bridge status`" in caught.value.advice


def test_a_socket_is_born_private_whatever_the_umask(path: Path) -> None:
    before = os.umask(0)
    try:
        server = control.Server(path, answer, Holding())
        server.start()
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    server.close()


def test_a_directory_deeper_than_a_socket_name_can_be_works(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 100) / ("e" * 100) / "control.sock"
    deep.parent.mkdir(parents=True)
    assert control.ask(deep, {"command": "sync"}, 1) is None
    server = control.Server(deep, answer, Holding())
    server.start()
    assert control.ask(deep, {"command": "sync"}, 5) == {"said": "sync", "bytes": 0}
    server.close()
    assert not deep.exists()


def test_a_socket_that_a_dead_daemon_left_is_replaced_by_the_holder_of_the_lock(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    assert control.ask(path, {"command": "sync"}, 1) is None
    server = control.Server(path, answer, Holding())
    server.start()
    assert control.ask(path, {"command": "sync"}, 5) == {"said": "sync", "bytes": 0}
    server.close()


def test_without_the_lock_a_living_daemons_socket_is_left_alone(server: control.Server, path: Path) -> None:
    with pytest.raises(Refused):
        control.Server(path, answer, Holding(False)).start()
    assert control.ask(path, {"command": "sync"}, 5) == {"said": "sync", "bytes": 0}


def test_an_ending_daemon_does_not_take_its_successors_socket_away(path: Path) -> None:
    old, new = control.Server(path, answer, Holding()), control.Server(path, answer, Holding())
    old.start()
    new.start()
    old.close()
    old.close()
    assert control.ask(path, {"command": "sync"}, 5) == {"said": "sync", "bytes": 0}
    new.close()
    assert not path.exists()


def test_a_socket_that_was_taken_away_is_noticed_and_made_again(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "LOOK", 0.05)
    looked = threading.Event()
    server = control.Server(path, answer, Holding(), looked.set)
    server.start()
    assert looked.wait(5), "somebody is told to look while nobody comes"
    server.renew()
    path.unlink()
    assert not server.stands
    server.renew()
    assert server.stands
    assert control.ask(path, {"command": "sync"}, 5) == {"said": "sync", "bytes": 0}
    server.close()
    server.renew()
    assert server.stands and not path.exists(), "once closed, it does not come back"


def test_a_place_where_no_socket_can_be_is_told(tmp_path: Path) -> None:
    with pytest.raises(Transient) as caught:
        control.Server(tmp_path / "none" / "control.sock", answer, Holding()).start()
    assert caught.value.kind == "disk"


@pytest.mark.parametrize("said", [b"", b'{"half', b"[1]\n", b"\xff\n", b'{"error": 5}\n', b'{"error": {}}\n'])
def test_an_answer_that_makes_no_sense_is_an_error_not_a_traceback(path: Path, said: bytes) -> None:
    def babble() -> None:
        connection, _ = listening.accept()
        with connection:
            connection.recv(1000)
            connection.sendall(said)

    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen(1)
        thread = threading.Thread(target=babble)
        thread.start()
        with pytest.raises(SoulError):
            control.ask(path, {"command": "sync"}, 5)
        thread.join()


@pytest.mark.parametrize(
    ("command", "shows"),
    [
        ("lease acquire", "soul-bridge lease show --agent kaoru"),
        ("consolidate end", "soul-bridge lease show --agent kaoru"),
        ("sync", "soul-bridge status --agent kaoru"),
        ("pause", "soul-bridge status --agent kaoru"),
        ("revert", "soul-bridge log --agent kaoru"),
        ("forget", "soul-bridge bodies --agent kaoru"),
    ],
)
def test_a_daemon_that_dies_over_a_command_leaves_the_command_that_shows_whether_it_was_done(
    path: Path, command: str, shows: str
) -> None:
    """Killed at that instant, it may have done it: nobody is told that nothing was changed."""
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen(1)

        def die() -> None:
            connection, _ = listening.accept()
            connection.recv(1000)
            connection.close()

        thread = threading.Thread(target=die)
        thread.start()
        with pytest.raises(Transient, match="ended before it had answered") as caught:
            control.ask(path, {"command": command, "agent": "kaoru"}, 5)
        thread.join()
    assert "may have been done" in caught.value.advice and f"`{shows}`" in caught.value.advice


def test_what_shows_is_a_command_that_there_is() -> None:
    for words in ("status", *SHOWS.values()):
        cli_parser.build().parse_args([*words.split(), "--agent", "kaoru"])
