"""The REPO, COMMIT, LEASE and FORM-6 rules on real bodies: joining, persons with git, rewritten remotes, refusals."""

from __future__ import annotations

import json
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.real.fleet import Body, Fleet, fsck, git, until
from tests.real.rows import entries


@pytest.fixture
def fleet(near: Fleet) -> Fleet:
    """These stories are long, so their calls are made within this process."""
    return near


def seed(fleet: Fleet) -> Body:
    """A soul with some history, made by a body called laptop."""
    laptop = fleet.body("laptop")
    laptop.write("notes/tea.md", "# tea\n\nfirst\n")
    laptop.write("memories/MEMORY.md", entries("published"))
    laptop.sync()
    laptop.write("notes/tea.md", "# tea\n\nsecond\n")
    laptop.sync()
    return laptop


def errors(answer: dict[str, object]) -> tuple[object, object]:
    """Kind and rule of the error in an answer."""
    error = answer["error"]
    assert isinstance(error, dict) and error["message"] and error["advice"]
    return error["kind"], error["rule"]


def test_joining_unites_what_lay_there_with_what_is_published(fleet: Fleet) -> None:
    """REPO-6: old copies yield, memories unite, of two versions the published one stands and ours is listed."""
    seed(fleet)
    server = fleet.body("server", init=False)
    server.write("notes/tea.md", "# tea\n\nfirst\n")
    server.write("memories/MEMORY.md", entries("lay here"))
    server.write("notes/mine.md", "# mine\n")
    server.write("SOUL.md", "# Kaoru\n\nlay here\n")
    server.init("--host-key", fleet.server.fingerprint())
    fleet.bodies["laptop"].sync()
    files = fleet.agree()
    assert files["notes/tea.md"] == b"# tea\n\nsecond\n"
    assert sorted(server.entries("memories/MEMORY.md")) == ["lay here", "published"]
    assert files["notes/mine.md"] == b"# mine\n"
    lost = {(one["path"], git(server.soul, "cat-file", "blob", one["blob"])) for one in server.json("conflicts")}
    assert files["SOUL.md"] == b"# Kaoru\n\nlay here\n" or ("SOUL.md", "# Kaoru\n\nlay here\n") in lost


def test_joining_an_identity_that_was_made_here_takes_the_published_one(fleet: Fleet) -> None:
    """REPO-6, MERGE-5: a soul made with --offline joins; one root stays, its own history is kept under a local ref."""
    laptop = seed(fleet)
    server = fleet.body("server", init=False)
    server.init("--offline", "--display-name", "Kaoru")
    server.write("memories/MEMORY.md", entries("alone"))
    assert server.sync(code=4)["recorded"]
    server.init("--host-key", fleet.server.fingerprint())
    laptop.sync()
    fleet.agree()
    assert sorted(laptop.entries("memories/MEMORY.md")) == ["alone", "published"]
    assert server.git("for-each-ref", "refs/soul-bridge/keep").count("commit") >= 1
    assert json.loads(server.read("agent.json") or "") == json.loads(laptop.read("agent.json") or "")


def test_joining_another_agent_is_refused_with_both_ids(fleet: Fleet) -> None:
    """MERGE-5, REPO-6: two real identities: exit 3, both named, nothing merged, pushed or written."""
    laptop = seed(fleet)
    fields = json.loads(laptop.read("agent.json") or "")
    other = {**fields, "id": "11111111-2222-4333-8444-555555555555", "description": "someone else"}
    other.pop("seed", None)
    laptop.write("agent.json", json.dumps({k: v for k, v in fields.items() if k != "seed"}, indent=2) + "\n")
    laptop.sync()
    tip = fleet.tip()
    server = fleet.body("server", init=False)
    server.write("agent.json", json.dumps(other, indent=2) + "\n")
    answer = server.init("--host-key", fleet.server.fingerprint(), code=3)
    assert errors(answer) == ("identity", "MERGE-5")
    assert fields["id"] in str(answer) and str(other["id"]) in str(answer)
    assert set(server.files()) == {"agent.json"} and fleet.tip() == tip


