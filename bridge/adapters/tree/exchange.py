"""The system calls of GUARD-4: swapping names, asking whether a file is open for writing, making names durable.

Linux is the supported system. Elsewhere, and on file systems that refuse an exchange, names are moved one after the
other, which leaves a moment without a file; that way is run by the tests through `swap_in_steps`, on Linux only.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import signal
import stat
from collections.abc import Callable
from pathlib import Path

from bridge.core.errors import SHORT_OF, Held, Moved, SoulError, Transient
from bridge.core.model import Stamp

NOREPLACE = 1
EXCHANGE = 2
# Not in Python's fcntl module; the number is the same on every Linux.
_F_SETSIG = 10
# What renameat2 answers where the kernel or the file system does not know the flag.
_UNKNOWN = (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP)
# A file system without leases: so long must a file have been quiet before nobody is taken to be writing (seconds).
QUIET = 0.1

_ADVICE = {
    errno.ENOSPC: "Free some space; writing goes on by itself.",
    errno.EDQUOT: "Free some space or raise the quota; writing goes on by itself.",
    errno.EROFS: "Mount the file system writable again; writing goes on by itself.",
    errno.EIO: "Check the disk (dmesg); writing goes on by itself.",
}
_BUSY = (*SHORT_OF, errno.EAGAIN, errno.EINTR, errno.ETIMEDOUT)
_MOVED = (errno.ENOENT, errno.EEXIST, errno.ESTALE)
_UNSAFE = {
    errno.ENAMETOOLONG: "its name is too long for this file system",
    errno.ELOOP: "a symbolic link is on the way",
    errno.ENOTDIR: "something that is no directory is on the way",
    errno.EILSEQ: "this file system cannot hold the name",
    errno.EINVAL: "this file system cannot hold the name",
}
_MOUNTED = (errno.EXDEV, errno.EBUSY)


def prepare_process() -> None:
    """Ignore SIGIO in this process: an opener that meets a lease question must not end it. Main thread only."""
    signal.signal(signal.SIGIO, signal.SIG_IGN)


def translated(error: OSError, path: str) -> SoulError:
    """The family an operating system's refusal belongs to, told for one path."""
    words = f"{path}: {os.strerror(error.errno) if error.errno else error}"
    if error.errno in _ADVICE:
        return Transient(f"cannot write {words}", kind="disk", advice=_ADVICE[error.errno])
    if error.errno in _BUSY:
        return Transient(f"cannot open {words}", kind="busy")
    if error.errno in _MOVED:
        return Moved(f"{path} is not as it was last seen")
    if error.errno in _UNSAFE:
        return Held(f"{path} is not written: {_UNSAFE[error.errno]}", rule="TREE-7")
    if error.errno in _MOUNTED:
        return Held(f"{path} is not written: it lies on another mount or file system", rule="GUARD-6")
    if error.errno in (errno.EACCES, errno.EPERM):
        advice = "Give the user that runs soul-bridge the right to write there; it is tried again by itself."
        return Held(f"{path} is not written: permission denied", rule="GUARD-6", advice=advice)
    return Held(f"{words}", rule="GUARD-6")


def refuse_shortage(error: Exception, place: str | Path) -> None:
    """Raise Transient where the machine, not the place, is why something could not be opened."""
    if isinstance(error, OSError) and error.errno in SHORT_OF:
        raise translated(error, str(place)) from error


def stamp_of(status: os.stat_result) -> Stamp:
    """The stamp of a regular file."""
    executable = bool(status.st_mode & stat.S_IXUSR)
    return Stamp(status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino, executable)


def _renameat2() -> Callable[..., int] | None:
    found = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if found is None:
        return None
    found.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint]
    found.restype = ctypes.c_int
    call: Callable[..., int] = found
    return call


_call = _renameat2()


def rename(source: int, old: str, target: int, new: str, flags: int) -> None:
    """renameat2 between two open directories. Raises OSError; ENOSYS where the call does not exist."""
    if _call is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    if _call(source, os.fsencode(old), target, os.fsencode(new), flags) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def place_new(source: int, old: str, target: int, new: str) -> None:
    """Move a file to a name that must be free. Raises FileExistsError when it is not, OSError."""
    try:
        rename(source, old, target, new, NOREPLACE)
    except OSError as error:
        if error.errno not in _UNKNOWN:
            raise
        # A second name is refused where the name is taken, which a plain rename does not do.
        os.link(old, new, src_dir_fd=source, dst_dir_fd=target, follow_symlinks=False)
        os.unlink(old, dir_fd=source)


def swap(out: int, number: str, target: int, name: str, checkpoint: Callable[[str], None]) -> None:
    """Let the file `number` in the folder `out` and the file `name` in `target` change places. Raises OSError."""
    try:
        rename(out, number, target, name, EXCHANGE)
    except OSError as error:
        if error.errno not in _UNKNOWN:
            raise
        swap_in_steps(out, number, target, name, checkpoint)


