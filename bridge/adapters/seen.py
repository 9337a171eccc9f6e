"""What was last seen of each path, in sqlite3: a table of entries and a few remembered JSON values.

Durable at the end of every transaction (WAL, synchronous=FULL). A database that cannot be read is moved aside and
nothing counts as seen: what that means is REPO-6's business.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bridge.core import errors
from bridge.core.model import File, SeenEntry, Stamp

_SCHEMA = """
CREATE TABLE IF NOT EXISTS seen (
    path BLOB PRIMARY KEY, oid TEXT NOT NULL, mode INTEGER NOT NULL, raw TEXT NOT NULL, size INTEGER NOT NULL,
    mtime_ns INTEGER NOT NULL, ctime_ns INTEGER NOT NULL, inode BLOB NOT NULL, executable INTEGER NOT NULL,
    racy INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS memory (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
"""
_VERSION = 1
_COLUMNS = "path, oid, mode, raw, size, mtime_ns, ctime_ns, inode, executable, racy"
_PATIENCE = 10.0  # seconds another command may hold the database
_UNASKED = ""  # no JSON text
_KEPT = 64  # remembered values that are kept as they were read: a quiet pass asks for thirty of them, and changes none


class Seen:
    """The port `Seen` over one database file, for one thread at a time; made when absent.

    A file that is damaged, or of another version, is moved aside; `lost` says where to, or is None.
    Raises Transient(kind="disk") when the place cannot be written.
    """

    def __init__(self, path: str | Path) -> None:
        self._depth = 0
        self._known: dict[str, str | None] = {}
        self._connection, self.lost = _open(Path(path))

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All or nothing, durable at the end; inner ones are part of the outermost. Raises Transient when the disk
        is full or another command holds the database."""
        if self._depth:
            yield
            return
        with _translated():
            self._connection.execute("BEGIN IMMEDIATE")
        self._depth = 1
        try:
            yield
            with _translated():
                self._connection.execute("COMMIT")
        except BaseException:
            self._undo()
            raise
        finally:
            self._depth = 0

    def get(self, path: str) -> SeenEntry | None:
        """Entry of a path, None when nothing was seen there."""
        rows = self._rows(f"SELECT {_COLUMNS} FROM seen WHERE path = ?", _key(path))  # noqa: S608 - own words only
        return _entry(rows[0]) if rows else None

    def put(self, path: str, entry: SeenEntry | None) -> None:
        """Remember or (None) forget a path."""
        with self.transaction(), _translated():
            if entry is None:
                self._connection.execute("DELETE FROM seen WHERE path = ?", (_key(path),))
            else:
                marks = ",".join("?" * 10)
                self._connection.execute(f"REPLACE INTO seen VALUES ({marks})", _row(path, entry))  # noqa: S608

    def under(self, directory: str) -> dict[str, SeenEntry]:
        """All entries at or below a directory; "" is everything. Sorted by the bytes of the path."""
        query = f"SELECT {_COLUMNS} FROM seen"  # noqa: S608 - own words only
        if directory:
            key = _key(directory)
            # "0" is the character after "/": the range holds exactly what begins with "<directory>/".
            rows = self._rows(f"{query} WHERE path = ? OR (path > ? AND path < ?)", key, key + b"/", key + b"0")
        else:
            rows = self._rows(query)
        return {_path(row[0]): _entry(row) for row in sorted(rows)}

    def count(self) -> int:
        """How many paths are seen."""
        return int(self._rows("SELECT count(*) FROM seen")[0][0])

    def recall(self, name: str) -> Any:
        """A remembered JSON value, None when absent."""
        text = self._known.get(name, _UNASKED)
        if text is _UNASKED:
            rows = self._rows("SELECT value FROM memory WHERE name = ?", name)
            text = rows[0][0] if rows else None
            self._keep(name, text)
        return None if text is None else json.loads(text)

    def remember(self, name: str, value: Any) -> None:
        """Remember a JSON value under a name; None forgets it. Raises TypeError for what JSON cannot hold."""
        with self.transaction(), _translated():
            text = None if value is None else json.dumps(value)
            if text is None:
                self._connection.execute("DELETE FROM memory WHERE name = ?", (name,))
            else:
                self._connection.execute("REPLACE INTO memory VALUES (?, ?)", (name, text))
            self._keep(name, text)

    def close(self) -> None:
        """Let go of the database file."""
        self._connection.close()

    def _keep(self, name: str, text: str | None) -> None:
        if len(self._known) >= _KEPT:
            self._known.clear()
        self._known[name] = text

    def _rows(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        with _translated():
            return self._connection.execute(query, values).fetchall()

    def _undo(self) -> None:
        """Roll back, also after an error that has already ended the transaction (a full disk does)."""
        self._known.clear()
        with _translated():
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")


def open(path: str | Path) -> Seen:  # noqa: A001 - read as seen.open(path)
    """The database at `path`; see `Seen`."""
    return Seen(path)


def _open(path: Path) -> tuple[sqlite3.Connection, Path | None]:
    lost = None
    try:
        # Not its parents: a git directory that is gone must not come back as an empty one (REPO-7).
        path.parent.mkdir(exist_ok=True)
        try:
            connection = _connect(path)
        except _Unreadable:
            lost = _set_aside(path)
            connection = _connect(path)
        os.chmod(path, 0o600)
        _settle(path.parent)
    except (OSError, sqlite3.Error, _Unreadable) as error:
        raise errors.Transient(f"cannot open {path}: {error}", kind="disk") from error
    return connection, lost


class _Unreadable(Exception):
    """The file is there and is not a database that this version can read."""


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=_PATIENCE, isolation_level=None, check_same_thread=False)
    try:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("PRAGMA trusted_schema=OFF")
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version > _VERSION:
            raise errors.Unusable(
                f"{path} is of version {version}: a newer soul-bridge wrote it, and this one knows versions up to"
                f" {_VERSION}",
                advice="Nothing was changed; memories, history and that file are safe. Install that version here again,"
                " or a newer one: soul-bridge --version",
            )
        if version < 0:
            raise _Unreadable(f"version {version}")
        if version == 0:
            connection.executescript(f"BEGIN IMMEDIATE; {_SCHEMA} PRAGMA user_version={_VERSION}; COMMIT;")
        (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
        if verdict != "ok":
            raise _Unreadable(verdict)
        connection.execute(f"SELECT {_COLUMNS} FROM seen LIMIT 1").fetchall()  # noqa: S608 - own words only
        connection.execute("SELECT name, value FROM memory LIMIT 1").fetchall()
    except (_Unreadable, errors.Unusable):
        connection.close()
        raise
    except sqlite3.DatabaseError as error:
        connection.close()
        if isinstance(error, sqlite3.OperationalError) and not _is_damage(error):
            raise
        raise _Unreadable(str(error)) from error
    return connection


def _is_damage(error: sqlite3.OperationalError) -> bool:
    """Whether the file itself is wrong (a table or column is missing), not the disk or a neighbour."""
    return getattr(error, "sqlite_errorname", "") == "SQLITE_ERROR"


def _settle(directory: Path) -> None:
    """Make the names in a directory durable; sqlite does so for its journals only."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _set_aside(path: Path) -> Path:
    """Move the database and its journals to the first free name beside it; nothing is deleted."""
    number = 1
    while os.path.lexists(path.with_name(f"{path.name}.damaged-{number}")):
        number += 1
    for suffix in ("-wal", "-shm", ""):
        source = path.with_name(path.name + suffix)
        if os.path.lexists(source):
            source.rename(path.with_name(f"{path.name}.damaged-{number}{suffix}"))
    return path.with_name(f"{path.name}.damaged-{number}")


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except sqlite3.OperationalError as error:
        busy = getattr(error, "sqlite_errorname", "").startswith(("SQLITE_BUSY", "SQLITE_LOCKED"))
        raise errors.Transient(f"the table of seen files: {error}", kind="busy" if busy else "disk") from error
    except sqlite3.DatabaseError as error:
        raise errors.Refused(
            f"the table of seen files is damaged: {error}; the files and the history are safe",
            kind="internal",
            rule="REPO-6",
            advice="start the command again: it is then moved aside and everything is looked at anew",
        ) from error


def _key(path: str) -> bytes:
    return path.encode("utf-8", "surrogateescape")


def _path(key: bytes) -> str:
    return key.decode("utf-8", "surrogateescape")


def _row(path: str, entry: SeenEntry) -> tuple[object, ...]:
    stamp = entry.stamp
    # Inodes may use all 64 bits, sqlite's integers have 63.
    inode = str(stamp.inode).encode()
    return (
        _key(path), entry.file.oid, entry.file.mode, entry.raw, stamp.size, stamp.mtime_ns, stamp.ctime_ns, inode,
        stamp.executable, entry.racy,
    )  # fmt: skip


def _entry(row: tuple[Any, ...]) -> SeenEntry:
    _, oid, mode, raw, size, mtime_ns, ctime_ns, inode, executable, racy = row
    stamp = Stamp(size, mtime_ns, ctime_ns, int(inode), bool(executable))
    return SeenEntry(File(oid, mode), raw, stamp, bool(racy))
