"""This machine as `doctor` asks about it: what is installed, disks, limits, owners and modes. Nothing is changed."""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import platform
import shutil
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bridge.adapters.gitenv import clean_environment
from bridge.core.errors import Transient
from bridge.core.ports import Clock
from bridge.core.publish import LOCKED

ENOUGH = 4  # paths of one kind that are named
PATIENCE = 10.0  # seconds that a host has to answer
MOST_HEARD = 1 << 20  # bytes of an answer
_INSTALLERS = {
    "apt-get": "sudo apt-get install", "dnf": "sudo dnf install", "zypper": "sudo zypper install",
    "pacman": "sudo pacman -S", "apk": "sudo apk add", "brew": "brew install",
}  # fmt: skip
_INOTIFY = Path("/proc/sys/fs/inotify")


@dataclass(frozen=True, slots=True)
class Space:
    """A file system: free and all bytes, free inodes (-1: it has no such limit), whether it is mounted read-only."""

    free: int
    total: int
    inodes: int
    read_only: bool


class Machine:
    """The machine this runs on."""

    def __init__(self, clock: Clock) -> None:
        self.host = platform.node()
        self.interpreter = sys.executable
        self.python: tuple[int, ...] = sys.version_info[:3]
        self._clock = clock

    def library(self, name: str) -> str | None:
        """The version of an installed library, None when it is not there."""
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            return None

    def git(self) -> str | None:
        """What `git --version` says, None without git."""
        try:
            said = subprocess.run(
                ["git", "--version"], env=clean_environment(), capture_output=True, timeout=PATIENCE, check=True
            )
        except (OSError, subprocess.SubprocessError):
            return None
        return said.stdout.decode("utf-8", "replace").strip()

    def installs(self, package: str) -> str:
        """The command that installs a package of this system."""
        found = [words for program, words in _INSTALLERS.items() if shutil.which(program)]
        return f"{found[0] if found else 'sudo apt-get install'} {package}"

    def program(self, name: str) -> bool:
        """Whether there is such a program, by name or path."""
        return shutil.which(name) is not None

    def space(self, path: Path) -> Space | None:
        """The file system that holds a path, or will hold it, None when that cannot be told."""
        for place in (path, *path.parents):
            with contextlib.suppress(OSError):
                found = os.statvfs(place)
                inodes = found.f_favail if found.f_files else -1
                read_only = bool(found.f_flag & os.ST_RDONLY)
                return Space(found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize, inodes, read_only)
        return None

    def inotify(self) -> tuple[int, int] | None:
        """How many folders, and how often, a user may watch; None where there is no inotify."""
        try:
            watches, instances = (
                int((_INOTIFY / name).read_text("ascii")) for name in ("max_user_watches", "max_user_instances")
            )
        except (OSError, ValueError):
            return None
        return watches, instances

    def folders(self, root: Path) -> int:
        """How many folders there are to watch: all but those of git."""
        return sum(1 for path, found in _walk(root) if stat.S_ISDIR(found.st_mode) and ".git" not in path.parts)

    def foreign(self, root: Path) -> list[Path]:
        """Files and folders at and below a root that belong to another user; a few are enough.

        root may ask about a folder that is somebody else's, as the soul of a system service is: then all of it has
        to be the one's whose folder it is.
        """
        owner = os.geteuid()
        if owner == 0 and root.is_dir():
            owner = root.stat().st_uid
        return _some(path for path, found in _walk(root) if found.st_uid != owner)

    def closed(self, root: Path) -> list[Path]:
        """Folders at and below a root, and files in them, that may not be read or written; a few are enough.

        git's own objects are closed to writing on purpose, and a working file is replaced, not written.
        """

        def wrong(path: Path, found: os.stat_result) -> bool:
            wanted = os.R_OK | os.W_OK | os.X_OK if stat.S_ISDIR(found.st_mode) else os.R_OK
            regular = stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)
            return regular and not os.access(path, wanted)

        return _some(path for path, found in _walk(root) if wrong(path, found))

    def mode(self, path: Path) -> int | None:
        """The permissions of a path, None when it is not there."""
        try:
            return stat.S_IMODE(path.stat().st_mode)
        except OSError:
            return None

    def locks(self, git_dir: Path) -> list[tuple[Path, float]]:
        """Lock files of git, each with its age in seconds."""
        now, found = self._clock.now(), []
        names = [git_dir / f"{name}.lock" for name in LOCKED]
        for path in [*names, *sorted((git_dir / "refs").rglob("*.lock"))]:
            with contextlib.suppress(OSError):
                found.append((path, now - path.lstat().st_mtime))
        return found

    def packs(self, git_dir: Path) -> tuple[int, int]:
        """How many packs there are, and the bytes of all objects."""
        files = [(path, found) for path, found in _walk(git_dir / "objects") if stat.S_ISREG(found.st_mode)]
        return sum(path.suffix == ".pack" for path, _ in files), sum(found.st_size for _, found in files)

    def exists(self, path: Path) -> bool:
        """Whether something stands there, a broken link included."""
        return os.path.lexists(path)

    def takes(self, path: Path) -> bool:
        """Whether a file can be put there, in place of one that is there."""
        return os.access(path.parent, os.W_OK | os.X_OK) and not path.is_dir()

    def asked(self, address: tuple[str, int]) -> str | None:
        """What is answered to `GET /metrics` at an address of this machine; None where nobody listens and it can be
        had. Raises Transient where it cannot."""
        family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        try:
            with contextlib.suppress(ConnectionRefusedError), socket.socket(family) as connection:
                connection.settimeout(PATIENCE)
                connection.connect(address)
                return _metrics(connection)
            with socket.socket(family) as place:
                place.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                place.bind(address)
        except OSError as error:
            raise Transient(f"{address[0]}, port {address[1]}: {error.strerror or error}", kind="busy") from error
        return None


def _metrics(connection: socket.socket) -> str:
    """The answer, as far as it comes; whoever is there may be anybody."""
    said = b""
    with contextlib.suppress(OSError):
        connection.sendall(b"GET /metrics HTTP/1.0\r\nHost: localhost\r\n\r\n")
        while len(said) < MOST_HEARD and (piece := connection.recv(65536)):
            said += piece
    return said.decode("utf-8", "replace")


def resolve(host: str, port: int) -> list[str]:
    """The addresses of a host. Raises Transient(kind="network")."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise Transient(str(error), kind="network") from error
    return list(dict.fromkeys(str(each[4][0]) for each in found))


def connect(host: str, port: int) -> None:
    """Open a connection and close it. Raises Transient(kind="network")."""
    try:
        socket.create_connection((host, port), PATIENCE).close()
    except OSError as error:
        raise Transient(f"{host} does not answer on port {port}: {error.strerror or error}", kind="network") from error


def _walk(root: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """A path and everything below it, links not followed; what cannot be looked at is passed over."""
    waiting = [root]
    while waiting:
        path = waiting.pop()
        try:
            found = path.lstat()
            yield path, found
            if stat.S_ISDIR(found.st_mode):
                waiting.extend(path / name for name in os.listdir(path))
        except OSError:
            continue


def _some(paths: Iterator[Path]) -> list[Path]:
    return [path for path, _ in zip(paths, range(ENOUGH), strict=False)]
