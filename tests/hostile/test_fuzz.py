"""Everything that reads bytes from outside, fed with bytes: it answers, or refuses by one family, and soon."""

from __future__ import annotations

import contextlib
import json
import os
import random
import socket
import string
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pathspec import GitIgnoreSpec

from bridge.adapters import config, control, events, hosts, keys
from bridge.adapters.clock import SystemClock
from bridge.adapters.repo import Repo
from bridge.adapters.repo import history as commits_on_disk
from bridge.adapters.repo import index as index_on_disk
from bridge.adapters.repo import trees as trees_on_disk
from bridge.adapters.seen import Seen
from bridge.adapters.tree import Tree
from bridge.adapters.tree import ignore as ignore_files
from bridge.adapters.tree.globs import expression
from bridge.adapters.tree.out import Note
from bridge.app import status
from bridge.core import (
    address,
    bodies,
    commits,
    entries,
    form,
    identity,
    journal,
    jsontext,
    layout,
    lease,
    notes,
    words,
)
from bridge.core.errors import Held, SoulError
from bridge.core.model import PLAIN

FEW = settings(max_examples=60)
SOON = 2.0  # seconds for one input, on a machine that has other things to do
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
    | st.sampled_from(["\ud800", "9999-12-31T23:59:59+14:00", "0001-01-01T00:00:00-14:00", "\x1b[2J"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(
        st.sampled_from(["id", "name", "body", "until", "lastSeen", "kind", "host", "seed", "path", "base", "state",
                         "version", "spec", "command", "displayName"]) | st.text(max_size=6), inner, max_size=6),
    max_leaves=20,
)  # fmt: skip
TEXTS = st.binary(max_size=300) | JSON.map(lambda value: json.dumps(value).encode()) | st.text(max_size=200).map(
    lambda text: text.encode("utf-8", "surrogatepass")
)  # fmt: skip
DEEP = b"[" * 200_000
NESTED = b'{"a":' * 100_000
LONG = b'{"until": ' + b"9" * 100_000 + b', "body": "x"}'
SEPARATORS = "§\n".encode() * 300_000


@contextlib.contextmanager
def soon() -> Iterator[None]:
    """Whatever happens here takes no longer than it may."""
    began = time.monotonic()
    yield
    assert time.monotonic() - began < SOON


# What a function of the core does with bytes of anybody: never raises but Held, where it says so.
READERS: dict[str, Callable[[bytes], object]] = {
    "entries": entries.read,
    "a suspicion": lambda content: entries.suspicious(b"a\n\xc2\xa7\nb\n", content),
    "an identity": lambda content: (identity.id_of(content), identity.is_seed_text(content)),
    "two identities": lambda content: identity.merge(b'{"id": "x"}', content, b'{"id": "y", "z": 1}'),
    "a mended identity": lambda content: identity.mend("x", b'{"id": "x"}', content),
    "a join": lambda content: identity.join(content, b'{"id": "y"}', True),
    "a body": lambda content: bodies.beat(content, "laptop", "f", "1", None, 1.7e9),
    "two bodies": lambda content: bodies.merge(content, b'{"lastSeen": "2026-01-01T00:00:00Z"}'),
    "a heartbeat": lambda content: bodies.heartbeat_due(content, 1.7e9, 86400.0),
    "a lease": lambda content: lease.decide(lease.Sighting(content, 0.0, False), None, 1, 1.0),
    "a journal": lambda content: journal.merge(content, b"# 2026-01-01 x\n"),
    "a version": layout.version,
    "stored text": lambda content: layout.stored(content, "notes/x.md"),
    "words": words.readable,
    "JSON": jsontext.read,
}
FORMS = ("agent.json", "SOUL.md", "memories/MEMORY.md", "bodies/x.json", "locks/consolidation.json", ".soul-spec.json",
         "journal/x/2026-01-01.md", "notes/x.md", "README.md", "a\x1b/\ud800.md")  # fmt: skip


@pytest.mark.parametrize("name", READERS)
@FEW
@given(content=TEXTS)
@example(content=DEEP)
@example(content=NESTED)
@example(content=LONG)
@example(content=SEPARATORS)
@example(content=b"\xef\xbb\xbf" * 100_000)
@example(content=b"\0" * 1_000_000)
@example(content="a\n§\n".encode() * 200_000)
def test_no_bytes_of_a_soul_make_the_core_fail(name: str, content: bytes) -> None:
    """FORM, MERGE: whatever a file holds, it is read as far as it can be; only a memory that is no text is Held."""
    with soon(), contextlib.suppress(Held):
        READERS[name](content)


@FEW
@given(path=st.sampled_from(FORMS), content=TEXTS)
@example(path="memories/MEMORY.md", content=SEPARATORS)
@example(path="agent.json", content=DEEP)
@example(path="bodies/x.json", content=LONG)
def test_no_bytes_make_the_check_of_form_fail(path: str, content: bytes) -> None:
    with soon():
        form.problems({path: (content, PLAIN, len(content))})


@FEW
@given(ours=TEXTS, theirs=TEXTS, base=TEXTS)
def test_entries_of_any_three_texts_merge_and_read_back(ours: bytes, theirs: bytes, base: bytes) -> None:
    """MERGE-2: what is written is what was merged."""
    with contextlib.suppress(Held):
        merged = entries.merge(entries.read(base), entries.read(ours), entries.read(theirs))
        assert entries.read(entries.write(merged)) == merged


@FEW
@given(text=st.text(max_size=300) | TEXTS.map(lambda content: content.decode("utf-8", "surrogateescape")))
@example(text="Lost: " * 10_000)
@example(text="x\n\n" + "Lost: " + "a" * 40 + ' "' + "\\" * 20_001 + '"')
@example(text="x\n\n" + "A: b\n" * 10_000)
@example(text="(" * 20_000)
def test_no_text_makes_a_fact_a_path_a_name_or_an_address_fail(text: str) -> None:
    """COMMIT-3, TREE-7, FORM-5, AUTH-1: messages, names of files, topics, addresses."""
    with soon():
        for blob, path in commits.lost_trailers(text):
            assert len(blob) == 40 and not path.startswith("/") and ".." not in path.split("/")
        assert commits.unquote(commits.quote(text)) == text or not text.isprintable()
        author = commits.author(text, text) + commits.mail(text, text) + commits.message(text, text)
        assert not set("\x1b\0\u202e") & set(author)
        layout.unsafe(text)
        layout.fold(text)
        assert layout.unsafe(notes.path(text[:500])) is None
        with contextlib.suppress(SoulError):
            address.parse(text)


# --- what lies in git's files ----------------------------------------------------------------------------------------


@FEW
@given(content=st.binary(max_size=400))
@example(content=b"tree x\n" * 10_000 + b"committer " + b"9" * 100_000 + b"\n\n")
@example(content=b"author " + b"<" * 200_000)
@example(content=b"author " + b" " * 200_000 + b"x\ncommitter " + b" " * 200_000)
@example(content=b"encoding utf-16\nauthor \xff <a> 1 +0000\n\n\xff")
def test_no_bytes_make_a_commit_fail(content: bytes) -> None:
    with soon():
        commit = commits_on_disk.parse("0" * 40, content)
        assert 0 <= commit.time <= 253_402_300_799
        assert isinstance(commit.body, str)


ROWS = st.lists(st.tuples(st.sampled_from([b"100644", b"40000", b"0", b"7777777"]), st.binary(max_size=5))).map(
    lambda rows: b"".join(b"%s %s\0%s" % (mode, name, b"x" * 20) for mode, name in rows)
)


@FEW
@given(content=st.binary(max_size=300) | ROWS)
@example(content=b"100644 a" * 100_000)
@example(content=b"1" * 200_000)
def test_no_bytes_make_a_tree_fail_but_by_being_damaged(content: bytes) -> None:
    with soon(), contextlib.suppress(SoulError):
        for entry in trees_on_disk.parse(content, "0" * 40):
            assert entry.file.mode in (0o100644, 0o100755, 0o120000, 0o160000, 0o040000)


@FEW
@given(content=st.binary(max_size=300), version=st.integers(0, 5), count=st.sampled_from([0, 1, 2, 0xFFFFFFFF]))
def test_no_bytes_make_an_index_fail_but_by_being_strange(content: bytes, version: int, count: int) -> None:
    raw = b"DIRC" + version.to_bytes(4) + count.to_bytes(4) + content
    with soon(), contextlib.suppress(index_on_disk._Strange):
        index_on_disk.parse(raw + bytes(20))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz")


@pytest.mark.parametrize("name", ["HEAD", "refs/heads/main", "packed-refs", "config", "index"])
@FEW
@given(
    content=st.binary(max_size=100) | st.sampled_from([b"ref: refs/heads/main", b"ref: ref: x", b"ref: refs/\xff\0"])
)
def test_no_file_of_git_makes_the_repository_fail(place: Path, name: str, content: bytes) -> None:
    """REPO-7: damage is said to be damage."""
    soul = place / "soul"
    if not soul.exists():
        Repo.create(soul).close()
    path = soul / ".git" / name
    before = path.read_bytes() if path.exists() else None
    path.write_bytes(content)
    try:
        with contextlib.suppress(SoulError):
            repo = Repo.open(soul)
            repo.state()
            repo.tip("refs/heads/main")
            repo.refs("refs/")
            repo.index(None, "")
            repo.close()
    finally:
        path.unlink() if before is None else path.write_bytes(before)


# --- ignore patterns -------------------------------------------------------------------------------------------------

PIECES = ("a", "b", "*", "*", "**", "?", "/", "/**/", "**/", "[ab]", "[!a]", "[", "]", "\\", "!", "#", " ", "[a-", "$")


@FEW
@given(pieces=st.lists(st.sampled_from(PIECES), max_size=30), names=st.lists(st.sampled_from("ab/"), max_size=40))
@example(pieces=["*", "a"] * 60 + ["b"], names=["a"] * 250)
@example(pieces=["**/", "a"] * 60 + ["/", "b"], names=["a", "/"] * 100)
@example(pieces=["/**/", "*", "a", "*"] * 30 + ["b"], names=["a", "a", "/"] * 80)
@example(pieces=["?", "*"] * 100 + ["b"], names=["a"] * 250)
@example(pieces=["[ab]", "*"] * 100 + ["$"], names=["a"] * 250)
@example(pieces=["*"] * 3_000 + ["b"], names=["a"] * 250)
def test_no_pattern_takes_long_on_any_path(pieces: list[str], names: list[str]) -> None:
    """TREE-4: whoever can push could otherwise make every body try for ever."""
    with soon():
        rules = ignore_files.parse(("".join(pieces) + "\n").encode())
        for path in ("".join(names), "".join(names) + "/"):
            rules.decides(path)


def test_a_file_of_patterns_costs_next_to_nothing() -> None:
    """TREE-4: a pack of some kilobytes holds many such files."""
    began = time.monotonic()
    wild = b"\n".join(b"%04d" % number + b"*a" * 240 for number in range(2_000))
    assert ignore_files.parse(wild).lines == 0
    assert ignore_files.parse(b"*" * (1 << 20)).lines == 0
    rules = ignore_files.parse(b"*a*a*a*b\n" * 100_000)
    assert rules.lines == 2_000 and len(rules.hard) == 256
    assert rules.decides("xaaab") is True
    assert time.monotonic() - began < 3


def test_patterns_found_by_name_mean_what_their_expressions_mean() -> None:
    """TREE-4: the last line that says something wins."""
    chance = random.Random(5)
    for _ in range(2_000):
        lines = [
            chance.choice(("", "", "!")) + chance.choice(("a", "ab", "*a", "*b", "a/", "/a", "a/b", "*b/", "a*", "/*b"))
            for _ in range(chance.randint(1, 5))
        ]
        slow = [
            (expression(each.regex.pattern), each.include)
            for each in GitIgnoreSpec.from_lines(lines).patterns
            if each.regex is not None
        ]
        rules = ignore_files.parse("\n".join(lines).encode())
        for path in ("a", "a/", "ab", "ab/", "a/b", "b/a", "b/a/", "b/ab/", "x/y/aab", "b"):
            wanted = next((ignore for pattern, ignore in reversed(slow) if pattern.fullmatch(path)), None)
            assert rules.decides(path) is wanted, (lines, path)


def test_the_quick_expressions_mean_what_the_library_means() -> None:
    """TREE-4: on paths as a look asks for them, wherever the library does what git does."""
    chance = random.Random(4)
    asked = 0
    while asked < 3_000:
        pattern = "".join(
            chance.choice(("a", "b", "*", "?", "/", "**/", "/**/", "[ab]")) for _ in range(chance.randint(1, 7))
        )
        if "***" in pattern or "****" in pattern or pattern.endswith(("/**/", "/**", "**/")):
            continue
        for found in GitIgnoreSpec.from_lines([pattern]).patterns:
            if found.regex is None:
                continue
            quick = expression(found.regex.pattern)
            parts = [
                "".join(chance.choice("ab") for _ in range(chance.randint(1, 3))) for _ in range(chance.randint(1, 4))
            ]
            path = "/".join(parts) + chance.choice(("", "/"))
            whole = [match for match in found.regex.finditer(path) if match.end() == len(path)]
            slow = found.regex.pattern == "." or any(
                not match.group().endswith("/") or match.groupdict().get("ps_d") for match in whole
            )
            asked += 1
            if "/**/" not in pattern and "**/" not in pattern:
                assert (quick.fullmatch(path) is not None) == slow, (pattern, path)
            elif quick.fullmatch(path):
                assert found.regex.search(path), (pattern, path)


# --- what lies beside the soul ---------------------------------------------------------------------------------------


@FEW
@given(content=st.binary(max_size=300) | st.text(string.printable, max_size=200).map(str.encode))
@example(content=b"github.com ssh-ed25519 " + b"A" * 200_000)
@example(content=b"@cert-authority * ssh-rsa AAAA\n|1|x|y ssh-ed25519 AAAA\n")
def test_no_known_hosts_file_fails_but_by_being_refused(place: Path, content: bytes) -> None:
    """AUTH-6: a pin that cannot be understood is no pin that was never there."""
    path = place / "known_hosts"
    path.write_bytes(content)
    with soon(), contextlib.suppress(SoulError):
        hosts.KnownHosts(path).lookup("github.com")


@FEW
@given(content=st.binary(max_size=400))
@example(content=b"-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n-----END OPENSSH PRIVATE KEY-----\n")
@example(content=b"-----BEGIN OPENSSH PRIVATE KEY-----\n" + b"b3BlbnNzaC1rZXktdjEA" * 200)
def test_no_key_file_fails_but_by_being_refused(place: Path, content: bytes) -> None:
    """AUTH-2: and what it holds is not in the refusal."""
    path = place / "key"
    path.write_bytes(content)
    path.chmod(0o600)
    with soon(), pytest.raises(SoulError) as caught:
        keys.load(path, place / "soul")
    assert len(content) < 20 or content.decode("latin-1") not in caught.value.message + caught.value.advice


YAML = st.recursive(
    st.sampled_from(["kaoru", "1s", "~", "*a", "&a x", "!!python/object:os.system x", "{}", "[]", "'", "012", "1e9999"])
    | st.text(string.printable, max_size=12),
    lambda inner: st.lists(inner, max_size=3).map(lambda items: "[" + ", ".join(items) + "]"), max_leaves=6,
)  # fmt: skip


@FEW
@given(
    content=st.binary(max_size=200)
    | st.dictionaries(st.sampled_from(["agent", "body", "soul", "remote", "key", "hooks", "consolidation"]), YAML)
    .map(lambda keys: "".join(f"{key}: {value}\n" for key, value in keys.items()).encode())
)  # fmt: skip
@example(content=b"a: &a [x, x]\n" + b"".join(b"b%d: &b%d [*a, *a, *a, *a, *a, *a]\n" % (n, n) for n in range(9)))
@example(content=b"agent: " + b"[" * 5_000)
@example(content=b"agent: kaoru\n" * 1_000)
def test_no_configuration_fails_but_by_being_unusable(place: Path, content: bytes) -> None:
    """Configuration: all that is wrong is told, nothing in it is executed, no alias grows without end."""
    places = config.locate({"SOUL_BRIDGE_HOME": str(place / "home"), "HOME": str(place)})
    path = places.config_file("kaoru")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    path.chmod(0o600)
    began = time.monotonic()
    with contextlib.suppress(SoulError):
        config.load(places, "kaoru")
    assert time.monotonic() - began < 10


@FEW
@given(content=TEXTS)
@example(content=DEEP)
def test_no_status_event_or_note_makes_its_reader_fail(place: Path, content: bytes) -> None:
    """What this program wrote itself may have been written over by anybody."""
    path = place / "document"
    path.write_bytes(content + b"\n")
    with soon():
        document = status.read(path)
        list(events.read_events(path, False, lambda seconds: None))
        Note.decoded(content)
        if document is not None and document.keys() >= {"state", "daemon"} and isinstance(document["state"], str):
            status.current(document, running=False, pid=None, paused=False)


@FEW
@given(content=st.binary(max_size=200))
def test_a_memory_of_any_bytes_is_begun_anew(place: Path, content: bytes) -> None:
    """REPO-6: a table that cannot be read is nothing seen."""
    path = place / "seen.db"
    for name in ("seen.db", "seen.db-wal", "seen.db-shm"):
        (place / name).unlink(missing_ok=True)
    path.write_bytes(b"SQLite format 3\0" + content)
    seen = Seen(path)
    assert seen.count() == 0 and seen.recall("x") is None
    seen.close()


@FEW
@given(name=st.text(max_size=20), content=TEXTS)
def test_nothing_in_the_exchange_folder_makes_a_start_fail(place: Path, name: str, content: bytes) -> None:
    """GUARD-4: what nobody of ours put there is left alone, and no note leads out of the soul."""
    root = place / "exchange"
    out = root / ".git/soul-bridge/out"
    out.mkdir(parents=True, exist_ok=True)
    path = out / (name.replace("/", "_").replace("\0", "_") or "x")
    with contextlib.suppress(OSError, UnicodeEncodeError, ValueError):
        path.write_bytes(content)
    (out / "1").write_bytes(b"bytes")
    (out / "1.json").write_bytes(content)
    tree = Tree(root, root / ".git/soul-bridge", SystemClock())
    with soon(), contextlib.suppress(SoulError):
        tree.leftovers()
    assert sorted(os.listdir(place)) == sorted({*os.listdir(place)} - {"outside"})


# --- the control socket ----------------------------------------------------------------------------------------------


class Always:
    """A lock that is held."""

    held = True


@pytest.fixture(scope="module")
def server(place: Path) -> Iterator[Path]:
    path = place / "control.sock"
    running = control.Server(path, lambda request: {"heard": sorted(request)}, Always())
    running.start()
    yield path
    running.close()


@FEW
@given(content=TEXTS)
@example(content=DEEP[:60_000])
@example(content=NESTED[:60_000])
@example(content=b"\xff" * 200_000)
def test_no_request_makes_the_control_socket_fail(server: Path, content: bytes) -> None:
    with socket.socket(socket.AF_UNIX) as asking:
        asking.settimeout(10)
        asking.connect(str(server))
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            asking.sendall(content.replace(b"\n", b" ") + b"\n")
            answer = asking.recv(65536)
            assert not answer or isinstance(json.loads(answer), dict)
    assert control.ask(server, {"command": "x"}, 10) == {"heard": ["command"]}
