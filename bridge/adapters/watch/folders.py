"""Which folders of one soul are watched, and what an event in one of them hints at.

Every folder below the root is watched by itself, but never `.git`: a commit wakes nobody. Events about folders may
come in any order, so none is believed: whatever they say, the folder is watched as it is now and only then hinted at,
which covers what was made in it before. That is done by a thread that ends when nothing waits: a disk that hangs
under one soul does not keep the reader from the others.
"""

from __future__ import annotations

import contextlib
import errno
import os
import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from watchdog.observers.inotify_c import InotifyConstants as Inotify

from bridge.adapters.watch import reader
from bridge.adapters.watch.ears import Ears, OnHint

_NAMES = Inotify.IN_CREATE | Inotify.IN_DELETE | Inotify.IN_MOVED_FROM | Inotify.IN_MOVED_TO
# Opening and reading are left out: our own looks would feed back.
_CHANGES = _NAMES | Inotify.IN_MODIFY | Inotify.IN_ATTRIB | Inotify.IN_CLOSE_WRITE
_GONE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)
# What may not be read, or is too deep to be named, is no business of a watcher: a look holds it.
_UNREADABLE = (errno.EACCES, errno.EPERM, errno.ENAMETOOLONG)
_AT_THE_END = 10.0  # seconds


@dataclass(eq=False, slots=True)
class _Folder:
    """A folder that was there; `watch` is None where it could not be watched."""

    name: str
    above: _Folder | None
    watch: int | None = None
    below: dict[str, _Folder] = field(default_factory=dict)

    def path(self, name: str = "") -> str:
        """The path of `name` in it, relative to the root; "" for the root."""
        names, folder = [name] if name else [], self
        while folder.above is not None:
            names.append(folder.name)
            folder = folder.above
        return "/".join(reversed(names))


