"""Facts as JSON lines in a file, and the log (structlog, which is imported at the first of either).

The log is words on a terminal, fields where the journal of systemd listens, else a JSON object on each line.

A fact says that something happened, in the past tense, and never what a file holds.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import logging
import os
import re
import socket
import struct
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from bridge.core.instants import iso
from bridge.core.words import escaped, line, readable

if TYPE_CHECKING:
    from bridge.core.ports import Clock

LARGEST = 1024 * 1024  # bytes of events.jsonl before it becomes events.jsonl.1
KEPT = 3  # older files
LONGEST = 500  # characters of a text in a fact: more would be contents, not a fact
MOST = 1000  # items of a list in a fact
LEVELS = {"debug": 10, "info": 20, "warning": 30, "warn": 30, "error": 40, "critical": 50}
JOURNAL = Path("/run/systemd/journal/socket")
_FOR_PEOPLE = ("sentence", "problem", "advice")  # facts in words, with what others named in them
_LONGEST_FIELD = 16_000  # characters: an entry is one datagram
_PATIENCE = 1.0  # seconds: a journal that hangs must not hold a pass up
_PRIORITIES = {10: 7, 20: 6, 30: 4, 40: 3, 50: 2}  # as syslog counts
_POLL = 0.2


class Events:
    """Appends facts to `path`, each with the soul, the body and the present pass. Safe from several threads."""

    def __init__(self, path: Path, agent: str, body: str, clock: Clock, largest: int = LARGEST) -> None:
        self._path = path
        self._bound: dict[str, Any] = {"agent": agent, "body": body, "pass": None}
        self._clock = clock
        self._largest = largest
        self._lock = threading.Lock()
        self._logger: Any = None

    def bind_pass(self, id: str | None) -> None:
        """Name the pass that the next facts belong to; None: none."""
        self._bound["pass"] = id

    def record(self, event: str, **fields: Any) -> None:
        """Write one fact. Never raises: a full disk loses facts, not memories."""
        with contextlib.suppress(OSError, ValueError, TypeError, RecursionError), self._lock:
            if self._logger is None:
                self._logger = self._pipeline()
            self._logger.info(event, **fields)

    def _pipeline(self) -> Any:
        import structlog

        return structlog.wrap_logger(
            _Lines(self._append),
            processors=[self._ordered, structlog.processors.JSONRenderer(serializer=_dumps)],
            wrapper_class=structlog.BoundLogger,
        )

    def _ordered(self, _logger: Any, _method: str, fields: MutableMapping[str, Any]) -> Mapping[str, Any]:
        head = {"at": iso(self._clock.now()), "event": fields.pop("event"), **self._bound}
        return head | {name: _shown(value) for name, value in fields.items()}

    def _append(self, line: str) -> None:
        content = line.encode("utf-8", "backslashreplace") + b"\n"
        descriptor = self._opened()
        try:
            size = os.fstat(descriptor).st_size
            if size and size + len(content) > self._largest:
                self._rotate()
                fresh = self._opened()  # first: were the old one closed and this failed, it would be closed twice
                os.close(descriptor)
                descriptor = fresh
            elif size and os.pread(descriptor, 1, size - 1) != b"\n":
                # A crash left half a line: it must not swallow this one.
                content = b"\n" + content
            os.write(descriptor, content)
        finally:
            os.close(descriptor)

    def _opened(self) -> int:
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        return os.open(self._path, flags, 0o600)

    def _rotate(self) -> None:
        for number in range(KEPT, 0, -1):
            older = self._path if number == 1 else _numbered(self._path, number - 1)
            with contextlib.suppress(FileNotFoundError):
                os.replace(older, _numbered(self._path, number))


class _Lines:
    """What structlog calls a logger: takes the rendered line of every level."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self.info = write


def read_events(path: Path, follow: bool, sleep: Callable[[float], None]) -> Iterator[dict[str, Any]]:
    """Every fact that is kept, oldest first; with `follow` also those to come, for ever (`sleep` waits between looks).

    Half lines and lines that are not JSON objects are left out.
    """
    for number in range(KEPT, 0, -1):
        with contextlib.suppress(OSError), _numbered(path, number).open("rb") as older:
            yield from _facts(older.readlines())
    file = None
    try:
        while True:
            if file is None:
                with contextlib.suppress(OSError):
                    file = path.open("rb")
            # Asked before reading: what is read after a rotation was seen is the old file's last word.
            rotated = file is not None and not _is_at(file.fileno(), path)
            if file is not None:
                yield from _facts(_whole_lines(file))
            if rotated and file is not None:
                file.close()
                file = None
            elif not follow:
                return
            else:
                sleep(_POLL)
    finally:
        if file is not None:
            file.close()


def _whole_lines(file: Any) -> Iterator[bytes]:
    while True:
        start = file.tell()
        each = file.readline()
        if not each.endswith(b"\n"):
            file.seek(start)
            return
        yield each


def _facts(lines: Any) -> Iterator[dict[str, Any]]:
    for each in lines:
        with contextlib.suppress(ValueError, RecursionError):
            fact = json.loads(each)
            if isinstance(fact, dict):
                yield fact


def _is_at(descriptor: int, path: Path) -> bool:
    with contextlib.suppress(OSError):
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    return False


def _numbered(path: Path, number: int) -> Path:
    return path.with_name(f"{path.name}.{number}")


