"""A server that means harm, over a real connection: every answer ends in a sentence, soon, and nothing is lost."""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bridge.adapters import hosts, keys
from bridge.adapters.clock import SystemClock
from bridge.adapters.remote import Access, Patience, Remote
from bridge.adapters.repo import Repo
from bridge.core import address
from bridge.core.errors import AnswerLost, Moved, Refused, SoulError, Transient
from tests.hostile import forge
from tests.hostile.bounded import Bounded, Ground
from tests.hostile.forge import entry, pack
from tests.hostile.scripted import Script, ScriptedHost, advertised, band, report
from tests.hostile.scripted import line as packet

NEW = "ab" * 20
ESCAPES = b"\x1b[2J\x1b]0;owned\x07 \x9b31m \xe2\x80\xae gnp.exe\xe2\x81\xa6 \r\x08\x7f"
ACTS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f]")
SIZE = 15 << 20
FETCH, PUSH = "git-upload-pack", "git-receive-pack"


def served(*pieces: bytes) -> Script:
    """A fetch in which the remote has moved, and this comes in place of a pack."""
    return lambda tip: iter([advertised(NEW), packet(b"NAK\n"), *pieces])


def pushed(*pieces: bytes) -> Script:
    """A push that is taken for one, with this as its answer."""
    return lambda tip: iter([advertised(tip), *pieces])


def endless(*pieces: bytes, first: bytes = b"") -> Script:
    """The same for ever; the first piece once."""
    return lambda tip: itertools.chain([first], itertools.cycle(pieces))


def endless_refs(tip: str) -> Iterator[bytes]:
    yield advertised(NEW)[:-4]
    for start in itertools.count(step=200):
        yield b"".join(packet(b"%s refs/heads/b%d\n" % (NEW.encode(), number)) for number in range(start, start + 200))


def bomb() -> bytes:
    oid, packed = forge.zero_blob(SIZE)
    return pack(packed, entry("ref", forge.copies(SIZE, SIZE, 400), base=bytes.fromhex(oid)))


def pointing(kind: str) -> Script:
    """A main that is no commit, in a pack that is whole."""
    blob, tree = forge.name("blob", b"x\n"), b""
    content = {
        "blob": b"x\n",
        "tree": tree,
        "tag": b"object %s\ntype blob\ntag v\ntagger A <a@b> 1 +0000\n\nv\n" % blob.encode(),
    }[kind]
    packed = pack(entry("blob", b"x\n"), entry(kind, content))
    return lambda tip: iter([
        advertised(forge.name(kind, content)), packet(b"NAK\n"), band(1, packed), b"0000",
    ])  # fmt: skip


