"""Git's index follows, so that a person's `git status` is clean and their `git commit` undoes nothing (REPO-7)."""

from __future__ import annotations

import hashlib
import os
import struct
import time
from pathlib import Path

import pytest

from bridge.adapters.repo import Repo, index
from bridge.core.model import EXECUTABLE, File
from tests.contract.conftest import Git

MAIN = "refs/heads/main"


class Checkout:
    """A soul on disk whose passes this test makes: record, write the files, bring the index along."""

    def __init__(self, place: Path, git: Git) -> None:
        self.place = place
        self.repo = Repo.create(place)
        self.git = lambda *args: git(place, *args)
        self.tree = ""

    def record(self, changes: dict[str, str | None], executable: bool = False) -> str:
        """The tree after a commit on main with these changes."""
        mode = EXECUTABLE if executable else 0o100644
        files = {
            path: None if text is None else File(self.repo.write(text.encode()), mode) for path, text in changes.items()
        }
        tip = self.repo.tip(MAIN)
        tree = self.repo.edit(self.repo.info(tip).tree if tip else "", files)
        commit = self.repo.commit(tree, [tip] if tip else [], "K (b)", "k@b.local", "x", 1_700_000_000)
        self.repo.move(MAIN, tip, commit)
        return tree

    def put(self, changes: dict[str, str | None], executable: bool = False) -> None:
        for path, text in changes.items():
            target = self.place / path
            if text is None:
                target.unlink()
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(text.encode())
            target.chmod(0o755 if executable else 0o644)

    def do(self, changes: dict[str, str | None], executable: bool = False) -> None:
        """A whole pass."""
        tree = self.record(changes, executable)
        self.put(changes, executable)
        self.repo.index(self.tree or None, tree)
        self.tree = tree

    def status(self) -> list[str]:
        return [line for line in self.git("status", "--porcelain", "-z").split("\0") if line]


@pytest.fixture
def soul(tmp_path: Path, git: Git) -> Checkout:
    return Checkout(tmp_path / "soul", git)


def raw(soul: Checkout) -> bytes:
    return (soul.place / ".git" / "index").read_bytes()


def test_status_is_clean_after_every_pass(soul: Checkout) -> None:
    soul.do({"a.md": "1", "notes/x/y.md": "2", "é.md": "3", "a/b": "4", "a-b": ""})
    assert soul.status() == []
    soul.do({"a.md": "22", "notes/x/y.md": None, "new/z.md": "5"})
    assert soul.status() == []
    soul.do({"run.sh": "#!/bin/sh\n"}, executable=True)
    assert soul.status() == []
    assert soul.git("diff-index", "--cached", "HEAD") == ""
    assert soul.git("write-tree").strip() == soul.tree


def test_git_need_not_read_the_files_again(soul: Checkout) -> None:
    """The stat data are those of the files, also of files that were a moment old when the index was written."""
    soul.do({f"notes/{number}.md": "x" for number in range(20)})
    time.sleep(1.1)
    soul.do({"other": "y"})
    listed = soul.git("ls-files", "--debug")
    assert listed.count("size: 1\t") == 21
    for path in ("notes/7.md", "other"):
        found = os.stat(soul.place / path)
        assert f"mtime: {found.st_mtime_ns // 10**9}:{found.st_mtime_ns % 10**9}" in listed
        assert f"ino: {found.st_ino & 0xFFFFFFFF}\n" in listed
    assert soul.git("diff-files") == ""


def test_a_commit_of_a_person_takes_nothing_back(soul: Checkout) -> None:
    soul.do({"a": "1"})
    soul.do({"b": "2"})
    soul.put({"c": "3"})
    soul.git("add", "c")
    soul.git("commit", "-q", "-m", "by hand")
    assert soul.git("show", "--name-status", "--format=").split() == ["A", "c"]


def test_staged_work_stays_as_it_was_staged(soul: Checkout) -> None:
    soul.do({"a": "1", "b": "1", "c": "1"})
    soul.put({"a": "staged"})
    soul.git("add", "a")
    soul.git("rm", "-q", "--cached", "c")
    soul.put({"d": "added"})
    soul.git("add", "d")
    tree = soul.record({"a": "2", "b": "2", "c": "2", "d": "2"})
    soul.repo.index(soul.tree, tree)
    assert soul.git("show", ":a") == "staged"
    assert soul.git("show", ":b") == "2"
    assert soul.git("show", ":d") == "added"
    assert "c" not in soul.git("ls-files").split()


