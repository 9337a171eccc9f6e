"""Traps C: what a remote answers, refuses and forgets (tests/TRAPS.md)."""

from __future__ import annotations

import subprocess
from pathlib import Path

import paramiko
import pytest

from bridge.app.host import Host, Session
from bridge.core import cycle
from tests.real import quick
from tests.real.fleet import tree_of, until
from tests.real.quick import Body, Fleet

MEMORY = "memories/MEMORY.md"
CANOE = "§\nhas a canoe\n"


def hook(fleet: Fleet, name: str, script: str) -> Path:
    """A hook of the server."""
    path = fleet.bare / "hooks" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def test_a_lost_race_is_run_again_at_once(laptop: Body, server: Body, fleet: Fleet) -> None:
    """Trap 46; COMMIT-2: a push that comes too late is followed by fetch, merge and push in the same call."""
    server.append(MEMORY, "§\nfrom the server\n")
    server.sync()
    laptop.append(MEMORY, "§\nfrom the laptop\n")
    answer = laptop.sync()
    assert answer["pushed"] and answer["outcome"] == "ok"
    assert fleet.tip() == answer["tip"]


@pytest.mark.parametrize(
    ("name", "script", "words"),
    [
        ("pre-receive", "echo 'GH006: Protected branch update failed for refs/heads/main.' >&2; exit 1", "GH006"),
        ("update", '[ "$1" = refs/heads/main ] || exit 0; echo "main is under protection" >&2; exit 1', "protection"),
    ],
)
def test_a_refusal_that_lasts_is_told_as_one_and_ends_by_itself(
    laptop: Body, fleet: Fleet, name: str, script: str, words: str
) -> None:
    """Traps 48, 50, 136: the server's own words, a state that is not "will retry", nothing lost, no other branch."""
    script = hook(fleet, name, script)
    laptop.append(MEMORY, CANOE)
    error = laptop.sync(code=1)["error"]
    assert error["kind"] == "rejected" and words in error["message"] and error["advice"]
    document = laptop.status()
    assert document["problem"]["kind"] == "rejected" and document["ahead"] >= 1
    assert "in sync" not in laptop.run("status").out.splitlines()[0]
    assert fleet.git("for-each-ref", "--format=%(refname)").split() == ["refs/heads/main"]
    assert MEMORY in laptop.tree() and b"has a canoe" in laptop.tree()[MEMORY]
    script.unlink()
    assert laptop.sync()["pushed"]
    assert laptop.status()["problem"] is None


def test_a_daemon_says_that_it_is_refused_and_asks_rarely(laptop: Body, fleet: Fleet) -> None:
    """Traps 48, 136; AUTH-5: a running daemon does not call a permanent refusal waiting, and goes on at `sync`."""
    script = hook(fleet, "pre-receive", "echo 'not today' >&2; exit 1")
    laptop.start()
    laptop.append(MEMORY, CANOE)
    until(lambda: laptop.seen().get("state") == "refused", "the daemon says that it is refused")
    problem = laptop.seen()["problem"]
    assert problem["kind"] == "rejected" and "not today" in problem["message"]
    asked = len(fleet.server.log)
    laptop.append("notes/more.md", "# more\n")
    until(lambda: "notes/more.md" in laptop.tree(), "local work goes on")
    assert len(fleet.server.log) - asked <= 2
    script.unlink()
    assert laptop.sync()["pushed"]
    until(lambda: laptop.seen()["problem"] is None, "it is over by itself")
    assert laptop.stop() == 0


HOOKS = ("pre-commit", "prepare-commit-msg", "commit-msg", "post-commit", "pre-push", "reference-transaction")
HOOKS += ("post-checkout", "post-merge", "post-index-change", "pre-auto-gc", "fsmonitor-watchman", "post-rewrite")


def test_no_hook_of_the_checkout_runs_or_stops_anything(laptop: Body, server: Body, tmp_path: Path) -> None:
    """Traps 51, 77; AUTH-7."""
    ran = tmp_path / "ran"
    for name in HOOKS:
        path = laptop.soul / ".git/hooks" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\necho {name} >>{ran}\nexit 1\n")
        path.chmod(0o755)
    server.append(MEMORY, CANOE)
    server.sync()
    laptop.write("notes/own.md", "# own\n")
    assert laptop.sync()["pushed"]
    assert "has a canoe" in laptop.entries(MEMORY)
    assert not ran.exists()


