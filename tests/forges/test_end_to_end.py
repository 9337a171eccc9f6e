"""A newcomer with a token: one command from nothing to a synchronised soul, and a new key without pasting."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from bridge.app.host import Host
from tests.forges.fake import BASES, TOKEN, FakeForge
from tests.real.fleet import Body, Fleet

REPOSITORY = "me/kaoru.soul.git"
NAMES = {"github": "GITHUB_TOKEN", "gitlab": "GITLAB_TOKEN", "forgejo": "FORGEJO_TOKEN"}


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    """An empty repository on a host over SSH."""
    host = Host(tmp_path / "host").start()
    host.create(REPOSITORY)
    made = Fleet(host, tmp_path, REPOSITORY)
    yield made
    made.close()
    host.stop()


@pytest.fixture(params=sorted(NAMES))
def forge(request: pytest.FixtureRequest, fleet: Fleet) -> Iterator[FakeForge]:
    """The API of that host, of each kind: what is added there opens the repository over SSH."""
    made = FakeForge(request.param)
    made.added = lambda line, write: fleet.server.authorize(REPOSITORY, line, write)
    yield made
    made.close()


def newcomer(fleet: Fleet, forge: FakeForge, name: str = "laptop") -> Body:
    """A machine whose person has a token in the environment."""
    body = Body(name, fleet.root / name, fleet.server.address(REPOSITORY))
    body.environment = {NAMES[forge.kind]: TOKEN, "SOUL_BRIDGE_LOG": "debug"}
    fleet.bodies[name] = body
    return body


def everything(home: Path) -> bytes:
    """What lies below a home."""
    return b"".join(path.read_bytes() for path in home.rglob("*") if path.is_file())


def test_one_command_with_a_token_ends_in_a_synchronised_soul(fleet: Fleet, forge: FakeForge) -> None:
    """AUTH-3: the key is added with write access and its title, a login proves it, and the token is nowhere."""
    body = newcomer(fleet, forge)
    words = ("--host-key", fleet.server.fingerprint(), "--authorize", forge.kind, "--api", forge.url)
    done = body.run("init", "kaoru", "--remote", body.remote, "--body", "laptop", *words, "--json")
    answer = done.expect(0)
    assert answer["pushed"] is True and fleet.tip() == body.tip()
    assert [(row["title"], row["key"]) for row in forge.rows] == [
        ("soul-bridge laptop", " ".join(body.public_line().split()[:2]))
    ]
    assert f"the token from {NAMES[forge.kind]}" in done.err and "added: deploy key 'soul-bridge laptop'" in done.err
    assert TOKEN not in done.out + done.err and TOKEN.encode() not in everything(body.home)
    assert body.status()["problem"] is None


def test_the_same_command_again_asks_no_api_where_the_key_opens_the_repository(fleet: Fleet, forge: FakeForge) -> None:
    """AUTH-3: what the login proves needs no token."""
    body = newcomer(fleet, forge)
    api = f"http://127.0.0.1:{forge.port}"  # the rest of its address is the usual one
    words = ("--host-key", fleet.server.fingerprint(), "--authorize", forge.kind, "--api", api)
    body.init(*words)
    asked = len(forge.asked)
    assert all(one.path.startswith(BASES[forge.kind]) for one in forge.asked)
    body.environment = {}
    body.init(*words)
    assert len(forge.asked) == asked and len(forge.rows) == 1


def test_a_rotated_key_is_added_beside_the_old_one_under_a_title_of_its_own(fleet: Fleet, forge: FakeForge) -> None:
    """AUTH-3: some hosts take each title only once."""
    body = newcomer(fleet, forge)
    words = ("--authorize", forge.kind, "--api", forge.url)
    body.init("--host-key", fleet.server.fingerprint(), *words)
    old = body.json("key", "show")["fingerprint"]
    rotated = body.json("key", "rotate", *words)
    assert rotated["delete"] == old and rotated["fingerprint"] != old
    titles = [row["title"] for row in forge.rows]
    assert titles == ["soul-bridge laptop", f"soul-bridge laptop {rotated['fingerprint'][7:15]}"]
    body.write("notes/new.md", "# with the new key\n")
    assert body.sync()["pushed"] is True


def test_a_key_that_the_api_takes_and_the_login_does_not_is_told_so(fleet: Fleet) -> None:
    """AUTH-3: the API of another host than the repository's; the key stays added, nothing else changed."""
    forge = FakeForge("forgejo")
    try:
        body = newcomer(fleet, forge)
        body.environment.pop("SOUL_BRIDGE_LOG")
        words = ("--host-key", fleet.server.fingerprint(), "--authorize", "forgejo", "--api", forge.url)
        error = body.init(*words, code=4)["error"]
        assert "the key is added" in error["message"] and "stays added" in error["advice"]
        assert (error["kind"], error["rule"]) == ("auth", "AUTH-3")
        assert json.dumps(body.status()["problem"]).count("the key is added") == 1
    finally:
        forge.close()


