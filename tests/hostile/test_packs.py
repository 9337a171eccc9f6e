"""Packs that are broken, lie, or stand for more than a machine holds: refused or taken, bounded, nothing left."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bridge.adapters import gitenv
from bridge.adapters.repo import Repo
from bridge.adapters.repo.history import parse
from bridge.core.errors import Refused, SoulError, Transient
from tests.hostile import forge
from tests.hostile.bounded import Ground
from tests.hostile.forge import entry, pack

MIB = 1 << 20
BLOB = entry("blob", b"hello\n")
COMMIT = b"author A <a@b> 1 +0000\ncommitter A <a@b> 1 +0000\n\nx\n"
SIZE = 15 * MIB


def base() -> tuple[bytes, bytes]:
    """A blob of 15 MiB in 16 KiB, as (its id, its pack entry)."""
    oid, packed = forge.zero_blob(SIZE)
    return bytes.fromhex(oid), packed


def grown(times: int) -> bytes:
    """A pack of 16 KiB that unpacks to so many times 15 MiB."""
    oid, packed = base()
    return pack(packed, entry("ref", forge.copies(SIZE, SIZE, times), base=oid))


BROKEN = {
    "nothing": b"",
    "not a pack": b"ERR go away\n" * 100,
    "a head alone": pack(count=3)[:12],
    "cut in the middle": pack(BLOB, BLOB)[:-25],
    "without its checksum": pack(BLOB)[:-20],
    "a wrong checksum": pack(BLOB, trail=b"\1" * 20),
    "more objects than announced": pack(BLOB, entry("blob", b"two"), count=1),
    "fewer objects than announced": pack(BLOB, count=2),
    "four thousand million objects announced": pack(BLOB, count=0xFFFFFFFF),
    "an unknown version": pack(BLOB, version=9),
    "a flipped byte": pack(entry("blob", os.urandom(500)))[:200] + b"\0\0\0\0" + pack(entry("blob", b"x" * 500))[204:],
    "an object of no kind": pack(bytes([0x05]) + BLOB[1:]),
    "an object longer than announced": pack(entry("blob", b"hello\n", 3)),
    "2 GiB announced": pack(entry("blob", b"tiny", 2 << 30)),
    "a size that overflows": pack(entry("blob", b"tiny", 1 << 66)),
    "a tree of 3 GiB announced": pack(entry("tree", b"tiny", 3 << 30)),
    "a delta upon nothing": pack(entry("ref", forge.copies(6, 6, 1), base=b"\7" * 20)),
    "a delta upon itself": pack(entry("ofs", forge.copies(6, 6, 1), base=b"\0")),
    "a delta before the start": pack(BLOB, entry("ofs", forge.copies(6, 6, 1), base=b"\xff\xff\x7f")),
    "a delta that reads beyond its base": pack(BLOB, entry("ref", forge.copies(6, 600, 1),
                                                        base=bytes.fromhex(forge.name("blob", b"hello\n")))),
    "a tree without its blob": pack(entry("tree", b"100644 a\0" + b"\5" * 20)),
    "a commit without its tree": pack(entry("commit", b"tree " + b"12" * 20 + b"\n" + COMMIT)),
    "a commit without its parent": pack(entry("tree", b""), entry("commit",
        b"tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904\nparent " + b"12" * 20 + b"\n" + COMMIT)),
    "a tree that is cut": pack(entry("tree", b"100644 a\0short")),
    "a tree with a name of nothing": pack(BLOB, entry("tree", b"100644 \0" + bytes.fromhex(
        forge.name("blob", b"hello\n")))),
    "a commit that is no commit": pack(entry("commit", b"\0\1\2\3")),
    "a delta bomb": grown(400),
}  # fmt: skip


@pytest.fixture
def repo(tmp_path: Path) -> Iterator[Repo]:
    made = Repo.create(tmp_path / "soul")
    yield made
    made.close()


def born_with() -> int:
    """KiB that every child counts as its own, for until it is another program it has what this process has."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


@pytest.mark.parametrize("harm", BROKEN)
def test_a_broken_pack_is_refused_at_once_and_leaves_nothing(repo: Repo, harm: str) -> None:
    """REPO-7, AUTH-7: whatever is wrong with it; not a byte stays, or a remote asked again and again fills the disk."""
    before = sorted(path.name for path in repo.git_dir.rglob("*") if "skeleton" not in path.parts)
    began, used = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    content = BROKEN[harm]
    with pytest.raises((Refused, Transient)) as caught:
        repo.receive(content[start : start + 3000] for start in range(0, len(content), 3000))
    assert caught.value.message and "Traceback" not in caught.value.message
    assert time.monotonic() - began < 10
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss <= max(used, born_with(), 200 * 1024)
    after = sorted(path.name for path in repo.git_dir.rglob("*") if "skeleton" not in path.parts)
    assert [name for name in after if name not in before] in ([], ["soul-bridge"])


