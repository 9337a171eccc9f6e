"""Facts are kept in order, in whole lines, and never grow without bound; the log is one line each."""

from __future__ import annotations

import io
import json
import logging
import os
import socket
import stat
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bridge.adapters import events
from bridge.adapters.events import Events, read_events
from bridge.fakes.clock import FakeClock
from bridge.fakes.facts import FakeFacts


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "events.jsonl"


def facts(path: Path) -> list[dict[str, Any]]:
    return list(read_events(path, follow=False, sleep=pytest.fail))


def test_a_fact_says_when_what_who_and_in_which_pass(path: Path) -> None:
    recorder = Events(path, "kaoru", "laptop", FakeClock(1_800_000_000.25))
    recorder.record("remote.restored")
    recorder.bind_pass("p1")
    recorder.record("commit.recorded", tip="abc", paths=["memories/MEMORY.md"], at="never")
    head = {"at": "2027-01-15T08:00:00.250Z", "agent": "kaoru", "body": "laptop"}
    assert facts(path) == [
        {**head, "event": "remote.restored", "pass": None},
        {
            **head,
            "event": "commit.recorded",
            "pass": "p1",
            "tip": "abc",
            "paths": ["memories/MEMORY.md"],
            "at": "never",
        },
    ]
    assert list(facts(path)[0]) == ["at", "event", "agent", "body", "pass"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_fact_is_too_small_for_the_contents_of_a_file(path: Path) -> None:
    recorder = Events(path, "kaoru", "laptop", FakeClock())
    recorder.record("file.written", content=b"secret", text="x" * 10_000, deep={"list": ["y" * 10_000]})
    assert facts(path)[0]["content"] == "<6 bytes>"
    assert path.stat().st_size < 3 * events.LONGEST + 500
    assert "secret" not in path.read_text()


def test_recording_never_raises(tmp_path: Path) -> None:
    for place in (tmp_path / "none" / "events.jsonl", tmp_path):
        Events(place, "kaoru", "laptop", FakeClock()).record("pass.finished")
    loop: list[Any] = []
    loop.append(loop)
    Events(tmp_path / "e", "kaoru", "laptop", FakeClock()).record("pass.finished", loop=loop, thing=object())


def test_a_name_that_is_not_utf_8_is_kept_exactly(path: Path) -> None:
    Events(path, "kaoru", "laptop", FakeClock()).record("file.held", path="caf\udce9/日記\n.md")
    assert facts(path)[0]["path"] == "caf\udce9/日記\n.md"
    assert path.read_text(encoding="utf-8").count("\n") == 1
    assert "日記" in path.read_text(encoding="utf-8")


def test_old_facts_go_when_there_are_too_many_and_what_stays_is_in_order(path: Path) -> None:
    recorder = Events(path, "kaoru", "laptop", FakeClock(), largest=1000)
    for number in range(100):
        recorder.record("pass.finished", number=number)
    kept = [fact["number"] for fact in facts(path)]
    assert kept == list(range(kept[0], 100))
    assert 20 < len(kept) < 50
    assert sorted(file.name for file in path.parent.iterdir()) == [
        "events.jsonl", "events.jsonl.1", "events.jsonl.2", "events.jsonl.3"
    ]  # fmt: skip
    assert all(file.stat().st_size <= 1000 for file in path.parent.iterdir())


def test_a_file_that_cannot_be_begun_anew_costs_no_other_descriptor(path: Path) -> None:
    """What is closed twice may be another thread's by then."""
    others: list[int] = []

    class Unlucky(Events):
        def _opened(self) -> int:
            if path.exists() or not path.parent.joinpath("events.jsonl.1").exists():
                return super()._opened()
            others.append(os.open(os.devnull, os.O_RDONLY))
            raise OSError

    recorder = Unlucky(path, "kaoru", "laptop", FakeClock(), largest=200)
    for _ in range(3):
        recorder.record("pass.finished", sentence="x" * 100)
    assert others
    for descriptor in others:
        os.fstat(descriptor)
        os.close(descriptor)


def test_half_a_line_left_by_a_crash_costs_nothing_but_itself(path: Path) -> None:
    recorder = Events(path, "kaoru", "laptop", FakeClock())
    recorder.record("pass.finished", number=1)
    with path.open("a") as file:
        file.write('{"at": "2027')
    assert [fact["number"] for fact in facts(path)] == [1]
    recorder.record("pass.finished", number=2)
    assert [fact["number"] for fact in facts(path)] == [1, 2]


def test_facts_of_several_threads_do_not_mix(path: Path) -> None:
    recorder = Events(path, "kaoru", "laptop", FakeClock(), largest=20_000)
    threads = [
        threading.Thread(target=lambda: [recorder.record("pass.finished", text="x" * 50) for _ in range(50)])
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(facts(path)) == 200


def test_no_file_is_no_fact(path: Path) -> None:
    assert facts(path) == []


class Enough(Exception):
    """The test has seen what it wanted."""


def test_following_goes_on_through_a_beginning_and_rotations(path: Path) -> None:
    recorder = Events(path, "kaoru", "laptop", FakeClock(), largest=300)
    written: Iterator[int] = iter(range(9))
    lengths: list[float] = []

    def sleep(seconds: float) -> None:
        lengths.append(seconds)
        number = next(written, None)
        if number is None:
            raise Enough
        recorder.record("pass.finished", number=number)

    seen = []
    with pytest.raises(Enough):
        for fact in read_events(path, follow=True, sleep=sleep):
            seen.append(fact["number"])
    assert seen == list(range(9))
    assert all(0 < seconds <= 1 for seconds in lengths)


def test_the_fake_keeps_facts_by_name() -> None:
    fake = FakeFacts()
    fake.record("lease.taken", until="x")
    fake.record("pass.finished")
    assert fake.named("lease.taken") == [{"until": "x"}]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def quiet_root() -> Iterator[None]:
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    yield
    root.handlers[:], root.level = before, level
    logging.getLogger("paramiko").setLevel(logging.NOTSET)


def test_the_log_is_a_json_object_on_each_line_where_there_is_no_terminal() -> None:
    stream = io.StringIO()
    log = events.logger("info", stream=stream)
    log.debug("too quiet")
    log.info("pass", path="a b\nc\x1b[2J", took=0.5, agent="kaoru")
    log.error("failed", exc_info=ValueError("why"))
    lines = stream.getvalue().splitlines()
    assert len(lines) == 2 and "\x1b" not in stream.getvalue()
    first = json.loads(lines[0])
    assert list(first)[:3] == ["timestamp", "level", "event"]
    assert (first["level"], first["event"], first["path"], first["took"]) == ("info", "pass", "a b\nc\x1b[2J", 0.5)
    assert "ValueError: why" in json.loads(lines[1])["exception"]


def fields(datagram: bytes) -> dict[str, str]:
    """An entry of the journal's own protocol, read as its documentation says."""
    found, rest = {}, datagram
    while rest:
        line, _, rest = rest.partition(b"\n")
        name, equals, value = line.partition(b"=")
        if not equals:
            size = int.from_bytes(rest[:8], "little")
            value, rest = rest[8 : 8 + size], rest[8 + size + 1 :]
        found[name.decode()] = value.decode()
    return found


def test_the_journal_gets_fields_and_a_sentence(tmp_path: Path) -> None:
    stream = io.StringIO()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as journal:
        journal.bind(str(tmp_path / "journal"))
        journal.settimeout(5)
        log = events.logger("info", stream=stream, journal=tmp_path / "journal")
        log.warning("problem", agent="kaoru", body="laptop", problem="first\nsecond", advice="wait", times=3)
        found = fields(journal.recv(65536))
        log.info("x" * 100_000, sentence="y" * 100_000)
        assert len(journal.recv(1 << 20)) < 100_000
    assert found["MESSAGE"] == "kaoru: problem: first\nsecond: wait (times=3)"
    assert (found["PRIORITY"], found["SYSLOG_IDENTIFIER"]) == ("4", "soul-bridge")
    assert (found["SOUL_BRIDGE_AGENT"], found["SOUL_BRIDGE_BODY"], found["SOUL_BRIDGE_TIMES"]) == (
        "kaoru",
        "laptop",
        "3",
    )
    assert (found["SOUL_BRIDGE_EVENT"], found["SOUL_BRIDGE_PROBLEM"]) == ("problem", "first\nsecond")
    assert stream.getvalue() == ""
    log.info("alone", agent="kaoru")
    assert json.loads(stream.getvalue())["event"] == "alone", "a journal that is gone loses nothing"


def test_the_journal_is_meant_only_where_the_stream_leads_there(tmp_path: Path) -> None:
    place = tmp_path / "socket"
    with (tmp_path / "stream").open("w") as stream:
        here = os.fstat(stream.fileno())
        named = f"{here.st_dev}:{here.st_ino}"
        assert events.journal_of(stream, named, place) is None
        place.touch()
        assert events.journal_of(stream, named, place) == place
        assert events.journal_of(stream, "8:15", place) is None
        assert events.journal_of(stream, "", place) is None
    assert events.journal_of(io.StringIO(), named, place) is None


def test_the_level_says_what_is_logged_and_an_unknown_one_is_info() -> None:
    for level, wanted in (("debug", 4), ("error", 1), ("WARN", 3), ("loud", 3)):
        stream = io.StringIO()
        log = events.logger(level, stream=stream)
        for method in (log.debug, log.info, log.warning, log.error):
            method("x")
        assert len(stream.getvalue().splitlines()) == wanted, level


def test_colour_is_for_terminals_whose_owner_did_not_refuse_it() -> None:
    for stream, color, wanted in ((Terminal(), True, True), (Terminal(), False, False), (io.StringIO(), True, False)):
        events.logger("info", color=color, stream=stream).info("hello", body="laptop")
        assert ("\x1b[" in stream.getvalue()) is wanted
        assert "hello" in stream.getvalue()


def test_the_tracebacks_of_the_ssh_library_stay_out_of_the_log() -> None:
    stream = io.StringIO()
    events.logger("info", stream=stream)
    logging.getLogger("paramiko.transport").error("Traceback …")
    logging.getLogger("watchdog").warning("overflow")
    assert "Traceback" not in stream.getvalue()
    told = json.loads(stream.getvalue())
    assert (told["event"], told["level"], told["logger"]) == ("overflow", "warning", "watchdog")


def test_what_others_named_steers_no_terminal_that_shows_the_journal() -> None:
    evil = "x\u202egnp\x1b[2J"
    facts = {"event": "sync.finished", "path": evil, "problem": "first\nsecond", "sentence": f"wrote {evil}"}
    shown = events._entry(facts).decode("utf-8", "replace")
    assert "first\nsecond" in shown, "words of ours keep their lines"
    people, path, _ = shown.partition("SOUL_BRIDGE_PATH")
    assert path and "\x1b" not in people and "\u202e" not in people and "(path=x\\u202egnp" in people
