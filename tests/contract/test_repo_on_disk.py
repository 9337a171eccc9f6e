"""What the git directory of a checkout looks like to git, to a person, and after a crash (AUTH-7, REPO-7, TREE-7)."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bridge.adapters import gitenv, seen
from bridge.adapters.repo import Repo, locks, packs, unmerged
from bridge.app import repairing
from bridge.core import errors
from bridge.core.model import EXECUTABLE, GITLINK, PLAIN, File, blob_id
from tests import shortage
from tests.contract.conftest import Git

MAIN = "refs/heads/main"
ROOT = Path(__file__).parents[2]


@pytest.fixture
def soul(tmp_path: Path) -> Path:
    return tmp_path / "soul"


@pytest.fixture
def repo(soul: Path) -> Repo:
    return Repo.create(soul)


def record(repo: Repo, changes: dict[str, str | None], message: str = "a change", moment: int = 1_700_000_000) -> str:
    """A commit on main with these changes."""
    tip = repo.tip(MAIN)
    tree = repo.info(tip).tree if tip else ""
    files = {path: None if text is None else File(repo.write(text.encode())) for path, text in changes.items()}
    tree = repo.edit(tree, files)
    commit = repo.commit(tree, [tip] if tip else [], "Kaoru (laptop)", "kaoru@laptop.local", message, moment)
    repo.move(MAIN, tip, commit)
    return commit


def place(repo: Repo, tree: str) -> None:
    """Write the files of a tree into the checkout."""
    for path, file in repo.files(tree):
        target = repo.git_dir.parent / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(repo.read(file.oid))
        target.chmod(0o755 if file.mode == EXECUTABLE else 0o644)


def loose(git_dir: Path, kind: str, content: bytes) -> tuple[str, Path]:
    """A loose object as git writes it: its id, and where it is."""
    whole = b"%s %d\0%s" % (kind.encode(), len(content), content)
    oid = hashlib.sha1(whole, usedforsecurity=False).hexdigest()
    path = git_dir / "objects" / oid[:2] / oid[2:]
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(zlib.compress(whole))
    return oid, path


def raw_tree(repo: Repo, *entries: tuple[str, bytes, str]) -> str:
    """A tree with entries that no git would make."""
    return loose(
        repo.git_dir, "tree", b"".join(b"%s %s\0%s" % (m.encode(), n, bytes.fromhex(o)) for m, n, o in entries)
    )[0]


# --- git agrees ------------------------------------------------------------------------------------------------------


def test_git_finds_nothing_wrong_and_reads_the_same_history(repo: Repo, soul: Path, git: Git) -> None:
    paths = {"a/b.md": "x\n", "a.md": "y", "é/名前.md": "z", "\udcff.md": "", "/".join("d" * 200) + "/f": "deep"}
    first = record(repo, dict(paths), "first (laptop)")
    second = record(repo, {"a/b.md": None, "new": "n" * 100_000}, "second (laptop)", 1_700_000_001)
    assert git(soul, "fsck", "--strict", "--full") == ""
    assert git(soul, "log", "--format=%H %an <%ae> %ct %s").splitlines() == [
        f"{second} Kaoru (laptop) <kaoru@laptop.local> 1700000001 second (laptop)",
        f"{first} Kaoru (laptop) <kaoru@laptop.local> 1700000000 first (laptop)",
    ]
    names = git(soul, "ls-tree", "-r", "-z", "--name-only", first).split("\0")[:-1]
    assert sorted(names) == sorted(paths)
    assert git(soul, "rev-parse", f"{second}^{{tree}}").strip() == repo.info(second).tree


def test_git_makes_the_same_ids(repo: Repo, soul: Path, git: Git) -> None:
    commit = record(repo, {"a/b": "1", "a.b": "2", "a-b/c": "3"}, "subject\n\nbody")
    place(repo, repo.info(commit).tree)
    git(soul, "add", "-A")
    tree = git(soul, "write-tree").strip()
    assert tree == repo.info(commit).tree
    who = {"GIT_AUTHOR_NAME": "Kaoru (laptop)", "GIT_AUTHOR_EMAIL": "kaoru@laptop.local"}
    who |= {"GIT_COMMITTER_NAME": "Kaoru (laptop)", "GIT_COMMITTER_EMAIL": "kaoru@laptop.local"}
    when = {"GIT_AUTHOR_DATE": "1700000000 +0000", "GIT_COMMITTER_DATE": "1700000000 +0000"}
    assert git(soul, "commit-tree", tree, stdin=b"subject\n\nbody\n", **who, **when).strip() == commit


def test_new_objects_are_one_pack_and_no_loose_object(repo: Repo, soul: Path, git: Git) -> None:
    record(repo, {f"notes/{number}.md": str(number) for number in range(50)})
    assert "count: 0" in git(soul, "count-objects", "-v").splitlines()
    assert "packs: 1" in git(soul, "count-objects", "-v").splitlines()
    record(repo, {"notes/1.md": "changed"})
    assert "packs: 2" in git(soul, "count-objects", "-v").splitlines()
    repo.flush()
    assert "packs: 2" in git(soul, "count-objects", "-v").splitlines()
    assert not list((soul / ".git" / "objects" / "pack").glob("tmp_*"))


def test_what_a_persons_git_writes_is_read(repo: Repo, soul: Path, git: Git) -> None:
    first = record(repo, {"a": "1"})
    git(soul, "reset", "-q", "--hard")
    (soul / "b").write_text("by hand")
    git(soul, "add", "b")
    git(soul, "commit", "-q", "-m", "by hand")
    tip = repo.tip(MAIN)
    assert tip is not None
    assert repo.info(tip).parents == (first,)
    assert repo.is_ancestor(first, tip)
    git(soul, "gc", "-q", "--prune=now")
    assert [commit.oid for commit in repo.log(tip)] == [tip, first]
    assert repo.read(repo.entry(repo.info(tip).tree, "b").oid) == b"by hand"  # type: ignore[union-attr]


def test_content_that_a_persons_gc_took_away_is_written_again(repo: Repo, soul: Path, git: Git) -> None:
    """What is not in the packs any more must not count as stored."""
    record(repo, {"a": "1"})
    lost = repo.write(b"written, and never used")
    repo.flush()
    assert repo.has(lost)
    git(soul, "gc", "-q", "--prune=now")
    commit = record(repo, {"b": "written, and never used"})
    assert git(soul, "fsck", "--full", "--connectivity-only", commit) == ""
    assert git(soul, "cat-file", "blob", lost) == "written, and never used"


def test_ten_thousand_entries_in_one_directory(repo: Repo, soul: Path, git: Git) -> None:
    record(repo, {f"notes/{number}.md": str(number) for number in range(10_000)})
    commit = record(repo, {"notes/5000.md": "y", "notes/77.md": None})
    parent = repo.info(commit).parents[0]
    difference = repo.diff(repo.info(parent).tree, repo.info(commit).tree)
    assert list(difference) == ["notes/5000.md", "notes/77.md"]
    assert len(git(soul, "ls-tree", "-r", "--name-only", commit).splitlines()) == 9_999
    assert len(repo.pack(commit, [parent])) < 2_000
    assert git(soul, "fsck", "--strict") == ""


# --- refs ------------------------------------------------------------------------------------------------------------


def test_packed_refs_are_read_moved_and_deleted(repo: Repo, soul: Path, git: Git) -> None:
    one = record(repo, {"a": "1"})
    repo.move("refs/soul-bridge/keep/1", None, one)
    git(soul, "tag", "-a", "-m", "tag", "v1")
    git(soul, "pack-refs", "--all")
    assert not (soul / ".git" / MAIN).exists()
    assert repo.tip(MAIN) == one
    two = record(repo, {"a": "2"})
    assert git(soul, "rev-parse", MAIN).strip() == two
    repo.move("refs/soul-bridge/keep/1", one, None)
    repo.move(MAIN, two, None)
    assert git(soul, "for-each-ref", "--format=%(refname)").split() == ["refs/tags/v1"]
    assert git(soul, "rev-parse", "v1^{commit}").strip() == one
    assert repo.tip(MAIN) is None


def test_of_two_movers_one_wins_and_the_other_is_told(repo: Repo, soul: Path) -> None:
    """REPO-3: a move never goes over what another put there meanwhile."""
    start = record(repo, {"a": "0"})
    won: list[str] = []
    told: list[errors.SoulError] = []

    def race(number: int) -> None:
        mine = Repo.open(soul)
        commit = mine.commit(mine.edit("", {}), [start], f"K (b{number})", "m", "x", number)
        try:
            mine.move(MAIN, start, commit)
            won.append(commit)
        except errors.Moved as error:
            told.append(error)

    threads = [threading.Thread(target=race, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(won), len(told)) == (1, 5)
    assert repo.tip(MAIN) == won[0]
    assert not list((soul / ".git" / "refs").rglob("*.lock"))
    assert not list((soul / ".git" / "soul-bridge" / "locks").iterdir())


def test_a_ref_that_another_git_holds_is_left_alone(repo: Repo, soul: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks, "_PAUSE", 0.001)
    one = record(repo, {"a": "1"})
    lock = soul / ".git" / "refs/heads/main.lock"
    lock.write_text("")
    with pytest.raises(errors.Transient) as caught:
        record(repo, {"a": "2"})
    assert caught.value.kind == "busy"
    assert lock.exists()
    assert repo.tip(MAIN) == one


def test_git_cannot_move_a_ref_that_we_hold(repo: Repo, soul: Path) -> None:
    record(repo, {"a": "1"})
    with locks.locked(soul / ".git", soul / ".git" / MAIN, b""):
        done = subprocess.run(["git", "update-ref", "-d", MAIN], cwd=soul, capture_output=True, timeout=60)
        assert b"main.lock" in done.stderr
    assert repo.tip(MAIN) is not None


@pytest.mark.parametrize("content", [b"", b"\0" * 41, b"not an id\n", b"ref: refs/heads/main\n", b"ref: ../../x"])
def test_a_damaged_ref_is_damage_and_never_an_empty_soul(repo: Repo, soul: Path, content: bytes) -> None:
    """REPO-7: the file of main as a crash can leave it."""
    record(repo, {"a": "1"})
    (soul / ".git" / MAIN).write_bytes(content)
    for ask in (lambda: repo.tip(MAIN), lambda: repo.refs("refs/"), lambda: record(repo, {"a": "2"})):
        with pytest.raises(errors.Refused) as caught:
            ask()
        assert (caught.value.kind, caught.value.rule) == ("internal", "REPO-7")


def test_an_empty_folder_in_a_refs_place_is_no_obstacle(repo: Repo, soul: Path) -> None:
    one = record(repo, {"a": "1"})
    repo.move("refs/soul-bridge/keep/1/x", None, one)
    repo.move("refs/soul-bridge/keep/1/x", one, None)
    repo.move("refs/soul-bridge/keep/1", None, one)
    with pytest.raises(errors.Transient):
        repo.move("refs/soul-bridge/keep/1/x", None, one)


# --- nothing of the checkout is obeyed (AUTH-7) ----------------------------------------------------------------------


def test_a_new_git_directory_takes_nothing_from_anybody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """AUTH-7: no template, no hook, no default branch of the user."""
    template = tmp_path / "template"
    (template / "hooks").mkdir(parents=True)
    (template / "hooks" / "post-checkout").write_text("#!/bin/sh\n")
    home = tmp_path / "home"
    home.mkdir()
    (home / ".gitconfig").write_text(f"[init]\n\ttemplateDir = {template}\n\tdefaultBranch = other\n")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("GIT_TEMPLATE_DIR", str(template))
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    Repo.create(tmp_path / "soul")
    git_dir = tmp_path / "soul" / ".git"
    assert sorted(path.name for path in git_dir.iterdir()) == ["HEAD", "config", "objects", "refs", "soul-bridge"]
    assert (git_dir / "HEAD").read_text() == "ref: refs/heads/main\n"
    assert not (tmp_path / "elsewhere").exists()


def test_a_git_directory_that_is_there_is_never_made_anew(repo: Repo, soul: Path) -> None:
    commit = record(repo, {"a": "1"})
    with pytest.raises(errors.Refused):
        Repo.create(soul)
    assert Repo.open(soul).tip(MAIN) == commit


def test_creating_again_after_a_crash_begins_anew(soul: Path) -> None:
    (soul / ".git.tmp" / "objects").mkdir(parents=True)
    Repo.create(soul)
    assert not (soul / ".git.tmp").exists()


@pytest.mark.parametrize(
    ("name", "content"),
    [("objects/info/alternates", "/elsewhere\n"), ("shallow", "12" * 20), ("commondir", ".."),
     ("config", "[extensions]\n\tobjectFormat = sha256\n"), ("config", "[extensions]\n\trefStorage = reftable\n")],
)  # fmt: skip
def test_what_would_be_misread_is_refused_with_advice(repo: Repo, soul: Path, name: str, content: str) -> None:
    """AUTH-7."""
    (soul / ".git" / name).write_text(content)
    with pytest.raises(errors.Refused) as caught:
        Repo.open(soul)
    assert (caught.value.kind, caught.value.rule) == ("rule", "AUTH-7")
    assert caught.value.advice


@pytest.mark.parametrize("damage", ["file", "link", "gone", "no head", "empty head", "no objects"])
def test_a_lost_git_directory_is_damage(repo: Repo, soul: Path, damage: str) -> None:
    """REPO-7: never "a new repository"."""
    record(repo, {"a": "1"})
    git_dir = soul / ".git"
    if damage in ("file", "link", "gone"):
        git_dir.rename(soul.parent / "kept")
        if damage == "file":
            git_dir.write_text("")
        elif damage == "link":
            git_dir.symlink_to(soul.parent / "kept")
    elif damage == "no head":
        (git_dir / "HEAD").unlink()
    elif damage == "empty head":
        (git_dir / "HEAD").write_text("")
    else:
        shutil.rmtree(git_dir / "objects")
    with pytest.raises(errors.Refused) as caught:
        Repo.open(soul)
    assert (caught.value.kind, caught.value.rule) == ("internal", "REPO-7")


def test_a_git_directory_that_vanishes_under_us_does_not_come_back_empty(repo: Repo, soul: Path) -> None:
    """REPO-7: what is lost is told; an empty git directory in its place would look like a new soul."""
    tip = record(repo, {"a": "1"})
    tree = repo.info(tip).tree
    (soul / ".git").rename(soul.parent / "kept")
    for ask in (
        lambda: repo.write(b"x"),
        lambda: repo.move(MAIN, tip, None),
        lambda: repo.move(MAIN, tip, tip),
        lambda: repo.receive([b"PACK"]),
        lambda: gitenv.skeleton(soul / ".git"),
        repo.recover,
        repo.state,
        lambda: seen.open(soul / ".git" / "soul-bridge" / "seen.db"),
    ):
        with pytest.raises(errors.SoulError):
            ask()
    repo.index(tree, tree)
    assert not (soul / ".git").exists()


def test_replace_refs_and_grafts_change_nothing(repo: Repo, soul: Path, git: Git) -> None:
    """AUTH-7: the history is what the objects say."""
    one, two = record(repo, {"a": "1"}), record(repo, {"a": "2"})
    other = git(soul, "commit-tree", "-m", "other", repo.info(one).tree).strip()
    git(soul, "replace", two, other)
    (soul / ".git" / "info").mkdir()
    (soul / ".git" / "info" / "grafts").write_text(f"{two}\n")
    assert repo.info(two).parents == (one,)
    assert [commit.oid for commit in Repo.open(soul).log(two)] == [two, one]


def test_a_git_child_reads_no_configuration_but_ours(repo: Repo, soul: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """AUTH-7: neither the checkout's, nor the user's, nor the environment's."""
    commit = record(repo, {"a": "1"})
    with open(soul / ".git" / "config", "a", encoding="utf-8") as config:
        config.write('[alias]\n\tcheckout-s = "!true"\n[include]\n\tpath = evil\n[core]\n\tfsmonitor = evil\n')
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "alias.environment-s")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", "!true")
    monkeypatch.setenv("GIT_SSH_COMMAND", "evil")
    monkeypatch.setenv("GIT_OBJECT_DIRECTORY", "/nonexistent")
    environment = gitenv.skeleton(soul / ".git", {MAIN: commit})
    assert "GIT_SSH_COMMAND" not in environment
    assert gitenv.run_git(["log", "--format=%H", MAIN], environment).stdout.decode().strip() == commit
    listed = gitenv.run_git(["config", "--list", "--show-origin"], environment).stdout.decode()
    origins = {line.split("\t")[0] for line in listed.splitlines()}
    assert origins == {"command line:", f"file:{soul}/.git/soul-bridge/skeleton/config"}
    assert "alias" not in listed
    assert "evil" not in listed


