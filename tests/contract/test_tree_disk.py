"""What only a disk has: links, modes, owners, mounts, odd names, ignore files, signals."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import stat
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from bridge.adapters.tree import Tree, prepare_process
from bridge.core.errors import Held, Moved, SoulError, Transient
from bridge.core.model import Presence, SeenEntry
from tests import shortage
from tests.contract.tree_worlds import LIMIT, Crash, RealWorld, ShiftedClock, moved

NOTE = "notes/a.md"
ROOT = os.geteuid() == 0
TOP = Path(__file__).parents[2]


@pytest.fixture
def world(tmp_path: Path) -> RealWorld:
    return RealWorld(tmp_path, in_steps=False)


def as_nobody(world: RealWorld, act: Callable[[], bool]) -> bool:
    """Whether the act holds for an ordinary user, in a child process."""
    if not ROOT:
        return act()
    for place in (world.root, *world.root.rglob("*")):
        os.chown(place, 65534, 65534, follow_symlinks=False)
    child = os.fork()
    if child == 0:
        answer = 1
        try:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
            answer = 0 if act() else 2
        finally:
            os._exit(answer)
    return os.waitpid(child, 0)[1] == 0


def reachable(tmp_path: Path) -> None:
    """Let other users pass through to the test's folder."""
    for place in (tmp_path, *tmp_path.parents[:3]):  # one more when several run at once
        if place.name.startswith(("pytest", "popen", "test_")):
            place.chmod(0o755)


# Things that are no files.


def test_links_pipes_sockets_and_devices_are_held_and_never_opened(world: RealWorld) -> None:
    """TREE-6."""
    world.write(NOTE, b"a")
    os.mkfifo(world.root / "pipe")
    (world.root / "dangling").symlink_to("nowhere")
    (world.root / "notes" / ".#a.md").symlink_to("me@host.1234")
    if ROOT:
        os.mknod(world.root / "device", stat.S_IFCHR | 0o600, os.makedev(1, 3))
    with socket.socket(socket.AF_UNIX) as listening:
        os.chdir(world.root)  # the name of a socket is short
        listening.bind("socket")
        look = world.tree.look({}, None)
    expected = {"pipe", "dangling", "notes/.#a.md", "socket"} | ({"device"} if ROOT else set())
    assert look.special.keys() == expected and set(look.files) == {NOTE}
    assert {rule for rule, _ in look.special.values()} == {"TREE-6"}
    assert moved(lambda: world.tree.read("pipe", LIMIT))
    for path in ("dangling", "socket"):
        with pytest.raises((Moved, Held)):
            world.tree.read(path, LIMIT)


def test_a_loop_of_links_is_one_held_path(world: RealWorld) -> None:
    (world.root / "loop").symlink_to(".")
    assert world.tree.look({}, None).special.keys() == {"loop"}


@pytest.mark.parametrize("git", ["directory", "file"])
def test_a_nested_repository_is_held_whole(world: RealWorld, git: str) -> None:
    """TREE-6, GUARD-6: also for paths known in it before."""
    world.write("sub/deep/s.md", b"s")
    seen = world.seen("sub/deep/s.md")
    if git == "directory":
        world.mkdir("sub/.git")
    else:
        world.write("sub/.git", b"gitdir: elsewhere\n")
    for hints in (None, ["sub"], ["sub/deep"], ["sub/deep/s.md"]):
        look = world.tree.look({"sub/deep/s.md": seen}, hints)
        assert not look.files and not look.gone and look.special["sub/deep/s.md"][0] == "TREE-6"
    for act in (
        lambda: world.tree.create("sub/deep/new.md", b"n", False),
        lambda: world.tree.replace("sub/deep/s.md", seen, b"n", False),
        lambda: world.tree.remove("sub/deep/s.md", seen),
    ):
        with pytest.raises(Held):
            act()


