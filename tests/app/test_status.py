"""The status is honest: it says how old its knowledge is, what has not arrived, since when and why."""

from __future__ import annotations

import json
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bridge.app import pause, status

NOW = 1_800_000_000.0  # Friday, 2027-01-15 08:00:00 UTC
TIP, OTHER = "a" * 40, "b" * 40
HELD = {"path": "big.bin", "rule": "TREE-6", "reason": "larger than 50 MiB"}


@pytest.fixture(autouse=True)
def utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def at(seconds_ago: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(NOW - seconds_ago))


def document(**changed: Any) -> status.Document:
    """A soul in step, as of 12 seconds ago."""
    fields: dict[str, Any] = {
        "agent": "kaoru", "body": "laptop", "soul": "/home/k/souls/kaoru.soul", "remote": "git@h.example:k/kaoru.git",
        "state": "idle", "pid": 42, "since": at(7200), "tip": TIP, "remote_tip": TIP, "last_pull": at(12),
        "last_push": at(300),
    }  # fmt: skip
    return status.build(**{**fields, **changed})


def problem(kind: str, **changed: Any) -> dict[str, Any]:
    fields = {"kind": kind, "message": "Permission denied (publickey).", "advice": "soul-bridge key show"}
    return {**fields, "since": at(3 * 86400), "next_try": None, **changed}


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({}, "in sync with origin as of 12 s ago"),
        ({"last_pull": at(0)}, "in sync with origin as of just now"),
        ({"ahead": 1}, "1 commit not pushed yet"),
        ({"ahead": 3, "problem": problem("auth")}, "3 commits not pushed since Tue 08:00: key refused"),
        ({"problem": problem("network", since=at(60))}, "not in sync since 07:59: remote unreachable"),
        ({"problem": problem("config", since=None)}, "not in sync: the configuration cannot be used"),
        ({"behind": 2}, "2 commits of the remote not merged yet, as of 12 s ago"),
        ({"pending": ["a"]}, "1 path not recorded yet; all else in sync with origin as of 12 s ago"),
        ({"ahead": 1, "pending": ["a", "b"]}, "1 commit not pushed yet; 2 paths not recorded yet"),
        ({"remote_tip": None, "last_pull": None}, "the remote has not answered yet: nothing is known about it"),
        ({"held": [HELD]}, "1 path held; all else in sync with origin as of 12 s ago"),
        (
            {"held": [HELD], "pending": ["a"]},
            "1 path not recorded yet; 1 path held; all else in sync with origin as of 12 s ago",
        ),
        (
            {"held": [HELD], "pending": ["big.bin"]},
            "1 path not recorded yet; all else in sync with origin as of 12 s ago",
        ),
        ({"ahead": 2, "held": [HELD]}, "2 commits not pushed yet; 1 path held"),
        ({"last_pull": None}, "nothing to push, but the remote has not been heard of yet"),
        ({"remote_tip": OTHER}, "not in sync with origin as of 12 s ago"),
        ({"state": "paused"}, "paused; in sync with origin as of 12 s ago"),
        ({"state": "stopped", "ahead": 1}, "stopped; 1 commit not pushed yet"),
    ],
)
def test_the_first_line_says_what_is_true(changed: dict[str, Any], said: str) -> None:
    assert status.readable(document(**changed), NOW).splitlines()[0] == said


@pytest.mark.parametrize("changed", [{"ahead": 1}, {"behind": 1}, {"problem": problem("disk")}, {"remote_tip": OTHER}])
def test_nothing_that_is_wrong_lets_it_say_in_sync_with_origin(changed: dict[str, Any]) -> None:
    said = status.sentence(document(**changed), NOW)
    assert not said.startswith("in sync")
    assert "; in sync" not in said


def test_everything_that_needs_a_person_is_in_the_words() -> None:
    words = status.readable(
        document(
            state="refused",
            last_pass={"at": at(12), "outcome": "ok", "sentence": "recorded memories +1."},
            pending=["notes/new.md"],
            held=[{"path": "big.bin", "rule": "TREE-6", "reason": "larger than 50 MiB"}],
            conflicts=2,
            ignored=3,
            lease={"body": "mac", "until": at(-1200), "mine": False},
            problem=problem("auth", next_try=at(-600), times=12),
            bodies=[{"body": "laptop", "kind": "bridge", "last_seen": at(60 * 60 * 5)}],
        ),
        NOW,
    )
    for said in (
        "agent      kaoru on the body laptop", "state      refused, daemon running since 06:00",
        "last pass  12 s ago: recorded memories +1.", "pulled     12 s ago; pushed 5 min ago",
        "pending    notes/new.md", "held       big.bin  TREE-6: larger than 50 MiB",
        "2 versions lost a merge; see and bring back: soul-bridge conflicts", "3 paths left out by .gitignore",
        "lease      mac consolidates until 08:20", "bodies     laptop (bridge, seen 5 h ago)",
        "problem    Permission denied (publickey).", "do         soul-bridge key show",
        "next try   08:10, by itself; tried 12 times so far",
    ):  # fmt: skip
        assert said in words


