"""Traps D: host keys, deploy keys, identities and secrets (tests/TRAPS.md)."""

from __future__ import annotations

import re
import subprocess
import time
from pathlib import Path

import pytest

from tests.real.fleet import until
from tests.real.quick import Body, Fleet

MEMORY = "memories/MEMORY.md"
CANOE = "§\nhas a canoe\n"


def other_key(place: Path) -> str:
    """The public half of some other ed25519 key."""
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(place)], check=True)
    return " ".join(place.with_name(f"{place.name}.pub").read_text().split()[:2])


def test_a_changed_host_key_stops_the_remote_until_a_person_agrees(laptop: Body, fleet: Fleet, tmp_path: Path) -> None:
    """Trap 65; AUTH-6: both fingerprints are told, nothing is switched off, one command settles it."""
    known = laptop.home / "known_hosts"
    known.write_text(f"[127.0.0.1]:{fleet.server.port} {other_key(tmp_path / 'old')}\n")
    laptop.append(MEMORY, CANOE)
    asked = len(fleet.server.log)
    error = laptop.sync(code=4)["error"]
    assert error["kind"] == "hostkey" and "accept-host-key" in error["advice"]
    assert len(set(re.findall(r"SHA256:[A-Za-z0-9+/]{43}", error["message"]))) == 2
    assert fleet.server.fingerprint() in error["message"]
    assert len(fleet.server.log) == asked, "nothing was asked of a host that is not trusted"
    assert b"has a canoe" in laptop.tree()[MEMORY]
    laptop.json("accept-host-key", "--fingerprint", fleet.server.fingerprint())
    assert laptop.sync()["pushed"]


def test_an_unknown_host_without_a_terminal_is_no_prompt(fleet: Fleet) -> None:
    """Trap 66; AUTH-6: nobody is asked where nobody can answer; the fingerprint is told and nothing is pinned."""
    body = fleet.body("phone", init=False)
    began = time.monotonic()
    error = body.init(code=4)["error"]
    assert time.monotonic() - began < 10
    assert error["kind"] == "hostkey" and fleet.server.fingerprint() in error["message"] + error["advice"]
    assert not (body.home / "known_hosts").exists() or "127.0.0.1" not in (body.home / "known_hosts").read_text()
    wrong = "SHA256:" + "A" * 43
    assert body.init("--host-key", wrong, code=4)["error"]["kind"] == "hostkey"


def test_a_key_with_a_passphrase_is_refused_before_any_connection(laptop: Body, fleet: Fleet) -> None:
    """Trap 67; AUTH-2, AUTH-4: no prompt, no agent; local work goes on."""
    command = ["ssh-keygen", "-q", "-p", "-P", "", "-N", "secret words", "-f", str(laptop.key)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    laptop.append(MEMORY, CANOE)
    asked = len(fleet.server.log)
    error = laptop.sync(code=4)["error"]
    assert error["kind"] == "auth" and "passphrase" in error["message"] and error["advice"]
    assert len(fleet.server.log) == asked
    assert b"has a canoe" in laptop.tree()[MEMORY]


def test_no_agent_and_no_key_of_the_user_is_used(laptop: Body, fleet: Fleet, tmp_path: Path) -> None:
    """Trap 67; AUTH-4: an agent that holds an authorised key does not help a body whose own key is not."""
    started = subprocess.run(["ssh-agent", "-s"], check=True, capture_output=True, text=True).stdout
    found = dict(re.findall(r"(SSH_AUTH_SOCK|SSH_AGENT_PID)=([^;]+);", started))
    try:
        environment = {**laptop.env(), **found}
        subprocess.run(["ssh-add", "-q", str(fleet.bodies["server"].key)], check=True, env=environment)
        fleet.server.revoke(fleet.repository, laptop.public_line())
        (tmp_path / ".ssh").mkdir()
        (tmp_path / ".ssh/id_ed25519").write_bytes(fleet.bodies["server"].key.read_bytes())
        (tmp_path / ".ssh/id_ed25519").chmod(0o600)
        laptop.append(MEMORY, CANOE)
        done = laptop.run("sync", "--json", HOME=str(tmp_path), **found)
        assert done.expect(4)["error"]["kind"] == "auth"
    finally:
        subprocess.run(["ssh-agent", "-k"], check=True, env={**laptop.env(), **found}, stdout=subprocess.DEVNULL)


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o660])
def test_a_key_that_others_may_read_is_refused_with_the_remedy(laptop: Body, mode: int) -> None:
    """Trap 68; AUTH-2: the words name the mode and the command; after that command it goes on."""
    assert laptop.key.stat().st_mode & 0o777 == 0o600 and laptop.key.parent.stat().st_mode & 0o777 == 0o700
    laptop.key.chmod(mode)
    error = laptop.sync(code=4)["error"]
    assert error["rule"] == "AUTH-2" and "chmod 600" in error["advice"]
    laptop.key.chmod(0o600)
    laptop.sync()


def test_a_daemon_that_is_everybodys_parent_keeps_no_zombies(laptop: Body, server: Body) -> None:
    """Trap 71: as process 1 of a container it inherits what its hooks left running, and nothing dead piles up."""
    with (laptop.home / "config/kaoru.yaml").open("a") as file:
        file.write("hooks:\n  synced: [sh, -c, 'sleep 0.2 & sleep 0.3 & true']\n")
    with (laptop.home / "daemon.log").open("ab") as log:
        command = ["unshare", "--pid", "--fork", "--mount-proc", *laptop.command("run")]
        daemon = subprocess.Popen(command, env=laptop.env(), stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def children(parent: str) -> list[str]:
        return Path(f"/proc/{parent}/task/{parent}/children").read_text().split()

    try:
        for number in range(3):
            server.append(MEMORY, f"§\nnumber {number}\n")
            server.sync()
            until(lambda n=number: f"number {n}" in laptop.entries(MEMORY), "it arrives")  # type: ignore[misc]
        (inner,) = children(str(daemon.pid))
        until(lambda: not children(inner), "nothing dead is left", 15)
    finally:
        for child in children(str(daemon.pid)):
            subprocess.run(["kill", child], check=True)
        assert daemon.wait(20) == 0


def test_signing_and_a_missing_name_are_no_matter(laptop: Body, server: Body, tmp_path: Path) -> None:
    """Traps 72, 73; COMMIT-1, AUTH-7: no signature is made, no name is asked for; every commit says whose it is."""
    (tmp_path / ".gitconfig").write_text(
        "[commit]\n\tgpgSign = true\n[user]\n\tuseConfigOnly = true\n\tsigningKey = NOPE\n[gpg]\n\tprogram = false\n"
    )
    laptop.person("config", "commit.gpgSign", "true")
    laptop.append(MEMORY, CANOE)
    assert laptop.run("sync", "--json", HOME=str(tmp_path)).expect(0)["pushed"]
    server.sync()
    raw = server.git("cat-file", "commit", "HEAD")
    assert "gpgsig" not in raw
    assert "author Kaoru (laptop) <kaoru@laptop.local>" in raw
    assert "committer Kaoru (laptop) <kaoru@laptop.local>" in raw


CANARY = "c4n4ryT0k3n"


@pytest.mark.parametrize(
    "address",
    [
        "https://github.com/me/kaoru.soul.git",
        f"https://me:{CANARY}@github.com/me/kaoru.soul.git",
        f"ssh://git:{CANARY}@127.0.0.1/kaoru.soul.git",
        f"https://{CANARY}@example.org/kaoru.soul.git",
        "/srv/git/kaoru.soul.git",
        "file:///srv/git/kaoru.soul.git",
    ],
)
def test_an_address_with_a_prompt_or_a_password_is_refused_and_not_repeated(fleet: Fleet, address: str) -> None:
    """Traps 74, 75; AUTH-1: nothing hangs on a prompt; what may be a secret is in no message and in no file."""
    body = fleet.body("phone", init=False)
    body.remote = address
    done = body.run("init", "kaoru", "--remote", address, "--body", "phone", "--json")
    assert done.code == 2 and "git@" in done.document["error"]["message"] + done.document["error"]["advice"]
    assert CANARY not in done.out + done.err
    for path in body.home.rglob("*"):
        assert not path.is_file() or CANARY.encode() not in path.read_bytes()


def test_no_secret_leaves_the_key_file(laptop: Body, fleet: Fleet) -> None:
    """Trap 75; CONTENT-2: after refusals and passes, no part of the private key is in a log, a status or the soul."""
    secret = "".join(laptop.key.read_text().splitlines()[1:-1])
    fleet.server.revoke(fleet.repository, laptop.public_line())
    laptop.append(MEMORY, CANOE)
    said = laptop.run("sync", "--json", SOUL_BRIDGE_LOG="debug")
    told = laptop.run("status")
    texts = [said.out, said.err, told.out]
    texts += [path.read_text(errors="replace") for path in laptop.home.rglob("*") if path.is_file()]
    pieces = [secret[at : at + 24] for at in range(64, len(secret) - 24, 24)]
    holders = [text for text in texts if any(piece in text for piece in pieces)]
    assert len(holders) == 1 and holders[0] == laptop.key.read_text()
