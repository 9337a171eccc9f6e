"""An own server, as far as files go: what is made, let in and taken out, and what is said of it (AUTH-3, AUTH-5)."""

from __future__ import annotations

import base64
import io
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from bridge.adapters import config
from bridge.app import onboarding, ownserver
from bridge.cli import run as call
from bridge.core import address
from bridge.core.errors import Refused, Transient


def public(number: int, comment: str = "kaoru.laptop soul-bridge") -> str:
    blob = b"\0\0\0\x0bssh-ed25519\0\0\0 " + bytes([number]) * 32
    return f"ssh-ed25519 {base64.b64encode(blob).decode()} {comment}".rstrip()


@pytest.fixture
def server(tmp_path: Path) -> Path:
    """The home of the server's user, with one repository."""
    host(tmp_path, "init", str(tmp_path / "kaoru.soul.git"))
    return tmp_path


def host(home: Path, *words: str) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    places = config.locate({"HOME": str(home), "SOUL_BRIDGE_HOME": str(home / "sb")})
    return call(["host", *words], places, out, err), out.getvalue(), err.getvalue()


def failing(word: str) -> ownserver.Run:
    """A git that does what it is told, and fails at a command with this word."""

    def run(words: list[str]) -> None:
        if word in words:
            raise subprocess.CalledProcessError(128, words, stderr="fatal: could not lock config file\n")
        subprocess.run(["git", *words], check=True, capture_output=True)

    return run


@pytest.mark.parametrize("word", ["init", "config"])
def test_an_attempt_that_failed_leaves_nothing_and_says_so(tmp_path: Path, word: str) -> None:
    """REPO-1: half a repository would be "there already" at the next attempt."""
    place = tmp_path / "srv" / "git" / "kaoru.soul.git"
    with pytest.raises(Refused) as refused:
        ownserver.make(place, failing(word))
    assert "cannot be made: fatal: could not lock config file" in refused.value.message
    assert refused.value.advice == (
        "Nothing is left of it. In this user's own folder: soul-bridge host init kaoru.soul.git"
    )
    assert os.listdir(tmp_path) == []
    assert ownserver.make(place, failing("nothing")) == place


def test_an_interrupted_attempt_leaves_nothing(tmp_path: Path) -> None:
    """REPO-1."""

    def run(words: list[str]) -> None:
        (tmp_path / "kaoru.soul.git").mkdir(exist_ok=True)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ownserver.make(tmp_path / "kaoru.soul.git", run)
    assert os.listdir(tmp_path) == []


def test_keys_that_cannot_be_written_are_told_of_and_nothing_is_left_beside_them(tmp_path: Path) -> None:
    """AUTH-5."""
    keys = tmp_path / "authorized_keys"
    (keys / "in the way").mkdir(parents=True)
    with pytest.raises(Transient) as refused:
        ownserver._write(keys, ["# mine"])
    assert "Nothing was changed" in refused.value.advice
    assert os.listdir(tmp_path) == ["authorized_keys"]


def test_what_cannot_be_taken_away_again_is_named_with_the_command_that_does(tmp_path: Path) -> None:
    """REPO-1: and what somebody else put beside it meanwhile is left alone."""
    place = tmp_path / "git" / "kaoru.soul.git"

    def run(words: list[str]) -> None:
        place.parent.mkdir()
        (place.parent / "other").touch()
        place.symlink_to(tmp_path, target_is_directory=True)  # one that no tree can be removed through
        raise subprocess.CalledProcessError(128, words, stderr="fatal: no room")

    with pytest.raises(Refused) as refused:
        ownserver.make(place, run)
    assert refused.value.advice.startswith(f"What was made of it could not be taken away again: rm -r {place}\n")
    assert (place.parent / "other").exists()


def test_without_git_that_is_what_is_said(tmp_path: Path) -> None:
    """REPO-1: no word of a missing file."""

    def run(words: list[str]) -> None:
        raise FileNotFoundError(2, "No such file or directory", "git")

    with pytest.raises(Refused, match="the program git was not found on PATH"):
        ownserver.make(tmp_path / "kaoru.soul.git", run)


def test_a_repository_that_is_there_is_answered_with_the_next_step(server: Path) -> None:
    """REPO-1."""
    code, _, err = host(server, "init", str(server / "kaoru.soul.git"))
    assert code == 3 and f"soul-bridge host authorize {server / 'kaoru.soul.git'}" in err