def test_a_git_child_that_hangs_is_ended(repo: Repo, soul: Path) -> None:
    started = time.monotonic()
    with pytest.raises(errors.Transient):
        # It waits for a pack that never comes whole, on a pipe that a grandchild of ours keeps open.
        gitenv.run_git(["-c", "alias.wait=!sleep 60", "wait"], gitenv.skeleton(soul / ".git"), deadline=0.3)
    assert time.monotonic() - started < 10


# --- damage ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("length", [0, 1, 10, 30, 2_000])
def test_a_truncated_object_is_damage_and_hangs_nothing(repo: Repo, length: int) -> None:
    """REPO-7: libgit2 would spin for ever on it; so it never gets to see one."""
    content = os.urandom(5_000)
    oid, path = loose(repo.git_dir, "blob", content)
    assert repo.read(oid) == content
    path.write_bytes(path.read_bytes()[:length])
    assert not repo.has(oid)
    with pytest.raises(errors.Refused) as caught:
        repo.read(oid)
    assert (caught.value.kind, caught.value.rule) == ("internal", "REPO-7")


def test_a_damaged_object_is_written_again_by_us(repo: Repo, soul: Path, git: Git) -> None:
    """git itself would take the empty file for the object and commit a reference to nothing."""
    oid, path = loose(repo.git_dir, "blob", b"some text")
    path.write_bytes(b"")
    record(repo, {"a": "some text"})
    assert repo.read(oid) == b"some text"
    assert repo.recover() != []
    assert git(soul, "fsck", "--full") == ""


