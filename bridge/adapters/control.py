"""How a command talks to a running daemon: one line of JSON there, one line back, over a socket of its owner only.

A request is {"command": …, …}; an answer is any object, {"error": {kind, rule, message, advice}} for a SoulError.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import socket
import struct
import threading
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any, Protocol

from bridge.core.errors import EXIT_CODES, Refused, SoulError, Transient, doubtful

REQUEST_LIMIT = 64 * 1024  # bytes of a line
ANSWER_LIMIT = 16 * 1024 * 1024
PATIENCE = 5.0  # seconds for a request to arrive, and for an answer to be taken
CONNECTIONS = 16  # that may wait for an answer, and as many that have asked nothing yet
QUEUE = 64  # that are not let in yet
PAUSE = 0.05  # seconds before one who found the queue full tries again
LOOK = 2.0  # seconds between two looks at whether commands still find the socket

_log = logging.getLogger(__name__)

Answer = Callable[[dict[str, Any]], dict[str, Any]]


class Held(Protocol):
    """The lock that makes its holder the only one who may put a socket there."""

    @property
    def held(self) -> bool:
        """Whether it is held."""


class Server:
    """Answers on `path` from `start` to `close`; `answer` is called in a thread per request, several at a time.

    `answer` may take its time and may raise SoulError; the other end is told. Only the holder of `lock` may start one.
    `idle` is called every `LOOK` seconds or so while nobody comes; it may not raise. `prompt`: commands whose answer
    takes no time, so that it is given however many others wait for theirs.
    """

    def __init__(
        self,
        path: Path,
        answer: Answer,
        lock: Held,
        idle: Callable[[], None] = lambda: None,
        prompt: Collection[str] = (),
    ) -> None:
        self._path = path
        self._answer = answer
        self._lock = lock
        self._idle = idle
        self._prompt = prompt
        self._socket: socket.socket | None = None
        self._identity: tuple[int, int] | None = None
        self._changing = threading.RLock()  # the socket: it is renewed and closed by different threads
        self._slots = threading.BoundedSemaphore(CONNECTIONS)
        self._mute: dict[socket.socket, None] = {}  # who has not asked yet, who came first in front
        self._counting = threading.Lock()

    def start(self) -> None:
        """Begin to answer, in place of a socket that a dead daemon left. Raises Refused(kind="busy"), Transient."""
        if not self._lock.held:
            raise Refused(f"{self._path} belongs to whoever holds the lock", kind="busy", advice="soul-bridge status")
        with self._changing:
            self._listen()

    @property
    def stands(self) -> bool:
        """Whether commands find this server by its path; True for one that does not answer."""
        with self._changing:
            return self._socket is None or self._is_there()

    def renew(self) -> None:
        """Answer by the path again, where the socket was taken away from it. Raises as `start`; once closed, nothing
        is done."""
        with self._changing:
            before = self._socket
            if before is not None and not self._is_there():
                self.start()
                _end(before)

    def _listen(self) -> None:
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            # Set before bind, this is the mode that the file is born with.
            os.fchmod(listening.fileno(), 0o600)
            with contextlib.suppress(FileNotFoundError):
                self._path.unlink()
            with _short(self._path) as name:
                listening.bind(name)
            os.chmod(self._path, 0o600)
            found = os.stat(self._path)
            listening.listen(QUEUE)
            listening.settimeout(LOOK)
        except OSError as error:
            listening.close()
            raise Transient(f"{self._path} cannot be made: {error.strerror or error}", kind="disk") from error
        self._socket, self._identity = listening, (found.st_dev, found.st_ino)
        threading.Thread(target=self._accept, args=(listening,), name="control", daemon=True).start()

    def close(self) -> None:
        """Stop answering and take the socket away, unless another's stands there by now. Never raises."""
        with self._changing:
            listening, self._socket = self._socket, None
            if listening is None:
                return
            _end(listening)
            with contextlib.suppress(OSError):
                if self._is_there():
                    self._path.unlink()

    def _is_there(self) -> bool:
        try:
            found = os.stat(self._path, follow_symlinks=False)
        except OSError:
            return False
        return (found.st_dev, found.st_ino) == self._identity

    def _accept(self, listening: socket.socket) -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except TimeoutError:
                self._idle()
                continue
            except OSError:
                if self._socket is not listening:
                    return
                # Out of descriptors, most likely: without a pause this would spin.
                threading.Event().wait(0.2)
                continue
            self._admit(connection)
            try:
                threading.Thread(target=self._serve, args=(connection,), name="control-answer", daemon=True).start()
            except RuntimeError:  # no thread is to be had: this one goes, the next may be luckier
                self._heard(connection)
                connection.close()

    def _admit(self, connection: socket.socket) -> None:
        """Let another one in, for which whoever has been silent longest has to go: nobody can fill the room."""
        with self._counting:
            self._mute[connection] = None
            if len(self._mute) > CONNECTIONS:
                silent = next(iter(self._mute))
                del self._mute[silent]
                _hush(silent)

    def _heard(self, connection: socket.socket) -> None:
        with self._counting:
            self._mute.pop(connection, None)

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            _send(connection, self._reply(connection))

    def _reply(self, connection: socket.socket) -> dict[str, Any]:
        try:
            if _peer(connection) != os.geteuid():
                message = "only the user that the daemon runs as may talk to it"
                advice = f"Nothing was done. Ask as that user: `sudo -u '#{os.geteuid()}' soul-bridge status`."
                return _error(Refused(message, kind="auth", advice=advice))
            request = _request(connection)
        except (OSError, ValueError, RuntimeError) as error:
            advice = "Nothing was done. `soul-bridge --help` shows what can be asked, and how."
            return _error(Refused(f"this is not a request: {error}", kind="usage", advice=advice))
        finally:
            self._heard(connection)
        if request.get("command") in self._prompt:
            return self._answered(request)
        if not self._slots.acquire(blocking=False):
            message = f"{CONNECTIONS} commands wait for this daemon already; nothing of this one was done"
            return _error(Transient(message, kind="busy", advice="Ask again in a moment."))
        try:
            return self._answered(request)
        finally:
            self._slots.release()

    def _answered(self, request: dict[str, Any]) -> dict[str, Any]:
        try:
            return self._answer(request)
        except SoulError as error:
            return _error(error)
        except Exception as error:  # noqa: BLE001 - a bug: told to the one who asked, kept in the log
            _log.exception("a request failed")
            return _error(SoulError(f"the daemon failed: {type(error).__name__}: {error}"))