def test_one_key_of_two_is_taken_out_by_its_fingerprint(server: Path) -> None:
    """AUTH-5: as after `key rotate`, when the new key must stay."""
    for number in (1, 2):
        assert host(server, "authorize", str(server / "kaoru.soul.git"), public(number))[0] == 0
    first, second = ownserver.grants(server / ".ssh" / "authorized_keys")
    code, out, _ = host(server, "revoke", first.fingerprint)
    assert code == 0 and first.fingerprint in out and "were called" not in out
    assert ownserver.grants(server / ".ssh" / "authorized_keys") == [second]


def test_a_name_of_two_keys_lists_both_and_how_each_comes_back(server: Path) -> None:
    """AUTH-5."""
    lines = [public(1), public(2)]
    assert host(server, "authorize", str(server / "kaoru.soul.git"), lines[0])[0] == 0
    assert host(server, "authorize", str(server / "kaoru.soul.git"), lines[1], "--read-only")[0] == 0
    before = ownserver.grants(server / ".ssh" / "authorized_keys")
    code, out, _ = host(server, "revoke", "kaoru.laptop")
    assert code == 0 and "2 keys were called 'kaoru.laptop', and all are out" in out
    assert all(grant.fingerprint in out for grant in before)
    place = server / "kaoru.soul.git"
    assert f"  soul-bridge host authorize {place} '{lines[0]}'\n" in out
    assert f"  soul-bridge host authorize {place} '{lines[1]}' --read-only\n" in out
    assert ownserver.grants(server / ".ssh" / "authorized_keys") == []


def test_a_long_list_of_keys_is_told_to_its_end(server: Path) -> None:
    """AUTH-5: whoever looks for a key must not miss it."""
    keys = server / ".ssh" / "authorized_keys"
    keys.parent.mkdir(exist_ok=True)
    place = server / "kaoru.soul.git"
    found = [ownserver.Grant(place, public(number).split()[1], True, f"kaoru.b{number}") for number in range(60)]
    keys.write_text("".join(grant.line() + "\n" for grant in found))
    code, out, _ = host(server, "list")
    assert code == 0 and all(f"{grant.fingerprint}  {grant.comment}\n" in out for grant in found)


def test_a_folder_that_cannot_be_locked_is_told_with_what_to_look_at(tmp_path: Path) -> None:
    """AUTH-5."""
    (tmp_path / ".ssh").write_text("a file where the folder should be")
    with pytest.raises(Transient) as refused:
        ownserver.revoke(tmp_path / ".ssh" / "authorized_keys", "kaoru.laptop")
    assert f"ls -ld {tmp_path}" in refused.value.advice and "Nothing was changed" in refused.value.advice


def pasted(repository: str, line: str) -> str:
    """The line that README gives a person to paste, where soul-bridge is not."""
    cases = "".join(f"'git-{name} '*) exec git-{name} '{repository}';; " for name in ("upload-pack", "receive-pack"))
    return f'restrict,command="case \\"$SSH_ORIGINAL_COMMAND\\" in {cases}*) exit 1;; esac" {line}'


def keys_of(home: Path, *lines: str) -> Path:
    keys = home / ".ssh" / "authorized_keys"
    keys.parent.mkdir(exist_ok=True)
    keys.write_text("".join(line + "\n" for line in lines))
    return keys


# What Python takes for the end of a line and sshd does not.
ENDS = ["\u2028", "\u2029", "\x85", "\v", "\f", "\x1c", "\x1d", "\x1e", "\r"]


@pytest.mark.parametrize("end", ENDS)
def test_what_is_no_line_for_sshd_never_becomes_one(server: Path, end: str) -> None:
    """AUTH-2: the tail of a comment that somebody pasted lets nobody in, whoever writes the file afterwards."""
    evil = pasted("kaoru.soul.git", public(1, f"a{end}{public(9, 'evil')}{end}b"))
    odd = "# \udcff, no text at all"
    keys = keys_of(server)
    keys.write_bytes(f"{odd}\n{evil}\n{pasted('mei.soul.git', public(2, 'two'))}".encode("utf-8", "surrogateescape"))
    before = keys.read_bytes()
    assert host(server, "authorize", str(server / "kaoru.soul.git"), public(3))[0] == 0
    after = keys.read_bytes()
    assert after.startswith(before + b"\n") and after.count(b"\n") == before.count(b"\n") + 2
    assert len(ownserver.rights(keys, server)) == 3
    with pytest.raises(Refused):
        ownserver.revoke(keys, "evil", server)
    assert host(server, "revoke", "two")[0] == 0
    assert evil.encode() in keys.read_bytes().split(b"\n")


