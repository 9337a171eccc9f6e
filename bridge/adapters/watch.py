"""Hints from the operating system that working files changed (watchdog on inotify).

A hint proves nothing and may be missing: truth is a look. So everything that makes hints incomplete, an overflow, a
limit, a folder that came and went, becomes the hint None, "look at everything", and a sentence in `problems`.

The top is watched by itself and each folder in it with everything below, but never `.git`: a commit wakes nobody.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

from watchdog import events
from watchdog.events import (
    DirCreatedEvent,
    DirDeletedEvent,
    DirMovedEvent,
    FileClosedEvent,
    FileClosedNoWriteEvent,
    FileCreatedEvent,
    FileDeletedEvent,
    FileModifiedEvent,
    FileMovedEvent,
    FileSystemEvent,
    FileSystemEventHandler,
)
from watchdog.observers import Observer
from watchdog.observers.api import BaseObserver, ObservedWatch

_FOLDERS: list[type[FileSystemEvent]] = [DirCreatedEvent, DirDeletedEvent, DirMovedEvent]
# Opening and reading are left out: our own looks would feed back.
_CHANGES: list[type[FileSystemEvent]] = [
    *_FOLDERS,
    FileClosedEvent,
    FileCreatedEvent,
    FileDeletedEvent,
    FileModifiedEvent,
    FileMovedEvent,
    # A change of mode, which older versions of the library report as a modification.
    *[kind for kind in (getattr(events, "FileAttribEvent", None),) if kind is not None],
]
# The only place where the library tells that events were dropped, or that watches could not be set again.
_LOGGERS = ("watchdog.observers.inotify_c", "watchdog.observers.inotify")

for _name in _LOGGERS:
    # It complains when it is stopped while it begins, and at every stop: nobody's business. What a person has to know
    # is in `problems`.
    logging.getLogger(_name).addHandler(logging.NullHandler())
    logging.getLogger(_name).propagate = False

# While nothing is watched, everything is looked at so often; while only some folders are not, so often (seconds).
BLIND = 5.0
PARTLY_BLIND = 60.0

OnHint = Callable[[str | None], None]
OnRead = Callable[[str], None]

_LIMIT = (
    "The limit of inotify watches is reached: {count} of {all} folders are not watched and are looked at once"
    " a minute only. Raise it: sudo sysctl fs.inotify.max_user_watches=1048576"
    " (to keep it: put fs.inotify.max_user_watches=1048576 into /etc/sysctl.d/90-soul-bridge.conf)"
)
_INSTANCES = (
    "No inotify instance is left: nothing is watched, files are looked at every few seconds instead."
    " Raise the limit: sudo sysctl fs.inotify.max_user_instances=1024"
    " (to keep it: put fs.inotify.max_user_instances=1024 into /etc/sysctl.d/90-soul-bridge.conf)"
)


class Watch:
    """Watches the checkout at `root` from `start` to `stop`.

    `on_hint(path)` is called from a thread of the watcher with a path relative to the root, a file or a directory, or
    with None for "look at everything". `on_read(path)`, when given, is called each time a file was closed after it
    was opened for reading only, ours included.
    """

    def __init__(self, root: Path, on_hint: OnHint, on_read: OnRead | None = None) -> None:
        self.blind, self.partly_blind = BLIND, PARTLY_BLIND
        self._root = root
        self._on_hint = on_hint
        self._on_read = on_read
        self._session: _Session | None = None
        self._overflow = _Overflow(lambda: on_hint(None))
        self._trouble = ""
        self._started = False
        self._due = False
        self._stopped = threading.Event()
        self._pulse: threading.Thread | None = None
        self._unwatched: tuple[int, int] = (0, 0)

    def start(self) -> None:
        """Begin watching; what cannot be watched is in `problems`. Never raises for a limit or a missing folder."""
        self._started = True
        self._overflow.attach()
        # The library warns when a folder is watched twice, which happens when one is made while it is being added.
        warnings.filterwarnings("ignore", message="Callback with id", category=RuntimeWarning)
        self._open()
        self._count()
        self._beat()

    def stop(self) -> None:
        """End watching: no hint comes afterwards. A second time does nothing."""
        self._started = False
        self._stopped.set()
        if self._pulse is not None:
            self._pulse.join()
            self._pulse = None
        self._overflow.detach()
        self._close()

    def check(self) -> None:
        """Compare with the world: begin again, with the hint None, if the watcher died, another folder stands there
        or folders could not be watched; count those that are not."""
        self._due = False
        self._mend()
        self._count()
        self._beat()

    def problems(self) -> list[str]:
        """Why hints may be missing, each with its remedy; empty when all is well. Call it from one thread only: it
        begins again what broke, and counts when folders came or went since the last count."""
        if self._due:
            self.check()
        self._mend(lost=False)
        if self._session is not None and self._session.folders_changed:
            self._count()
        self._beat()
        found = [self._trouble] if self._trouble else []
        if self._unwatched[0]:
            found.append(_LIMIT.format(count=self._unwatched[0], all=self._unwatched[1]))
        return found

    @property
    def degraded(self) -> bool:
        """Whether hints are known to be missing; the hint None comes by the clock as long as they are."""
        return bool(self._trouble) or self._unwatched[0] > 0

    def _beat(self) -> None:
        """Hint by the clock as long as what should give hints cannot."""
        if self._started and self.degraded and (self._pulse is None or not self._pulse.is_alive()):
            self._stopped.clear()
            self._pulse = threading.Thread(target=self._beating, name="watch-pulse", daemon=True)
            self._pulse.start()

    def _beating(self) -> None:
        while self.degraded and not self._stopped.wait(self.blind if self._trouble else self.partly_blind):
            self._due = True
            self._on_hint(None)

    def _mend(self, lost: bool = True) -> None:
        """Begin again where it is broken and, if `lost`, where folders could not be watched: the limit may be gone."""
        broken = self._session is None or not self._session.sound() or (lost and self._unwatched[0] > 0)
        if self._started and broken:
            self._close()
            self._open()
            # Only success is news: failing again must not make passes follow each other without a pause.
            if self._session is not None and self._session.sound():
                self._on_hint(None)

    def _open(self) -> None:
        try:
            self._session = _Session(self._root, self._on_hint, self._on_read)
        except OSError as error:
            self._trouble = _told(error, self._root)
        else:
            self._trouble = self._session.trouble

    def _close(self) -> None:
        if self._session is not None:
            self._session.close()
            self._session = None

    def _count(self) -> None:
        if self._session is None:
            self._unwatched = (0, 0)
            return
        self._session.folders_changed = False
        watched, folders = _watched_inodes(), list(_folders(self._root))
        missing = 0 if watched is None else sum(inode not in watched for inode in folders)
        self._unwatched = (missing, len(folders))


class _Session(FileSystemEventHandler):
    """One observer and its schedules. After construction only the observer's thread changes `_schedules`.

    `folders_changed`: a folder came, went or moved since somebody last set it to False.

    Raises OSError when not even an inotify instance is to be had.
    """

    def __init__(self, root: Path, on_hint: OnHint, on_read: OnRead | None) -> None:
        self.trouble = ""
        self.folders_changed = False
        self._root = os.path.abspath(root)
        self._on_hint = on_hint
        self._on_read = on_read
        self._kinds = [*_CHANGES, FileClosedNoWriteEvent] if on_read else list(_CHANGES)
        self._schedules: dict[str, ObservedWatch] = {}
        self._observer: BaseObserver = Observer()
        self._observer.start()
        self._inode = _inode(self._root)
        for name in self._names():
            self._schedule(name)
        self._schedule("")
        self._above = self._watch(os.path.dirname(self._root), _FOLDERS, recursive=False)
        # What was made between listing the top and watching it: told to the observer's own thread.
        top = self._schedules.get("")
        for name in self._names() if top is not None else []:
            if name not in self._schedules:
                self._observer.event_queue.put((DirCreatedEvent(os.path.join(self._root, name)), top))

    def close(self) -> None:
        """Let go of every watch."""
        self._observer.stop()
        self._observer.join(timeout=10)

    def sound(self) -> bool:
        """Whether all threads live and the folder that is watched is the one that is there."""
        reader = getattr(self._observer, "_inotify_fd", None)  # a thread that all schedules share, in newer versions
        threads = [self._observer, *self._observer.emitters.copy()]
        alive = all(each.is_alive() for each in threads) and (reader is None or reader.is_alive())
        return alive and not self.trouble and self._inode is not None and self._inode == _inode(self._root)

    def dispatch(self, event: FileSystemEvent) -> None:
        """Turn one event into hints; called on the observer's thread."""
        paths = [os.fsdecode(path) for path in (event.src_path, event.dest_path) if path]
        if isinstance(event, FileClosedNoWriteEvent):
            for path in paths:
                relative = self._relative(path)
                if relative and self._on_read is not None:
                    self._on_read(relative)
            return
        folder = isinstance(event, (DirCreatedEvent, DirDeletedEvent, DirMovedEvent))
        self.folders_changed |= folder
        for path in paths:
            if path == self._root:
                self._again()
            else:
                self._changed(self._relative(path), folder)

    def _changed(self, relative: str, folder: bool) -> None:
        if not relative:
            return  # a neighbour of the root
        if relative == ".git":
            if folder:
                self._on_hint(None)  # it went or came: everything may be different
            return
        if folder and "/" not in relative:
            self._refresh(relative)
        above, _, name = relative.rpartition("/")
        # Other patterns: what is beside them may count from now on.
        self._on_hint((above or None) if name == ".gitignore" else relative)

    def _relative(self, path: str) -> str:
        """The path below the root, "" for others."""
        top = self._root.rstrip("/") + "/"
        return path[len(top) :] if path.startswith(top) else ""

    def _again(self) -> None:
        """The root itself went, came or was renamed: begin anew with what is there now."""
        for name in list(self._schedules):
            self._forget(name)
        self._inode = _inode(self._root)
        if self._inode is not None:
            self._schedule("")
            for name in self._names():
                self._schedule(name)
        self._on_hint(None)

    def _refresh(self, name: str) -> None:
        """Watch a folder of the top as it is now; events about it may come in any order, so none is believed."""
        self._forget(name)
        if name in self._names():
            self._schedule(name)

    def _names(self) -> list[str]:
        try:
            with os.scandir(self._root) as entries:
                return [each.name for each in entries if each.name != ".git" and each.is_dir(follow_symlinks=False)]
        except OSError:
            return []

    def _schedule(self, name: str) -> None:
        watch = self._watch(os.path.join(self._root, name) if name else self._root, self._kinds, recursive=bool(name))
        if watch is not None:
            self._schedules[name] = watch

    def _watch(self, path: str, kinds: list[type[FileSystemEvent]], *, recursive: bool) -> ObservedWatch | None:
        try:
            return self._observer.schedule(self, path, recursive=recursive, event_filter=kinds)
        except OSError as error:
            # A full table is counted by `Watch`, folder by folder; one that went just now needs no watch.
            if error.errno not in (errno.ENOSPC, errno.ENOENT, errno.ENOTDIR):
                self.trouble = _told(error, Path(path))
            return None

    def _forget(self, name: str) -> None:
        watch = self._schedules.pop(name, None)
        if watch is not None:
            with contextlib.suppress(KeyError, OSError):
                self._observer.unschedule(watch)