def test_the_git_directory_itself_is_neither_seen_nor_touched(world: RealWorld) -> None:
    """TREE-7: in any spelling."""
    assert world.tree.look({}, None) == world.tree.look({}, [""]).__class__({}, {})
    assert not world.tree.look({}, [".git/HEAD", ".git"]).files
    for path in (".git/config", ".GIT/config", "a/.git/x", "git~1/x", "../x", "a/../x", "/x", "a//b", ".git./x"):
        with pytest.raises(Held) as refused:
            world.tree.create(path, b"x", False)
        assert refused.value.rule == "TREE-7"
    world.write(".Git/config", b"x")
    assert world.tree.look({}, None).special[".Git"][0] == "TREE-6"


def test_names_with_control_characters_are_held_and_other_odd_names_are_not(world: RealWorld) -> None:
    """TREE-6."""
    odd = ['say "hi".md', "hyvää.md", "-rf", ":(top)x.md", " blank ", "e\u0301.md", os.fsdecode(b"latin-\xe4.md")]
    for name in odd:
        world.write(name, b"x")
    bad = ["line\nfeed.md", "tab\t.md", "dir\x01/x.md", "del\x7f"]
    for name in bad:
        world.write(name, b"x")
    look = world.tree.look({}, None)
    assert set(look.files) == set(odd)
    assert look.special.keys() == {"line\nfeed.md", "tab\t.md", "dir\x01", "del\x7f"}
    for name in odd:
        assert world.tree.look({}, [name]).files.keys() == {name}
        world.tree.replace(name, world.seen(name), b"y", False)
    assert sorted(each.path for each in world.tree.leftovers()) == sorted(odd)


def test_an_unreadable_directory_or_file_is_held_and_never_a_deletion(world: RealWorld, tmp_path: Path) -> None:
    """GUARD-6, TREE-6."""
    reachable(tmp_path)
    for path in (NOTE, "secret/s.md", "closed.md", "listed/x.md"):
        world.write(path, b"x")
    known = {path: world.seen(path) for path in (NOTE, "secret/s.md", "closed.md", "listed/x.md")}
    world.mkdir(".git/soul-bridge/out")

    def holds() -> bool:
        (world.root / "secret").chmod(0)
        (world.root / "closed.md").chmod(0)
        (world.root / "listed").chmod(0o444)
        try:
            held = {"secret/s.md", "closed.md", "listed/x.md"}
            for hints in (None, ["secret", "closed.md", "listed/x.md", "notes"], [*known]):
                look = world.tree.look(known, hints)
                if look.gone or set(look.files) != {NOTE} or not held <= look.special.keys():
                    return False
            return all(_held(lambda path=path: world.tree.read(path, LIMIT)) for path in held)
        finally:
            (world.root / "secret").chmod(0o755)
            (world.root / "listed").chmod(0o755)

    assert as_nobody(world, holds)


def _held(act: Callable[[], object]) -> bool:
    try:
        act()
    except Held:
        return True
    return False


def test_a_place_that_cannot_be_written_is_held_and_says_so(world: RealWorld, tmp_path: Path) -> None:
    reachable(tmp_path)
    world.write(NOTE, b"a")
    seen = world.seen(NOTE)
    world.mkdir(".git/soul-bridge/out")

    def holds() -> bool:
        entry = world.seen(NOTE)
        (world.root / "notes").chmod(0o555)
        try:
            acts: list[Callable[[], object]] = [
                lambda: world.tree.replace(NOTE, entry, b"b", False),
                lambda: world.tree.create("notes/b.md", b"b", False),
                lambda: world.tree.remove(NOTE, entry),
            ]
            return all(map(_held, acts)) and not world.tree.leftovers() and world.content(NOTE) == b"a"
        finally:
            (world.root / "notes").chmod(0o755)

    assert as_nobody(world, holds) and seen.raw


def test_a_file_of_another_owner_is_not_taken_over(world: RealWorld, tmp_path: Path) -> None:
    """GUARD-4: the owner is kept; where that is not allowed the file stays as it is."""
    if not ROOT:
        return
    reachable(tmp_path)
    world.write(NOTE, b"a")
    world.mkdir(".git/soul-bridge/out")

    def holds() -> bool:
        world.pass_time(1)  # no lease on a file of another owner: it has to have been quiet
        entry = world.seen(NOTE)
        return _held(lambda: world.tree.replace(NOTE, entry, b"b", False)) and world.content(NOTE) == b"a"

    def prepared() -> bool:
        return as_nobody(world, lambda: True)

    assert prepared()
    os.chown(world.root / NOTE, 12345, 12345)
    child = os.fork()
    if child == 0:
        answer = 1
        try:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
            answer = 0 if holds() else 2
        finally:
            os._exit(answer)
    assert os.waitpid(child, 0)[1] == 0


