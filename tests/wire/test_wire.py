"""The pack protocol against servers that split, cut, trickle, lie and flood."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridge.adapters import wire
from bridge.adapters.wire import ABSENT, Advertisement, Limits, Wire, packet
from bridge.core.errors import AnswerLost, Refused, SoulError, Transient
from bridge.core.layout import MAIN

ONE, TWO, THREE = "1" * 40, "2" * 40, "3" * 40
READ = b"side-band-64k ofs-delta thin-pack no-progress agent=git/2"
WRITE = b"report-status delete-refs side-band-64k quiet agent=git/2"


class Line:
    """A channel that plays a script, a given number of bytes at a time, and then ends."""

    def __init__(self, script: bytes, sizes: Iterator[int] | None = None, stderr: bytes = b"", code: int | None = None):
        self.script = script
        self.sizes = sizes or itertools.repeat(1 << 20)
        self.said = stderr
        self.code = code
        self.sent = b""
        self.taken = 0
        self.deaf = False

    def send(self, content: bytes, seconds: float) -> None:
        if self.deaf:
            raise Transient("it stopped listening")
        self.sent += content

    def recv(self, limit: int, seconds: float) -> bytes:
        piece = self.script[self.taken : self.taken + max(1, min(limit, next(self.sizes)))]
        self.taken += len(piece)
        return piece

    def stderr(self, seconds: float) -> bytes:
        return self.said

    def status(self) -> int | None:
        return self.code

    def close(self) -> None:
        pass


def spoken(script: bytes, **how: object) -> Wire:
    return Wire(Line(script, **how), lambda: 60.0)  # type: ignore[arg-type]


def advertised(*refs: tuple[str, str], capabilities: bytes = READ) -> bytes:
    lines = [f"{oid} {name}".encode() for oid, name in refs] or [f"{ABSENT} capabilities^{{}}".encode()]
    lines[0] += b"\0" + capabilities
    return b"".join(packet(line + b"\n") for line in lines) + b"0000"


def bands(*pieces: tuple[int, bytes]) -> bytes:
    return b"".join(packet(bytes([band]) + piece) for band, piece in pieces) + b"0000"


def report(*lines: bytes) -> bytes:
    return b"".join(packet(line + b"\n") for line in lines) + b"0000"


WHOLE = advertised((TWO, "HEAD"), (TWO, MAIN), (ONE, "refs/tags/v1"), (THREE, "refs/tags/v1^{}"))


# --- what a service says first ---------------------------------------------------------------------------------------


def test_an_advertisement_names_refs_and_capabilities() -> None:
    said = wire.advertisement(spoken(WHOLE))
    assert (said.tip, said.others) == (TWO, ("refs/tags/v1",))
    assert {"side-band-64k", "thin-pack"} <= said.capabilities


def test_an_empty_repository_says_only_a_flush_or_no_ref_at_all() -> None:
    assert wire.advertisement(spoken(b"0000")).refs == {}
    said = wire.advertisement(spoken(advertised(capabilities=WRITE)))
    assert (said.refs, said.tip) == ({}, None)
    assert "report-status" in said.capabilities


def test_haves_may_come_first_and_carry_the_capabilities() -> None:
    said = wire.advertisement(spoken(advertised((ONE, ".have"), (THREE, ".have"), (TWO, MAIN), capabilities=WRITE)))
    assert (said.tip, said.others, set(said.haves)) == (TWO, (), {ONE, THREE})
    assert "report-status" in said.capabilities


def test_names_that_are_no_text_stay_apart() -> None:
    """REPO-5: another branch whose name is in no encoding stops nobody."""
    lines = [
        b"%s refs/heads/%s" % (oid.encode(), name) for oid, name in ((ONE, b"\xe9"), (THREE, b"\xe8"), (TWO, b"main"))
    ]
    script = packet(lines[0] + b"\0" + WRITE + b"\n") + b"".join(packet(line + b"\n") for line in lines[1:])
    said = wire.advertisement(spoken(script + b"0000"))
    assert said.tip == TWO and said.others == (r"refs/heads/\xe8", r"refs/heads/\xe9")


@given(st.lists(st.integers(1, 9), min_size=1, max_size=20))
def test_an_advertisement_may_be_split_anywhere(sizes: list[int]) -> None:
    line = spoken(WHOLE, sizes=itertools.cycle(sizes))
    assert wire.advertisement(line) == wire.advertisement(spoken(WHOLE))


@pytest.mark.parametrize("length", range(len(WHOLE) - 1))
def test_an_advertisement_that_is_cut_is_transient(length: int) -> None:
    with pytest.raises(Transient):
        wire.advertisement(spoken(WHOLE[:length]))


@given(st.binary(max_size=400))
@settings(max_examples=200)
def test_no_bytes_make_an_advertisement_fail_in_another_way(content: bytes) -> None:
    for script in (content, WHOLE[:30] + content, b"".join(packet(part) for part in content.split(b"\n")) + b"0000"):
        try:
            wire.advertisement(spoken(script))
        except SoulError as error:
            assert not any(ord(letter) < 32 and letter != "\n" for letter in error.message)


@given(st.data())
@settings(max_examples=200)
def test_a_damaged_advertisement_gives_no_ref_without_a_whole_id(data: st.DataObject) -> None:
    broken = bytearray(WHOLE)
    for _ in range(data.draw(st.integers(1, 3))):
        broken[data.draw(st.integers(0, len(broken) - 1))] = data.draw(st.integers(0, 255))
    try:
        said = wire.advertisement(spoken(bytes(broken)))
    except SoulError:
        return
    assert all(len(oid) == 40 and set(oid) <= set("0123456789abcdef") for oid in said.refs.values())


@pytest.mark.parametrize(
    "script",
    [
        b"0001",
        b"0003",
        b"fff1",
        b"ffff",
        b"-001",
        b" 004",
        b"0x04",
        packet(b"hello"),
        packet(b"1" * 39 + b" " + MAIN.encode()),
    ],
)
def test_what_is_not_the_protocol_is_told_from_silence(script: bytes) -> None:
    with pytest.raises(SoulError) as caught:
        wire.advertisement(spoken(script + b"0000"))
    assert "cut" not in caught.value.message


def test_one_name_with_two_ids_is_a_lie() -> None:
    with pytest.raises(Transient):
        wire.advertisement(spoken(advertised((ONE, MAIN), (TWO, MAIN))))


def test_a_shallow_repository_and_one_of_other_ids_are_no_souls() -> None:
    """REPO-5."""
    shallow = packet(f"{ONE} {MAIN}".encode() + b"\0" + READ) + packet(b"shallow " + TWO.encode()) + b"0000"
    longer = packet(b"a" * 64 + b" " + MAIN.encode() + b"\0object-format=sha256") + b"0000"
    foreign = advertised((ONE, MAIN), capabilities=b"object-format=sha256")
    for script in (shallow, foreign):
        with pytest.raises(Refused) as caught:
            wire.advertisement(spoken(script))
        assert (caught.value.kind, caught.value.rule) == ("not-a-soul", "REPO-5")
    with pytest.raises(SoulError):
        wire.advertisement(spoken(longer))


# --- refusals, wherever the words come from --------------------------------------------------------------------------


def test_a_refusal_is_read_from_the_error_stream() -> None:
    """AUTH-3: the words of a read-only key choose the advice."""
    words = b"ERROR: The key you are authenticating with has been marked as read only.\n"
    with pytest.raises(Refused) as caught:
        wire.advertisement(spoken(b"", stderr=words, code=1))
    assert caught.value.kind == "auth"
    assert caught.value.message == words.decode().strip()
    assert "write access" in caught.value.advice


@pytest.mark.parametrize("code", [None, 0, 1, 128])
def test_a_server_that_says_nothing_after_the_login_is_trouble_on_the_way(code: int | None) -> None:
    """AUTH-3: it took the key, so nobody has to add one."""
    with pytest.raises(Transient) as caught:
        wire.advertisement(spoken(b"", code=code))
    assert caught.value.kind == "network"
    if code is not None:
        assert "accepted the key, then closed the connection without a word" in caught.value.message
        assert str(code) in caught.value.message


def test_a_refusal_is_read_from_an_error_packet() -> None:
    with pytest.raises(Refused) as caught:
        wire.advertisement(spoken(packet(b"ERR access denied or repository not exported: /x")))
    assert (caught.value.kind, caught.value.message) == ("auth", "access denied or repository not exported: /x")


def test_a_refusal_on_stdout_is_shown() -> None:
    with pytest.raises(Refused) as caught:
        wire.advertisement(spoken(b"ERROR: no such user\n"))
    assert caught.value.message == "ERROR: no such user"


# --- fetching --------------------------------------------------------------------------------------------------------


def served(script: bytes, **how: object) -> tuple[Wire, Advertisement]:
    line = spoken(WHOLE + script, **how)
    return line, wire.advertisement(line)


def test_a_fetch_asks_for_the_tip_and_names_what_is_here() -> None:
    line, said = served(packet(b"NAK\n") + bands((1, b"PACK")))
    assert b"".join(wire.fetch(line, said, TWO, [ONE])) == b"PACK"
    sent = line.channel.sent  # type: ignore[attr-defined]
    assert sent.startswith(packet(f"want {TWO} side-band-64k ofs-delta thin-pack no-progress {wire.AGENT}\n".encode()))
    assert sent.endswith(b"0000" + packet(f"have {ONE}\n".encode()) + packet(b"done\n"))


@given(st.lists(st.binary(max_size=50), max_size=8), st.lists(st.integers(1, 30), min_size=1, max_size=9))
def test_a_pack_arrives_whole_however_it_is_split(pieces: list[bytes], sizes: list[int]) -> None:
    script = packet(f"ACK {ONE}\n".encode()) + bands(*[(1, piece) for piece in pieces], (2, b"Counting"))
    line = spoken(WHOLE + script, sizes=itertools.cycle(sizes))
    assert b"".join(wire.fetch(line, wire.advertisement(line), TWO, [ONE])) == b"".join(pieces)
    assert line.words == "Counting"


def test_a_server_without_side_bands_sends_the_pack_to_the_end() -> None:
    line = spoken(advertised((TWO, MAIN), capabilities=b"ofs-delta") + packet(b"NAK\n") + b"PACK and so on")
    assert b"".join(wire.fetch(line, wire.advertisement(line), TWO, ())) == b"PACK and so on"


@pytest.mark.parametrize("length", range(len(packet(b"NAK\n") + bands((1, b"PACK"), (2, b"done")))))
def test_a_pack_that_is_cut_is_transient(length: int) -> None:
    line, said = served((packet(b"NAK\n") + bands((1, b"PACK"), (2, b"done")))[:length])
    with pytest.raises(Transient):
        list(wire.fetch(line, said, TWO, ()))


def test_band_three_and_an_error_packet_end_a_fetch_with_the_servers_words() -> None:
    for script in (bands((3, b"aborting due to possible repository corruption\0")), packet(b"ERR not our ref")):
        line, said = served(packet(b"NAK\n") + script)
        with pytest.raises(Transient) as caught:
            list(wire.fetch(line, said, TWO, ()))
        assert caught.value.message.endswith(("corruption", "not our ref"))


@given(st.binary(max_size=200))
def test_no_bytes_make_a_fetch_fail_in_another_way(content: bytes) -> None:
    for script in (content, packet(b"NAK\n") + content, packet(b"NAK\n") + packet(content) + b"0000"):
        line, said = served(script)
        try:
            list(wire.fetch(line, said, TWO, ()))
        except SoulError as error:
            assert not isinstance(error, AnswerLost)


# --- limits ----------------------------------------------------------------------------------------------------------


class Flood(Line):
    """A channel that repeats one packet for ever."""

    def recv(self, limit: int, seconds: float) -> bytes:
        self.taken += limit
        unit = self.script
        at = (self.taken - limit) % len(unit)
        return (unit[at:] + unit * (limit // len(unit) + 1))[:limit]


def test_endless_refs_are_refused_at_a_bound() -> None:
    flood = Flood(packet(f"{ONE} refs/heads/x\n".encode()))
    with pytest.raises(Refused) as caught:
        wire.advertisement(Wire(flood, lambda: 60.0, Limits(refs=500)))
    assert caught.value.kind == "not-a-soul"
    assert flood.taken < 100_000


def test_endless_names_are_refused_at_a_bound() -> None:
    flood = Flood(packet(f"{ONE} refs/heads/{'x' * 60_000}\n".encode()))
    with pytest.raises(Refused):
        wire.advertisement(Wire(flood, lambda: 60.0, Limits(advertisement=200_000)))
    assert flood.taken < 400_000


def test_an_endless_pack_is_refused_at_a_bound() -> None:
    line, said = served(b"")
    flood = Wire(Flood(packet(b"\x01" + b"x" * 1000)), lambda: 60.0, Limits(pack=50_000))
    with pytest.raises(Refused):
        list(flood.banded(flood.limits.pack))
    assert said.tip == TWO


def test_endless_talk_is_refused_at_a_bound_and_only_its_ends_are_kept() -> None:
    flood = Wire(Flood(packet(b"\x02" + b"x" * 1000)), lambda: 60.0, Limits(pack=50_000))
    with pytest.raises(Refused):
        list(flood.banded(flood.limits.pack))
    assert len(flood.words) <= 2 * wire.ENDS + 1


def test_a_server_that_trickles_for_ever_runs_out_of_time() -> None:
    left = iter(range(20, -1, -1))
    flood = Wire(Flood(packet(b"\x01")), lambda: float(next(left)), Limits(words=1 << 30))
    with pytest.raises(Transient) as caught:
        list(flood.banded(flood.limits.pack))
    assert "too long" in caught.value.message


# --- pushing ---------------------------------------------------------------------------------------------------------


def pushed(script: bytes, capabilities: bytes = WRITE, **how: object) -> tuple[wire.Report, bytes]:
    line = spoken(advertised((ONE, MAIN), capabilities=capabilities) + script, **how)
    said = wire.advertisement(line)
    return wire.push(line, said, said.tip, TWO, b"PACK"), line.channel.sent  # type: ignore[attr-defined]


GOOD = report(b"unpack ok", b"ok " + MAIN.encode())


def test_a_push_sends_one_command_with_both_ids_and_the_pack() -> None:
    answer, sent = pushed(bands((1, GOOD)))
    assert answer.accepted
    assert sent == packet(f"{ONE} {TWO} {MAIN}\0 report-status side-band-64k quiet {wire.AGENT}".encode()) + b"0000PACK"


def test_only_the_report_on_main_counts_as_success() -> None:
    for lines in ([b"unpack ok"], [b"unpack ok", b"ok refs/heads/other"], [b"ok refs/heads/mainly"], []):
        with pytest.raises(AnswerLost):
            pushed(bands((1, report(*lines))))


def test_a_report_is_believed_before_the_flush_packet() -> None:
    answer, _ = pushed(packet(b"\x01" + GOOD[:-4]))
    assert answer.accepted


@given(st.lists(st.integers(1, 12), min_size=1, max_size=9), st.integers(1, 10))
def test_a_report_may_be_split_anywhere(sizes: list[int], part: int) -> None:
    nested = [(1, GOOD[at : at + part]) for at in range(0, len(GOOD), part)]
    answer, _ = pushed(bands((2, b"hello"), *nested), sizes=itertools.cycle(sizes))
    assert answer.accepted


def test_a_server_without_side_bands_reports_plainly() -> None:
    assert pushed(GOOD, b"report-status")[0].accepted


def test_a_refusal_of_main_comes_with_its_reason_and_words() -> None:
    lines = report(b"unpack ok", b"ng " + MAIN.encode() + b" pre-receive hook declined")
    answer, _ = pushed(bands((2, b"no secrets\x1b[1m here\n"), (1, lines)))
    assert answer == wire.Report(False, True, "pre-receive hook declined", "no secrets\\x1b[1m here")


TALK = [b"".join(b"line %d\n" % (row * 5000 + at) for at in range(5000)) for row in range(100)]  # more than 5 MiB


def test_a_refusal_after_many_words_is_a_refusal_and_shows_the_first_and_the_last_of_them() -> None:
    """REPO-8: a hook may say more than anybody reads; what it said of the push counts all the same."""
    lines = report(b"unpack ok", b"ng " + MAIN.encode() + b" pre-receive hook declined")
    said = [(2, piece) for talk in TALK for piece in (talk[:60_000], talk[60_000:])]
    assert sum(len(piece) for _, piece in said) > 5 * 1024 * 1024
    answer, _ = pushed(bands(*said, (2, b"a secret in notes/a.md\n"), (1, lines)))
    assert answer == wire.Report(False, True, "pre-receive hook declined", answer.words)
    assert len(answer.words) <= 2 * wire.ENDS + 1
    assert "line 0\n" in answer.words and answer.words.endswith("line 499999\na secret in notes/a.md")
    shown = answer.shown.split("\n")
    assert shown[0] == "line 0" and shown[-1] == "a secret in notes/a.md"
    assert len(shown) == 21 and "… and 499981 more lines …" in shown


def test_a_push_is_accepted_after_many_words_and_lost_after_endless_ones() -> None:
    said = [(2, talk[:60_000]) for talk in TALK]
    assert pushed(bands(*said, (1, GOOD)))[0].accepted
    line = Wire(Line(advertised((ONE, MAIN), capabilities=WRITE) + bands(*said)), lambda: 60.0, Limits(progress=10**6))
    with pytest.raises(AnswerLost):
        wire.push(line, wire.advertisement(line), ONE, TWO, b"PACK")


def test_a_pack_that_was_not_unpacked_is_told_from_a_refusal() -> None:
    lines = report(b"unpack index-pack abnormal exit", b"ng " + MAIN.encode() + b" unpacker error")
    assert pushed(bands((1, lines)))[0] == wire.Report(False, False, "unpacker error", "")
    assert not pushed(bands((1, report(b"unpack no room"))))[0].unpacked


def test_a_failed_send_is_followed_by_reading_the_report() -> None:
    lines = report(b"unpack index-pack abnormal exit", b"ng " + MAIN.encode() + b" unpacker error")
    line = spoken(advertised((ONE, MAIN), capabilities=WRITE) + bands((1, lines)))
    said = wire.advertisement(line)
    line.channel.deaf = True  # type: ignore[attr-defined]
    assert not wire.push(line, said, ONE, TWO, b"PACK").accepted


@pytest.mark.parametrize("length", range(len(bands((1, GOOD))) - 4))
def test_a_push_without_its_answer_is_lost_and_not_refused(length: int) -> None:
    whole = bands((1, GOOD))[:length]
    with pytest.raises(AnswerLost):
        pushed(whole)


def test_words_on_the_way_out_are_kept_with_a_lost_answer() -> None:
    with pytest.raises(AnswerLost) as caught:
        pushed(bands((3, b"disk full")))
    assert "disk full" in caught.value.message


def test_a_server_that_would_not_report_is_not_pushed_to() -> None:
    with pytest.raises(Refused):
        pushed(b"", b"delete-refs")


@given(st.binary(max_size=200))
def test_no_bytes_after_a_push_look_like_success_or_fail_in_another_way(content: bytes) -> None:
    for script in (content, packet(b"\x01" + content), bands((1, report(b"unpack ok", content.replace(b"\n", b""))))):
        try:
            assert not pushed(script)[0].accepted
        except SoulError as error:
            assert isinstance(error, AnswerLost)
