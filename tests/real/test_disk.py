# ruff: noqa: F401, F811 - fixtures that are imported
"""What disks, people with git and half-finished work do to a soul: nothing is lost, nothing is deleted by mistake."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sqlite3
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.real import quick
from tests.real.fleet import fsck, tree_of, until
from tests.real.pair import fleet, host, laptop, server, template
from tests.real.quick import Body, Fleet

MEMORY = "memories/MEMORY.md"
NOTE = "notes/tea/sencha.md"
CANOE = "§\nhas a canoe\n"
SAUNA = "§\nhas a sauna\n"


def mounted(place: Path, *words: str) -> None:
    """Mount something at a place."""
    place.mkdir(exist_ok=True)
    subprocess.run(["mount", *words, str(place)], check=True)


@pytest.fixture
def mount() -> Iterator[Callable[..., None]]:
    """Mounts that end with the test."""
    if os.geteuid() != 0:
        pytest.skip("root is missing, without whom nothing can be mounted")
    places: list[Path] = []

    def make(place: Path, *words: str) -> None:
        mounted(place, *words)
        places.append(place)

    yield make
    for place in reversed(places):
        subprocess.run(["umount", "-l", str(place)], check=False, capture_output=True)


def whole(body: Body, before: dict[str, bytes]) -> None:
    """No working file is half: each is as it was, or as main has it."""
    tree = body.tree()
    for path, content in body.files().items():
        assert content in (before.get(path), tree.get(path)), path


# --- the disk -----------------------------------------------------------------------------------------------------


def fill(place: Path, leave: int) -> Path:
    """Use up a file system but for so many bytes."""
    filler = place / "filler"
    room = os.statvfs(place).f_bavail * os.statvfs(place).f_frsize
    with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
        file.write(b"x" * max(0, room - leave))
        while not leave:
            file.write(b"x" * 512)
    return filler


def on_a_small_disk(fleet: Fleet, body: Body, place: Path) -> Body:
    """The same body, its home copied to another file system."""
    moved = Body(body.name, place / body.name, body.remote)
    shutil.copytree(body.home, moved.home, symlinks=True)
    config = moved.home / "config/kaoru.yaml"
    config.write_text(config.read_text().replace(str(body.home), str(moved.home)))
    fleet.bodies[body.name] = moved
    return moved


def test_a_full_disk_is_waited_for_and_nothing_is_half(
    fleet: Fleet,
    laptop: Body,
    server: Body,
    mount: Callable[..., None],
    tmp_path: Path,
) -> None:
    """GUARD-4, TREE: whatever step finds no room, files are whole, the reason is told, and it goes on by itself."""
    small = tmp_path / "small"
    mount(small, "-t", "tmpfs", "-o", "size=3m", "none")
    body = on_a_small_disk(fleet, laptop, small)
    body.sync()
    for number, leave in enumerate((0, 4096, 12288, 32768, 65536, 131072)):
        server.append(MEMORY, f"§\nfrom the server {number}\n")
        server.write(f"notes/big{number}.md", "# big\n" + "".join(chr(97 + at % 26) for at in range(40_000)))
        server.sync()
        body.append(MEMORY, f"§\nfrom the laptop {number}\n")
        before = body.files()
        filler = fill(small, leave)
        done = body.run("sync", "--json")
        assert done.code in (0, 1) and "Traceback" not in done.err, done
        if done.code == 1:
            error = done.document["error"]
            assert error["kind"] == "disk" and error["message"], error
        assert leave or done.code == 1
        whole(body, before)
        filler.unlink()
        body.sync()
        fsck(body.soul)
        assert {f"from the server {number}", f"from the laptop {number}"} <= set(body.entries(MEMORY))
    fleet.converge()
    fleet.agree()


@pytest.mark.parametrize("running", [False, True])
def test_status_tells_of_a_full_disk_though_nobody_could_note_it(
    fleet: Fleet, laptop: Body, mount: Callable[..., None], tmp_path: Path, running: bool
) -> None:
    """The last note there says that all is in sync: it is older than the disk is full."""
    small = tmp_path / "small"
    mount(small, "-t", "tmpfs", "-o", "size=3m", "none")
    body = on_a_small_disk(fleet, laptop, small)
    body.sync()
    if running:
        body.start()
    filler = fill(small, 0)
    body.run("sync")
    told = body.json("status")
    assert isinstance(told, dict) and told["problem"]["kind"] == "disk", told
    assert told["state"] == ("waiting" if running else "stopped")
    assert body.run("status").out.startswith(("not in sync", "stopped; not in sync"))
    filler.unlink()
    body.sync()
    told = body.json("status")
    assert isinstance(told, dict) and told["problem"] is None
    body.stop()


def test_a_daemon_outlives_a_full_disk(
    fleet: Fleet,
    laptop: Body,
    server: Body,
    mount: Callable[..., None],
    tmp_path: Path,
) -> None:
    """The daemon neither ends nor gives up: there is room again, and it goes on."""
    small = tmp_path / "small"
    mount(small, "-t", "tmpfs", "-o", "size=3m", "none")
    body = on_a_small_disk(fleet, laptop, small)
    body.start()
    body.append(MEMORY, CANOE)
    filler = fill(small, 0)
    server.append(MEMORY, SAUNA)
    server.sync()
    time.sleep(1.5)
    assert body.daemon is not None and body.daemon.poll() is None, body.log()
    filler.unlink()
    until(lambda: {"has a canoe", "has a sauna"} <= set(body.entries(MEMORY)), "the rest arrives")
    until(lambda: b"has a canoe" in tree_of(fleet.bare)[MEMORY], "what was written is published")
    assert body.stop() == 0
    fsck(body.soul)


def test_a_disk_that_became_read_only_is_told_and_waited_for(
    fleet: Fleet,
    laptop: Body,
    server: Body,
    mount: Callable[..., None],
) -> None:
    """A snapshot or a dying card: the status can be read, nothing is lost, and it goes on when the disk does."""
    server.append(MEMORY, SAUNA)
    server.sync()
    laptop.append(MEMORY, CANOE)
    before = laptop.files()
    mount(laptop.home, "--bind", str(laptop.home))
    subprocess.run(["mount", "-o", "remount,bind,ro", str(laptop.home)], check=True)
    done = laptop.run("sync", "--json")
    assert done.code == 1 and done.document["error"]["kind"] == "disk", done
    assert "ead-only" in done.document["error"]["message"] and "Traceback" not in done.err
    assert laptop.run("status", "--json").code == 0
    assert laptop.files() == before
    subprocess.run(["umount", "-l", str(laptop.home)], check=True)
    laptop.sync()
    assert {"has a canoe", "has a sauna"} <= set(laptop.entries(MEMORY))
    fleet.converge()
    fleet.agree()


def test_a_daemon_outlives_a_disk_that_is_read_only_for_a_while(
    fleet: Fleet,
    laptop: Body,
    server: Body,
    mount: Callable[..., None],
) -> None:
    """The working files alone became read-only under a running daemon."""
    laptop.start()
    notes = laptop.soul / "notes"
    mount(notes, "--bind", str(notes))
    subprocess.run(["mount", "-o", "remount,bind,ro", str(notes)], check=True)
    server.write("notes/new.md", "# new\n")
    server.append(MEMORY, SAUNA)
    server.sync()
    until(lambda: "has a sauna" in laptop.entries(MEMORY), "all else goes on")
    assert laptop.read("notes/new.md") is None
    subprocess.run(["umount", "-l", str(notes)], check=True)
    until(lambda: laptop.read("notes/new.md") == "# new\n", "the rest arrives by itself", 40)
    assert laptop.stop() == 0
    assert "notes/tea/sencha.md" in tree_of(fleet.bare)


@pytest.mark.parametrize("what", ["file", "folder"])
def test_what_cannot_be_replaced_is_held_and_stops_nothing(
    fleet: Fleet,
    laptop: Body,
    server: Body,
    what: str,
) -> None:
    """GUARD-5: an immutable file or folder is named; the rest arrives; when it can be changed again, so does it."""
    place = laptop.soul / (NOTE if what == "file" else "notes/tea")
    if shutil.which("chattr") is None or subprocess.run(["chattr", "+i", str(place)], capture_output=True).returncode:
        pytest.skip("chattr, or a file system that knows immutable files, is missing")
    try:
        server.write(NOTE, "# sencha\n\n60 degrees.\n")
        server.append(MEMORY, SAUNA)
        server.sync()
        answer = laptop.sync()
        assert "has a sauna" in laptop.entries(MEMORY)
        assert laptop.read(NOTE) == "# sencha\n\n70 degrees.\n"
        assert NOTE in {one["path"] for one in answer["held"]}
        server.remove(NOTE)
        server.sync()
        laptop.sync()
        assert laptop.read(NOTE) == "# sencha\n\n70 degrees.\n"
    finally:
        subprocess.run(["chattr", "-i", str(place)], check=True)
    laptop.sync()
    assert laptop.read(NOTE) is None
    fleet.converge()
    fleet.agree()


# --- the checkout -------------------------------------------------------------------------------------------------


def vanished(body: Body) -> Callable[[], object]:
    body.soul.rename(body.soul.with_name("away"))
    return lambda: body.soul.with_name("away").rename(body.soul)


def emptied(body: Body) -> Callable[[], object]:
    again = vanished(body)
    body.soul.mkdir()
    return lambda: (body.soul.rmdir(), again())


def replaced(body: Body) -> Callable[[], object]:
    again = vanished(body)
    body.soul.mkdir()
    quick.person(body.soul, "init", "-q", "-b", "main")
    (body.soul / "SOUL.md").write_text("# Somebody else\n")
    quick.person(body.soul, "add", "-A")
    quick.person(body.soul, "commit", "-qm", "other")
    return lambda: (shutil.rmtree(body.soul), again())


def linked_nowhere(body: Body) -> Callable[[], object]:
    again = vanished(body)
    body.soul.symlink_to("nowhere")
    return lambda: (body.soul.unlink(), again())


def a_file(body: Body) -> Callable[[], object]:
    again = vanished(body)
    body.soul.write_text("")
    return lambda: (body.soul.unlink(), again())


def unmounted(body: Body) -> Callable[[], object]:
    mounted(body.soul, "-t", "tmpfs", "none")
    return lambda: subprocess.run(["umount", "-l", str(body.soul)], check=True)


ABSENCES = (vanished, emptied, replaced, linked_nowhere, a_file, unmounted)


@pytest.mark.parametrize("absence", ABSENCES)
def test_a_checkout_that_is_not_there_is_no_deletion(
    fleet: Fleet,
    laptop: Body,
    server: Body,
    absence: Callable[[Body], Callable[[], object]],
) -> None:
    """GUARD-2: nothing is recorded, cloned or written; when it is back, it goes on."""
    if absence is unmounted and os.geteuid() != 0:
        pytest.skip("root is missing, without whom nothing can be mounted")
    server.append(MEMORY, SAUNA)
    server.sync()
    tip = fleet.tip()
    again = absence(laptop)
    try:
        for words in (("sync",), ("sync", "--now")):
            done = laptop.run(*words, "--json")
            assert done.code == 1 and done.document["error"]["rule"] == "GUARD-2", done
            assert done.document["error"]["advice"] and "Traceback" not in done.err
        assert fleet.tip() == tip
        assert not laptop.soul.is_dir() or set(os.listdir(laptop.soul)) <= {".git", "SOUL.md"}
    finally:
        again()
    laptop.append(MEMORY, CANOE)
    laptop.sync()
    assert {"has a canoe", "has a sauna"} <= set(laptop.entries(MEMORY))


def test_a_daemon_waits_for_its_checkout(fleet: Fleet, laptop: Body, server: Body) -> None:
    """GUARD-2: moved away and back while it runs: told, nothing deleted, and it goes on by itself."""
    laptop.start()
    again = vanished(laptop)
    until(lambda: (laptop.seen().get("problem") or {}).get("kind") == "disk", "it is told")
    server.append(MEMORY, SAUNA)
    server.sync()
    tip = fleet.tip()
    again()
    laptop.append(MEMORY, CANOE)
    until(lambda: "has a sauna" in laptop.entries(MEMORY), "it goes on")
    until(lambda: b"has a canoe" in tree_of(fleet.bare)[MEMORY], "and publishes")
    assert tree_of(fleet.bare).keys() == tree_of(fleet.bare, tip).keys()
    assert laptop.stop() == 0


def folder_vanished(body: Body) -> Callable[[], object]:
    (body.soul / "notes").rename(body.home / "notes-away")
    return lambda: (
        shutil.rmtree(body.soul / "notes", ignore_errors=True),
        (body.home / "notes-away").rename(body.soul / "notes"),
    )


def folder_emptied(body: Body) -> Callable[[], object]:
    again = folder_vanished(body)
    (body.soul / "notes").mkdir()
    return again


def folder_linked(body: Body) -> Callable[[], object]:
    again = folder_vanished(body)
    (body.soul / "notes").symlink_to(body.home / "notes-away")
    return lambda: ((body.soul / "notes").unlink(), again())


def folder_linked_empty(body: Body) -> Callable[[], object]:
    again = folder_vanished(body)
    (body.home / "void").mkdir()
    (body.soul / "notes").symlink_to(body.home / "void")
    return lambda: ((body.soul / "notes").unlink(), again())


def folder_covered(body: Body) -> Callable[[], object]:
    mounted(body.soul / "notes", "-t", "tmpfs", "none")
    return lambda: subprocess.run(["umount", "-l", str(body.soul / "notes")], check=True)


def folder_a_repository(body: Body) -> Callable[[], object]:
    quick.person(body.soul / "notes", "init", "-q")
    return lambda: shutil.rmtree(body.soul / "notes/.git")


@pytest.mark.parametrize(
    "absence",
    [folder_vanished, folder_emptied, folder_linked, folder_linked_empty, folder_covered, folder_a_repository],
)
def test_a_folder_that_is_not_there_is_no_deletion_at_once(
    fleet: Fleet,
    laptop: Body,
    server: Body,
    absence: Callable[[Body], Callable[[], object]],
) -> None:
    """GUARD-2, GUARD-6: gone, linked, covered or taken over: it waits or is held; when it is back, all is well."""
    if absence is folder_covered and os.geteuid() != 0:
        pytest.skip("root is missing, without whom nothing can be mounted")
    for number in range(12):
        laptop.write(f"notes/box/{number}.md", f"# {number}\n")
    laptop.sync()
    server.sync()
    again = absence(laptop)
    try:
        laptop.append(MEMORY, CANOE)
        answer = laptop.sync()
        assert answer["pushed"] and answer["held"]
        assert {one["rule"] for one in answer["held"]} <= {"GUARD-2", "GUARD-6", "TREE-6"}
        server.sync()
        assert sum(path.startswith("notes/box/") for path in server.files()) == 12
        server.write("notes/box/3.md", "# 3\n\nchanged meanwhile\n")
        server.sync()
        laptop.sync()
    finally:
        again()
    laptop.sync()
    assert laptop.read("notes/box/3.md") == "# 3\n\nchanged meanwhile\n"
    fleet.converge()
    assert sum(path.startswith("notes/box/") for path in fleet.agree()) == 12


def test_stale_locks_everywhere_at_once_stop_nothing(fleet: Fleet, laptop: Body, server: Body) -> None:
    """REPO-7: in every folder of the git directory, and beside the working files."""
    then = time.time() - 3600
    for folder, _, files in os.walk(laptop.soul / ".git"):
        for name in [*files, "stray"]:
            if not name.endswith(".lock") and "soul-bridge" not in folder:
                lock = Path(folder, f"{name}.lock")
                lock.touch()
                os.utime(lock, (then, then))
    for path in (MEMORY, NOTE, "agent.json"):
        (laptop.soul / f"{path}.lock").touch()
    (laptop.soul / ".gitignore").write_text((laptop.soul / ".gitignore").read_text() + "*.lock\n")
    server.append(MEMORY, SAUNA)
    server.sync()
    laptop.append(MEMORY, CANOE)
    assert laptop.sync()["pushed"]
    assert "has a sauna" in laptop.entries(MEMORY)
    fleet.converge()


# --- a person with git --------------------------------------------------------------------------------------------


def conflicting(body: Body) -> None:
    """Two branches that cannot be merged without a person."""
    body.person("checkout", "-q", "-b", "side")
    for branch, words in (("side", "60"), ("main", "80")):
        body.person("checkout", "-q", branch)
        body.write("notes/by-hand.md", f"# by-hand\n\n{words}\n")
        body.person("add", "-A")
        body.person("commit", "-qm", words)


def merge(body: Body) -> tuple[str, ...]:
    body.person("merge", "-q", "side", check=False)
    return ("merge", "--abort")


def rebase(body: Body) -> tuple[str, ...]:
    body.person("rebase", "-q", "side", check=False)
    return ("rebase", "--abort")


def cherry_pick(body: Body) -> tuple[str, ...]:
    body.person("cherry-pick", "side", check=False)
    return ("cherry-pick", "--abort")


def revert(body: Body) -> tuple[str, ...]:
    body.write("notes/by-hand.md", "# by-hand\n\n90\n")
    body.person("commit", "-qam", "90")
    body.person("revert", "--no-edit", "HEAD~1", check=False)
    return ("revert", "--abort")


def bisect(body: Body) -> tuple[str, ...]:
    body.person("bisect", "start", "-q", "HEAD", "HEAD~3")
    return ("bisect", "reset")


@pytest.mark.parametrize("begin", [merge, rebase, cherry_pick, revert, bisect])
def test_a_persons_work_in_progress_is_stood_off_from(
    fleet: Fleet,
    laptop: Body,
    server: Body,
    begin: Callable[[Body], tuple[str, ...]],
) -> None:
    """REPO-7: nothing is recorded, moved or written until it is over; no marker is ever published."""
    conflicting(laptop)
    end = begin(laptop)
    server.append(MEMORY, SAUNA)
    server.sync()
    tip, head, files = fleet.tip(), laptop.person("rev-parse", "HEAD"), laptop.files()
    for words in (("sync",), ("sync", "--now")):
        answer = laptop.json(*words)
        assert answer["outcome"] == "waiting" and begin.__name__.replace("_", "-") in answer["sentence"]
        assert not answer["recorded"] and not answer["written"]
    assert (fleet.tip(), laptop.person("rev-parse", "HEAD"), laptop.files()) == (tip, head, files)
    laptop.person(*end)
    if laptop.person("symbolic-ref", "-q", "HEAD", check=False).strip() != "refs/heads/main":
        laptop.person("checkout", "-q", "main")
    laptop.sync()
    laptop.sync()
    assert "has a sauna" in laptop.entries(MEMORY)
    fleet.converge()
    for content in tree_of(fleet.bare).values():
        assert b"<<<<<<<" not in content


def prepared(fleet: Fleet, laptop: Body, server: Body) -> str:
    """A published commit that a person may take back; its id."""
    laptop.write(NOTE, "# sencha\n\n65 degrees.\n")
    laptop.append(MEMORY, CANOE)
    laptop.sync()
    server.sync()
    return fleet.tip()


def test_a_hard_reset_is_an_undo_that_everybody_gets(fleet: Fleet, laptop: Body, server: Body) -> None:
    """REPO-7, REPO-3: what the files hold is the person's to say; history grows all the same."""
    tip = prepared(fleet, laptop, server)
    laptop.person("reset", "-q", "--hard", "HEAD~1")
    laptop.sync()
    server.sync()
    assert server.read(NOTE) == "# sencha\n\n70 degrees.\n" and "has a canoe" not in server.entries(MEMORY)
    assert tip in fleet.git("rev-list", "main").split()
    fleet.agree()