def test_a_clone_of_this_soul_keeps_its_history(fleet: Fleet) -> None:
    """REPO-6: a person's clone is adopted: its edits are edits, what is absent comes back."""
    laptop = seed(fleet)
    server = fleet.body("server", init=False)
    server.soul.parent.mkdir(parents=True)
    git(fleet.root, "clone", "-q", str(fleet.bare), str(server.soul))
    server.write("notes/tea.md", "# tea\n\nedited in the clone\n")
    server.remove("memories/USER.md")
    time.sleep(1.1)
    server.init("--host-key", fleet.server.fingerprint())
    laptop.sync()
    files = fleet.agree()
    assert files["notes/tea.md"] == b"# tea\n\nedited in the clone\n" and files["memories/USER.md"] == b""


@pytest.mark.parametrize("what", ["another project", "no main"])
def test_a_remote_that_is_no_soul_is_left_alone(fleet: Fleet, what: str) -> None:
    """REPO-5: exit 3, nothing written there nor here."""
    source = fleet.root / "source"
    source.mkdir()
    git(source, "init", "-q", "-b", "main")
    (source / "setup.py").write_text("print()\n")
    git(source, "add", ".")
    git(source, "commit", "-q", "-m", "a project")
    git(source, "push", "-q", str(fleet.bare), f"main:{'main' if what == 'another project' else 'trunk'}")
    before = fleet.git("for-each-ref")
    body = fleet.body("laptop", init=False)
    assert errors(body.init("--host-key", fleet.server.fingerprint(), code=3)) == ("not-a-soul", "REPO-5")
    assert fleet.git("for-each-ref") == before
    assert body.files() == {}


def test_a_persons_commit_is_accepted_and_an_undo_is_recorded(fleet: Fleet) -> None:
    """REPO-7: a commit on top is taken; reset --hard becomes a recorded undo, reset --soft nothing, amend is undone."""
    laptop, server = seed(fleet), fleet.body("server")
    laptop.write("notes/by-hand.md", "# by hand\n")
    laptop.git("add", "notes/by-hand.md")
    laptop.git("commit", "-q", "-m", "by hand")
    hand = laptop.tip()
    laptop.sync()
    assert hand in fleet.git("rev-list", "main").split()
    server.sync()
    server.append("notes/by-hand.md", "\nby the other body\n")
    server.sync()
    laptop.sync()
    assert laptop.git("status", "--porcelain") == ""
    before = laptop.tip()
    laptop.git("reset", "-q", "--hard", f"{hand}~1")
    laptop.sync()
    assert before in laptop.git("rev-list", "main").split(), "history only grows"
    assert "notes/by-hand.md" not in laptop.tree() and laptop.read("notes/by-hand.md") is None
    tip = laptop.tip()
    laptop.git("reset", "-q", "--soft", "HEAD~2")
    laptop.sync()
    assert laptop.tip() == tip, "reset --soft is nothing"
    laptop.git("commit", "-q", "--amend", "--allow-empty", "-m", "amended")
    amended = laptop.tip()
    laptop.sync()
    assert tip in laptop.git("rev-list", "main").split()
    assert amended in laptop.git("for-each-ref", "--format=%(objectname)", "refs/soul-bridge").split()
    server.sync()
    fleet.agree()


