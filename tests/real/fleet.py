"""Bodies of one agent as a person has them: processes of the program, a git host over SSH, checkouts on a disk."""

from __future__ import annotations

import contextlib
import getpass
import io
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from bridge import cli
from bridge.adapters import config
from bridge.adapters.gitenv import clean_environment
from bridge.app.host import Host
from tests.real import sshd

PACKAGE = Path(__file__).resolve().parents[2]
AGENT = "kaoru"
LONGEST = 30.0  # seconds that something may take on a busy machine
AWAY = "127.0.0.9"  # an address of this machine where no server listens
MARKERS = (b"<<<<<<<", b">>>>>>>")
QUICK = {"settle": "100ms", "poll": "500ms", "guard": "60s"}


class GitSshd(sshd.Sshd):
    """An OpenSSH server whose account is called `git`, in a mount namespace of its own where nobody is called that."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.user = "git"

    def start(self) -> GitSshd:
        """Serve; returns once a connection is accepted."""
        accounts = _accounts(self.root)
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        configuration = self.root / "sshd_config"
        configuration.write_text(sshd._CONFIGURATION.format(port=self.port, root=self.root, user=self.user))
        with (self.root / "sshd.log").open("ab") as log:
            command = [*_beside(accounts), sshd._sshd(), "-D", "-e", "-f", str(configuration)]
            self._server = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        until(lambda: _accepts(self.port), "sshd accepts connections")
        return self

    def address(self, repo: str) -> str:
        """What to write as `remote`."""
        return f"ssh://git@127.0.0.1:{self.port}{self.path(repo)}"

    def fingerprint(self) -> str:
        """The host key's fingerprint, SHA256:…"""
        command = ["ssh-keygen", "-lf", str(self.root / "host_key.pub")]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()[1]


def serve(root: Path) -> GitSshd | Host:
    """A real sshd where the account `git` can be had, else the loopback host of the demo."""
    root.mkdir(parents=True, exist_ok=True)
    if not sshd.missing() and _can_be_git(root):
        return GitSshd(root).start()
    return Host(root).start()


def _can_be_git(root: Path) -> bool:
    if getpass.getuser() == "git":
        return True
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        return False
    return subprocess.run([*_beside(_accounts(root)), "true"], capture_output=True).returncode == 0


def _accounts(root: Path) -> Path:
    """A directory to stand for /etc, with an account `git` in it: a file alone goes when the real one is renamed."""
    place = root / "etc"
    place.mkdir(exist_ok=True)
    for name in ("group", "nsswitch.conf", "ld.so.cache", "hosts"):
        if Path("/etc", name).is_file():
            shutil.copy(Path("/etc", name), place / name)
    # First, for this machine may have an account of that name.
    (place / "passwd").write_text("git:x:0:0::/root:/bin/sh\n" + Path("/etc/passwd").read_text())
    return place


def _beside(accounts: Path) -> list[str]:
    if getpass.getuser() == "git":
        return []
    return ["unshare", "-m", "sh", "-c", f'mount --bind {accounts} /etc && exec "$@"', "sh"]