def test_a_soft_reset_is_nothing(fleet: Fleet, laptop: Body, server: Body) -> None:
    """REPO-7: main goes back to where it was, and the files have not changed."""
    tip = prepared(fleet, laptop, server)
    laptop.person("reset", "-q", "--soft", "HEAD~2")
    laptop.sync()
    assert fleet.tip() == laptop.tip() == tip
    assert laptop.read(NOTE) == "# sencha\n\n65 degrees.\n"


def test_an_amended_commit_is_kept_and_not_published(fleet: Fleet, laptop: Body, server: Body) -> None:
    """REPO-7: published history is not rewritten; what the amended commit holds beyond it is a new record."""
    tip = prepared(fleet, laptop, server)
    laptop.write(NOTE, "# sencha\n\n55 degrees.\n")
    laptop.person("commit", "-qa", "--amend", "-m", "amended")
    amended = laptop.person("rev-parse", "HEAD").strip()
    laptop.sync()
    server.sync()
    assert server.read(NOTE) == "# sencha\n\n55 degrees.\n"
    published = fleet.git("rev-list", "main").split()
    assert tip in published and amended not in published
    assert amended in laptop.git("for-each-ref", "--format=%(objectname)", "refs/soul-bridge/keep").split()
    fleet.agree()


def test_a_commit_on_top_is_accepted_as_it_is(fleet: Fleet, laptop: Body, server: Body) -> None:
    """REPO-7, COMMIT-3: with the person's name and words."""
    prepared(fleet, laptop, server)
    laptop.write("notes/own.md", "# own\n")
    laptop.person("add", "-A")
    laptop.person("commit", "-qm", "my own words")
    mine = laptop.person("rev-parse", "HEAD").strip()
    laptop.sync()
    server.sync()
    assert mine in fleet.git("rev-list", "main").split() and server.read("notes/own.md") == "# own\n"


