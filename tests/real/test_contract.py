"""What a person and a script may rely on, from outside: places, commands, documents, exit codes."""

from __future__ import annotations

import json
import os
import re
import stat
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.real.fleet import Body, Fleet, git, until
from tests.real.rows import entries

SYNC = {"outcome", "sentence", "recorded", "merged", "written", "pushed", "tip"}
STATUS = {
    "agent", "body", "soul", "remote", "state", "daemon", "tip", "remote_tip", "ahead", "behind", "last_pass",
    "last_pull", "last_push", "pending", "held", "conflicts", "lease", "problem", "bodies",
}  # fmt: skip
COMMANDS = (
    "init", "run", "sync", "status", "doctor", "log", "show", "diff", "conflicts", "restore", "revert", "bodies", "key",
    "lease", "consolidate", "pause", "resume", "accept-host-key", "accept-remote", "validate", "events", "service",
    "demo", "completion",
)  # fmt: skip
# In `status` for people and numbers; scripts may not need them.
BEYOND = {"ignored", "warnings", "last_verified", "unpushed_since", "attention"}


@pytest.fixture(scope="module")
def pair(found: Callable[..., Fleet]) -> Fleet:
    """Two bodies with some history and a lost version, that the questions below are put to."""
    fleet = found()
    laptop, server = fleet.body("laptop"), fleet.body("server")
    laptop.write("memories/MEMORY.md", entries("one", "two"))
    laptop.write("notes/tea.md", "# tea\n")
    laptop.sync()
    server.sync()
    laptop.write("notes/tea.md", "# tea\n\nlaptop\n")
    server.write("notes/tea.md", "# tea\n\nserver\n")
    laptop.sync()
    time.sleep(1.1)
    fleet.converge()
    return fleet


@pytest.fixture
def laptop(pair: Fleet) -> Body:
    """The body that is asked."""
    return pair.bodies["laptop"]


@pytest.fixture
def handy(laptop: Body) -> Iterator[Body]:
    """The same body, whose calls start no process for once: for stories of many calls."""
    laptop.within = True
    yield laptop
    laptop.within = False


def refused(answer: Any, kind: str, rule: str | None = None) -> dict[str, str]:
    """The error of an answer, complete and of this kind."""
    error: dict[str, str] = answer["error"]
    assert set(error) == {"kind", "rule", "message", "advice"} and error["message"], error
    assert error["kind"] == kind and rule in (None, error["rule"]), error
    return error


# --- init ------------------------------------------------------------------------------------------------------------


def test_init_prints_the_key_and_goes_on_when_it_is_authorised(fleet: Fleet) -> None:
    """init, AUTH-2, AUTH-3: exit 4 with the line to paste; the same command continues; a third time changes nothing."""
    body = Body("laptop", fleet.root / "laptop", fleet.server.address(fleet.repository))
    fleet.bodies["laptop"] = body
    words = ("--host-key", fleet.server.fingerprint(), "--display-name", "Kaoru")
    error = refused(body.init(*words, code=4), "auth", "AUTH-3")
    assert body.public_line() in error["advice"] and "Allow write access" in error["advice"]
    assert "`soul-bridge init kaoru --display-name Kaoru` again" in error["advice"]
    assert not body.soul.exists() or body.files() == {}
    for path, mode in ((body.key, 0o600), (body.key.parent, 0o700)):
        assert stat.S_IMODE(path.stat().st_mode) == mode
    plain = body.run("init", "kaoru")
    assert plain.code == 4 and plain.out == "" and body.public_line() in plain.err
    fleet.server.authorize(fleet.repository, body.public_line())
    answer = body.init(*words)
    assert answer["pushed"] is True and (answer["agent"], answer["body"]) == ("kaoru", "laptop")
    assert fleet.tip() == body.tip()
    first = (body.files(), fleet.tip(), body.key.read_bytes())
    body.init(*words)
    body.json("init", "kaoru")
    assert (body.files(), fleet.tip(), body.key.read_bytes()) == first
    refused(body.json("init", "kaoru", "--remote", "git@example.org:other/x.git", code=2), "config")
    places = {path.relative_to(body.home).as_posix() for path in body.home.rglob("*") if "souls" not in path.parts}
    assert {"config/kaoru.yaml", "keys/kaoru.laptop", "keys/kaoru.laptop.pub", "known_hosts", "state/kaoru"} <= places
    assert {"state/kaoru/status.json", "state/kaoru/events.jsonl", "state/kaoru/lock"} <= places
    assert json.loads(body.read("agent.json") or "")["displayName"] == "Kaoru"


