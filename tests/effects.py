"""Everything by which a process of the program changes what others can see: told right before it happens.

Whoever is told can note it (in which order is what made durable?) or end the process (what does a crash here leave?).
Nothing of the program knows of it: what Python offers for such effects is replaced while it is watched. What the
program does in C is seen where it begins: sqlite's commits, and git's index-pack as one effect of its own.
"""

from __future__ import annotations

import os
import socket
import sqlite3
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

from bridge.adapters.tree import exchange

_WRITING = ("COMMIT", "REPLACE", "DELETE", "INSERT", "CREATE", "PRAGMA WAL")


@dataclass(frozen=True)
class Effect:
    """What is about to happen. kind: the call. paths: what it is done to, in the order of the call. more: whatever
    else tells it apart."""

    kind: str
    paths: tuple[str, ...] = ()
    more: Any = field(default=None, compare=False)

    def __str__(self) -> str:
        return " ".join([self.kind, *(Path(path).name for path in self.paths)])


Told = Callable[[Effect], None]


@contextmanager
def watched(told: Told) -> Iterator[None]:
    """Until the end, `told` is called right before each effect; what it does itself is none."""
    inside = threading.local()

    def tell(effect: Effect) -> None:
        if getattr(inside, "here", False):
            return
        inside.here = True
        try:
            told(effect)
        finally:
            inside.here = False

    with ExitStack() as stack:
        for target, name, call in (*_files(tell), *_names(tell), *_others(tell)):
            stack.enter_context(patch.object(target, name, call))
        yield


Replaced = tuple[object, str, Callable[..., Any]]


def _files(tell: Told) -> Iterator[Replaced]:
    """Bytes: written, and made durable."""
    fsync, write = os.fsync, os.write

    def synced(descriptor: Any) -> None:
        tell(Effect("fsync", (_path(descriptor),)))
        fsync(descriptor)

    def wrote(descriptor: int, content: Any) -> int:
        path = _path(descriptor)
        if path.startswith("/"):
            tell(Effect("write", (path,), (write, descriptor, content)))
        return write(descriptor, content)

    yield os, "fsync", synced
    yield os, "write", wrote


def _names(tell: Told) -> Iterator[Replaced]:
    """Names: made, moved, taken away."""

    def two(kind: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def done(old: Any, new: Any, **more: Any) -> Any:
            tell(Effect(kind, (_named(old, more.get("src_dir_fd")), _named(new, more.get("dst_dir_fd")))))
            return call(old, new, **more)

        return done

    def one(kind: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def done(path: Any, *words: Any, **more: Any) -> Any:
            tell(Effect(kind, (_named(path, more.get("dir_fd")),)))
            return call(path, *words, **more)

        return done

    for name in ("rename", "replace", "link"):
        yield os, name, two("rename" if name == "replace" else name, getattr(os, name))
    for name in ("unlink", "remove", "mkdir", "rmdir"):
        yield os, name, one("unlink" if name == "remove" else name, getattr(os, name))
    swap = exchange._call

    def exchanged(source: int, old: bytes, target: int, new: bytes, flags: int) -> int:
        kind = "exchange" if flags == exchange.EXCHANGE else "rename"
        tell(Effect(kind, (_named(old, source), _named(new, target))))
        return 0 if swap is None else swap(source, old, target, new, flags)

    if swap is not None:
        yield exchange, "_call", exchanged


def _others(tell: Told) -> Iterator[Replaced]:
    """What was seen, the network, other programs."""
    connect, send, popen = sqlite3.connect, socket.socket.send, subprocess.Popen

    class Connection(sqlite3.Connection):
        """A database whose changes are told."""

        def execute(self, words: str, *values: Any) -> sqlite3.Cursor:
            if words.startswith(_WRITING):
                tell(Effect(f"seen {words.split()[0]}", (), self))
            return super().execute(words, *values)

    def connected(path: Any, **more: Any) -> sqlite3.Connection:
        return connect(path, factory=Connection, **more)

    def sent(self: socket.socket, content: Any, *flags: Any) -> int:
        tell(Effect("send", (), len(content)))
        return send(self, content, *flags)

    class Popen(popen):  # type: ignore[valid-type, misc]
        """A child whose beginning is told."""

        def __init__(self, words: Any, *others: Any, **more: Any) -> None:
            tell(Effect("child", tuple(str(word) for word in words[:1]), words))
            super().__init__(words, *others, **more)

    yield sqlite3, "connect", connected
    yield socket.socket, "send", sent
    yield subprocess, "Popen", Popen


def _path(descriptor: Any) -> str:
    number = descriptor if isinstance(descriptor, int) else descriptor.fileno()
    return os.readlink(f"/proc/self/fd/{number}")


def _named(path: Any, directory: int | None) -> str:
    name = os.fsdecode(path)
    return name if directory is None else os.path.join(_path(directory), name)
