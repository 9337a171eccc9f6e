"""A pair of machines' folders, with a remote between them, whatever keeps them alike."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pygit2

from bench.measure import NotSeen, run
from bench.world import World


@dataclass(frozen=True)
class Peer:
    """programs: what must be installed. version: the command that tells it. note: how it is set up here, for readers.
    patient: it acts by the clock, so that writes are sampled side by side instead of one after the other."""

    name: str
    note: str
    programs: tuple[str, ...]
    version: tuple[str, ...]
    open: Callable[[World], Pair]
    patient: bool = False

    def missing(self) -> str:
        """The first program that is not installed, "" when all are."""
        return next((name for name in self.programs if shutil.which(name) is None), "")

    def describe(self) -> str:
        """Its version, or that it is not installed."""
        missing = self.missing()
        if missing:
            return f"not installed ({missing} is missing)"
        try:
            return run(*self.version).strip().splitlines()[0]
        except (NotSeen, OSError, IndexError):
            return "installed"


class Pair:
    """Two folders, `here` and `there`, and children that keep them alike. What stands between them is seen by
    `mark`, which costs little and changes when something arrived, and `arrived`, which says whether it was this."""

    def __init__(self, here: Path, there: Path) -> None:
        self.here, self.there = here, there
        self.children: list[subprocess.Popen[bytes]] = []

    def write(self, name: str, content: str) -> None:
        """Write a file in `here`, as an agent does."""
        target = self.here / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(content, "utf-8")

    def mark(self) -> object:
        """Something that is equal as long as nothing arrived at the remote."""
        return None

    def arrived(self, name: str, content: str) -> bool:
        """Whether the remote holds the file so."""
        return False

    def reads(self, name: str) -> str | None:
        """The text of a file in `there`, None when it is not there."""
        try:
            return (self.there / name).read_text("utf-8")
        except (OSError, UnicodeDecodeError):
            return None

    def pids(self) -> list[int]:
        """The processes that run in `there` while nothing happens."""
        return [child.pid for child in self.children[-1:]]

    def child(self, command: Sequence[str], log: Path, at: Path, env: dict[str, str]) -> subprocess.Popen[bytes]:
        """Start a program that is ended with the pair."""
        with log.open("ab") as file:
            child = subprocess.Popen(
                command, cwd=at, env=env, stdin=subprocess.DEVNULL, stdout=file, stderr=file, start_new_session=True
            )
        self.children.append(child)
        return child

    def close(self) -> None:
        """End what keeps them alike."""
        for child in self.children:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGTERM)
        for child in self.children:
            try:
                child.wait(10)
            except subprocess.TimeoutExpired:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(child.pid, signal.SIGKILL)
                child.wait()


class GitPair(Pair):
    """A pair with a bare repository between."""

    refs: tuple[str, ...] = ("main",)

    def __init__(self, here: Path, there: Path, bare: Path) -> None:
        super().__init__(here, there)
        self.bare = bare
        self._repository = pygit2.Repository(str(bare))

    def mark(self) -> object:
        """Where the branches stand."""
        return tuple(self._tip(name) for name in self.refs)

    def arrived(self, name: str, content: str) -> bool:
        """Whether a branch holds the file so."""
        return any(self._holds(tip, name, content) for tip in map(self._tip, self.refs) if tip)

    def _tip(self, name: str) -> str:
        try:
            return (self.bare / "refs" / "heads" / name).read_text("ascii").strip()
        except OSError:
            return ""

    def _holds(self, tip: str, name: str, content: str) -> bool:
        try:
            entry = self._repository[tip].peel(pygit2.Tree) / name
        except (KeyError, ValueError):
            return False
        return isinstance(entry, pygit2.Blob) and entry.data == content.encode()


@dataclass(frozen=True)
class GitUser:
    """What git and ssh of one machine are told: a key of its own, nothing of this machine's configuration."""

    key: Path
    known_hosts: Path
    name: str
    shared: bool = False

    @classmethod
    def make(cls, world: World, home: Path, name: str, *, shared: bool = False, host: str = "git") -> GitUser:
        """A user with a fresh key that the server lets in. shared: one connection for all calls."""
        key = home / "key"
        run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key))
        world.server.authorize(key.with_name("key.pub").read_text().strip(), host)
        return cls(key, world.server.known_hosts(), name, shared)

    @property
    def ssh_options(self) -> list[str]:
        """Options of the ssh program."""
        options = ["-F", "none", "-i", str(self.key), "-o", "IdentitiesOnly=yes", "-o", "BatchMode=yes"]
        options += ["-o", f"UserKnownHostsFile={self.known_hosts}", "-o", "StrictHostKeyChecking=yes"]
        if self.shared:
            options += ["-o", "ControlMaster=auto", "-o", "ControlPersist=600"]
            options += ["-o", f"ControlPath={self.key.parent}/s"]
        return options

    def environment(self) -> dict[str, str]:
        """The environment of its processes."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("GIT_", "SOUL_BRIDGE"))}
        who = {f"GIT_{role}_{what}": self.name for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        own = {"HOME": str(self.key.parent), "GIT_CONFIG_NOSYSTEM": "1", "GIT_TERMINAL_PROMPT": "0"}
        return {**kept, **who, **own, "GIT_SSH_COMMAND": " ".join(["ssh", *self.ssh_options])}

    def git(self, at: Path, *words: str) -> str:
        """Run git."""
        return run("git", *words, at=at, env=self.environment())

    def hang_up(self) -> None:
        """End the shared connection."""
        with contextlib.suppress(NotSeen):
            run("ssh", "-F", "none", "-o", f"ControlPath={self.key.parent}/s", "-O", "exit", "git@nowhere")


def clones(
    world: World, name: str, *, shared: bool = False, host: str = "git"
) -> tuple[list[GitUser], list[Path], Path]:
    """Two users, their clones of one repository with one commit, and the bare repository."""
    repo = world.repo(name)
    users, folders = [], []
    for side in ("here", "there"):
        home = world.fresh(f"{name}-{side}")
        users.append(GitUser.make(world, home, side, shared=shared, host=host))
        folders.append(home / "soul")
    users[0].git(folders[0].parent, "-c", "init.defaultBranch=main", "clone", "-q", world.server.address(repo), "soul")
    (folders[0] / "SOUL.md").write_text("# Kaoru\n")
    users[0].git(folders[0], "add", "-A")
    users[0].git(folders[0], "commit", "-q", "-m", "begin")
    users[0].git(folders[0], "push", "-q", "-u", "origin", "HEAD:main")
    users[1].git(folders[1].parent, "clone", "-q", world.server.address(repo), "soul")
    for user, folder in zip(users, folders, strict=True):
        user.git(folder, "config", "gc.auto", "0")
    return users, folders, world.server.path(repo)