class Silent(Host):
    """A host whose pushes end well and say nothing, as a wrapper that swallows a failure does."""

    def execute(self, session: Session, channel: paramiko.Channel, command: str) -> None:
        if command.startswith("git-receive-pack"):
            channel.send_exit_status(0)
            channel.close()
        else:
            super().execute(session, channel, command)


def test_a_push_that_nobody_confirmed_is_no_success(tmp_path: Path) -> None:
    """Trap 52: an empty answer with exit code 0 is not "pushed"; only the report about main is."""
    root = tmp_path / "host"
    honest = Host(root).start()
    (tmp_path / "bodies").mkdir()
    fleet = quick.empty(honest, tmp_path / "bodies")
    body = fleet.body("laptop")
    honest.stop()
    silent = Silent(root)
    silent._grants = honest._grants
    silent.start()
    try:
        body.configure(remote=silent.address(fleet.repository))
        known = body.home / "known_hosts"
        known.write_text(silent.host_key_line() + "\n")
        body.append(MEMORY, CANOE)
        answer = body.run("sync", "--json")
        assert answer.code != 0 and not answer.document["pushed"]
        assert body.status()["ahead"] >= 1 and body.status()["problem"] is not None
    finally:
        silent.stop()


def test_nothing_in_the_checkouts_configuration_decides_where_a_push_goes(
    laptop: Body, fleet: Fleet, tmp_path: Path
) -> None:
    """Traps 53, 54, 82; AUTH-7: no upstream, another origin, another default: the configured address is the truth."""
    subprocess.run(["git", "init", "-q", "--bare", str(tmp_path / "elsewhere.git")], check=True)
    for words in (
        ("remote", "add", "origin", str(tmp_path / "elsewhere.git")),
        ("config", "branch.main.remote", "nowhere"),
        ("config", "push.default", "nothing"),
        ("config", "remote.pushDefault", "nowhere"),
        ("config", f"url.{tmp_path}/elsewhere.git.insteadOf", laptop.remote),
        ("config", f"url.{tmp_path}/elsewhere.git.pushInsteadOf", laptop.remote),
    ):
        laptop.person(*words)
    laptop.append(MEMORY, CANOE)
    answer = laptop.sync()
    assert answer["pushed"] and fleet.tip() == answer["tip"]
    assert quick.person(tmp_path / "elsewhere.git", "for-each-ref") == ""


def test_a_repository_that_moved_is_followed_by_changing_one_line(laptop: Body, fleet: Fleet) -> None:
    """Trap 54: the old address fails and says so; the new one in the configuration is all that is needed."""
    moved = fleet.repository.replace("kaoru", "moved")
    fleet.server.create(moved)
    quick.person(fleet.bare.parent / moved, "fetch", "-q", str(fleet.bare), "main:main")
    fleet.server.authorize(moved, laptop.public_line())
    fleet.server.revoke(fleet.repository, laptop.public_line())
    laptop.append(MEMORY, CANOE)
    assert laptop.sync(code=4)["error"]["kind"] == "auth"
    laptop.configure(remote=fleet.server.address(moved))
    assert laptop.sync()["pushed"]
    assert b"has a canoe" in tree_of(fleet.bare.parent / moved)[MEMORY]


def test_a_read_only_key_is_found_before_anything_else(fleet: Fleet) -> None:
    """Trap 55; AUTH-3: write access is proved on the first day, by `init` itself."""
    body = fleet.body("phone", authorized=False, init=False)
    fleet.server.authorize(fleet.repository, body.public_line(), write=False)
    error = body.init("--host-key", fleet.server.fingerprint(), code=4)["error"]
    assert "read only" in error["message"] and "write access" in error["advice"]
    assert not (body.soul / "memories").exists()


def test_a_key_that_became_read_only_is_told_as_such(laptop: Body, server: Body, fleet: Fleet) -> None:
    """Trap 55: pulls go on working, and the status says that pushes do not."""
    fleet.server.authorize(fleet.repository, laptop.public_line(), write=False)
    server.append(MEMORY, CANOE)
    server.sync()
    laptop.write("notes/own.md", "# own\n")
    error = laptop.sync(code=4)["error"]
    assert error["kind"] == "auth" and "read only" in error["message"]
    assert "has a canoe" in laptop.entries(MEMORY)
    assert laptop.status()["problem"]["kind"] == "auth"


