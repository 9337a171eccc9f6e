"""Traps A: the state of the checkout's repository, and what others leave in it (tests/TRAPS.md)."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bridge.adapters.repo import Repo
from bridge.adapters.seen import Seen
from bridge.app.materialise import INDEXED
from tests.real import quick
from tests.real.fleet import fsck, until
from tests.real.quick import Body, Fleet

HOUR = 3600.0
LOCKS = (
    "index.lock",
    "HEAD.lock",
    "config.lock",
    "packed-refs.lock",
    "shallow.lock",
    "refs/heads/main.lock",
    "refs/soul-bridge/keep/x.lock",
)


def age(path: Path, seconds: float) -> None:
    """Let a file look so old."""
    then = time.time() - seconds
    os.utime(path, (then, then), follow_symlinks=False)


def left(body: Body, name: str, seconds: float) -> Path:
    """A lock file that another program left in the git directory."""
    lock = body.soul / ".git" / name
    lock.parent.mkdir(parents=True, exist_ok=True)
    lock.touch()
    age(lock, seconds)
    return lock


@pytest.mark.parametrize("name", LOCKS)
def test_a_stale_lock_of_any_name_stops_nothing_and_is_kept(laptop: Body, server: Body, name: str) -> None:
    """Traps 1, 2; REPO-7: whatever lock a crash left, work goes on, and the file is moved aside, not destroyed."""
    lock = left(laptop, name, HOUR)
    laptop.append("memories/MEMORY.md", "§\nhas a canoe\n")
    assert laptop.sync()["pushed"]
    assert not lock.exists()
    assert any(lock.name in each.name for each in (laptop.private() / "damaged").iterdir())
    server.sync()
    assert "has a canoe" in server.entries("memories/MEMORY.md")


@pytest.mark.parametrize("name", LOCKS)
def test_a_young_lock_is_waited_for_or_in_nobodys_way(laptop: Body, name: str) -> None:
    """Traps 1, 2: another git is at work. Its lock stays, and when it is gone everything is published."""
    lock = left(laptop, name, 0)
    laptop.append("memories/MEMORY.md", "§\nhas a canoe\n")
    done = laptop.run("sync", "--json")
    assert lock.exists() and done.code in (0, 1)
    answer = done.document
    if name in ("index.lock", "refs/heads/main.lock"):
        assert not answer["recorded"] and name.rpartition("/")[2] in json.dumps(answer)
    lock.unlink()
    laptop.sync()
    assert laptop.status()["ahead"] == 0
    assert b"has a canoe" in laptop.tree()["memories/MEMORY.md"]


def test_a_lock_that_grows_old_while_the_daemon_runs_stops_it_no_longer(laptop: Body) -> None:
    """Traps 1, 2: a git that was killed beside a running daemon needs neither a restart nor a person."""
    laptop.start()
    locks = [left(laptop, name, HOUR) for name in ("index.lock", "refs/heads/main.lock", "packed-refs.lock")]
    laptop.append("memories/MEMORY.md", "§\nhas a canoe\n")
    until(lambda: b"has a canoe" in laptop.tree()["memories/MEMORY.md"], "the write is recorded", 15)
    assert not locks[1].exists()
    assert laptop.stop() == 0


def test_a_look_that_failed_is_not_an_answer(laptop: Body, server: Body) -> None:
    """Traps 5, 6, 136: without an answer nothing counts as in sync, and the time of the last answer stands still."""
    laptop.sync()
    before = laptop.status()
    assert (before["ahead"], before["behind"], before["problem"]) == (0, 0, None)
    server.append("memories/MEMORY.md", "§\nhas a canoe\n")
    server.sync()
    laptop.write("notes/own.md", "# own\n")
    with laptop.offline():
        answer = laptop.sync(code=5)
        after = laptop.status()
        words = laptop.run("status").out
    assert answer["recorded"] and not answer["pushed"]
    assert after["last_pull"] == before["last_pull"] and after["last_push"] == before["last_push"]
    assert after["problem"]["kind"] == "network" and after["ahead"] == 1
    assert "in sync" not in words.splitlines()[0]
    laptop.sync()
    assert laptop.status()["last_pull"] > before["last_pull"]


def test_a_soul_that_was_never_answered_does_not_claim_to_be_in_sync(fleet: Fleet) -> None:
    """Trap 5: unknown is a state of its own."""
    body = fleet.body("phone", init=False)
    body.init("--offline")
    document = body.status()
    assert document["remote_tip"] is None and document["last_pull"] is None
    assert "in sync with origin" not in body.run("status").out


def objects(body: Body, *revisions: str) -> list[Path]:
    """The loose objects of these revisions."""
    oids = [body.git("rev-parse", revision).strip() for revision in revisions]
    return [body.soul / ".git/objects" / oid[:2] / oid[2:] for oid in oids]


@pytest.mark.parametrize("keeps", [0, 9], ids=["emptied", "cut off"])
@pytest.mark.parametrize("what", ["HEAD", "HEAD^{tree}", "HEAD:notes/by-hand.md"])
def test_a_ruined_object_costs_nothing_that_was_written(laptop: Body, server: Body, what: str, keeps: int) -> None:
    """Trap 8; REPO-7: a person's commit whose objects were torn by a crash is damage, never a reason to stop."""
    laptop.write("notes/by-hand.md", "# by-hand\n\nWritten and committed by a person.\n")
    laptop.person("add", "-A")
    laptop.person("commit", "-qm", "by hand")
    (torn,) = objects(laptop, what)
    torn.chmod(0o644)
    torn.write_bytes(torn.read_bytes()[:keeps])
    laptop.append("memories/MEMORY.md", "§\nhas a canoe\n")
    for _ in range(3):
        laptop.run("sync", "--json")
    answer = laptop.sync()
    assert answer["outcome"] == "ok"
    server.sync()
    assert "has a canoe" in server.entries("memories/MEMORY.md")
    assert server.read("notes/by-hand.md") == "# by-hand\n\nWritten and committed by a person.\n"
    fsck(server.soul)


