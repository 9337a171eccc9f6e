"""What `doctor` looks at and what a check says of it; the checks themselves are next door, by what they look at."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from bridge.core.address import Address
from bridge.core.layout import MAIN
from bridge.core.model import Presence, RemoteLook
from bridge.core.ports import Repo


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check found. state: "ok", "warn" or "fail". remedy: a command to type, "" when there is nothing to do."""

    state: str
    message: str
    remedy: str = ""


def ok(message: str) -> Finding:
    """All is well."""
    return Finding("ok", message)


def warn(message: str, remedy: str) -> Finding:
    """It works, but somebody should know."""
    return Finding("warn", message, remedy)


def fail(message: str, remedy: str) -> Finding:
    """It cannot work."""
    return Finding("fail", message, remedy)


class Space(Protocol):
    """A file system: free and all bytes, free inodes (-1: it has no such limit), whether it is mounted read-only."""

    @property
    def free(self) -> int: ...
    @property
    def total(self) -> int: ...
    @property
    def inodes(self) -> int: ...
    @property
    def read_only(self) -> bool: ...


class Machine(Protocol):
    """This machine, as far as checks ask about it. Paths are real ones; nothing is changed."""

    host: str
    interpreter: str
    python: tuple[int, ...]

    def library(self, name: str) -> str | None:
        """The version of an installed library, None when it is not there."""

    def git(self) -> str | None:
        """What `git --version` says, None without git."""

    def installs(self, package: str) -> str:
        """The command that installs a package of this system."""

    def program(self, name: str) -> bool:
        """Whether there is such a program, by name or path."""

    def space(self, path: Path) -> Space | None:
        """The file system that holds a path, None when that cannot be told."""

    def inotify(self) -> tuple[int, int] | None:
        """How many folders, and how often, a user may watch; None where there is no inotify."""

    def folders(self, root: Path) -> int:
        """How many folders there are to watch."""

    def foreign(self, root: Path) -> list[Path]:
        """Files and folders below a root, and it itself, that belong to another user than who asks (when root
        asks about a folder: than the folder's owner); a few are enough."""

    def closed(self, root: Path) -> list[Path]:
        """Folders below a root, and files in them, that may not be read or written; a few are enough."""

    def mode(self, path: Path) -> int | None:
        """The permissions of a path, None when it is not there."""

    def locks(self, git_dir: Path) -> list[tuple[Path, float]]:
        """Lock files of git, each with its age in seconds."""

    def packs(self, git_dir: Path) -> tuple[int, int]:
        """How many packs there are, and the bytes of all objects."""

    def exists(self, path: Path) -> bool:
        """Whether something stands there, a broken link included."""

    def takes(self, path: Path) -> bool:
        """Whether a file can be put there, in place of one that is there."""

    def asked(self, address: tuple[str, int]) -> str | None:
        """What is answered to `GET /metrics` at an address of this machine; None where nobody listens and it can be
        had. Raises Transient where it cannot."""


class Checkout(Protocol):
    """The working files, as far as checks ask about them."""

    def presence(self) -> Presence:
        """What stands where the checkout should be."""

    def leases(self) -> bool:
        """Whether files can be asked for who has them open."""

    def folds(self) -> bool:
        """Whether names that differ in case are one name."""

    def content(self, path: str) -> bytes | None:
        """A working file, None when it is not there."""


class Key(Protocol):
    """A key that passed its checks."""

    @property
    def fingerprint(self) -> str: ...
    @property
    def line(self) -> str: ...


class Way(Protocol):
    """The way to the remote. Each raises the SoulError that stands in it; none of them leaves a trace."""

    def key(self) -> Key:
        """The key that would be offered."""

    def pinned(self) -> Sequence[str]:
        """Fingerprints that are pinned for the host."""

    def resolve(self) -> Sequence[str]:
        """The addresses of the host."""

    def connect(self) -> None:
        """Open a connection to the host, and close it."""

    def look(self) -> RemoteLook:
        """Log in and read the refs."""

    def probe_write(self) -> None:
        """Ask whether this body may push, without pushing."""


@dataclass
class Patient:
    """One soul on this machine. key: where the key lies. programs: what the configuration names, by key. status: the
    last document, None without one. poll: seconds. running: the daemon's process, None without one.
    metrics_file, metrics_at: where numbers are wanted.
    look: what the remote said, once it was asked. service: asks the service manager, None where that is not known.
    """

    agent: str
    body: str
    soul: Path
    key: Path
    known_hosts: Path
    state: Path
    config: Path
    address: Address
    poll: float
    now: float
    machine: Machine
    checkout: Checkout
    way: Way
    repo: Repo | None = None
    repo_problem: tuple[str, str] | None = None
    status: Mapping[str, Any] | None = None
    running: int | None = None
    paused: bool = False
    programs: Mapping[str, Sequence[str]] = field(default_factory=dict)
    metrics_file: Path | None = None
    metrics_at: tuple[str, int] | None = None
    service: Callable[[], Finding | None] | None = None
    look: RemoteLook | None = None

    @property
    def git_dir(self) -> Path:
        """Where git keeps what it keeps."""
        return self.soul / ".git"

    def command(self, words: str) -> str:
        """A command of ours for this soul: "sync --now" becomes `soul-bridge sync --now --agent kaoru`."""
        return f"soul-bridge {words} --agent {self.agent}"

    @property
    def readdress(self) -> str:
        """The command that names another remote, with what it has to be, and how it is taken up."""
        again = f"kill -HUP {self.running}" if self.running is not None else self.command("sync")
        edit = f"${{EDITOR:-vi}} {shlex.quote(str(self.config))}"
        return f"{edit}   # `remote`: the repository of {self.agent}, or an empty one; then {again}"

    def tip(self) -> str | None:
        """Where main stands here, None when nobody can tell."""
        return None if self.repo is None else self.repo.tip(MAIN)

    def tree(self, commit: str | None) -> str:
        """The tree of a commit that is here, "" of none."""
        if self.repo is None or commit is None or not self.repo.has(commit):
            return ""
        return self.repo.info(commit).tree

    def blob(self, tree: str, path: str) -> bytes | None:
        """A file of a tree, None when it has none."""
        file = self.repo.entry(tree, path) if self.repo is not None and tree else None
        return self.repo.read(file.oid) if self.repo is not None and file is not None and file.regular else None

    def remote_tip(self) -> str | None:
        """Where the remote's main stands: as just asked, else as last heard of."""
        if self.look is not None:
            return self.look.tip
        return (self.status or {}).get("remote_tip")


Check = Callable[[Patient], Finding | None]


def span(seconds: float) -> str:
    """How long, roughly: "3 d", "2 h", "5 min", "12 s"."""
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{int(seconds // length)} {unit}"
    return f"{int(seconds)} s"


def size(octets: float) -> str:
    """How many bytes, roughly: "12 GiB"."""
    for unit, length in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if octets >= length:
            return f"{octets / length:.1f} {unit}"
    return f"{int(octets)} B"


def listed(items: Sequence[object], most: int = 3) -> str:
    """The first few of some things, and how many more there are."""
    shown = ", ".join(map(str, items[:most]))
    return shown if len(items) <= most else f"{shown} and {len(items) - most} more"
