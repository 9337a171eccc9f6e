"""The register of bodies: who may write what, and when a body has to show itself."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.core import bodies

NOW = 1_769_846_400.25
DAY = 86_400.0


def test_a_beat_says_what_is_true_now_and_keeps_what_others_wrote() -> None:
    """FORM-6"""
    first = bodies.beat(None, "laptop", "hermes", "0.1.0", "thinkpad", NOW)
    assert first.decode() == (
        '{\n  "body": "laptop",\n  "kind": "bridge",\n  "framework": "hermes",\n  "bridge": "0.1.0",\n'
        '  "host": "thinkpad",\n  "lastSeen": "2026-01-31T08:00:00.250Z"\n}\n'
    )
    touched = bodies.write({**json.loads(first), "model": "x", "kind": "runtime"})
    later = json.loads(bodies.beat(touched, "laptop", "", "0.2.0", None, NOW + 1))
    assert later == {
        "body": "laptop",
        "kind": "runtime",
        "framework": "hermes",
        "bridge": "0.2.0",
        "host": "thinkpad",
        "model": "x",
        "lastSeen": "2026-01-31T08:00:01.250Z",
    }
    assert list(later)[-1] == "lastSeen"


def test_a_beat_says_by_which_key_the_body_gets_in_and_forgets_none_it_cannot_read() -> None:
    """FORM-6: whoever loses the machine has to know which deploy key to delete."""
    key = "SHA256:" + "k" * 43
    first = bodies.beat(None, "laptop", "hermes", "0.1.0", "thinkpad", NOW, key)
    assert bodies.key_of(json.loads(first)) == key and bodies.problems("bodies/laptop.json", first) == []
    later = json.loads(bodies.beat(first, "laptop", "hermes", "0.1.0", "thinkpad", NOW + 1))
    assert bodies.key_of(later) == key and list(later)[-1] == "lastSeen"


@given(current=st.none() | st.binary(max_size=20) | st.just(b'{"kind": [], "framework": 7, "lastSeen": {}}'))
def test_whatever_a_body_finds_in_its_place_it_writes_a_valid_file(current: bytes | None) -> None:
    """FORM-6"""
    written = bodies.beat(current, "pi", "hermes", "0.1.0", "pi", NOW)
    assert bodies.problems("bodies/pi.json", written) == []
    assert bodies.beat(written, "pi", "hermes", "0.1.0", "pi", NOW) == written
    assert not bodies.heartbeat_due(written, NOW, DAY)


@pytest.mark.parametrize(
    ("after", "due"), [(0, False), (DAY - 1, False), (DAY, True), (-DAY + 1, False), (-DAY, True), (-9 * DAY, True)]
)
def test_an_idle_body_shows_itself_once_a_period(after: float, due: bool) -> None:
    """FORM-6: a last sight far in the future is a wrong clock's and is put right too."""
    content = bodies.beat(None, "pi", "", "0.1.0", None, NOW)
    assert bodies.heartbeat_due(content, NOW + after, DAY) is due


@pytest.mark.parametrize("content", [None, b"", b"{}", b'{"lastSeen": "soon"}'])
def test_a_body_nobody_can_tell_the_last_sight_of_shows_itself(content: bytes | None) -> None:
    """FORM-6"""
    assert bodies.heartbeat_due(content, NOW, DAY)


def test_only_another_registered_body_makes_a_path_foreign() -> None:
    """MERGE-9: what belongs to nobody registered is anybody's, such as a journal that was brought along."""
    assert bodies.foreign("journal/pi/2026-01-31.md", "laptop", {"laptop", "pi"})
    assert bodies.foreign(bodies.path("pi"), "laptop", {"laptop", "pi"})
    assert not bodies.foreign("journal/laptop/2026-01-31.md", "laptop", {"laptop", "pi"})
    assert not bodies.foreign("journal/old/2026-01-31.md", "laptop", {"laptop", "pi"})
    assert not bodies.foreign("notes/pi/a.md", "laptop", {"laptop", "pi"})


def test_the_registered_bodies_are_those_with_a_file() -> None:
    """FORM-6"""
    paths = ["bodies/pi.json", "bodies/.gitkeep", "bodies/Pi.json", "bodies/a/b.json", "journal/x/y.md"]
    assert bodies.registered(paths) == {"pi"}


