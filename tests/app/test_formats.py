"""The program's own files have a version: written down, brought up to date, and never misread by an older program."""

from __future__ import annotations

import hashlib
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from bridge.adapters import formats
from bridge.app.host import Host
from bridge.core.errors import Unusable
from tests.real import quick
from tests.real.quick import Body

WORDS = [
    ("sync",), ("sync", "--now"), ("status",), ("events",), ("doctor",), ("pause",), ("resume",),
    ("lease", "show"), ("run",), ("init", "kaoru"),
]  # fmt: skip


@pytest.fixture(scope="module")
def joined(tmp_path_factory: pytest.TempPathFactory) -> Iterator[quick.Fleet]:
    root = tmp_path_factory.mktemp("formats")
    host = Host(root / "host").start()
    fleet = quick.empty(host, root)
    body = fleet.body("laptop")
    body.write("memories/MEMORY.md", "owns a kettle\n§\nspeaks Finnish\n")
    body.sync()
    yield fleet
    host.stop()


@pytest.fixture
def body(joined: quick.Fleet, tmp_path: Path) -> Body:
    """A body that has recorded, published and remembered something."""
    return quick.copied(joined, tmp_path).bodies["laptop"]


def folders(body: Body) -> tuple[Path, Path]:
    return body.state, body.private()


def contents(folder: Path) -> dict[str, str]:
    """Every file of a folder, but the lock that says who looked last."""
    found = [path for path in folder.rglob("*") if path.is_file() and path.name != "lock"]
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in found}


def called(body: Body, words: tuple[str, ...]) -> quick.Done:
    """A call that has to end by itself; `run` sets signals, which this process wants back."""
    kept = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)}
    try:
        if words[0] == "init":
            words = ("init", body.agent, "--remote", body.remote, "--body", body.name)
        if words[0] == "run":
            done = subprocess.run(body.command("run"), env=body.env(), capture_output=True, text=True, timeout=60)
            return quick.Done(words, done.returncode, done.stdout, done.stderr)
        return body.run(*words)
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)


def test_each_folder_of_a_soul_says_which_format_its_files_have(body: Body) -> None:
    for folder in folders(body):
        assert (folder / "format").read_text() == f"{formats.newest()}\n"
        assert (folder / "format").stat().st_uid == folder.stat().st_uid


def test_files_from_before_there_was_a_number_are_taken_over_as_they_are(body: Body) -> None:
    for folder in folders(body):
        (folder / "format").unlink()
    before = body.json("events")
    body.append("memories/MEMORY.md", "§\nhas a canoe\n")
    assert body.sync()["recorded"] == ["bodies/laptop.json", "memories/MEMORY.md"], "what was seen is still known"
    assert body.json("events")[: len(before)] == before
    for folder in folders(body):
        assert (folder / "format").read_text() == f"{formats.newest()}\n"


@pytest.mark.parametrize("place", [0, 1], ids=["the state", "the git directory"])
def test_what_a_newer_version_keeps_is_refused_in_words_and_left_alone(body: Body, place: int) -> None:
    file = folders(body)[place] / "format"
    file.write_text("41\n")
    before = contents(file.parent)
    told = WORDS if place == 0 else [words for words in WORDS if words[0] in ("sync", "doctor", "run", "init", "lease")]
    for words in told:
        done = called(body, words)
        said = done.out + done.err
        assert done.code == (1 if words == ("doctor",) else 2), (words, said)
        assert f"{file} says 41" in said and f"up to {formats.newest()}" in said, (words, said)
        assert "safe" in said and "soul-bridge --version" in said and "Traceback" not in said, (words, said)
    assert contents(file.parent) == before
    file.write_text(f"{formats.newest()}\n")
    body.append("memories/MEMORY.md", "§\nhas a canoe\n")
    assert body.sync()["pushed"], "and nothing is lost"


def test_a_number_that_nobody_can_read_is_refused_with_the_way_out(body: Body) -> None:
    file = body.private() / "format"
    file.write_bytes(b"\0\0one\0\0")
    before = contents(file.parent)
    done = body.run("sync")
    assert done.code == 2 and f"{file} is damaged" in done.err and f"rm {file}" in done.err
    assert contents(file.parent) == before
    file.unlink()
    assert body.sync()["outcome"] == "ok"