# What is kept of the file.


def test_mode_owner_and_attributes_are_kept(world: RealWorld) -> None:
    """GUARD-4."""
    world.write(NOTE, b"a")
    place = world.root / NOTE
    place.chmod(0o640)
    if ROOT:
        os.chown(place, 1234, 2345)
    os.setxattr(place, "user.agent", b"kaoru")
    everyone = struct.pack(
        "<IHHIHHIHHIHHIHHI", 2, 1, 6, 2**32 - 1, 2, 4, 4242, 4, 4, 2**32 - 1, 16, 4, 2**32 - 1, 32, 0, 2**32 - 1
    )
    os.setxattr(place, "system.posix_acl_access", everyone)
    before = place.stat()
    world.tree.replace(NOTE, world.seen(NOTE), b"b", True)
    after = place.stat()
    assert (after.st_uid, after.st_gid) == (before.st_uid, before.st_gid) and after.st_ino != before.st_ino
    assert stat.S_IMODE(after.st_mode) == 0o750 and os.getxattr(place, "user.agent") == b"kaoru"
    kept = os.getxattr(place, "system.posix_acl_access")
    assert struct.pack("<HHI", 2, 4, 4242) in kept


def test_a_private_file_stays_private(world: RealWorld) -> None:
    world.write("agent.json", b"{}")
    (world.root / "agent.json").chmod(0o600)
    world.tree.replace("agent.json", world.seen("agent.json"), b"{ }", False)
    assert stat.S_IMODE((world.root / "agent.json").stat().st_mode) == 0o600


def test_a_new_file_gets_what_its_directory_gives(world: RealWorld) -> None:
    old = os.umask(0o027)
    try:
        world.tree.create("notes/plain.md", b"x", False)
        world.tree.create("notes/run.sh", b"x", True)
        assert stat.S_IMODE((world.root / "notes/plain.md").stat().st_mode) == 0o640
        assert stat.S_IMODE((world.root / "notes/run.sh").stat().st_mode) == 0o750
        assert stat.S_IMODE((world.root / "notes").stat().st_mode) == 0o750
        world.mkdir("shared")
        shared = struct.pack(
            "<IHHIHHIHHIHHIHHI", 2, 1, 7, 2**32 - 1, 2, 7, 4242, 4, 7, 2**32 - 1, 16, 7, 2**32 - 1, 32, 0, 2**32 - 1
        )
        os.setxattr(world.root / "shared", "system.posix_acl_default", shared)
        if ROOT:
            os.chown(world.root / "shared", -1, 4321)
            (world.root / "shared").chmod(0o2770)
        world.tree.create("shared/x.md", b"x", False)
        world.write("shared/agents.md", b"x")
        ours, agents = (world.root / "shared" / name for name in ("x.md", "agents.md"))
        assert ours.stat().st_mode == agents.stat().st_mode and ours.stat().st_gid == agents.stat().st_gid
        assert os.getxattr(ours, "system.posix_acl_access") == os.getxattr(agents, "system.posix_acl_access")
    finally:
        os.umask(old)


# Names.


def test_too_long_a_name_or_path_is_held(world: RealWorld) -> None:
    """TREE-7."""
    for path in ("n" * 256 + ".md", "ä" * 128 + ".md", "/".join(["d" * 200] * 21)):
        with pytest.raises(Held) as refused:
            world.tree.create(path, b"x", False)
        assert refused.value.rule == "TREE-7"
    assert not world.directories()
    world.tree.create("n" * 252 + ".md", b"x", False)


