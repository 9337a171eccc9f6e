"""What every case is given: a place, a line, a git host on it, and bodies of soul-bridge."""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.measure import NotSeen, run, until
from bench.network import Network
from bench.server import Server
from bench.sizes import Sizes
from bridge import cli
from bridge.adapters import config

ROOT = Path(__file__).resolve().parents[1]
AGENT = "kaoru"


@dataclass
class Body:
    """One body of soul-bridge with a home of its own. A body may carry several souls (`agents`)."""

    name: str
    home: Path
    agents: tuple[str, ...] = (AGENT,)
    daemon: subprocess.Popen[bytes] | None = None

    def soul(self, agent: str = AGENT) -> Path:
        """A checkout."""
        return self.home / "souls" / f"{agent}.soul"

    def key(self, agent: str = AGENT) -> Path:
        """A private key."""
        return self.home / "keys" / f"{agent}.{self.name}"

    def make_key(self, agent: str = AGENT) -> str:
        """Lay a key where `init` expects one; its public line."""
        key = self.key(agent)
        key.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", self.name, "-f", str(key))
        return key.with_name(f"{key.name}.pub").read_text().strip()

    def call(self, *words: str, longest: float = 1800) -> str:
        """Run one command of the program."""
        return run(*self.command(*words), env=self.environment(), longest=longest)

    def say(self, *words: str) -> None:
        """Run one command in this process, which spares a start where nobody measures it. Main thread only."""
        places = config.locate({"SOUL_BRIDGE_HOME": str(self.home), "HOME": os.environ.get("HOME", "/")})
        out, err = io.StringIO(), io.StringIO()
        code = cli.run(words, places, out, err)
        if code:
            raise NotSeen(f"soul-bridge {' '.join(words[:2])} … ended with {code}: {err.getvalue()[-300:]}")

    def command(self, *words: str) -> list[str]:
        """The words that start the program."""
        return [sys.executable, "-m", "bridge", *words]

    def environment(self) -> dict[str, str]:
        """The environment of this body's processes."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("SOUL_BRIDGE", "GIT_"))}
        return {**kept, "SOUL_BRIDGE_HOME": str(self.home), "PYTHONPATH": str(ROOT), "NO_COLOR": "1"}

    def start(self, longest: float = 600) -> Body:
        """Start the daemon and wait until every soul made its first pass."""
        with (self.home / "daemon.log").open("ab") as log:
            command = self.command("run", *self.agents)
            self.daemon = subprocess.Popen(
                command, env=self.environment(), stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        until(self.lives, f"the daemon of {self.name} lives", longest, 0.005)
        return self

    def lives(self) -> bool:
        """Whether the daemon that was started made a pass of every soul."""
        return self.daemon is not None and all(self._lives(agent, self.daemon.pid) for agent in self.agents)

    def _lives(self, agent: str, pid: int) -> bool:
        document = self.status(agent)
        return document.get("daemon", {}).get("pid") == pid and document["last_pass"] is not None

    def status(self, agent: str = AGENT) -> dict[str, Any]:
        """The status document that the daemon wrote last."""
        try:
            found: dict[str, Any] = json.loads((self.home / "state" / agent / "status.json").read_bytes())
        except (OSError, ValueError):
            return {}
        return found

    def stop(self) -> None:
        """Stop the daemon as systemd would."""
        if self.daemon is not None:
            self.daemon.send_signal(signal.SIGTERM)
            try:
                self.daemon.wait(60)
            except subprocess.TimeoutExpired:
                self.daemon.kill()
                self.daemon.wait()
            self.daemon = None


@dataclass
class World:
    """One run's place on one line. `serial`: so that every name is used once."""

    root: Path
    network: Network
    server: Server
    sizes: Sizes
    say: Callable[[str], None]
    serial: int = 0
    closing: list[Callable[[], None]] = field(default_factory=list)

    def fresh(self, name: str) -> Path:
        """A new directory."""
        self.serial += 1
        path = self.root / f"{self.serial:03d}-{name}"
        path.mkdir()
        return path

    def repo(self, name: str) -> str:
        """A new, empty repository on the host; its name there."""
        self.serial += 1
        repo = f"{name}-{self.serial:03d}.git"
        self.server.create(repo)
        return repo

    def body(self, name: str, repo: str, **settings: str) -> Body:
        """A new body of the soul in a repository, joined; settings as in the configuration, defaults else."""
        body = Body(name, self.fresh(name))
        self.server.authorize(body.make_key())
        self.join(body, repo, AGENT, settings)
        return body

    def join(
        self, body: Body, repo: str, agent: str, settings: dict[str, str] | None = None, *, apart: bool = False
    ) -> None:
        """`init`, and settings as a person would write them. apart: in a process of its own, as a person does it."""
        words = ["init", agent, "--remote", self.server.address(repo), "--body", body.name]
        words += ["--host-key", self.server.fingerprint(), "--display-name", "Kaoru", "--json"]
        if apart or threading.current_thread() is not threading.main_thread():
            body.call(*words)
        else:
            body.say(*words)
        path = body.home / "config" / f"{agent}.yaml"
        with path.open("a") as file:
            file.writelines(f"{name}: {value}\n" for name, value in (settings or {}).items())

    @contextlib.contextmanager
    def running(self, *bodies: Body) -> Iterator[None]:
        """These bodies' daemons run meanwhile."""
        try:
            for body in bodies:
                body.start()
            yield
        finally:
            for body in bodies:
                body.stop()
