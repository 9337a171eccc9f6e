"""git's pack protocol (version 0) over one channel, and nothing else: no connection, no repository, no clock.

The server is not trusted: every packet, list and stream has a limit, every step a deadline, and its words are made
readable before anybody sees them.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

from bridge.core.errors import AnswerLost, Refused, SoulError, Transient
from bridge.core.layout import MAIN
from bridge.core.words import advice, readable, told

ABSENT = "0" * 40
AGENT = "agent=soul-bridge"
FLUSH = b"0000"
BIGGEST_PACKET = 65520
MOST_WORDS = 8192  # bytes of what a server says in place of the protocol
ENDS = 1024  # bytes that are kept of the first and of the last things it says beside it
PIECE = 32 * 1024
LEAST = 64  # bytes that a packet which brings nothing counts for: small ones cost as much time

_OID = re.compile(rb"[0-9a-f]{40}\Z")


class Channel(Protocol):
    """A two-way stream to a command on the server. Everything raises Transient when it is cut or silent too long."""

    def send(self, content: bytes, seconds: float) -> None:
        """Send everything."""

    def recv(self, limit: int, seconds: float) -> bytes:
        """Some bytes, b"" at the end of the stream."""

    def stderr(self, seconds: float) -> bytes:
        """What the command said on its error stream until it ended, bounded. Never raises."""

    def status(self) -> int | None:
        """The command's exit code, None while it is unknown."""

    def close(self) -> None:
        """Let go. Never raises."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a server may ask of us at most: refs, bytes of an advertisement, bytes of a pack, bytes of everything else
    that it says (acknowledgements, a report), bytes of what it and its hooks say about a push, seconds of silence."""

    refs: int = 20_000
    advertisement: int = 8 * 1024 * 1024
    pack: int = 4 * 1024 * 1024 * 1024
    words: int = 4 * 1024 * 1024
    progress: int = 256 * 1024 * 1024
    silence: float = 30.0


@dataclass(frozen=True, slots=True)
class Advertisement:
    """What a service says first. haves: further objects the server has (`.have` lines)."""

    refs: dict[str, str]
    capabilities: frozenset[str]
    haves: frozenset[str] = frozenset()

    @property
    def tip(self) -> str | None:
        """Where main stands, None when absent."""
        return self.refs.get(MAIN)

    @property
    def others(self) -> tuple[str, ...]:
        """Names of the other refs, sorted."""
        return tuple(sorted(name for name in self.refs if name != MAIN))


