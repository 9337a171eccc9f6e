"""Runs as root in a machine of its own with a real systemd and a real sshd: everything that comes in a machine's life.

Usage: year.py PACKAGE ANSWER. Writes what was told at each step to ANSWER as JSON; the test judges it.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import traceback
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

NAME, ADDRESS = "forge.example", "10.99.0.1"  # of the git host; the machine has no other network
AGENT, SLEPT = "kaoru", Path("/run/slept")
DAY = 86_400.0
FIRST_REFUSAL, SESSION = 65.0, 660.0  # seconds: after a first refusal it is patient so long; a session lives so long
MEMORY = "memories/MEMORY.md"
METRICS = "127.0.0.1:9464"


def main(package: str, answer: Path) -> None:
    """Live through it."""
    sys.path.insert(0, package)
    found: dict[str, Any] = {}
    from tests.service import inside

    try:
        Machine(package, inside, found).live()
    except BaseException:  # noqa: BLE001 - whatever it is, the test outside has to hear of it
        found["failed"] = traceback.format_exc() + inside.call("journalctl", "--no-pager", "-n", "60")["out"]
    answer.write_text(json.dumps(found))
    inside.call("systemctl", "exit", "0")


class Machine:
    """The machine, its soul, and another body far away that has no trouble with the network."""

    def __init__(self, package: str, inside: Any, found: dict[str, Any]) -> None:
        from tests.real import sshd

        self.found, self.inside = found, inside
        self.python = {"PYTHONPATH": f"{package}/tests/service/shifted:{package}"}
        SLEPT.write_text("0")
        accounts = Path("/etc/passwd")
        accounts.write_text("git:x:0:0::/root:/bin/sh\n" + accounts.read_text())
        sshd._CONFIGURATION = sshd._CONFIGURATION.replace("ListenAddress 127.0.0.1", "ListenAddress 0.0.0.0")
        self.host = sshd.Sshd(Path("/srv/host"))
        self.host.user = "git"
        self.bare = self.host.create("kaoru.soul.git")
        self.remote = f"ssh://git@{NAME}:{self.host.port}{self.bare}"
        inside._make_owner(package)

    def live(self) -> None:
        """Step by step."""
        self.network(True)
        self.serve()
        self.join()
        self.install()
        self.boots_without_network()
        self.gets_a_network()
        self.sleeps_a_day_and_meets_another_host_key()
        self.owner_accepts_the_host_key()
        self.key_is_revoked()
        self.key_is_restored()
        self.inside.call("systemctl", "stop", self.inside.UNIT)
        self.found["end"] = self.seen("journal from the start")
        self.host.stop()

    def boots_without_network(self) -> None:
        self.inside.call("systemctl", "stop", self.inside.UNIT)
        self.host.stop()
        self.network(False)
        self.inside.call("systemctl", "start", self.inside.UNIT)
        self.write("I booted without a network.")
        self.until(lambda: (self.status()["problem"] or {}).get("kind") == "network" and self.status()["ahead"] > 0)
        self.tell("offline")

    def gets_a_network(self) -> None:
        self.network(True)
        self.serve()
        self.until(lambda: "without a network" in self.published() and self.status()["problem"] is None)
        self.tell("online")

    def sleeps_a_day_and_meets_another_host_key(self) -> None:
        with self.asleep(DAY):
            self.elsewhere("I was elsewhere while you slept.")
            self.host.stop()
            for name in ("host_key", "host_key.pub"):
                (self.host.root / name).unlink()
            self.host._run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.host.root / "host_key"))
            self._cut()
            self.serve()
        self.until(lambda: (self.status()["problem"] or {}).get("kind") == "hostkey")
        self.write("I woke up before a stranger.")
        self.until(lambda: self.status()["ahead"] > 0)
        # The supervisor is told at its next look at the souls.
        self.until(lambda: "has changed" in self.inside.shown()["StatusText"])
        self.tell("stranger")

    def owner_accepts_the_host_key(self) -> None:
        line = self.inside.call("ssh-keygen", "-lf", str(self.host.root / "host_key.pub"))["out"].split()[1]
        self.found["accepting"] = self.bridge("accept-host-key", AGENT, "--fingerprint", line)
        self.passes(FIRST_REFUSAL)
        self.until(lambda: "before a stranger" in self.published() and self.status()["problem"] is None)
        self.until(lambda: "while you slept" in self.memory())
        self.tell("accepted")

    def key_is_revoked(self) -> None:
        self.host.revoke("kaoru.soul.git", self.public_line)
        self.passes(SESSION)
        self.write("I am revoked.")
        self.until(lambda: (self.status()["problem"] or {}).get("kind") == "auth" and self.status()["ahead"] > 0)
        self.until(lambda: "does not accept" in self.inside.shown()["StatusText"])
        self.tell("revoked")

    def key_is_restored(self) -> None:
        self.host.authorize("kaoru.soul.git", self.public_line)
        self.passes(FIRST_REFUSAL)
        self.until(lambda: "I am revoked." in self.published() and self.status()["problem"] is None)
        self.tell("restored")

    # The world.

    def network(self, there: bool) -> None:
        """Give the machine its address and the host its name, or take them."""
        self.inside.call("ip", "addr", "add" if there else "del", f"{ADDRESS}/32", "dev", "lo")
        hosts = Path("/etc/hosts")
        lines = [line for line in hosts.read_text().splitlines() if NAME not in line]
        hosts.write_text("\n".join([*lines, *([f"{ADDRESS} {NAME}"] if there else [])]) + "\n")

    def serve(self) -> None:
        self.host.start()

    def _cut(self) -> None:
        """End the sessions that are open: they do not outlive a night."""
        for place in Path("/proc").iterdir():
            if place.name.isdigit() and (place / "cmdline").read_bytes().startswith(b"sshd: git"):
                os.kill(int(place.name), signal.SIGKILL)

    def passes(self, seconds: float) -> None:
        """The lid is closed for so long."""
        with self.asleep(seconds):
            time.sleep(1.2)

    def asleep(self, seconds: float) -> Any:
        return _Asleep(int(self.inside.shown()["MainPID"]), seconds)

    def elsewhere(self, text: str) -> None:
        """Another body publishes."""
        place = Path("/srv/elsewhere")
        git = ("git", "-c", "safe.directory=*", "-c", "user.name=Kaoru (laptop)", "-c", "user.email=k@laptop.local")
        self.inside.call(*git, "clone", "-q", str(self.bare), str(place))
        with (place / MEMORY).open("a") as file:
            file.write(f"§\n{text}\n")
        self.inside.call(*git, "-C", str(place), "commit", "-qam", "memories +1 (laptop)")
        self.found["elsewhere"] = self.inside.call(*git, "-C", str(place), "push", "-q", "origin", "main")

    # The soul.

    def join(self) -> None:
        words = ("init", AGENT, "--remote", self.remote, "--body", "server", "--soul", str(self.inside.SOUL))
        key = self.inside.call("ssh-keygen", "-lf", str(self.host.root / "host_key.pub"))["out"].split()[1]
        self.bridge(*words, "--host-key", key)
        self.public_line = self.inside.KEY.with_name("kaoru.server.pub").read_text().strip()
        self.host.authorize("kaoru.soul.git", self.public_line)
        self.found["joined"] = self.bridge(*words, "--host-key", key)
        self.inside.call("chown", "-R", "alice:alice", "/home/alice")

    def install(self) -> None:
        own = Path(f"/etc/systemd/system/{self.inside.UNIT}.d/zz-slept.conf")
        own.parent.mkdir(parents=True)
        own.write_text(f"[Service]\nEnvironment=PYTHONPATH={self.python['PYTHONPATH']}\n")
        with Path(self.inside.PLACES["CONFIGURATION_DIRECTORY"], f"{AGENT}.yaml").open("a") as file:
            file.write(f"metrics:\n  listen: {METRICS}\n")
        self.found["installed"] = self.bridge("service", "install", "--system")

    def write(self, text: str) -> None:
        with (self.inside.SOUL / MEMORY).open("a") as file:
            file.write(f"§\n{text}\n")

    def memory(self) -> str:
        return (self.inside.SOUL / MEMORY).read_text()

    def published(self) -> str:
        read = ("git", "-c", "safe.directory=*", "-C", str(self.bare), "show", f"main:{MEMORY}")
        return str(self.inside.call(*read)["out"])

    # What is told.

    def bridge(self, *words: str) -> dict[str, Any]:
        found: dict[str, Any] = self.inside.bridge(*words, **self.inside.PLACES, **self.python)
        return found

    def words(self, *words: str) -> str:
        """What a person is told."""
        program = (sys.executable, "-m", "bridge", *words)
        return str(self.inside.call(*program, **self.inside.PLACES, **self.python)["out"])

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = self.bridge("status", AGENT)["answer"]
        return found

    def journal(self) -> str:
        """What the daemon said since this was last asked."""
        words = ("journalctl", "--no-pager", "-o", "cat", "-u", self.inside.UNIT, "--cursor-file=/run/cursor")
        return str(self.inside.call(*words)["out"])

    def metrics(self) -> str:
        """What a Prometheus is told, "" where nobody answers."""
        try:
            with urllib.request.urlopen(f"http://{METRICS}/metrics", timeout=10) as answer:
                return str(answer.read().decode())
        except OSError:
            return ""

    def tell(self, step: str) -> None:
        self.found[step] = self.seen(step)

    def seen(self, step: str) -> dict[str, Any]:
        read = ("git", "-c", "safe.directory=*", "-C")
        return {
            "status": self.bridge("status", AGENT),
            "words": self.inside.call(
                sys.executable, "-m", "bridge", "status", AGENT, **self.inside.PLACES, **self.python
            )["out"],
            "doctor": self.bridge("doctor", AGENT),
            "metrics": self.metrics(),
            "journal": self.journal(),
            "unit": self.inside.shown(),
            "here": self.inside.call(*read, str(self.inside.SOUL), "rev-parse", "main")["out"].strip(),
            "there": self.inside.call(*read, str(self.bare), "rev-parse", "main")["out"].strip(),
            "memory": self.memory(),
            "published": self.published(),
        }

    def until(self, found: Callable[[], bool], longest: float = 40.0) -> None:
        """Wait; what does not come is for the test to see."""
        end = time.monotonic() + longest
        while not found() and time.monotonic() < end:
            time.sleep(0.3)


class _Asleep:
    """A sleep: the daemon does nothing meanwhile, and afterwards it is so much later."""

    def __init__(self, pid: int, seconds: float) -> None:
        self._pid, self._seconds = pid, seconds

    def __enter__(self) -> None:
        os.kill(self._pid, signal.SIGSTOP)

    def __exit__(self, *error: object) -> None:
        fresh = SLEPT.with_name("slept.new")
        fresh.write_text(str(float(SLEPT.read_text()) + self._seconds))
        fresh.replace(SLEPT)
        os.kill(self._pid, signal.SIGCONT)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