def test_a_person_at_work_is_waited_for(fleet: Fleet) -> None:
    """REPO-7: detached HEAD, another branch, a merge or a fresh index.lock: nothing moves, it says so and goes on."""
    laptop = seed(fleet)
    tip = laptop.tip()
    laptop.write("notes/meanwhile.md", "# meanwhile\n")
    lock = laptop.soul / ".git/index.lock"
    ways: dict[str, tuple[Callable[[], object], Callable[[], object]]] = {
        "detached": (lambda: laptop.git("checkout", "-q", "--detach"), lambda: laptop.git("checkout", "-q", "main")),
        "branch": (lambda: laptop.git("checkout", "-q", "-b", "try"), lambda: laptop.git("checkout", "-q", "main")),
        "merge": (
            lambda: (laptop.soul / ".git/MERGE_HEAD").write_text(tip + "\n"),
            lambda: (laptop.soul / ".git/MERGE_HEAD").unlink(),
        ),
        "lock": (lambda: lock.write_text(""), lock.unlink),
    }  # fmt: skip
    for name, (begin, end) in ways.items():
        begin()
        answer = laptop.sync()
        assert answer["outcome"] == "waiting" and "waiting" in answer["sentence"], (name, answer)
        assert laptop.status()["state"] in ("waiting", "stopped")
        assert laptop.tip() == tip, name
        end()
    answer = laptop.sync()
    assert answer["outcome"] == "ok" and "notes/meanwhile.md" in laptop.tree()
    fleet.agree()


@pytest.mark.parametrize("damage", ["no .git", "empty ref", "empty object"])
def test_a_damaged_repository_is_mended_from_the_remote(fleet: Fleet, damage: str) -> None:
    """REPO-7: never a new repository: a fresh git directory, the broken one kept, the agent's edits recorded."""
    laptop, server = seed(fleet), fleet.body("server")
    laptop.write("notes/unpublished.md", "# written before the damage\n")
    laptop.append("memories/MEMORY.md", "§\nadded\n")
    if damage == "no .git":
        shutil.rmtree(laptop.soul / ".git")
    elif damage == "empty ref":
        (laptop.soul / ".git/refs/heads/main").write_text("")
    else:
        for path in (laptop.soul / ".git/objects").rglob("*"):
            if path.is_file():
                path.chmod(0o600)
                path.write_bytes(b"")
    laptop.run("sync", "--json")
    laptop.sync()
    server.sync()
    files = fleet.agree()
    assert files["notes/unpublished.md"] == b"# written before the damage\n"
    assert laptop.entries("memories/MEMORY.md") == ["published", "added"]
    assert files["notes/tea.md"] == b"# tea\n\nsecond\n"
    if damage != "no .git":
        assert [path for path in laptop.soul.parent.rglob("*") if "broken" in path.name or "damaged" in path.name]


@pytest.mark.parametrize("damage", ["no .git", "no HEAD", "no objects"])
def test_a_repository_damaged_under_a_running_daemon_is_mended_by_it(fleet: Fleet, damage: str) -> None:
    """REPO-7: nobody has to restart the daemon: it opens the soul anew, edits are recorded, nothing is lost."""
    laptop = seed(fleet).start()
    laptop.write("notes/unpublished.md", "# written at the damage\n")
    if damage == "no .git":
        shutil.rmtree(laptop.soul / ".git", ignore_errors=True)
        shutil.rmtree(laptop.soul / ".git", ignore_errors=True)
    elif damage == "no HEAD":
        (laptop.soul / ".git/HEAD").unlink()
    else:
        shutil.rmtree(laptop.soul / ".git/objects")
        (laptop.soul / ".git/objects").mkdir()
    laptop.append("memories/MEMORY.md", "§\nadded\n")

    def published() -> bool:
        return "added" in fleet.git("show", "main:memories/MEMORY.md")

    until(published, "it is in sync again")
    until(lambda: laptop.seen().get("state") == "idle" and laptop.seen()["problem"] is None, "and says so")
    laptop.write("notes/after.md", "# after\n")
    until(lambda: "notes/after.md" in fleet.git("ls-tree", "-r", "--name-only", "main"), "and goes on")
    assert laptop.stop() == 0
    files = fleet.agree()
    assert files["notes/unpublished.md"] == b"# written at the damage\n"
    assert files["notes/tea.md"] == b"# tea\n\nsecond\n"
    assert laptop.entries("memories/MEMORY.md") == ["published", "added"]


def test_a_restored_backup_is_brought_forward_again(fleet: Fleet) -> None:
    """REPO-4: a remote at an ancestor is believed at the second look, and nothing is lost."""
    laptop = seed(fleet)
    tip = fleet.tip()
    fleet.git("update-ref", "refs/heads/main", f"{tip}~1")
    laptop.run("sync", "--json")
    laptop.sync()
    assert fleet.tip() == tip == laptop.tip()
    kinds = [json.loads(line)["event"] for line in (laptop.state / "events.jsonl").read_text().splitlines()]
    assert "remote.rolled_back" in kinds


@pytest.mark.parametrize("choice", ["--merge", "--theirs"])
def test_a_rewritten_remote_waits_for_a_person(fleet: Fleet, choice: str) -> None:
    """REPO-4: no merge, no push, exit 3; local commits go on; `accept-remote` shows both sides and keeps ours."""
    laptop, server = seed(fleet), fleet.body("server")
    laptop.sync()
    old = fleet.tip()
    tree = fleet.git("rev-parse", f"{old}~2^{{tree}}").strip()
    blob = git(fleet.bare, "hash-object", "-w", "--stdin", stdin=b"theirs\n").strip()
    clone = fleet.root / "clone"
    git(fleet.root, "clone", "-q", str(fleet.bare), str(clone))
    git(clone, "reset", "-q", "--hard", f"{old}~2")
    (clone / "notes").mkdir(exist_ok=True)
    (clone / "notes/rewritten.md").write_text("# rewritten\n")
    git(clone, "add", ".")
    git(clone, "commit", "-q", "-m", "rewritten")
    git(clone, "push", "-q", "--force", "origin", "main")
    assert tree and blob
    new = fleet.tip()
    laptop.write("notes/local.md", "# local\n")
    assert errors(laptop.sync(code=3)) == ("rewritten", "REPO-4")
    assert fleet.tip() == new and "notes/local.md" in laptop.tree()
    shown = laptop.json("accept-remote")
    assert shown["remote"] == new and shown["only_here"] and shown["only_there"]
    answer = laptop.json("accept-remote", choice)
    assert laptop.git("rev-parse", answer["kept"]).strip() and old in laptop.git("rev-list", answer["kept"]).split()
    assert new in fleet.git("rev-list", "main").split()
    assert (old in fleet.git("rev-list", "main").split()) == (choice == "--merge")
    assert laptop.read("notes/rewritten.md") == "# rewritten\n" and laptop.read("notes/local.md") == "# local\n"
    assert (laptop.read("notes/tea.md") == "# tea\n\nsecond\n") == (choice == "--merge")
    if choice == "--theirs":
        server.json("accept-remote", "--theirs")
    server.sync()
    laptop.sync()
    fleet.agree()


def hook(fleet: Fleet, script: str) -> None:
    """Give the server a hook that judges what arrives."""
    path = fleet.bare / "hooks/pre-receive"
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\nread old new ref\n{script}\n")
    path.chmod(0o755)


def test_a_path_the_server_refuses_is_held_and_the_rest_arrives(fleet: Fleet) -> None:
    """REPO-8: what a hook refuses is found, held, kept under a ref and tried again when changed and asked for."""
    laptop, server = seed(fleet), fleet.body("server")
    hook(fleet, 'git grep -q FORBIDDEN "$new" && { echo "policy: a forbidden word" >&2; exit 1; }; exit 0')
    for number in range(5):
        laptop.write(f"notes/fine{number}.md", f"# fine {number}\n")
    laptop.write("notes/secret.md", "# secret\nFORBIDDEN\n")
    answer = laptop.run("sync", "--json").document
    assert [(one["path"], one["rule"]) for one in answer["held"]] == [("notes/secret.md", "REPO-8")]
    server.sync()
    assert server.read("notes/fine4.md") == "# fine 4\n" and server.read("notes/secret.md") is None
    assert laptop.read("notes/secret.md") == "# secret\nFORBIDDEN\n"
    laptop.write("notes/secret.md", "# secret\nharmless\n")
    laptop.sync("--now")
    server.sync()
    assert server.read("notes/secret.md") == "# secret\nharmless\n"
    fleet.agree()


