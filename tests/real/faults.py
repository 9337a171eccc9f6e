"""The faulty host in a process of its own: what leaks or hangs in the tests' process is then the program's."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.real.faulty_host import FaultyHost
from tests.real.fleet import PACKAGE


class Faults:
    """A faulty host that takes faults by name, and can be stopped in its tracks."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._child = subprocess.Popen(
            [sys.executable, "-m", "tests.real.faults", str(root)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=PACKAGE,
            start_new_session=True,
        )
        self.port, self._fingerprint, self._line = self._asked()

    def create(self, repo: str) -> Path:
        """Make an empty repository."""
        self.ask("create", repo)
        return self.root / repo

    def authorize(self, repo: str, public_line: str, write: bool = True) -> None:
        """Add a deploy key."""
        self.ask("authorize", repo, public_line, write)

    def revoke(self, repo: str, public_line: str) -> None:
        """Take a deploy key away."""
        self.ask("revoke", repo, public_line)

    def address(self, repo: str) -> str:
        """What to write as `remote`."""
        return f"ssh://git@127.0.0.1:{self.port}/{repo}"

    def fingerprint(self) -> str:
        """The host key's fingerprint."""
        return str(self._fingerprint)

    def host_key_line(self) -> str:
        """The line that pins this host."""
        return str(self._line)

    def fault(self, **faults: Any) -> None:
        """Play these from now on, and no others."""
        coded = {name: value.decode() if isinstance(value, bytes) else value for name, value in faults.items()}
        self.ask("fault", coded)

    def logins(self) -> int:
        """Connections so far."""
        return int(self.ask("logins"))

    def freeze(self) -> None:
        """Stop every thread of it, as a machine that hangs."""
        os.kill(self._child.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on."""
        os.kill(self._child.pid, signal.SIGCONT)

    def stop(self) -> None:
        """End it."""
        self.thaw()
        if self._child.stdin is not None:
            self._child.stdin.close()
        self._child.wait(20)
        if self._child.stdout is not None:
            self._child.stdout.close()

    def ask(self, *words: Any) -> Any:
        """Have it do something; its answer."""
        assert self._child.stdin is not None
        self._child.stdin.write(json.dumps(words).encode() + b"\n")
        self._child.stdin.flush()
        return self._asked()

    def _asked(self) -> Any:
        assert self._child.stdout is not None
        return json.loads(self._child.stdout.readline())


def _main(root: Path) -> None:
    host = FaultyHost(root)
    host.start()

    def fault(faults: dict[str, Any]) -> None:
        host.heal()
        for name, value in faults.items():
            setattr(host, name, value.encode() if name in ("refusal", "greeting") else value)

    deeds = {"create": lambda repo: str(host.create(repo)), "authorize": host.authorize, "revoke": host.revoke}
    deeds |= {"fault": fault, "logins": lambda: host.logins}
    _tell([host.port, host.fingerprint(), host.host_key_line()])
    for line in sys.stdin:
        name, *words = json.loads(line)
        _tell(deeds[name](*words))
    host.stop()


def _tell(answer: Any) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    _main(Path(sys.argv[1]))