def test_a_soul_is_not_laid_where_everything_lies(fleet: Fleet, tmp_path: Path) -> None:
    """Trap 11: neither a home directory, nor the root, nor a folder that holds keys becomes a soul."""
    body = fleet.body("phone", init=False)
    home = tmp_path / "home"
    (home / ".ssh").mkdir(parents=True)
    (home / ".ssh" / "id_ed25519").write_text("KEY")
    body.environment = {"HOME": str(home)}
    for place in (home, Path("/"), body.home):
        done = body.run("init", "kaoru", "--remote", body.remote, "--body", "phone", "--soul", str(place), "--json")
        assert done.code in (2, 3), done
        assert done.document["error"]["advice"]
        assert not (place / ".git").exists()
    assert not (body.home / "config").exists()


def test_another_repository_is_not_taken_for_a_soul(laptop: Body, fleet: Fleet, tmp_path: Path) -> None:
    """Trap 11; REPO-5: a program's sources at the configured address are left alone, on joining and later."""
    sources = tmp_path / "sources"
    sources.mkdir()
    quick.person(sources, "init", "-q", "-b", "main")
    (sources / "setup.py").write_text("print()\n")
    quick.person(sources, "add", "-A")
    quick.person(sources, "commit", "-qm", "sources")
    (tmp_path / "elsewhere").mkdir()
    other = quick.empty(fleet.server, tmp_path / "elsewhere")
    quick.person(sources, "push", "-q", str(other.bare), "main")
    body = other.body("phone", init=False)
    error = body.init("--host-key", fleet.server.fingerprint(), code=3)["error"]
    assert error["kind"] == "not-a-soul" and "setup.py" in error["message"]
    assert other.git("log", "--format=%s", "main").split() == ["sources"]


def test_a_persons_stash_is_never_touched(laptop: Body, server: Body) -> None:
    """Trap 14: no stash is made, popped or dropped by the program, whatever lies on it."""
    for number in range(2):
        laptop.write("notes/draft.md", f"# draft\n\n{number}\n")
        laptop.person("stash", "push", "-q", "-u", "-m", f"mine {number}")
    before = laptop.person("stash", "list", "--format=%H %gs")
    assert len(before.splitlines()) == 2
    server.append("memories/MEMORY.md", "§\nhas a canoe\n")
    server.sync()
    laptop.append("memories/MEMORY.md", "§\nhas a sauna\n")
    laptop.sync()
    assert laptop.person("stash", "list", "--format=%H %gs") == before
    laptop.person("stash", "pop", "-q")
    assert laptop.read("notes/draft.md") == "# draft\n\n1\n"
    laptop.sync()
    assert b"draft" in laptop.tree()["notes/draft.md"]


def test_nothing_is_rewritten_under_a_persons_rebase(laptop: Body, server: Body) -> None:
    """Trap 15; REPO-7: while a person rebases, a running daemon reads and writes nothing; then it goes on by itself."""
    for number in range(3):
        laptop.write(f"notes/n{number}.md", f"# n{number}\n")
        laptop.person("add", "-A")
        laptop.person("commit", "-qm", f"n{number}")
    laptop.person("rebase", "-q", "-x", "false", "HEAD~2", check=False)
    assert (laptop.soul / ".git/rebase-merge").exists()
    before, head = laptop.files(), laptop.person("rev-parse", "HEAD")
    server.append("memories/MEMORY.md", "§\nhas a canoe\n")
    server.sync()
    laptop.start(ready=False)
    until(lambda: laptop.seen().get("state") == "waiting", "the daemon waits")
    laptop.write("notes/meanwhile.md", "# meanwhile\n")
    time.sleep(1.5)
    assert laptop.files() == before | {"notes/meanwhile.md": b"# meanwhile\n"}
    assert laptop.person("rev-parse", "HEAD") == head
    assert "rebase" in laptop.seen()["last_pass"]["sentence"]
    laptop.person("rebase", "--abort")
    until(lambda: "has a canoe" in laptop.entries("memories/MEMORY.md"), "it goes on")
    until(lambda: b"meanwhile" in laptop.tree().get("notes/meanwhile.md", b""), "what was written is recorded")
    assert laptop.stop() == 0


