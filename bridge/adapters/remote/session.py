"""One SSH connection: this body's key alone, the pinned host key compared before anything of ours is shown."""

from __future__ import annotations

import base64
import contextlib
import errno
import hashlib
import io
import logging
import socket
import struct
import threading
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Protocol

from bridge.adapters.remote.lean import paramiko
from bridge.core.errors import HostKeyChanged, Refused, Transient
from bridge.core.words import advice, readable, told

PIECE = 32 * 1024
MOST_WORDS = 8192  # bytes of a server's last words
LOG = "soul-bridge.ssh"
IDLE = 30.0  # seconds after which paramiko's thread looks up while nothing happens
LAST_WORDS = 5.0  # seconds that a server has to say why it refused
_SOCKET_OPTIONS = (
    (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
    # paramiko's own keep-alive does not notice a dead link; the kernel's does.
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 30),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 10),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
    (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 30_000),
)
_RSA = ("rsa-sha2-512", "rsa-sha2-256")

logging.getLogger(LOG).propagate = False  # what paramiko logs reaches people as an error with advice, once
logging.getLogger(LOG).addHandler(logging.NullHandler())


class Address(Protocol):
    """Where the repository is (AUTH-1). path: as it is given to git on the server."""

    @property
    def user(self) -> str: ...
    @property
    def host(self) -> str: ...
    @property
    def port(self) -> int: ...
    @property
    def path(self) -> str: ...


class Key(Protocol):
    """A deploy key that passed its checks."""

    @property
    def private(self) -> bytes: ...


class HostKey(Protocol):
    """A server's public key, its blob in base64."""

    @property
    def type(self) -> str: ...
    @property
    def blob(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Access:
    """How to get in. key, pinned: asked again for every login, so that a change counts without a restart.

    detour: what to tell a person when nobody answers at that port, "" for nothing in particular.
    """

    address: Address
    key: Callable[[], Key]
    pinned: Callable[[], Collection[HostKey]]
    detour: str = ""

    def command(self, service: str) -> str:
        """The command line that the server's shell gets, quoted always: git-shell refuses a bare word.

        A path that begins in a home directory is not absolute.
        """
        path = self.address.path.removeprefix("/") if self.address.path.startswith("/~") else self.address.path
        quoted = path.replace("'", "'\\''")
        return f"{service} '{quoted}'"


class Session:
    """One authenticated connection. Made in two steps, so that it can be cut while it is being opened."""

    def __init__(self, access: Access, born: float) -> None:
        self.born = born
        self._access = access
        self._host = access.address.host
        self._socket: socket.socket | None = None
        self._transport: paramiko.Transport | None = None
        self._closed = False

    @property
    def alive(self) -> bool:
        """Whether, as far as anybody can tell, the connection stands."""
        return self._transport is not None and self._transport.is_active()

    def open(self, seconds: float) -> None:
        """Connect, compare the host key, log in: each within `seconds`."""
        pinned = list(self._access.pinned())
        if not pinned:
            raise _unknown_host(self._host)
        key = _private(self._access.key())
        self._socket = _connect(self._access.address, seconds, self._access.detour)
        self._transport = transport = _transport(self._socket, [key.type for key in pinned], seconds)
        _meet(transport, self._host, pinned, seconds)
        self._socket.settimeout(IDLE)  # paramiko sets 0.1, and would wake up ten times a second for it
        with _translated(self._host):
            try:
                missing = transport.auth_publickey(self._access.address.user, key)
            except paramiko.AuthenticationException as error:
                raise _unauthorised(transport, str(error)) from error
        if missing:
            raise _unauthorised(transport, f"the server also asks for {readable(', '.join(missing))}")
        if self._closed:
            self.close()
            raise Transient("the connection was closed")

    def run(self, command: str, seconds: float) -> SshChannel:
        """Start a command on a channel of its own."""
        if self._transport is None:
            raise Transient("the connection is closed")
        with _translated(self._host):
            channel = self._transport.open_session(timeout=min(seconds, IDLE))
            try:
                channel.exec_command(command)
            except paramiko.SSHException:
                if not self.alive:
                    raise
                # Closed before the reply to the request came: what it said, if anything, is read like any refusal.
        return SshChannel(channel)

    def close(self) -> None:
        """Cut the connection. Without the shutdown paramiko's thread would stay until its socket times out."""
        self._closed = True
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)
        if self._transport is not None:
            self._transport.close()
            if self._transport.is_alive():
                self._transport.join(5)
        if self._socket is not None:
            self._socket.close()


class SshChannel:
    """`wire.Channel` on a paramiko channel."""

    def __init__(self, channel: paramiko.Channel) -> None:
        self._channel = channel
        self._said = bytearray()

    def send(self, content: bytes, seconds: float) -> None:
        """As the wire asks."""
        self._channel.settimeout(seconds)
        rest = memoryview(content)
        with _translated("the server"):
            while rest:
                sent = self._channel.send(bytes(rest[:PIECE]))
                if not sent:
                    raise EOFError("it stopped listening")
                rest = rest[sent:]

    def recv(self, limit: int, seconds: float) -> bytes:
        """As the wire asks."""
        with _translated("the server"):
            while True:
                self._listen()
                self._channel.settimeout(min(seconds, 1.0))
                try:
                    return self._channel.recv(limit)
                except TimeoutError:
                    seconds -= 1.0
                    if seconds <= 0:
                        raise

    def stderr(self, seconds: float) -> bytes:
        """As the wire asks. What a server says may come after the end of its answer, so the exit code is awaited."""
        self._channel.settimeout(min(seconds, LAST_WORDS))
        with contextlib.suppress(OSError, EOFError, paramiko.SSHException):
            self._channel.status_event.wait(min(seconds, LAST_WORDS))
            while len(self._said) < MOST_WORDS and (piece := self._channel.recv_stderr(MOST_WORDS)):
                self._said += piece
        return bytes(self._said)

    def status(self) -> int | None:
        """As the wire asks."""
        code = self._channel.exit_status
        return None if code == -1 else code

    def close(self) -> None:
        """As the wire asks."""
        with contextlib.suppress(OSError, EOFError, paramiko.SSHException):
            self._channel.close()

    def _listen(self) -> None:
        """Take what is on the error stream: left there, it would use up the window, and the answer never come."""
        while self._channel.recv_stderr_ready():
            self._said += self._channel.recv_stderr(PIECE)
            del self._said[:-MOST_WORDS]


