"""Objects as no honest git writes them: laid into a bare repository byte by byte, past every check of git's own."""

from __future__ import annotations

import hashlib
import itertools
import struct
import time
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from bridge.adapters.repo.packs import index_of
from tests.real.fleet import git

KINDS = {"commit": 1, "tree": 2, "blob": 3, "tag": 4, "ofs": 6, "ref": 7}
MAIN = "refs/heads/main"
_times = itertools.count(int(time.time()) - 5_000)

Row = tuple[str, bytes, str]  # mode, name, id


def name(kind: str, content: bytes) -> str:
    """git's id of an object."""
    return hashlib.sha1(b"%s %d\0" % (kind.encode(), len(content)) + content, usedforsecurity=False).hexdigest()


@dataclass(frozen=True)
class Forge:
    """Writes into a bare repository."""

    bare: Path

    def put(self, kind: str, content: bytes) -> str:
        """Lay an object down as a loose one, whatever it holds; its id."""
        oid = name(kind, content)
        path = self.bare / "objects" / oid[:2] / oid[2:]
        if not path.exists():
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(zlib.compress(b"%s %d\0" % (kind.encode(), len(content)) + content, 1))
        return oid

    def blob(self, content: bytes | str = b"x\n") -> str:
        """A blob."""
        return self.put("blob", content.encode() if isinstance(content, str) else content)

    def tree(self, rows: Iterable[Row], ordered: bool = True) -> str:
        """A tree of these rows, sorted as git sorts unless told otherwise; nothing is checked."""
        rows = list(rows)
        if ordered:
            rows.sort(key=lambda row: row[1] + (b"/" if row[0] in ("40000", "040000") else b""))
        return self.put(
            "tree", b"".join(b"%s %s\0%s" % (mode.encode(), each, bytes.fromhex(oid)) for mode, each, oid in rows)
        )

    def chain(self, names: Iterable[bytes], oid: str, mode: str = "100644") -> Row:
        """Nested folders with one entry at the end, as the row of the topmost."""
        row: Row = (mode, b"", oid)
        path = list(names)
        for each in reversed(path):
            row = (row[0], each, row[2]) if not row[1] else ("40000", each, self.tree([row]))
        return row

    def rows(self, commit: str = MAIN) -> list[Row]:
        """The top-level rows of a commit."""
        found = []
        for line in git(self.bare, "ls-tree", "-z", commit).split("\0"):
            if line:
                words, path = line.split("\t", 1)
                mode, _, oid = words.split()
                found.append((mode.removeprefix("0"), path.encode("utf-8", "surrogateescape"), oid))
        return found

    def tip(self, ref: str = MAIN) -> str:
        """Where a ref stands."""
        return git(self.bare, "rev-parse", ref).strip()

    def raw_commit(self, content: bytes) -> str:
        """A commit of these bytes, as the new tip of main."""
        oid = self.put("commit", content)
        self.point(oid)
        return oid

    def lay(self, *entries: tuple[str, bytes]) -> None:
        """Objects, each (id, pack entry), as a pack with its index, past git's checks."""
        whole, offset, rows = pack(*(each for _, each in entries)), 12, []
        for oid, each in entries:
            rows.append((bytes.fromhex(oid), offset, zlib.crc32(each)))
            offset += len(each)
        target = self.bare / "objects" / "pack" / f"pack-{whole[-20:].hex()}"
        target.with_suffix(".pack").write_bytes(whole)
        target.with_suffix(".idx").write_bytes(index_of(rows, whole[-20:]))

    def point(self, oid: str, ref: str = MAIN) -> None:
        """Move a ref, unasked."""
        (self.bare / ref).parent.mkdir(parents=True, exist_ok=True)
        (self.bare / ref).write_text(oid + "\n")

    def commit(
        self,
        tree: str,
        message: bytes = b"hostile (mallory)\n",
        author: bytes = b"Kaoru (mallory) <kaoru@mallory.local>",
        at: int | None = None,
        more: bytes = b"",
    ) -> str:
        """A commit on top of main with this tree, as its new tip."""
        at = next(_times) if at is None else at
        head = b"tree %s\nparent %s\nauthor %s %d +0000\ncommitter %s %d +0000\n%s" % (
            tree.encode(), self.tip().encode(), author, at, author, at, more,
        )  # fmt: skip
        return self.raw_commit(head + b"\n" + message)

    def add(self, *rows: Row, without: Iterable[bytes] = (), **how: bytes | int) -> str:
        """Main's tree with these top-level rows in the place of those of their names, as a commit on main."""
        gone = {row[1] for row in rows} | set(without)
        kept = [row for row in self.rows() if row[1] not in gone]
        return self.commit(self.tree([*kept, *rows]), **how)  # type: ignore[arg-type]

    def write(self, files: dict[str, bytes | str], **how: bytes | int) -> str:
        """Main with these files (and their folders), as a commit on main: what an ordinary pusher could do."""
        plan: dict[bytes, object] = {}
        for path, content in files.items():
            *above, last = path.encode("utf-8", "surrogateescape").split(b"/")
            at = plan
            for each in above:
                at = at.setdefault(each, {})  # type: ignore[assignment]
            at[last] = self.blob(content)
        return self.commit(self._laid(self.rows(), plan), **how)  # type: ignore[arg-type]

    def _laid(self, rows: list[Row], plan: dict[bytes, object]) -> str:
        found = {row[1]: row for row in rows}
        for each, what in plan.items():
            if isinstance(what, str):
                found[each] = ("100644", each, what)
            else:
                there = found.get(each)
                below = self.rows(there[2]) if there is not None and there[0] == "40000" else []
                found[each] = ("40000", each, self._laid(below, what))  # type: ignore[arg-type]
        return self.tree(found.values())