def test_all_of_it_fits_a_screen_and_what_needs_a_person_comes_first() -> None:
    words = status.readable(
        document(
            last_pass={"at": at(12), "outcome": "ok", "sentence": "recorded memories +1."},
            pending=[f"notes/{number:03}.md" for number in range(100)],
            held=[{**HELD, "path": f"{number:03}.bin"} for number in range(100)],
            conflicts=2,
            ignored=3,
            lease={"body": "mac", "until": at(-1200), "mine": False},
            problem=problem("auth", next_try=at(-600)),
            bodies=[{"body": f"b{number}", "kind": "bridge", "last_seen": at(60)} for number in range(40)],
            warnings=["the watcher sees too few files"],
        ),
        NOW,
    )
    lines = words.splitlines()
    assert len(lines) <= 24
    first = [line.split()[0] for line in lines[1:] if line[2:3] != " "]
    assert first[:8] == ["problem", "do", "next", "warning", "bodies", "pending", "held", "conflicts"]
    assert "and 32 more: soul-bridge bodies" in words


def test_a_change_is_what_a_watcher_wants_told_and_not_the_time_that_passes() -> None:
    last = {"at": at(12), "outcome": "ok", "sentence": "nothing to do."}
    quiet = status.changed(document(last_pass=last))
    later = {"last_pull": at(2), "last_verified": at(2), "last_pass": {**last, "at": at(2)}}
    assert status.changed(document(**later)) == quiet
    for change in ({"tip": OTHER}, {"pending": ["a"]}, {"held": [HELD]}, {"problem": problem("auth")}, {"pid": None}):
        assert status.changed(document(last_pass=last, **change)) != quiet
    refused = document(problem=problem("auth"))
    assert status.changed(document(problem=problem("auth", next_try=at(-9)))) == status.changed(refused)


def test_a_stopped_daemon_is_said_with_what_to_type() -> None:
    assert "daemon not running: soul-bridge run" in status.readable(document(pid=None), NOW)


def test_a_long_list_is_cut_in_words_and_whole_in_the_document() -> None:
    made = document(pending=[f"notes/{number:03}.md" for number in range(100)])
    assert len(made["pending"]) == 100
    words = status.readable(made, NOW)
    assert "… and 97 more: soul-bridge status --json" in words
    four = status.readable(document(pending=[f"notes/{number}.md" for number in range(4)]), NOW)
    assert "notes/3.md" in four and "more" not in four


def test_no_name_steers_the_terminal() -> None:
    words = status.readable(document(pending=["\x1b[2Jgone\u202e", "caf\udce9"], agent="\x07k"), NOW)
    assert all(letter.isprintable() or letter == "\n" for letter in words)


def test_what_another_body_wrote_as_a_time_is_no_reason_to_fail() -> None:
    for wrong in ("yesterday", "", "9999-12-31T23:59:59+23:59", "2027-01-15T08:00:00"):
        bodies = [{"body": "mac", "kind": "runtime", "last_seen": wrong}]
        assert "mac (runtime, seen" in status.readable(document(bodies=bodies), NOW)


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0.4, "just now"), (-50, "just now"), (1, "1 s ago"), (119, "119 s ago"), (120, "2 min ago"),
     (7199, "119 min ago"), (7200, "2 h ago"), (172799, "47 h ago"), (172800, "2 d ago"), (8640000, "100 d ago")],
)  # fmt: skip
def test_an_age_is_said_in_one_unit(seconds: float, said: str) -> None:
    then = status.datetime.fromtimestamp(NOW - seconds, status.UTC).isoformat()
    assert status.ago(then, NOW) == said


def test_no_time_is_never() -> None:
    assert status.ago(None, NOW) == "never"


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0, "08:00"), (8 * 3600, "00:00"), (8 * 3600 + 1, "Thu 23:59"), (5 * 86400, "Sun 08:00"),
     (6 * 86400, "2027-01-09 08:00"), (-86400, "Sat 08:00")],
)  # fmt: skip
def test_a_moment_is_said_as_a_person_would(seconds: float, said: str) -> None:
    assert status.moment(at(seconds), NOW) == said


