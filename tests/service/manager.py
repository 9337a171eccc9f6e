"""A real `systemd --user`, in a mount namespace of its own, with a home and a runtime directory of its own."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

from tests.real.fleet import PACKAGE, Body, until

PROGRAMS = {"systemd": ("systemctl", "systemd-analyze"), "util-linux": ("unshare", "mount"), "git": ("git",)}
MANAGERS = (Path("/lib/systemd/systemd"), Path("/usr/lib/systemd/systemd"))
UNIT = "soul-bridge@kaoru.service"
# The manager asks for the folder that tells a booted systemd; everybody else's stays as it is.
SCRIPT = "mount -t tmpfs tmpfs /run/systemd && mkdir /run/systemd/system && exec {manager} --user --log-target=console"
SHARED_TMP = "[Service]\nPrivateTmp=no\n"


def unseen() -> bool:
    """Whether these sources or their Python lie where a unit with a temporary folder of its own does not see them."""
    return any(Path(place).is_relative_to(tmp) for place in (PACKAGE, sys.prefix) for tmp in ("/tmp", "/var/tmp"))


def missing() -> str:
    """What is missing for a manager, with the package that has it; "" when nothing is."""
    for package, programs in PROGRAMS.items():
        for program in programs:
            if shutil.which(program) is None:
                return f"{program} is missing (Debian, Ubuntu: apt-get install {package})"
    if not any(path.exists() for path in MANAGERS):
        return "systemd is missing (Debian, Ubuntu: apt-get install systemd)"
    if os.geteuid() != 0:
        return "a mount namespace is missing: run this as root"
    Path("/run/systemd").mkdir(exist_ok=True)
    tried = subprocess.run(["unshare", "-m", "mount", "-t", "tmpfs", "tmpfs", "/run/systemd"], capture_output=True)
    return "" if tried.returncode == 0 else "the right to mount is missing (CAP_SYS_ADMIN)"


class Manager:
    """A running manager. `home`: the home of its user. Programs started with `environment` talk to it."""

    def __init__(self, root: Path) -> None:
        self.home = root / "home"
        runtime = root / "run"
        for folder in (self.home, runtime):
            folder.mkdir(mode=0o700)
        self.environment = {"HOME": str(self.home), "XDG_RUNTIME_DIR": str(runtime)}
        self.units = self.home / ".config" / "systemd" / "user"
        if unseen():
            folder = runtime / "systemd" / "user" / "soul-bridge@.service.d"
            folder.mkdir(parents=True)
            (folder / "tests.conf").write_text(SHARED_TMP)
        self.log = root / "manager.log"
        manager = next(path for path in MANAGERS if path.exists())
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                ["unshare", "-m", "sh", "-c", SCRIPT.format(manager=manager)],
                env=self._env(), stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        until(lambda: self.call("show", "--property=Version", check=False).returncode == 0, "the manager answers")

    def call(self, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """systemctl --user."""
        command = ["systemctl", "--user", "--no-pager", *words]
        done = subprocess.run(command, env=self._env(), capture_output=True, text=True, timeout=60)
        assert not check or done.returncode == 0, (words, done.stderr, self.said())
        return done

    def show(self, name: str, unit: str = UNIT) -> str:
        """A property of a unit."""
        return self.call("show", unit, f"--property={name}", "--value").stdout.strip()

    def pid(self) -> int:
        """The daemon's process."""
        return int(self.show("MainPID"))

    def said(self) -> str:
        """What the manager logged."""
        return self.log.read_text(errors="replace")[-2000:]

    def own_drop_in(self, *settings: str) -> None:
        """Settings as a person adds them, in force at the next start."""
        folder = self.units / f"{UNIT}.d"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "own.conf").write_text("\n".join(["[Service]", *settings, ""]))
        self.call("daemon-reload")

    def adopt(self, body: Body) -> Body:
        """A body whose user's manager this is."""
        body.environment |= self.environment
        return body

    def clean(self) -> None:
        """As if nothing had ever been installed."""
        self.call("stop", UNIT, check=False)
        self.call("reset-failed", check=False)
        shutil.rmtree(self.units, ignore_errors=True)
        self.call("daemon-reload")

    def stop(self) -> None:
        """End it, and every unit of it."""
        self.call("exit", check=False)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(20)
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def _env(self) -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        return {**kept, **self.environment}