def test_a_remote_that_lost_everything_is_filled_again_and_it_is_said(laptop: Body, fleet: Fleet) -> None:
    """Trap 56; REPO-4: a main that is gone is no new soul and no loop: told at the first look, mended at the second."""
    tip = fleet.tip()
    fleet.git("update-ref", "-d", "refs/heads/main")
    laptop.append(MEMORY, CANOE)
    first = laptop.run("sync", "--json").document
    assert "behind" in first["sentence"]
    for _ in range(2):
        laptop.run("sync", "--json")
    assert tip in fleet.git("rev-list", "main").split()
    assert any(one["event"] == "remote.rolled_back" for one in laptop.events())
    assert b"has a canoe" in tree_of(fleet.bare)[MEMORY]


def test_files_may_have_the_names_of_branches_and_options(laptop: Body, server: Body, fleet: Fleet) -> None:
    """Traps 58, 112: main, HEAD, refs/heads/main, -rf, --, :(top)x, * are names like any other, for commands too."""
    names = ("main", "HEAD", "refs/heads/main", "-rf", "--", ":(top)x.md", "*", "?", "[a]", "!x", "@{u}", "~", "^")
    for name in names:
        laptop.write(f"names/{name}", f"{name}\n")
    laptop.write("main", "at the top\n")
    laptop.write("-v", "at the top\n")
    laptop.sync()
    server.sync()
    fleet.agree()
    for name in names:
        assert server.read(f"names/{name}") == f"{name}\n"
    assert laptop.json("log", "main")[0]["commit"] == laptop.json("log", "names/main")[0]["commit"]
    server.remove("main")
    server.sync()
    laptop.sync()
    assert laptop.read("main") is None and laptop.read("names/main") is not None


def test_a_checkout_without_its_past_is_refused(laptop: Body) -> None:
    """Trap 59; AUTH-7: a shallow clone is not worked with; the way out is named."""
    (laptop.soul / ".git/shallow").write_text(f"{laptop.tip()}\n")
    laptop.append(MEMORY, CANOE)
    error = laptop.sync(code=3)["error"]
    assert "shallow" in error["message"] and "unshallow" in error["advice"]


def test_large_file_filters_of_others_are_not_needed(laptop: Body, server: Body, fleet: Fleet) -> None:
    """Trap 60; AUTH-7: with `filter=lfs` required and no git-lfs there, bytes go as they are, pointers as text."""
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n"
    laptop.append(".gitattributes", "*.bin filter=lfs diff=lfs merge=lfs -text\n")
    for name, value in (("required", "true"), ("clean", "git-lfs clean -- %f"), ("smudge", "git-lfs smudge -- %f")):
        laptop.person("config", f"filter.lfs.{name}", value)
    laptop.write("extra/real.bin", b"\x00\x01\r\n\x02")
    laptop.write("extra/pointer.bin", pointer)
    laptop.sync()
    server.sync()
    assert (server.soul / "extra/real.bin").read_bytes() == b"\x00\x01\r\n\x02"
    assert server.read("extra/pointer.bin") == pointer


@pytest.mark.parametrize("chance", [0.0, 0.37, 0.999])
def test_a_bad_hour_is_met_with_growing_bounded_patience(chance: float) -> None:
    """Trap 61: each failure waits longer, never over ten minutes, not in step, and one success ends it."""
    state, now, waits = cycle.Cycle(30.0), 0.0, []
    for _ in range(14):
        state = cycle.step(state, cycle.Ending.TRANSIENT, now, chance)
        waits.append(state.next_remote - now)
        now = state.next_remote
    assert [round(wait) for wait in waits] == sorted(round(wait) for wait in waits) and 1 <= waits[0] <= 2
    assert 300 <= waits[-1] <= 600
    assert sum(waits) > 1800, "14 tries take more than half an hour"
    calm = cycle.step(state, cycle.Ending.QUIET, now, chance)
    assert calm.failures == 0 and calm.next_remote - now <= 30


def test_a_renamed_default_branch_does_not_split_the_bodies(laptop: Body, server: Body, fleet: Fleet) -> None:
    """Trap 62; REPO-5: no body makes the old branch again; each says what it found and keeps its work."""
    fleet.git("branch", "-m", "main", "trunk")
    for body in (laptop, server):
        body.append(MEMORY, f"§\nfrom the {body.name}\n")
        for _ in range(3):
            error = body.sync(code=3)["error"]
        assert error["kind"] == "not-a-soul" and "trunk" in error["message"]
    assert fleet.git("for-each-ref", "--format=%(refname)").split() == ["refs/heads/trunk"]
    fleet.git("branch", "-m", "trunk", "main")
    fleet.converge()
    assert {"from the laptop", "from the server"} <= set(laptop.entries(MEMORY))