CUT, NO, SHUT, NONE = {"network"}, {"rejected"}, {"auth"}, {"not-a-soul"}
EITHER = CUT | NO
# By name: the script, and the kinds of error that are an honest answer.
FETCHES: dict[str, tuple[Script, set[str]]] = {
    "refs without end": (endless_refs, NONE),
    "names without end": (endless(packet(b"%s refs/heads/" % NEW.encode() + b"n" * 60_000)), NONE | CUT),
    "haves without end": (endless(packet(b"%s .have" % NEW.encode())), NONE),
    "text without end": (endless(b"welcome to the machine\n"), SHUT | CUT),
    "packets of nothing without end": (endless(b"0004", first=advertised(NEW)[:-4]), NONE | CUT),
    "a packet length that is no number": (lambda tip: iter([b"zzzz", b"x" * 100]), SHUT | CUT),
    "a packet longer than there may be": (lambda tip: iter([b"ffff" + b"x" * 70_000]), CUT),
    "a packet of three bytes": (lambda tip: iter([b"0003abc"]), CUT),
    "two values of main": (lambda tip: iter([
        advertised(NEW, b"%s refs/heads/main" % tip.encode())]), CUT),
    "an id that is none": (lambda tip: iter([advertised("../../../../../../etc/passwd-------------")]), CUT),
    "an error that acts": (lambda tip: iter([packet(b"ERR " + ESCAPES)]), SHUT),
    "an end before the pack": (served(), CUT),
    "a flush in place of the pack": (served(b"0000"), EITHER),
    "a pack that lacks the tip": (served(band(1, pack(entry("blob", b"x"))), b"0000"), CUT),
    "a pack with a wrong checksum": (served(band(1, pack(entry("blob", b"x"), trail=b"\0" * 20)), b"0000"), NO),
    "a pack that is cut": (served(band(1, pack(entry("blob", b"x" * 99))[:30]), b"0000"), CUT),
    "a pack without end": (lambda tip: itertools.chain(
        [advertised(NEW), packet(b"NAK\n"), band(1, pack(count=0xFFFFFFFF)[:12])],
        itertools.repeat(band(1, entry("blob", b"x" * 60_000, level=0)))), NO),
    "a bomb": (served(band(1, bomb()), b"0000"), NO),
    "talk without end": (lambda tip: itertools.chain(
        [advertised(NEW), packet(b"NAK\n")], itertools.repeat(band(2, b"counting\r" * 7_000))), EITHER),
    "acknowledgements without end": (lambda tip: itertools.chain(
        [advertised(NEW)], itertools.repeat(packet(b"NAK\n") * 1_000)), EITHER),
    "a failure that acts": (served(band(3, ESCAPES)), CUT),
    "talk that acts": (served(band(2, ESCAPES * 50), band(3, b"bye")), CUT),
    "a band that there is not": (served(band(9, b"x")), CUT),
    "a packet without a band": (served(b"0004", b"0000"), EITHER),
    "main is a blob": (pointing("blob"), {"network", "not-a-soul", "rejected"}),
    "main is a tree": (pointing("tree"), {"network", "not-a-soul", "rejected"}),
    "main is a tag": (pointing("tag"), {"network", "not-a-soul", "rejected"}),
}  # fmt: skip
PUSHES: dict[str, tuple[Script, set[str]]] = {
    "another ref was taken": (pushed(report(b"unpack ok\n", b"ok refs/heads/other\n")), CUT),
    "a ref that begins like main": (pushed(report(b"unpack ok\n", b"ok refs/heads/main2\n")), CUT),
    "words that look like success": (pushed(band(2, b"unpack ok\nok refs/heads/main\n"), b"0000"), CUT),
    "a refusal that acts": (pushed(report(b"unpack ok\n", b"ng refs/heads/main " + ESCAPES + b"\n")), NO),
    "a hook that acts": (pushed(band(2, ESCAPES), report(b"unpack ok\n", b"ng refs/heads/main hook declined\n")), NO),
    "a reason that would forge a line": (pushed(report(
        b"unpack ok\n", b"ng refs/heads/main no\n  problem    none\x1b[1A\n")), NO),
    "no report": (pushed(b"0000"), CUT),
    "a report without end": (lambda tip: itertools.chain(
        [advertised(tip)], itertools.repeat(band(1, packet(b"ok refs/heads/other\n") * 500))), CUT),
    "talk without end": (lambda tip: itertools.chain(
        [advertised(tip)], itertools.repeat(band(2, b"remote: scanning\n" * 3_000))), EITHER),
    "a report in pieces of nothing": (lambda tip: itertools.chain(
        [advertised(tip)], itertools.repeat(band(1, b"") * 1_000)), CUT),
    "a nested packet that is too long": (pushed(band(1, b"fffe" + b"x" * 60_000) * 3, b"0000"), CUT),
    "bytes that are no packets": (pushed(b"HTTP/1.1 200 OK\r\n\r\n"), CUT),
    "an unpacking that failed": (pushed(report(b"unpack " + ESCAPES + b"\n", b"ng refs/heads/main x\n")), EITHER),
}  # fmt: skip


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ScriptedHost]:
    """A host of its own: it plays its scripts to everybody."""
    running = ScriptedHost(tmp_path_factory.mktemp("scripted") / "h")
    running.start()
    yield running
    running.stop()


@pytest.fixture(scope="module")
def body(host: ScriptedHost, tmp_path_factory: pytest.TempPathFactory) -> Bounded:
    host.create("kaoru.soul.git")
    ground = Ground(host, tmp_path_factory.mktemp("wire"), "kaoru.soul.git", within=True)
    return ground.body("laptop", settle="10ms")


@pytest.fixture(autouse=True)
def healed(host: ScriptedHost) -> Iterator[None]:
    yield
    host.heal()


# --- the adapter alone, over a real connection -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def line(host: ScriptedHost, body: Bounded) -> Iterator[Remote]:
    """The remote that the program uses, on a clone of its own."""
    repo = Repo.open(body.soul)
    parsed = address.parse(body.remote)
    known = hosts.KnownHosts(body.home / "known_hosts")
    access = Access(parsed, lambda: keys.load(body.key, body.soul), lambda: known.lookup(parsed.known_host_key_name))
    made = Remote(access, repo, SystemClock(), Patience(step=5, look=5, transfer=12))
    yield made
    made.close()
    repo.close()


def suffered(call: Callable[[], Any], kinds: set[str], body: Bounded) -> SoulError:
    """The error that came of it: of an honest kind, soon, in words that cannot act, and nothing is left of it."""
    began = time.monotonic()
    with pytest.raises((Transient, Refused, Moved)) as caught:
        call()
    error = caught.value
    assert error.kind in kinds, (error.kind, error.message)
    assert error.message and not ACTS.search(error.message + error.advice), error.message
    assert len(error.message) < 5_000
    assert time.monotonic() - began < 14
    assert not list((body.soul / ".git/objects").rglob("tmp_*"))
    return error


@pytest.mark.parametrize("name", FETCHES)
def test_whatever_a_fetch_answers_it_ends_in_an_error_of_its_kind(
    host: ScriptedHost, body: Bounded, line: Remote, name: str
) -> None:
    script, kinds = FETCHES[name]
    host.scripts = {FETCH: script}
    suffered(lambda: line.fetch([body.tip()]), kinds, body)
    host.heal()
    assert line.fetch([body.tip()]).tip == body.tip()