def test_a_protected_branch_is_told_and_nothing_is_rebuilt(fleet: Fleet) -> None:
    """REPO-8: where leaving paths out does not help, the refusal is told and the commits stay as they are."""
    laptop = seed(fleet)
    hook(fleet, 'echo "main is protected" >&2; exit 1')
    laptop.write("notes/a.md", "# a\n")
    answer = laptop.sync(code=1)
    assert errors(answer)[0] == "rejected" and "protected" in answer["error"]["message"]
    tip = laptop.tip()
    laptop.sync(code=1)
    assert laptop.tip() == tip and laptop.sync(code=1)["held"] == []
    (fleet.bare / "hooks/pre-receive").unlink()
    laptop.sync()
    assert fleet.tip() == tip


def test_others_commits_are_read_whatever_their_words(fleet: Fleet) -> None:
    """COMMIT-3: the body of a commit is in the last parentheses of its author's name, full-width ones included."""
    laptop = seed(fleet)
    clone = fleet.root / "clone"
    git(fleet.root, "clone", "-q", str(fleet.bare), str(clone))
    for author, text in (("K (a) (phone)", "1"), ("Kaoru（tablet）", "2"), ("a person", "3")):
        (clone / "notes/other.md").write_text(f"# other\n{text}\n")
        git(clone, "add", ".")
        git(clone, "-c", "user.name=x", "commit", "-q", "-m", "Merge branch 'main' of host", f"--author={author} <m@x>")
    git(clone, "push", "-q", "origin", "main")
    laptop.sync()
    rows = laptop.json("log", "notes/other.md")
    assert [row["body"] for row in rows] == ["a person", "tablet", "phone"] or [row["body"] for row in rows][1:] == [
        "tablet",
        "phone",
    ]
    assert set(rows[0]) == {"commit", "at", "body", "subject", "paths"}


def test_an_idle_body_shows_itself_once_per_heartbeat(fleet: Fleet) -> None:
    """FORM-6: `lastSeen` moves with other changes or once per heartbeat, and an idle body commits nothing else."""
    laptop = seed(fleet)
    tip = fleet.tip()
    seen = json.loads(laptop.read("bodies/laptop.json") or "")["lastSeen"]
    laptop.sync()
    assert fleet.tip() == tip
    time.sleep(1.1)
    laptop.configure(heartbeat="1s")
    laptop.sync()
    assert json.loads(laptop.read("bodies/laptop.json") or "")["lastSeen"] > seen
    assert fleet.git("diff", "--name-only", f"{tip}", "main").split() == ["bodies/laptop.json"]
    laptop.configure(heartbeat="24h")
    laptop.write("notes/b.md", "# b\n")
    tip = fleet.tip()
    laptop.sync()
    assert set(fleet.git("diff", "--name-only", tip, "main").split()) == {"bodies/laptop.json", "notes/b.md"}