@given(ours=st.binary(max_size=20), theirs=st.binary(max_size=20))
def test_no_bytes_break_the_merge(ours: bytes, theirs: bytes) -> None:
    """MERGE-9: one of the two sides stands, whole."""
    assert bodies.merge(ours, theirs) in (ours, theirs)
    bodies.problems("bodies/pi.json", ours)


def test_two_bodies_end_with_the_same_file_whoever_merges() -> None:
    """MERGE-9, MERGE-11"""
    old, new = (bodies.beat(None, "pi", "", "0.1.0", host, at) for host, at in (("a", NOW), ("b", NOW + 1)))
    assert bodies.merge(old, new) == bodies.merge(new, old) == new


@pytest.mark.parametrize(
    ("path", "change", "words"),
    [
        ("bodies/pi.json", {}, ""),
        ("bodies/.gitkeep", {}, ""),
        ("bodies/pi.txt", {}, "bodies/<body>.json"),
        ("bodies/other.json", {}, "body must equal"),
        ("bodies/pi.json", {"kind": "phone"}, "kind"),
        ("bodies/pi.json", {"framework": None}, "framework"),
        ("bodies/pi.json", {"host": 1}, "host"),
        ("bodies/pi.json", {"lastSeen": "soon"}, "lastSeen"),
        ("bodies/pi.json", {"host": "192.168.0.7"}, "network address"),
        ("bodies/pi.json", {"host": "fe80::1"}, "network address"),
        ("bodies/pi.json", {"host": "aa:bb:cc:dd:ee:ff"}, "network address"),
        ("bodies/pi.json", {"host": "10-0-0-1.example"}, ""),
        ("bodies/pi.json", {"serialNumber": "x"}, "serial number"),
        ("bodies/pi.json", {"macAddress": "x"}, "serial number"),
        ("bodies/pi.json", {"osVersion": "10.0.19.1"}, ""),
    ],
)
def test_the_problems_of_a_body_say_what_is_wrong(path: str, change: dict[str, object], words: str) -> None:
    """FORM-6"""
    fields = json.loads(bodies.beat(None, "pi", "hermes", "0.1.0", "pi", NOW)) | change
    found = bodies.problems(path, bodies.write(fields))
    assert [words in problem.message and problem.rule == "FORM-6" for problem in found] == ([True] if words else [])


def test_a_body_that_is_written_another_way_is_reported() -> None:
    """FORM-6"""
    content = bodies.beat(None, "pi", "hermes", "0.1.0", "pi", NOW)
    assert "not a JSON object" in bodies.problems("bodies/pi.json", b"[]")[0].message
    assert "two-space" in bodies.problems("bodies/pi.json", content.replace(b"  ", b"\t"))[0].message
    assert "more than once" in bodies.problems("bodies/pi.json", b'{"body": "pi", ' + content[1:])[0].message
    early = b'{"lastSeen": "2026-01-31T08:00:00.000Z", ' + content[1:].split(b',\n  "lastSeen"')[0] + b"\n}\n"
    assert "come last" in bodies.problems("bodies/pi.json", early)[0].message


@pytest.mark.parametrize(
    ("said", "known"),
    [("SHA256:" + "aB+/" * 10 + "xyz", True), ("SHA256:short", False), ("MD5:aa:bb", False), (7, False), (None, False)],
)
def test_the_key_that_a_body_tells_is_a_fingerprint_or_nothing(said: object, known: bool) -> None:
    """FORM-6: fields of others are kept, and read with care."""
    assert bodies.key_of({"key": said}) == (said if known else None)


def test_what_a_body_says_is_cut_and_a_large_file_is_nobodys() -> None:
    """FORM-6: whoever can push writes these files."""
    assert bodies.read(b"{}") == {} and bodies.read(b"{" + b" " * bodies.LARGEST + b"}") is None
    assert bodies.said({"host": "h" * 80_000}, "host") == "h" * bodies.LONGEST
    assert bodies.said({"host": 5}, "host") is None and bodies.said({}, "host") is None


def test_of_many_bodies_the_latest_and_this_one_are_listed() -> None:
    """FORM-6"""
    rows = [
        (f"b{number:04}", {"last_seen": f"2026-01-01T00:{number // 60:02}:{number % 60:02}Z"})
        for number in range(1_500)
    ]
    rows.append(("never", {"last_seen": None}))
    names = [name for name, _ in bodies.latest(rows, "b0003")]
    assert len(names) == bodies.MOST and names[0] == "b0003" and names[1] == "b0501" and names[-1] == "b1499"
    assert "never" in dict(bodies.latest(rows, "never"))
