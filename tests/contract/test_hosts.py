"""Pinned host keys: a file that OpenSSH reads too, and what an offered key means (AUTH-6)."""

from __future__ import annotations

import shutil
import socket
import stat
import subprocess
import threading
from pathlib import Path

import pytest

from bridge.adapters import hosts, keys
from bridge.adapters.hosts import HostKey, KnownHosts, Verdict
from bridge.adapters.remote import offered, session
from bridge.app.host import Host
from bridge.core.address import parse
from bridge.core.errors import Refused, Transient

FINGERPRINTS = {
    "github.com": "SHA256:+DiY3wvvV6TuJJhbpZisF/zLDA0zPMSvHdkr4UvCOqU",
    "gitlab.com": "SHA256:eUXGGm1YGsMAS7vkcx6JOJdOGHPem5gQp4taiCfCLB8",
    "codeberg.org": "SHA256:mIlxA9k46MmM6qdJOdMnAQpzGxF4WIVVL+fj+wZbw0g",
}


@pytest.fixture
def known(tmp_path: Path) -> KnownHosts:
    return KnownHosts(tmp_path / "config" / "known_hosts")


@pytest.fixture
def pair(tmp_path: Path) -> list[HostKey]:
    return [HostKey(keys.TYPE, keys.generate(tmp_path / name, name).blob) for name in ("one", "two")]


def test_the_shipped_keys_are_the_published_ones() -> None:
    assert {name: key.fingerprint for name, key in hosts.SHIPPED.items()} == FINGERPRINTS
    assert hosts.shipped("github.com") == hosts.SHIPPED["github.com"]
    assert hosts.shipped("[github.com]:2222") is None


def test_a_pinned_key_is_found_under_its_name_and_no_other(known: KnownHosts, pair: list[HostKey]) -> None:
    assert known.lookup("h") == ()
    known.pin("h", pair[0])
    known.pin("[h]:2222", pair[1])
    known.pin("h", pair[0])
    assert known.lookup("h") == (pair[0],)
    assert known.lookup("[h]:2222") == (pair[1],)
    assert known.lookup("other") == ()
    assert len(known.path.read_text().splitlines()) == 2
    assert stat.S_IMODE(known.path.stat().st_mode) == 0o600
    assert [path.name for path in known.path.parent.iterdir()] == ["known_hosts"]


def test_names_are_written_as_openssh_writes_them() -> None:
    assert hosts.host_name("Example.org") == "example.org"
    assert hosts.host_name("example.org", 2222) == "[example.org]:2222"
    for text in ("git@example.org:a/b.git", "ssh://git@example.org:2222/a/b.git"):
        address = parse(text)
        assert address.known_host_key_name == hosts.host_name(address.host, address.port)


def test_replacing_takes_every_older_key_of_that_name_away(known: KnownHosts, pair: list[HostKey]) -> None:
    known.pin("h", pair[0])
    known.pin("other", pair[0])
    known.replace("h", pair[1])
    assert known.lookup("h") == (pair[1],)
    assert known.lookup("other") == (pair[0],)


def test_lines_of_others_are_understood_or_kept(known: KnownHosts, pair: list[HostKey]) -> None:
    known.path.parent.mkdir()
    foreign = (
        f"# mine\n\nh,10.0.0.1 {pair[0].type} {pair[0].blob} a comment\n|1|abc=|def= {pair[0].type} {pair[0].blob}\n"
    )
    known.path.write_text(foreign)
    assert known.lookup("10.0.0.1") == (pair[0],)
    known.pin("new", pair[1])
    assert known.path.read_text().startswith(foreign)


@pytest.mark.parametrize("end", ["\u2028", "\x85", "\v", "\f", "\x1c", "\r"])
def test_the_tail_of_a_comment_is_no_line_of_its_own(known: KnownHosts, pair: list[HostKey], end: str) -> None:
    """AUTH-6: ssh ends a line at LF only, and what it takes for a comment pins nothing."""
    known.path.parent.mkdir()
    foreign = f"h {pair[0].type} {pair[0].blob} a{end}h {pair[1].type} {pair[1].blob}\n".encode()
    known.path.write_bytes(foreign)
    assert known.lookup("h") == (pair[0],)
    known.pin("new", pair[1])
    assert known.path.read_bytes().startswith(foreign) and known.lookup("h") == (pair[0],)


@pytest.mark.parametrize(
    "line", ["@cert-authority * ssh-ed25519 AAAA", "h ssh-ed25519", "h ssh-ed25519 %%", "h dsa AAAA"]
)
def test_a_line_that_cannot_be_understood_is_not_passed_over(known: KnownHosts, pair: list[HostKey], line: str) -> None:
    known.pin("h", pair[0])
    with known.path.open("a") as file:
        file.write(line + "\n")
    with pytest.raises(Refused) as caught:
        known.lookup("h")
    assert (caught.value.kind, caught.value.rule) == ("hostkey", "AUTH-6")
    assert "line 2" in caught.value.message