@pytest.mark.parametrize("name", PUSHES)
def test_only_a_report_on_main_is_success(host: ScriptedHost, body: Bounded, line: Remote, name: str) -> None:
    """Whatever else the server says, what was not taken is not thought published."""
    script, kinds = PUSHES[name]
    host.scripts = {PUSH: script}
    error = suffered(lambda: line.push(body.tip(), body.tip()), kinds, body)
    assert isinstance(error, AnswerLost) or kinds != {"network"}


def test_words_on_the_error_stream_cannot_act(host: ScriptedHost, body: Bounded, line: Remote) -> None:
    host.refusal = ESCAPES * 2_000
    suffered(lambda: line.fetch([]), {"auth"}, body)
    host.heal()
    host.greeting = ESCAPES
    suffered(lambda: line.fetch([]), {"auth"}, body)


def test_talk_on_the_error_stream_without_end_is_cut(host: ScriptedHost, body: Bounded, line: Remote) -> None:
    """The session ends with the time for a look, although there is always something to hear."""
    host.babble_for_ever = True
    suffered(lambda: line.fetch([]), {"network", "auth"}, body)


# --- the program -----------------------------------------------------------------------------------------------------


def passed(body: Bounded, codes: set[int]) -> None:
    """One pass of the program against the script: an honest exit code, and words that cannot act."""
    done = body.run("sync")
    assert done.code in codes, (done.code, done.out[:500], done.err[:500])
    assert done.out and not ACTS.search(done.out + done.err), (done.out, done.err)
    assert not list((body.soul / ".git/objects").rglob("tmp_*"))
    words = [(body.state / "events.jsonl").read_text(), body.run("status").out, body.run("status", "--json").out]
    for text in words:
        assert (found := ACTS.search(text)) is None, text[found.start() - 99 : found.end() + 9]


@pytest.mark.parametrize(
    ("name", "codes"),
    [
        ("refs without end", {3}), ("a bomb", {1}), ("a pack without end", {1}),
        ("main is a blob", {1}), ("main is a tree", {1}), ("main is a tag", {1}),
    ],
)  # fmt: skip
def test_a_pass_ends_and_what_the_agent_wrote_is_recorded(
    host: ScriptedHost, body: Bounded, name: str, codes: set[int]
) -> None:
    tip = body.tip()
    host.scripts = {FETCH: FETCHES[name][0], PUSH: lambda tip: iter([advertised(NEW)])}
    body.write("notes/mine.md", f"# mine\n\nbefore {name}\n")
    passed(body, codes)
    assert body.git("merge-base", "--is-ancestor", tip, body.tip()) == ""
    assert name in (body.read("notes/mine.md") or "") and name in body.git("show", "main:notes/mine.md")


def test_the_name_of_a_branch_cannot_act(host: ScriptedHost, body: Bounded) -> None:
    """REPO-5: a remote whose main is gone and which has another branch is told by its name."""
    named = advertised(NEW, name=b"refs/heads/" + ESCAPES.replace(b" ", b"_"))
    host.scripts = {FETCH: lambda tip: iter([named]), PUSH: lambda tip: iter([named])}
    passed(body, {3})


@pytest.mark.parametrize(
    ("name", "codes"),
    [("a refusal that acts", {1}), ("a hook that acts", {1}), ("a reason that would forge a line", {1}),
     ("words that look like success", {5})],
)  # fmt: skip
def test_what_was_not_taken_waits_until_it_is(host: ScriptedHost, body: Bounded, name: str, codes: set[int]) -> None:
    host.scripts = {PUSH: PUSHES[name][0]}
    body.write("notes/mine.md", f"# mine\n\npush {name}\n")
    passed(body, codes)
    assert body.status()["ahead"] > 0


def test_when_it_is_over_everything_is_published(host: ScriptedHost, body: Bounded) -> None:
    body.write("notes/last.md", "# last\n")
    assert body.sync()["pushed"]
    assert forge.git(Path(host.root, "kaoru.soul.git"), "show", "main:notes/last.md") == "# last\n"
    assert body.status()["problem"] is None


def test_a_server_that_says_yes_and_takes_nothing_makes_nobody_lose_anything(host: ScriptedHost, body: Bounded) -> None:
    """REPO-4: its main stands behind what it said; it is brought forward again at the second look."""
    host.scripts = {PUSH: pushed(report(b"unpack ok\n", b"ok refs/heads/main\n"))}
    body.write("notes/believed.md", "# believed\n")
    body.sync()
    host.heal()
    for _ in range(2):
        done = body.run("sync")
    assert done.code == 0, done.err
    assert forge.git(Path(host.root, "kaoru.soul.git"), "show", "main:notes/believed.md") == "# believed\n"