def test_a_stash_is_what_the_files_hold(fleet: Fleet, laptop: Body, server: Body) -> None:
    """REPO-7: an edit that was stashed before it was seen is not there; when it is popped, it is."""
    prepared(fleet, laptop, server)
    laptop.write(NOTE, "# sencha\n\n55 degrees.\n")
    laptop.person("stash", "-q")
    laptop.sync()
    server.sync()
    assert server.read(NOTE) == "# sencha\n\n65 degrees.\n"
    laptop.person("stash", "pop", "-q")
    laptop.sync()
    server.sync()
    assert server.read(NOTE) == "# sencha\n\n55 degrees.\n"


@pytest.mark.parametrize("place", ["HEAD~1", "side"])
def test_elsewhere_than_on_main_nothing_is_done(
    fleet: Fleet,
    laptop: Body,
    server: Body,
    place: str,
) -> None:
    """REPO-7: a detached HEAD or another branch is waited for, by name; back on main it goes on."""
    prepared(fleet, laptop, server)
    laptop.person("branch", "side", "HEAD~2")
    laptop.person("checkout", "-q", place)
    files, tip = laptop.files(), fleet.tip()
    laptop.write("notes/elsewhere.md", "# elsewhere\n")
    answer = laptop.sync()
    assert answer["outcome"] == "waiting"
    assert ("side" if place == "side" else "detached") in answer["sentence"]
    assert laptop.files() == files | {"notes/elsewhere.md": b"# elsewhere\n"} and fleet.tip() == tip
    laptop.person("checkout", "-q", "main")
    laptop.sync()
    server.sync()
    assert server.read("notes/elsewhere.md") == "# elsewhere\n"
    assert server.read(NOTE) == "# sencha\n\n65 degrees.\n"
    fleet.agree()


def test_an_old_version_that_was_checked_out_is_an_edit(fleet: Fleet, laptop: Body, server: Body) -> None:
    """REPO-7: `git checkout COMMIT -- PATH` is what the person wants the file to hold."""
    prepared(fleet, laptop, server)
    laptop.person("checkout", "-q", "HEAD~1", "--", NOTE)
    laptop.sync()
    server.sync()
    assert server.read(NOTE) == "# sencha\n\n70 degrees.\n"
    fleet.converge()
    fleet.agree()


@pytest.mark.parametrize(
    "words",
    [
        ("update-ref", "-d", "refs/heads/main"),
        ("update-ref", "refs/heads/main", "HEAD~2"),
        ("pack-refs", "--all", "--prune"),
        ("gc", "-q", "--aggressive", "--prune=now"),
        ("rm", "-q", "--cached", "-r", "notes"),
        ("read-tree", "--empty"),
        ("clean", "-q", "-fdx"),
        ("config", "core.bare", "true"),
        ("update-index", "--split-index"),
        ("reflog", "expire", "--expire=now", "--all"),
    ],
    ids=lambda words: words[0] if isinstance(words, tuple) else None,
)
def test_whatever_git_does_to_refs_objects_and_index_deletes_nothing(
    fleet: Fleet,
    laptop: Body,
    server: Body,
    words: tuple[str, ...],
) -> None:
    """REPO-7: housekeeping and accidents by hand; nothing published is lost, and the next write arrives."""
    tip = prepared(fleet, laptop, server)
    before = set(tree_of(fleet.bare))
    laptop.person(*words)
    laptop.append(MEMORY, SAUNA)
    laptop.sync()
    server.sync()
    assert "has a sauna" in server.entries(MEMORY)
    gone = before - set(tree_of(fleet.bare))
    assert not gone
    assert tip in fleet.git("rev-list", "main").split()


def test_half_a_reset_is_finished_by_whoever_began_it(fleet: Fleet, laptop: Body, server: Body) -> None:
    """REPO-7: git was killed in a hard reset: its young lock is waited for, then what the files hold counts."""
    tip = prepared(fleet, laptop, server)
    laptop.write(NOTE, "# sencha\n\n70 degrees.\n")
    lock = laptop.soul / ".git/index.lock"
    lock.write_bytes((laptop.soul / ".git/index").read_bytes()[:100])
    answer = laptop.sync()
    assert answer["outcome"] == "waiting" and not answer["recorded"] and fleet.tip() == tip
    then = time.time() - 3600
    os.utime(lock, (then, then))
    laptop.sync()
    server.sync()
    assert server.read(NOTE) == "# sencha\n\n70 degrees.\n" and "has a canoe" in server.entries(MEMORY)
    fleet.agree()


def test_a_soul_inside_another_repository_stays_its_own(fleet: Fleet, laptop: Body, server: Body) -> None:
    """AUTH-7: the outer repository is neither read nor changed, not even when the soul's own .git is lost."""
    outer = laptop.soul.parent
    quick.person(outer, "init", "-q", "-b", "trunk")
    (outer / "own.txt").write_text("own\n")
    quick.person(outer, "add", "own.txt")
    quick.person(outer, "commit", "-qm", "outer")
    before = quick.person(outer, "rev-parse", "HEAD"), quick.person(outer, "config", "--list", "--local")
    laptop.append(MEMORY, CANOE)
    assert laptop.sync()["pushed"]
    shutil.rmtree(laptop.soul / ".git")
    laptop.append(MEMORY, SAUNA)
    laptop.sync()
    laptop.sync()
    server.sync()
    assert {"has a canoe", "has a sauna"} <= set(server.entries(MEMORY))
    assert (quick.person(outer, "rev-parse", "HEAD"), quick.person(outer, "config", "--list", "--local")) == before
    assert quick.person(outer, "for-each-ref").split()[-1] == "refs/heads/trunk"