def test_twins_are_refused_where_names_fold(world: RealWorld) -> None:
    """TREE-7."""
    world.write("notes/Tea.md", b"x")
    world.write("notes/e\u0301.md", b"x")
    folding = Tree(world.root, world.private, world.clock, folds=True)
    for path in ("notes/tea.md", "Notes/b.md", "notes/\u00e9.md", "NOTES/Tea.md"):
        with pytest.raises(Held) as refused:
            folding.create(path, b"x", False)
        assert refused.value.rule == "TREE-7"
    folding.create("notes/coffee.md", b"x", False)
    world.tree.create("notes/tea.md", b"x", False)
    assert world.directories() == {"notes"}


# Ignoring.


def test_deeper_ignore_files_win_and_only_the_souls_own_count(world: RealWorld) -> None:
    """TREE-4."""
    world.write(".gitignore", b"*.log\nbuild/\n")
    world.write("notes/.gitignore", b"!keep.log\n/top.txt\n")
    world.write(".git/info/exclude", b"SOUL.md\nnotes\n")
    for path in ("a.log", "notes/keep.log", "notes/b.log", "notes/top.txt", "notes/x/top.txt", "build/x.md", "SOUL.md"):
        world.write(path, b"x")
    look = world.tree.look({}, None)
    assert set(look.files) == {".gitignore", "notes/.gitignore", "notes/keep.log", "notes/x/top.txt", "SOUL.md"}
    assert len(look.ignored) == 4
    for hint in ("notes/b.log", "build/x.md", "build"):
        assert not world.tree.look({}, [hint]).files and world.tree.ignored(hint + ("/y" if hint == "build" else ""))


def test_many_large_ignore_files_cost_next_to_nothing_together(world: RealWorld) -> None:
    """TREE-4: beyond what is borne of all together they count as empty; what they would have named is recorded."""
    for number in range(40):
        hard = b"\n".join(b"%03d%04d*%s" % (number, line, b"*a" * 8) for line in range(2_000))
        world.write(f"d{number:02}/.gitignore", hard + b"\n")
        world.write(f"d{number:02}/{number:03}0001aaaaaaaaaaaaa", b"x")
    began = time.monotonic()
    look = world.tree.look({}, None)
    assert time.monotonic() - began < 5
    assert 0 < len(look.ignored) <= 8
    assert len(look.files) + len(look.ignored) == 80
    world.write("d00/.gitignore", b"")
    for number in range(1, 40):
        world.delete(f"d{number:02}")
    world.write("notes/.gitignore", b"/to?\n")
    world.write("notes/top", b"x")
    world.tree.look({}, None)
    world.tree.look({}, None)
    world.write("notes/.gitignore", b"/t?p\n")
    assert "notes/top" not in world.tree.look({}, None).files


def test_known_and_own_files_below_an_ignored_directory_are_looked_at(world: RealWorld) -> None:
    """TREE-4."""
    world.write(".gitignore", b"*\n")
    for path in (
        "notes/known.txt",
        "notes/other.txt",
        "notes/x/own.md",
        "x/y/z.md",
        "bodies/laptop.json",
        "memories/MEMORY.md",
    ):
        world.write(path, b"x")
    world.write("journal/laptop/2026-01-02.md", b"x")
    known = {path: world.seen(path) for path in ("notes/known.txt", "x/y/z.md")}
    look = world.tree.look(known, None)
    own = {".gitignore", "notes/x/own.md", "bodies/laptop.json", "memories/MEMORY.md", "journal/laptop/2026-01-02.md"}
    assert set(look.files) == own | known.keys()
    world.delete("x")
    (world.root / "notes/known.txt").unlink()
    assert world.tree.look(known, None).gone == known.keys()
    world.link("x")
    assert "x/y/z.md" in world.tree.look(known, None).special
    assert "x/y/z.md" in world.tree.look(known, ["x/y/z.md"]).special


def test_a_linked_or_broken_ignore_file_ignores_nothing(world: RealWorld, tmp_path: Path) -> None:
    (tmp_path / "patterns").write_text("*\n")
    (world.root / ".gitignore").symlink_to(tmp_path / "patterns")
    world.write(NOTE, b"x")
    assert NOTE in world.tree.look({}, None).files
    world.delete(".gitignore")
    world.write(".gitignore", b"!\n\\\n[\n\xff\xfe\n\xef\xbb\xbf\n\r\na.txt\r\n")
    world.write("notes/a.txt", b"x")
    assert len(world.tree.look({}, None).ignored) == 1