class Folders:
    """The folders of the soul at `root`, watched from construction to `close`.

    `trouble`: why some of them cannot be watched, as an error. Raises OSError when no inotify instance is to be had.
    """

    def __init__(self, root: Path, on_hint: OnHint, ears: Ears | None) -> None:
        self.trouble: OSError | None = None
        self._root = os.path.abspath(root)
        self._on_hint, self._ears = on_hint, _heard_by(ears)
        self._mask = _CHANGES | (Inotify.IN_CLOSE_NOWRITE if ears else 0)
        self._top = _Folder("", None)
        self._inode: tuple[int, int] | None = None
        self._watched: dict[int, _Folder] = {}
        self._full: set[_Folder] = set()
        self._waiting: dict[str, None] = {}
        self._closed = self._failed = self._busy = False
        self._telling, self._noting, self._refreshing = threading.Lock(), threading.Lock(), threading.Lock()
        self._neighbours = -1
        self._reader = reader.join(self)
        try:
            # The one above first: a root that comes between the two is told by it.
            with contextlib.suppress(OSError):
                self._neighbours = self._reader.add(os.path.dirname(self._root), _NAMES, self)
            self._refresh("")
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Let go of every watch; no hint comes afterwards."""
        with self._telling:
            self._closed = True
        if self._refreshing.acquire(timeout=_AT_THE_END):
            self._refreshing.release()
        self._reader.remove([*self._watched, self._neighbours], self)
        reader.leave(self._reader, self)

    def sound(self) -> bool:
        """Whether events still come, and from the folder that is there now."""
        alive = self._reader.is_alive() and not self._failed and self.trouble is None
        return alive and self._inode is not None and self._inode == _inode(self._root)

    def unwatched(self) -> tuple[int, int]:
        """How many folders are not watched because the system's table is full, and how many there are."""
        return len(self._full), len(self._full) + len(self._watched)

    def heard(self, watch: int, mask: int, name: bytes) -> None:
        """Turn one event into hints; called on the reader's thread."""
        text = os.fsdecode(name)
        if watch == self._neighbours:
            if text == os.path.basename(self._root):
                self._note("")
            return
        folder = self._watched.get(watch)
        if folder is None:
            return
        if mask & (Inotify.IN_IGNORED | Inotify.IN_UNMOUNT):
            # It was deleted, which the one above tells too, or what was mounted there is gone.
            self._note(folder.path())
        elif mask & Inotify.IN_ISDIR:
            if mask & _NAMES:
                self._folder_changed(folder.path(text))
        elif folder.path(text) != ".git":
            self._tell(mask, folder.path(text))
            if not mask & Inotify.IN_CLOSE_NOWRITE:
                # Other patterns: what is beside them may count from now on.
                self._hint((folder.path() or None) if text == ".gitignore" else folder.path(text))

    def overflowed(self) -> None:
        """Events were lost: all may be different."""
        self._note("")

    def failed(self) -> None:
        """A bug: everything is looked at, and whoever asks `sound` begins anew."""
        self._failed = True
        self._hint(None)

    def _folder_changed(self, path: str) -> None:
        if path == ".git":
            self._hint(None)  # it went or came: everything may be different
        else:
            self._note(path)

    def _hint(self, path: str | None) -> None:
        with self._telling:
            if not self._closed:
                self._on_hint(path)

    def _tell(self, mask: int, path: str) -> None:
        with self._telling:
            for kinds, ear in self._ears:
                if mask & kinds and path and not self._closed:
                    ear(path)

    def _note(self, path: str) -> None:
        """Have a folder watched as it is now, and hinted at."""
        with self._noting:
            self._waiting[path] = None
            if not self._busy:
                self._busy = True
                threading.Thread(target=self._work, name="watch-folders", daemon=True).start()

    def _work(self) -> None:
        while True:
            with self._noting:
                if not self._waiting or self._closed:
                    self._busy = False
                    return
                path = next(iter(self._waiting))
                del self._waiting[path]
            try:
                self._refresh(path)
            except Exception:  # noqa: BLE001 - told as `failed`, as a bug on the reader's thread is
                traceback.print_exc()
                self._failed = True
            self._hint(path or None)

    def _refresh(self, path: str) -> None:
        """Watch a folder, and all below it, as they are now."""
        with self._refreshing:
            if self._closed:
                return
            if not path:
                old, self._inode = self._top, None
                fresh = self._top = _Folder("", None)
            else:
                above, name = self._known(path)
                old = above.below.get(name, _Folder(name, above))
                fresh = above.below[name] = _Folder(name, above)
            # In this order what is still there keeps its watch: to let go of each and take it again would make as
            # many events as there are folders, and an overflow of it would never end.
            self._enter(fresh)
            self._drop(old)

    def _known(self, path: str) -> tuple[_Folder, str]:
        """The lowest known folder on the way to a path, and the name in it that leads there."""
        names, above = path.split("/"), self._top
        while len(names) > 1 and names[0] in above.below:
            above = above.below[names.pop(0)]
        return above, names[0]

    def _enter(self, top: _Folder) -> None:
        """Watch a folder and all below it; one that is not there is forgotten."""
        waiting = [top]
        while waiting and not self._closed:
            folder = waiting.pop()
            try:
                names = self._look(folder)
            except OSError as error:
                names = []
                if error.errno in _GONE:
                    if folder.above is not None:
                        folder.above.below.pop(folder.name, None)
                elif error.errno not in _UNREADABLE:
                    self.trouble = OSError(error.errno, error.strerror, os.path.join(self._root, folder.path()))
            for name in names:
                folder.below[name] = _Folder(name, folder)
                waiting.append(folder.below[name])

    def _look(self, folder: _Folder) -> list[str]:
        """Watch one folder and name those in it. Raises OSError.

        It is opened first and then named by its descriptor: what hangs on a bad disk is the opening, when nobody
        else is kept waiting, and what is listed is the folder that is watched.
        """
        links = os.O_NOFOLLOW if folder.above is not None else 0
        opened = os.open(os.path.join(self._root, folder.path()), os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC | links)
        try:
            place = f"/proc/self/fd/{opened}"
            if folder.above is None:
                status = os.fstat(opened)
                self._inode = status.st_dev, status.st_ino
            self._watch(folder, place)
            with os.scandir(place) as entries:
                hidden = ".git" if folder.above is None else ""
                return [each.name for each in entries if each.name != hidden and each.is_dir(follow_symlinks=False)]
        finally:
            os.close(opened)

    def _watch(self, folder: _Folder, place: str) -> None:
        try:
            folder.watch = self._reader.add(place, self._mask, self)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            self._full.add(folder)
        else:
            self._watched[folder.watch] = folder

    def _drop(self, top: _Folder) -> None:
        """Forget a folder and all below it, except watches that are by now another folder's."""
        waiting, watches = [top], []
        while waiting:
            folder = waiting.pop()
            waiting.extend(folder.below.values())
            self._full.discard(folder)
            if folder.watch is not None and self._watched.get(folder.watch) is folder:
                del self._watched[folder.watch]
                watches.append(folder.watch)
        self._reader.remove(watches, self)


def _heard_by(ears: Ears | None) -> tuple[tuple[int, Callable[[str], None]], ...]:
    if ears is None:
        return ()
    return (
        (Inotify.IN_CLOSE_NOWRITE, ears.closed),
        (Inotify.IN_MOVED_FROM, ears.left),
        (Inotify.IN_MOVED_TO | Inotify.IN_CREATE, ears.came),
        (Inotify.IN_MODIFY, ears.written),
    )


def _inode(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino
