"""A real soul on a real host, one planted fault after the other: `doctor` finds each, and its remedy, typed as it is
printed, leaves nothing that `doctor` would complain about (among others AUTH-2, AUTH-6, REPO-4, REPO-7, MERGE-9)."""

from __future__ import annotations

import io
import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from bridge.adapters import config
from bridge.app.host import Host
from bridge.cli import run as call
from tests.real.fleet import Body, Fleet, until

Row = dict[str, str]


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """One body on a host over SSH."""
    root = tmp_path_factory.mktemp("cures")
    host = Host(root / "host").start()
    host.create("kaoru.soul.git")
    made = Fleet(host, root, "kaoru.soul.git", within=True)
    body = made.body("laptop")
    program = body.home / "bin" / "soul-bridge"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m bridge "$@"\n')
    program.chmod(0o755)
    body.write("memories/MEMORY.md", "one\n§\ntwo\n§\nthree\n§\nfour\n§\nfive\n")
    body.sync()
    yield made
    made.close()
    host.stop()


@pytest.fixture
def body(fleet: Fleet) -> Body:
    """The body, in order."""
    return fleet.bodies["laptop"]


@pytest.fixture(scope="module")
def usual(fleet: Fleet) -> set[str]:
    """What is not as it should be before anything was planted: no daemon, and no service."""
    found = {name for name, row in rows(fleet.bodies["laptop"]).items() if row["state"] != "ok"}
    assert found <= {"daemon", "service"}
    return found


def rows(body: Body) -> dict[str, Row]:
    """What `doctor` says, by check."""
    out = io.StringIO()
    code = call(["doctor", "--json"], config.locate({"SOUL_BRIDGE_HOME": str(body.home)}), out, io.StringIO())
    found = {row["check"]: row for row in json.loads(out.getvalue())}
    assert code == int(any(row["state"] == "fail" for row in found.values()))
    return found