def test_init_waits_for_the_key_when_it_is_told_to(fleet: Fleet) -> None:
    """init --wait: keeps trying until somebody authorises the key, and says meanwhile what to paste."""
    body = Body("laptop", fleet.root / "laptop", fleet.server.address(fleet.repository))

    def allow() -> None:
        until(lambda: body.key.with_name(f"{body.key.name}.pub").exists(), "the key is made")
        time.sleep(0.5)
        fleet.server.authorize(fleet.repository, body.public_line())

    thread = threading.Thread(target=allow)
    thread.start()
    done = body.run("init", "kaoru", "--remote", body.remote, "--body", "laptop", "--host-key",
                    fleet.server.fingerprint(), "--wait", "60", "--json")  # fmt: skip
    thread.join()
    assert done.expect(0)["pushed"] is True and body.public_line() in done.err


def test_init_lays_the_soul_where_it_is_told_and_deletes_nothing_there(fleet: Fleet) -> None:
    """init --soul, --offline: a soul without a remote in a folder that holds something already."""
    body = Body("laptop", fleet.root / "laptop", fleet.server.address(fleet.repository))
    place = fleet.root / "elsewhere"
    place.mkdir()
    (place / "mine.txt").write_text("mine\n")
    body.init("--soul", str(place), "--offline")
    assert (place / "mine.txt").read_text() == "mine\n" and (place / "agent.json").exists()
    assert git(place, "ls-tree", "--name-only", "main", "mine.txt") == "mine.txt\n"
    assert not body.soul.exists() and body.status()["soul"] == str(place)
    assert body.status()["remote_tip"] is None and not (body.home / "known_hosts").exists()
    assert git(fleet.bare, "for-each-ref") == ""


def test_a_name_that_another_machine_carries_is_refused_unless_taken_over(near: Fleet) -> None:
    """init --take-over, MERGE-9: exit 3 for a body registered for another host, nothing written here."""
    fleet = near
    laptop = fleet.body("laptop")
    fields = json.loads(laptop.read("bodies/laptop.json") or "")
    laptop.write("bodies/laptop.json", json.dumps(fields | {"host": "another-machine"}, indent=2) + "\n")
    laptop.git("commit", "-q", "-am", "as if made elsewhere")
    laptop.sync()
    content = json.dumps(fields | {"body": "desk", "host": "another-machine"}, indent=2) + "\n"
    laptop.write("bodies/desk.json", content)
    laptop.sync()
    desk = fleet.body("desk", init=False)
    words = ("--host-key", fleet.server.fingerprint())
    error = refused(desk.init(*words, code=3), "rule", "MERGE-9")
    assert "another-machine" in error["message"] and "--take-over" in error["advice"]
    assert desk.files() == {}
    desk.init(*words, "--take-over")
    assert json.loads(desk.read("bodies/desk.json") or "")["host"] != "another-machine"


def test_a_key_inside_the_soul_is_refused(fleet: Fleet) -> None:
    """CONTENT-2, AUTH-2: exit 3 before anything is written."""
    body = Body("laptop", fleet.root / "laptop", fleet.server.address(fleet.repository))
    refused(body.init("--soul", str(body.home), "--host-key", fleet.server.fingerprint(), code=3), "rule")
    assert not body.key.exists() and not (body.home / ".git").exists()