def test_the_lease_is_held_by_one_body_at_a_time(fleet: Fleet) -> None:
    """LEASE-1, LEASE-2, LEASE-3, FORM-7: the push that succeeds takes it; offline nobody does; release frees it."""
    laptop, server = seed(fleet), fleet.body("server")
    assert laptop.json("lease", "show") is None
    with laptop.offline():
        laptop.json("lease", "acquire", code=5)
    assert laptop.json("lease", "show") is None
    codes = fleet.everyone(lambda body: body.run("lease", "acquire", "--json").code)
    assert sorted(codes) == [0, 6], codes
    winner, loser = (laptop, server) if codes[0] == 0 else (server, laptop)
    content = fleet.git("show", "main:locks/consolidation.json")
    fields = json.loads(content)
    assert content == json.dumps(fields, separators=(",", ":")) + "\n" and list(fields) == ["body", "until"]
    assert fields["body"] == winner.name and 29 * 60 < fields["until"] / 1000 - time.time() < 30 * 60 + 5
    shown = winner.json("lease", "show")
    assert shown["body"] == winner.name and shown["mine"] is True and shown["until"].endswith("Z")
    assert loser.json("lease", "show")["mine"] is False
    assert errors(loser.json("lease", "acquire", code=6))[0] == "lease"
    for word in ("renew", "release"):
        assert errors(loser.json("lease", word, code=6))[0] == "lease"
    time.sleep(1.1)
    assert winner.json("lease", "renew")["until"] >= shown["until"]
    winner.json("lease", "acquire")
    winner.json("lease", "release")
    assert winner.json("lease", "show") is None
    loser.json("lease", "acquire")
    loser.json("lease", "release")
    fleet.converge()
    files = fleet.agree()
    assert "locks/consolidation.json" not in files


def test_consolidate_holds_the_lease_while_its_command_runs(fleet: Fleet) -> None:
    """LEASE-3, MERGE-12: others' changes wait on disk meanwhile; results are merged against what was read."""
    laptop, server = seed(fleet), fleet.body("server")
    laptop.write("memories/MEMORY.md", entries("one", "two", "three", "four", "five"))
    laptop.sync()
    server.sync()
    server.start()
    script = Path(fleet.root / "dream.sh")
    script.write_text(
        f"cd {laptop.soul}\ncp memories/MEMORY.md {fleet.root}/read\ntouch {fleet.root}/began\n"
        f"while ! test -e {fleet.root}/go; do sleep 0.1; done\n"
        f"cmp memories/MEMORY.md {fleet.root}/read && printf 'summary\\n' > memories/MEMORY.md\nexit 7\n"
    )
    laptop.start()
    meanwhile = threading.Thread(target=_add_meanwhile, args=(fleet, server))
    meanwhile.start()
    done = laptop.run("consolidate", "--", "sh", str(script))
    meanwhile.join()
    assert done.code == 7, done
    fleet.everywhere(lambda body: set(body.entries("memories/MEMORY.md")) == {"summary", "meanwhile"}, "both are there")
    assert laptop.json("lease", "show") is None
    fleet.settled()
    fleet.agree()


def _add_meanwhile(fleet: Fleet, server: Body) -> None:
    until(lambda: (fleet.root / "began").exists(), "the command runs")
    server.append("memories/MEMORY.md", "§\nmeanwhile\n")
    until(lambda: b"meanwhile" in _published(fleet), "it is published")
    time.sleep(1)
    (fleet.root / "go").touch()


def _published(fleet: Fleet) -> bytes:
    return fleet.git("show", "main:memories/MEMORY.md").encode()


def test_two_machines_that_share_a_name_keep_both_journals(fleet: Fleet) -> None:
    """MERGE-9: theirs, then our sections that are missing there; `bodies/` keeps the newer lastSeen."""
    laptop = seed(fleet)
    twin = Body("laptop", fleet.root / "twin", laptop.remote)
    shutil.copytree(laptop.home / "keys", twin.home / "keys")
    twin.init("--host-key", fleet.server.fingerprint(), "--take-over")
    laptop.write("journal/laptop/2026-01-02.md", "# 2026-01-02 · laptop\n\n## 09:00 one\n\na\n")
    twin.write("journal/laptop/2026-01-02.md", "# 2026-01-02 · laptop\n\n## 10:00 two\n\nb\n")
    laptop.sync()
    twin.sync()
    laptop.sync()
    assert laptop.read("journal/laptop/2026-01-02.md") == (
        "# 2026-01-02 · laptop\n\n## 09:00 one\n\na\n\n## 10:00 two\n\nb\n"
    )
    assert laptop.files() == twin.files()
    fsck(fleet.bare)