def typing(body: Body, remedy: str) -> subprocess.Popen[str]:
    """Begin to type a remedy, as a person does who edits with `sed`."""
    path = f"{body.home / 'bin'}:{os.environ['PATH']}"
    words = ["sh", "-c", remedy]
    return subprocess.Popen(
        words, env=body.env(PATH=path, EDITOR=str(body.home / "bin" / "editor")), stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip


def edits(body: Body, expression: str) -> None:
    """What a person changes with the editor that a remedy opens."""
    editor = body.home / "bin" / "editor"
    editor.write_text(f'#!/bin/sh\nexec sed -i {shlex.quote(expression)} "$@"\n')
    editor.chmod(0o755)


def as_person(body: Body, *words: str, **environment: str) -> str:
    """git, as a person who has a name uses it."""
    done = subprocess.run(
        ["git", "-c", "user.name=P", "-c", "user.email=p@h", "-c", "safe.directory=*", "-C", str(body.soul), *words],
        env=body.env(**environment), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, (words, done.stderr)
    return done.stdout


def changed_status(body: Body, **fields: object) -> None:
    """The status document of the last pass, with other fields."""
    path = body.state / "status.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))


# --- what is planted -------------------------------------------------------------------------------------------------


def alternates(fleet: Fleet, body: Body) -> None:
    other = body.home / "other.git"
    subprocess.run(["git", "init", "-q", "--bare", str(other)], check=True, capture_output=True)
    (body.soul / ".git" / "objects" / "info").mkdir(exist_ok=True)
    (body.soul / ".git" / "objects" / "info" / "alternates").write_text(f"{other}/objects\n")


def shallow(fleet: Fleet, body: Body) -> None:
    (body.soul / ".git" / "shallow").write_text(f"{body.tip()}\n")


def an_empty_ref(fleet: Fleet, body: Body) -> None:
    (body.soul / ".git" / "refs" / "heads").mkdir(exist_ok=True)
    (body.soul / ".git" / "refs" / "heads" / "main").write_text("")


def a_lost_git_directory(fleet: Fleet, body: Body) -> None:
    shutil.rmtree(body.soul / ".git")


def a_lost_checkout(fleet: Fleet, body: Body) -> None:
    shutil.rmtree(body.soul)


def an_empty_checkout(fleet: Fleet, body: Body) -> None:
    shutil.rmtree(body.soul)
    body.soul.mkdir()


def a_foreign_checkout(fleet: Fleet, body: Body) -> None:
    shutil.rmtree(body.soul)
    subprocess.run(["git", "init", "-q", str(body.soul)], check=True, capture_output=True)


def a_stale_lock(fleet: Fleet, body: Body) -> None:
    path = body.soul / ".git" / "index.lock"
    path.touch()
    os.utime(path, (1, 1))


def another_branch(fleet: Fleet, body: Body) -> None:
    as_person(body, "checkout", "-q", "-b", "other")


def a_detached_head(fleet: Fleet, body: Body) -> None:
    as_person(body, "checkout", "-q", "--detach")


def a_sparse_checkout(fleet: Fleet, body: Body) -> None:
    as_person(body, "sparse-checkout", "set", "notes")


def a_merge(fleet: Fleet, body: Body) -> None:
    tree = body.git("rev-parse", "main^{tree}").strip()
    side = as_person(body, "commit-tree", "-p", "main~1", "-m", "aside", tree).strip()
    as_person(body, "merge", "-q", "--no-commit", "--no-ff", side)


def a_rebase(fleet: Fleet, body: Body) -> None:
    as_person(body, "rebase", "-q", "-i", "main~1", GIT_SEQUENCE_EDITOR="sed -i 1s/pick/edit/")


def replaced_objects(fleet: Fleet, body: Body) -> None:
    commits = body.git("rev-list", "main").split()
    body.git("replace", commits[0], commits[-1])


def grafts(fleet: Fleet, body: Body) -> None:
    (body.soul / ".git" / "info").mkdir(exist_ok=True)
    (body.soul / ".git" / "info" / "grafts").write_text(f"{body.tip()}\n")


def many_packs(fleet: Fleet, body: Body) -> None:
    folder = body.soul / ".git" / "objects" / "pack"
    pack = next(folder.glob("*.pack"))
    for number in range(101):
        for suffix in (".pack", ".idx"):
            shutil.copy(pack.with_suffix(suffix), folder / f"pack-{number:040x}{suffix}")


def drifted(fleet: Fleet, body: Body) -> None:
    body.write(".gitignore", "*.bak\n")
    body.sync()


def a_broken_identity(fleet: Fleet, body: Body) -> None:
    body.write("agent.json", "{")


def an_old_commit(fleet: Fleet, body: Body) -> None:
    body.write("notes/late.md", f"# late\n\n{time.time()}\n")
    long_ago = "2026-01-01T00:00:00Z"
    as_person(body, "add", ".")
    as_person(body, "commit", "-q", "-m", "x", GIT_COMMITTER_DATE=long_ago, GIT_AUTHOR_DATE=long_ago)


def an_emptied_memory(fleet: Fleet, body: Body) -> None:
    body.write("memories/MEMORY.md", "")
    body.sync()


def a_missing_program(fleet: Fleet, body: Body) -> None:
    with (body.home / "config" / "kaoru.yaml").open("a") as file:
        file.write("hooks:\n  synced: [no-such-program]\n")
    edits(body, "/^hooks:/,$d")


def nobody_to_tell(fleet: Fleet, body: Body) -> None:
    with (body.home / "config" / "kaoru.yaml").open("a") as file:
        file.write("notify: [/no/such/program]\n")
    edits(body, "/^notify:/d")


def no_folder_for_numbers(fleet: Fleet, body: Body) -> None:
    body.configure(metrics=f"{{file: {body.home}/numbers/soul.prom}}")


def an_address_for_numbers_that_another_has(fleet: Fleet, body: Body) -> None:
    """A program that listens and says nothing of the kind: the host of this fleet."""
    body.configure(metrics=f"{{listen: 127.0.0.1:{fleet.server.port}}}")
    edits(body, "/^metrics:/d")


def an_unknown_setting(fleet: Fleet, body: Body) -> None:
    with (body.home / "config" / "kaoru.yaml").open("a") as file:
        file.write("setle: 1s\n")
    edits(body, "/^setle:/d")


def another_remote(fleet: Fleet, body: Body) -> None:
    """Another agent's repository; its tip is known here, for a pass fetched it."""
    other = Fleet(fleet.server, fleet.root / "mei", "mei.soul.git", agent="mei", within=True)
    other.root.mkdir()
    fleet.server.create("mei.soul.git")  # type: ignore[union-attr]
    other.body("desk")
    fleet.server.authorize("mei.soul.git", body.public_line())
    path = body.home / "config" / "kaoru.yaml"
    path.write_text(path.read_text().replace("kaoru.soul.git", "mei.soul.git"))
    body.run("sync")
    edits(body, "s/mei.soul.git/kaoru.soul.git/")


def a_pause(fleet: Fleet, body: Body) -> None:
    body.json("pause")
    body.start(ready=False)
    until(lambda: rows(body)["daemon"]["message"] != "no daemon runs", "it runs")


def a_missing_key(fleet: Fleet, body: Body) -> None:
    fleet.server.revoke(fleet.repository, body.public_line())
    body.key.unlink()
    body.key.with_name(f"{body.key.name}.pub").unlink()


def another_kind_of_key(fleet: Fleet, body: Body) -> None:
    fleet.server.revoke(fleet.repository, body.public_line())
    body.key.unlink()
    words = ["ssh-keygen", "-q", "-t", "ecdsa", "-N", "", "-f", str(body.key)]
    subprocess.run(words, check=True, input="y\n", text=True, capture_output=True)


def a_key_inside(fleet: Fleet, body: Body) -> None:
    inside = body.soul / "kaoru.laptop"
    body.key.rename(inside)
    body.key.with_name(f"{body.key.name}.pub").rename(body.soul / "kaoru.laptop.pub")
    body.configure(key=str(inside))


def a_waiting_key(fleet: Fleet, body: Body) -> None:
    body.json("key", "rotate", code=4)


def a_revoked_key(fleet: Fleet, body: Body) -> None:
    fleet.server.revoke(fleet.repository, body.public_line())


def a_key_that_only_reads(fleet: Fleet, body: Body) -> None:
    fleet.server.authorize(fleet.repository, body.public_line(), write=False)


def another_pin(fleet: Fleet, body: Body) -> None:
    path = body.home / "known_hosts"
    name = path.read_text().split()[0]
    path.write_text(f"{name} {' '.join(body.public_line().split()[:2])}\n")


def a_rewritten_history(fleet: Fleet, body: Body) -> None:
    kept = fleet.tip()
    body.write("notes/rewritten.md", "# rewritten\n")
    body.sync()
    tree = fleet.git("rev-parse", f"{kept}^{{tree}}").strip()
    words = ["-c", "user.name=P", "-c", "user.email=p@h", "commit-tree", "-p", kept, "-m", "elsewhere", tree]
    fleet.git("update-ref", "refs/heads/main", fleet.git(*words).strip())
    body.run("sync")


def a_restored_backup(fleet: Fleet, body: Body) -> None:
    body.write("notes/restored.md", "# restored\n")
    body.sync()
    fleet.git("update-ref", "refs/heads/main", fleet.git("rev-parse", "main~1").strip())


def another_machine(fleet: Fleet, body: Body) -> None:
    fields = json.loads(body.read("bodies/laptop.json") or "")
    body.write("bodies/laptop.json", json.dumps({**fields, "host": "tower"}, indent=2) + "\n")
    as_person(body, "commit", "-q", "-am", "x")
    as_person(body, "push", "-q", str(fleet.bare), "main:main")


# --- what a person does besides typing -------------------------------------------------------------------------------


def pastes(fleet: Fleet, body: Body) -> None:
    """Paste the key that was printed as a deploy key with write access."""
    fleet.server.authorize(fleet.repository, body.public_line())


def pastes_the_new_one(fleet: Fleet, body: Body) -> None:
    """The same for a key that takes over as soon as the host knows it."""
    path = body.key.with_name(f"{body.key.name}.next.pub")
    until(path.exists, "the new key is there")
    fleet.server.authorize(fleet.repository, path.read_text())


def dismisses(fleet: Fleet, body: Body) -> None:
    """Look at the version that lost, and take it off the list."""
    for one in body.json("conflicts"):
        body.json("conflicts", "--dismiss", one["id"])


def waits_for_a_pass(fleet: Fleet, body: Body) -> None:
    """What the last pass met is told until the next one."""
    body.sync()


def nothing(fleet: Fleet, body: Body) -> None:
    """Typing is all."""


@dataclass(frozen=True)
class Fault:
    """A fault and its cure.

    more: words that a person adds, {…} filled in. meanwhile, afterwards: what that person does elsewhere. code: what
    the typed command ends with.
    """

    check: str
    state: str
    plant: Callable[[Fleet, Body], object]
    more: str = ""
    meanwhile: Callable[[Fleet, Body], None] = nothing
    afterwards: Callable[[Fleet, Body], None] = nothing
    code: int = 0


SEEN = " --fingerprint {fingerprint}"  # a person compares the fingerprint; without a terminal it is typed
FAULTS = {
    "an open key": Fault("key", "fail", lambda fleet, body: body.key.chmod(0o644)),
    "an open state": Fault("private", "warn", lambda fleet, body: body.state.chmod(0o755)),
    "an open folder of keys": Fault("private", "warn", lambda fleet, body: body.key.parent.chmod(0o755)),
    "a configuration for everybody": Fault(
        "configuration", "fail", lambda fleet, body: (body.home / "config" / "kaoru.yaml").chmod(0o666)
    ),
    "an unknown setting": Fault("configuration", "fail", an_unknown_setting),
    "a missing program": Fault("programs", "warn", a_missing_program),
    "nobody to tell": Fault("programs", "warn", nobody_to_tell),
    "no folder for numbers": Fault("metrics", "warn", no_folder_for_numbers),
    "a taken address for numbers": Fault("metrics", "warn", an_address_for_numbers_that_another_has),
    "alternates": Fault("git directory", "fail", alternates),
    "a shallow history": Fault("git directory", "fail", shallow),
    "an empty ref": Fault("git directory", "fail", an_empty_ref),
    "a lost git directory": Fault("checkout", "fail", a_lost_git_directory),
    "a lost checkout": Fault("checkout", "fail", a_lost_checkout),
    "an empty checkout": Fault("checkout", "fail", an_empty_checkout),
    "a foreign checkout": Fault("checkout", "fail", a_foreign_checkout),
    "a stale lock": Fault("git locks", "warn", a_stale_lock),
    "another branch": Fault("git in use", "warn", another_branch),
    "a detached HEAD": Fault("git in use", "warn", a_detached_head),
    "a merge": Fault("git in use", "warn", a_merge),
    "a sparse checkout": Fault("git in use", "warn", a_sparse_checkout),
    "a rebase": Fault("git in use", "warn", a_rebase),
    "replaced objects": Fault("replaced objects", "warn", replaced_objects),
    "grafts": Fault("replaced objects", "warn", grafts),
    "many packs": Fault("packs", "warn", many_packs),
    "a drifted fixed file": Fault("fixed files", "warn", drifted),
    "a broken identity": Fault("identity", "warn", a_broken_identity, afterwards=dismisses),
    "an old commit": Fault("unpublished", "warn", an_old_commit),
    "an old answer": Fault(
        "last pass", "warn", lambda fleet, body: changed_status(body, last_pull="2026-01-01T00:00:00.000Z")
    ),
    "an emptied memory": Fault("set aside", "warn", an_emptied_memory),
    "a pause": Fault("daemon", "warn", a_pause),
    "pins of nonsense": Fault(
        "host key", "fail", lambda fleet, body: (body.home / "known_hosts").write_text("garbage here\n"), more=SEEN
    ),
    "no pin": Fault("host key", "fail", lambda fleet, body: (body.home / "known_hosts").write_text(""), more=SEEN),
    "another pin": Fault("login", "fail", another_pin, more=SEEN),
    "a missing key": Fault("key", "fail", a_missing_key, afterwards=pastes, code=4),
    "another kind of key": Fault("key", "fail", another_kind_of_key, meanwhile=pastes_the_new_one),
    "a waiting key": Fault("key", "warn", a_waiting_key, meanwhile=pastes_the_new_one),
    "a key inside the soul": Fault("key", "fail", a_key_inside),
    "a revoked key": Fault("login", "fail", a_revoked_key, afterwards=pastes),
    "a key that only reads": Fault("write access", "fail", a_key_that_only_reads, afterwards=pastes),
    "a rewritten history": Fault("remote history", "fail", a_rewritten_history, more=" --merge"),
    "a restored backup": Fault("remote history", "warn", a_restored_backup),
    "another agent": Fault("remote soul", "fail", another_remote, afterwards=waits_for_a_pass),
    "another machine": Fault("body", "fail", another_machine),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_cured_by_typing_the_remedy(fleet: Fleet, body: Body, usual: set[str], name: str) -> None:
    fault = FAULTS[name]
    fault.plant(fleet, body)
    found = rows(body)[fault.check]
    assert found["state"] == fault.state, found
    first = found["remedy"].splitlines()[0]
    typed = typing(body, first + fault.more.format(fingerprint=fleet.server.fingerprint()))
    fault.meanwhile(fleet, body)
    said, _ = typed.communicate(timeout=60)
    assert typed.returncode == fault.code, (first, said)
    fault.afterwards(fleet, body)
    after = rows(body)
    left = {check: row["message"] for check, row in after.items() if row["state"] != "ok" and check not in usual}
    assert left == {}
    assert fault.check != "daemon" or "stopped" not in after["daemon"]["message"]
    assert body.stop() == 0


def test_nothing_was_lost_by_all_the_cures(fleet: Fleet, body: Body) -> None:
    """The last word: the body agrees with its remote, git finds nothing broken, and what was written is there."""
    body.sync()
    assert fleet.tip() == body.tip()
    body.git("fsck", "--strict", "--no-dangling")
    assert "restored" in (body.read("notes/restored.md") or "")
    assert "rewritten" in (body.read("notes/rewritten.md") or "")
    assert json.loads(body.read("agent.json") or "")["name"] == "kaoru"
