"""Deploy keys on a plain OpenSSH server, set up by the program itself (AUTH-3, AUTH-5)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.real import fleet, sshd

ROOT = Path(__file__).parents[2]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[sshd.Sshd]:
    if sshd.missing():
        pytest.skip(f"{sshd.missing()} is missing")
    running = sshd.Sshd(tmp_path / "server").start()
    yield running
    running.stop()


def host(server: sshd.Sshd, *words: str) -> tuple[int, Any]:
    """`soul-bridge host …` as the server's user types it."""
    keys = ["--authorized-keys", str(server.root / "authorized_keys"), "--json"]
    command = [sys.executable, "-m", "bridge", "host", *words, *keys]
    done = subprocess.run(command, capture_output=True, cwd=ROOT, env={**os.environ, "HOME": str(server.root)})
    return done.returncode, json.loads(done.stdout)


def test_a_key_opens_the_one_repository_it_was_authorised_for(server: sshd.Sshd) -> None:
    """AUTH-3: by its name in any folder, and only to read where it may only read."""
    for name in ("one", "two"):
        assert host(server, "init", str(server.root / f"{name}.soul.git"))[0] == 0
    key = server.root / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "kaoru.x soul-bridge", "-f", key], check=True)
    public = Path(f"{key}.pub").read_text().strip()
    code, row = host(server, "authorize", str(server.root / "one.soul.git"), public, "--read-only")
    assert code == 0 and row["write"] is False
    for path in ("/one.soul.git", "/~/one.soul.git", f"{server.root}/one.soul.git", "/one.soul"):
        assert _git(server, key, "ls-remote", path).returncode == 0, path
    for path in ("/two.soul.git", "/anyone.soul.git", "/one.soul.git/two.soul.git"):
        other = _git(server, key, "ls-remote", path)
        assert other.returncode != 0 and b"this key opens one.soul.git only, not what the address says" in other.stderr
    refused = _git(server, key, "push", "/one.soul.git", "HEAD:refs/heads/main")
    assert refused.returncode != 0 and b"read only" in refused.stderr
    shell = subprocess.run(_ssh(server, key) + ["true"], capture_output=True)
    assert shell.returncode == 1
    assert host(server, "authorize", str(server.root / "one.soul.git"), public)[0] == 0
    assert _git(server, key, "push", "/one.soul.git", "HEAD:refs/heads/main").returncode == 0
    assert not (server.root / "two.soul.git" / "refs" / "heads" / "main").exists()
    rows = {Path(row["repository"]).name: row for row in host(server, "list")[1]}
    assert rows["one.soul.git"]["write"] is True
    assert (rows["two.soul.git"]["fingerprint"], rows["two.soul.git"]["write"]) == (None, False), "no key opens it yet"


def test_a_revoked_key_opens_nothing_and_other_lines_stay(server: sshd.Sshd) -> None:
    """AUTH-5: revoking is taking the line out; what others wrote is left alone."""
    keys = server.root / "authorized_keys"
    keys.write_text("# mine\nssh-ed25519 AAAA somebody\n")
    host(server, "init", str(server.root / "one.soul.git"))
    key = server.root / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "kaoru.x soul-bridge", "-f", key], check=True)
    host(server, "authorize", str(server.root / "one.soul.git"), Path(f"{key}.pub").read_text())
    assert _git(server, key, "ls-remote", "/one.soul.git").returncode == 0
    assert host(server, "revoke", "kaoru.x")[0] == 0
    assert _git(server, key, "ls-remote", "/one.soul.git").returncode != 0
    assert keys.read_text() == "# mine\nssh-ed25519 AAAA somebody\n"
    assert host(server, "revoke", "kaoru.x")[0] == 3


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("authorize", "/nowhere.git", "ssh-ed25519 AAAA"), 2),
        (("authorize", "/nowhere.git", "ssh-rsa AAAA x"), 2),
        (("init", "/tmp/a b.git"), 2),
    ],
)
def test_what_is_no_key_or_no_name_is_refused(server: sshd.Sshd, words: tuple[str, ...], code: int) -> None:
    """AUTH-2: nothing is written for it."""
    found, answer = host(server, *words)
    assert found == code
    assert answer["error"]["advice"]
    assert (server.root / "authorized_keys").read_text() == ""


def _ssh(server: sshd.Sshd, key: Path) -> list[str]:
    options = ["StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "IdentitiesOnly=yes", "BatchMode=yes"]
    words = [word for option in options for word in ("-o", option)]
    return ["ssh", "-F", "none", "-i", str(key), *words, "-p", str(server.port), f"{server.user}@127.0.0.1"]


def _git(server: sshd.Sshd, key: Path, verb: str, path: str, *rest: str) -> subprocess.CompletedProcess[bytes]:
    options = "-F none -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o IdentitiesOnly=yes"
    clone = server.root / "work"
    if not clone.exists():
        subprocess.run(["git", "init", "-q", "-b", "main", clone], check=True)
        identity = ["-c", "user.name=t", "-c", "user.email=t@t"]
        subprocess.run(["git", "-C", clone, *identity, "commit", "-q", "--allow-empty", "-m", "x"], check=True)
    address = f"ssh://{server.user}@127.0.0.1:{server.port}{path}"
    environment = {**os.environ, "GIT_SSH_COMMAND": f"ssh -i {key} {options}"}
    return subprocess.run(["git", "-C", clone, verb, address, *rest], capture_output=True, env=environment)


def test_a_key_that_opens_one_repository_is_not_moved_to_another_unasked(server: sshd.Sshd) -> None:
    """AUTH-2: a key for each soul; moving one silently would lead a body to another agent."""
    for name in ("one", "two"):
        host(server, "init", str(server.root / f"{name}.soul.git"))
    key = server.root / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "kaoru.x soul-bridge", "-f", key], check=True)
    public = Path(f"{key}.pub").read_text()
    assert host(server, "authorize", str(server.root / "one.soul.git"), public)[0] == 0
    code, answer = host(server, "authorize", str(server.root / "two.soul.git"), public)
    assert code == 3 and "one.soul.git" in answer["error"]["message"]
    opened = [row["repository"] for row in host(server, "list")[1] if row["fingerprint"]]
    assert opened == [str(server.root / "one.soul.git")]


@pytest.mark.parametrize("right", ["another repository", "read only", "its own"])
def test_a_body_is_told_what_its_key_opens(tmp_path: Path, right: str) -> None:
    """AUTH-3, REPO-1: no soul is found under an address that is not its own, and no right address called wrong."""
    if sshd.missing() or not fleet._can_be_git(tmp_path):
        pytest.skip("an account `git` is missing")
    running = fleet.GitSshd(tmp_path / "server").start()
    try:
        for name in ("kaoru.soul.git", "mei.soul.git"):
            running.create(name)
        body = fleet.Fleet(running, tmp_path, "kaoru.soul.git").body("laptop", authorized=False, init=False)
        place = running.path("mei.soul.git" if right == "another repository" else "kaoru.soul.git")
        only = ["--read-only"] if right == "read only" else []
        assert host(running, "authorize", place, body.public_line(), *only)[0] == 0
        words = ("init", "kaoru", "--remote", body.remote, "--body", "laptop", "--host-key", running.fingerprint())
        said = body.run(*words)
        told = {
            "another repository": "this key opens mei.soul.git only",
            "read only": "marked as read only",
            "its own": "",
        }
        assert said.code == (0 if right == "its own" else 4) and told[right] in said.err
        assert ("Delete it there and add it again" in said.err) == (right == "read only")
    finally:
        running.stop()
