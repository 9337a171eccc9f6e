"""Whatever a host's API answers, or does not: a message says what was refused and what is safe, and holds no token."""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from bridge.adapters import forges
from bridge.adapters.keys import generate
from bridge.app import authorizing
from bridge.core import address
from bridge.core.errors import AnswerLost, Refused, SoulError, Transient, Unusable
from tests.forges.fake import BASES, TAKEN, TOKEN, UNSIGNED, Asked, FakeForge

KINDS = sorted(BASES)
WHERE = address.parse("git@git.example.org:me/kaoru.soul.git")
QUICK = forges.Patience(step=2.0, whole=3.0)  # for a host that never ends
Answers = Callable[..., FakeForge]


@pytest.fixture
def api() -> Iterator[Answers]:
    """Makes APIs of a kind, which may say one thing to everything."""
    made: list[FakeForge] = []

    def make(kind: str, *answer: object, method: str = "") -> FakeForge:
        forge = FakeForge(kind)
        made.append(forge)
        if answer:
            status, document, headers = (*answer, {})[:3]
            body = document if isinstance(document, bytes) else json.dumps(document).encode()
            said = (status, headers, body)
            forge.answer = lambda asked: said if method in ("", asked.method) else None  # type: ignore[assignment,return-value]
        return forge

    yield make
    for forge in made:
        forge.close()


@pytest.fixture
def wanted(tmp_path: Path) -> authorizing.Wanted:
    """This body's key, and what was typed."""
    public = generate(tmp_path / "key", "kaoru.laptop soul-bridge")
    return authorizing.Wanted(WHERE, public, "laptop", "soul-bridge init kaoru --authorize X", "soul-bridge init kaoru")


def client(kind: str, url: str, text: str = TOKEN, patience: forges.Patience | None = None) -> forges.Forge:
    return forges.Forge(kind, url, "me/kaoru.soul", forges.Token(text, "THE_VARIABLE"), "0.1.0", patience)


def refused(forge: forges.Forge, wanted: authorizing.Wanted) -> SoulError:
    """What comes of it, after the promises that hold for every refusal were checked."""
    with pytest.raises(SoulError) as caught:
        authorizing.authorize(forge, wanted, lambda words: None)
    error = caught.value
    told = "".join(traceback.format_exception(error)) + error.message + error.advice
    assert TOKEN not in told and "\x1b" not in error.message + error.advice
    assert error.rule == "AUTH-3" and error.message and not error.message.endswith(".")
    assert "soul-bridge init kaoru" in error.advice
    safe = ("Nothing was changed.", "Nothing was sent", "The key was not added.", "Whether ", "may only read")
    assert any(words in error.advice + error.message for words in safe), error.advice
    return error


@pytest.mark.parametrize("kind", KINDS)
def test_a_key_is_added_once_and_found_again(kind: str, api: Answers, wanted: authorizing.Wanted) -> None:
    """AUTH-3: with write access, whatever else is there and however many pages it fills."""
    forge, said = api(kind), []
    forge.per_page = 3
    for number in range(7):
        forge.has(f"ssh-ed25519 AAAA{number} x", f"other {number}")
    for _ in range(2):
        authorizing.authorize(client(kind, forge.url), wanted, said.append)
    mine = [row for row in forge.rows if row["title"] == "soul-bridge laptop"]
    assert [row["key"] for row in mine] == [" ".join(wanted.key.line.split()[:2])]
    assert mine[0].get("can_push", True) is True and mine[0].get("read_only", False) is False
    assert any("is there already, with write access" in words for words in said)
    assert [asked.method for asked in forge.asked].count("POST") == 1


