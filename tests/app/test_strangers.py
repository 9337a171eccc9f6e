"""Another agent, or no soul, where the remote or the checkout should be: nothing is mixed (MERGE-5, REPO-5)."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from bridge.app.host import Host
from bridge.app.repairing import begin_again
from bridge.core import identity
from tests.app.bodies import fleet as fakes
from tests.real.fleet import Body, Fleet

MAIN = "refs/heads/main"
FOREIGN = "8c1f9a52-0c5e-4b7e-9d7b-2f3a4b5c6d7e"


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    """A host with the repositories of two agents that are called the same."""
    host = Host(tmp_path / "host").start()
    host.create("kaoru.soul.git")
    host.create("other.soul.git")
    made = Fleet(host, tmp_path, "kaoru.soul.git", within=True)
    yield made
    made.close()
    host.stop()


def other_agent(fleet: Fleet) -> tuple[Fleet, Body]:
    """Another agent of the same name, with a soul and a body of its own."""
    there = Fleet(fleet.server, fleet.root / "there", "other.soul.git", within=True)
    there.root.mkdir()
    return there, there.body("desk")


def id_at(body: Body) -> str:
    return str(identity.id_of((body.read("agent.json") or "").encode()))


@pytest.mark.parametrize("what", ["another agent", "a program"])
def test_a_remote_that_was_replaced_gets_nothing_of_this_soul(fleet: Fleet, what: str) -> None:
    """MERGE-5, REPO-5: whatever a person types; and it can be put right by putting the repository back."""
    body = fleet.body("laptop")
    body.append("memories/MEMORY.md", "private\n")
    body.sync()
    kept = fleet.bare.with_name("kept.git")
    fleet.bare.rename(kept)
    if what == "another agent":
        there, desk = other_agent(fleet)
        shutil.copytree(there.bare, fleet.bare)
        kind, words = "identity", (id_at(body), id_at(desk), "two different agents")
    else:
        subprocess.run(["git", "init", "-q", "--bare", "--initial-branch=main", str(fleet.bare)], check=True)
        blob = subprocess.run(
            ["git", "-C", str(fleet.bare), "hash-object", "-w", "--stdin"],
            input=b"x\n",
            capture_output=True,
            check=True,
        )
        entry = f"100644 blob {blob.stdout.decode().strip()}\tsetup.py\n".encode()
        tree = subprocess.run(
            ["git", "-C", str(fleet.bare), "mktree"], input=entry, capture_output=True, check=True
        ).stdout.decode()
        made = ["-c", "user.name=P", "-c", "user.email=p@h", "commit-tree", "-m", "a program", tree.strip()]
        fleet.git("update-ref", MAIN, fleet.git(*made).strip())
        kind, words = "not-a-soul", ("the remote is not a soul", "setup.py")
    before, files = fleet.tip(), body.files()
    for command in (
        ["sync"],
        ["accept-remote"],
        ["accept-remote", "--merge"],
        ["accept-remote", "--theirs"],
        ["lease", "acquire"],
        ["init", "kaoru"],
    ):
        error = body.json(*command, code=3)["error"]
        assert error["kind"] == kind, command
        assert all(word in error["message"] for word in words), command
        assert "accept-remote" not in error["advice"]
    said = body.run("status").out
    assert "in sync with origin" not in said
    assert fleet.tip() == before and body.files() == files
    checks = {row["check"]: row for row in body.run("doctor", "--json").document}
    assert checks["remote soul"]["state"] == "fail" and "remote" in checks["remote soul"]["remedy"]
    assert "accept-remote" not in str(checks["remote history"])
    shutil.rmtree(fleet.bare)
    kept.rename(fleet.bare)
    assert body.sync()["outcome"] == "ok"
    assert body.files() == files and "in sync with origin" in body.run("status").out


def test_a_fork_that_became_another_agent_is_not_joined_by_a_clone() -> None:
    """MERGE-5, REPO-6: a commit in common does not make two agents one."""
    world = fakes()
    one = world.body("laptop")
    one.settle()
    server, tip = world.server, world.server.tip(MAIN) or ""
    from bridge.core.model import File

    def named(commit: str, id: str) -> str:
        file = File(server.write(f'{{"id": "{id}", "name": "kaoru"}}'.encode()))
        tree = server.edit(server.info(commit).tree, {"agent.json": file})
        made = server.commit(tree, [commit], "Kaoru (phone)", "k@phone.local", "named (phone)", 1_800_000_100)
        server.flush()
        return made

    ours, theirs = named(tip, "3f0e6f0a-6f0e-4a7c-9f4e-0a0a0a0a0a0a"), named(tip, FOREIGN)
    two = world.body("phone", birth=False)
    two.remote.rewrite(ours)
    two.remote.fetch([])
    two.repo.move(MAIN, None, ours)
    two.remote.rewrite(theirs)
    problem = two.run().problem
    assert problem is not None and problem.kind == "identity" and FOREIGN in problem.message
    assert two.soul.head() == ours and not two.files()


def test_a_body_that_lost_its_memory_does_not_join_another_agent() -> None:
    """MERGE-5, REPO-7: its id was published, a seed as it may be."""
    world = fakes()
    one = world.body("laptop")
    one.settle()
    materialised = one.soul.head()
    server = world.server
    from bridge.core.model import File

    file = File(server.write(f'{{"id": "{FOREIGN}", "name": "kaoru", "seed": true}}'.encode()))
    other = server.commit(
        server.edit("", {"agent.json": file}), [], "K (desk)", "k@desk.local", "x (desk)", 1_800_000_100
    )
    server.flush()
    one.remote.rewrite(other)
    one.seen.entries.clear()
    one.seen.memory.clear()
    one.restart()
    begin_again(one.soul, materialised)
    before = one.files()
    problem = one.run().problem
    assert problem is not None and problem.kind == "identity" and FOREIGN in problem.message
    assert (one.files(), one.soul.head(), server.tip(MAIN)) == (before, materialised, other)


@pytest.mark.parametrize("offline", [False, True])
def test_a_checkout_of_another_agent_is_refused_by_init_and_leaves_no_mark(fleet: Fleet, offline: bool) -> None:
    """GUARD-2, MERGE-5: the own checkout, brought back, works at once."""
    body = fleet.body("laptop")
    _, desk = other_agent(fleet)
    own, foreign = body.soul.with_name("own"), id_at(desk)
    body.soul.rename(own)
    shutil.copytree(desk.soul, body.soul, symlinks=True)
    mark, inside = body.state / "checkout", body.soul / ".git/soul-bridge/id"
    marks, tip = (mark.read_bytes(), inside.read_bytes()), fleet.tip()
    assert "another repository" in body.json("sync", code=1)["error"]["message"]
    error = body.json("init", "kaoru", *(["--offline"] if offline else []), code=1 if offline else 3)["error"]
    assert error["rule"] == ("GUARD-2" if offline else "MERGE-5")
    if not offline:
        assert (
            foreign in error["message"] and str(identity.id_of((own / "agent.json").read_bytes())) in error["message"]
        )
    assert (mark.read_bytes(), inside.read_bytes()) == marks and fleet.tip() == tip
    for choice in ("--merge", "--theirs"):
        body.json("accept-remote", choice, code=1)
    shutil.rmtree(body.soul)
    own.rename(body.soul)
    body.append("memories/MEMORY.md", "back again\n")
    assert body.sync()["outcome"] == "ok"
    assert "back again" in fleet.git("show", "main:memories/MEMORY.md")


def test_a_folder_of_something_else_is_refused_by_init_and_leaves_no_mark(fleet: Fleet) -> None:
    """GUARD-2: the source of a program in the place of the checkout is no soul."""
    body = fleet.body("laptop")
    own = body.soul.with_name("own")
    body.soul.rename(own)
    subprocess.run(["git", "init", "-q", "--initial-branch=main", str(body.soul)], check=True)
    (body.soul / "setup.py").write_text("x\n")
    for words in (["add", "."], ["-c", "user.name=P", "-c", "user.email=p@h", "commit", "-q", "-m", "a program"]):
        subprocess.run(["git", "-C", str(body.soul), *words], check=True)
    tip = fleet.tip()
    error = body.json("init", "kaoru", code=1)["error"]
    assert error["rule"] == "GUARD-2" and "another repository" in error["message"]
    assert not (body.soul / ".git/soul-bridge/id").exists() and fleet.tip() == tip
    shutil.rmtree(body.soul)
    own.rename(body.soul)
    assert body.sync()["outcome"] == "ok"


@pytest.mark.parametrize("old", [False, True])
def test_a_clone_of_the_own_soul_is_taken_by_init(fleet: Fleet, old: bool) -> None:
    """GUARD-2, REPO-6: a person asked for what stands there, and it is this soul; an old clone, too."""
    body = fleet.body("laptop")
    first = fleet.tip()
    body.write("notes/later.md", "# later\n")
    body.sync()
    shutil.rmtree(body.soul)
    subprocess.run(["git", "clone", "-q", str(fleet.bare), str(body.soul)], check=True)
    if old:
        for words in (
            ["reset", "-q", "--hard", first],
            ["remote", "remove", "origin"],
            ["reflog", "expire", "--expire=now", "--all"],
            ["gc", "-q", "--prune=now"],
        ):
            subprocess.run(["git", "-C", str(body.soul), *words], check=True, capture_output=True)
    assert body.json("init", "kaoru")["state"] == "ready"
    assert body.sync()["outcome"] == "ok" and body.read("notes/later.md") == "# later\n"


def test_what_a_person_accepted_is_the_last_pass_that_status_tells_of(fleet: Fleet) -> None:
    """REPO-4: not the one before, which was refused; and what still stands in the way stays told."""
    body = fleet.body("laptop")
    base = fleet.tip()
    body.write("notes/a.md", "# a\n")
    body.sync()
    made = [
        "-c",
        "user.name=P",
        "-c",
        "user.email=p@h",
        "commit-tree",
        "-p",
        base,
        "-m",
        "elsewhere",
        f"{base}^{{tree}}",
    ]
    fleet.git("update-ref", MAIN, fleet.git(*made).strip())
    body.json("sync", code=3)
    body.json("accept-remote")
    assert "not in sync" in body.run("status").out or "not pushed" in body.run("status").out
    assert body.status()["problem"]["kind"] == "rewritten"
    body.json("accept-remote", "--theirs")
    said = body.run("status").out
    assert "in sync with origin" in said and "rewritten" not in said
    assert body.status()["problem"] is None and body.status()["last_pass"]["outcome"] == "ok"
