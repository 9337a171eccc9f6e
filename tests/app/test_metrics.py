"""Numbers of several souls, where they are wanted and nowhere else; nobody who asks for them can hold anything up."""

from __future__ import annotations

import contextlib
import os
import socket
import stat
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from bridge.adapters import metrics as outlet
from bridge.adapters.clock import SystemClock
from bridge.adapters.repo import counts
from bridge.app import status
from bridge.app.life import Life
from bridge.app.metrics import RECOUNT, RETRY, Board, Measured, families
from bridge.app.reporting import Reporter
from bridge.core.errors import Refused, Transient
from bridge.core.exposition import text
from bridge.core.instants import iso
from bridge.fakes.clock import FakeClock
from tests.app.bodies import fleet
from tests.app.test_telling import outcome
from tests.prometheus import parse

HERE = ("127.0.0.1", 9464)
THERE = ("127.0.0.1", 9465)


def document(now: float, **changed: Any) -> status.Document:
    """A soul in step as of 12 seconds before."""
    fields: dict[str, Any] = {
        "agent": "kaoru", "body": "laptop", "soul": "/s", "remote": "r", "state": "idle", "pid": 1, "tip": "a",
        "remote_tip": "a", "last_verified": iso(now - 12), "last_pull": iso(now - 12),
        "last_pass": {"at": iso(now - 3), "outcome": "ok", "sentence": "nothing to do."},
    }  # fmt: skip
    return status.build(**{**fields, **changed})


def measured(agent: str = "kaoru", now: float = 1_800_000_000.0, **changed: Any) -> Measured:
    made = Measured(f"{agent}.soul", agent, "laptop", lambda: (40, 3))
    made.document = document(now, **changed)
    return made


class Ports:
    """What listens on addresses, as it is played: taken ones cannot be had."""

    def __init__(self) -> None:
        self.taken: set[tuple[str, int]] = set()
        self.open_: dict[tuple[str, int], Callable[[], str]] = {}
        self.tried = 0

    def open(self, address: tuple[str, int], answer: Callable[[], str]) -> None:
        self.tried += 1
        if address in self.taken:
            raise Transient("it is in use", kind="busy", advice="choose another")
        self.open_[address] = answer

    def close(self, address: tuple[str, int]) -> None:
        del self.open_[address]


def test_a_soul_is_measured_by_what_its_status_says_and_its_passes_took() -> None:
    now = 1_800_000_000.0
    held = [{"path": "big.bin", "rule": "TREE-6", "reason": "larger"}]
    soul = measured(
        state="refused", ahead=3, behind=1, held=held, pending=["a", "b"], conflicts=4, unpushed_since=iso(now - 90),
        problem={"kind": "auth", "message": "m", "advice": "a", "since": None, "next_try": None}, attention=["auth"],
        bodies=[{"body": "laptop", "kind": "bridge", "last_seen": None}],
    )  # fmt: skip
    for took in (0.5, 1.25):
        soul.counts.passed(outcome(Refused("denied", kind="auth")), took)
    soul.counts.passed(outcome(Transient("no route")), 0.25)
    soul.counts.answered("restore", None)
    soul.counted = (40, 3)
    found = parse(text(families([soul], now)))
    value = {name.removeprefix("soul_bridge_"): metric for name, metric in found.items()}
    assert [value["state"].value(state=state) for state in status.STATES] == [0, 0, 0, 0, 1, 0, 0]
    assert (value["problem"].value(kind="auth"), value["problem"].value(kind="disk")) == (1, 0)
    assert (value["refusals_total"].value(kind="auth"), value["refusals_total"].value(kind="rejected")) == (2, 0)
    assert value["refusals_total"].value(kind="network") == 0, "nobody refused anything"
    assert value["last_verified_timestamp_seconds"].value() == now - 12
    assert value["pass_duration_seconds"].value("_sum") == 2.0
    assert value["pass_duration_seconds"].value("_count") == 3
    expected = {
        "unpushed_commits": 3, "unpushed_age_seconds": 90, "unmerged_commits": 1, "held_paths": 1, "pending_paths": 2,
        "conflicts": 4, "attention": 1, "bodies": 1, "last_pass_duration_seconds": 0.25, "objects": 40, "packs": 3,
        "last_pass_timestamp_seconds": now - 3, "last_pull_timestamp_seconds": now - 12,
    }  # fmt: skip
    assert {name: value[name].value() for name in expected} == expected
    assert "last_push_timestamp_seconds" not in value, "what never happened has no time"


