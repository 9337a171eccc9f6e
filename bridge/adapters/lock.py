"""One daemon per soul and per checkout: kernel locks held for life, which end with their holder whatever happens.

The number inside a lock file is only told to people; the lock itself is the proof that somebody lives.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import time
from pathlib import Path
from types import TracebackType

from bridge.core.errors import Refused, Transient

_TRIES = 10  # a short look by `is_held` must not turn a starting daemon away
_PAUSE = 0.05


class Lock:
    """The lock files of one soul (its state directory's, its git directory's), taken in this order or not at all."""

    def __init__(self, *paths: Path) -> None:
        self._paths = paths
        self._descriptors: list[int] = []

    @property
    def held(self) -> bool:
        """Whether this object holds every one of its locks."""
        return len(self._descriptors) == len(self._paths)

    def acquire(self) -> None:
        """Take every lock; again is nothing new. Raises Refused(kind="busy") naming the holder, Transient(kind="disk").

        The directory of a lock is made (0700) if the one above it is there.
        """
        for path in self._paths[len(self._descriptors) :]:
            try:
                self._descriptors.append(_locked(path))
            except BaseException:
                self.release()
                raise

    def stands(self, path: Path) -> bool:
        """Whether the file that others find at `path` is the one that is held; True where none is held."""
        held = dict(zip(self._paths, self._descriptors, strict=False))
        return path not in held or _is_named(held[path], path)

    def renew(self, path: Path) -> None:
        """Take the lock at `path` again where its file was removed or replaced: the old one keeps nobody out.

        Raises as `acquire`; what was held stays held then.
        """
        if self.held and not self.stands(path):
            at, fresh = self._paths.index(path), _locked(path)
            os.close(self._descriptors[at])
            self._descriptors[at] = fresh

    def release(self) -> None:
        """Let go of them; the files stay, for a lock file that is removed can be held twice."""
        while self._descriptors:
            os.close(self._descriptors.pop())

    def __enter__(self) -> Lock:
        self.acquire()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.release()


def is_held(path: Path) -> bool:
    """Whether anybody holds this lock now; it is not taken."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno in (errno.EWOULDBLOCK, errno.EACCES)
    finally:
        os.close(descriptor)
    return False


def holder(path: Path) -> int | None:
    """The process that wrote its number into a lock that is held; None when it is free or the number unreadable."""
    return _number(path) if is_held(path) else None


def _number(path: Path) -> int | None:
    with contextlib.suppress(OSError, ValueError):
        return int(path.read_text(encoding="ascii")[:20])
    return None


def _locked(path: Path) -> int:
    for attempt in range(_TRIES):
        if attempt:
            time.sleep(_PAUSE)
        descriptor = _opened(path)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not _is_named(descriptor, path):
                # Somebody removed the file meanwhile: a lock on it would keep nobody out.
                os.close(descriptor)
                continue
            os.truncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        except OSError as error:
            os.close(descriptor)
            if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                raise Transient(f"{path} cannot be locked: {error.strerror}", kind="disk") from error
        else:
            return descriptor
    number = _number(path)
    raise Refused(
        f"another soul-bridge{f' (pid {number})' if number else ''} holds {path}; nothing was changed",
        kind="busy",
        advice="soul-bridge status",
    )


def _opened(path: Path) -> int:
    try:
        path.parent.mkdir(mode=0o700, exist_ok=True)
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise Transient(
            f"{path} cannot be opened: {error.strerror}", kind="disk", advice=f"ls -ld {path.parent}"
        ) from error


def _is_named(descriptor: int, path: Path) -> bool:
    with contextlib.suppress(OSError):
        return os.path.samestat(os.fstat(descriptor), os.stat(path, follow_symlinks=False))
    return False