def test_many_that_pin_at_once_lose_none(known: KnownHosts, pair: list[HostKey]) -> None:
    threads = [threading.Thread(target=known.pin, args=(f"h{number}", pair[0])) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(known.path.read_text().splitlines()) == 12


def test_a_place_that_cannot_be_written_is_said_so(tmp_path: Path, pair: list[HostKey]) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(Transient) as caught:
        KnownHosts(tmp_path / "file" / "known_hosts").pin("h", pair[0])
    assert caught.value.kind == "disk"


def test_ssh_keygen_finds_what_was_pinned(known: KnownHosts, pair: list[HostKey]) -> None:
    if shutil.which("ssh-keygen") is None:
        pytest.skip("ssh-keygen is not installed")
    known.pin("[127.0.0.1]:2222", pair[0])
    found = subprocess.run(
        ["ssh-keygen", "-l", "-F", "[127.0.0.1]:2222", "-f", str(known.path)],
        check=True,
        capture_output=True,
        text=True,
    )
    assert pair[0].fingerprint in found.stdout


def test_the_verdict_on_every_combination(pair: list[HostKey]) -> None:
    """AUTH-6: a pin goes before all, then what a person expects, then what ships; else a person is asked."""
    right, wrong = pair
    table = {
        # pinned, shipped, expected fingerprint: verdict on `right`
        ((right,), None, None): Verdict.TRUSTED,
        ((wrong, right), None, None): Verdict.TRUSTED,
        ((wrong,), None, None): Verdict.CHANGED,
        ((wrong,), right, None): Verdict.CHANGED,
        ((wrong,), None, right.fingerprint): Verdict.CHANGED,
        ((right,), wrong, None): Verdict.TRUSTED,
        ((right,), None, wrong.fingerprint): Verdict.MISMATCH,
        ((), None, right.fingerprint): Verdict.PIN,
        ((), wrong, right.fingerprint): Verdict.PIN,
        ((), None, wrong.fingerprint): Verdict.MISMATCH,
        ((), right, wrong.fingerprint): Verdict.MISMATCH,
        ((), right, None): Verdict.PIN,
        ((), wrong, None): Verdict.MISMATCH,
        ((), None, None): Verdict.ASK,
    }
    assert {case: hosts.verdict(*case, right) for case in table} == table


def test_a_fingerprint_may_be_written_in_its_usual_ways(pair: list[HostKey]) -> None:
    whole = pair[0].fingerprint
    assert hosts.same_fingerprint(whole, whole + "=")
    assert hosts.same_fingerprint(f" {whole.removeprefix('SHA256:')}\n", whole)
    assert not hosts.same_fingerprint(whole.lower(), whole)


def test_the_offered_key_is_seen_without_logging_in(tmp_path: Path) -> None:
    """AUTH-6."""
    host = Host(tmp_path).start()
    try:
        key = HostKey(*offered(parse(host.address("kaoru.soul.git")), ["ssh-ed25519"]))
        assert key.fingerprint == host.fingerprint()
        assert hosts.KnownHosts(tmp_path / "k").lookup("h") == ()
        assert host.host_key_line().split()[1:] == [key.type, key.blob]
        assert host.log == []
    finally:
        host.stop()
    with pytest.raises(Transient):
        offered(parse(host.address("kaoru.soul.git")))


def test_a_connection_that_cannot_be_set_up_is_an_unreachable_remote_and_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An option that this machine's kernel does not know, or a server that cut the connection in that moment."""
    made: list[socket.socket] = []
    connect = socket.create_connection

    def noting(*words: object) -> socket.socket:
        made.append(connect(*words))  # type: ignore[arg-type]
        return made[-1]

    monkeypatch.setattr(session, "_SOCKET_OPTIONS", ((socket.IPPROTO_TCP, 9999, 1),))
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setattr(socket, "create_connection", noting)
        with pytest.raises(Transient, match="cannot reach 127.0.0.1") as caught:
            offered(parse(f"ssh://git@127.0.0.1:{server.getsockname()[1]}/kaoru.soul.git"))
    assert caught.value.kind == "network"
    assert [connection.fileno() for connection in made] == [-1]


def test_a_key_that_cannot_be_used_is_told_with_what_to_do() -> None:
    """AUTH-2: before any connection."""

    class Broken:
        private = b"no key at all"

    with pytest.raises(Refused) as caught:
        session._private(Broken())
    assert (caught.value.kind, caught.value.rule) == ("auth", "AUTH-2")
    assert "Nothing was sent" in caught.value.advice and "`soul-bridge key rotate`" in caught.value.advice
