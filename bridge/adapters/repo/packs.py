"""Packs: new objects are written as one pack and index, durable before anything names them; a push is one too."""

from __future__ import annotations

import hashlib
import os
import struct
import tempfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from bridge.core import errors

_KINDS = {"commit": 1, "tree": 2, "blob": 3, "tag": 4}
_REF_DELTA = 7
_LEVEL = 1  # bytes are cheap for a while, waiting is not; maintenance packs tighter
_WORTH = 16  # a copy takes 7 bytes, and ends a run of new ones
_FAR = 0x80000000
OURS = "_soul_bridge_"  # in the temporary names of packs: after a crash it tells whose they were


@dataclass(frozen=True, slots=True)
class Item:
    """One object of a pack. `base`: id of an object that the reader has or that is in the pack too, with its content;
    then only the difference is sent."""

    oid: str
    kind: str
    content: bytes
    base: tuple[str, bytes] | None = None


def write(directory: Path, objects: Mapping[str, tuple[str, bytes]]) -> Path:
    """Write objects as pack + index (version 2) into a pack directory, durable on return; where the pack is.

    Names appear only over whole bytes: temporary names, fsync, rename, the index last. Raises Transient(kind="disk").
    """
    entries: list[tuple[bytes, int, int]] = []  # id, offset, crc
    trail = hashlib.sha1(usedforsecurity=False)
    temporary: list[Path] = []
    try:
        with _temporary(directory, f"tmp_pack{OURS}", temporary) as file:
            offset = file.write(_start(len(objects), trail))
            for oid, (kind, content) in objects.items():
                packed = _entry(kind, content)
                trail.update(packed)
                entries.append((bytes.fromhex(oid), offset, zlib.crc32(packed)))
                offset += file.write(packed)
            file.write(trail.digest())
            _settle(file)
        with _temporary(directory, f"tmp_idx{OURS}", temporary) as file:
            file.write(index_of(entries, trail.digest()))
            _settle(file)
        target = directory / f"pack-{trail.hexdigest()}.pack"
        temporary[0].rename(target)
        temporary[1].rename(target.with_suffix(".idx"))
        settle(directory)
    except OSError as error:
        for path in temporary:
            path.unlink(missing_ok=True)
        raise errors.Transient(f"cannot write new objects: {error.strerror}", kind="disk") from error
    return target


def build(items: Iterable[Item]) -> bytes:
    """A pack of these objects, as bytes to send."""
    parts = []
    count = 0
    for item in items:
        parts.append(_item(item))
        count += 1
    trail = hashlib.sha1(usedforsecurity=False)
    parts.insert(0, _start(count, trail))
    for part in parts[1:]:
        trail.update(part)
    return b"".join([*parts, trail.digest()])


def index_of(entries: Iterable[tuple[bytes, int, int]], trail: bytes) -> bytes:
    """The index (version 2) of a pack: entries are (id, offset, crc32), `trail` the pack's own checksum."""
    entries = sorted(entries)
    fan = [0] * 256
    for oid, _, _ in entries:
        fan[oid[0]] += 1
    total = 0
    for first in range(256):
        total += fan[first]
        fan[first] = total
    near: list[int] = []
    far: list[int] = []
    for _, offset, _ in entries:
        if offset < _FAR:
            near.append(offset)
        else:
            near.append(_FAR | len(far))
            far.append(offset)
    body = b"".join(
        [
            b"\377tOc",
            struct.pack(">I", 2),
            struct.pack(">256I", *fan),
            *(oid for oid, _, _ in entries),
            struct.pack(f">{len(entries)}I", *(crc for _, _, crc in entries)),
            struct.pack(f">{len(near)}I", *near),
            struct.pack(f">{len(far)}Q", *far),
            trail,
        ]
    )
    return body + hashlib.sha1(body, usedforsecurity=False).digest()


def settle(directory: Path) -> None:
    """Make the names in a directory durable."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def delta(old: bytes, new: bytes) -> bytes:
    """Git's delta from old to new: what is common at both ends, and stretches of lines between, are copied."""
    before = _common(old, new)
    room = min(len(old), len(new)) - before
    after = _common(old[::-1][:room], new[::-1][:room]) if room else 0
    middle = new[before : len(new) - after]
    parts = [_varint(len(old)), _varint(len(new)), *_copies(0, before)]
    parts += _steps(old, before, middle)
    parts += _copies(len(old) - after, after)
    return b"".join(parts)


def _steps(old: bytes, start: int, middle: bytes) -> Iterator[bytes]:
    """Instructions that make the middle: lines of the old content are copied, others sent. In a tree, whose bytes know
    no lines, a newline comes by chance about every ten entries, which does as well."""
    places: dict[bytes, int] = {}
    at = start
    for line in old[start:].splitlines(keepends=True) if middle else ():
        places.setdefault(line, at)
        at += len(line)
    fresh, copied = b"", (0, 0)
    for line in middle.splitlines(keepends=True):
        end = copied[0] + copied[1]
        if copied[1] and old.startswith(line, end):
            copied = (copied[0], copied[1] + len(line))
            continue
        place = places.get(line) if len(line) >= _WORTH else None
        if copied[1]:
            yield from _copies(*copied)
            copied = (0, 0)
        if place is None:
            fresh += line
        else:
            yield from _inserts(fresh)
            fresh, copied = b"", (place, len(line))
    yield from _copies(*copied)
    yield from _inserts(fresh)


def _inserts(fresh: bytes) -> Iterator[bytes]:
    """Instructions that bring new bytes, at most 127 each."""
    for at in range(0, len(fresh), 127):
        piece = fresh[at : at + 127]
        yield bytes([len(piece)]) + piece


def _temporary(directory: Path, prefix: str, made: list[Path]) -> BinaryIO:
    """A new file, open, of a name that git's own cleaning knows and with the mode of git's packs; noted in `made`."""
    descriptor, name = tempfile.mkstemp(prefix=prefix, dir=directory)
    made.append(Path(name))
    os.fchmod(descriptor, 0o444)
    return os.fdopen(descriptor, "wb")


def _settle(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())


def _item(item: Item) -> bytes:
    if item.base is not None:
        oid, content = item.base
        difference = delta(content, item.content)
        if len(difference) < len(item.content) // 2:
            packed = zlib.compress(difference, _LEVEL)
            return _head(_REF_DELTA, len(difference)) + bytes.fromhex(oid) + packed
    return _entry(item.kind, item.content)


def _entry(kind: str, content: bytes) -> bytes:
    return _head(_KINDS[kind], len(content)) + zlib.compress(content, _LEVEL)


def _head(kind: int, size: int) -> bytes:
    first, size = (kind << 4) | (size & 15), size >> 4
    return bytes([first | 0x80]) + _varint(size) if size else bytes([first])


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


def _copies(offset: int, length: int) -> Iterator[bytes]:
    """Copy instructions for a stretch of the old content; each spells out all of its four and two length bytes."""
    while length:
        piece = min(length, 0xFFFF)
        yield b"\xbf" + struct.pack("<IH", offset, piece)
        offset += piece
        length -= piece


def _common(one: bytes, other: bytes) -> int:
    """Length of the common beginning, by halves: comparing slices is far faster than counting bytes."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _start(count: int, trail: hashlib._Hash) -> bytes:
    head = struct.pack(">4sII", b"PACK", 2, count)
    trail.update(head)
    return head
