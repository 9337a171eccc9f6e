"""`bodies`: which key each body has, as far as anybody knows, and how its right is taken away on each kind of host."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bridge.app import onboarding, revoking
from bridge.app.host import Host
from bridge.core import address
from tests.real.fleet import Body, Fleet

LOST = revoking.Lost("kaoru", "laptop", "SHA256:" + "A" * 43, own=True)


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    """Two bodies of one agent."""
    host = Host(tmp_path / "host").start()
    host.create("kaoru.soul.git")
    made = Fleet(host, tmp_path, "kaoru.soul.git")
    made.within = True
    yield made
    made.close()
    host.stop()


@pytest.fixture
def laptop(fleet: Fleet) -> Body:
    """The one that is asked; it knows of the other."""
    body = fleet.body("laptop")
    other = fleet.body("server")
    other.sync()
    body.sync()
    return body


@pytest.fixture
def other_key(fleet: Fleet, laptop: Body) -> str:
    """The fingerprint of the other's key."""
    return str(fleet.bodies["server"].json("key", "show")["fingerprint"])


def test_a_body_knows_its_own_key_and_what_others_tell_of_theirs(laptop: Body, other_key: str) -> None:
    """AUTH-5, FORM-6: keys are added to the document, and nothing of it is changed."""
    rows = {row["body"]: row for row in laptop.json("bodies")}
    assert rows["laptop"]["fingerprint"] == laptop.json("key", "show")["fingerprint"]
    assert rows["laptop"]["waiting"] is None
    assert rows["server"]["fingerprint"] == other_key != rows["laptop"]["fingerprint"]
    shown = laptop.run("bodies").out
    assert "(this body)" in shown and f"key {other_key}" in shown and "--revoke-steps" in shown


def test_a_new_key_that_waits_is_listed_beside_the_present_one(laptop: Body) -> None:
    """AUTH-5: both have to go when the body is lost."""
    laptop.json("key", "rotate", code=4)
    row = next(row for row in laptop.json("bodies") if row["body"] == "laptop")
    assert row["waiting"] not in (None, row["fingerprint"])
    assert row["waiting"] in laptop.run("bodies").out


def test_the_steps_name_the_key_and_end_with_the_registry(laptop: Body, other_key: str) -> None:
    """AUTH-5."""
    document = laptop.json("bodies", "--revoke-steps", "server")
    assert document["fingerprint"] == other_key
    assert document["titles"] == ["soul-bridge server", "kaoru.server soul-bridge"]
    assert all(set(step) == {"where", "do"} and step["do"] for step in document["steps"])
    shown = laptop.run("bodies", "--revoke-steps", "server").out
    assert "soul-bridge host revoke kaoru.server" in shown and f"says that it is {other_key}" in shown
    assert "soul-bridge bodies forget server --agent kaoru" in shown
    own = laptop.run("bodies", "kaoru", "--revoke-steps", "laptop").out
    assert "bodies forget" not in own and laptop.json("key", "show")["fingerprint"] in own


def test_a_body_that_nobody_knows_has_no_steps(laptop: Body) -> None:
    """AUTH-5: exit 3, with the bodies that there are."""
    error = laptop.json("bodies", "--revoke-steps", "phone\x1b[2J", code=3)["error"]
    assert "laptop, server" in error["message"] and error["advice"] and "\x1b" not in error["message"]
    forgotten = laptop.json("bodies", "--revoke-steps", "phone", code=3)["error"]
    assert '"soul-bridge phone" or "kaoru.phone soul-bridge"' in forgotten["advice"]


OWN = ["your own server, as its user git", "gitolite, in a clone of gitolite-admin"]
FORGES = ["Forgejo, Gitea, Codeberg", "GitLab", "GitHub"]