@pytest.mark.parametrize(
    "change", [b"\x78\x9c\x03\x00\x00\x00\x00\x01", b"text", zlib.compress(b"blob 99999999999\0x")]
)
def test_an_object_that_lies_about_itself_is_damage(repo: Repo, change: bytes) -> None:
    oid, path = loose(repo.git_dir, "blob", b"x")
    path.write_bytes(change)
    assert not repo.has(oid)
    with pytest.raises(errors.Refused):
        repo.read(oid)


def test_the_wrong_object_under_a_name_is_damage(repo: Repo) -> None:
    one, path = loose(repo.git_dir, "blob", b"one")
    _, other = loose(repo.git_dir, "blob", b"two")
    shutil.copy(other, path)
    with pytest.raises(errors.Refused):
        repo.read(one)


@pytest.mark.parametrize("cut", ["half", "bytes", "index", "gone"])
def test_a_damaged_pack_is_damage_and_hangs_nothing(soul: Path, cut: str) -> None:
    """Asked in a child, so that a spin would be seen."""
    repo = Repo.create(soul)
    record(repo, {"a": os.urandom(60_000).hex()})
    (pack,) = (soul / ".git" / "objects" / "pack").glob("*.pack")
    target = pack.with_suffix(".idx") if cut == "index" else pack
    content = target.read_bytes()
    target.chmod(0o644)
    if cut == "gone":
        target.unlink()
    elif cut == "bytes":
        target.write_bytes(content[:300] + bytes(200) + content[500:])
    else:
        target.write_bytes(content[: len(content) // 2])
    script = (
        "import sys\nfrom bridge.adapters.repo import Repo\nfrom bridge.core import errors\n"
        "try:\n    repo = Repo.open(sys.argv[1])\n    tip = repo.tip('refs/heads/main')\n"
        "    [repo.read(file.oid) for _, file in repo.files(repo.info(tip).tree)]\n"
        "except errors.Refused as error:\n    print(error.kind, error.rule)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(soul)], cwd=ROOT, capture_output=True, text=True, timeout=30
    )
    assert done.stdout == "internal REPO-7\n", done.stderr


def test_a_tree_that_cannot_be_read_is_damage(repo: Repo) -> None:
    oid, _ = loose(repo.git_dir, "tree", b"100644 a\0short")
    with pytest.raises(errors.Refused):
        repo.entry(oid, "a")


# --- hostile trees (TREE-7) ------------------------------------------------------------------------------------------

STRANGE = [
    ("40000", b"", "tree"), ("100644", b"..", "blob"), ("100644", b"...", "blob"), ("40000", b".GIT", "tree"),
    ("40000", b".git", "tree"), ("100664", b"\n", "blob"), ("100644", b"\xff\xfe", "blob"), ("100644", b"a/b", "blob"),
    ("040000", b"padded", "tree"), ("160000", b"sub", "commit"), ("10644", b"fifo", "blob"),
    ("100644", b"z" * 5_000, "blob"),
]  # fmt: skip


def test_strange_entries_are_seen_and_stay_byte_for_byte(repo: Repo, git: Git, soul: Path) -> None:
    """TREE-7: they stay in the tree, whatever is changed beside them; an empty name alone has no path to show."""
    blob = repo.write(b"x")
    below = raw_tree(repo, ("100644", b"config", blob))
    ids = {"tree": below, "blob": blob, "commit": "12" * 20}
    entries = sorted(
        ((m, n, ids[k]) for m, n, k in STRANGE), key=lambda each: each[1] + b"/" * each[0].endswith("40000")
    )
    tree = raw_tree(repo, *entries)
    seen = dict(repo.files(tree))
    assert seen[".."] == File(blob, PLAIN)
    assert set(seen) == {
        "..", "...", ".GIT/config", ".git/config", "\n", "\udcff\udcfe", "a\0b", "padded/config", "sub",
        "fifo", "z" * 5_000,
    }  # fmt: skip
    assert seen["sub"] == File("12" * 20, GITLINK)
    assert seen["\n"] == File(blob, PLAIN)
    assert {path: repo.entry(tree, path) for path in seen} == seen
    changed = repo.edit(tree, {"good": File(blob), "padded/more": File(blob)})
    repo.flush()
    raw = subprocess.run(["git", "cat-file", "tree", changed], cwd=soul, capture_output=True, check=True).stdout
    for mode, name, oid in entries:
        if name != b"padded":
            assert mode.encode() + b" " + name + b"\0" + bytes.fromhex(oid) in raw
    assert repo.edit(changed, {"good": None, "padded/more": None}) != ""
    assert set(repo.diff(tree, changed)) == {"good", "padded/more"}


def test_strange_entries_can_be_removed(repo: Repo) -> None:
    blob = repo.write(b"x")
    tree = raw_tree(repo, ("100644", b"..", blob), ("100644", b"a/b", blob), ("100644", b"c", blob))
    assert [path for path, _ in repo.files(repo.edit(tree, {"..": None, "a\0b": None}))] == ["c"]


def test_a_tree_without_end_is_refused(repo: Repo) -> None:
    """Ten folders that are one, ten levels deep: ten thousand million paths out of eleven small objects."""
    tree = raw_tree(repo, ("100644", b"f", repo.write(b"x")))
    for _ in range(10):
        tree = raw_tree(repo, *(("40000", b"%d" % number, tree) for number in range(10)))
    for ask in (lambda: sum(1 for _ in repo.files(tree)), lambda: repo.diff("", tree)):
        with pytest.raises(errors.Refused) as caught:
            ask()
        assert (caught.value.kind, caught.value.rule) == ("rule", "TREE-7")
    changed = repo.edit(tree, {"new": File(repo.write(b"x"))})
    assert list(repo.diff(tree, changed)) == ["new"]


def test_folders_deeper_than_any_disk_takes_are_kept_and_not_looked_into(repo: Repo) -> None:
    tree = raw_tree(repo, ("100644", b"f", repo.write(b"x")))
    for _ in range(3_000):
        tree = raw_tree(repo, ("40000", b"d", tree))
    changed = repo.edit(tree, {"g": File(repo.write(b"y"))})
    assert [path for path, _ in repo.files(changed)] == ["g"]
    assert list(repo.diff(tree, changed)) == ["g"]
    assert repo.edit(changed, {"g": None}) == tree
    deep = "/".join("d" * 900) + "/new"
    assert repo.edit(repo.edit(tree, {deep: File(repo.write(b"y"))}), {deep: None}) == tree


@pytest.mark.parametrize(
    ("author", "committer", "name", "seconds"),
    [
        (b"No Mail 5 +0000", b"No Mail 5 +0000", "No Mail 5 +0000", 5),
        (b"A (x) <m>  12  +9999", b"A <m> 12 +9999", "A (x)", 12),
        ("香（家）<m> 3 +0000".encode(), b"x> <y> 4", "香（家）", 4),
        (b"<m> 1 +0000", b"<m> -20 +0000", "", 0),
        (b"A <m> 1", b"A <m> 99999999999999999999999", "A", 253_402_300_799),
        (b"A <m> 1", b"A <m> 999999999999999 +0000", "A", 253_402_300_799),
        (b"A <m>", b"", "A", 0),
        (b"\xff <m> 1", b"A <m> 1 +0000", "\ufffd", 1),
    ],
)
def test_sloppy_commits_are_read_as_well_as_can_be(
    repo: Repo, author: bytes, committer: bytes, name: str, seconds: int
) -> None:
    """COMMIT-3: they are in history for ever, so reading them must not fail."""
    raw = b"tree %s\nauthor %s\ncommitter %s\n\nno newline" % (b"12" * 20, author, committer)
    found = repo.info(loose(repo.git_dir, "commit", raw)[0])
    assert (found.author, found.time, found.message) == (name, seconds, "no newline")


def test_signed_and_encoded_commits_are_read(repo: Repo) -> None:
    raw = (
        b"tree %s\nparent %s\nauthor J\xfcrgen <m> 1 +0000\ncommitter J <m> 2 +0000\nencoding ISO-8859-1\n"
        b"gpgsig -----BEGIN\n parent %s\n author X <x> 1 +0000\n\nGr\xfc\xdfe\n" % (b"12" * 20, b"34" * 20, b"56" * 20)
    )
    found = repo.info(loose(repo.git_dir, "commit", raw)[0])
    assert (found.author, found.message, found.parents) == ("Jürgen", "Grüße\n", ("34" * 20,))


# --- crash -----------------------------------------------------------------------------------------------------------

CRASH = """
import os, signal, sys
from pathlib import Path
from bridge.adapters.repo import Repo, index, packs, refs
from bridge.core.model import File
repo = Repo.open(sys.argv[1])
moment = sys.argv[2]
die = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
if moment == "pack":
    packs.index_of = die
elif moment == "lock":
    refs.Refs.tip = die
elif moment == "index":
    index._mark = die
tree = repo.edit("", {"b": File(repo.write(b"two"))})
repo.flush()
if moment == "index":
    repo.index(None, tree)
commit = repo.commit(tree, [], "K (b)", "m", "x", 1)
repo.move("refs/heads/main", "1" * 40, commit)
"""


@pytest.mark.parametrize("moment", ["pack", "lock", "index"])
def test_what_a_killed_pass_leaves_is_cleared_at_once(repo: Repo, soul: Path, git: Git, moment: str) -> None:
    """REPO-7: our own locks are known again, however young; nobody waits ten minutes for ourselves."""
    commit = record(repo, {"a": "1"})
    done = subprocess.run([sys.executable, "-c", CRASH, str(soul), moment], cwd=ROOT, timeout=60)
    assert done.returncode == -signal.SIGKILL
    again = Repo.open(soul)
    assert again.recover()
    assert again.recover() == []
    assert (again.state().busy, again.tip(MAIN)) == ("", commit)
    record(again, {"a": "2"})
    assert git(soul, "fsck", "--full", "--no-dangling") == ""
    assert not [path for path in (soul / ".git").rglob("*.lock")]


def test_locks_of_others_are_moved_aside_when_they_are_old_and_never_before(repo: Repo, soul: Path) -> None:
    git_dir = soul / ".git"
    record(repo, {"a": "1"})
    young, old = git_dir / "index.lock", git_dir / "refs/heads/main.lock"
    for lock in (young, old):
        lock.write_text(lock.name)
    os.utime(old, (time.time() - 700, time.time() - 700))
    assert len(repo.recover()) == 1
    assert young.exists()
    assert not old.exists()
    assert [path.read_text() for path in (git_dir / "soul-bridge" / "damaged").iterdir()] == ["main.lock"]


def test_half_written_packs_of_others_stay_while_they_are_young(repo: Repo, soul: Path) -> None:
    folder = soul / ".git" / "objects" / "pack"
    ours, young, old = (folder / name for name in (f"tmp_pack{packs.OURS}1", "tmp_pack_2", "tmp_idx_3"))
    for path in (ours, young, old):
        path.write_bytes(b"PACK")
    os.utime(old, (1, 1))
    repo.recover()
    assert [path.name for path in folder.iterdir()] == ["tmp_pack_2"]


def test_damaged_loose_objects_are_moved_aside_and_whole_ones_stay(repo: Repo, soul: Path) -> None:
    whole, _ = loose(repo.git_dir, "blob", b"whole")
    _, path = loose(repo.git_dir, "blob", b"damaged")
    path.write_bytes(path.read_bytes()[:5])
    said = repo.recover()
    assert len(said) == 1
    assert repo.has(whole)
    assert not path.exists()
    assert len(list((soul / ".git" / "soul-bridge" / "damaged").iterdir())) == 1


def test_a_full_disk_is_a_reason_to_wait_and_leaves_nothing_half(
    repo: Repo, soul: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = record(repo, {"a": "1"})

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(packs.os, "fsync", full)
    with pytest.raises(errors.Transient) as caught:
        record(repo, {"a": "2"})
    assert caught.value.kind == "disk"
    monkeypatch.undo()
    assert repo.tip(MAIN) == one
    assert not list((soul / ".git" / "objects" / "pack").glob("tmp_*"))
    repo.flush()
    assert record(repo, {"a": "2"}) != one


# --- what a person is doing ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "MERGE_HEAD",
        "rebase-merge",
        "rebase-apply",
        "CHERRY_PICK_HEAD",
        "REVERT_HEAD",
        "BISECT_LOG",
        "sequencer",
        "index.lock",
    ],
)
def test_what_a_person_is_in_the_middle_of_is_told(repo: Repo, soul: Path, name: str) -> None:
    """REPO-7: stand off, and go on when it is over."""
    (soul / ".git" / name).write_text("")
    assert repo.state().busy
    assert repo.state().head == MAIN
    (soul / ".git" / name).unlink()
    assert repo.state().busy == ""


def test_an_old_index_lock_holds_nobody_up(repo: Repo, soul: Path) -> None:
    lock = soul / ".git" / "index.lock"
    lock.write_text("")
    os.utime(lock, (time.time() - 601, time.time() - 601))
    assert repo.state().busy == ""


def test_a_detached_head_and_another_branch_are_told(repo: Repo, soul: Path, git: Git) -> None:
    commit = record(repo, {"a": "1"})
    git(soul, "checkout", "-q", "--detach", commit)
    assert (repo.state().head, repo.state().busy) == (None, "")
    git(soul, "checkout", "-q", "-b", "other")
    assert repo.state().head == "refs/heads/other"
    assert repo.state().busy == ""
    git(soul, "checkout", "-q", "main")
    assert repo.state().busy == ""


def test_files_that_a_sparse_checkout_hides_are_not_deleted(repo: Repo, soul: Path, git: Git) -> None:
    """REPO-7: while it is on, a person is at work here."""
    record(repo, {"notes/a.md": "1", "memories/b.md": "2"})
    git(soul, "reset", "-q", "--hard")
    assert repo.state().busy == ""
    git(soul, "sparse-checkout", "set", "notes")
    assert not (soul / "memories" / "b.md").exists() and "sparse checkout" in repo.state().busy
    git(soul, "sparse-checkout", "disable")
    assert (soul / "memories" / "b.md").exists() and repo.state().busy == ""


def conflict(git: Git, soul: Path, way: str) -> None:
    """What a person's `way` leaves: notes/a.md with both sides between marks, and no file of git's that says so."""
    note = soul / "notes" / "a.md"
    git(soul, "reset", "-q", "--hard")
    if way.startswith("stash"):
        note.write_text("theirs\n")
        git(soul, "stash", "-q")
    else:
        git(soul, "checkout", "-q", "-b", "side")
        note.write_text("theirs\n")
        git(soul, "commit", "-qam", "side")
        git(soul, "checkout", "-q", "main")
    note.write_text("ours\n")
    git(soul, "commit", "-qam", "main")
    with pytest.raises(AssertionError):
        git(soul, *way.split())
    assert "<<<<<<<" in note.read_text()


@pytest.mark.parametrize("version", ["2", "3", "4"])
@pytest.mark.parametrize("way", ["stash pop", "merge --squash side", "cherry-pick -n side"])
@pytest.mark.parametrize("end", ["add notes/a.md", "checkout -f HEAD notes/a.md", "reset -q", "reset -q --hard"])
def test_a_conflict_that_is_not_resolved_is_waited_for(
    repo: Repo, soul: Path, git: Git, version: str, way: str, end: str
) -> None:
    """REPO-7: also where only git's index knows of it."""
    record(repo, {"notes/a.md": "1\n", "notes/b.md": "2\n", "zz/c.md": "3\n"})
    git(soul, "update-index", "--index-version", "4" if version == "4" else "2")
    conflict(git, soul, way)
    if version == "3":
        (soul / "notes" / "new.md").write_text("n")
        git(soul, "add", "-N", "notes/new.md")
    assert (soul / ".git" / "index").read_bytes()[7] == int(version)
    assert "a conflict of git is not resolved yet" in repo.state().busy
    git(soul, *end.split())
    assert repo.state().busy == ""


def test_our_writing_of_the_index_leaves_a_conflict_in_it(repo: Repo, soul: Path, git: Git) -> None:
    """REPO-7: a pass that was under way when a person began brings the index along."""
    record(repo, {"notes/a.md": "1\n", "notes/b.md": "2\n"})
    conflict(git, soul, "stash pop")
    before = git(soul, "ls-files", "-u")
    assert before.count("notes/a.md") == 3
    old = repo.info(repo.tip(MAIN) or "").tree
    new = repo.edit(old, {"notes/a.md": File(repo.write(b"x")), "notes/b.md": File(repo.write(b"y"))})
    assert repo.index(old, new) and repo.index(None, new)
    assert git(soul, "ls-files", "-u") == before and blob_id(b"y") in git(soul, "ls-files", "-s")
    assert repo.state().busy


def test_an_index_is_read_again_only_when_it_changed(
    repo: Repo, soul: Path, git: Git, monkeypatch: pytest.MonkeyPatch
) -> None:
    record(repo, {"notes/a.md": "1\n"})
    conflict(git, soul, "stash pop")
    looks = []
    looking = unmerged.holds_any
    monkeypatch.setattr(unmerged, "holds_any", lambda raw: looks.append(1) or looking(raw))
    for _ in range(5):
        assert repo.state().busy
    assert len(looks) == 1
    git(soul, "add", "notes/a.md")
    assert repo.state().busy == "" and len(looks) == 2
    old = repo.info(repo.tip(MAIN) or "").tree
    assert repo.index(old, repo.edit(old, {"notes/b.md": File(repo.write(b"y"))}))
    assert repo.state().busy == "" and len(looks) == 2, "what we wrote ourselves is known"


def test_a_damaged_index_stops_nobody(repo: Repo, soul: Path, git: Git) -> None:
    """REPO-7: git itself cannot use it, so nobody can be at work with it."""
    record(repo, {"notes/a.md": "1\n", "notes/b.md": "2\n"})
    conflict(git, soul, "stash pop")
    index = soul / ".git" / "index"
    whole = index.read_bytes()
    body = whole[:-20]
    for wrong in (b"", b"\0" * len(whole), body, body[:70], b"DIRC" + b"\xff" * 40, bytes(reversed(whole))):
        for raw in (wrong, wrong + hashlib.sha1(wrong, usedforsecurity=False).digest()):
            index.write_bytes(raw)
            if not raw.startswith(body):
                assert repo.state().busy == "", raw[:80]
    index.unlink()
    assert repo.state().busy == ""
    os.mkfifo(index)
    assert repo.state().busy == ""


# --- sending and receiving -------------------------------------------------------------------------------------------


def chunks(content: bytes) -> Iterator[bytes]:
    for start in range(0, len(content), 1_000):
        yield content[start : start + 1_000]


@pytest.fixture
def other(tmp_path: Path) -> Repo:
    return Repo.create(tmp_path / "other")


def test_a_pack_brings_everything_that_is_missing(repo: Repo, other: Repo, git: Git) -> None:
    one = record(repo, {f"notes/{number}/x.md": f"{number}" * 50 for number in range(100)})
    other.receive(chunks(repo.pack(one, [])))
    assert other.reaches(one)
    other.move(MAIN, None, one)
    assert git(other.git_dir.parent, "fsck", "--full", "--strict") == ""
    two = record(repo, {"notes/5/x.md": "5" * 50 + "more", "notes/6/x.md": None, "new": "n"})
    thin = repo.pack(two, [one, "12" * 20])
    assert len(thin) < 1_000
    other.receive(chunks(thin))
    assert other.reaches(two, [one])
    assert other.reaches(two)
    other.move(MAIN, one, two)
    assert git(other.git_dir.parent, "fsck", "--full", "--strict") == ""
    assert dict(other.files(other.info(two).tree)) == dict(repo.files(repo.info(two).tree))


def test_a_pack_of_merges_and_long_chains_is_whole(repo: Repo, other: Repo, git: Git) -> None:
    start = record(repo, {"memories/MEMORY.md": "§\n" * 1_000, "empty": ""})
    tip = start
    for number in range(120):
        tree = repo.edit(
            repo.info(tip).tree, {f"notes/{number % 7}": File(repo.write(b"line\n" * 500 + b"%d" % number))}
        )
        side = repo.commit(tree, [start], "K (b)", "m", "side", 5)
        tip = repo.commit(tree, [tip, side], "K (a)", "m", "merge", 1_700_000_000 + number)
    empty = repo.commit("", [tip], "K (a)", "m", "all gone", 1_700_000_999)
    other.receive([repo.pack(empty, [])])
    other.move(MAIN, None, empty)
    assert git(other.git_dir.parent, "fsck", "--full", "--strict") == ""
    assert len(list(other.log(empty))) == 242


def test_nothing_new_is_a_pack_of_nothing(repo: Repo, other: Repo) -> None:
    one = record(repo, {"a": "1"})
    pack = repo.pack(one, [one])
    assert len(pack) == 32
    other.receive([pack])


def test_packs_that_git_makes_are_received(repo: Repo, other: Repo, soul: Path, git: Git) -> None:
    one, two = record(repo, {"a": "x" * 5_000}), record(repo, {"a": "x" * 5_000 + "y"})
    git(soul, "bundle", "create", "-q", "all", MAIN)
    git(soul, "bundle", "create", "-q", "thin", f"{one}..main")
    for name, tip in (("all", two), ("thin", two)):
        content = (soul / name).read_bytes()
        other.receive([content[content.index(b"\n\nPACK") + 2 :]])
        assert other.reaches(tip)


@pytest.mark.parametrize("harm", ["cut", "flipped", "text", "nothing"])
def test_a_damaged_pack_is_refused_and_leaves_nothing(repo: Repo, other: Repo, harm: str) -> None:
    pack = repo.pack(record(repo, {"a": os.urandom(200_000).hex()}), [])
    harmed = {
        "cut": pack[:100_000],
        "flipped": pack[:5_000] + bytes(10) + pack[5_010:],
        "text": b"ERR access denied\n" * 50_000,
        "nothing": b"",
    }[harm]
    with pytest.raises(errors.Transient if harm in ("cut", "nothing") else errors.Refused):
        other.receive(chunks(harmed))
    assert not list((other.git_dir / "objects" / "pack").glob("pack-*"))


def test_a_pack_that_lacks_something_is_refused(repo: Repo, other: Repo) -> None:
    """The links are checked: nothing is ever remembered that is not whole."""
    one = record(repo, {"a": "1", "b/c": "2"})
    blob = repo.entry(repo.info(one).tree, "b/c")
    assert blob is not None
    kept = [packs.Item(one, "commit", b"tree " + repo.info(one).tree.encode())]
    whole = [("commit", one), ("tree", repo.info(one).tree)]
    for kind, oid in whole:
        content = subprocess.run(
            ["git", "cat-file", kind, oid], cwd=repo.git_dir, capture_output=True, check=True
        ).stdout
        kept.append(packs.Item(oid, kind, content))
    with pytest.raises(errors.Refused):
        other.receive([packs.build(kept[1:])])
    assert not other.has(one)


def test_names_that_may_reach_no_disk_are_received_all_the_same(repo: Repo, other: Repo) -> None:
    """TREE-7: one such commit, accepted by any server, must not stop all bodies for ever."""
    blob = repo.write(b"x")
    below = raw_tree(repo, ("100644", b"config", blob))
    names = [(b"..", "100644"), (b".GIT", "40000"), (b".git", "40000"), (b"a/b", "100644"), (b"git~1", "100644")]
    tree = raw_tree(repo, *((mode, name, blob if mode == "100644" else below) for name, mode in names))
    raw = b"tree %s\nauthor A 5\ncommitter A <m> 5 +9999\n\nx\0y\n" % tree.encode()
    commit, _ = loose(repo.git_dir, "commit", raw)
    other.receive([repo.pack(commit, [])])
    assert other.reaches(commit)
    assert len(list(other.files(tree))) == 5


def test_a_sender_that_breaks_off_leaves_nothing(repo: Repo, other: Repo) -> None:
    pack = repo.pack(record(repo, {"a": os.urandom(200_000).hex()}), [])

    def broken() -> Iterator[bytes]:
        yield pack[:50_000]
        raise errors.Transient("the connection was cut")

    with pytest.raises(errors.Transient, match="was cut"):
        other.receive(broken())
    assert not list((other.git_dir / "objects" / "pack").glob("pack-*"))


def test_a_pack_beyond_the_limit_is_refused(repo: Repo, other: Repo) -> None:
    pack = repo.pack(record(repo, {"a": os.urandom(50_000).hex()}), [])
    with pytest.raises(errors.Refused):
        other.receive(chunks(pack), limit=10_000)


def test_what_is_incomplete_is_told(repo: Repo) -> None:
    oid = repo.write(b"x")
    whole = repo.edit("", {"a": File(oid), "sub": File("34" * 20, GITLINK)})
    broken = repo.edit("", {"d/a": File("12" * 20)})
    one = repo.commit(whole, [], "K (b)", "m", "x", 1)
    assert repo.reaches(one)
    assert not repo.reaches(repo.commit(broken, [one], "K (b)", "m", "x", 2), [one])
    assert not repo.reaches(repo.commit(whole, ["12" * 20], "K (b)", "m", "x", 3))


@pytest.mark.parametrize("seed", range(8))
def test_a_difference_is_what_git_takes_for_one(repo: Repo, other: Repo, seed: int) -> None:
    """Lines moved, doubled, dropped, changed in the middle and at the ends: the other side has the very bytes."""
    source = random.Random(seed)
    lines = [source.randbytes(source.randrange(1, 60)).hex().encode() + b"\n" for _ in range(300)]
    old = b"".join(lines)
    for _ in range(source.randrange(1, 8)):
        at, to = source.randrange(len(lines)), source.randrange(len(lines))
        step = source.choice(["move", "double", "drop", "change"])
        line = lines[at] if step == "double" else lines.pop(at)
        if step != "drop":
            lines.insert(to, b"changed " + line if step == "change" else line)
    new = b"".join(lines)
    one = repo.commit(repo.edit("", {"a": File(repo.write(old))}), [], "K (b)", "m", "x", 1)
    two = repo.commit(repo.edit("", {"a": File(repo.write(new))}), [one], "K (b)", "m", "x", 2)
    pack = repo.pack(two, [one])
    assert len(pack) < 6_000
    other.receive([repo.pack(one, [])])
    other.receive([pack])
    assert other.read(blob_id(new)) == new


def test_offsets_beyond_two_gigabytes_have_a_table_of_their_own() -> None:
    entries = [(b"\1" * 20, 2**31 + 7, 1), (b"\0" * 20, 12, 2), (b"\2" * 20, 2**40, 3)]
    offsets = struct.unpack_from(">3I2Q", packs.index_of(entries, b"t" * 20), 8 + 1024 + 60 + 12)
    assert offsets == (12, 0x80000000, 0x80000001, 2**31 + 7, 2**40)


# --- maintenance -----------------------------------------------------------------------------------------------------


def test_packs_that_piled_up_are_put_together_and_nothing_is_lost(repo: Repo, soul: Path, git: Git) -> None:
    """What no ref reaches stays too: a pass may be about to use it."""
    for number in range(12):
        record(repo, {"a": f"{number}\n" * 100, f"notes/{number}": str(number)}, moment=1_700_000_000 + number)
    unreached = repo.write(b"reached by nothing")
    oid, path = loose(soul / ".git", "blob", b"written by a person's git")
    tip = repo.tip(MAIN)
    assert tip is not None
    assert not repo.maintain(most=50)
    assert repo.maintain(most=5)
    assert len(list((soul / ".git" / "objects" / "pack").glob("*.pack"))) <= 3
    assert not path.exists()
    assert repo.read(unreached) == b"reached by nothing"
    assert repo.read(oid) == b"written by a person's git"
    assert len(list(repo.log(tip))) == 12
    assert git(soul, "fsck", "--full", "--no-dangling") == ""


def test_a_repository_opened_before_a_repack_reads_on(repo: Repo, soul: Path) -> None:
    """TECH: packs that were repacked away are let go of, and what is in the new one is found."""
    for number in range(8):
        record(repo, {"a": f"{number}" * 100})
    reader = Repo.open(soul)
    tip = reader.tip(MAIN)
    assert tip is not None
    assert repo.maintain(most=1)
    assert len(list(reader.log(tip))) == 8
    assert [reader.read(file.oid) for _, file in reader.files(reader.info(tip).tree)] == [b"7" * 100]


def test_files_that_were_deleted_are_not_kept_open(repo: Repo, soul: Path) -> None:
    for number in range(8):
        record(repo, {"a": f"{number}" * 100})
        list(repo.log(repo.tip(MAIN) or ""))
    repo.maintain(most=1)
    repo.read(repo.write(b"x"))
    opened = []
    for name in os.listdir("/proc/self/fd"):
        try:
            opened.append(os.readlink(f"/proc/self/fd/{name}"))
        except FileNotFoundError:
            continue
    assert not [path for path in opened if path.startswith(str(soul)) and "(deleted)" in path]


def test_what_was_read_is_not_kept_at_hand_beyond_housekeeping(repo: Repo) -> None:
    """Years of one soul, and a hundred souls in one process, have to fit into memory."""
    tips = [record(repo, {f"notes/{number}.md": str(each) for number in range(40)}) for each in range(30)]
    before = [list(repo.files(repo.info(tip).tree)) for tip in tips]
    assert len(repo._store._recent) > 60 and len(repo._trees._parsed) > 30
    repo.maintain()
    assert not repo._store._recent and not repo._trees._parsed
    assert [list(repo.files(repo.info(tip).tree)) for tip in tips] == before


def test_a_tree_that_was_thrown_away_since_it_was_read_is_stored_again(repo: Repo, soul: Path, git: Git) -> None:
    """REPO-7: a person's gc takes what no ref reaches; what we still have at hand of it is on no disk any more."""
    record(repo, {"a": "a"})
    side = repo.edit("", {"notes/b.md": File(repo.write(b"b"))})
    repo.flush()
    assert [path for path, _ in repo.files(side)] == ["notes/b.md"]
    git(soul, "gc", "-q", "--prune=now")
    again = repo.edit("", {"notes/b.md": File(repo.write(b"b"))})
    assert again == side
    tip = repo.tip(MAIN)
    commit = repo.commit(again, [tip or ""], "Kaoru (laptop)", "kaoru@laptop.local", "b", 1_700_000_001)
    repo.move(MAIN, tip, commit)
    assert git(soul, "fsck", "--strict", "--no-dangling") == ""
    assert Repo.open(soul).reaches(commit)


def test_running_out_of_descriptors_damages_nothing(repo: Repo, soul: Path) -> None:
    """REPO-7: a git directory that cannot be read for a moment is not to be replaced, nor are its objects gone."""
    first = record(repo, {"notes/a.md": "a"})
    tip = record(repo, {"notes/a.md": "b"})
    blob = blob_id(b"b")
    asked: list[Callable[[], object]] = [
        lambda: Repo.open(soul),
        lambda: repo.tip(MAIN),
        lambda: repo.refs("refs/"),
        lambda: repo.state(),
        lambda: repo.has(blob),
        lambda: repo.read(blob),
        lambda: repo.info(tip),
        lambda: repo.is_ancestor(first, tip),
        lambda: list(repo.files(repo.info(tip).tree)),
    ]
    for ask in asked:
        repo.maintain()
        repo.reopen()
        with shortage.of_descriptors(), pytest.raises(errors.Transient):
            ask()
    assert repo.has(blob) and repo.is_ancestor(first, tip)


@pytest.mark.parametrize("number", errors.FAILING)
def test_a_disk_that_does_not_answer_tells_nothing_about_the_git_directory(
    repo: Repo, soul: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """REPO-7: it is not damaged; nothing is set aside, and the next look may find it as it was."""
    tip = record(repo, {"notes/a.md": "a"})
    opening = os.open

    def failing(path: Any, flags: int, *rest: Any, **more: Any) -> int:
        if str(path).startswith(str(repo.git_dir)):
            raise OSError(number, os.strerror(number))
        return opening(path, flags, *rest, **more)

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", failing)
        for ask in (lambda: Repo.open(soul), lambda: repo.tip(MAIN), lambda: repairing.whole(repo)):
            with pytest.raises(errors.Transient) as caught:
                ask()
            assert caught.value.kind == "disk" and "dmesg" in caught.value.advice
    assert Repo.open(soul).tip(MAIN) == tip and repairing.whole(repo)


def test_files_that_may_be_hidden_are_not_taken_for_deleted(repo: Repo, soul: Path) -> None:
    """REPO-7: where a sparse checkout was set up and nobody can read whether it is on, the next look tells."""
    (repo.git_dir / "info").mkdir(exist_ok=True)
    (repo.git_dir / "info" / "sparse-checkout").write_text("/notes\n")
    assert repo.state().busy == ""
    (repo.git_dir / "config").unlink()
    assert repo.state().busy == ""
    os.mkfifo(repo.git_dir / "config")
    with pytest.raises(errors.Transient):
        repo.state()


def test_a_lock_of_ours_does_not_stay_where_a_disk_fails(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    """REPO-7: taken for another git's, it would keep every pass waiting for ten minutes."""
    tip = record(repo, {"a": "a"})
    looked, own = os.lstat, repo.git_dir / "soul-bridge" / "locks"

    def fails(path: str | Path, **options: int) -> os.stat_result:
        if Path(path).parent == own:
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))
        return looked(path, **options)

    monkeypatch.setattr(os, "lstat", fails)
    with contextlib.suppress(errors.Transient):
        repo.move("refs/soul-bridge/keep/one", None, tip)
    assert not list(repo.git_dir.rglob("*.lock"))