class Wire:
    """A conversation on one channel. left: how many seconds the whole operation still has."""

    def __init__(self, channel: Channel, left: Callable[[], float], limits: Limits = Limits()) -> None:  # noqa: B008
        self.channel = channel
        self.limits = limits
        self.left = left
        self._held = b""  # what has arrived and was not asked for yet
        self._said, self._last = bytearray(), bytearray()
        self._missing: int | None = None  # line ends between these two that were not kept; None: everything was
        self.serving = False  # whether the server began to serve us: from then on, giving up is not refusing

    def send(self, content: bytes) -> None:
        """Send bytes. Raises Transient."""
        self.channel.send(content, self._patience())

    def part(self) -> None:
        """Say that nothing more is wanted. A server that has left by then has answered all the same."""
        with contextlib.suppress(Transient):
            self.send(FLUSH)

    def packet(self) -> bytes | None:
        """The next pkt-line's content; None for a flush packet.

        Raises Transient when the stream ends, is not made of packets, or the server gives up (ERR); before it began to
        serve, that is Refused(kind="auth").
        """
        size = _length(self._exactly(4))
        return self._content(size) if size else None

    def opening(self) -> bytes | None:
        """The first packet; a server that refuses says so in another way.

        Raises Refused(kind="auth") with its words when it ends at once or does not speak the protocol, Transient when
        it ends or was cut without a word.
        """
        head = b""
        while len(head) < 4 and (piece := self._some(4 - len(head))):
            head += piece
        if len(head) < 4:
            words = self.channel.stderr(self._patience())
            if not words and self.channel.status() is None:
                raise Transient("the connection was cut before the server answered")
            raise self.refused(head + words)
        if not re.fullmatch(rb"[0-9a-fA-F]{4}", head):
            raise self.refused(head + self._rest())
        size = _length(head)
        return self._content(size) if size else None

    def pieces(self, most: int) -> Iterator[bytes]:
        """The rest of the stream as it comes, to its end: what a server sends that has no side bands."""
        total = 0
        while piece := self._some(PIECE):
            total += len(piece)
            self._bounded(total, most)
            yield piece

    def banded(self, most: int, talk: int | None = None) -> Iterator[bytes]:
        """Band 1 until the flush packet; band 2 is kept as words, band 3 raises Transient with them.

        most: bytes of band 1. talk: bytes of everything else, None: as the limits say of words.
        """
        talk = self.limits.words if talk is None else talk
        total, beside, begun = 0, 0, False
        while (content := self.packet()) is not None:
            band, piece = content[:1], content[1:]
            if band == b"\x01" and piece:
                total += len(piece)
            else:
                beside += max(len(content), LEAST)
            self._bounded(total, most)
            self._bounded(beside, talk)
            if band == b"\x01":
                yield piece
            elif band == b"\x02":
                self.remember(piece)
            elif band == b"\x03":
                raise self.gave_up(piece)
            elif begun or content[:3] not in (b"ACK", b"NAK"):
                raise _garbled(content)
            begun = begun or band < b"\x04"

    def remember(self, words: bytes) -> None:
        """Keep what the server says beside the protocol: its beginning, and its end, where a hook gives its reason."""
        room = ENDS - len(self._said)
        self._said += words[:room]
        self._last += words[room:]
        if len(self._last) > ENDS:
            self._missing = (self._missing or 0) + self._last[:-ENDS].count(b"\n")
            del self._last[:-ENDS]

    @property
    def words(self) -> str:
        """What was kept of what the server said beside the protocol, readable."""
        return readable(self._kept, 2 * ENDS + 1)

    @property
    def shown(self) -> str:
        """The same for a person: of many lines, the first and the last."""
        # The line that the first bytes break off in and the one that the last begin in are among those that are kept.
        return told(self._kept, max(0, (self._missing or 0) - 1))

    @property
    def _kept(self) -> bytes:
        return bytes(self._said + (b"" if self._missing is None else b"\n") + self._last)

    def refused(self, words: bytes = b"") -> SoulError:
        """The refusal of a server that would not serve us, with its words from wherever they came. Who was let in and
        heard no word was not refused: Transient."""
        said = told(words) or self.shown or told(self.channel.stderr(self._patience()))
        if not said:
            code = self.channel.status()
            ended = "" if code is None else f" (the command there ended with {code})"
            return Transient(f"the server accepted the key, then closed the connection without a word{ended}")
        return Refused(said, kind="auth", rule="AUTH-3", advice=advice(said))

    def gave_up(self, words: bytes) -> Transient:
        """The failure of a server that had begun to serve us, with its words."""
        self.remember(words)
        return Transient(f"the server gave up: {self.shown}", advice=advice(self.words))

    def _content(self, size: int) -> bytes:
        content = self._exactly(size - 4)
        if content.startswith(b"ERR "):
            raise self.gave_up(content[4:]) if self.serving else self.refused(content[4:])
        return content

    def _exactly(self, size: int) -> bytes:
        content = bytearray()
        while len(content) < size:
            piece = self._some(size - len(content))
            if not piece:
                raise Transient("the connection was cut in the middle of an answer")
            content += piece
        return bytes(content)

    def _some(self, limit: int) -> bytes:
        """Some bytes, b"" at the end of the stream; the channel is asked for many at once, however few are wanted."""
        held = self._held or self.channel.recv(PIECE, self._patience())
        self._held = held[limit:]
        return held[:limit]

    def _rest(self) -> bytes:
        """More of a text that is no protocol: what comes at once, for whoever waits for its end may wait for ever."""
        if self._held:
            return self._some(MOST_WORDS)
        try:
            return self.channel.recv(MOST_WORDS, min(1.0, self._patience()))
        except Transient:
            return b""

    def _patience(self) -> float:
        left = self.left()
        if left <= 0:
            raise Transient("the remote took too long")
        return min(left, self.limits.silence)

    def _bounded(self, total: int, most: int) -> None:
        if total > most:
            raise Refused(
                f"the remote sends more than {most} bytes",
                kind="rejected",
                advice="Nothing was kept of it. Look at the repository on the server: a soul is small.",
            )


def packet(content: bytes) -> bytes:
    """A pkt-line."""
    return b"%04x%s" % (len(content) + 4, content)


def advertisement(wire: Wire) -> Advertisement:
    """Read what the service says first.

    Raises Refused(kind="auth") when the server refuses to serve, Refused(kind="not-a-soul", rule="REPO-5") for a
    repository that cannot be a soul, Transient when it is cut.
    """
    refs: dict[str, str] = {}
    haves: set[str] = set()
    words: bytes | None = None
    shallow = False
    total = lines = 0
    content = wire.opening()
    while content is not None:
        total, lines = total + len(content), lines + 1
        if total > wire.limits.advertisement or lines > wire.limits.refs:
            raise _no_soul(f"the remote has more than {min(lines, wire.limits.refs)} refs")
        line, _, after = content.rstrip(b"\n").partition(b"\0")
        words = after if words is None else words
        if line.startswith(b"shallow "):
            shallow = True
        else:
            _enter(line, refs, haves)
        content = wire.packet()
    capabilities = frozenset((words or b"").decode("ascii", "replace").split())
    if any(word.startswith("object-format=") and word != "object-format=sha1" for word in capabilities):
        raise _no_soul("the remote's objects are not named by SHA-1")
    if shallow:
        raise _no_soul("the remote is shallow: a part of its history is missing")
    wire.serving = True
    return Advertisement(refs, capabilities, frozenset(haves))