@pytest.mark.parametrize(
    ("text", "kinds", "command"),
    [
        ("git@github.com:me/kaoru.soul.git", ["GitHub"], "gh repo deploy-key delete ID --repo me/kaoru.soul"),
        ("ssh://git@ssh.github.com:443/me/kaoru.soul.git", ["GitHub"], "https://github.com/me/kaoru.soul/settings/key"),
        ("git@gitlab.com:me/sub/kaoru.soul.git", ["GitLab"], "glab api --method DELETE projects/me%2Fsub%2Fkaoru.soul"),
        ("git@codeberg.org:me/kaoru.soul.git", ["Forgejo, Gitea, Codeberg"], "https://codeberg.org/api/v1/repos/me/"),
        ("git@my.server:kaoru.soul.git", OWN, "soul-bridge host revoke SHA256:AAA"),
        ("ssh://git@my.server:2222/kaoru.soul.git", OWN, "soul-bridge host revoke SHA256:AAA"),
        ("ssh://git@my.server/~/souls/kaoru.soul.git", OWN, "authorized_keys"),
        ("ssh://git@my.server/srv/git/kaoru.soul.git", OWN, "authorized_keys"),
        ("git@my.server:/srv/kaoru.soul.git", OWN, "authorized_keys"),
        ("git@my.server:a/b/kaoru.soul.git", [*OWN, "GitLab"], "authorized_keys"),
        ("git@git.example.org:me/kaoru.soul.git", [*FORGES, *OWN], "--config - https://git.example.org/"),
    ],
)
def test_the_steps_are_those_of_the_hosts_that_the_address_may_be_on(text: str, kinds: list[str], command: str) -> None:
    """AUTH-5: one kind where the address tells it, no forge on an own server, all where only a person knows."""
    found = revoking.steps(address.parse(text), LOST)
    assert [one.where for one in found] == kinds
    assert command in "\n".join(found[0].do)
    shown = revoking.words(LOST, found)
    assert ("one of these" in shown) == (len(kinds) > 1)


@pytest.mark.parametrize(
    ("text", "forge"), [("git@my.server:kaoru.soul.git", False), ("git@git.example.org:me/kaoru.soul.git", True)]
)
def test_where_to_paste_a_key_names_a_forge_only_where_there_may_be_one(text: str, forge: bool) -> None:
    """AUTH-3."""
    shown = onboarding.where_to_paste(address.parse(text), "ssh-ed25519 AAAA kaoru.laptop soul-bridge")
    assert ("GitLab" in shown) == forge and "soul-bridge host authorize" in shown


def test_what_another_body_says_of_its_key_names_nothing_to_delete() -> None:
    """AUTH-5: a body that was taken over could name the key of one that was not."""
    other = revoking.Lost("kaoru", "laptop", LOST.fingerprint)
    for one in revoking.steps(address.parse("git@my.server:kaoru.soul.git"), other):
        assert all(LOST.fingerprint not in line or "the body itself says" in line for line in one.do)


def test_what_a_body_says_of_itself_is_no_line_of_the_list(laptop: Body) -> None:
    """FORM-6: the registry is written by every body."""
    path = laptop.soul / "bodies" / "tablet.json"
    path.write_text('{"body": "tablet", "kind": "bridge", "host": "x\\nserver           bridge"}\n')
    laptop.git("add", "bodies")
    laptop.git("-c", "user.name=t", "-c", "user.email=t@t", "commit", "-q", "-m", "by hand")
    laptop.sync()
    lines = laptop.run("bodies").out.splitlines()
    assert any("x\\x0aserver  " in each for each in lines)
    assert len([each for each in lines if each.startswith("server ")]) == 1


def test_a_name_that_is_none_makes_no_command(laptop: Body) -> None:
    """AUTH-5, FORM-6: what stands in the registry is typed by another body."""
    name = "$(touch x)"
    (laptop.soul / "bodies" / f"{name}.json").write_text('{"body": "x", "kind": "bridge"}\n')
    laptop.sync()
    assert laptop.json("bodies", "--revoke-steps", name, code=3)["error"]["rule"] == "AUTH-5"


def test_no_step_has_a_token_in_an_argument() -> None:
    """AUTH-3: a shell's own printf is no process, and curl reads the header from its standard input."""
    for one in revoking.steps(address.parse("git@git.example.org:me/kaoru.soul.git"), LOST):
        for line in one.do:
            assert "TOKEN" not in line or (line.startswith("printf ") and "| curl --fail --config - " in line)


def test_a_key_that_nobody_knows_is_named_by_its_titles() -> None:
    """AUTH-5."""
    found = revoking.steps(address.parse("git@git.example.org:me/kaoru.soul.git"), revoking.Lost("kaoru", "old", None))
    assert found[3].do[0] == "soul-bridge host revoke kaoru.old"
    assert '"soul-bridge old" or "kaoru.old soul-bridge"' in found[0].do[0]
