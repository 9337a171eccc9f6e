"""A git host on the loopback interface, for the demo and the tests: bare repositories behind SSH with deploy keys.

It behaves as the big hosts do: a key opens the repositories it was added to and no other, may be read-only, and stops
working the moment it is taken away. It listens on 127.0.0.1 and nowhere else.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shlex
import signal
import socket
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import IO

import paramiko
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from paramiko import common

from bridge.adapters.gitenv import clean_environment

PIECE = 64 * 1024
LOG = "soul-bridge.host"
SERVICES = {"git-upload-pack": "upload-pack", "git-receive-pack": "receive-pack"}
NOT_FOUND = b"ERROR: Repository not found.\n"
READ_ONLY = b"ERROR: The key you are authenticating with has been marked as read only.\n"

logging.getLogger(LOG).propagate = False  # paramiko logs what its clients do wrong; nobody here asked
logging.getLogger(LOG).addHandler(logging.NullHandler())


class Host:
    """Repositories below `root`; serves from `start` to `stop`. `log`: every command it was asked to run."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.log: list[str] = []
        self._host_key = new_key(root)
        self._grants: dict[str, dict[str, bool]] = {}  # repository: the keys' blobs, and whether each may write
        self._sessions: list[Session] = []
        self._threads: list[threading.Thread] = []
        self._children: set[subprocess.Popen[bytes]] = set()
        self._lock = threading.Lock()
        self._stopping = False
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]

    def start(self) -> Host:
        """Serve, in threads of its own."""
        self.run_beside(self._accept)
        return self

    def stop(self) -> None:
        """Cut every connection, end every child and wait for every thread."""
        with self._lock:
            self._stopping = True
            sessions, children = list(self._sessions), list(self._children)
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for session in sessions:
            session.cut()
        for child in children:
            _kill(child)
        while True:
            with self._lock:
                waiting = [thread for thread in self._threads if thread.is_alive()]
            if not waiting:
                break
            waiting[0].join()
        for session in sessions:
            session.transport.join()

    def host_key_line(self) -> str:
        """The line that pins this host in a known_hosts file."""
        return f"[127.0.0.1]:{self.port} {self._host_key.get_name()} {self._host_key.get_base64()}"

    def fingerprint(self) -> str:
        """The host key's fingerprint, SHA256:…"""
        return str(self._host_key.fingerprint)

    def address(self, repo: str) -> str:
        """What to write as `remote` in a configuration."""
        return f"ssh://git@127.0.0.1:{self.port}/{repo}"

    def create(self, repo: str) -> Path:
        """Make an empty bare repository, such as "kaoru.soul.git", and give its directory."""
        place = self.root / repo
        with self._lock:
            self._grants.setdefault(repo, {})
        for command in (["init", "-q", "--bare", "-b", "main", str(place)], ["config", "receive.autogc", "false"]):
            subprocess.run(
                ["git", *command], check=True, env=self.environment(), cwd=place if place.exists() else self.root
            )
        return place

    def authorize(self, repo: str, public_line: str, write: bool = True) -> None:
        """Add a deploy key to one repository."""
        with self._lock:
            self._grants[repo][public_line.split()[1]] = write

    def revoke(self, repo: str, public_line: str) -> None:
        """Take a deploy key away; its open connections end at once."""
        blob = public_line.split()[1]
        with self._lock:
            self._grants[repo].pop(blob, None)
            sessions = [session for session in self._sessions if session.blob == blob]
        for session in sessions:
            session.cut()

    def grants(self, blob: str) -> dict[str, bool]:
        """The repositories a key opens, and whether it may write there."""
        with self._lock:
            return {repo: keys[blob] for repo, keys in self._grants.items() if blob in keys}

    def environment(self) -> dict[str, str]:
        """Environment of the git children."""
        clean = {name: value for name, value in clean_environment().items() if name != "GIT_GRAFT_FILE"}
        return {**clean, "HOME": str(self.root)}

    def run_beside(self, work: Callable[..., None], *args: object) -> threading.Thread:
        """Run something in a thread that `stop` waits for."""
        thread = threading.Thread(target=work, args=args, name="soul-bridge-host", daemon=True)
        with self._lock:
            self._threads = [known for known in self._threads if known.is_alive()]
            thread.start()
            self._threads.append(thread)
        return thread

    def greet(self, connection: socket.socket) -> None:
        """Speak SSH on a new connection."""
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        transport = paramiko.Transport(connection)
        transport.set_log_channel(LOG)
        transport.add_server_key(self._host_key)
        session = Session(self, transport, connection)
        with self._lock:
            if self._stopping:
                connection.close()
                return
            self._sessions = [known for known in self._sessions if known.transport.is_alive()]
            transport.start_server(event=threading.Event(), server=session)
            self._sessions.append(session)

    def execute(self, session: Session, channel: paramiko.Channel, command: str) -> None:
        """Run a command that a client asked for, if its key may, and close the channel."""
        self.log.append(command)
        with contextlib.suppress(OSError, EOFError, paramiko.SSHException), contextlib.closing(channel):
            words = shlex.split(command)
            repo = words[1].strip("/") if len(words) == 2 else ""
            write = self.grants(session.blob).get(repo)
            if words[0] not in SERVICES or write is None:
                refuse(channel, NOT_FOUND)
            elif words[0] == "git-receive-pack" and not write:
                refuse(channel, READ_ONLY)
            else:
                self.serve(channel, SERVICES[words[0]], self.root / repo)

    def serve(self, channel: paramiko.Channel, service: str, place: Path) -> None:
        """Join a git child and the channel until the child has ended."""
        child = subprocess.Popen(
            ["git", service, str(place)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=self.environment(),
            bufsize=0,
            start_new_session=True,
        )
        with self._lock:
            self._children.add(child)
        if self._stopping:
            _kill(child)
        with child:
            self.run_beside(_feed, channel, child)
            errors = self.run_beside(_tell, channel, child)
            try:
                self.answer(channel, child)
            except (OSError, EOFError, paramiko.SSHException):
                while read(child.stdout):  # a client that left early does not hurt a hook that is still running
                    pass
            errors.join()
            code = child.wait()
        with self._lock:
            self._children.discard(child)
        channel.send_exit_status(code if code >= 0 else 128 - code)

    def answer(self, channel: paramiko.Channel, child: subprocess.Popen[bytes]) -> None:
        """Carry what the child says to the client."""
        while piece := read(child.stdout):
            channel.sendall(piece)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.greet(connection)


class Session(paramiko.ServerInterface):
    """One client's connection: which key it proved to have, and what it may ask for."""

    def __init__(self, host: Host, transport: paramiko.Transport, connection: socket.socket) -> None:
        self.host = host
        self.transport = transport
        self.blob = ""
        self._connection = connection

    def cut(self) -> None:
        """End the connection at once."""
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        self.transport.close()

    def get_allowed_auths(self, username: str) -> str:
        return "publickey"

    def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:
        if username != "git" or not self.host.grants(key.get_base64()):
            return common.AUTH_FAILED
        self.blob = key.get_base64()
        return common.AUTH_SUCCESSFUL

    def check_channel_request(self, kind: str, chanid: int) -> int:
        return common.OPEN_SUCCEEDED if kind == "session" else common.OPEN_FAILED_ADMINISTRATIVELY_PROHIBITED

    def check_channel_exec_request(self, channel: paramiko.Channel, command: bytes) -> bool:
        self.host.run_beside(self.host.execute, self, channel, command.decode("utf-8", "replace"))
        return True


def new_key(root: Path) -> paramiko.PKey:
    """The host's key, kept below root so that a host that is started again is the same one."""
    path = root / "host_key"
    if not path.exists():
        root.mkdir(parents=True, exist_ok=True)
        private = Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(private)
    return paramiko.Ed25519Key.from_private_key_file(str(path))


def refuse(channel: paramiko.Channel, words: bytes) -> None:
    """End a command as a forced command does: words on the error stream, nothing else."""
    channel.sendall_stderr(words)
    channel.send_exit_status(1)


def read(pipe: IO[bytes] | None) -> bytes:
    """What a child's pipe has now, b"" at its end."""
    return b"" if pipe is None else os.read(pipe.fileno(), PIECE)


def _feed(channel: paramiko.Channel, child: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(OSError, ValueError):
        while child.stdin is not None and (piece := channel.recv(PIECE)):
            child.stdin.write(piece)
        if child.stdin is not None:
            child.stdin.close()


def _tell(channel: paramiko.Channel, child: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(OSError, EOFError, paramiko.SSHException):
        while piece := read(child.stderr):
            channel.sendall_stderr(piece)


def _kill(child: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
