"""The GUARD rules and MERGE-12 on running daemons: what waits, what is never lost, whom a stale writer cannot undo."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from tests.real.fleet import Body, Fleet, fsck, until
from tests.real.rows import entries

GUARD = 5.0  # seconds


@pytest.fixture(scope="module")
def pair(found: Callable[..., Fleet]) -> Iterator[Fleet]:
    """Two bodies whose daemons run, each test with paths of its own."""
    fleet = found()
    for name in ("laptop", "server"):
        fleet.body(name, guard=f"{GUARD:g}s")
    fleet.converge()
    fleet.everyone(Body.start)
    yield fleet
    assert fleet.everyone(Body.stop) == [0, 0]


@pytest.fixture
def laptop(pair: Fleet) -> Body:
    """The body that writes."""
    return pair.bodies["laptop"]


@pytest.fixture
def other(pair: Fleet) -> Body:
    """The body that receives."""
    return pair.bodies["server"]


def waits(body: Body, path: str) -> str | None:
    """The rule by which a path waits, as `status` tells it."""
    return next((one["rule"] for one in body.status()["held"] if one["path"] == path), None)


def test_a_file_that_is_being_written_is_recorded_once_and_whole(pair: Fleet, laptop: Body, other: Body) -> None:
    """GUARD-1: a writer that streams into an open file with pauses longer than settle makes one commit."""
    before = len(pair.history())
    with (laptop.soul / "notes/stream.md").open("w") as file:
        file.write("# stream\n")
        for number in range(5):
            file.write(f"{number}\n")
            file.flush()
            time.sleep(0.25)
            assert "notes/stream.md" not in laptop.tree()
    until(lambda: other.read("notes/stream.md") == "# stream\n0\n1\n2\n3\n4\n", "the whole file arrives")
    assert len([line for line in pair.history()[: len(pair.history()) - before] if "stream" in line]) == 1


def test_a_memory_file_that_is_emptied_waits_and_then_counts(pair: Fleet, laptop: Body, other: Body) -> None:
    """GUARD-2: emptied, NUL-filled or halved, it waits `guard`, says so, and is recorded afterwards."""
    for name, content in (("emptied", ""), ("nul", "\0" * 30), ("halved", entries("a", "b"))):
        laptop.write(f"memories/{name}.md", entries("a", "b", "c", "d"))
        until(partial(other.read, f"memories/{name}.md"), f"{name} arrives")
        laptop.write(f"memories/{name}.md", content)
    paths = [f"memories/{name}.md" for name in ("emptied", "nul", "halved")]
    until(lambda: all(waits(laptop, path) == "GUARD-2" for path in paths), "all of them wait")
    assert [other.read(path) for path in paths] == [entries("a", "b", "c", "d")] * 3
    until(lambda: other.read("memories/halved.md") == entries("a", "b"), "the wait is over")
    until(lambda: not other.read("memories/emptied.md"), "the wait is over")
    until(lambda: waits(laptop, "memories/halved.md") is None, "nothing waits any more")


def test_a_wait_ends_when_the_entries_come_back(pair: Fleet, laptop: Body, other: Body) -> None:
    """GUARD-2: a delay is no refusal and no deletion: what comes back within it was never gone."""
    laptop.write("memories/back.md", entries("a", "b", "c", "d"))
    until(lambda: other.read("memories/back.md"), "it arrives")
    laptop.write("memories/back.md", "")
    until(lambda: waits(laptop, "memories/back.md") == "GUARD-2", "it waits")
    laptop.write("memories/back.md", entries("a", "b", "c", "d", "e"))
    until(lambda: other.entries("memories/back.md") == ["a", "b", "c", "d", "e"], "it arrives whole")
    assert not any("back" in line and "−" in line for line in pair.history())


def test_sync_now_ends_a_wait_at_once(pair: Fleet, laptop: Body, other: Body) -> None:
    """GUARD-2: `sync` leaves the wait, `sync --now` ends it."""
    laptop.configure(guard="10m")
    laptop.stop()
    laptop.start()
    laptop.write("memories/now.md", entries("a", "b", "c", "d"))
    until(lambda: other.read("memories/now.md"), "it arrives")
    laptop.write("memories/now.md", "")
    answer = laptop.sync()
    assert answer["held"][0]["rule"] == "GUARD-2" and "memories/now.md" in answer["pending"]
    assert laptop.tree()["memories/now.md"] == entries("a", "b", "c", "d").encode()
    laptop.sync("--now")
    assert laptop.tree()["memories/now.md"] == b""
    until(lambda: other.read("memories/now.md") == "", "it arrives")
    laptop.configure(guard=f"{GUARD:g}s")
    laptop.stop()
    laptop.start()


def test_many_files_that_vanish_wait_and_those_the_remote_removes_wait_too(
    pair: Fleet, laptop: Body, other: Body
) -> None:
    """GUARD-2, GUARD-3: a mass disappears; it waits where it was seen, and once more where it is carried out."""
    paths = [f"notes/mass/{number}.md" for number in range(60)]
    for path in paths:
        laptop.write(path, f"# {path}\n")
    until(lambda: all(other.read(path) for path in paths), "all of them arrive")
    laptop.remove("notes/mass")
    until(lambda: waits(laptop, paths[0]) == "GUARD-2", "they wait")
    assert paths[0] in laptop.tree()
    until(lambda: paths[0] not in laptop.tree(), "they are recorded")
    until(lambda: waits(other, paths[0]) == "GUARD-3" and paths[0] not in other.tree(), "they wait on the other body")
    assert other.read(paths[0]) is not None
    until(lambda: not any(other.read(path) for path in paths), "they are removed there")


def test_a_checkout_that_is_gone_empty_or_another_is_no_deletion(pair: Fleet, laptop: Body) -> None:
    """GUARD-2: nothing is recorded, nothing is cloned into it; when it is back, everything goes on."""
    tip, away = pair.tip(), laptop.soul.with_name("away")
    for stand_in in (None, "empty", "foreign"):
        laptop.soul.rename(away)
        if stand_in:
            laptop.soul.mkdir()
        if stand_in == "foreign":
            laptop.git("init", "-q", "-b", "main")
            laptop.git("commit", "-q", "--allow-empty", "-m", "another repository")
        answer = laptop.run("sync", "--json").document
        assert "GUARD-2" in str(answer) or "error" in answer, answer
        assert pair.tip() == tip
        if stand_in:
            assert set(os.listdir(laptop.soul)) <= {".git"}
            laptop.soul.rename(laptop.soul.with_name(f"stand-in-{stand_in}"))
        away.rename(laptop.soul)
    laptop.write("notes/after.md", "# after\n")
    laptop.sync()
    assert "notes/after.md" in laptop.tree()


def test_bytes_written_through_a_descriptor_that_stays_open_are_not_lost(
    pair: Fleet, laptop: Body, other: Body
) -> None:
    """GUARD-4: a writer that keeps its file open while the remote changes it loses nothing, nor does the remote."""
    laptop.write("memories/open.md", entries("base"))
    until(lambda: other.read("memories/open.md"), "it arrives")
    with (laptop.soul / "memories/open.md").open("a") as file:
        for number in range(8):
            file.write(f"§\nheld {number}\n")
            file.flush()
            other.append("memories/open.md", f"§\nremote {number}\n")
            time.sleep(0.2)
    wanted = {"base", *(f"held {number}" for number in range(8)), *(f"remote {number}" for number in range(8))}
    until(lambda: wanted <= set(laptop.entries("memories/open.md")), "everything is there")
    until(lambda: wanted <= set(other.entries("memories/open.md")), "everything is there")


@pytest.mark.parametrize("habit", ["append", "rename_over", "write"])
def test_writers_on_both_bodies_lose_no_entry(pair: Fleet, laptop: Body, other: Body, habit: str) -> None:
    """GUARD-4, MERGE-2: agents that read, change and write the same file on two bodies at once lose nothing."""
    path = f"memories/race-{habit}.md"
    laptop.write(path, entries("base"))
    until(lambda: other.read(path), "it arrives")

    def work(body: Body) -> None:
        for number in range(15):
            text = f"{body.name} {number}"
            if habit == "append":
                body.append(path, f"§\n{text}\n")
            else:
                getattr(body, habit)(path, entries(*body.entries(path), text))
            time.sleep(0.05)

    threads = [threading.Thread(target=work, args=(body,)) for body in (laptop, other)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wanted = {"base", *(f"{body.name} {number}" for body in (laptop, other) for number in range(15))}
    pair.everywhere(lambda body: wanted <= set(body.entries(path)), "every entry is there")


def test_a_writer_that_never_reads_cannot_delete_what_arrived(pair: Fleet, laptop: Body, other: Body) -> None:
    """MERGE-12: an agent that rewrites its file from its own old copy leaves the others' entries alone."""
    path = "memories/stale.md"
    mine = ["base"]
    laptop.rename_over(path, entries(*mine))
    until(lambda: other.entries(path) == ["base"], "it arrives")
    for number in range(4):
        other.append(path, f"§\nother {number}\n")
        until(partial(_holds, laptop, path, f"other {number}"), "it arrives")
        mine.append(f"mine {number}")
        laptop.rename_over(path, entries(*mine))
        until(partial(_holds, other, path, f"mine {number}"), "it arrives")
    wanted = {"base", *(f"mine {number}" for number in range(4)), *(f"other {number}" for number in range(4))}
    pair.everywhere(lambda body: wanted == set(body.entries(path)), "every entry is there")