@pytest.mark.parametrize("kind", KINDS)
def test_a_key_that_may_only_read_is_left_and_told_of(kind: str, api: Answers, wanted: authorizing.Wanted) -> None:
    """AUTH-3: which one it is, and the command that takes it away."""
    forge = api(kind)
    forge.has(wanted.key.line, "pasted by \x1b[31mhand", write=False)
    error = refused(client(kind, forge.url), wanted)
    assert (error.exit_code, "(id 101)" in error.message) == (4, True)
    assert "101" in error.advice and {"github": "gh repo deploy-key delete", "gitlab": "glab api --method DELETE",
                                      "forgejo": "curl"}[kind] in error.advice  # fmt: skip
    assert [asked.method for asked in forge.asked if asked.method != "GET"] == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_token_that_is_not_accepted(kind: str, api: Answers, wanted: authorizing.Wanted) -> None:
    """AUTH-3: 401, with where the token is from and what one needs."""
    error = refused(client(kind, api(kind).url, "another"), wanted)
    assert (error.exit_code, error.kind) == (4, "auth")
    assert "does not accept the token from THE_VARIABLE (401)" in error.message
    assert str(UNSIGNED[kind]["message"]) in error.message
    assert {"github": "Administration", "gitlab": "`api`", "forgejo": "write:repository"}[kind] in error.advice


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize(
    ("status", "document", "headers", "code", "words"),
    [
        (403, {"message": "Resource not accessible by personal access token"}, {}, 4, "may not change the deploy keys"),
        (403, {"error": "insufficient_scope", "error_description": "more privileges"}, {}, 4, "more privileges"),
        (404, {"message": "Not Found"}, {}, 4, "me/kaoru.soul is not on"),
        (429, {"message": "slow down"}, {"Retry-After": "77"}, 5, "too many questions (429): slow down"),
        (403, {"message": "You have exceeded a secondary rate limit."}, {}, 5, "too many questions (403)"),
        (403, {"message": "x"}, {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1800000000"}, 5, "(403): x"),
        (500, b"<html>\x1b[2J</html>", {"Content-Type": "text/html"}, 5, "cannot answer now (500)"),
        (503, {"message": "maintenance"}, {}, 5, "cannot answer now (503): maintenance"),
        (301, {"message": "Moved"}, {"Location": "https://elsewhere.example/"}, 4, "sends to another place"),
        (418, {"message": f"no \x1b[31m{TOKEN}\u202e"}, {}, 4, "answers with 418: no \\x1b[31m…"),
        (200, b"<html>a login page</html>", {}, 4, "does not answer as the API of"),
        (200, {"message": "surprise"}, {}, 4, "does not answer as the API of"),
    ],
)  # fmt: skip
def test_an_answer_that_is_no_success(
    kind: str, method: str, status: int, document: object, headers: Mapping[str, str], code: int, words: str,
    api: Answers, wanted: authorizing.Wanted,
) -> None:  # fmt: skip
    """AUTH-3: each has its exit code, its words and what became of the key; nothing is asked anywhere else."""
    forge = api(kind, status, document, headers, method=method)
    error = refused(client(kind, forge.url), wanted)
    assert words in error.message and error.exit_code == code
    if headers.get("Retry-After"):
        assert "Wait 77 s." in error.advice
    if headers.get("X-RateLimit-Reset"):
        assert "Wait until 2027-01-15 08:00:00 UTC." in error.advice
    if status != 200:
        assert ("The key was not added." if method == "POST" else "Nothing was changed.") in error.advice
    assert forge.rows == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_key_that_is_in_use_elsewhere(kind: str, api: Answers, wanted: authorizing.Wanted) -> None:
    """AUTH-2, AUTH-3: 422, on GitLab 400, with the host's own words and the way out."""
    status, document = TAKEN[kind]
    error = refused(client(kind, api(kind, status, document, method="POST").url), wanted)
    assert f"refuses the key ({status})" in error.message and error.exit_code == 4
    assert "one repository only" in error.advice and "key rotate" in error.advice


def test_deploy_keys_that_an_organisation_forbids(api: Answers, wanted: authorizing.Wanted) -> None:
    """AUTH-3."""
    error = {"resource": "PublicKey", "code": "custom", "message": "Deploy keys are disabled for this repository"}
    forge = api("github", 422, {"message": "Validation Failed", "errors": [error]}, method="POST")
    found = refused(client("github", forge.url), wanted)
    assert "Deploy keys are disabled for this repository" in found.message and "allowed there" in found.advice


@pytest.mark.parametrize("kind", KINDS)
def test_a_title_that_another_key_has_is_made_another(kind: str, api: Answers, wanted: authorizing.Wanted) -> None:
    """AUTH-3: the body had another key before; that one is left alone."""
    forge = api(kind)
    forge.has("ssh-ed25519 AAAAold", "soul-bridge laptop")
    authorizing.authorize(client(kind, forge.url), wanted, lambda words: None)
    assert [row["title"] for row in forge.rows] == [
        "soul-bridge laptop", f"soul-bridge laptop {wanted.key.fingerprint[7:15]}"
    ]  # fmt: skip


# --- no answer, and answers without an end ---------------------------------------------------------------------------


class Line:
    """A server of one connection after the other, that does what it is told with each."""

    def __init__(self, does: Callable[[socket.socket], None]) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.heard = b""
        self._does = does
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection, contextlib.suppress(OSError):
                self._does(connection)

    def close(self) -> None:
        self._listener.close()


def _endless(connection: socket.socket) -> None:
    connection.recv(65536)
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n[")
    while True:
        connection.sendall(b" " * 65536)


def _drip(connection: socket.socket) -> None:
    connection.recv(65536)
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
    while True:
        connection.sendall(b" ")
        time.sleep(0.2)


def _informal(connection: socket.socket) -> None:
    connection.recv(65536)
    while True:
        connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        time.sleep(0.05)


def _silent(connection: socket.socket) -> None:
    time.sleep(5)


def _foreign(connection: socket.socket) -> None:
    connection.sendall(b"SSH-2.0-OpenSSH_9.2\x1b[2J\r\n")


def _short(connection: socket.socket) -> None:
    connection.recv(65536)
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n[")


@pytest.mark.parametrize("does", [_endless, _drip, _informal, _silent, _foreign, _short])
def test_a_host_that_never_ends_or_never_begins_is_given_up(
    does: Callable[[socket.socket], None], wanted: authorizing.Wanted
) -> None:
    """AUTH-3: within its time and its size, as unreachable."""
    line = Line(does)
    try:
        began = time.monotonic()
        error = refused(client("forgejo", f"http://127.0.0.1:{line.port}/api/v1", patience=QUICK), wanted)
        assert time.monotonic() - began < 30
        assert isinstance(error, Transient) and not isinstance(error, AnswerLost)
        assert error.exit_code == 5 and "Nothing was changed." in error.advice
    finally:
        line.close()


def test_an_addition_without_an_answer_may_have_been_done(api: Answers, wanted: authorizing.Wanted) -> None:
    """AUTH-3: that is said, and asking again is safe."""
    forge = api("forgejo")

    def late(asked: Asked) -> None:
        if asked.method == "POST":
            time.sleep(6)

    forge.answer = late  # type: ignore[assignment]
    error = refused(client("forgejo", forge.url, patience=QUICK), wanted)
    assert isinstance(error, AnswerLost) and "is not known" in error.advice


def test_nobody_there(wanted: authorizing.Wanted) -> None:
    """AUTH-3: no network, no server, no such name: nothing was sent."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        port = bound.getsockname()[1]
        error = refused(client("forgejo", f"http://127.0.0.1:{port}"), wanted)
    assert error.exit_code == 5 and "cannot reach 127.0.0.1" in error.message and "Nothing was sent" in error.advice
    error = refused(client("forgejo", "https://nowhere.invalid"), wanted)
    assert error.exit_code == 5 and "cannot reach nowhere.invalid" in error.message


@pytest.fixture
def secured(tmp_path: Path) -> Iterator[tuple[FakeForge, str, Path]]:
    """An API over TLS, with a certificate that only its own file vouches for."""
    certificate, key = tmp_path / "certificate.pem", tmp_path / "private.pem"
    own = Ed25519PrivateKey.generate()
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(name, name, own.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(own, None)
    )
    certificate.write_bytes(made.public_bytes(Encoding.PEM))
    key.write_bytes(own.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    forge = FakeForge("forgejo")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    forge._server.socket = context.wrap_socket(forge._server.socket, server_side=True)
    forge._server.handle_error = lambda *words: None  # type: ignore[method-assign]
    yield forge, f"localhost:{forge.port}/api/v1", certificate
    forge.close()


def test_a_certificate_that_nobody_vouches_for_gets_no_token(
    secured: tuple[FakeForge, str, Path], wanted: authorizing.Wanted
) -> None:
    """AUTH-3: the program trusts whom this machine trusts, and nothing switches that off."""
    forge, place, _ = secured
    error = refused(client("forgejo", f"https://{place}"), wanted)
    assert error.exit_code == 4 and "did not prove to be itself" in error.message and forge.asked == []


def test_a_certificate_for_another_name_gets_no_token(
    secured: tuple[FakeForge, str, Path], wanted: authorizing.Wanted, monkeypatch: pytest.MonkeyPatch
) -> None:
    """AUTH-3."""
    forge, place, certificate = secured
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    error = refused(client("forgejo", f"https://{place.replace('localhost', '127.0.0.1')}"), wanted)
    assert error.exit_code == 4 and "did not prove to be itself" in error.message and forge.asked == []


def test_an_authority_of_ones_own_is_accepted_when_the_machine_trusts_it(
    secured: tuple[FakeForge, str, Path], wanted: authorizing.Wanted, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """AUTH-3; what the environment says of proxies and session keys is not obeyed."""
    forge, place, certificate = secured
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    monkeypatch.setenv("SSLKEYLOGFILE", str(tmp_path / "keys.log"))
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:1")
    authorizing.authorize(client("forgejo", f"https://{place}"), wanted, lambda words: None)
    assert len(forge.rows) == 1 and not (tmp_path / "keys.log").exists()


def test_a_host_that_drips_over_tls_is_given_up(
    secured: tuple[FakeForge, str, Path], wanted: authorizing.Wanted, monkeypatch: pytest.MonkeyPatch
) -> None:
    """AUTH-3: within its time."""
    forge, place, certificate = secured
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    forge.drips, forge.answer = True, lambda asked: (200, {}, b" " * 1000)
    began = time.monotonic()
    error = refused(client("forgejo", f"https://{place}", patience=QUICK), wanted)
    assert time.monotonic() - began < 30 and isinstance(error, Transient) and "in time" in error.message


def test_plain_text_where_tls_should_be(api: Answers, wanted: authorizing.Wanted) -> None:
    """AUTH-3."""
    forge = api("forgejo")
    error = refused(client("forgejo", forge.url.replace("http:", "https:")), wanted)
    assert error.exit_code == 5 and "no TLS connection to" in error.message and forge.asked == []


@pytest.mark.parametrize(
    "url",
    [
        "http://git.example.org/api/v1", "http://10.0.0.1/api/v1", "http://0.0.0.0/", "ftp://git.example.org",
        "git.example", "https://", f"https://me:{TOKEN}@git.example.org/", "https://git.example.org/?token=x", "",
        "https://h:99999/",
        "https://git.example.org/\x1b[2J", "https://[::1", "http://localhost.example.org/",
    ],
)  # fmt: skip
def test_an_address_that_must_get_no_token_is_refused_before_anything_is_sent(url: str) -> None:
    """AUTH-3: https, or this machine itself."""
    with pytest.raises(Unusable) as caught:
        forges.base(url)
    assert (caught.value.exit_code, caught.value.rule) == (2, "AUTH-3")
    assert TOKEN not in caught.value.message and "\x1b" not in caught.value.message


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:8080/x", "http://[::1]:80", "http://localhost/", "https://h.example"]
)
def test_https_and_this_machine_are_accepted(url: str) -> None:
    """AUTH-3: for tests and tunnels."""
    assert forges.base(url).host


def test_nothing_that_is_printed_of_it_holds_the_token(api: Answers) -> None:
    """AUTH-3."""
    forge = client("github", api("github").url)
    shown = repr(forge) + repr(forge._api) + repr(forge._token) + str(vars(forge))
    assert TOKEN not in shown


def test_a_refusal_is_a_refusal_to_the_caller(api: Answers, wanted: authorizing.Wanted) -> None:
    """The families: a person has to act, or it passes by itself."""
    assert isinstance(refused(client("github", api("github", 404, {}).url), wanted), Refused)
    assert isinstance(refused(client("github", api("github", 502, {}).url), wanted), Transient)