def fetch(wire: Wire, said: Advertisement, tip: str, haves: Iterable[str]) -> Iterator[bytes]:
    """The pack that brings `tip` to someone who has `haves`. Raises Transient."""
    wanted = [name for name in ("side-band-64k", "ofs-delta", "thin-pack", "no-progress") if name in said.capabilities]
    request = packet(f"want {tip} {' '.join([*wanted, AGENT])}\n".encode()) + FLUSH
    wire.send(request + b"".join(packet(f"have {oid}\n".encode()) for oid in haves) + packet(b"done\n"))
    answer = wire.packet()
    if answer is None or answer[:3] not in (b"ACK", b"NAK"):
        raise _garbled(answer or b"")
    most = wire.limits.pack
    yield from wire.banded(most) if "side-band-64k" in wanted else wire.pieces(most)


@dataclass(frozen=True, slots=True)
class Report:
    """What receive-pack said about the push of main: nothing but `accepted` is success.

    words: what was kept of the server's words. shown: the same for a person.
    """

    accepted: bool
    unpacked: bool
    reason: str
    words: str
    shown: str = field(default="", compare=False)


def push(wire: Wire, said: Advertisement, old: str | None, new: str, pack: bytes) -> Report:
    """Ask for main to be moved from `old` to `new`, and read the report.

    Raises Refused when nothing can be asked of this server, AnswerLost when it was asked and did not answer.
    """
    if "report-status" not in said.capabilities:
        raise Refused("the server would not say whether it took a push", kind="rejected")
    wanted = [name for name in ("report-status", "side-band-64k", "quiet") if name in said.capabilities]
    command = f"{old or ABSENT} {new} {MAIN}\0 {' '.join([*wanted, AGENT])}".encode()
    try:
        wire.send(packet(command) + FLUSH)
        for start in range(0, len(pack), PIECE):
            wire.send(pack[start : start + PIECE])
    except Transient as error:
        wire.remember(error.message.encode())  # a server that refuses in mid-upload has said why: read on
    try:
        return _report(wire, "side-band-64k" in wanted)
    except (Transient, Refused) as error:  # Refused: more bytes than a report can have
        said_last = wire.shown or told(wire.channel.stderr(1.0))
        raise AnswerLost(f"the push was sent, but no answer came: {said_last or error.message}") from error


def _report(wire: Wire, banded: bool) -> Report:
    """Read until main is named, or to the end. The flush packet is not waited for: slow hooks come before it."""
    unpacked, most = "", wire.limits.words
    for line in _nested(wire.banded(most, wire.limits.progress) if banded else wire.pieces(most)):
        word, _, rest = line.decode("utf-8", "replace").rstrip("\n").partition(" ")
        name, _, reason = rest.partition(" ")
        if word == "unpack":
            unpacked = rest
        elif word == "ok" and name == MAIN:
            return Report(True, True, "", wire.words)
        elif word == "ng" and name == MAIN:
            return Report(False, unpacked == "ok", readable(reason), wire.words, wire.shown)
    if unpacked and unpacked != "ok":
        return Report(False, False, readable(unpacked), wire.words, wire.shown)
    raise Transient("the connection was cut before the server's report")


def _nested(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The pkt-lines in a stream that may be split anywhere, up to its flush packet."""
    held = bytearray()
    for piece in pieces:
        held += piece
        while len(held) >= 4:
            size = _length(bytes(held[:4]))
            if size == 0:
                return
            if len(held) < size:
                break
            yield bytes(held[4:size])
            del held[:size]


def _length(head: bytes) -> int:
    """Length of a pkt-line with its head, 0 for a flush packet."""
    if not re.fullmatch(rb"[0-9a-fA-F]{4}", head):
        raise _garbled(head)
    size = int(head, 16)
    if size > BIGGEST_PACKET or 0 < size < 4:
        raise _garbled(head)
    return size


def _enter(line: bytes, refs: dict[str, str], haves: set[str]) -> None:
    """Note one line of an advertisement. HEAD and peeled tags say nothing that is needed here."""
    oid, _, name = line.partition(b" ")
    if not _OID.match(oid) or not name:
        raise _garbled(line)
    if name == b".have":
        haves.add(oid.decode())
    elif name.startswith(b"refs/") and not name.endswith(b"^{}"):
        known = refs.setdefault(name.decode("utf-8", "backslashreplace"), oid.decode())
        if known != oid.decode():
            raise _garbled(line)


def _garbled(content: bytes) -> Transient:
    return Transient(f"the server's answer is not git's protocol: {readable(content[:200])}")


def _no_soul(message: str) -> Refused:
    return Refused(
        message,
        kind="not-a-soul",
        rule="REPO-5",
        advice="Nothing was written there. Check `remote` in the configuration, or use an empty repository.",
    )