def swap_in_steps(out: int, number: str, target: int, name: str, checkpoint: Callable[[str], None]) -> None:
    """The same where a file system knows no exchange; a stop between the steps is put right by `Out.recover`.

    Raises OSError; FileExistsError leaves what came out in the folder.
    """
    fresh = f"{number}.new"
    os.rename(number, fresh, src_dir_fd=out, dst_dir_fd=out)
    checkpoint("steps.aside")
    os.rename(name, number, src_dir_fd=target, dst_dir_fd=out)
    checkpoint("steps.new")
    try:
        place_new(out, fresh, target, name)
    except FileExistsError:
        # Somebody made the file anew meanwhile: theirs stays, what was there before is kept as a leftover.
        os.unlink(fresh, dir_fd=out)
        raise
    except OSError:
        place_new(out, number, target, name)
        os.rename(fresh, number, src_dir_fd=out, dst_dir_fd=out)
        raise


def is_file(directory: int, name: str) -> bool:
    """Whether the name is a regular file's. Raises OSError, FileNotFoundError when there is no such name."""
    return stat.S_ISREG(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode)


def give_back(out: int, number: str, target: int, name: str) -> None:
    """Something that is no file came out, put there by an agent just then: it gets its name again, at once.

    Raises OSError where it cannot; then it stays in the folder.
    """
    try:
        place_new(out, number, target, name)
    except FileExistsError:
        rename(out, number, target, name, EXCHANGE)


def open_for_writing(descriptor: int, now: float) -> bool:
    """Whether anybody has the file open for writing; `descriptor` is open for reading only.

    Asks for a lease and gives it back at once: a held lease would make an opener wait. Where there are no leases
    (another owner's file, network file systems) a file that changed less than 100 ms before `now` counts as open.
    """
    answer = ask_lease(descriptor)
    if answer is not None:
        return answer
    status = os.fstat(descriptor)
    return abs(now - max(status.st_mtime, status.st_ctime)) < QUIET


def ask_lease(descriptor: int) -> bool | None:
    """True: open for writing somewhere. False: nobody has it open to write. None: no leases here."""
    if not hasattr(fcntl, "F_SETLEASE"):
        return None
    try:
        # The default answer to a broken lease is SIGIO, which ends a process; SIGURG is ignored unless asked for.
        fcntl.fcntl(descriptor, _F_SETSIG, signal.SIGURG)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    except OSError as error:
        return True if error.errno == errno.EAGAIN else None
    fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    return False


def sync_directory(descriptor: int) -> None:
    """Make the names in an open directory durable. Raises OSError."""
    try:
        os.fsync(descriptor)
    except OSError as error:
        # Some file systems have nothing to do for a directory and say so this way.
        if error.errno != errno.EINVAL:
            raise


def dress_like(made: int, present: int, executable: bool) -> None:
    """Give the new file owner, mode, ACL and other attributes of the present one. Raises OSError."""
    wanted, status = os.fstat(present), os.fstat(made)
    if (wanted.st_uid, wanted.st_gid) != (status.st_uid, status.st_gid):
        owner = wanted.st_uid if wanted.st_uid != status.st_uid else -1
        os.fchown(made, owner, wanted.st_gid if wanted.st_gid != status.st_gid else -1)
    mode = stat.S_IMODE(wanted.st_mode)
    os.fchmod(made, mode)
    _copy_attributes(made, present)
    if bool(mode & stat.S_IXUSR) != executable:
        # Whoever may read may run, as git does it.
        os.fchmod(made, mode | (mode & 0o444) >> 2 if executable else mode & ~0o111)


def _copy_attributes(made: int, present: int) -> None:
    if not hasattr(os, "listxattr"):
        return
    names: list[str] = []
    with contextlib.suppress(OSError):  # a file system without attributes has none to copy
        names = os.listxattr(present)
    for name in names:
        try:
            os.setxattr(made, name, os.getxattr(present, name))
        except OSError as error:
            # Labels that only the system may set are its business; an ACL decides who may read.
            if name == "system.posix_acl_access" or error.errno not in (errno.EPERM, errno.EACCES, errno.ENOTSUP):
                raise


def dress_for(made: int, directory: int, executable: bool) -> None:
    """Give the new file what one made in this directory would have got: its group and its default ACL."""
    above = os.fstat(directory)
    if above.st_mode & stat.S_ISGID and os.fstat(made).st_gid != above.st_gid:
        os.fchown(made, -1, above.st_gid)
    if not hasattr(os, "getxattr"):
        return
    try:
        inherited = os.getxattr(directory, "system.posix_acl_default")
    except OSError:
        return
    os.setxattr(made, "system.posix_acl_access", inherited)
    granted = stat.S_IMODE(os.fstat(made).st_mode)
    os.fchmod(made, granted & (0o777 if executable else 0o666))
