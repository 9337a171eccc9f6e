"""Looking at the working files: what is there, what is neither file nor gone, what is gone (GUARD-6).

Every directory is opened from the one above it without following links, so nothing outside the soul is ever seen. A
path is gone only where every directory above it could be opened and listed, up to the one that does not have the name.
A directory where a known file was, or a file where a known directory was, also proves the known path gone.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from bridge.adapters.tree.exchange import refuse_shortage, stamp_of, translated
from bridge.adapters.tree.ignore import Ignoring, Levels, ignores
from bridge.adapters.tree.place import DEEPEST, DIRECTORY, is_link_error, kind_of, mounts_below
from bridge.core import layout
from bridge.core.errors import Moved
from bridge.core.model import Look, SeenEntry, Stamp

_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")

Why = tuple[str, str]


class Walk:
    """One look, collected while walking. Use once.

    `aside` is the private folder's path below the root, "" where it lies in `.git` or elsewhere.
    """

    def __init__(self, known: Mapping[str, SeenEntry], ignoring: Ignoring, mounts: Collection[str], aside: str) -> None:
        self.files: dict[str, Stamp] = {}
        self.special: dict[str, Why] = {}
        self.gone: set[str] = set()
        self.ignored: set[str] = set()
        self._known = known
        self._ignoring = ignoring
        self._mounts = mounts
        self._aside = aside
        self._above_known: set[str] | None = None
        self._device = 0
        self._user = os.geteuid()

    def everything(self, root: Path) -> None:
        """Look at the whole tree. Raises Moved when the root is gone, Transient when descriptors are short."""
        self._ignoring.whole()
        descriptor = self._top(root)
        try:
            self._directory(descriptor, "", (), False)
        finally:
            os.close(descriptor)
        self._missing(self._known)

    def hinted(self, root: Path, hints: Iterable[str], folds: bool) -> None:
        """Look at some paths, directories with everything below. Raises as `everything`."""
        descriptor = self._top(root)
        try:
            for hint in hints:
                self._hint(descriptor, hint, folds)
        finally:
            os.close(descriptor)

    def _top(self, root: Path) -> int:
        try:
            descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            refuse_shortage(error, root)
            raise Moved(f"the checkout {root} cannot be opened: {os.strerror(error.errno or 0)}") from error
        self._device = os.fstat(descriptor).st_dev
        return descriptor

    def _directory(self, descriptor: int, path: str, levels: Levels, ignored: bool) -> None:
        """Look at an open directory; `ignored`: only known paths and the tree's own entries count in it."""
        try:
            with os.scandir(descriptor) as listing:
                entries = list(listing)
        except OSError as error:
            self._failed(path, error)
            return
        prefix = f"{path}/" if path else ""
        names = {entry.name for entry in entries}
        if ".git" in names and path:
            self.special[path] = ("TREE-6", "a nested repository")
            return
        if ".gitignore" in names:
            levels = self._ignoring.deeper(levels, descriptor, path)
        for name in self._files_of(descriptor, entries, prefix, levels, ignored):
            self._below(descriptor, name, prefix + name, levels, ignored)

    def _files_of(
        self, descriptor: int, entries: Iterable[os.DirEntry[str]], prefix: str, levels: Levels, ignored: bool
    ) -> list[str]:
        """Look at what is no directory; the names of the directories."""
        directories: list[str] = []
        for entry in entries:
            name = entry.name
            if name == ".git":
                continue  # the top's own; below the top it was seen before
            try:
                status = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue  # went between listing and asking: as absent
            except OSError as error:
                self._failed(prefix + name, error)
                continue
            if stat.S_ISREG(status.st_mode):
                self._file(descriptor, name, prefix + name, status, levels, ignored)
            elif stat.S_ISDIR(status.st_mode):
                directories.append(name)
            else:
                self._other(prefix + name, status.st_mode, levels, ignored)
        return directories

    def _file(
        self, directory: int, name: str, path: str, status: os.stat_result, levels: Levels, ignored: bool
    ) -> None:
        seen = self._known.get(path)
        if seen is None:
            if (ignored or ignores(levels, path)) and not layout.is_own(path):
                self.ignored.add(path)
                return
            why = self._barrier(path)
            if why is not None:
                self.special[path] = why
                return
        if not self._readable(directory, name, status):
            self.special[path] = ("TREE-6", "a file that cannot be read")
        elif path in self._mounts:  # known before it became one
            self.special[path] = ("GUARD-6", "a mount point")
        else:
            self.files[path] = seen.stamp if seen is not None and _same(seen.stamp, status) else stamp_of(status)

    def _readable(self, directory: int, name: str, status: os.stat_result) -> bool:
        """Whether the file may be read; asks the kernel only where owner and mode leave it open."""
        if self._user == 0 or (status.st_uid == self._user and status.st_mode & stat.S_IRUSR):
            return True
        return os.access(name, os.R_OK, dir_fd=directory, effective_ids=True)

    def _other(self, path: str, mode: int, levels: Levels, ignored: bool) -> None:
        ignored = ignored or ignores(levels, path)
        if ignored and path not in self._known and path not in self._holding():
            self.ignored.add(path)
            return
        self.special[path] = ("TREE-6", kind_of(mode))

    def _below(self, above: int, name: str, path: str, levels: Levels, ignored: bool) -> None:
        """Look at a directory by its name in an open one."""
        if path in (".git", self._aside):
            return
        if not ignored and ignores(levels, f"{path}/"):
            ignored = True
        if ignored and not layout.may_hold_own(path) and path not in self._holding():
            self.ignored.add(path)
            return
        why = self._barrier(path)
        if why is not None:
            self.special[path] = why
            return
        try:
            descriptor = os.open(name, DIRECTORY, dir_fd=above)
        except FileNotFoundError:
            return
        except OSError as error:
            self._failed(path, error)
            return
        try:
            if os.fstat(descriptor).st_dev != self._device:
                self.special[path] = ("GUARD-6", "a mount point")
                return
            self._directory(descriptor, path, levels, ignored)
        finally:
            os.close(descriptor)

    def _barrier(self, path: str) -> Why | None:
        """Why a file or directory is not opened, told from its path alone."""
        if path in self._mounts:
            return ("GUARD-6", "a mount point")
        if _CONTROL.search(path):
            return ("TREE-6", "a name with control characters")
        if path.rpartition("/")[2].casefold() == ".git":
            return ("TREE-6", "a name that git keeps for itself")
        if path.count("/") >= DEEPEST:
            return ("TREE-7", "a place too deep to follow")
        return None

    def _failed(self, path: str, error: OSError) -> None:
        refuse_shortage(error, path)
        if is_link_error(error):
            self.special[path] = ("TREE-6", "something that was replaced while it was looked at")
        elif error.errno in (errno.EACCES, errno.EPERM):
            self.special[path] = ("GUARD-6", "unreadable: permission denied")
        else:
            self.special[path] = ("GUARD-6", f"unreadable: {os.strerror(error.errno or 0)}")

    def _holding(self) -> set[str]:
        """The directories above known paths; made only when an ignored directory is met."""
        if self._above_known is None:
            self._above_known = set()
            for path in self._known:
                directory = path.rpartition("/")[0]
                while directory and directory not in self._above_known:
                    self._above_known.add(directory)
                    directory = directory.rpartition("/")[0]
        return self._above_known

    def _missing(self, wanted: Iterable[str]) -> None:
        """Known paths that were not found: held by what stands at or above them, else gone."""
        for path in wanted:
            if path in self.files or path in self.special:
                continue
            why = self._held_by(path)
            if why is None:
                self.gone.add(path)
            else:
                self.special[path] = why

    def _held_by(self, path: str) -> Why | None:
        directory = path
        while True:
            if directory in self.special:
                rule, reason = self.special[directory]
                return rule, f"{reason} at {directory or 'the top'}" if directory != path else reason
            if not directory:
                return None
            directory = directory.rpartition("/")[0]

    # One hint: down to it, asking of each directory on the way what a whole look would have asked.

    def _hint(self, root: int, hint: str, folds: bool) -> None:
        hint = hint.strip("/")
        parts = hint.split("/") if hint else []
        if "." in parts or ".." in parts or "" in parts:
            return
        opened: list[int] = []
        try:
            self._descend(root, parts, opened, folds)
        finally:
            for descriptor in opened:
                os.close(descriptor)
        self._missing(path for path in self._known if path == hint or not hint or path.startswith(f"{hint}/"))

    def _descend(self, root: int, parts: list[str], opened: list[int], folds: bool) -> None:
        directory, path, ignored = root, "", False
        levels: Levels = ()
        for position, name in enumerate(parts):
            if path and _has(directory, ".git"):
                self.special[path] = ("TREE-6", "a nested repository")
                return
            levels = self._ignoring.deeper(levels, directory, path)
            path = f"{path}/{name}" if path else name
            status = self._status(directory, name, path, folds)
            if status is None or path in (".git", self._aside):
                return
            if not stat.S_ISDIR(status.st_mode):
                if stat.S_ISREG(status.st_mode) and position == len(parts) - 1:
                    self._file(directory, name, path, status, levels, ignored)
                elif not stat.S_ISREG(status.st_mode):
                    self._other(path, status.st_mode, levels, ignored)
                return
            if position == len(parts) - 1:
                self._below(directory, name, path, levels, ignored)
                return
            ignored = ignored or ignores(levels, f"{path}/")
            if not self._enter(directory, name, path, opened):
                return
            directory = opened[-1]
        self._directory(directory, path, levels, ignored)

    def _status(self, directory: int, name: str, path: str, folds: bool) -> os.stat_result | None:
        try:
            status = os.stat(name, dir_fd=directory, follow_symlinks=False)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            self._failed(path, error)
            return None
        if folds and name not in os.listdir(directory):
            return None  # another name of the same letters answered for it
        return status

    def _enter(self, directory: int, name: str, path: str, opened: list[int]) -> bool:
        """Open one more directory on the way to a hint; False when something bars the way."""
        why = self._barrier(path)
        if why is not None:
            self.special[path] = why
            return False
        try:
            opened.append(os.open(name, DIRECTORY, dir_fd=directory))
        except FileNotFoundError:
            return False
        except OSError as error:
            self._failed(path, error)
            return False
        if os.fstat(opened[-1]).st_dev != self._device:
            self.special[path] = ("GUARD-6", "a mount point")
            return False
        return True


def _same(stamp: Stamp, status: os.stat_result) -> bool:
    """Whether a stamp made of this status would be equal: nearly always so, and cheaper than making one."""
    return (
        stamp.mtime_ns == status.st_mtime_ns
        and stamp.ctime_ns == status.st_ctime_ns
        and stamp.inode == status.st_ino
        and stamp.size == status.st_size
        and stamp.executable == bool(status.st_mode & stat.S_IXUSR)
    )


def _has(directory: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=directory, follow_symlinks=False)
    except OSError:
        return False
    return True


def look(
    root: Path,
    aside: str,
    known: Mapping[str, SeenEntry],
    hints: Collection[str] | None,
    ignoring: Ignoring,
    folds: bool,
) -> Look:
    """One look at everything (hints None) or at the hinted paths. Raises as `Walk.everything`."""
    walk = Walk(known, ignoring, mounts_below(root), aside)
    try:
        if hints is None:
            walk.everything(root)
        else:
            walk.hinted(root, hints, folds)
    except OSError as error:
        raise translated(error, "the checkout") from error
    return Look(walk.files, walk.special, frozenset(walk.gone), hints is None, frozenset(walk.ignored))
