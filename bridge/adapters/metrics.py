"""Numbers where a program of this machine looks for them: answered over HTTP on loopback, or in a file.

One thread answers on all addresses, one question after the other, each within its size and its time.
"""

from __future__ import annotations

import contextlib
import ipaddress
import logging
import os
import selectors
import socket
import threading
from collections.abc import Callable
from pathlib import Path

from bridge.core.errors import Transient
from bridge.core.exposition import CONTENT_TYPE
from bridge.core.ports import Clock

LONGEST = 8 * 1024  # bytes of a question
PATIENCE = 2.0  # seconds for a question to arrive, and for its answer to be taken
LOOK = 5.0  # seconds after which a new address is looked at where the system does not wake a selector for it
WAITING = 16  # questions that may wait for their turn

_log = logging.getLogger(__name__)

Address = tuple[str, int]
Render = Callable[[], str]


class Listener:
    """Answers `GET /metrics` on addresses, in a thread of its own that begins with the first of them."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._selector = selectors.DefaultSelector()
        self._known: dict[Address, tuple[socket.socket, Render]] = {}
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def open(self, address: Address, answer: Render) -> None:
        """Answer there. Raises Transient(kind="busy") when the address cannot be had."""
        host, port = address
        listening = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.setblocking(False)
            listening.bind(address)
            listening.listen(WAITING)
        except OSError as error:
            listening.close()
            raise Transient(
                f"metrics cannot be asked for at {shown(address)}: {error.strerror or error}",
                kind="busy",
                advice=f"See who is there: ss -ltnp 'sport = :{port}'; or choose another port in metrics.listen.",
            ) from error
        with self._lock:
            self._known[address] = (listening, answer)
            self._selector.register(listening, selectors.EVENT_READ, address)
            if self._thread is None:
                self._thread = threading.Thread(target=self._serve, name="metrics", daemon=True)
                self._thread.start()

    def close(self, address: Address) -> None:
        """Answer there no more. Never raises."""
        with self._lock, contextlib.suppress(KeyError):
            listening, _ = self._known.pop(address)
            self._selector.unregister(listening)
            listening.close()

    def _serve(self) -> None:
        while True:
            for key, _ in self._selector.select(LOOK):
                with self._lock:
                    listening, answer = self._known.get(key.data, (None, None))
                if listening is not None and answer is not None:
                    self._accept(listening, answer)

    def _accept(self, listening: socket.socket, answer: Render) -> None:
        try:
            connection, _ = listening.accept()
        except OSError:
            threading.Event().wait(0.05)  # gone again, or out of descriptors: without a pause this would spin
            return
        with connection, contextlib.suppress(OSError):
            connection.settimeout(PATIENCE)
            connection.sendall(reply(self._question(connection), answer))
            connection.shutdown(socket.SHUT_WR)

    def _question(self, connection: socket.socket) -> bytes:
        """The head of a question; b"" for one that is too long or too slow."""
        end, head = self._clock.boottime() + PATIENCE, b""
        while b"\r\n\r\n" not in head and b"\n\n" not in head:
            left = end - self._clock.boottime()
            if left <= 0 or len(head) >= LONGEST:
                return b""
            connection.settimeout(left)
            piece = connection.recv(LONGEST - len(head))
            if not piece:
                return b""
            head += piece
        connection.settimeout(PATIENCE)
        return head


def reply(head: bytes, answer: Render) -> bytes:
    """The whole answer to a question's head. Nothing is answered but `GET /metrics`, and nobody but this machine."""
    lines = head.decode("latin-1").splitlines()
    words = lines[0].split(" ") if lines else []
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        return _answer("400 Bad Request", "this is no question\n")
    names = [line.partition(":")[2].strip() for line in lines[1:] if line.lower().startswith("host:")]
    if any(not _is_here(name) for name in names):
        # A page in a browser may ask by a name of its own that leads here.
        return _answer("403 Forbidden", "ask by the address of this machine itself\n")
    if words[0] != "GET":
        return _answer("405 Method Not Allowed", "GET is all that can be done here\n", "Allow: GET\r\n")
    if words[1].partition("?")[0] != "/metrics":
        return _answer("404 Not Found", "there is only /metrics\n")
    try:
        return _answer("200 OK", answer())
    except Exception:  # noqa: BLE001 - a fault in telling numbers must neither end this thread nor be silent
        _log.exception("numbers could not be told")
        return _answer("500 Internal Server Error", "a fault of soul-bridge; its log has the details\n")


def _is_here(name: str) -> bool:
    host = name[1 : name.index("]")] if name.startswith("[") and "]" in name else name.partition(":")[0]
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _answer(state: str, body: str, more: str = "") -> bytes:
    content = body.encode("utf-8", "replace")
    kind = CONTENT_TYPE if state.startswith("200") else "text/plain; charset=utf-8"
    head = (
        f"HTTP/1.1 {state}\r\nContent-Type: {kind}\r\nContent-Length: {len(content)}\r\n{more}Connection: close\r\n\r\n"
    )
    return head.encode("ascii") + content


def shown(address: Address) -> str:
    """An address as it is written in the configuration."""
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def write(path: Path, text: str) -> None:
    """Put a text there, whole or not at all, for everybody to read (0644). Raises Transient(kind="disk").

    It is written anew after every pass, so it need not outlive a power cut and costs no fsync.
    """
    fresh = path.with_name(f".{path.name}.{os.getpid()}.new")  # nobody collects a name that does not end in .prom
    try:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(fresh)
        # Made here and by nobody else, for the folder may be one that others write to.
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
        with open(descriptor, "wb") as file:
            os.fchmod(descriptor, 0o644)
            file.write(text.encode("utf-8", "replace"))
        os.replace(fresh, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            os.unlink(fresh)
        raise Transient(
            f"metrics cannot be written to {path}: {error.strerror or error}",
            kind="disk",
            advice=f"See ls -ld {path.parent}; in a unit of systemd the folder also has to be in ReadWritePaths=.",
        ) from error