def test_ignoring_agrees_with_git(world: RealWorld, tmp_path: Path) -> None:
    """TREE-4: git itself is the second opinion, over random patterns."""
    random.seed(7)
    git = ["git", "-c", "core.excludesFile=/dev/null", "-C", str(world.root)]
    subprocess.run([*git, "init", "-q"], check=True, capture_output=True)
    words = ["a", "b", "*", "a*", "*.md", "**/a", "a/b", "?", "[ab]", "b.md", "a/*/b", "a/**"]

    def random_pattern() -> str:
        word = random.choice(words)
        end = "" if word.endswith("**") else random.choice(["", "/"])
        return random.choice(["", "", "!"]) + random.choice(["", "", "/"]) + word + end

    paths = [f"{x}{y}{z}" for x in ("a", "b", "c") for y in ("/a", "/b", "/c", "") for z in ("/b.md", "/c.md", ".md")]
    for path in paths:
        world.write(path, b"x")
    for _ in range(200):
        for place in ("", "a/", "b/"):
            lines = [random_pattern() for _ in range(random.randrange(5))]
            world.write(f"{place}.gitignore", "\n".join(lines).encode())
        told = subprocess.run(
            [*git, "ls-files", "-zo", "--exclude-per-directory=.gitignore"], capture_output=True, check=True
        )
        theirs = {path for path in told.stdout.decode().split("\0") if path.endswith(".md")}
        files = {path for path in world.tree.look({}, None).files if path.endswith(".md")}
        patterns = [(world.root / f"{p}.gitignore").read_text() for p in ("", "a/", "b/")]
        assert files == theirs, patterns
        assert {path for path in paths if not world.tree.ignored(path)} == theirs, patterns


# Presence.


def test_what_stands_where_the_checkout_should_be_is_told(world: RealWorld, tmp_path: Path) -> None:
    """GUARD-2."""
    world.write("SOUL.md", b"x")
    assert world.tree.presence() is Presence.PRESENT and world.tree.marked() is None
    world.tree.mark("one")
    assert world.tree.presence() is Presence.PRESENT and world.tree.marked() == "one"

    def presence(root: Path, known: str | None) -> Presence:
        return Tree(root, root / ".git" / "soul-bridge", world.clock, known).presence()

    assert presence(world.root, None) is presence(world.root, "one") is Presence.PRESENT
    assert presence(world.root, "two") is Presence.FOREIGN
    for nothing in (b"", b"\0\0\0"):
        (world.private / "id").write_bytes(nothing)
        assert presence(world.root, "one") is Presence.UNMARKED
    (world.private / "id").unlink()
    assert presence(world.root, "one") is Presence.FOREIGN
    (world.root / ".git/HEAD").write_bytes(b"")
    assert presence(world.root, "one") is Presence.NO_GIT
    world.delete(".git")
    assert presence(world.root, "one") is Presence.NO_GIT
    world.delete("SOUL.md")
    assert presence(world.root, "one") is Presence.EMPTY
    world.mkdir("lost+found")
    assert presence(world.root, "one") is Presence.EMPTY
    assert presence(tmp_path / "nowhere", "one") is Presence.MISSING
    with pytest.raises(Moved):
        Tree(tmp_path / "nowhere", tmp_path / "nowhere/.git/x", world.clock).look({}, None)


# The exchange folder.


def test_strangers_in_the_exchange_folder(world: RealWorld) -> None:
    """A file without a note was never anybody's; one whose note is damaged is not thrown away."""
    world.write(NOTE, b"old")
    world.tree.replace(NOTE, world.seen(NOTE), b"new", False)
    out = world.private / "out"
    (out / "0000000000000001").write_bytes(b"new content that was never exchanged")
    (out / "0000000000000002").write_bytes(b"somebody's")
    (out / "0000000000000002.json").write_bytes(b'{"path": "no')
    (out / "0000000000000003.json.tmp").write_bytes(b"{")
    assert [each.path for each in world.tree.leftovers()] == [NOTE]
    assert {each.name for each in out.iterdir()} >= {"0000000000000002", "0000000000000002.json"}
    assert not (out / "0000000000000001").exists() and not (out / "0000000000000003.json.tmp").exists()