# --- what the program remembers -----------------------------------------------------------------------------------


def removed(database: Path) -> None:
    for path in database.parent.glob("seen.db*"):
        path.unlink()


def no_database(database: Path) -> None:
    removed(database)
    database.write_bytes(b"\0" * 4096)


def cut_off(database: Path) -> None:
    with contextlib.closing(sqlite3.connect(database)) as opened:
        opened.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    database.write_bytes(database.read_bytes()[:5000])


def without_tables(database: Path) -> None:
    with contextlib.closing(sqlite3.connect(database)) as opened:
        opened.execute("DROP TABLE seen")
        opened.commit()


@pytest.mark.parametrize("ruin", [removed, no_database, cut_off, without_tables])
def test_a_lost_memory_of_what_was_seen_loses_no_work(
    fleet: Fleet,
    laptop: Body,
    server: Body,
    ruin: Callable[[Path], None],
) -> None:
    """REPO-6: edits of both sides meet, an old copy is no edit, an absent file is no deletion."""
    laptop.write("notes/two.md", "# two\n")
    laptop.sync()
    server.sync()
    server.write("notes/two.md", "# two\n\nnewer\n")
    server.append(MEMORY, SAUNA)
    server.sync()
    laptop.append(MEMORY, CANOE)
    laptop.write("notes/fresh.md", "# fresh\n")
    laptop.remove(NOTE)
    ruin(laptop.private() / "seen.db")
    laptop.sync()
    laptop.sync()
    server.sync()
    assert {"has a canoe", "has a sauna"} <= set(server.entries(MEMORY))
    assert server.read("notes/fresh.md") == "# fresh\n"
    assert laptop.read("notes/two.md") == server.read("notes/two.md") == "# two\n\nnewer\n"
    assert laptop.read(NOTE) is not None and server.read(NOTE) is not None
    fleet.converge()
    fleet.agree()


def test_two_homes_cannot_drive_one_checkout(fleet: Fleet, laptop: Body, tmp_path: Path) -> None:
    """Two daemons of two configurations: the lock in the git directory keeps the second one out."""
    other = Body("laptop", tmp_path / "other", laptop.remote)
    shutil.copytree(laptop.home, other.home, ignore=shutil.ignore_patterns("souls", "control.sock"))
    laptop.start()
    config = other.home / "config/kaoru.yaml"
    config.write_text(config.read_text().replace(f"key: {laptop.home}", f"key: {other.home}"))
    assert str(laptop.soul) in config.read_text()
    for words in (("run",), ("sync",)):
        error = other.run(*words, "--json").expect(1)["error"]
        assert error["kind"] == "busy", error
    laptop.append(MEMORY, CANOE)
    until(lambda: b"has a canoe" in tree_of(fleet.bare)[MEMORY], "the first one works on")
    assert laptop.stop(signal.SIGTERM) == 0
    other.sync()