def test_a_conflict_of_a_person_stays(soul: Checkout, git: Git) -> None:
    soul.do({"a": "1", "b": "1"})
    blob = soul.git("rev-parse", ":a").strip()
    staged = "".join(f"100644 {blob} {stage}\ta\n" for stage in (1, 2, 3))
    soul.git("rm", "-q", "--cached", "a")
    git(soul.place, "update-index", "--index-info", stdin=staged.encode())
    tree = soul.record({"a": "2", "b": "2"})
    soul.repo.index(soul.tree, tree)
    assert soul.git("ls-files", "-u").count("\ta\n") == 3
    assert soul.git("show", ":b") == "2"


def test_what_is_not_on_the_disk_on_purpose_is_no_deletion(soul: Checkout) -> None:
    """TREE-7, TREE-6: such entries get skip-worktree, and a person's commit keeps them."""
    soul.do({"a": "1"})
    oid = soul.repo.write(b"target")
    tip = soul.repo.tip(MAIN)
    assert tip is not None
    changes = {"con:x": File(oid), "link": File(oid, 0o120000), "sub": File("12" * 20, 0o160000), ".GIT/x": File(oid)}
    tree = soul.repo.edit(soul.tree, changes)
    commit = soul.repo.commit(tree, [tip], "K (b)", "m", "x", 5)
    soul.repo.move(MAIN, tip, commit)
    soul.repo.index(soul.tree, tree, absent=list(changes))
    assert soul.status() == ["D  .GIT/x"]  # git takes that one into no index
    assert set(soul.git("ls-files", "-t").split("\n")) == {"H a", "S con:x", "S link", "S sub", ""}
    soul.put({"con:x": "target"})
    soul.repo.index(tree, tree, absent=["link", "sub", ".GIT/x"])
    assert "H con:x" in soul.git("ls-files", "-t")
    assert soul.status() == ["D  .GIT/x"]


def test_a_file_that_was_there_and_is_now_kept_away_is_no_deletion(soul: Checkout) -> None:
    soul.do({"a": "1", "b": "1"})
    soul.put({"a": None})
    soul.repo.index(soul.tree, soul.tree, absent=["a"])
    assert soul.status() == []
    soul.put({"a": "1"})
    soul.repo.index(soul.tree, soul.tree)
    assert soul.status() == []
    soul.put({"a": None})
    assert soul.status() == [" D a"]


def test_a_change_made_after_the_pass_is_seen(soul: Checkout) -> None:
    """Same length, same second: an entry may never look settled when it is not."""
    for number in range(5):
        soul.do({"a": f"{number}x", "b": f"{number}"})
        soul.put({"a": f"{number}y"})
        assert soul.status() == [" M a"]
        soul.do({f"other{number}": "1"})
        assert soul.status() == [" M a"]
        soul.put({"a": f"{number}x"})
        assert soul.status() == []


def test_a_file_that_was_changed_before_the_index_followed_is_modified(soul: Checkout) -> None:
    soul.do({"a": "1"})
    tree = soul.record({"a": "2"})
    soul.put({"a": "local"})
    soul.repo.index(soul.tree, tree)
    assert soul.status() == [" M a"]


def test_a_file_with_windows_line_ends_is_clean(soul: Checkout) -> None:
    """TREE-5: the working file stays as the agent wrote it."""
    soul.do({".gitattributes": "* text=auto eol=lf\n"})
    tree = soul.record({"a.md": "one\ntwo\n"})
    soul.put({"a.md": "one\r\ntwo\r\n"})
    soul.repo.index(soul.tree, tree)
    assert soul.status() == []


def test_a_directory_follows_a_file_and_a_file_a_directory(soul: Checkout) -> None:
    soul.do({"a": "1", "b/c": "1", "b/d": "1"})
    tree = soul.record({"a": None, "a/x": "2", "b/c": None, "b/d": None, "b": "2"})
    soul.put({"a": None, "b/c": None, "b/d": None})
    (soul.place / "b").rmdir()
    soul.put({"a/x": "2", "b": "2"})
    soul.repo.index(soul.tree, tree)
    assert soul.status() == []


