"""Traps G: names, kinds of files, and the safety of what they hold (tests/TRAPS.md)."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

from tests.real import quick
from tests.real.fleet import PACKAGE, tree_of, until
from tests.real.quick import Body, Fleet

MEMORY = "memories/MEMORY.md"
ODD = (
    'say "hi".md',
    "it's.md",
    " leading and trailing .md ",
    "$(touch x).md",
    "`id`.md",
    "%s%n.md",
    "a;b|c&d.md",
    "emoji 🫖.md",
    "ﬁ ligature.md",
    "#hash.md",
    "a\u00a0b.md",
    "…",
    "~home.md",
    "null",
    "🏴󠁧󠁢󠁳󠁣󠁴󠁿.md",
)


def test_odd_names_travel_byte_for_byte(laptop: Body, server: Body, fleet: Fleet) -> None:
    """Traps 110, 112: written, renamed and removed, on both sides."""
    for name in ODD:
        laptop.write(f"odd/{name}", f"{name}\n")
    laptop.sync()
    server.sync()
    assert set(os.listdir(server.soul / "odd")) == set(ODD)
    server.remove(f"odd/{ODD[0]}")
    (server.soul / "odd" / ODD[1]).rename(server.soul / "odd" / f"moved {ODD[1]}")
    server.sync()
    laptop.sync()
    assert set(os.listdir(laptop.soul / "odd")) == set(ODD[2:]) | {f"moved {ODD[1]}"}
    fleet.agree()


def test_names_that_fold_together_are_both_kept_where_they_can_be(laptop: Body, server: Body, fleet: Fleet) -> None:
    """Trap 113: twins by case or by composition are two files here; a rename of the case alone is a rename."""
    for name in ("Tea.md", "tea.md", "caf\u00e9.md", "cafe\u0301.md"):
        laptop.write(f"twins/{name}", f"{name}\n")
    laptop.sync()
    server.sync()
    assert len(os.listdir(server.soul / "twins")) == 4
    (server.soul / "twins/Tea.md").rename(server.soul / "twins/TEA.md")
    server.sync()
    laptop.sync()
    assert laptop.read("twins/TEA.md") == "Tea.md\n" and laptop.read("twins/Tea.md") is None
    fleet.agree()


def test_a_bad_name_stops_no_other_file(laptop: Body, server: Body, fleet: Fleet) -> None:
    """Trap 115; TREE-7: what another system cannot hold travels here; what is dangerous is listed, not written."""
    for name in ("a:b.md", "con", "aux.md", "trailing.", "trailing ", 'q"?*.md'):
        laptop.write(f"names/{name}", f"{name}\n")
    dangerous = {"names/git~1", "names/.GIT", "names/back\\slash.md", "names/new\nline.md"}
    for path in dangerous:
        laptop.write(path, "x\n")
    laptop.write("names/good.md", "# good\n")
    answer = laptop.sync()
    server.sync()
    assert server.read("names/good.md") == "# good\n" and server.read("names/con") == "con\n"
    assert {one["path"] for one in answer["held"]} == dangerous
    assert all(laptop.read(path) == "x\n" and server.read(path) is None for path in dangerous)


def test_a_dangerous_tree_from_the_remote_touches_nothing_outside(
    laptop: Body, server: Body, fleet: Fleet, tmp_path: Path
) -> None:
    """Traps 115, 118; TREE-7: `.git` in any spelling, links and gitlinks that another program published."""
    blob = laptop.person("hash-object", "-w", "SOUL.md").strip()
    rows = [f"120000 blob {blob}\tescape", f"160000 commit {laptop.tip()}\tsub", f"100644 blob {blob}\tgood.md"]
    rows += [f"100644 blob {blob}\t{name}" for name in (".GIT", "git~1", ".git ", ".g\u200cit", "..")]
    tree = subprocess.run(
        ["git", "mktree"],
        cwd=laptop.soul,
        input="\n".join(rows).encode() + b"\n",
        capture_output=True,
        check=True,
    ).stdout.decode().strip()  # fmt: skip
    base = laptop.git("ls-tree", "HEAD").rstrip("\n")
    full = subprocess.run(
        ["git", "mktree"],
        cwd=laptop.soul,
        input=f"{base}\n040000 tree {tree}\textra\n".encode(),
        capture_output=True,
        check=True,
    ).stdout.decode().strip()  # fmt: skip
    made = laptop.person("commit-tree", "-p", "HEAD", "-m", "by another program", full).strip()
    quick.person(fleet.bare, "fetch", "-q", str(laptop.soul), f"{made}:refs/heads/main")
    answer = server.sync()
    assert os.listdir(server.soul / "extra") == ["good.md"]
    assert {one["rule"] for one in answer["held"]} == {"TREE-6", "TREE-7"}
    server.append(MEMORY, "§\nhas a canoe\n")
    server.sync()
    assert len(fleet.git("ls-tree", "main", "extra/").splitlines()) == len(rows)


def test_a_kept_version_has_a_name_that_fits(laptop: Body, server: Body, fleet: Fleet) -> None:
    """Trap 116; MERGE-8: a name of 255 bytes takes its mark and stays a name; nothing is eaten."""
    name = "ä" * 126 + ".md"
    assert len(os.fsencode(name)) == 255
    laptop.write(f"notes/{name}", "# file\n")
    server.write(f"notes/{name}/inside.md", "# inside\n")
    laptop.sync()
    server.sync()
    laptop.sync()
    files = fleet.agree()
    assert files[f"notes/{name}/inside.md"] == b"# inside\n"
    (kept,) = [path for path, content in files.items() if content == b"# file\n"]
    assert "~laptop" in kept and kept.endswith(".md") and len(os.fsencode(kept.rpartition("/")[2])) <= 255


def test_what_is_no_file_is_neither_followed_nor_waited_for(laptop: Body, server: Body, fleet: Fleet) -> None:
    """Traps 118, 130; TREE-6: loops of links, links out, pipes, sockets: listed, and all else goes on, quickly."""
    os.symlink(".", laptop.soul / "notes/loop")
    os.symlink("/etc/passwd", laptop.soul / "notes/passwd")
    os.symlink("nowhere", laptop.soul / "notes/dangling.md")
    os.mkfifo(laptop.soul / "notes/pipe")
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as listener:
        here = os.getcwd()
        os.chdir(laptop.soul / "notes")
        try:
            listener.bind("sock")
        finally:
            os.chdir(here)
        laptop.write("notes/good.md", "# good\n")
        began = time.monotonic()
        answer = laptop.sync()
    assert time.monotonic() - began < 10
    held = {one["path"]: one["rule"] for one in answer["held"]}
    assert held == dict.fromkeys(
        (f"notes/{name}" for name in ("loop", "passwd", "dangling.md", "pipe", "sock")), "TREE-6"
    )
    server.sync()
    assert server.read("notes/good.md") == "# good\n"
    assert not {path for path in tree_of(fleet.bare) if path.startswith("notes/passwd")}


def test_a_repository_in_the_soul_is_listed_and_stops_nothing(laptop: Body, fleet: Fleet) -> None:
    """Traps 119, 120; TREE-6: with commits or without, bare or by a gitfile; it never becomes a gitlink."""
    for name in ("with", "without"):
        laptop.write(f"notes/{name}/n.md", "# n\n")
        quick.person(laptop.soul / f"notes/{name}", "init", "-q")
    quick.person(laptop.soul / "notes/with", "add", "-A")
    quick.person(laptop.soul / "notes/with", "commit", "-qm", "n")
    laptop.write("notes/linked/.git", "gitdir: ../with/.git\n")
    laptop.write("notes/good.md", "# good\n")
    answer = laptop.sync()
    assert {one["path"] for one in answer["held"]} == {"notes/with", "notes/without", "notes/linked"}
    assert all(one["rule"] == "TREE-6" and one["reason"] for one in answer["held"])
    assert "notes/good.md" in tree_of(fleet.bare)
    assert "160000" not in fleet.git("ls-tree", "-r", "main")
    shutil.rmtree(laptop.soul / "notes/without/.git")
    laptop.sync()
    assert tree_of(fleet.bare)["notes/without/n.md"] == b"# n\n"


def test_work_done_while_nothing_ran_is_recorded_before_anything_arrives(laptop: Body, server: Body) -> None:
    """Trap 122: edits, new files and removals from before the start meet what the remote has; none is reset."""
    server.append(MEMORY, "§\nhas a sauna\n")
    server.write("notes/tea/sencha.md", "# sencha\n\nfrom the server\n")
    server.sync()
    laptop.append(MEMORY, "§\nhas a canoe\n")
    laptop.write("notes/offline.md", "# offline\n")
    laptop.remove("memories/USER.md")
    laptop.start()
    until(lambda: "has a sauna" in laptop.entries(MEMORY), "the remote's part arrives")
    until(lambda: laptop.read("memories/USER.md") is not None, "a required file is put back")
    assert laptop.stop() == 0
    assert {"has a canoe", "has a sauna", "owns a kettle"} <= set(laptop.entries(MEMORY))
    server.sync()
    assert server.read("notes/offline.md") == "# offline\n" and "has a canoe" in server.entries(MEMORY)


def test_a_memory_that_was_emptied_at_once_waits(laptop: Body, server: Body) -> None:
    """Trap 124; GUARD-2: a truncated, NUL-filled or halved memory is not published before a person could notice."""
    text = "\n§\n".join(f"number {number}" for number in range(6)) + "\n"
    laptop.write(MEMORY, text)
    laptop.sync()
    server.sync()
    for wreck in (b"", b"\0" * 400, b"number 0\n"):
        laptop.write(MEMORY, wreck)
        answer = laptop.sync()
        assert [one["path"] for one in answer["held"] if one["rule"] == "GUARD-2"] == [MEMORY]
        assert any(one["path"] == MEMORY for one in laptop.status()["held"])
        server.sync()
        assert len(server.entries(MEMORY)) == 6
    laptop.write(MEMORY, text)
    assert not laptop.sync()["held"]
    laptop.write(MEMORY, b"")
    assert MEMORY in laptop.sync("--now")["recorded"]
    server.sync()
    assert server.entries(MEMORY) == []


def test_time_zones_decide_nothing(laptop: Body, server: Body, fleet: Fleet) -> None:
    """Trap 128; MERGE-11: bodies a day apart by their wall clocks agree on what is newer, and stamp in UTC."""
    note = "notes/tea/sencha.md"
    laptop.write(note, "# sencha\n\nolder\n")
    laptop.run("sync", "--json", TZ="Pacific/Kiritimati").expect(0)
    time.sleep(1.1)
    server.write(note, "# sencha\n\nnewer\n")
    server.run("sync", "--json", TZ="Pacific/Pago_Pago").expect(0)
    laptop.sync()
    assert laptop.read(note) == "# sencha\n\nnewer\n"
    stamps = fleet.git("log", "--format=%cI", "main").split()
    assert all(stamp.endswith(("+00:00", "Z")) for stamp in stamps)
    assert json.loads(laptop.read("bodies/server.json") or "")["lastSeen"].endswith("Z")


def test_a_private_file_stays_private_when_it_is_replaced(laptop: Body, server: Body) -> None:
    """Trap 129; GUARD-4: the mode that its agent gave a file is kept; ours are for the owner alone."""
    for mode in (0o600, 0o640):
        (laptop.soul / MEMORY).chmod(mode)
        server.append(MEMORY, f"§\nmode {mode:o}\n")
        server.sync()
        laptop.sync()
        assert f"mode {mode:o}" in laptop.entries(MEMORY)
        assert (laptop.soul / MEMORY).stat().st_mode & 0o777 == mode
    for path in (laptop.state / "status.json", laptop.state / "events.jsonl", laptop.private() / "seen.db"):
        assert path.stat().st_mode & 0o077 == 0, path


NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]


def test_one_unreadable_file_stops_no_other(laptop: Body, server: Body, fleet: Fleet, tmp_path: Path) -> None:
    """Trap 131; TREE-6: as an ordinary user; the file is named, never taken for deleted."""
    home = Path("/tmp") / f"soul-trap-{os.getpid()}"
    shutil.copytree(laptop.home, home, symlinks=True)
    try:
        config = home / "config/kaoru.yaml"
        config.write_text(config.read_text().replace(str(laptop.home), str(home)))
        soul = home / "souls/kaoru.soul"
        (soul / "notes/good.md").write_text("# good\n")
        subprocess.run(["chown", "-R", "65534:65534", str(home)], check=True)
        secret = soul / "notes/tea/sencha.md"
        os.chown(secret, 0, 0)
        secret.chmod(0o600)
        (soul / "notes/closed").mkdir(mode=0o000)
        words = [*NOBODY, sys.executable, "-m", "bridge", "sync", "--json"]
        environment = {**laptop.env(), "SOUL_BRIDGE_HOME": str(home), "HOME": str(home), "PYTHONPATH": str(PACKAGE)}
        done = subprocess.run(words, env=environment, cwd="/", capture_output=True, timeout=60)
        assert done.returncode == 0, done.stderr
        held = {one["path"] for one in json.loads(done.stdout)["held"]}
        assert {"notes/tea/sencha.md", "notes/closed"} <= held
        server.sync()
        assert server.read("notes/good.md") == "# good\n"
        assert server.read("notes/tea/sencha.md") is not None
    finally:
        shutil.rmtree(home)