@pytest.mark.parametrize(
    ("address", "right"),
    [
        ("https://github.com/me/kaoru.soul.git", "git@github.com:me/kaoru.soul.git"),
        ("https://user:ghp_secret@github.com/me/kaoru.soul", "git@github.com:me/kaoru.soul.git"),
        ("ssh://root@example.org/kaoru.git", "ssh://git@example.org/kaoru.git"),
        ("/srv/git/kaoru.git", "git@host:owner/repo.git"),
    ],
)
def test_an_address_that_is_no_ssh_for_git_is_refused_with_the_right_form(
    tmp_path: Path, address: str, right: str
) -> None:
    """AUTH-1: exit 2, the correct form in the message, no secret in it, nothing written."""
    body = Body("laptop", tmp_path / "laptop", address)
    error = refused(body.init(code=2), "config", "AUTH-1")
    assert right in error["message"] and "ghp_secret" not in str(error)
    assert not body.home.exists() or not list(body.home.rglob("*.yaml"))


def test_an_unknown_host_is_pinned_by_its_fingerprint_only(fleet: Fleet) -> None:
    """AUTH-6: without a terminal the fingerprint is printed, nothing pinned, exit 4; a wrong one is refused."""
    body = fleet.body("laptop", init=False)
    error = refused(body.init(code=4), "hostkey", "AUTH-6")
    assert fleet.server.fingerprint() in error["message"] + error["advice"]
    wrong = "SHA256:" + "A" * 43
    refused(body.init("--host-key", wrong, code=4), "hostkey", "AUTH-6")
    assert not (body.home / "known_hosts").exists() or (body.home / "known_hosts").read_text() == ""
    body.init("--host-key", fleet.server.fingerprint())
    assert fleet.server.host_key_line().split()[2] in (body.home / "known_hosts").read_text()


# --- a key or host that is not as it should be -----------------------------------------------------------------------


def test_keys_and_hosts_that_are_not_right_end_in_4_and_local_work_goes_on(near: Fleet) -> None:
    """AUTH-2, AUTH-4, AUTH-5, AUTH-6: mode, absence, read-only, revoked, changed host; each is told, and mended."""
    fleet = near
    body = fleet.body("laptop")
    number = iter(range(20))

    def refuses(kind: str, rule: str | None = None) -> None:
        path = f"notes/{next(number)}.md"
        body.write(path, "# local\n")
        refused(body.sync(code=4), kind, rule)
        assert path in body.tree(), "local work goes on"
        document = body.status()
        assert document["problem"]["kind"] == kind and document["problem"]["advice"] and document["ahead"] >= 1

    body.key.chmod(0o644)
    refuses("auth", "AUTH-2")
    body.key.chmod(0o600)
    body.key.rename(body.key.with_name("away"))
    refuses("auth")
    body.key.with_name("away").rename(body.key)
    fleet.server.authorize(fleet.repository, body.public_line(), write=False)
    refuses("auth")
    fleet.server.revoke(fleet.repository, body.public_line())
    refuses("auth", "AUTH-5")
    fleet.server.authorize(fleet.repository, body.public_line())
    pinned = body.home / "known_hosts"
    kept = pinned.read_text()
    pinned.write_text(re.sub(r"AAAA\S+", _other_key(fleet.root), kept))
    refuses("hostkey", "AUTH-6")
    shown = refused(body.json("accept-host-key", code=4), "hostkey", "AUTH-6")
    assert fleet.server.fingerprint() in shown["advice"]
    refused(body.json("accept-host-key", "--fingerprint", "SHA256:" + "A" * 43, code=4), "hostkey")
    answer = body.json("accept-host-key", "--fingerprint", fleet.server.fingerprint())
    assert answer["accepted"] is True and set(answer) == {"host", "pinned", "offered", "accepted"}
    assert body.sync()["pushed"] is True
    assert fleet.tip() == body.tip() and body.status()["problem"] is None


def _other_key(root: Path) -> str:
    other = Body("other", root / "other-host", "")
    return other.make_key().split()[1]