def test_bytes_decide_where_an_inode_was_used_again(world: RealWorld) -> None:
    """GUARD-4: only what is the new content by inode and by bytes counts as never exchanged."""
    world.write(NOTE, b"old")
    world.tree.replace(NOTE, world.seen(NOTE), b"new", False)
    [kept] = world.tree.leftovers()
    note = world.private / "out" / f"{kept.id}.json"
    inode = (world.private / "out" / kept.id).stat().st_ino
    note.write_text(json.dumps(json.loads(note.read_text()) | {"inode": inode}))
    world.restart()
    assert [world.tree.leftover(each.id) for each in world.tree.leftovers()] == [b"old"]


def test_a_file_that_changes_while_it_is_read_was_not_read(world: RealWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """GUARD-1: half of one version and half of another are no version."""
    world.write(NOTE, b"old")
    read = os.read

    def slowly(descriptor: int, length: int) -> bytes:
        content = read(descriptor, length)
        if content == b"old":
            world.write(NOTE, b"new")
        return content

    monkeypatch.setattr(os, "read", slowly)
    assert moved(lambda: world.tree.read(NOTE, LIMIT))
    monkeypatch.undo()
    assert world.tree.read(NOTE, LIMIT).content == b"new"


def test_a_linked_exchange_folder_is_not_followed(world: RealWorld, tmp_path: Path) -> None:
    """AUTH-7: the checkout is not trusted."""
    world.write(NOTE, b"old")
    (tmp_path / "elsewhere").mkdir()
    world.mkdir(".git/soul-bridge")
    (world.private / "out").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Held):
        world.tree.replace(NOTE, world.seen(NOTE), b"new", False)
    assert world.content(NOTE) == b"old" and not list((tmp_path / "elsewhere").iterdir())


def test_in_steps_a_file_made_anew_meanwhile_stays_and_what_came_out_is_kept(tmp_path: Path) -> None:
    """GUARD-4, where a file system knows no exchange."""
    world = RealWorld(tmp_path, in_steps=True)
    world.write(NOTE, b"old")
    seen = world.seen(NOTE)
    world.tree.checkpoint = lambda step: world.write(NOTE, b"agent") if step == "steps.new" else None
    assert moved(lambda: world.tree.replace(NOTE, seen, b"new", False))
    [kept] = world.tree.leftovers()
    assert world.content(NOTE) == b"agent" and world.tree.leftover(kept.id) == b"old" and kept.base == seen.file
    assert len(list((world.private / "out").iterdir())) == 2


@pytest.mark.parametrize("act", ["replace", "remove"])
@pytest.mark.parametrize("change", ["link", "mkdir"])
@pytest.mark.parametrize("in_steps", [False, True])
def test_killed_before_a_link_that_came_out_went_back(change: str, act: str, in_steps: bool, tmp_path: Path) -> None:
    """GUARD-4: the next start puts it back, and no look takes the path for removed or ours."""
    world = RealWorld(tmp_path, in_steps)
    world.write(NOTE, b"old")
    seen = world.seen(NOTE)

    def agent(step: str) -> None:
        if step in ("replace.exchange", "remove.rename"):
            world.delete(NOTE)
            getattr(world, change)(NOTE)
        if step == "other.back":
            raise Crash(step)

    world.tree.checkpoint = agent
    arguments = (b"new", False) if act == "replace" else ()
    with pytest.raises(Crash):
        getattr(world.tree, act)(NOTE, seen, *arguments)
    world.restart()
    assert not world.tree.leftovers()
    assert (world.root / NOTE).is_symlink() == (change == "link") and (world.root / NOTE).is_dir()
    assert not list((world.private / "out").iterdir())