@pytest.mark.parametrize("nothing", [b"", b"\0" * 4096, b"\n"], ids=["empty", "zeros", "a line"])
@pytest.mark.parametrize("place", [0, 1], ids=["the state", "the git directory"])
def test_a_number_that_a_power_cut_emptied_is_written_anew(body: Body, place: int, nothing: bytes) -> None:
    file = folders(body)[place] / "format"
    file.write_bytes(nothing)
    assert body.run("status").code == 0
    body.append("memories/MEMORY.md", "§\nhas a canoe\n")
    assert body.sync()["recorded"] == ["bodies/laptop.json", "memories/MEMORY.md"], "what was seen is still known"
    assert file.read_text() == f"{formats.newest()}\n"


@pytest.mark.parametrize("nothing", [b"", b"\0" * 37], ids=["empty", "zeros"])
def test_an_emptied_mark_of_a_checkout_that_is_ours_heals(body: Body, nothing: bytes) -> None:
    """GUARD-2: what this body remembers, and the commit that it brought to disk, are in it."""
    mark = body.private() / "id"
    before = mark.read_text()
    mark.write_bytes(nothing)
    body.append("memories/MEMORY.md", "§\nhas a canoe\n")
    assert body.sync()["pushed"] and mark.read_text() == before


def test_without_its_mark_a_checkout_is_told_as_such_where_nothing_else_shows_whose_it_is(body: Body) -> None:
    """GUARD-2: nothing is recorded; `init` is a person's word that it is the right one."""
    mark = body.private() / "id"
    before = mark.read_text()
    mark.write_bytes(b"")
    (body.state / "materialised").unlink()
    body.append("memories/MEMORY.md", "§\nhas a canoe\n")
    done = body.run("sync")
    assert done.code and "has lost its mark (.git/soul-bridge/id)" in done.out and "soul-bridge init" in done.err
    assert "another repository" not in done.out
    assert called(body, ("init", "kaoru")).code == 0 and mark.read_text() == before
    assert b"has a canoe" in body.tree()["memories/MEMORY.md"]
    mark.write_text("of-another\n")
    assert "another repository stands where" in body.run("sync").out


@pytest.mark.parametrize("garbage", [b"", b"\0" * 64, b'{"state": 5, "problem": 7}\n'], ids=["empty", "zeros", "other"])
def test_whatever_file_of_ours_is_damaged_nothing_is_lost_and_nothing_is_a_fault_of_ours(
    joined: quick.Fleet, tmp_path: Path, garbage: bytes
) -> None:
    """A command that needs the file says so and what to type; all others go on without what it held."""
    original = joined.bodies["laptop"]
    files = [path.relative_to(original.home) for place in folders(original) for path in place.rglob("*")]
    for number, file in enumerate(path for path in files if (original.home / path).is_file()):
        (tmp_path / str(number)).mkdir()
        body = quick.copied(joined, tmp_path / str(number)).bodies["laptop"]
        (body.home / file).write_bytes(garbage)
        body.append("memories/MEMORY.md", "§\nhas a canoe\n")
        for words in ("status", "sync", "status", "events", "doctor", "conflicts"):
            done = body.run(words)
            assert "fault of soul-bridge" not in done.err and "Traceback" not in done.err, (file, words, done.err)
            assert done.code == 0 or "next: " in done.err or words == "doctor", (file, words, done)
        entries = (body.soul / "memories/MEMORY.md").read_text().split("\n§\n")
        assert entries == ["owns a kettle", "speaks Finnish", "has a canoe\n"], file
        published = body.tree()["memories/MEMORY.md"].decode()
        assert "has a canoe" in published or (garbage.strip(b"\0") and file.name in ("format", "id", "checkout")), file


def test_a_step_that_a_crash_cut_short_is_taken_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The number follows the step: it is never ahead of what the files are."""
    taken: list[str] = []

    def second(folder: Path) -> None:
        taken.append("second")
        if taken.count("second") == 1:
            raise KeyboardInterrupt

    steps = (lambda folder: taken.append("first"), second, lambda folder: taken.append("third"))
    monkeypatch.setattr(formats, "_STEPS", steps)
    with pytest.raises(KeyboardInterrupt):
        formats.settle(tmp_path)
    assert (tmp_path / "format").read_text() == "1\n"
    formats.settle(tmp_path)
    assert taken == ["first", "second", "second", "third"] and (tmp_path / "format").read_text() == "3\n"
    formats.settle(tmp_path)
    assert len(taken) == 4, "done is done"
    monkeypatch.setattr(formats, "_STEPS", steps[:2])
    with pytest.raises(Unusable, match="a newer soul-bridge"):
        formats.settle(tmp_path)