def test_several_souls_are_told_apart_and_one_that_said_nothing_is_left_out() -> None:
    silent = Measured("mei.soul", "mei", "laptop")
    odd = measured('ka"o\\ru\n')
    found = parse(text(families([measured(), odd, silent], 1_800_000_000.0)))
    names = {dict(labels)["agent"] for _, labels in found["soul_bridge_conflicts"].samples}
    assert names == {"kaoru", 'ka"o\\ru\n'}


def test_numbers_tell_nothing_of_what_is_in_a_soul() -> None:
    """CONTENT-1: paths, remotes and words stay where they are."""
    secret = "s3cret"
    soul = measured(
        remote=secret, soul=f"/{secret}", pending=[secret], held=[{"path": secret, "rule": "TREE-6", "reason": secret}],
        problem={"kind": "auth", "message": secret, "advice": secret, "since": None, "next_try": None},
        bodies=[{"body": secret, "kind": "bridge", "last_seen": None}], warnings=[secret],
        last_pass={"at": iso(0), "outcome": "ok", "sentence": secret}, tip=secret,
    )  # fmt: skip
    assert secret not in text(families([soul], 1_800_000_000.0))


def board(clock: FakeClock, ports: Ports | None = None) -> tuple[Board, dict[Path, str]]:
    files: dict[Path, str] = {}

    def write(path: Path, words: str) -> None:
        if path.name == "full.prom":
            raise Transient("no room", kind="disk", advice="make some")
        files[path] = words

    return Board(clock, ports or Ports(), write), files


def agents(words: str) -> set[str]:
    found = parse(words)
    return {dict(labels)["agent"] for _, labels in found["soul_bridge_conflicts"].samples} if found else set()


def test_souls_share_an_address_or_have_their_own_and_leave_it_as_they_go() -> None:
    ports, clock = Ports(), FakeClock()
    made, _ = board(clock, ports)
    seats = {
        agent: made.join(measured(agent), listen, None)
        for agent, listen in (("kaoru", HERE), ("mei", HERE), ("ren", THERE), ("yu", None))
    }
    for seat in seats.values():
        assert made.tell(seat, document(clock.now())) == []
    assert agents(ports.open_[HERE]()) == {"kaoru", "mei"}
    assert agents(ports.open_[THERE]()) == {"ren"}
    made.leave(seats["kaoru"])
    assert agents(ports.open_[HERE]()) == {"mei"}
    made.leave(seats["mei"])
    made.leave(seats["mei"])
    assert list(ports.open_) == [THERE]


def test_an_address_in_use_is_a_warning_and_is_tried_again_now_and_then() -> None:
    ports, clock = Ports(), FakeClock()
    ports.taken.add(HERE)
    made, _ = board(clock, ports)
    seat = made.join(measured(), HERE, None)
    for _ in range(5):
        assert made.tell(seat, document(clock.now())) == ["it is in use\nchoose another"]
    assert ports.tried == 1
    ports.taken.clear()
    clock.sleep(RETRY + 1)
    assert made.tell(seat, document(clock.now())) == []
    assert agents(ports.open_[HERE]()) == {"kaoru"}


def test_a_file_holds_all_souls_that_want_it_and_says_who_stopped() -> None:
    clock = FakeClock()
    made, files = board(clock)
    path = Path("/x/soul.prom")
    first, second = (made.join(measured(agent), None, path) for agent in ("kaoru", "mei"))
    made.tell(first, document(clock.now()))
    made.tell(second, document(clock.now()))
    assert agents(files[path]) == {"kaoru", "mei"}
    made.leave(first)
    state = parse(files[path])["soul_bridge_state"]
    assert (state.value(agent="kaoru", state="stopped"), state.value(agent="mei", state="stopped")) == (1, 0)
    seat = made.join(measured(), None, Path("/x/full.prom"))
    assert made.tell(seat, document(clock.now())) == ["no room\nmake some"]