def test_without_a_token_it_is_said_how_to_give_one_and_nothing_changes(fleet: Fleet) -> None:
    """AUTH-3: exit 4, the ways to give one, and the way without."""
    body = Body("laptop", fleet.root / "laptop", fleet.server.address(REPOSITORY))
    body.environment = {"GITHUB_TOKEN": "", "GH_TOKEN": "", "PATH": str(fleet.root)}
    words = ("--host-key", fleet.server.fingerprint(), "--authorize", "github", "--api", "http://127.0.0.1:1")
    error = body.init(*words, code=4)["error"]
    assert (error["kind"], error["rule"]) == ("auth", "AUTH-3")
    assert "GITHUB_TOKEN" in error["message"] and "gh is not there" in error["message"]
    for part in ("Nothing was sent", "read -rs", "gh auth login", "soul-bridge init kaoru --authorize github --api"):
        assert part in error["advice"]
    plain = body.run("status").out
    assert "there is no token for 127.0.0.1:1" in plain and "not in sync" in plain


def test_the_token_of_gh_is_taken_and_stands_in_no_argument(fleet: Fleet) -> None:
    """AUTH-3: gh is asked for the token of that host, and told nothing of it."""
    place, forge = fleet.root / "bin", FakeForge("github")
    forge.added = lambda line, write: fleet.server.authorize(REPOSITORY, line, write)
    place.mkdir()
    (place / "gh").write_text(f'#!/bin/sh\necho "$0 $*" > {place}/asked\necho {TOKEN}\n')
    (place / "gh").chmod(0o755)
    try:
        body = newcomer(fleet, forge)
        body.environment = {"GITHUB_TOKEN": "", "GH_TOKEN": "", "PATH": f"{place}:{os.environ['PATH']}"}
        words = ("--host-key", fleet.server.fingerprint(), "--authorize", "github", "--api", forge.url)
        done = body.run("init", "kaoru", "--remote", body.remote, "--body", "laptop", *words)
        assert done.code == 0 and "the token from gh" in done.err
        assert "GitHub takes it away again" in done.err and len(forge.rows) == 1
        assert (place / "asked").read_text().endswith(f"auth token --hostname 127.0.0.1:{forge.port}\n")
    finally:
        forge.close()


def test_an_api_that_refuses_leaves_the_key_to_be_pasted(fleet: Fleet) -> None:
    """AUTH-3: the next command is printed, and it prints what to paste where."""
    forge = FakeForge("gitlab", repository="me/another")
    try:
        body = newcomer(fleet, forge)
        body.environment.pop("SOUL_BRIDGE_LOG")
        words = ("--host-key", fleet.server.fingerprint(), "--authorize", "gitlab", "--api", forge.url)
        error = body.init(*words, code=4)["error"]
        assert "me/kaoru.soul is not on" in error["message"] and "`soul-bridge init kaoru` prints" in error["advice"]
        assert body.public_line() in body.json("init", "kaoru", code=4)["error"]["advice"]
        assert forge.rows == [] and not (body.soul / ".git").exists()
    finally:
        forge.close()
