"""Hints: which changes are told, which stay silent, and what happens when the system cannot tell."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bridge.adapters.watch import Watch
from tests.contract.listening import Closes

TOP = Path(__file__).parents[2]
PATIENT = 10.0
QUIET = 0.7


class Hints:
    """Collects what was hinted."""

    def __init__(self) -> None:
        self.paths: list[str | None] = []
        self._changed = threading.Condition()

    def __call__(self, path: str | None) -> None:
        with self._changed:
            self.paths.append(path)
            self._changed.notify()

    def wait(self, *wanted: str | None) -> bool:
        """Whether all of them come, or something above them, before patience ends."""
        with self._changed:
            return self._changed.wait_for(lambda: all(map(self.told, wanted)), PATIENT)

    def told(self, path: str | None) -> bool:
        """Whether a hint covers the path."""
        if path is None:
            return None in self.paths
        return any(hint is None or (path + "/").startswith(hint + "/") for hint in self.paths)

    def clear(self) -> None:
        """Forget what came until it is quiet."""
        before = -1
        while before != len(self.paths):
            before = len(self.paths)
            time.sleep(QUIET)
        self.paths.clear()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    place = tmp_path / "souls" / "agent.soul"
    for name in ("notes/travel", "memories", ".git/objects"):
        (place / name).mkdir(parents=True)
    (place / "SOUL.md").write_text("x")
    (place / "notes/travel/a.md").write_text("x")
    (place / "memories/MEMORY.md").write_text("x")
    return place


@pytest.fixture
def hints() -> Hints:
    return Hints()


@pytest.fixture
def watch(root: Path, hints: Hints) -> Iterator[Watch]:
    watching = Watch(root, hints)
    watching.start()
    yield watching
    watching.stop()


def replace(place: Path) -> None:
    fresh = place.with_name("fresh.tmp")
    fresh.write_text("y")
    fresh.replace(place)


CHANGES: dict[str, tuple[Callable[[Path], object], list[str]]] = {
    "write": (lambda top: (top / "notes/travel/a.md").write_text("y"), ["notes/travel/a.md"]),
    "write at the top": (lambda top: (top / "SOUL.md").write_text("y"), ["SOUL.md"]),
    "create": (lambda top: (top / "memories/USER.md").write_text("y"), ["memories/USER.md"]),
    "atomic save": (lambda top: replace(top / "memories/MEMORY.md"), ["memories/MEMORY.md"]),
    "delete": (lambda top: (top / "notes/travel/a.md").unlink(), ["notes/travel/a.md"]),
    "mode": (lambda top: (top / "SOUL.md").chmod(0o755), ["SOUL.md"]),
    "mode below": (lambda top: (top / "notes/travel/a.md").chmod(0o755), ["notes/travel/a.md"]),
    "rename a file": (lambda top: (top / "SOUL.md").rename(top / "S.md"), ["SOUL.md", "S.md"]),
    "rename a folder": (
        lambda top: (top / "notes/travel").rename(top / "notes/trips"),
        ["notes/travel/a.md", "notes/trips/a.md"],
    ),
    "rename a folder at the top": (
        lambda top: (top / "notes").rename(top / "papers"),
        ["notes/travel/a.md", "papers/travel/a.md"],
    ),
    "move between folders": (
        lambda top: (top / "notes/travel/a.md").rename(top / "memories/a.md"),
        ["notes/travel/a.md", "memories/a.md"],
    ),
    "move out": (lambda top: (top / "notes/travel").rename(top.parent / "out"), ["notes/travel/a.md"]),
    "remove a folder": (lambda top: shutil.rmtree(top / "notes"), ["notes/travel/a.md"]),
    "a name that is no text": (lambda top: (top / os.fsdecode(b"\xff.md")).write_text("x"), [os.fsdecode(b"\xff.md")]),
}


@pytest.mark.parametrize("change", CHANGES)
def test_every_kind_of_change_is_hinted(change: str, root: Path, watch: Watch, hints: Hints) -> None:
    act, expected = CHANGES[change]
    act(root)
    assert hints.wait(*expected), hints.paths
    assert not watch.problems()


def test_a_changed_ignore_file_is_a_reason_to_look_at_all_it_speaks_of(root: Path, watch: Watch, hints: Hints) -> None:
    """TREE-4."""
    (root / "notes/.gitignore").write_text("*.tmp")
    assert hints.wait("notes/anything.tmp") and None not in hints.paths
    (root / ".gitignore").write_text("*.tmp")
    assert hints.wait(None) and watch.problems() == []


def test_a_descriptor_that_stays_open_is_hinted_at_each_write(root: Path, watch: Watch, hints: Hints) -> None:
    with open(root / "memories/MEMORY.md", "ab", buffering=0) as opened:
        opened.write(b"more")
        assert hints.wait("memories/MEMORY.md") and watch.problems() == []


@pytest.mark.parametrize("place", ["new", "notes/new"])
def test_files_made_together_with_their_folder_are_covered(place: str, root: Path, watch: Watch, hints: Hints) -> None:
    for number in range(20):
        folder = root / f"{place}{number}" / "deep" / "er"
        folder.mkdir(parents=True)
        (folder / "x.md").write_text("x")
    assert hints.wait(*[f"{place}{number}/deep/er/x.md" for number in range(20)])
    hints.clear()
    for number in range(20):
        (root / f"{place}{number}" / "deep" / "er" / "x.md").write_text("later")
    assert hints.wait(*[f"{place}{number}/deep/er/x.md" for number in range(20)])
    assert watch.problems() == []


@pytest.mark.parametrize("place", ["notes", "notes/travel"])
def test_a_folder_that_is_removed_and_made_again_is_watched(place: str, root: Path, watch: Watch, hints: Hints) -> None:
    for _ in range(3):
        shutil.rmtree(root / place)
        (root / place).mkdir()
    hints.clear()
    (root / place / "b.md").write_text("x")
    assert hints.wait(f"{place}/b.md") and watch.problems() == []


def test_a_renamed_folder_is_watched_under_its_new_name(root: Path, watch: Watch, hints: Hints) -> None:
    (root / "notes").rename(root / "papers")
    hints.clear()
    (root / "papers/travel/a.md").write_text("y")
    assert hints.wait("papers/travel/a.md") and watch.problems() == []


@pytest.mark.parametrize("how", ["removed", "renamed"])
def test_a_root_that_went_and_came_back_is_watched(how: str, root: Path, watch: Watch, hints: Hints) -> None:
    if how == "removed":
        shutil.rmtree(root)
    else:
        root.rename(root.parent / "elsewhere")
    assert hints.wait(None)
    hints.clear()
    (root / "notes").mkdir(parents=True)
    assert hints.wait(None)
    watch.problems()
    hints.clear()
    (root / "notes/b.md").write_text("x")
    assert hints.wait("notes/b.md") and watch.problems() == []


def test_a_root_whose_whole_way_was_replaced_is_found_again(root: Path, watch: Watch, hints: Hints) -> None:
    root.parent.rename(root.parent.with_name("old"))
    (root / "notes").mkdir(parents=True)
    hints.clear()
    watch.check()
    assert hints.told(None)
    hints.clear()
    (root / "notes/b.md").write_text("x")
    assert hints.wait("notes/b.md")


def test_a_commit_hints_nothing_and_neither_does_reading(root: Path, watch: Watch, hints: Hints) -> None:
    git = ["git", "-C", str(root), "-c", "user.name=x", "-c", "user.email=x@x"]
    subprocess.run([*git, "init", "-q"], check=True, capture_output=True)
    hints.clear()
    subprocess.run([*git, "add", "-A"], check=True, capture_output=True)
    subprocess.run([*git, "commit", "-qm", "x"], check=True, capture_output=True)
    for place in root.rglob("*.md"):
        place.read_bytes()
    for place, _, _ in os.walk(root):
        os.listdir(place)
    time.sleep(QUIET)
    assert hints.paths == [] and watch.problems() == []


def test_a_git_directory_that_went_is_a_reason_to_look_at_everything(root: Path, watch: Watch, hints: Hints) -> None:
    """REPO-7: damage is noticed when it happens."""
    (root / ".git").rename(root.parent / "git")
    assert hints.wait(None) and watch.problems() == []


def test_reads_are_told_to_who_asks(root: Path, hints: Hints) -> None:
    """MERGE-12 can know that a file was closed after a read."""
    reads = Hints()
    watch = Watch(root, hints, Closes(reads))
    watch.start()
    try:
        (root / "memories/MEMORY.md").read_bytes()
        assert reads.wait("memories/MEMORY.md")
        (root / "SOUL.md").read_bytes()
        assert reads.wait("SOUL.md")
        time.sleep(QUIET)
        assert hints.paths == [] and None not in reads.paths
    finally:
        watch.stop()


def test_an_overflow_is_a_reason_to_look_at_everything(root: Path) -> None:
    """TECH §7: what the system drops is told by nothing but one event; folders made meanwhile are watched all the
    same."""
    hints, held, go_on = Hints(), threading.Event(), threading.Event()

    def hint(path: str | None) -> None:
        hints(path)
        held.set()
        assert go_on.wait(PATIENT)

    watch = Watch(root, hint)
    watch.start()
    try:
        (root / "SOUL.md").write_text("y")
        assert held.wait(PATIENT), "the reader waits in the first hint, and nobody empties the queue"
        for number in range(int(Path("/proc/sys/fs/inotify/max_queued_events").read_text()) // 2 + 100):
            os.utime(root / ("SOUL.md" if number % 2 else "memories/MEMORY.md"))
            os.utime(root / "notes/travel/a.md")
        (root / "notes/late").mkdir()
        go_on.set()
        assert hints.wait(None)
        hints.clear()
        (root / "notes/late/x.md").write_text("x")
        assert hints.wait("notes/late/x.md") and None not in hints.paths and watch.problems() == []
    finally:
        go_on.set()
        watch.stop()


def test_after_the_end_nothing_is_hinted(root: Path, hints: Hints) -> None:
    watch = Watch(root, hints)
    watch.start()
    watch.stop()
    (root / "SOUL.md").write_text("y")
    time.sleep(QUIET)
    watch.stop()
    assert hints.paths == [] and watch.problems() == []
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("watch")]


def test_a_root_that_is_not_there_yet_is_watched_when_it_comes(tmp_path: Path, hints: Hints) -> None:
    watch = Watch(tmp_path / "agent.soul", hints)
    watch.start()
    try:
        (tmp_path / "agent.soul" / "notes").mkdir(parents=True)
        assert hints.wait(None)
        watch.problems()
        hints.clear()
        (tmp_path / "agent.soul" / "notes" / "x.md").write_text("x")
        assert hints.wait("notes/x.md")
    finally:
        watch.stop()


# Limits: in a user namespace of its own, so that the machine's own stay as they are.

LIMITED = """
import sys, time, warnings
from pathlib import Path
sys.path.insert(0, sys.argv[1])
root = Path(sys.argv[2])
from bridge.adapters.watch import Watch
from tests.contract.listening import Closes
hints = []
watch = Watch(root, hints.append)
watch.blind = watch.partly_blind = 0.2
def limit(name, number):
    Path("/proc/sys/user", name).write_text(str(number))
