"""Two bodies of one agent and a git host over SSH, in a temporary directory, working before your eyes.

Everything is real: the host speaks SSH on loopback with deploy keys per repository, and each body is a daemon of its
own. What is shown is checked; the demo succeeds only if all of it was true.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bridge.app.host import Host
from bridge.core import layout
from bridge.core.errors import SoulError
from bridge.core.ports import Clock

AGENT = "kaoru"
REPOSITORY = "kaoru.soul.git"
LONGEST = 15.0  # seconds that one step may take
Say = Callable[[str], None]


class Untrue(SoulError):
    """Something that the demo shows did not happen."""


@dataclass
class Body:
    """One body of the demo: a home of its own, as if it were a machine of its own."""

    name: str
    home: Path
    public_key: str = ""
    daemon: subprocess.Popen[bytes] | None = None

    @property
    def soul(self) -> Path:
        """Where its checkout lies."""
        return self.home / "souls" / layout.repository(AGENT)

    def call(self, *words: str) -> tuple[int, Any]:
        """Run one command; its exit code and its JSON answer."""
        done = subprocess.run(self._command(*words, "--json"), env=self._environment(), capture_output=True, timeout=60)
        try:
            answer = json.loads(done.stdout or b"{}")
        except ValueError as error:
            raise Untrue(f"{self.name}: {words} answered {done.stdout!r} {done.stderr!r}") from error
        return done.returncode, answer

    def start(self) -> None:
        """Start its daemon."""
        log = (self.home / "daemon.log").open("wb")
        with log:
            self.daemon = subprocess.Popen(
                self._command("run"), env=self._environment(), stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def stop(self) -> int:
        """Stop its daemon as systemd would; its exit code."""
        if self.daemon is None:
            return 0
        self.daemon.send_signal(signal.SIGTERM)
        try:
            return self.daemon.wait(15)
        except subprocess.TimeoutExpired:
            self.daemon.kill()
            return -9
        finally:
            self.daemon = None

    def files(self) -> dict[str, bytes]:
        """Every file of its checkout."""
        found = {}
        for folder, names, files in os.walk(self.soul):
            names[:] = [name for name in names if name != ".git"]
            for name in files:
                path = Path(folder, name)
                found[path.relative_to(self.soul).as_posix()] = path.read_bytes()
        return found

    def add(self, path: str, text: str) -> None:
        """Write as an agent does: read, then write anew beside and rename over."""
        target = self.soul / path
        target.parent.mkdir(parents=True, exist_ok=True)
        fresh = target.with_name(f"{target.name}.tmp")
        fresh.write_text((target.read_text("utf-8") if target.exists() else "") + text, "utf-8")
        fresh.replace(target)

    def _command(self, *words: str) -> list[str]:
        return [sys.executable, "-P", "-m", "bridge", *words]

    def _environment(self) -> dict[str, str]:
        package = str(Path(__file__).resolve().parents[2])
        return {**os.environ, "SOUL_BRIDGE_HOME": str(self.home), "PYTHONPATH": package, "SOUL_BRIDGE_LOG": "info"}


@dataclass
class Demo:
    """The story, step by step. `checks`: what was shown and found true."""

    clock: Clock
    say: Say
    root: Path
    checks: list[str] = field(default_factory=list)

    def run(self) -> None:
        """Tell it. Raises Untrue."""
        hosted = self.root / "host"
        hosted.mkdir()
        host = Host(hosted).start()
        bodies = [Body(name, self.root / name) for name in ("laptop", "server")]
        try:
            host.create(REPOSITORY)
            for body in bodies:
                self._join(host, body)
            for body in bodies:
                body.start()
            self._write_at_once(*bodies)
            self._revoke(host, *bodies)
        finally:
            codes = [body.stop() for body in bodies]
            host.stop()
        self._true("both daemons stopped cleanly", codes == [0, 0])

    def _join(self, host: Host, body: Body) -> None:
        address = host.address(REPOSITORY)
        words = ["init", AGENT, "--remote", address, "--body", body.name, "--display-name", "Kaoru"]
        words += ["--host-key", host.fingerprint()]
        self.say(f"\n$ soul-bridge init {AGENT} --remote {address} --body {body.name}")
        code, answer = body.call(*words)
        self._true(f"{body.name}: a key nobody authorised is refused (exit 4)", code == 4)
        body.public_key = body.call("key", "show")[1]["public_key"]
        self.say(f"  its public key, made here just now: {body.public_key[:56]}…")
        host.authorize(REPOSITORY, body.public_key)
        self.say("  … added to the repository as a deploy key with write access")
        code, answer = body.call(*words)
        self._true(f"{body.name}: the same command again goes on ({answer.get('sentence', answer)})", code == 0)

    def _write_at_once(self, laptop: Body, server: Body) -> None:
        self.say("\nBoth daemons run. Both bodies write at the same moment:")
        laptop.add("memories/MEMORY.md", "likes tea from Uji\n")
        server.add("memories/MEMORY.md", "speaks with Mei on Sundays\n")
        self._identity(laptop, "color", "#2F6F4E")
        self._identity(server, "pronouns", "she/her")
        laptop.add("notes/travel/kyoto.md", "# kyoto\n\nThe laptop's version.\n")
        server.add("notes/travel/kyoto.md", "# kyoto\n\nThe server's version.\n")
        for body in (laptop, server):
            body.add(f"journal/{body.name}/2026-01-02.md", f"# 2026-01-02 · {body.name}\n\n## 09:14 woke up\n")
        began = self.clock.boottime()
        self._until("both trees are equal", lambda: self._agree(laptop, server))
        self.say(f"  … {self.clock.boottime() - began:.1f} s later:")
        self._show(laptop)
        for path in sorted(laptop.files()):
            if not path.endswith(".gitkeep"):
                self.say(f"    {path}")

    def _identity(self, body: Body, field_name: str, value: str) -> None:
        path = body.soul / "agent.json"
        fields = json.loads(path.read_text("utf-8")) | {field_name: value}
        path.write_text(json.dumps(fields, indent=2, ensure_ascii=False) + "\n", "utf-8")

    def _agree(self, laptop: Body, server: Body) -> bool:
        here, there = laptop.files(), server.files()
        if here != there or not all(f"journal/{name}/2026-01-02.md" in here for name in ("laptop", "server")):
            return False
        memory = here.get("memories/MEMORY.md", b"")
        if b"Uji" not in memory or b"Mei" not in memory:
            return False
        statuses = [body.call("status")[1] for body in (laptop, server)]
        return bool(statuses[0]["tip"] == statuses[1]["tip"] == statuses[0]["remote_tip"])

    def _show(self, body: Body) -> None:
        files = body.files()
        memory = files["memories/MEMORY.md"].decode()
        self._true("memories: both entries are there, by entry (MERGE-2)", "Uji" in memory and "Mei" in memory)
        fields = json.loads(files["agent.json"])
        merged = fields["color"] == "#2F6F4E" and fields["pronouns"] == "she/her"
        self._true("agent.json: each body's field is there, by field (MERGE-4)", merged)
        note = files["notes/travel/kyoto.md"].decode().split("\n")[2]
        lost = body.call("conflicts")[1]
        self._true(
            f"notes/travel/kyoto.md: the newer version stands ({note}) and the other is kept: "
            "soul-bridge conflicts (MERGE-6)",
            any(one["path"] == "notes/travel/kyoto.md" for one in lost),
        )
        self.say("  who wrote what:")
        for commit in body.call("log")[1][:8]:
            self.say(f"    {commit['commit'][:8]}  {commit['body']:<7} {commit['subject']}")

    def _revoke(self, host: Host, laptop: Body, server: Body) -> None:
        self.say("\nThe server's deploy key is deleted on the host; then it writes once more:")
        host.revoke(REPOSITORY, server.public_key)
        server.add("memories/MEMORY.md", "§\nwritten after the key was gone\n")
        self._until("the server says that its key is refused", lambda: self._refused(server))
        document = server.call("status")[1]
        self.say(f"  server: {document['problem']['message']}")
        self.say(f"  server: {document['ahead']} commit not pushed; it is safe there and goes out with a new key")
        self._true("what was written stays on the server", document["ahead"] > 0)
        self._true("and never reached the laptop", b"key was gone" not in laptop.files()["memories/MEMORY.md"])

    def _refused(self, body: Body) -> bool:
        document = body.call("status")[1]
        return bool(document["problem"]) and document["problem"]["kind"] == "auth" and document["ahead"] > 0

    def _until(self, words: str, found: Callable[[], bool]) -> None:
        end = self.clock.boottime() + LONGEST
        while not found():
            if self.clock.boottime() > end:
                raise Untrue(f"not seen within {LONGEST:g} s: {words}")
            self.clock.sleep(0.1)
        self._true(words, True)

    def _true(self, words: str, found: bool) -> None:
        if not found:
            raise Untrue(f"this is not so: {words}")
        self.checks.append(words)
        self.say(f"  ✓ {words}")


def run(clock: Clock, say: Say) -> list[str]:
    """Run the demo in a temporary directory that is removed afterwards; what was checked. Raises Untrue."""
    with tempfile.TemporaryDirectory(prefix="soul-bridge-demo-", ignore_cleanup_errors=True) as directory:
        demo = Demo(clock, say, Path(directory))
        demo.run()
        return demo.checks