def test_the_configuration_of_git_is_never_written(laptop: Body) -> None:
    """Trap 16: no pass needs, locks or changes `.git/config`."""
    before = (laptop.soul / ".git/config").read_bytes()
    lock = left(laptop, "config.lock", 0)
    laptop.append("memories/MEMORY.md", "§\nhas a canoe\n")
    assert laptop.sync()["pushed"]
    assert lock.exists() and (laptop.soul / ".git/config").read_bytes() == before


def test_a_directory_that_was_deleted_under_the_program_does_not_matter(laptop: Body, tmp_path: Path) -> None:
    """Trap 17: the present directory is gone, and so it stays for every child."""
    laptop.append("memories/MEMORY.md", "§\nhas a canoe\n")
    gone = tmp_path / "gone"
    gone.mkdir()
    script = f"rmdir {gone}; exec {sys.executable} -m bridge sync --json"
    done = subprocess.run(["sh", "-c", script], cwd=gone, env=laptop.env(), capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["pushed"]


@pytest.mark.parametrize("pause", [0.25, 0.4, 0.55, 0.7])
def test_a_first_contact_that_was_killed_goes_on_when_it_is_called_again(fleet: Fleet, pause: float) -> None:
    """Trap 18: whatever half a clone left, the same command finishes it and deletes nothing that it did not make."""
    body = fleet.body("phone", init=False)
    body.write("notes/before.md", "# before\n\nlay here already\n")
    words = ["init", "kaoru", "--remote", body.remote, "--body", "phone", "--host-key", fleet.server.fingerprint()]
    child = subprocess.Popen(body.command(*words), env=body.env(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(pause)
    child.kill()
    child.wait()
    body.init("--host-key", fleet.server.fingerprint())
    body.sync()
    assert body.read("notes/before.md") == "# before\n\nlay here already\n"
    assert "owns a kettle" in body.entries("memories/MEMORY.md")
    fleet.converge()
    fleet.agree()


def test_half_a_git_directory_is_no_obstacle_to_joining(fleet: Fleet) -> None:
    """Trap 18: a folder with an empty or half-made .git is finished; the draft of an earlier start as well."""
    body = fleet.body("phone", init=False)
    (body.soul / ".git.tmp/objects").mkdir(parents=True)
    body.init("--host-key", fleet.server.fingerprint())
    body.sync()
    assert "owns a kettle" in body.entries("memories/MEMORY.md")
    assert not (body.soul / ".git.tmp").exists()


def test_a_persons_staged_work_is_neither_lost_nor_mixed_in(laptop: Body, server: Body) -> None:
    """Trap 19: what a person staged stays staged as it was, while passes come and go."""
    laptop.write("notes/tea/sencha.md", "# sencha\n\n60 degrees, staged.\n")
    laptop.person("add", "notes/tea/sencha.md")
    laptop.write("notes/tea/sencha.md", "# sencha\n\n80 degrees, on disk.\n")
    laptop.append("memories/MEMORY.md", "§\nhas a canoe\n")
    laptop.sync()
    assert laptop.person("show", ":notes/tea/sencha.md") == "# sencha\n\n60 degrees, staged.\n"
    assert laptop.tree()["notes/tea/sencha.md"] == b"# sencha\n\n80 degrees, on disk.\n"
    server.sync()
    assert server.read("notes/tea/sencha.md") == "# sencha\n\n80 degrees, on disk.\n"


def test_an_empty_file_in_place_of_the_git_directory_is_damage(laptop: Body, server: Body) -> None:
    """Trap 9; REPO-7: nothing is initialised over it, and what the agent wrote meanwhile survives."""
    laptop.sync()
    shutil.rmtree(laptop.soul / ".git")
    (laptop.soul / ".git").touch()
    laptop.append("memories/MEMORY.md", "§\nhas a canoe\n")
    laptop.remove("notes/tea/sencha.md")
    laptop.sync()
    server.sync()
    assert "has a canoe" in server.entries("memories/MEMORY.md")
    assert laptop.read("notes/tea/sencha.md") == server.read("notes/tea/sencha.md") == "# sencha\n\n70 degrees.\n"


def test_an_index_that_could_not_follow_does_not_stay_behind(laptop: Body, server: Body) -> None:
    """Trap 19; REPO-7: a person's git held its index at the end of a pass; their next commit takes nothing back."""
    laptop.sync()
    index = laptop.soul / ".git/index"
    old, tree = index.read_bytes(), laptop.git("rev-parse", "HEAD^{tree}").strip()
    server.append("memories/MEMORY.md", "§\nhas a canoe\n")
    server.sync()
    laptop.sync()
    # As after a pass whose last step met a lock: the index is the old one, and it is known to be.
    index.write_bytes(old)
    with contextlib.closing(Seen(laptop.private() / "seen.db")) as seen:
        seen.remember(INDEXED, tree)
    lock = left(laptop, "index.lock", 0)
    with contextlib.closing(Repo.open(laptop.soul)) as repo:
        assert not repo.index(tree, laptop.git("rev-parse", "HEAD^{tree}").strip())
        lock.unlink()
    laptop.sync()
    assert laptop.person("status", "--porcelain") == ""