def eventually(what):
    until = time.monotonic() + 10
    while not what():
        assert time.monotonic() < until, (hints, watch.problems())
        time.sleep(0.05)
"""

FEW_WATCHES = """
for number in range(40):
    (root / "notes" / str(number)).mkdir()
limit("max_inotify_watches", 10)
watch.start()
[told] = watch.problems()
assert "sysctl fs.inotify.max_user_watches" in told and "folders" in told and watch.degraded, told
eventually(lambda: hints.count(None) >= 3)
assert " 34 of 44 " in told or " 35 of 44 " in told, told
limit("max_inotify_watches", 1000)
eventually(lambda: watch.problems() == [])
assert not watch.degraded
time.sleep(0.5)
hints.clear()
time.sleep(0.5)
assert not hints
limit("max_inotify_watches", 10)
(root / "notes" / "one" / "more").mkdir(parents=True)
eventually(lambda: watch.problems())
watch.stop()
"""

NO_INSTANCE = """
limit("max_inotify_instances", 0)
watch.start()
[told] = watch.problems()
assert "sysctl fs.inotify.max_user_instances" in told and watch.degraded, told
eventually(lambda: hints.count(None) >= 3)
before = len(hints)
for _ in range(50):
    watch.problems()
assert len(hints) < before + 10, "asking for problems must not be a reason to look"
limit("max_inotify_instances", 100)
eventually(lambda: watch.problems() == [])
assert not watch.degraded
(root / "notes" / "x.md").write_text("x")
eventually(lambda: "notes/x.md" in hints)
watch.stop()
"""


@pytest.mark.parametrize("scene", [FEW_WATCHES, NO_INSTANCE], ids=["few watches", "no instance"])
def test_a_limit_is_told_with_its_remedy_and_hints_come_by_the_clock(scene: str, root: Path) -> None:
    words = ["unshare", "-Ur", sys.executable, "-c", LIMITED + scene, str(TOP), str(root)]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 0, ended.stderr + ended.stdout