@pytest.mark.parametrize("in_steps", [False, True])
def test_what_somebody_wrote_into_a_file_that_stood_there_for_a_moment_stays(in_steps: bool, tmp_path: Path) -> None:
    """GUARD-4: a link came out and goes back; meanwhile our file had the name, and whoever opened it wrote into it."""
    world = RealWorld(tmp_path, in_steps)
    world.write(NOTE, b"old")
    seen = world.seen(NOTE)

    def agent(step: str) -> None:
        if step == "replace.exchange":
            world.delete(NOTE)
            world.link(NOTE)
        if step == "other.back":
            with open(world.root / NOTE, "ab") as opened:
                opened.write(b" and more")

    world.tree.checkpoint = agent
    assert moved(lambda: world.tree.replace(NOTE, seen, b"new", False))
    [kept] = world.tree.leftovers()
    assert world.tree.leftover(kept.id) == b"new and more" and kept.base == seen.file
    assert (world.root / NOTE).is_symlink()


# Signals and limits.

PROGRAM = """
import subprocess, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
base = sys.argv[2]
from tests.contract.tree_worlds import RealWorld
world = RealWorld(Path(base), in_steps=False)
world.write("a.md", b"x")
writer = subprocess.Popen(["sh", "-c", f"for i in $(seq 3000); do echo y >> {base}/agent.soul/a.md; done"])
asked = 0
while writer.poll() is None:
    try:
        world.tree.read("a.md", 1 << 20)
    except Exception:
        pass
    asked += 1
print(asked, Path(base, "agent.soul/a.md").read_bytes().count(b"y"))
"""


def test_asking_who_has_a_file_open_neither_ends_the_program_nor_stops_the_writer(tmp_path: Path) -> None:
    """SIGIO, the default answer to a broken lease, ends a process."""
    words = [sys.executable, "-c", PROGRAM, str(TOP), str(tmp_path)]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 0, ended.stderr
    asked, written = map(int, ended.stdout.split())
    assert asked > 100 and written == 3000


def test_a_prepared_process_ignores_the_signal(world: RealWorld) -> None:
    before = signal.getsignal(signal.SIGIO)
    try:
        prepare_process()
        assert signal.getsignal(signal.SIGIO) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGIO, before)
    assert world.tree.leases()


def test_a_mapped_page_makes_a_file_busy(world: RealWorld) -> None:
    """A store into a mapped page moves no time stamp."""
    import mmap

    world.write(NOTE, b"x" * 4096)
    with open(world.root / NOTE, "r+b") as opened, mmap.mmap(opened.fileno(), 4096) as page:
        page[0:1] = b"y"
        opened.close()
        assert world.tree.read(NOTE, LIMIT).busy
    assert not world.tree.read(NOTE, LIMIT).busy


MOUNTS = """
import os, subprocess, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
base = Path(sys.argv[2])
from bridge.core.errors import Held, Transient
from tests.contract.tree_worlds import RealWorld, ShiftedClock
world = RealWorld(base, in_steps=False)
mount = lambda *words: subprocess.run(["mount", *words], check=True)
for path in ("notes/a.md", "notes/b.md", "SOUL.md", "other/x.md"):
    world.write(path, b"x")
known = {path: world.seen(path) for path in ("notes/a.md", "notes/b.md", "SOUL.md")}
def refused(act, *kinds):
    try:
        act()
    except kinds as error:
        return error
    raise SystemExit("not refused")
"""

APPEARED = """
mount("-t", "tmpfs", "none", str(world.root / "notes"))
for hints in (None, ["notes"], ["notes/a.md", "notes/b.md"], [""]):
    look = world.tree.look(known, hints)
    assert not look.gone and {"notes/a.md", "notes/b.md"} <= look.special.keys(), look
    assert look.special["notes/a.md"][0] == "GUARD-6"
assert refused(lambda: world.tree.create("notes/c.md", b"x", False), Held).rule == "GUARD-6"
mount("--bind", str(world.root / "other/x.md"), str(world.root / "SOUL.md"))
mount("--bind", str(world.root / "other"), str(world.root / "notes"))
look = world.tree.look(known, None)
assert not look.gone and look.special.keys() >= known.keys(), look
assert refused(lambda: world.tree.replace("notes/x.md", world.seen("notes/x.md"), b"y", False), Held).rule == "GUARD-6"
assert refused(lambda: world.tree.replace("SOUL.md", world.seen("SOUL.md"), b"y", False), Held).rule == "GUARD-6"
"""