def test_a_staged_file_in_the_way_of_a_directory_keeps_the_index_whole(soul: Checkout) -> None:
    soul.do({"x": "1"})
    soul.put({"a": "staged", "b/c": "staged"})
    soul.git("add", "a", "b/c")
    tree = soul.record({"a/x": "2", "b": "2"})
    soul.repo.index(soul.tree, tree)
    assert soul.git("ls-files").split() == ["a", "b/c", "x"]


def test_a_clone_whose_index_is_of_an_older_commit_follows(soul: Checkout) -> None:
    """Nothing is known of what the index was last brought to; the working files tell."""
    soul.do({"a": "1", "b": "1", "c": "1", "d": "1"})
    soul.put({"staged": "s", "d": "mine"})
    soul.git("add", "staged", "d")
    tree = soul.record({"a": "2", "b": None, "d": "2", "e": "new"})
    soul.put({"a": "2", "b": None, "e": "new"})
    Repo.open(soul.place).index(None, tree)
    assert soul.status() == ["M  d", "A  staged"]
    assert soul.git("show", ":d") == "mine"


@pytest.mark.parametrize("version", ["2", "3", "4"])
def test_every_version_of_the_index_is_understood(soul: Checkout, version: str) -> None:
    soul.do({f"notes/{'x' * number}": "1" for number in range(1, 250, 7)} | {"a": "1"})
    soul.git("update-index", "--index-version", version)
    soul.do({"a": "2", "notes/" + "x" * 8: None, "z/" + "y" * 200: "1"})
    assert soul.status() == []
    assert soul.git("write-tree").strip() == soul.tree


def test_what_git_keeps_beside_the_entries_is_dropped_or_kept(soul: Checkout) -> None:
    soul.do({"a": "1", "n/b": "1"})
    soul.git("update-index", "--untracked-cache")
    soul.git("write-tree")
    soul.status()
    soul.do({"a": "2", "n/c": "1"})
    assert soul.status() == []
    assert soul.git("write-tree").strip() == soul.tree


@pytest.mark.parametrize("kind", ["split", "locked", "unknown", "damaged", "empty", "future"])
def test_an_index_that_is_not_understood_is_left_alone(soul: Checkout, kind: str) -> None:
    soul.do({"a": "1", "b": "1"})
    path = soul.place / ".git" / "index"
    if kind == "split":
        soul.git("update-index", "--split-index")
    elif kind == "locked":
        path.with_name("index.lock").write_text("")
    elif kind == "unknown":
        body = path.read_bytes()[:-20] + struct.pack(">4sI", b"ZZZZ", 3) + b"abc"
        path.write_bytes(body + hashlib.sha1(body, usedforsecurity=False).digest())
    elif kind == "damaged":
        content = bytearray(path.read_bytes())
        content[50] ^= 1
        path.write_bytes(content)
    elif kind == "empty":
        path.write_bytes(b"")
    else:
        body = b"DIRC" + struct.pack(">I", 9) + path.read_bytes()[8:-20]
        path.write_bytes(body + hashlib.sha1(body, usedforsecurity=False).digest())
    before = raw(soul)
    tree = soul.record({"a": "2"})
    soul.repo.index(soul.tree, tree)
    assert raw(soul) == before


def test_an_index_that_somebody_wrote_meanwhile_is_not_overwritten(
    soul: Checkout, monkeypatch: pytest.MonkeyPatch
) -> None:
    soul.do({"a": "1"})
    tree = soul.record({"a": "2"})
    whole = index.serialise

    def slow(*args: object) -> bytes:
        soul.put({"c": "staged meanwhile"})
        soul.git("add", "c")
        return whole(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(index, "serialise", slow)
    soul.repo.index(soul.tree, tree)
    monkeypatch.undo()
    assert soul.git("ls-files").split() == ["a", "c"]
    soul.repo.index(soul.tree, tree)
    assert soul.git("show", ":a") == "2"


def test_a_pass_that_changes_nothing_writes_no_index(soul: Checkout) -> None:
    soul.do({"a": "1", "link": "x"})
    before = os.stat(soul.place / ".git" / "index")
    soul.repo.index(soul.tree, soul.tree)
    after = os.stat(soul.place / ".git" / "index")
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)


def test_a_pipe_in_a_files_place_stops_nothing(soul: Checkout) -> None:
    soul.do({"a": "1"})
    tree = soul.record({"a": "2"})
    (soul.place / "a").unlink()
    os.mkfifo(soul.place / "a")
    soul.repo.index(soul.tree, tree)
    assert soul.git("show", ":a") == "2"