@pytest.mark.parametrize("zone", ["Asia/Tokyo", "America/Los_Angeles", "UTC"])
@pytest.mark.parametrize(
    "until", ["9999-12-31T23:59:59.999Z", "9999-12-31T23:59:59-14:00", "0001-01-01T00:00:00Z", "0001-01-01T00:00+14:00"]
)
def test_no_end_of_the_calendar_keeps_a_status_from_being_told(
    zone: str, until: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LEASE-1: a body writes what end it likes into a lease, and the wall may be east or west of it."""
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        lease = {"body": "phone", "until": until, "mine": False}
        assert "phone consolidates until " in status.readable(document(lease=lease), NOW)
    finally:
        monkeypatch.undo()
        time.tzset()


def test_the_document_has_the_shape_of_the_contract() -> None:
    assert list(document()) == [
        "agent", "body", "soul", "remote", "state", "daemon", "tip", "remote_tip", "ahead", "behind", "last_pass",
        "last_pull", "last_push", "pending", "held", "conflicts", "lease", "problem", "bodies", "ignored", "warnings",
        "last_verified", "unpushed_since", "attention",
    ]  # fmt: skip
    assert document()["daemon"] == {"running": True, "pid": 42, "since": at(7200)}
    assert document(pid=None, since=None)["daemon"] == {"running": False, "pid": None, "since": None}


def test_a_written_document_is_read_back_and_private(tmp_path: Path) -> None:
    made = document(pending=["caf\udce9/日記.md"])
    assert status.write(tmp_path / "status.json", made)
    assert status.read(tmp_path / "status.json") == made
    assert stat.S_IMODE((tmp_path / "status.json").stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["status.json"]


def test_a_document_that_cannot_be_written_leaves_the_old_one(tmp_path: Path) -> None:
    assert not status.write(tmp_path / "none" / "status.json", document())
    (tmp_path / "status.json").mkdir()
    (tmp_path / "status.json" / "full").touch()
    assert not status.write(tmp_path / "status.json", document())
    assert [path.name for path in tmp_path.iterdir()] == ["status.json"]


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"{}", b"\xff"])
def test_a_broken_document_is_no_document(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "status.json").write_bytes(content)
    assert status.read(tmp_path / "status.json") is None


@pytest.mark.parametrize(
    ("written", "running", "paused", "said"),
    [
        ("idle", True, False, "idle"),
        ("idle", False, False, "stopped"),
        ("syncing", False, False, "stopped"),
        ("idle", True, True, "paused"),
        ("stopped", False, True, "paused"),
        ("stopped", True, False, "syncing"),
        ("refused", True, False, "refused"),
    ],
)
def test_the_state_is_the_present_one_whatever_was_written(
    written: str, running: bool, paused: bool, said: str
) -> None:
    made = status.current(document(state=written), running=running, pid=42 if running else None, paused=paused)
    assert made["state"] == said in status.STATES
    assert made["daemon"]["running"] is running


def test_another_daemons_beginning_is_not_this_ones() -> None:
    made = status.current(document(pid=42), running=True, pid=43, paused=False)
    assert made["daemon"] == {"running": True, "pid": 43, "since": None}


def test_every_document_can_be_said_and_stored() -> None:
    for state in status.STATES:
        for kind in (*status._CAUSES, "something new"):
            made = document(state=state, problem=problem(kind))
            assert status.readable(json.loads(json.dumps(made)), NOW)


def test_a_pause_is_remembered_until_it_is_ended(tmp_path: Path) -> None:
    state = tmp_path / "state" / "kaoru"
    assert not pause.is_paused(state)
    assert not pause.resume(state)
    assert pause.pause(state)
    assert not pause.pause(state)
    assert pause.is_paused(state)
    assert pause.resume(state)
    assert not pause.is_paused(state)


def test_a_pause_that_cannot_be_remembered_is_told(tmp_path: Path) -> None:
    (tmp_path / "state").touch()
    with pytest.raises(pause.Transient) as caught:
        pause.pause(tmp_path / "state" / "kaoru")
    assert caught.value.kind == "disk"


def test_no_path_reads_as_a_line_of_the_status() -> None:
    """Names are another body's to choose: a line break in one is shown, and not obeyed."""
    name = "notes/x\n  state      idle\x1b[2J"
    other = {"body": "x", "kind": "y\n  state      idle", "last_seen": None}
    lease = {"body": "x\n  state      idle", "until": at(0), "mine": False}
    given = document(pending=[name], held=[{**HELD, "path": name}], bodies=[other], lease=lease)
    shown = status.readable(given, NOW)
    assert "x (y\\x0a  state" in shown and "x\\x0a  state      idle consolidates" in shown
    assert shown.count("notes/x\\x0a  state      idle\\x1b[2J") == 2
    assert [line for line in shown.splitlines() if line.startswith("  state ")] == [
        "  state      idle, daemon running since 06:00"
    ]