class _Overflow(logging.Handler):
    """Listens to the library's log, the only sign that events were dropped."""

    def __init__(self, tell: Callable[[], None]) -> None:
        super().__init__(logging.WARNING)
        self._tell = tell

    def attach(self) -> None:
        """Listen."""
        for name in _LOGGERS:
            logging.getLogger(name).addHandler(self)

    def detach(self) -> None:
        """Listen no more."""
        for name in _LOGGERS:
            logging.getLogger(name).removeHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """A warning there always means that something was missed."""
        self._tell()


def _told(error: OSError, path: Path) -> str:
    if error.errno == errno.EMFILE:
        return _INSTANCES
    return f"{path} cannot be watched ({error.strerror}); it is looked at every few seconds instead."


def _inode(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _watched_inodes() -> set[int] | None:
    """Inodes that this process watches, None where the system does not tell."""
    found: set[int] = set()
    try:
        for name in os.listdir("/proc/self/fdinfo"):
            with contextlib.suppress(FileNotFoundError), open(f"/proc/self/fdinfo/{name}", encoding="ascii") as lines:
                for line in lines:
                    if line.startswith("inotify wd:"):
                        found.add(int(line.split("ino:", 1)[1].split()[0], 16))
    except OSError:
        return None
    return found


def _folders(root: Path) -> Iterator[int]:
    """Inodes of the root and of every real directory below it but `.git`."""
    waiting = [os.fspath(root)]
    while waiting:
        path = waiting.pop()
        try:
            status = os.stat(path, follow_symlinks=path == os.fspath(root))
            with os.scandir(path) as entries:
                below = [each.path for each in entries if each.is_dir(follow_symlinks=False)]
        except OSError:
            continue  # gone, or not readable: nothing to be watched
        yield status.st_ino
        waiting.extend(each for each in below if path != os.fspath(root) or os.path.basename(each) != ".git")
