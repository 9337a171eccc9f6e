"""What is asked of systemd: systemctl, systemd-analyze, loginctl.

Never waits for ever, never asks for a password.
"""

from __future__ import annotations

import getpass
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from bridge.core.errors import Refused, Unusable

LONGEST = 90.0  # seconds for one command; stopping a unit takes up to half of it
LINGER = Path("/var/lib/systemd/linger")
RUNNING = Path("/run/systemd/system")  # there as long as systemd is the init of this machine
_NO_BUS = ("Failed to connect to bus", "Failed to connect to user scope bus", "System has not been booted with systemd")


class Systemd:
    """The service manager of this user, or (system) of the machine."""

    def __init__(self, *, system: bool, agent: str = "") -> None:
        """agent: whose service it is, for advice; "" where nobody knows."""
        self.system = system
        self._by_hand = f"soul-bridge run {agent}".rstrip()
        self.scope = "--system" if system else "--user"

    def unit_paths(self) -> list[Path]:
        """Where units are looked for, first come first served. Raises Unusable, Refused without a manager."""
        return [Path(text) for text in self._call("show", "--property=UnitPath", "--value").split()]

    def verify(self, unit: Path, drop_in: Path) -> str:
        """What systemd has to say against an instance of a unit and its drop-in, "" for nothing."""
        if shutil.which("systemd-analyze") is None:
            return ""
        words = ["systemd-analyze", self.scope, "verify", "--man=no", str(unit)]
        done = self._run(words, {"SYSTEMD_UNIT_PATH": f"{unit.parent}:"})
        # Unknown settings only reach the error stream, with exit code 0.
        lines = [line for line in done.stderr.splitlines() if unit.name in line or str(drop_in) in line]
        return "\n".join(lines)

    def reload(self) -> None:
        """Have the files of all units read again."""
        self._call("daemon-reload")

    def enable(self, unit: str) -> None:
        """Have it started at every boot, or login."""
        self._call("--quiet", "enable", unit)

    def restart(self, unit: str) -> None:
        """Start it, anew if it runs; returns once it said that it is ready. Raises Refused with systemd's words."""
        self._call("reset-failed", unit, check=False)
        self._call("restart", unit)

    def disable(self, unit: str) -> None:
        """Stop it, and have it started no more; of one that is not there nothing is to be done."""
        self._call("--quiet", "disable", unit, check=False)
        self._call("stop", unit, check=False)
        self._call("reset-failed", unit, check=False)

    def show(self, unit: str, *names: str) -> Mapping[str, str]:
        """Properties of a unit, "" where there is none."""
        said = self._call("show", unit, f"--property={','.join(names)}")
        found = dict(line.partition("=")[::2] for line in said.split("\n"))
        return {name: found.get(name, "") for name in names}

    def lingers(self) -> bool | None:
        """Whether this user's units run while nobody is logged in; None where nobody can tell."""
        user = getpass.getuser()
        if (LINGER / user).exists():
            return True
        if shutil.which("loginctl") is None:
            return None
        done = self._run(["loginctl", "show-user", user, "--property=Linger", "--value"], {})
        return {"yes": True, "no": False}.get(done.stdout.strip())

    def _call(self, *words: str, check: bool = True) -> str:
        done = self._run(["systemctl", self.scope, "--no-pager", "--no-ask-password", *words], {})
        if done.returncode and any(text in done.stderr for text in _NO_BUS):
            raise self._unreachable(done.stderr.strip())
        if done.returncode and check:
            raise Refused(
                f"`systemctl {self.scope} {' '.join(words)}` failed: {done.stderr.strip() or done.stdout.strip()}",
                advice=f"journalctl {'' if self.system else '--user '}-n 30 -u {words[-1]}",
            )
        return done.stdout

    def _unreachable(self, said: str) -> Refused:
        if self.system or not RUNNING.is_dir():
            return Refused(f"systemd does not run here: {said}", advice=self._by_hand)
        user = getpass.getuser()
        return Refused(
            f"systemd has no manager for this user here: {said}",
            advice=f"log in as {user} itself, not by su or sudo (`machinectl shell {user}@`); "
            f"where nobody logs in: `sudo loginctl enable-linger {user}` and "
            "`export XDG_RUNTIME_DIR=/run/user/$(id -u)`; or install for the whole machine with --system",
        )

    def _run(self, words: list[str], more: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "LC_ALL": "C.UTF-8", "SYSTEMD_COLORS": "0", **more}
        try:
            return subprocess.run(
                words, env=environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=LONGEST, check=False,
                encoding="utf-8", errors="replace",
            )  # fmt: skip
        except FileNotFoundError as error:
            raise Unusable(
                "systemd is not installed here",
                kind="usage",
                advice=f"start `{self._by_hand}` as you start others",
            ) from error
        except subprocess.TimeoutExpired as error:
            raise Refused(
                f"`{' '.join(words)}` did not end within {LONGEST:g} s", advice="systemctl list-jobs"
            ) from error