def ask(path: Path, request: dict[str, Any], timeout: float) -> dict[str, Any] | None:
    """The daemon's answer within `timeout` seconds, or None when no daemon is there.

    Raises the SoulError that it answered with, and Transient(kind="busy") when it does not answer in time.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(timeout)
        try:
            _connect(connection, path, timeout)
        except (FileNotFoundError, ConnectionRefusedError, NotADirectoryError):
            return None
        except OSError as error:
            raise Transient(f"{path} cannot be reached: {error}", kind="busy", advice="soul-bridge status") from error
        try:
            # Turned away before we spoke: the reason is there to be read all the same.
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                connection.sendall(_encoded(request))
            answer = json.loads(_line(connection, ANSWER_LIMIT))
        except TimeoutError as error:
            raise doubtful(request, f"the daemon did not answer within {timeout:g} s") from error
        except (OSError, ValueError, RecursionError) as error:
            raise doubtful(request, f"the daemon ended before it had answered: {error}") from error
    if not isinstance(answer, dict):
        raise Transient("the daemon's answer is not an object", kind="internal")
    if "error" in answer:
        raise _raised(answer["error"])
    return answer


def _connect(connection: socket.socket, path: Path, timeout: float) -> None:
    """Connect; where others stand in the queue, wait for a place. Raises OSError."""
    with _short(path) as name:
        for _ in range(int(timeout / PAUSE)):
            with contextlib.suppress(BlockingIOError):
                return connection.connect(name)
            threading.Event().wait(PAUSE)
        connection.connect(name)


def _raised(error: Any) -> SoulError:
    fields = error if isinstance(error, dict) else {}
    told = {key: str(fields.get(key, "")) for key in ("kind", "rule", "message", "advice")}
    kind = told["kind"]
    family = Transient if kind in ("network", "busy", "disk") else Refused
    return family(
        told["message"] or "the daemon failed",
        kind=kind if kind in EXIT_CODES else "internal",
        rule=told["rule"],
        advice=told["advice"],
    )


@contextlib.contextmanager
def _short(path: Path) -> Iterator[str]:
    """A name of at most 107 bytes for a socket, however deep its directory is."""
    if len(os.fsencode(path)) < 108:
        yield str(path)
        return
    directory = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{directory}/{path.name}"
    finally:
        os.close(directory)


def _end(listening: socket.socket) -> None:
    with contextlib.suppress(OSError):
        listening.shutdown(socket.SHUT_RDWR)
    listening.close()


def _peer(connection: socket.socket) -> int:
    packed = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    user: int = struct.unpack("3i", packed)[1]
    return user


def _request(connection: socket.socket) -> dict[str, Any]:
    """What is asked, within `PATIENCE` seconds in all, however slowly it comes."""
    connection.settimeout(PATIENCE)
    watch = threading.Timer(PATIENCE, _hush, (connection,))
    watch.daemon = True
    watch.start()
    try:
        request = json.loads(_line(connection, REQUEST_LIMIT))
    finally:
        watch.cancel()
    if not isinstance(request, dict):
        raise ValueError("an object is expected")
    return request


def _hush(connection: socket.socket) -> None:
    """Hear no more of a visitor, who may still be told why."""
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RD)


def _line(connection: socket.socket, limit: int) -> bytes:
    received = bytearray()
    while b"\n" not in received:
        chunk = connection.recv(65536)
        if not chunk:
            raise ConnectionError("it ended before its end of line")
        received += chunk
        if len(received) > limit:
            raise ValueError(f"it is longer than {limit} bytes")
    return bytes(received[: received.index(b"\n")])


def _encoded(value: dict[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode("ascii") + b"\n"


def _error(error: SoulError) -> dict[str, Any]:
    return {"error": error.as_dict()}


def _send(connection: socket.socket, answer: dict[str, Any]) -> None:
    with contextlib.suppress(OSError):
        connection.sendall(_encoded(answer))