def entry(kind: str, content: bytes, size: int | None = None, base: bytes = b"", level: int = 1) -> bytes:
    """One object of a pack; `size`: what its head announces. `base`: the id or offset that a delta leans on."""
    length = len(content) if size is None else size
    code, length = KINDS[kind] << 4 | length & 15, length >> 4
    head = bytearray()
    while length:
        head.append(code | 0x80)
        code, length = length & 0x7F, length >> 7
    head.append(code)
    return bytes(head) + base + zlib.compress(content, level)


def pack(*entries: bytes, count: int | None = None, version: int = 2, trail: bytes | None = None) -> bytes:
    """A pack of such objects; count, version and checksum may lie."""
    body = b"PACK" + struct.pack(">II", version, len(entries) if count is None else count) + b"".join(entries)
    return body + (hashlib.sha1(body, usedforsecurity=False).digest() if trail is None else trail)


def number(value: int) -> bytes:
    """A length as deltas write it."""
    found = bytearray()
    while value >= 0x80:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])


def copies(source: int, size: int, times: int) -> bytes:
    """A delta that copies `size` bytes from the start of its base so many times."""
    step = bytes([0x80 | 0x70]) + struct.pack("<I", size)[:3]
    return number(source) + number(size * times) + step * times


def zeros(size: int) -> bytes:
    """A zlib stream of so many NUL bytes (a whole number of MiB), one flushed piece repeated."""
    squeeze = zlib.compressobj(9)
    start = squeeze.compress(bytes(1 << 20)) + squeeze.flush(zlib.Z_FULL_FLUSH)
    head, piece = start[:2], start[2:]
    checksum = struct.pack(">I", (size % 65521) << 16 | 1)
    return head + piece * (size >> 20) + squeeze.flush()[:-4] + checksum


def zero_blob(size: int) -> tuple[str, bytes]:
    """A blob of NUL bytes as (id, pack entry), never whole in memory."""
    digest = hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)
    for _ in range(size >> 20):
        digest.update(bytes(1 << 20))
    return digest.hexdigest(), entry("blob", b"", size)[: -len(zlib.compress(b"", 1))] + zeros(size)
