"""Port 22 closed, and the other ways in which a first contact fails: what is said of it, and what to type."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from bridge.adapters import config, hosts, keys
from bridge.adapters.clock import SystemClock
from bridge.adapters.hosts import HostKey
from bridge.adapters.remote import Access, Remote, offered
from bridge.app import onboarding
from bridge.app.host import Host
from bridge.commands import wiring
from bridge.commands.init import NothingYet
from bridge.core import address
from bridge.core.errors import Refused, Transient
from tests.real.fleet import Body, Fleet

HOSTS = {
    "git@github.com:me/kaoru.soul.git": "ssh://git@ssh.github.com:443/me/kaoru.soul.git",
    "git@gitlab.com:me/kaoru.soul.git": "ssh://git@altssh.gitlab.com:443/me/kaoru.soul.git",
}


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    """An empty repository on a host over SSH."""
    host = Host(tmp_path / "host").start()
    host.create("me/kaoru.soul.git")
    made = Fleet(host, tmp_path, "me/kaoru.soul.git")
    made.within = True
    yield made
    made.close()
    host.stop()


def closed() -> int:
    """A port of this machine where nobody listens."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return int(bound.getsockname()[1])


def test_the_other_port_is_offered_where_a_connection_is_refused_and_not_where_there_is_no_network() -> None:
    """A network that closes a port refuses or is silent; without a network, or a name, another port helps nobody."""
    shut = address.parse(f"ssh://git@127.0.0.1:{closed()}/me/kaoru.soul.git")
    with pytest.raises(Transient) as caught:
        offered(shut, detour="go round")
    assert caught.value.advice == "go round"
    with pytest.raises(Transient) as caught:
        offered(address.parse("git@nowhere.invalid:me/kaoru.soul.git"), detour="go round")
    assert "go round" not in caught.value.advice
    way = Access(shut, _key, lambda: [HostKey("ssh-ed25519", "AAAA")], "round")
    with pytest.raises(Transient) as caught:
        Remote(way, NothingYet(), SystemClock()).probe_write()
    assert caught.value.advice == "round"


def _key() -> keys.Key:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    private = Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
    return keys.Key(Path("/k"), keys.PublicKey("AAAA"), private)


@pytest.mark.parametrize(("here", "there"), HOSTS.items())
def test_before_the_first_synchronisation_init_itself_takes_the_other_address(here: str, there: str) -> None:
    """AUTH-1."""
    said = onboarding.detour(address.parse(here), "kaoru", Path("/c/kaoru.yaml"), False)
    assert said.splitlines()[-1] == f"soul-bridge init kaoru --remote {there}"
    assert "port 443, with the same host keys" in said


@pytest.mark.parametrize(("here", "there"), HOSTS.items())
def test_afterwards_one_command_changes_the_address_and_pins_the_key(here: str, there: str, tmp_path: Path) -> None:
    """AUTH-1, AUTH-6: typed as it is printed, it does what it says to a configuration as it is written."""
    places = config.locate({"SOUL_BRIDGE_HOME": str(tmp_path / "it's home")})
    settings = config.Settings("kaoru", "laptop", tmp_path / "soul", here, tmp_path / "key")
    config.save(places, settings)
    said = onboarding.detour(address.parse(here), "kaoru", places.config_file("kaoru"), True).splitlines()[-1]
    (tmp_path / "soul-bridge").write_text(f'#!/bin/sh\necho "$*" > {tmp_path}/typed\n')
    (tmp_path / "soul-bridge").chmod(0o755)
    subprocess.run(["sh", "-c", said], check=True, env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"})
    assert config.load(places, "kaoru").remote == there
    assert (tmp_path / "typed").read_text() == "accept-host-key kaoru\n"


def test_the_command_for_a_soul_knows_whether_it_is_here_already(tmp_path: Path) -> None:
    """The same words in `sync`, `status`, `lease` and the log."""
    places = config.locate({"SOUL_BRIDGE_HOME": str(tmp_path)})
    settings = config.Settings("kaoru", "laptop", tmp_path / "soul", next(iter(HOSTS)), tmp_path / "key")
    assert "soul-bridge init" in wiring.access(settings, places).detour
    (tmp_path / "soul" / ".git").mkdir(parents=True)
    assert "sed -i" in wiring.access(settings, places).detour


def test_the_published_keys_are_known_by_the_other_name_too() -> None:
    """AUTH-6: the same server has the same key by port 443, and by no other port or name."""
    assert hosts.shipped("[ssh.github.com]:443") == hosts.SHIPPED["github.com"]
    assert hosts.shipped("[altssh.gitlab.com]:443") == hosts.SHIPPED["gitlab.com"]
    assert hosts.shipped("ssh.github.com") is None and hosts.shipped("[github.com]:443") is None


def test_a_published_key_is_pinned_without_a_question_and_no_other_one_in_its_place(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """AUTH-6: where nothing is pinned yet and the host offers the key that ships with the program."""
    body = fleet.body("laptop")
    known, pinned = body.home / "known_hosts", (body.home / "known_hosts").read_text()
    name, kind, blob = pinned.split()
    known.unlink()
    assert body.json("accept-host-key", code=4)["error"]["rule"] == "AUTH-6" and not known.exists()
    monkeypatch.setitem(hosts.SHIPPED, name, HostKey(kind, blob))
    assert body.json("accept-host-key")["accepted"] is True and known.read_text() == pinned
    changed = f"{name} {kind} {keys.generate(fleet.root / 'other', 'x').blob}\n"
    known.write_text(changed)
    assert body.json("accept-host-key", code=4)["error"]["rule"] == "AUTH-6" and known.read_text() == changed


@pytest.mark.parametrize("fingerprint", ["nonsense", "SHA256:short", "MD5:aa:bb", "", "SHA256:" + "A" * 44])
def test_what_cannot_be_a_fingerprint_is_a_wrong_call(fleet: Fleet, fingerprint: str) -> None:
    """AUTH-6: exit 2, and nobody is asked."""
    body = fleet.body("laptop")
    for words in (("init", "kaoru", "--host-key", fingerprint), ("accept-host-key", "--fingerprint", fingerprint)):
        error = body.json(*words, code=2)["error"]
        assert error["kind"] == "usage" and "ssh-keygen -lf" in error["advice"]


def test_a_host_that_cannot_be_reached_leaves_a_next_step_everywhere(fleet: Fleet) -> None:
    """What an offline `init`, `lease` and `sync` are followed by."""
    body = Body("laptop", fleet.root / "laptop", f"ssh://git@127.0.0.1:{closed()}/me/kaoru.soul.git")
    advice = body.init(code=5)["error"]["advice"]
    assert "soul-bridge init kaoru" in advice and "soul-bridge init kaoru --offline" in advice
    assert body.status()["problem"]["kind"] == "network"
    begun = fleet.body("server")
    with begun.offline():
        for words in (("lease", "acquire"), ("sync",)):
            error = begun.json(*words, code=5)["error"]
            assert "soul-bridge doctor" in error["advice"]


def test_a_key_that_is_not_accepted_may_also_mean_that_there_is_no_repository(fleet: Fleet) -> None:
    """AUTH-3: hosts say the same of both; of one that may only read, they say so."""
    where = address.parse("git@github.com:me/kaoru.soul.git")
    for words in ("the server does not accept this body's key: Authentication failed", "ERROR: Repository not found."):
        error = onboarding.not_authorised(
            where, "ssh-ed25519 AAAA x", "soul-bridge init kaoru", Refused(words, kind="auth")
        )
        assert "or has no such repository" in error.message and "Is me/kaoru.soul made" in error.advice
    reading = Refused("The key you are authenticating with has been marked as read only.", kind="auth")
    error = onboarding.not_authorised(where, "ssh-ed25519 AAAA x", "soul-bridge init kaoru", reading)
    assert "no such repository" not in error.message and "Delete it there and add it again" in error.advice


def test_after_an_init_that_was_refused_the_status_says_why_and_what_to_paste(fleet: Fleet) -> None:
    """AUTH-3: until the same command goes through; nothing of it stays then."""
    body = fleet.body("laptop", authorized=False, init=False)
    body.init("--host-key", fleet.server.fingerprint(), code=4)
    document = body.status()
    assert document["problem"]["kind"] == "auth" and body.public_line() in document["problem"]["advice"]
    shown = body.run("status").out
    assert "key refused" in shown and body.public_line() in shown
    fleet.server.authorize(fleet.repository, body.public_line())
    body.init("--host-key", fleet.server.fingerprint())
    assert body.status()["problem"] is None


def test_a_sentence_ends_with_one_full_stop(fleet: Fleet) -> None:
    """Whatever a host's words end with."""
    body = fleet.body("laptop")
    fleet.server.revoke(fleet.repository, body.public_line())
    assert ".." not in body.sync(code=4)["sentence"]
