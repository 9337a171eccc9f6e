# ruff: noqa: F401, F811 - fixtures that are imported
"""Agents that write without a pause, each in its own way, while other bodies push into the same files (GUARD-4)."""

from __future__ import annotations

import itertools
import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from tests.real.fleet import fsck, tree_of, until
from tests.real.pair import fleet, host, laptop, server, template
from tests.real.quick import Body, Fleet

SECONDS = 12.0
SEED = 7
OLD = tuple(f"there before {number}" for number in range(8))


def entries(texts: Iterator[str] | list[str] | tuple[str, ...]) -> bytes:
    """A memory file."""
    return ("\n§\n".join(texts) + "\n").encode()


def read(place: Path) -> list[str]:
    """The entries of a memory file as they are on the disk now."""
    try:
        text = place.read_bytes().decode()
    except FileNotFoundError:
        return []
    return [entry.strip() for entry in text.split("\n§\n") if entry.strip()]


@dataclass
class Writer:
    """One agent with one habit on one file; `wrote`: every entry it ever meant to be there, and wrote whole."""

    place: Path
    chance: random.Random
    wrote: list[str] = field(default_factory=list)
    kept: BinaryIO | None = None
    copy: list[str] = field(default_factory=list)

    def entry(self) -> str:
        return f"{self.place.stem} wrote {len(self.wrote)}"


def appends(writer: Writer) -> None:
    """Open, append, close, every 10 ms."""
    entry = writer.entry()
    with writer.place.open("ab") as file:
        file.write(f"§\n{entry}\n".encode())
    writer.wrote.append(entry)
    time.sleep(0.01)


def appends_in_pieces(writer: Writer) -> None:
    """The same in two system calls with the file open between them."""
    entry = writer.entry()
    descriptor = os.open(writer.place, os.O_WRONLY | os.O_APPEND)
    try:
        os.write(descriptor, b"\xc2\xa7\n" + entry.encode()[:5])
        time.sleep(writer.chance.random() * 0.004)
        os.write(descriptor, entry.encode()[5:] + b"\n")
    finally:
        os.close(descriptor)
    writer.wrote.append(entry)
    time.sleep(0.02)


def renames(writer: Writer) -> None:
    """Read, add, write beside, rename over."""
    entry = writer.entry()
    content = entries([*read(writer.place), entry])
    fresh = writer.place.with_name(f"{writer.place.name}.tmp")
    fresh.write_bytes(content)
    fresh.replace(writer.place)
    writer.wrote.append(entry)
    time.sleep(0.03 + writer.chance.random() * 0.1)


def truncates(writer: Writer) -> None:
    """Read, then truncate and write anew, slowly, in two halves."""
    entry = writer.entry()
    content = entries([*read(writer.place), entry])
    with writer.place.open("wb", buffering=0) as file:
        time.sleep(0.005)
        file.write(content[: len(content) // 2])
        time.sleep(0.01)
        file.write(content[len(content) // 2 :])
    writer.wrote.append(entry)
    time.sleep(0.05 + writer.chance.random() * 0.1)


def holds(writer: Writer) -> None:
    """One descriptor for the whole life, wherever the file's name points to meanwhile."""
    if writer.kept is None:
        writer.kept = writer.place.open("ab", buffering=0)
    entry = writer.entry()
    writer.kept.write(f"§\n{entry}\n".encode())
    writer.wrote.append(entry)
    time.sleep(0.03)


def remembers(writer: Writer) -> None:
    """Its own copy from the beginning; the file is written, never read again."""
    entry = writer.entry()
    writer.copy = writer.copy or read(writer.place)
    writer.copy.append(entry)
    fresh = writer.place.with_name(f"{writer.place.name}.tmp")
    fresh.write_bytes(entries(writer.copy))
    fresh.replace(writer.place)
    writer.wrote.append(entry)
    time.sleep(0.1 + writer.chance.random() * 0.2)


HABITS: dict[str, Callable[[Writer], None]] = {
    habit.__name__: habit for habit in (appends, appends_in_pieces, renames, truncates, holds, remembers)
}


def sending(body: Body, paths: list[str], sent: dict[str, list[str]], over: threading.Event) -> None:
    """Another body's agent adds an entry to one file after the other; its daemon publishes them."""
    for number in itertools.count():
        if over.wait(0.1):
            return
        path = paths[number % len(paths)]
        entry = f"{body.name} sent {number}"
        body.append(path, f"§\n{entry}\n")
        sent[path].append(entry)


def test_no_byte_of_any_writer_is_lost_while_others_push(fleet: Fleet, laptop: Body, server: Body) -> None:
    """GUARD-1, GUARD-4, MERGE-12: every entry that was written stands in the end, on every body, once."""
    paths = {name: f"memories/{name}.md" for name in HABITS}
    for path in paths.values():
        laptop.write(path, entries(OLD))
    laptop.sync()
    server.sync()
    laptop.start()
    server.start()
    writers = {name: Writer(laptop.soul / path, random.Random(SEED + len(name))) for name, path in paths.items()}
    sent: dict[str, list[str]] = {path: [] for path in paths.values()}
    over = threading.Event()

    def life(name: str) -> None:
        while not over.is_set():
            HABITS[name](writers[name])

    threads = [threading.Thread(target=life, args=(name,)) for name in HABITS]
    threads.append(threading.Thread(target=sending, args=(server, list(paths.values()), sent, over)))
    for thread in threads:
        thread.start()
    time.sleep(SECONDS)
    published = tree_of(fleet.bare)  # not the working files: whoever reads those, has read what he then leaves out
    over.set()
    for thread in threads:
        thread.join()
    kept = writers["holds"].kept
    assert kept is not None
    kept.close()
    assert all(b" wrote " in published[path] for path in paths.values()), "every file is published while it is written"
    assert any(b" sent " in content for content in published.values()), "the other body gets its turn"

    def rest() -> bool:
        documents = [laptop.seen(), server.seen()]
        equal = all(laptop.read(path) == server.read(path) for path in paths.values())
        return equal and laptop.tip() == server.tip() == fleet.tip() and not any(one["pending"] for one in documents)

    until(rest, "both bodies agree", 60)
    time.sleep(2.5)  # what came out of an exchange is looked at for two seconds more
    until(rest, "both bodies still agree", 60)
    assert laptop.stop() == 0 and server.stop() == 0
    for name, path in paths.items():
        found = read(laptop.soul / path)
        missing = [entry for entry in (*OLD, *writers[name].wrote) if entry not in found]
        assert not missing, (name, len(writers[name].wrote), missing[:5])
        lost = [entry for entry in sent[path] if entry not in found]
        assert not lost, (name, sent[path], lost)
        assert len(found) == len(set(found)), name
    for body in (laptop, server):
        fsck(body.soul)
    fleet.agree()
