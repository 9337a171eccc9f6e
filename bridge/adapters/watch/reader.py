"""The process's one inotify instance and the one thread that reads it for all souls.

It lives as long as anybody listens. What it reads goes to whoever listens to that folder; a fault of one listener is
told to that one and touches no other.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import select
import struct
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Protocol

from watchdog.observers.inotify_c import InotifyConstants as Inotify
from watchdog.observers.inotify_c import inotify_add_watch, inotify_init, inotify_rm_watch

_HEAD = struct.Struct("iIII")  # watch, mask, cookie, length of the name
_AT_ONCE = 1 << 16  # bytes of one read: some thousand events


class Listener(Protocol):
    """One soul's side. Its methods are called on the reader's thread and never after the reader was left."""

    def heard(self, watch: int, mask: int, name: bytes) -> None:
        """Something happened to `name` in a watched folder, or to the folder itself where `name` is empty."""

    def overflowed(self) -> None:
        """Events were lost, nobody knows whose."""

    def failed(self) -> None:
        """The call before this one raised what it should not have."""


class Reader:
    """Reads until it is closed. Raises OSError when no inotify instance is to be had."""

    def __init__(self) -> None:
        self._instance = inotify_init()
        if self._instance < 0:
            raise _failure()
        os.set_inheritable(self._instance, False)
        try:
            self._end = os.eventfd(0, os.EFD_CLOEXEC)
        except OSError:
            os.close(self._instance)
            raise
        self.listeners: tuple[Listener, ...] = ()
        self._changing = threading.Lock()
        self._closed = False
        self._watches: dict[int, tuple[Listener, ...]] = {}
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)
        self._thread.start()

    def is_alive(self) -> bool:
        """Whether its thread still reads."""
        return self._thread.is_alive()

    def add(self, path: str, mask: int, listener: Listener) -> int:
        """Listen to a folder; a number that names it. A folder that two listen to has one number.

        Raises OSError: ENOSPC where the system's table of watches is full.
        """
        with self._changing:
            if self._closed:
                raise OSError(errno.EBADF, os.strerror(errno.EBADF))
            # Somebody else may listen to the same folder for other things, for example to the one above all souls.
            wanted = mask | Inotify.IN_ONLYDIR | Inotify.IN_MASK_ADD
            watch = inotify_add_watch(self._instance, os.fsencode(path), wanted)
            if watch < 0:
                raise _failure()
            there = self._watches.get(watch, ())
            if listener not in there:
                self._watches[watch] = (*there, listener)
            return watch

    def remove(self, watches: Iterable[int], listener: Listener) -> None:
        """Listen to these folders no more; to ones that are gone nobody listens anyway."""
        for watch in watches:
            with self._changing:
                left = tuple(each for each in self._watches.get(watch, ()) if each is not listener)
                if left:
                    self._watches[watch] = left
                elif self._watches.pop(watch, None) is not None and not self._closed:
                    inotify_rm_watch(self._instance, watch)  # type: ignore[arg-type] # newer versions name this number

    def close(self) -> None:
        """End the thread and give the instance back."""
        os.eventfd_write(self._end, 1)
        self._thread.join()
        with self._changing:
            self._closed = True
            os.close(self._instance)
            os.close(self._end)

    def _run(self) -> None:
        poll = select.poll()
        poll.register(self._instance, select.POLLIN)
        poll.register(self._end, select.POLLIN)
        while self._end not in {ready for ready, _ in poll.poll()}:
            for watch, mask, name in _parsed(os.read(self._instance, _AT_ONCE)):
                self._pass_on(watch, mask, name)

    def _pass_on(self, watch: int, mask: int, name: bytes) -> None:
        if mask & Inotify.IN_Q_OVERFLOW:
            for listener in self.listeners:
                _call(listener, listener.overflowed)
            return
        for listener in self._watches.get(watch, ()):
            _call(listener, partial(listener.heard, watch, mask, name))
        if mask & Inotify.IN_IGNORED and watch in self._watches:
            with self._changing:
                self._watches.pop(watch, None)


_lock = threading.Lock()
_current: list[Reader] = []  # none or one


def join(listener: Listener) -> Reader:
    """The process's reader, which is opened for the first who joins. Raises OSError as `Reader` does."""
    with _lock:
        if _current and not _current[0].is_alive():
            _current.clear()  # those who joined it notice, and leave it
        if not _current:
            _current.append(Reader())
        reader = _current[0]
        reader.listeners = (*reader.listeners, listener)
        return reader


def leave(reader: Reader, listener: Listener) -> None:
    """Say that this one listens no more; the last one closes it."""
    with _lock:
        reader.listeners = tuple(each for each in reader.listeners if each is not listener)
        if not reader.listeners:
            if reader in _current:
                _current.remove(reader)
            reader.close()


def _call(listener: Listener, told: Callable[[], None]) -> None:
    try:
        told()
    except Exception:  # noqa: BLE001 - a bug met by one soul must not end the hints of all others
        traceback.print_exc()
        with contextlib.suppress(Exception):
            listener.failed()


def _parsed(read: bytes) -> Iterator[tuple[int, int, bytes]]:
    at = 0
    while at < len(read):
        watch, mask, _, length = _HEAD.unpack_from(read, at)
        at += _HEAD.size
        yield watch, mask, read[at : at + length].rstrip(b"\0")
        at += length


def _failure() -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number))