def test_no_server_is_exit_5_and_what_was_written_is_safe(near: Fleet) -> None:
    """AUTH-5: unreachable: committed here, exit 5, the words of the failure, and it arrives later."""
    fleet = near
    body = fleet.body("laptop")
    body.write("notes/offline.md", "# offline\n")
    with body.offline():
        answer = body.sync(code=5)
        refused(answer, "network")
        assert answer["outcome"] == "offline" and "notes/offline.md" in answer["recorded"] and not answer["pushed"]
        document = body.status()
        assert document["problem"]["kind"] == "network" and document["ahead"] == 1 and document["behind"] == 0
        assert "not pushed" in body.run("status").out
    assert body.sync()["pushed"] is True


# --- asking ----------------------------------------------------------------------------------------------------------


def test_every_command_of_the_page_is_there(laptop: Body) -> None:
    """--help names them all; each has a help of its own with an example."""
    done = laptop.run("--help")
    assert done.code == 0
    for command in COMMANDS:
        assert re.search(rf"(?m)^\s+{re.escape(command)}\b", done.out), command
    for command in ("init", "lease", "consolidate"):
        helped = laptop.run(command, "--help")
        assert helped.code == 0 and f"soul-bridge {command}" in helped.out


@pytest.mark.parametrize(
    ("words", "code", "kind"),
    [
        (["frobnicate"], 2, "usage"), (["sync", "--frobnicate"], 2, "usage"), ([], 2, "usage"), (["show"], 2, "usage"),
        (["status", "nobody"], 2, "config"), (["init", "Kaoru!", "--remote", "git@h:o/r.git"], 2, None),
        (["show", "ffffffff"], 3, "rule"), (["restore", "ffffffff"], 3, "rule"), (["revert", "ffffffff"], 3, "rule"),
        (["bodies", "forget", "nobody"], 3, "rule"), (["bodies", "forget", "laptop"], 3, "rule"),
        (["accept-remote", "--merge"], 3, "rule"), (["conflicts", "--dismiss", "ffffffff"], 3, "rule"),
        (["lease", "renew"], 6, "lease"), (["lease", "release"], 6, "lease"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, list) else None,
)  # fmt: skip
def test_what_cannot_be_done_is_one_document_with_its_exit_code(
    laptop: Body, words: list[str], code: int, kind: str | None
) -> None:
    """An error is {"error": {kind, rule, message, advice}} on stdout, words on stderr, no traceback."""
    answer = laptop.run(*words, "--json").expect(code)
    assert kind is None or answer["error"]["kind"] == kind
    assert set(answer["error"]) == {"kind", "rule", "message", "advice"} and answer["error"]["advice"]


def test_the_documents_have_the_shapes_of_the_page(pair: Fleet, laptop: Body) -> None:
    """Sync, status, log, show, diff, conflicts, bodies, key show, lease show, validate, doctor, events."""
    assert set(laptop.sync()) >= SYNC
    document = laptop.status()
    assert set(document) - BEYOND == STATUS
    assert document["state"] == "stopped" and document["daemon"] == {"running": False, "pid": None, "since": None}
    assert document["tip"] == document["remote_tip"] == pair.tip() and (document["ahead"], document["behind"]) == (0, 0)
    assert set(document["last_pass"]) == {"at", "outcome", "sentence"} and document["last_pull"].endswith("Z")
    assert document["conflicts"] == 1 and document["problem"] is None and document["lease"] is None
    assert [set(row) for row in document["bodies"]] == [{"body", "kind", "last_seen"}] * 2
    log = laptop.json("log")
    assert sorted(row["commit"] for row in log) == sorted(laptop.git("rev-list", "main").split())
    assert all(set(row) == {"commit", "at", "body", "subject", "paths"} for row in log)
    assert {row["body"] for row in log} == {"laptop", "server"}
    touched = laptop.json("log", "notes/tea.md")
    assert touched and all("notes/tea.md" in row["paths"] for row in touched)
    shown = laptop.json("show", log[0]["commit"][:8])
    assert shown["commit"] == log[0]["commit"] and {"at", "body", "subject", "paths"} <= set(shown)
    added = laptop.json("diff", log[-1]["commit"], "HEAD", "memories/MEMORY.md")
    assert added == [{"path": "memories/MEMORY.md", "change": "changed", "added": ["one", "two"], "removed": []}]
    lost = laptop.json("conflicts")
    assert [set(one) for one in lost] == [{"id", "path", "body", "at", "commit", "blob"}]
    assert lost == pair.bodies["server"].json("conflicts")
    bodies = laptop.json("bodies")
    told = {"body", "kind", "host", "last_seen", "commits", "fingerprint", "waiting"}
    assert [set(row) for row in bodies] == [told] * 2
    assert "deploy key" in laptop.run("bodies").out
    key = laptop.json("key", "show")
    assert set(key) == {"public_key", "fingerprint", "path"} and key["public_key"] == laptop.public_line()
    assert key["path"] == str(laptop.key) and key["fingerprint"].startswith("SHA256:")
    assert laptop.json("lease", "show") is None
    assert laptop.json("validate") == []
    assert {frozenset(row) for row in laptop.json("doctor")} == {frozenset({"check", "state", "message", "remedy"})}
    facts = laptop.json("events")
    assert {"commit.recorded", "remote.pushed", "pass.finished"} <= {fact["event"] for fact in facts}
    assert all({"at", "event", "agent", "body"} <= set(fact) for fact in facts)
    lines = laptop.run("events").out.splitlines()
    assert len(lines) >= len(facts) and all(json.loads(line)["event"] for line in lines)


def test_validate_names_rule_path_and_line(laptop: Body) -> None:
    """Exit 1 and [{rule, path, line, message}] when a rule of form is broken, of any directory."""
    laptop.write("journal/laptop/2026-01-02.md", "no heading\n")
    found = laptop.json("validate", code=1)
    assert [set(one) for one in found] == [{"rule", "path", "line", "message"}] * len(found)
    assert ("FORM-4", "journal/laptop/2026-01-02.md") in {(one["rule"], one["path"]) for one in found}
    assert found == laptop.json("validate", str(laptop.soul), code=1)
    laptop.remove("journal/laptop/2026-01-02.md")


def test_versions_come_back_and_commits_are_taken_back_as_new_commits(pair: Fleet, handy: Body) -> None:
    """restore, conflicts --dismiss, revert, REPO-3: history grows by one, and refuses where it cannot apply."""
    laptop = handy
    lost = laptop.json("conflicts")[0]
    answer = laptop.json("restore", lost["id"])
    assert set(answer) >= {"commit", "paths", "pushed"} and answer["pushed"] is True
    assert laptop.read("notes/tea.md") == git(laptop.soul, "cat-file", "blob", lost["blob"])
    assert laptop.json("conflicts") == []
    first = laptop.json("log", "notes/tea.md")[-1]["commit"]
    laptop.json("restore", first, "notes/tea.md")
    assert laptop.read("notes/tea.md") == "# tea\n"
    laptop.write("memories/MEMORY.md", entries("one", "two", "three"))
    laptop.write("notes/new.md", "# new\n")
    laptop.sync()
    commit = laptop.tip()
    laptop.write("memories/MEMORY.md", entries("one", "two", "three", "four"))
    laptop.sync()
    laptop.json("revert", commit)
    assert laptop.entries("memories/MEMORY.md") == ["one", "two", "four"] and laptop.read("notes/new.md") is None
    refused(laptop.json("revert", commit, code=3), "rule", "REPO-3")
    laptop.write("notes/x.md", "# x\n")
    laptop.sync()
    changed = laptop.tip()
    laptop.write("notes/x.md", "# x\nsince\n")
    laptop.sync()
    tip = laptop.tip()
    refused(laptop.json("revert", changed, code=3), "rule", "REPO-3")
    assert laptop.tip() == tip and laptop.read("notes/x.md") == "# x\nsince\n"


def test_a_dead_body_is_taken_out_of_the_registry_and_its_journal_stays(pair: Fleet, handy: Body) -> None:
    """bodies forget: the entry goes, everywhere; what it wrote stays."""
    laptop = handy
    server = pair.bodies["server"]
    server.write("journal/server/2026-01-02.md", "# 2026-01-02 · server\n")
    server.sync()
    laptop.sync()
    laptop.json("bodies", "forget", "server")
    assert [row["body"] for row in laptop.json("bodies")] == ["laptop"]
    assert "journal/server/2026-01-02.md" in laptop.tree() and "bodies/server.json" not in laptop.files()
    assert "bodies/server.json" not in pair.git("ls-tree", "-r", "--name-only", "main").split()


def test_a_pause_holds_until_it_is_taken_back(laptop: Body) -> None:
    """pause, resume: sync while paused runs one pass and stays paused."""
    answer = laptop.json("pause")
    assert answer["paused"] is True and laptop.status()["state"] == "paused"
    laptop.write("notes/paused.md", "# paused\n")
    assert laptop.sync()["pushed"] is True
    assert laptop.status()["state"] == "paused"
    assert laptop.json("resume")["paused"] is False and laptop.status()["state"] == "stopped"


def test_a_configuration_is_refused_with_all_its_problems_at_once(fleet: Fleet) -> None:
    """Configuration: exit 2, each problem with line and column, unknown keys with the nearest known one."""
    body = fleet.body("laptop")
    body.configure(setle="1s", poll="30", guard="soon")
    for words in (("sync",), ("run",)):
        error = refused(body.json(*words, code=2), "config")
        for part in ("setle", "settle", "poll", "guard", "kaoru.yaml:"):
            assert part in error["message"], part
    assert body.status()["problem"]["kind"] == "config"


def test_several_souls_on_one_machine_are_told_apart(fleet: Fleet, found: Callable[..., Fleet]) -> None:
    """AGENT may be left out only when one is configured; SOUL_BRIDGE_HOME moves every place; XDG otherwise."""
    home = fleet.root / "person"
    home.mkdir()
    other = found("mei")
    for one in (fleet, other):
        body = Body("laptop", home, one.server.address(one.repository), one.agent)
        body.environment = {"SOUL_BRIDGE_HOME": "", "HOME": str(home), "XDG_CONFIG_HOME": "", "XDG_STATE_HOME": ""}
        body.json("init", one.agent, "--remote", body.remote, "--body", "laptop", "--offline")
    assert (home / ".config/soul-bridge/kaoru.yaml").is_file() and (home / ".config/soul-bridge/mei.yaml").is_file()
    assert stat.S_IMODE((home / ".config/soul-bridge/keys/mei.laptop").stat().st_mode) == 0o600
    assert (home / ".local/state/soul-bridge/mei/status.json").is_file()
    assert (home / "souls/mei.soul/agent.json").is_file()
    error = refused(body.json("status", code=2), "usage")
    assert "kaoru" in error["message"] and "mei" in error["message"]
    assert body.json("status", "mei")["agent"] == "mei" and body.json("log", "mei")
    assert not (home / "config").exists() and not (home / "state").exists()


def test_the_demo_ends_when_both_agree(tmp_path: Path) -> None:
    """demo: two bodies and a host before your eyes; exits 0 when both agree, and leaves nothing behind."""
    body = Body("nobody", tmp_path / "home", "")
    done = body.run("demo", TMPDIR=str(tmp_path))
    assert done.code == 0, done.out + done.err
    assert "both trees are equal" in done.out + done.err
    assert [name for name in os.listdir(tmp_path) if name.startswith("soul-bridge-demo")] == []


def test_starting_is_quick(laptop: Body) -> None:
    """--help and status within 150 ms, what reads git within 350 ms; four times that on a busy machine."""

    def quickest(*words: str) -> float:
        times = []
        for _ in range(5):
            began = time.monotonic()
            laptop.run(*words)
            times.append(time.monotonic() - began)
        return min(times)

    assert quickest("--help") < 0.150 * 4
    assert quickest("status", "--json") < 0.150 * 4
    assert quickest("log", "--json") < 0.350 * 4