def test_a_blob_larger_than_memory_goes_through_in_pieces(repo: Repo) -> None:
    """TREE-6: what one body may commit, every body can receive; it is not read here."""
    oid, packed = forge.zero_blob(200 * MIB)
    used = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    repo.receive([pack(packed)])
    assert repo.has(oid) and repo.size(oid) == 200 * MIB
    with pytest.raises(SoulError) as caught:
        repo.read(oid)
    assert caught.value.rule == "TREE-6"
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss <= max(used + 8 * 1024, born_with(), 120 * 1024)


def test_a_commit_or_tree_larger_than_any_is_damage_and_is_not_read(repo: Repo) -> None:
    head = b"tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904\n" + COMMIT
    content = head + b"x" * (70 * MIB)
    repo.receive([pack(entry("tree", b""), entry("commit", content))])
    with pytest.raises(Refused):
        repo.info(forge.name("commit", content))


@pytest.mark.parametrize(
    "encoding", ["punycode", "idna", "undefined", "unicode_escape", "hex", "zlib", "\0", "../../x", "a" * 5000]
)
def test_no_declared_encoding_of_a_commit_costs_time_or_fails(repo: Repo, encoding: str) -> None:
    """COMMIT-3: of all that Python can decode some take for ever, and some raise what nobody expects."""
    message = b"a" * 300_000 + b"-" + b"99b" * 300_000
    content = b"tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904\nauthor A <a@b> 1 +0000\ncommitter A <a@b> 1 +0000\n"
    content += b"encoding " + encoding.encode() + b"\n\n" + message
    began = time.monotonic()
    assert parse("0" * 40, content).message.startswith("aaa")
    assert time.monotonic() - began < 2


def test_a_child_that_talks_without_end_is_ended(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory is bounded by either way to the remote: through git and ssh a server's words come as the child's."""
    monkeypatch.setattr(gitenv, "MOST_WORDS", 64 * MIB)
    for stream in ("", " >&2"):
        began = time.monotonic()
        with pytest.raises(Transient, match="said more than"):
            gitenv.run_git(["-c", f"alias.talk=!yes{stream}", "talk"], gitenv.skeleton(repo.git_dir), deadline=60)
        assert time.monotonic() - began < 20


def test_of_a_child_that_says_much_the_first_and_the_last_words_are_kept(repo: Repo) -> None:
    script = "alias.talk=!seq -f 'line %.0f' 2000000 >&2; echo the last >&2; exit 3"
    outcome = gitenv.run_git(["-c", script, "talk"], gitenv.skeleton(repo.git_dir), deadline=60)
    assert outcome.code != 0 and outcome.words.startswith("line 1\n") and "the last" in outcome.words
    assert len(outcome.stderr) <= 2 * gitenv.ENDS + 1
    assert outcome.missing + len(outcome.words.splitlines()) >= 2_000_001


# --- end to end ------------------------------------------------------------------------------------------------------


def test_a_file_of_a_gigabyte_is_held_and_everything_else_arrives(ground: Ground) -> None:
    """TREE-6: it is in history for whoever wants it, listed by `status`, never read, never written to this disk."""
    body = ground.body("laptop")
    oid, packed = forge.zero_blob(160 * MIB)
    ground.forge.lay((oid, packed))
    rows = [("100644", name, oid) for name in (b"huge.bin", b"SOUL.md", b".gitignore")]
    memories = ground.forge.tree([("100644", b"MEMORY.md", oid), ("100644", b"USER.md", oid)])
    bodies = ground.forge.tree([("100644", b"laptop.json", oid), ("100644", b"phone.json", oid)])
    locks = ground.forge.tree([("100644", b"consolidation.json", oid)])
    ground.forge.add(*rows, ("40000", b"memories", memories), ("40000", b"bodies", bodies), ("40000", b"locks", locks),
                     ("100644", b"agent.json", oid), ("100644", b"fine.md", ground.forge.blob("fine\n")))  # fmt: skip
    body.append("memories/MEMORY.md", "- mine\n")
    body.write("SOUL.md", "# Kaoru\n\nmine\n")
    body.memory = 400_000
    assert body.sync()["outcome"] == "ok"
    assert body.read("fine.md") == "fine\n"
    assert body.held()["huge.bin"] == "TREE-6"
    assert not (body.soul / "huge.bin").exists()
    assert "mine" in (body.read("memories/MEMORY.md") or "") and "mine" in (body.read("SOUL.md") or "")
    for words in (("log",), ("bodies",), ("conflicts",), ("lease", "show"), ("validate",), ("show", "main")):
        assert body.run(*words).code in (0, 1), words


def test_a_remote_that_lost_objects_is_said_to_be_damaged(ground: Ground) -> None:
    """A tip whose blob is gone: the server's own words, nothing kept, local work goes on."""
    body = ground.body("laptop")
    good = ground.forge.tip()
    ground.forge.add(("100644", b"lost", "15" * 20))
    body.write("notes/mine.md", "# mine\n")
    answer = body.sync(code=5)
    assert "notes/mine.md" in answer["recorded"]
    assert body.status()["problem"]["message"]
    ground.forge.point(good)
    assert body.sync()["pushed"]
