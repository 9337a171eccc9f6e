"""Many souls in one process: one inotify instance, one thread, and a fault in one that touches no other."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bridge.adapters.watch import Watch, reader
from tests.contract.listening import Closes

SOULS = 20
PATIENT = 10.0


class Watched:
    """A soul with its watcher, and what was hinted."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.hints: list[str | None] = []
        self.reads: list[str] = []
        self.upset = False
        for name in ("notes", "memories", ".git"):
            (root / name).mkdir(parents=True)
        self.watch = Watch(root, self.hint, Closes(self.reads.append))

    def hint(self, path: str | None) -> None:
        self.hints.append(path)
        if self.upset:
            raise ValueError("a bug in what this soul does with a hint")

    def works(self) -> bool:
        """Whether a new file in it is hinted, and not as "everything"."""
        self.hints.clear()
        name = f"notes/{time.monotonic_ns()}.md"
        (self.root / name).write_text("x")
        return until(lambda: self.told(name)) and None not in self.hints and self.watch.problems() == []

    def told(self, path: str) -> bool:
        """Whether a hint names the path, or a folder that it is in."""
        return any(hint is not None and (path + "/").startswith(hint + "/") for hint in self.hints)


def until(what: Callable[[], bool]) -> bool:
    end = time.monotonic() + PATIENT
    while not what():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def instances() -> int:
    """How many inotify instances this process has."""
    links = []
    for number in os.listdir("/proc/self/fd"):
        try:
            links.append(os.readlink(f"/proc/self/fd/{number}"))
        except FileNotFoundError:
            continue  # the one that lists them
    return links.count("anon_inode:inotify")


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("watch")]


@pytest.fixture
def souls(tmp_path: Path) -> Iterator[list[Watched]]:
    assert instances() == 0 and threads() == []
    made = [Watched(tmp_path / f"agent{number}.soul") for number in range(SOULS)]
    for each in made:
        each.watch.start()
    yield made
    for each in made:
        each.watch.stop()
    assert instances() == 0 and threads() == [], "the last one gives the instance and the thread back"


def test_twenty_souls_share_one_instance_and_one_thread(souls: list[Watched]) -> None:
    assert instances() == 1 and threads() == ["watch"]
    assert all(each.works() for each in souls)
    assert until(lambda: threads() == ["watch"]) and instances() == 1


def test_a_soul_hears_of_no_other(souls: list[Watched]) -> None:
    first, *others = souls
    (first.root / "notes/a.md").write_text("x")
    (first.root / "notes/a.md").read_bytes()
    assert until(lambda: "notes/a.md" in first.hints and "notes/a.md" in first.reads)
    (first.root / "new").mkdir()
    assert until(lambda: "new" in first.hints)
    assert not any(each.hints or each.reads for each in others)


def test_one_that_ends_and_begins_again_leaves_the_others(souls: list[Watched]) -> None:
    first, *others = souls
    for _ in range(3):
        first.watch.stop()
        assert instances() == 1 and all(each.works() for each in others[:3])
        first.watch.start()
        assert first.works()
    assert instances() == 1 and all(each.works() for each in souls)


def test_a_soul_whose_directory_goes_leaves_the_others(souls: list[Watched]) -> None:
    """They stand in one directory, which all of them listen to."""
    first, *others = souls
    shutil.rmtree(first.root)
    assert until(lambda: None in first.hints)
    assert all(each.works() for each in others)
    first.hints.clear()
    (first.root / "notes").mkdir(parents=True)
    assert until(lambda: None in first.hints and threads() == ["watch"])
    assert first.works(), "and what comes back is watched again"
    shutil.rmtree(first.root)
    first.watch.stop()
    assert all(each.works() for each in others)


def test_an_overflow_by_one_makes_all_look_and_stops_none(souls: list[Watched]) -> None:
    first, *others = souls
    held, go_on = threading.Event(), threading.Event()
    plain, first.watch._on_hint = first.hint, lambda path: (held.set(), go_on.wait(PATIENT))  # type: ignore[assignment]
    first.watch.stop()
    first.watch.start()
    (first.root / "notes/a.md").write_text("x")
    assert held.wait(PATIENT)
    for _ in range(int(Path("/proc/sys/fs/inotify/max_queued_events").read_text()) // 2 + 100):
        os.utime(first.root / "notes/a.md")
        os.utime(first.root / "notes")
        os.utime(first.root / "memories")
    go_on.set()
    assert until(lambda: all(None in each.hints for each in others))
    first.watch._on_hint = plain
    assert until(lambda: threads() == ["watch"])
    assert all(each.works() for each in others) and instances() == 1


def test_a_bug_in_one_soul_is_told_and_ends_the_hints_of_no_other(
    souls: list[Watched], capsys: pytest.CaptureFixture[str]
) -> None:
    first, *others = souls
    first.upset = True
    (first.root / "notes/a.md").write_text("x")
    assert until(lambda: None in first.hints), "it is asked to look at everything"
    assert "a bug in what this soul does with a hint" in capsys.readouterr().err
    assert all(each.works() for each in others)
    first.upset = False
    first.watch.check()
    assert first.works() and instances() == 1


def test_a_reader_that_died_is_replaced_for_all(souls: list[Watched]) -> None:
    """However it may have come to that: here its thread is ended from outside."""
    os.eventfd_write(reader._current[0]._end, 1)
    assert until(lambda: threads() == [])
    for each in souls:
        each.watch.problems()
        assert None in each.hints
    assert all(each.works() for each in souls)
    assert instances() == 1 and threads() == ["watch"]


def test_a_tree_that_comes_into_one_soul_is_watched_to_its_leaves(souls: list[Watched]) -> None:
    first, *others = souls
    outside = first.root.parent / "outside"
    for number in range(300):
        (outside / f"{number % 7}" / f"{number}" / "deep").mkdir(parents=True)
    outside.rename(first.root / "notes/came")
    assert until(lambda: "notes/came" in first.hints and threads() == ["watch"])
    first.hints.clear()
    (first.root / "notes/came/6/293/deep/x.md").write_text("x")
    assert until(lambda: "notes/came/6/293/deep/x.md" in first.hints)
    (first.root / "notes/came").rename(outside)
    assert until(lambda: "notes/came" in first.hints and threads() == ["watch"])
    first.hints.clear()
    (outside / "6/293/deep/x.md").write_text("y")
    assert all(each.works() for each in others) and first.works()
    assert not any(hint and hint.startswith("notes/came") for hint in first.hints), "what left is watched no more"


def test_two_folders_that_change_places_are_both_watched_under_their_new_names(souls: list[Watched]) -> None:
    soul = souls[0]
    (soul.root / "notes/in").mkdir()
    for _ in range(20):
        between = soul.root / "between"
        (soul.root / "notes").rename(between)
        (soul.root / "memories").rename(soul.root / "notes")
        between.rename(soul.root / "memories")
    assert until(lambda: "notes" in soul.hints and threads() == ["watch"])
    assert soul.works()
    (soul.root / "notes/in/b.md").write_text("x")
    (soul.root / "memories/b.md").write_text("x")
    assert until(lambda: soul.told("notes/in/b.md") and soul.told("memories/b.md"))