def _accepts(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


def until(found: Callable[[], Any], what: str, longest: float = LONGEST) -> Any:
    """Wait until something is true, and give it."""
    end = time.monotonic() + longest
    while not (result := found()):
        if time.monotonic() > end:
            raise AssertionError(f"not seen within {longest:g} s: {what}")
        time.sleep(0.05)
    return result


@dataclass(frozen=True)
class Done:
    """What one call of the program left: exit code and the two streams."""

    words: tuple[str, ...]
    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """The one JSON document on standard output."""
        try:
            return json.loads(self.out)
        except ValueError:
            raise AssertionError(f"{self.words} exited {self.code} and said {self.out!r} {self.err!r}") from None

    def expect(self, code: int) -> Any:
        """The document, after the exit code was what it has to be."""
        assert self.code == code, f"{self.words} exited {self.code}, not {code}: {self.out}\n{self.err}"
        assert "Traceback" not in self.out + self.err
        return self.document


@dataclass
class Body:
    """One body: a home of its own, as if it were a machine of its own."""

    name: str
    home: Path
    remote: str
    agent: str = AGENT
    daemon: subprocess.Popen[bytes] | None = None
    environment: dict[str, str] = field(default_factory=dict)
    within: bool = False

    @property
    def soul(self) -> Path:
        """Its checkout."""
        return self.home / "souls" / f"{self.agent}.soul"

    @property
    def key(self) -> Path:
        """Its private key."""
        return self.home / "keys" / f"{self.agent}.{self.name}"

    @property
    def state(self) -> Path:
        """Its state directory."""
        return self.home / "state" / self.agent

    def make_key(self) -> str:
        """Lay a key where `init` expects one; its public line."""
        self.key.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", self.name, "-f", str(self.key)]
        subprocess.run(command, check=True)
        return self.public_line()

    def public_line(self) -> str:
        """The line to authorise."""
        return self.key.with_name(f"{self.key.name}.pub").read_text().strip()

    def run(self, *words: str, stdin: int | str = subprocess.DEVNULL, **environment: str) -> Done:
        """Call the program as a person does: a process, or, `within`, the same call without starting Python."""
        read = environment.keys() <= {"SOUL_BRIDGE_LOG"}  # what else there is, only a process obeys
        if self.within and read and stdin == subprocess.DEVNULL and _in_main_thread():
            return self._run_within(words, **environment)
        given = {"input": stdin} if isinstance(stdin, str) else {"stdin": stdin}
        done = subprocess.run(
            self.command(*words), env=self.env(**environment), capture_output=True, text=True, timeout=90, **given
        )
        return Done(words, done.returncode, done.stdout, done.stderr)

    def _run_within(self, words: tuple[str, ...], **environment: str) -> Done:
        out, err = io.StringIO(), io.StringIO()
        try:
            code = cli.run(words, config.locate(self.env(**environment)), out, err)
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 0
        return Done(words, code, out.getvalue(), err.getvalue())

    def json(self, *words: str, code: int = 0) -> Any:
        """Call the program as a script does; the document it answers."""
        return self.run(*words, "--json").expect(code)

    def init(self, *words: str, code: int = 0) -> Any:
        """Make it a body."""
        return self.json("init", self.agent, "--remote", self.remote, "--body", self.name, *words, code=code)

    def sync(self, *words: str, code: int = 0) -> Any:
        """One pass."""
        return self.json("sync", *words, code=code)

    def status(self) -> Any:
        """What `status` says."""
        return self.json("status")

    def configure(self, **settings: str) -> None:
        """Change settings, as a person does with an editor."""
        path = self.home / "config" / f"{self.agent}.yaml"
        kept = [line for line in path.read_text().splitlines() if line.partition(":")[0] not in settings]
        path.write_text("\n".join([*kept, *(f"{name}: {value}" for name, value in settings.items())]) + "\n")

    @contextlib.contextmanager
    def offline(self) -> Iterator[None]:
        """Whatever it calls meanwhile finds nobody listening at the remote's address."""
        path = self.home / "config" / f"{self.agent}.yaml"
        kept, known = path.read_text(), self.home / "known_hosts"
        pinned = known.read_text()
        known.write_text(pinned + "".join(line.replace("127.0.0.1", AWAY) + "\n" for line in pinned.splitlines()))
        self.configure(remote=self.remote.replace("127.0.0.1", AWAY))
        try:
            yield
        finally:
            path.write_text(kept)
            known.write_text(pinned)

    def start(self, *, ready: bool = True, **environment: str) -> Body:
        """Start its daemon, and wait until it made its first pass."""
        with (self.home / "daemon.log").open("ab") as log:
            self.daemon = subprocess.Popen(
                self.command("run"), env=self.env(**environment), stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        if ready:
            until(self._lives, f"the daemon of {self.name} lives")
        return self

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Stop its daemon; its exit code."""
        if self.daemon is None:
            return 0
        daemon, self.daemon = self.daemon, None
        daemon.send_signal(number)
        return daemon.wait(LONGEST)

    def log(self) -> str:
        """What its daemon said."""
        return (self.home / "daemon.log").read_text(errors="replace")

    def seen(self) -> Any:
        """The status document that its daemon wrote last."""
        try:
            return json.loads((self.state / "status.json").read_bytes())
        except (OSError, ValueError):
            return {}

    def _lives(self) -> bool:
        assert self.daemon is not None and self.daemon.poll() is None, self.log()
        document = self.seen()
        return document.get("daemon", {}).get("pid") == self.daemon.pid and document["last_pass"] is not None

    def write(self, path: str, content: str | bytes) -> None:
        """Write a file in place, as most agents do."""
        target = self.soul / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(_bytes(content))

    def append(self, path: str, content: str | bytes) -> None:
        """Add to the end of a file."""
        target = self.soul / path
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("ab") as file:
            file.write(_bytes(content))

    def rename_over(self, path: str, content: str | bytes) -> None:
        """Write beside, then rename over, as careful agents do."""
        target = self.soul / path
        target.parent.mkdir(parents=True, exist_ok=True)
        fresh = target.with_name(f"{target.name}.tmp")
        fresh.write_bytes(_bytes(content))
        fresh.replace(target)

    def remove(self, path: str) -> None:
        """Remove a file or a directory."""
        target = self.soul / path
        if target.is_dir() and not target.is_symlink():
            shutil.rmtree(target)
        else:
            target.unlink()

    def read(self, path: str) -> str | None:
        """A working file's text."""
        try:
            return (self.soul / path).read_bytes().decode()
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return None

    def entries(self, path: str) -> list[str]:
        """A memory file's entries."""
        return [entry.strip() for entry in (self.read(path) or "").split("\n§\n") if entry.strip()]

    def files(self) -> dict[str, bytes]:
        """Every working file; a link's target."""
        found = {}
        for folder, names, files in os.walk(self.soul):
            names[:] = [name for name in names if name != ".git"]
            for name in files:
                path = Path(folder, name)
                content = os.readlink(path).encode() if path.is_symlink() else path.read_bytes()
                found[path.relative_to(self.soul).as_posix()] = content
        return found

    def git(self, *words: str, check: bool = True, stdin: bytes | None = None) -> str:
        """Plain git in the checkout, as a person runs it."""
        return git(self.soul, *words, check=check, stdin=stdin)

    def tip(self) -> str:
        """Where main stands, by plain git."""
        return self.git("rev-parse", "refs/heads/main").strip()

    def tree(self) -> dict[str, bytes]:
        """Every file of main, by plain git."""
        return tree_of(self.soul)

    def command(self, *words: str) -> list[str]:
        """The words that start the program."""
        return [sys.executable, "-m", "bridge", *words]

    def env(self, **more: str) -> dict[str, str]:
        """The environment of a process of this body."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("SOUL_BRIDGE", "GIT_"))}
        own = {"SOUL_BRIDGE_HOME": str(self.home), "PYTHONPATH": str(PACKAGE), "NO_COLOR": "1"}
        return {**kept, **own, **self.environment, **more}


@dataclass
class Fleet:
    """One repository on a server, and the bodies around it."""

    server: GitSshd | Host
    root: Path
    repository: str
    agent: str = AGENT
    bodies: dict[str, Body] = field(default_factory=dict)
    within: bool = False

    @property
    def bare(self) -> Path:
        """The repository on the server's disk."""
        return self.server.root / "repos" / self.repository if isinstance(self.server, GitSshd) else (
            self.server.root / self.repository
        )  # fmt: skip

    def body(self, name: str, *, authorized: bool = True, init: bool = True, **settings: str) -> Body:
        """A new body with a key of its own."""
        remote = self.server.address(self.repository)
        body = Body(name, self.root / name, remote, self.agent, within=self.within)
        body.home.mkdir()
        self.bodies[name] = body
        line = body.make_key()
        if authorized:
            self.server.authorize(self.repository, line)
        if init:
            body.within = True  # what `init` does as a process is another test's business
            body.init("--host-key", self.server.fingerprint(), "--display-name", "Kaoru")
            body.within = self.within
            body.configure(**(QUICK | settings))
        return body

    def everyone(self, work: Callable[[Body], Any], bodies: Iterable[Body] | None = None) -> list[Any]:
        """Do something with every body at the same time."""
        with ThreadPoolExecutor() as pool:
            return list(pool.map(work, self.bodies.values() if bodies is None else bodies))

    def converge(self, order: Sequence[Body] | None = None, rounds: int = 6) -> None:
        """One body after the other synchronises until all stand where the server stands."""
        bodies = list(self.bodies.values() if order is None else order)
        for _ in range(rounds):
            for body in bodies:
                body.sync()
            if len({self.tip(), *(body.tip() for body in self.bodies.values())}) == 1:
                return
        raise AssertionError(f"no agreement after {rounds} rounds: {[body.status() for body in bodies]}")

    def everywhere(self, found: Callable[[Body], Any], what: str) -> None:
        """Wait until it is true of every body, each in turn."""
        for body in self.bodies.values():
            until(partial(found, body), f"{body.name}: {what}")

    def shuffled(self, seed: int) -> list[Body]:
        """The bodies in a random order that replays from its seed."""
        bodies = list(self.bodies.values())
        random.Random(seed).shuffle(bodies)
        return bodies

    def settled(self, longest: float = LONGEST) -> None:
        """Wait until the daemons agree with the server and have nothing more to do."""
        until(self._quiet, "all daemons agree", longest)

    def _quiet(self) -> bool:
        tip = self.tip()
        documents = [body.seen() for body in self.bodies.values()]
        if any((one.get("tip"), one.get("pending"), one.get("ahead")) != (tip, [], 0) for one in documents):
            return False
        trees = [_with_lf(body.files()) for body in self.bodies.values()]
        return all(tree == trees[0] for tree in trees)

    def agree(self) -> dict[str, bytes]:
        """What must hold at rest, by plain git and plain reading; the common working files."""
        tip = self.tip()
        first: dict[str, bytes] | None = None
        assert len(self.git("rev-list", "--max-parents=0", "main").split()) == 1, "more than one root"
        for body in self.bodies.values():
            assert body.tip() == tip, f"{body.name} stands at {body.tip()}, the server at {tip}"
            files = _with_lf(body.files())
            first = files if first is None else first
            assert files == first, _differences(body.name, files, first)
            for path, content in _with_lf(body.tree()).items():
                assert files[path] == content, (body.name, path)
            for path, content in files.items():
                assert not any(marker in content for marker in MARKERS), (body.name, path)
            status = body.git("status", "--porcelain")
            assert status == "", (body.name, status)
            fsck(body.soul)
        assert first is not None
        return first

    def tip(self) -> str:
        """Where the server's main stands."""
        return self.git("rev-parse", "refs/heads/main").strip()

    def git(self, *words: str) -> str:
        """Plain git on the server."""
        return git(self.bare, *words)

    def history(self) -> list[str]:
        """Published subjects, newest first."""
        return self.git("log", "--format=%s", "main").splitlines()

    def close(self) -> None:
        """End every daemon."""
        for body in self.bodies.values():
            if body.daemon is not None:
                body.daemon.kill()
                body.daemon.wait()
                body.daemon = None


def git(place: Path, *words: str, check: bool = True, stdin: bytes | None = None) -> str:
    """Plain git in a clean environment."""
    environment = {**clean_environment(), "HOME": str(place.parent), "GIT_ALLOW_PROTOCOL": "file"}
    environment |= {f"GIT_{who}_{what}": "person" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    done = subprocess.run(
        ["git", "-c", "safe.directory=*", *words], cwd=place, env=environment, capture_output=True, input=stdin
    )
    assert not check or done.returncode == 0, (words, done.stderr.decode(errors="replace"))
    return done.stdout.decode("utf-8", "surrogateescape")


def tree_of(place: Path, commit: str = "refs/heads/main") -> dict[str, bytes]:
    """Every regular file of a commit."""
    rows = [row.split("\t", 1) for row in git(place, "ls-tree", "-r", "-z", commit).split("\0") if row]
    files = [(path, words.split()[2]) for words, path in rows if words.startswith("100")]
    listed = "".join(f"{oid}\n" for _, oid in files).encode()
    rest = git(place, "cat-file", "--batch", stdin=listed).encode("utf-8", "surrogateescape")
    found = {}
    for path, _ in files:
        head, rest = rest.split(b"\n", 1)
        size = int(head.split()[2])
        found[path], rest = rest[:size], rest[size + 1 :]
    return found


def fsck(place: Path) -> None:
    """git's opinion of a repository: nothing missing, nothing broken."""
    git(place, "fsck", "--strict", "--no-dangling", "--no-progress")


def _with_lf(files: dict[str, bytes]) -> dict[str, bytes]:
    """Text with CRLF stays as its agent wrote it (TREE-5), and only there."""
    return {path: content.replace(b"\r\n", b"\n") for path, content in files.items()}


def _in_main_thread() -> bool:
    # Only there may signals be set, which the program does.
    return threading.current_thread() is threading.main_thread()


def _bytes(content: str | bytes) -> bytes:
    return content.encode() if isinstance(content, str) else content


def _differences(name: str, files: dict[str, bytes], first: dict[str, bytes]) -> str:
    paths = sorted(path for path in files.keys() | first.keys() if files.get(path) != first.get(path))
    return f"{name} differs at " + ", ".join(f"{path}: {files.get(path)!r} {first.get(path)!r}" for path in paths[:5])