def _dumps(value: Any, **options: Any) -> str:
    return escaped(json.dumps(value, ensure_ascii=False, separators=(", ", ": "), default=str))


def _shown(value: Any) -> Any:
    if isinstance(value, (bytes, bytearray, memoryview)):
        return f"<{len(value)} bytes>"
    if isinstance(value, str):
        return value if len(value) <= LONGEST else value[:LONGEST] + "…"
    if isinstance(value, Mapping):
        return {str(key): _shown(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        shown = [_shown(item) for item in itertools.islice(value, MOST)]
        return shown if len(value) <= MOST else [*shown, f"… and {len(value) - MOST} more"]
    return value


def logger(level: str = "info", color: bool = True, stream: TextIO | None = None, journal: Path | None = None) -> Any:
    """The log: readable and, where wanted, coloured on a terminal; fields for the journal's socket where one is given;
    else one JSON object on each line.

    Other libraries' warnings go the same way. An unknown level counts as "info".
    """
    import structlog

    stream = sys.stderr if stream is None else stream
    threshold = LEVELS.get(level, LEVELS["info"])
    terminal = stream.isatty()
    write = _Journal(journal, stream) if journal is not None and not terminal else None
    last: list[Any]
    if terminal:
        last = [structlog.dev.ConsoleRenderer(colors=color)]
    else:
        line = structlog.processors.JSONRenderer(serializer=_dumps)
        last = [structlog.processors.format_exc_info, _first_things_first, write or line]
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *last,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(threshold),
        logger_factory=structlog.WriteLoggerFactory(stream),
        cache_logger_on_first_use=False,
    )
    log = structlog.get_logger()
    _hear_others(threshold, log)
    return log


def journal_of(stream: TextIO, named: str, socket_path: Path = JOURNAL) -> Path | None:
    """The socket of the journal, where systemd says (`JOURNAL_STREAM`: "device:inode") that this stream leads there."""
    with contextlib.suppress(OSError, ValueError):
        here = os.fstat(stream.fileno())
        if named == f"{here.st_dev}:{here.st_ino}" and socket_path.exists():
            return socket_path
    return None


class _Journal:
    """The last step of the log: an entry with its fields is sent to the journal, in its own protocol.

    What cannot be sent becomes a line of the stream, which leads there too.
    """

    def __init__(self, path: Path, stream: TextIO) -> None:
        self._path = path
        self._stream = stream

    def __call__(self, _logger: Any, _method: str, fields: MutableMapping[str, Any]) -> str:
        import structlog

        entry = _entry(fields)
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
                sender.settimeout(_PATIENCE)
                sender.sendto(entry, str(self._path))
        except OSError:
            self._stream.write(_dumps(dict(fields)) + "\n")
            self._stream.flush()
        raise structlog.DropEvent


def _entry(fields: Mapping[str, Any]) -> bytes:
    """An entry of the journal: MESSAGE for people, PRIORITY, and each field as SOUL_BRIDGE_<NAME>."""
    said = [str(fields[name]) for name in ("agent", "event") if fields.get(name)]
    said += [str(fields[name]) for name in _FOR_PEOPLE if fields.get(name)]
    said += [str(fields["exception"])] if fields.get("exception") else []
    known = {"agent", "event", *_FOR_PEOPLE, "exception", "timestamp", "level", "body"}
    rest = " ".join(
        f"{name}={line(_plain(value), _LONGEST_FIELD)}" for name, value in fields.items() if name not in known
    )
    message = ": ".join(said) + (f" ({rest})" if rest else "")
    level = LEVELS.get(str(fields.get("level")), LEVELS["info"])
    rows = {
        "MESSAGE": readable(message, _LONGEST_FIELD),
        "PRIORITY": str(_PRIORITIES[level]),
        "SYSLOG_IDENTIFIER": "soul-bridge",
    }
    for name, value in fields.items():
        if name not in ("timestamp", "level", "exception") and value is not None:
            words = _plain(value) if name not in _FOR_PEOPLE else readable(_plain(value), _LONGEST_FIELD)
            rows[f"SOUL_BRIDGE_{re.sub('[^A-Z0-9_]', '_', name.upper())}"] = words
    return b"".join(_row(name, value) for name, value in rows.items())


def _row(name: str, value: str) -> bytes:
    content = value[:_LONGEST_FIELD].encode("utf-8", "backslashreplace")
    if b"\n" in content:
        return name.encode() + b"\n" + struct.pack("<Q", len(content)) + content + b"\n"
    return name.encode() + b"=" + content + b"\n"


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _first_things_first(_logger: Any, _method: str, fields: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    first = {name: fields.pop(name) for name in ("timestamp", "level", "event") if name in fields}
    return {**first, **fields}


class _Others(logging.Handler):
    """What other libraries log, as lines of ours."""

    def __init__(self, log: Any) -> None:
        super().__init__()
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        """Tell it at its level."""
        with contextlib.suppress(Exception):
            self._log.log(record.levelno, record.getMessage(), logger=record.name, exc_info=record.exc_info)


def _hear_others(threshold: int, log: Any) -> None:
    level = max(threshold, logging.WARNING) if threshold > LEVELS["debug"] else threshold
    logging.basicConfig(handlers=[_Others(log)], level=level, force=True)
    if threshold > LEVELS["debug"]:
        # It prints tracebacks for every connection that fails; the remote says the same in a sentence.
        logging.getLogger("paramiko").setLevel(logging.CRITICAL)
