"""Git's own lock files, taken and given back; and what a crash left behind, cleared away at a start.

The lock is git's (`<file>.lock`, made by whoever gets there first). Ours are hard links to a file in
`soul-bridge/locks`, written and fsynced beforehand: so the lock is held for microseconds, and after a crash the link
tells that the lock was ours, however young it is.
"""

from __future__ import annotations

import contextlib
import errno
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bridge.adapters.gitenv import private
from bridge.adapters.repo.packs import OURS
from bridge.adapters.repo.store import read_loose
from bridge.core import errors
from bridge.core.publish import LOCKED, STALE

_ATTEMPTS = 50  # looks at a lock that is held, 20 ms apart
_PAUSE = 0.02


@contextmanager
def locked(git_dir: Path, path: Path, content: bytes, attempts: int = _ATTEMPTS) -> Iterator[Path]:
    """Hold `<path>.lock` with this content, durable; the caller may rename it to `path`.

    One that no git has touched for 10 minutes holds nobody up: it is moved aside.
    Raises Transient(kind="busy") when another holds it, OSError when it cannot be made.
    """
    lock = path.with_name(path.name + ".lock")
    own = private(git_dir, "locks") / f"{os.getpid()}-{os.urandom(6).hex()}"
    try:
        inode = _take(git_dir, lock, own, _write(own, content), content, attempts)
        try:
            yield lock
        finally:
            _release(lock, inode)
    finally:
        own.unlink(missing_ok=True)


def young(git_dir: Path, lock: Path) -> bool:
    """Whether a lock file is there and was made in the last 10 minutes. Raises Transient(kind="disk")."""
    try:
        made = lock.lstat().st_mtime
        return _now(git_dir) - made < STALE
    except FileNotFoundError:
        return False
    except OSError as error:
        raise errors.Transient(f"cannot look at {lock}: {error.strerror}", kind="disk") from error


def recover(git_dir: Path) -> list[str]:
    """Clear away what a crash left, while holding the process lock: a sentence for each thing done.

    Locks and half-written packs of ours go at once, those of others after 10 minutes; damaged loose objects are moved
    aside, for nobody ever writes an existing one again. Locks of others and objects are kept in `soul-bridge/damaged`.
    Raises Transient(kind="disk") when something cannot be moved.
    """
    try:
        now = _now(git_dir)
        return [*_locks(git_dir, now), *_half_packs(git_dir, now), *_damaged_objects(git_dir)]
    except OSError as error:
        raise errors.Transient(f"cannot clear {git_dir} up: {error.strerror}", kind="disk") from error


def _now(git_dir: Path) -> float:
    """The time by which the file system stamps its files: ages are told by the clock that made them."""
    with tempfile.TemporaryFile(dir=private(git_dir)) as file:
        return os.fstat(file.fileno()).st_mtime


def _take(git_dir: Path, lock: Path, own: Path, inode: int, content: bytes, attempts: int) -> int:
    """Make the lock; its inode, by which it is known again. Nothing can fail once it is there: it would stay."""
    for attempt in range(attempts):
        try:
            os.link(own, lock)
            return inode
        except FileExistsError:
            if not attempt and not young(git_dir, lock):
                _clear(git_dir, lock)
            elif attempt + 1 < attempts:
                time.sleep(_PAUSE)
        except OSError as error:
            if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.EMLINK, errno.ENOSYS):
                raise
            # A file system without hard links: then only its age tells of a lock left behind.
            return _write(lock, content)
    raise errors.Transient(f"another git holds {lock}", kind="busy")


def _clear(git_dir: Path, lock: Path) -> None:
    """Move a stale lock aside; a young one that took its name in that moment gets it back."""
    try:
        aside = _set_aside(git_dir, lock)
    except FileNotFoundError:
        return
    if young(git_dir, aside):
        with contextlib.suppress(FileExistsError):
            os.link(aside, lock)


def _release(lock: Path, inode: int) -> None:
    """Take a lock away that was not used: only if it is still ours, for another may hold the next one already."""
    try:
        if os.lstat(lock).st_ino == inode:
            lock.unlink()
    except FileNotFoundError:
        pass


def _write(path: Path, content: bytes) -> int:
    """Make a file with this content, durable; its inode."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(descriptor)
            return os.fstat(descriptor).st_ino
    except OSError:
        path.unlink(missing_ok=True)  # it may be the lock itself, which would stay
        raise


def _locks(git_dir: Path, now: float) -> Iterator[str]:
    place = git_dir / "soul-bridge" / "locks"
    ours = {file.lstat().st_ino for file in place.iterdir()} if place.is_dir() else set()
    tops = [git_dir / f"{name}.lock" for name in LOCKED]
    found = [path for path in tops if os.path.lexists(path)]
    for folder, _, files in os.walk(git_dir / "refs"):
        found += [Path(folder, name) for name in files if name.endswith(".lock")]
    for lock in found:
        stat = lock.lstat()
        if stat.st_ino in ours:
            lock.unlink()
            yield f"removed {lock}, left by a crash of ours"
        elif now - stat.st_mtime > STALE:
            yield f"moved the stale {lock} to {_set_aside(git_dir, lock)}"
    if place.is_dir():
        for file in place.iterdir():
            file.unlink()


def _half_packs(git_dir: Path, now: float) -> Iterator[str]:
    for path in (git_dir / "objects" / "pack").glob("tmp_*"):
        if OURS in path.name or now - path.lstat().st_mtime > STALE:
            path.unlink()
            yield f"removed the half-written {path}"


def _damaged_objects(git_dir: Path) -> Iterator[str]:
    """Check the loose objects that came since the last check; an hour more, for bytes may reach the disk late."""
    mark = git_dir / "soul-bridge" / "checked"
    since = mark.stat().st_mtime - 3600 if mark.exists() else 0.0
    for folder in (git_dir / "objects").glob("[0-9a-f][0-9a-f]"):
        for path in folder.iterdir():
            oid = folder.name + path.name
            if len(oid) != 40 or path.lstat().st_ctime < since:
                continue
            try:
                read_loose(path, oid)
            except errors.Refused as error:
                yield f"{error.message}; moved to {_set_aside(git_dir, path)}"
    mark.touch()


def _set_aside(git_dir: Path, path: Path) -> Path:
    """Move a file to the first free name in `soul-bridge/damaged`."""
    place = private(git_dir, "damaged")
    name = str(path.relative_to(git_dir)).replace("/", "-")
    target, number = place / name, 1
    while os.path.lexists(target):
        number += 1
        target = place / f"{name}-{number}"
    path.rename(target)
    return target