@pytest.mark.parametrize("name", ["plain.one", "the fingerprint", "the public line"])
def test_a_line_that_was_pasted_is_listed_and_taken_out_like_one_of_ours(server: Path, name: str) -> None:
    """AUTH-5: sshd does not ask who wrote it."""
    line = public(1, "plain.one soul-bridge")
    keys = keys_of(server, "# mine", pasted("kaoru.soul.git", line), pasted("mei.soul.git", public(2, "plain.two")))
    code, out, _ = host(server, "list")
    fingerprint = ownserver.rights(keys, server)[0].line.fingerprint
    place = server / "kaoru.soul.git"
    assert code == 0 and "no key opens" not in out
    assert f"rw  {place}  {fingerprint}  plain.one soul-bridge  (line 2, not written by `host authorize`)\n" in out
    code, out, _ = host(server, "revoke", {"the fingerprint": fingerprint, "the public line": line}.get(name, name))
    assert code == 0 and f"{fingerprint} plain.one soul-bridge opens {place} no more" in out
    assert keys.read_text().splitlines() == ["# mine", pasted("mei.soul.git", public(2, "plain.two"))]


def test_revoking_takes_out_every_line_that_lets_the_key_in(server: Path) -> None:
    """AUTH-5: one of them left would open the repository still."""
    ours = ownserver.Grant(server / "kaoru.soul.git", public(1).split()[1], True, "kaoru.laptop soul-bridge").line()
    keys = keys_of(server, pasted("kaoru.soul.git", public(1, "another name")), ours, public(1))
    code, out, _ = host(server, "revoke", "kaoru.laptop")
    assert code == 0 and out.count("no more") == 3 and "opens every repository of this user no more" in out
    assert keys.read_text() == ""


def test_a_line_that_may_be_a_persons_own_is_left_and_makes_the_revocation_fail(server: Path) -> None:
    """AUTH-5: nobody is locked out of a server, and nobody is told that a key is out which is not."""
    ours = ownserver.Grant(server / "kaoru.soul.git", public(1).split()[1], True, "kaoru.laptop soul-bridge").line()
    keys = keys_of(server, ours, public(1, "me@desk"))
    code, out, _ = host(server, "list")
    assert "rw  every repository of this user  " in out and "me@desk  (line 2, not written by" in out
    code, out, _ = host(server, "revoke", "kaoru.laptop")
    assert code == 1 and "no more" not in out and f"for {server / 'kaoru.soul.git'} is out" in out
    assert f"line 1 of {keys}, not written by `host authorize`, still lets SHA256:" in out
    assert f"sed -i '1d' {keys}" in out, "numbers are of the file as it is now"
    assert keys.read_text() == public(1, "me@desk") + "\n"
    code, out, _ = host(server, "revoke", "me@desk", "--json")
    (row,) = json.loads(out)
    assert code == 1 and row["open"] is True and row["repository"] is None and row["line"] == 1


def test_a_key_that_is_let_in_takes_the_place_of_its_pasted_line(server: Path) -> None:
    """AUTH-2: sshd obeys the first line of a key."""
    keys = keys_of(server, pasted("kaoru.soul.git", public(1)))
    assert host(server, "authorize", str(server / "kaoru.soul.git"), public(1), "--read-only")[0] == 0
    (grant,) = ownserver.grants(keys)
    assert keys.read_text() == grant.line() + "\n" and not grant.write


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (public(1, "me@desk"), "opens every repository here already, by line 1"),
        (pasted("mei.soul.git", public(1)), "mei.soul.git already, by line 1"),
        (f'command="backup" {public(1, "me")}', "held to another command already, by line 1"),
    ],
)
def test_a_key_that_another_line_lets_in_elsewhere_is_not_let_in_again(server: Path, line: str, said: str) -> None:
    """AUTH-2."""
    keys = keys_of(server, line)
    code, _, err = host(server, "authorize", str(server / "kaoru.soul.git"), public(1))
    assert code == 3 and said in err and "Nothing was changed" in err
    assert keys.read_text() == line + "\n"