def _holds(body: Body, path: str, text: str) -> bool:
    """Whether main holds it: looking there is no reading of the working file, which the watcher would notice."""
    return text.encode() in body.tree().get(path, b"")


def test_a_deletion_by_an_agent_that_has_read_counts(pair: Fleet, laptop: Body, other: Body) -> None:
    """MERGE-12, MERGE-2: what an agent read and then left out is deleted everywhere."""
    path = "memories/read.md"
    laptop.write(path, entries("keep"))
    until(lambda: other.read(path), "it arrives")
    other.append(path, "§\ndelete me\n")
    until(lambda: _holds(laptop, path, "delete me"), "it arrives")
    time.sleep(2.5)  # our own reads around a write are over: what is read now is read by an agent
    assert "delete me" in laptop.entries(path)
    time.sleep(0.7)
    laptop.rename_over(path, entries("keep"))
    pair.everywhere(lambda body: body.entries(path) == ["keep"], "it is gone")


def test_a_shutdown_records_what_is_unsettled_and_pushes_it(pair: Fleet, laptop: Body, other: Body) -> None:
    """GUARD-1: SIGTERM finishes the pass, records the newest bytes and pushes once."""
    laptop.write("notes/last.md", "# last words\n")
    assert laptop.stop(signal.SIGTERM) == 0
    assert laptop.tree()["notes/last.md"] == b"# last words\n"
    assert laptop.tip() == pair.git("rev-parse", "main").strip() or "notes/last.md" in other.tree()
    laptop.start()


def test_the_pair_agrees_after_all_that(pair: Fleet) -> None:
    """MERGE-11, FORM-6: at rest everything is the same everywhere, and nobody commits any more."""
    pair.settled()
    pair.agree()
    tip = pair.tip()
    time.sleep(5)
    assert pair.tip() == tip
    fsck(pair.bare)