def offered(address: Address, types: Collection[str] = (), seconds: float = 15.0, detour: str = "") -> tuple[str, str]:
    """The host key that a server offers, as type and base64 blob, without logging in (AUTH-6).

    types: the types that are preferred. Raises Transient.
    """
    connection = _connect(address, seconds, detour)
    transport = _transport(connection, types, seconds, only=False)
    watch = threading.Timer(2 * seconds, connection.shutdown, (socket.SHUT_RDWR,))
    watch.start()
    try:
        with _translated(address.host):
            transport.start_client(timeout=seconds)
            key = transport.get_remote_server_key()
        return key.get_name(), key.get_base64()
    finally:
        watch.cancel()
        watch.join()
        with contextlib.suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)
        transport.close()
        transport.join(5)
        connection.close()


def _connect(address: Address, seconds: float, detour: str) -> socket.socket:
    connection = None
    try:
        connection = socket.create_connection((address.host, address.port), seconds)
        for level, option, value in _SOCKET_OPTIONS:
            connection.setsockopt(level, option, value)
    except OSError as error:
        if connection is not None:
            connection.close()
        words = error.strerror or str(error)
        closed = isinstance(error, ConnectionRefusedError | TimeoutError) or error.errno == errno.EHOSTUNREACH
        raise Transient(
            f"cannot reach {address.host}, port {address.port}: {words}", advice=detour if closed else ""
        ) from error
    return connection


def _transport(
    connection: socket.socket, types: Collection[str], seconds: float, only: bool = True
) -> paramiko.Transport:
    """A connection that speaks SSH; of the host key types, only (or first) those named."""
    transport = paramiko.Transport(connection)
    transport.daemon = True
    transport.set_log_channel(LOG)
    transport.banner_timeout = transport.handshake_timeout = seconds
    transport.auth_timeout = transport.channel_timeout = seconds
    options = transport.get_security_options()
    wanted = [name for key_type in types for name in (_RSA if key_type == "ssh-rsa" else (key_type,))]
    named = [name for name in wanted if name in options.key_types]
    others = [] if only and named else [name for name in options.key_types if name not in named]
    options.key_types = (*dict.fromkeys(named), *others)
    return transport


def _meet(transport: paramiko.Transport, host: str, pinned: Collection[HostKey], seconds: float) -> None:
    """Agree on keys and compare the host's with the pinned ones, before anything of ours is shown."""
    with _translated(host):
        try:
            transport.start_client(timeout=seconds)
        except paramiko.ssh_exception.IncompatiblePeer as error:
            if "host key" not in str(error):
                raise
            raise _changed_host(host, "none of its pinned type", pinned) from error
        key = transport.get_remote_server_key()
    if key.get_base64() not in {known.blob for known in pinned}:
        raise _changed_host(host, _fingerprint(key.get_base64()), pinned)


def _private(key: Key) -> paramiko.PKey:
    try:
        return paramiko.Ed25519Key.from_private_key(io.StringIO(key.private.decode()))
    except (paramiko.SSHException, ValueError) as error:
        raise Refused(
            f"the key cannot be used: {error}",
            kind="auth",
            rule="AUTH-2",
            advice="Nothing was sent; local work is safe and goes on. `soul-bridge doctor` looks at the key's file; "
            "`soul-bridge key rotate` makes a new key.",
        ) from error


@contextlib.contextmanager
def _translated(host: str) -> Iterator[None]:
    """Whatever paramiko raises, its thread's own accidents with hostile packets included, is an unreachable remote."""
    try:
        yield
    except TimeoutError as error:
        raise Transient(f"{host} does not answer") from error
    except (paramiko.SSHException, EOFError, OSError, ValueError, LookupError, struct.error) as error:
        words = readable(str(error)) or "it was cut"
        raise Transient(f"the connection to {host} failed: {words}") from error


def _unauthorised(transport: paramiko.Transport, reason: str) -> Refused:
    words = "\n".join(said for said in (readable(reason).rstrip("."), told(transport.get_banner() or b"")) if said)
    return Refused(
        f"the server does not accept this body's key: {words}",
        kind="auth",
        rule="AUTH-5",
        advice=advice("publickey"),
    )


def _unknown_host(host: str) -> Refused:
    return Refused(
        f"the host key of {host} is not pinned",
        kind="hostkey",
        rule="AUTH-6",
        advice="Nothing was sent. `soul-bridge accept-host-key` shows its fingerprint and pins it once you agree.",
    )


def _changed_host(host: str, found: str, pinned: Collection[HostKey]) -> Refused:
    expected = ", ".join(_fingerprint(key.blob) for key in pinned)
    return HostKeyChanged(
        f"the host key of {host} has changed: it offers {found}, pinned is {expected}",
        rule="AUTH-6",
        advice="Nothing was sent; local work is safe. Ask the host's owner whether that is right, then run "
        "`soul-bridge accept-host-key`.",
    )


def _fingerprint(blob: str) -> str:
    digest = hashlib.sha256(base64.b64decode(blob)).digest()
    return "SHA256:" + base64.b64encode(digest).decode().rstrip("=")