def test_a_key_without_quotes_is_taken_as_it_is(server: Path) -> None:
    """AUTH-3."""
    assert host(server, "authorize", str(server / "kaoru.soul.git"), *public(1).split())[0] == 0
    (grant,) = ownserver.grants(server / ".ssh" / "authorized_keys")
    assert grant.comment == "kaoru.laptop soul-bridge"


@pytest.mark.parametrize("form", ["text", "file"])
def test_a_private_key_is_named_as_one_and_never_shown(server: Path, form: str) -> None:
    """AUTH-4."""
    secret = "-----BEGIN OPENSSH PRIVATE KEY-----\nc2VjcmV0\n-----END OPENSSH PRIVATE KEY-----\n"
    (server / "key").write_text(secret)
    given = secret if form == "text" else str(server / "key")
    code, out, err = host(server, "authorize", str(server / "kaoru.soul.git"), given)
    assert code == 2 and "this is a private key" in err and "c2VjcmV0" not in out + err


@pytest.mark.parametrize(("user", "told"), [(1000, True), (0, False)])
def test_how_open_connections_end_is_told_but_to_root(
    server: Path, monkeypatch: pytest.MonkeyPatch, user: int, told: bool
) -> None:
    """AUTH-5: as root, the command would end the server itself."""
    assert host(server, "authorize", str(server / "kaoru.soul.git"), public(1))[0] == 0
    monkeypatch.setattr(os, "geteuid", lambda: user)
    assert ("`pkill -u 1000 sshd`" in host(server, "revoke", "kaoru.laptop")[1]) == told


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("git@my.server:kaoru.soul.git", "kaoru.soul.git"),
        ("ssh://git@my.server:2222/kaoru.soul.git", "kaoru.soul.git"),
        ("ssh://git@my.server/~/souls/kaoru.soul.git", "~/souls/kaoru.soul.git"),
        ("ssh://git@my.server/srv/git/kaoru.soul.git", "/srv/git/kaoru.soul.git"),
    ],
)
def test_what_is_pasted_on_an_own_server_works_as_it_is_typed_there(text: str, named: str) -> None:
    """AUTH-3: a repository in the home is named from there, whatever form the address has."""
    shown = onboarding.where_to_paste(address.parse(text), public(1))
    assert f"soul-bridge host authorize {named} '{public(1)}'" in shown
    (line,) = (line for line in shown.splitlines() if line.startswith("restrict,"))
    assert line.endswith(public(1)), "the line to be pasted stands alone"


def test_a_rotated_key_is_followed_by_the_command_that_takes_out_the_old_one(tmp_path: Path) -> None:
    """AUTH-5: by fingerprint, for both have one name."""
    from bridge.app.host import Host
    from tests.real.fleet import Fleet

    server = Host(tmp_path / "host").start()
    try:
        server.create("kaoru.soul.git")
        body = Fleet(server, tmp_path, "kaoru.soul.git", within=True).body("laptop")
        old = body.json("key", "show")["fingerprint"]
        assert body.run("key", "rotate").code == 4
        server.authorize("kaoru.soul.git", body.key.with_name("kaoru.laptop.next.pub").read_text())
        said = body.run("key", "rotate")
        assert said.code == 0 and f"soul-bridge host revoke {old}" in said.out
    finally:
        server.stop()


def test_a_key_that_is_gone_names_the_command_of_its_own_agent(tmp_path: Path) -> None:
    """AUTH-4."""
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "kaoru.yaml").write_text(
        f"agent: kaoru\nbody: laptop\nsoul: {tmp_path}/kaoru.soul\nremote: git@h.example:me/kaoru.soul.git\n"
    )
    out = io.StringIO()
    places = config.locate({"SOUL_BRIDGE_HOME": str(tmp_path)})
    assert call(["key", "show", "--json"], places, out, io.StringIO()) == 4
    error: dict[str, Any] = json.loads(out.getvalue())["error"]
    assert "`soul-bridge init kaoru`" in error["advice"] and "key rotate" not in error["advice"]