def test_objects_are_counted_now_and_then_and_not_at_every_question() -> None:
    ports, clock, asked = Ports(), FakeClock(), []
    made, _ = board(clock, ports)
    soul = Measured("kaoru.soul", "kaoru", "laptop", lambda: (asked.append(1), (7, 2))[1])
    made.tell(made.join(soul, HERE, None), document(clock.now()))
    for _ in range(3):
        assert parse(ports.open_[HERE]())["soul_bridge_objects"].value() == 7
    assert len(asked) == 1
    clock.sleep(RECOUNT + 1)
    ports.open_[HERE]()
    assert len(asked) == 2


@pytest.fixture
def listener() -> outlet.Listener:
    return outlet.Listener(SystemClock())


@pytest.fixture
def here(listener: outlet.Listener) -> Iterator[tuple[str, int]]:
    """An address that answers."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        address = ("127.0.0.1", found.getsockname()[1])
    listener.open(address, lambda: "x 1\n")
    yield address
    listener.close(address)


def get(address: tuple[str, int], path: str = "/metrics", method: str = "GET", **head: str) -> tuple[int, str]:
    connection = HTTPConnection(*address, timeout=10)
    connection.request(method, path, headers=head)
    answer = connection.getresponse()
    body = answer.read().decode()
    connection.close()
    return answer.status, body


def test_only_metrics_are_answered_and_only_to_get(here: tuple[str, int]) -> None:
    with urllib.request.urlopen(f"http://127.0.0.1:{here[1]}/metrics", timeout=10) as answer:
        assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        assert answer.read() == b"x 1\n"
    assert get(here, "/metrics?x=1") == (200, "x 1\n")
    for path in ("/", "/status", "/metrics/", "/../metrics", "//metrics"):
        assert get(here, path)[0] == 404
    for method in ("POST", "HEAD", "PUT", "DELETE", "OPTIONS"):
        assert get(here, method=method)[0] == 405


def test_a_fault_in_telling_numbers_is_an_answer_and_a_line_of_the_log(
    listener: outlet.Listener, here: tuple[str, int], caplog: pytest.LogCaptureFixture
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as found:
        broken = ("127.0.0.1", found.getsockname()[1])
    listener.open(broken, lambda: str(1 // 0))
    assert get(broken)[0] == 500 and "ZeroDivisionError" not in get(broken)[1]
    assert "numbers could not be told" in caplog.text
    assert get(here)[0] == 200
    listener.close(broken)


def test_a_page_that_names_this_machine_its_own_way_is_not_answered(here: tuple[str, int]) -> None:
    for name in ("evil.example", "127.evil.example:80", "evil.example:9464", "10.0.0.1"):
        assert get(here, Host=name)[0] == 403
    for name in ("localhost:9464", "127.0.0.1", "[::1]:9464"):
        assert get(here, Host=name)[0] == 200


@pytest.mark.parametrize(
    "sent",
    [b"", b"\r\n\r\n", b"GET /metrics\r\n\r\n", b"\x16\x03\x01\x02\x00" * 50 + b"\r\n\r\n",
     b"GET  /metrics HTTP/1.1\r\n\r\n", b"G" * 100_000, b"GET /metrics SSH-2.0\r\n\r\n"],
)  # fmt: skip
def test_nonsense_is_refused_and_answers_go_on(here: tuple[str, int], sent: bytes) -> None:
    with socket.create_connection(here, 10) as connection:
        try:
            connection.sendall(sent)
            with contextlib.suppress(OSError):  # it may have hung up by then
                connection.shutdown(socket.SHUT_WR)
            answer = connection.recv(65536)
        except ConnectionError:
            answer = b""
    assert answer == b"" or answer.startswith(b"HTTP/1.1 400 ")
    assert get(here) == (200, "x 1\n")


def test_who_asks_slowly_or_not_at_all_delays_others_by_a_bounded_time(
    here: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outlet, "PATIENCE", 0.5)
    over = threading.Event()
    with socket.create_connection(here) as silent, socket.create_connection(here) as slow:

        def drip() -> None:
            while not over.wait(0.05):
                try:
                    slow.sendall(b"x")
                except OSError:
                    return

        thread = threading.Thread(target=drip)
        thread.start()
        begun = time.monotonic()
        assert get(here) == (200, "x 1\n")
        took = time.monotonic() - begun
        over.set()
        thread.join()
        assert 0.5 < took < 5, "both had their time, one after the other, and no more"
        assert silent.recv(100) == b""


def test_one_thread_answers_on_all_addresses(listener: outlet.Listener, here: tuple[str, int]) -> None:
    before = threading.active_count()
    with socket.create_server(("127.0.0.1", 0)) as found:
        other = ("127.0.0.1", found.getsockname()[1])
    listener.open(other, lambda: "y 2\n")
    assert (get(here)[1], get(other)[1], threading.active_count()) == ("x 1\n", "y 2\n", before)
    listener.close(other)
    listener.close(other)
    with pytest.raises(ConnectionRefusedError):
        get(other)
    assert get(here)[0] == 200


def test_an_address_that_another_program_has_is_refused_in_words(listener: outlet.Listener) -> None:
    with socket.create_server(("127.0.0.1", 0)) as theirs:
        port = theirs.getsockname()[1]
        with pytest.raises(Transient) as caught:
            listener.open(("127.0.0.1", port), lambda: "")
    assert f"127.0.0.1:{port}: Address already in use" in caught.value.message
    assert f"ss -ltnp 'sport = :{port}'" in caught.value.advice
    assert outlet.shown(("::1", 9464)) == "[::1]:9464"


def test_a_file_is_whole_readable_for_everybody_and_alone(tmp_path: Path) -> None:
    path = tmp_path / "soul.prom"
    before = os.umask(0o077)
    try:
        outlet.write(path, "x 1\n")
        outlet.write(path, "x 2\n")
    finally:
        os.umask(before)
    assert (path.read_text(), stat.S_IMODE(path.stat().st_mode)) == ("x 2\n", 0o644)
    assert [each.name for each in tmp_path.iterdir()] == ["soul.prom"]
    seen = set()
    writer = threading.Thread(target=lambda: [outlet.write(path, "y 3\n" * 5000) for _ in range(100)])
    writer.start()
    while writer.is_alive():
        seen.add(path.stat().st_size)
    writer.join()
    assert seen <= {4, 20_000}, "never a part of it"


def test_what_somebody_laid_where_a_file_is_made_is_not_written_into(tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.write_text("mine\n")
    (tmp_path / f".soul.prom.{os.getpid()}.new").symlink_to(theirs)
    outlet.write(tmp_path / "soul.prom", "x 1\n")
    os.link(theirs, tmp_path / f".soul.prom.{os.getpid()}.new")
    outlet.write(tmp_path / "soul.prom", "x 2\n")
    assert (theirs.read_text(), (tmp_path / "soul.prom").read_text()) == ("mine\n", "x 2\n")


def test_a_file_that_cannot_be_written_is_told_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(Transient) as caught:
        outlet.write(tmp_path / "none" / "soul.prom", "")
    assert (caught.value.kind, "ReadWritePaths=" in caught.value.advice) == ("disk", True)
    (tmp_path / "soul.prom").mkdir()
    with pytest.raises(Transient):
        outlet.write(tmp_path / "soul.prom", "")
    assert [each.name for each in tmp_path.iterdir()] == ["soul.prom"]


def test_objects_and_packs_are_counted_and_damage_counts_nothing(tmp_path: Path) -> None:
    assert counts(tmp_path / "none") == (0, 0)
    pack = tmp_path / "objects" / "pack"
    pack.mkdir(parents=True)
    fanout = b"\xfftOc\x00\x00\x00\x02" + b"\0" * 255 * 4 + (41).to_bytes(4, "big")
    (pack / "pack-1.idx").write_bytes(fanout)
    (pack / "pack-2.idx").write_bytes(b"short")
    (tmp_path / "objects" / "ab").mkdir()
    (tmp_path / "objects" / "ab" / ("c" * 38)).touch()
    (tmp_path / "objects" / "info").mkdir()
    assert counts(tmp_path) == (42, 1)


def test_the_age_of_what_is_not_pushed_is_that_of_its_oldest_commit() -> None:

    one = fleet().body("laptop")
    one.settle()
    reporter = Reporter("/s", "r", 1, None)
    assert reporter.document(Life(one.soul))["unpushed_since"] is None
    one.remote.unreachable = True
    times = []
    for number in range(3):
        one.clock.sleep(100)
        one.write(f"notes/{number}.md", f"# {number}\n")
        one.settle()
        times.append(one.repo.info(one.soul.head()).time)
    told = reporter.document(Life(one.soul))
    assert told["ahead"] >= 3 and told["unpushed_since"] <= iso(times[0])