FULL = """
small = base / "small"
small.mkdir()
mount("-t", "tmpfs", "-o", "size=64k", "none", str(small))
world = RealWorld(small, in_steps=False)
world.write("a.md", b"old")
seen = world.seen("a.md")
world.tree.create("b.md", b"x" * 8192, False)
error = refused(lambda: world.tree.replace("a.md", seen, b"x" * 100000, False), Transient)
assert error.kind == "disk" and error.advice, error
assert refused(lambda: world.tree.create("new/c.md", b"x" * 100000, False), Transient).kind == "disk"
assert world.content("a.md") == b"old" and not world.tree.leftovers() and not (world.root / "new").exists()
world.tree.replace("a.md", seen, b"new", False)
mount("-o", "remount,ro", str(small))
seen = world.seen("a.md")
for act in (lambda: world.tree.replace("a.md", seen, b"x", False), lambda: world.tree.create("z.md", b"x", False),
            lambda: world.tree.remove("a.md", seen)):
    error = refused(act, Transient)
    assert error.kind == "disk" and "ead-only" in error.message, error.message
assert world.content("a.md") == b"new"
"""


@pytest.mark.parametrize("scene", [APPEARED, FULL], ids=["a mount point appeared", "full, then read-only"])
def test_in_a_mount_namespace(scene: str, tmp_path: Path) -> None:
    """GUARD-6: a directory that became a mount point is held. A full or read-only disk touches nothing."""
    words = ["unshare", "-m" if ROOT else "-Urm", sys.executable, "-c", MOUNTS + scene, str(TOP), str(tmp_path)]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 0, ended.stderr + ended.stdout


def test_running_out_of_descriptors_says_nothing_about_any_path(world: RealWorld) -> None:
    """GUARD-6: never a deletion, and not held either: the look is tried again."""
    world.write(NOTE, b"x")
    known: dict[str, SeenEntry] = {NOTE: world.seen(NOTE)}
    for hints in (None, [NOTE]):
        with shortage.of_descriptors(), pytest.raises(Transient):
            world.tree.look(known, hints)


def test_running_out_of_descriptors_is_no_fact_about_the_checkout_or_a_file(world: RealWorld) -> None:
    """GUARD-2: neither missing nor another's; and a file that cannot be opened now has not changed."""
    world.write(NOTE, b"x")
    world.tree.mark("one")
    with shortage.of_descriptors(), pytest.raises(Transient):
        world.tree.presence()
    with shortage.of_descriptors(), pytest.raises(Transient):
        world.tree.marked()
    with shortage.of_descriptors(left=2), pytest.raises(Transient):
        world.tree.read(NOTE, LIMIT)
    assert world.tree.read(NOTE, LIMIT).content == b"x" and world.tree.marked() == "one"


def test_a_hundred_levels_are_followed_and_no_more(world: RealWorld) -> None:
    path = "/".join(["d"] * 110)
    world.write(f"{path}/x.md", b"x")
    look = world.tree.look({}, None)
    assert not look.files and [rule for rule, _ in look.special.values()] == ["TREE-7"]


def test_the_clock_of_the_test_moves_forward_only() -> None:
    clock = ShiftedClock()
    before = clock.boottime()
    clock.sleep(5)
    assert clock.boottime() - before >= 5


def test_a_note_that_the_disk_takes_a_part_of_stops_the_exchange(world: RealWorld) -> None:
    """GUARD-4: what came out beside half a note would be nobody's, and what is written into it never recorded."""
    import resource

    world.write(NOTE, b"one")
    seen = world.seen(NOTE)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
    try:
        with pytest.raises(SoulError):
            world.tree.replace(NOTE, seen, b"two", False)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert (world.root / NOTE).read_bytes() == b"one"
    assert world.tree.leftovers() == []
