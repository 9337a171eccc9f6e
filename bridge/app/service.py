"""Service units: put in place, verified, enabled, started, and believed only when a whole pass was seen.

Everything may be repeated: what is right already stays as it is.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from bridge.app import units
from bridge.app.units import DROP_IN, TEMPLATE, Site
from bridge.core.errors import Refused, SoulError, Transient
from bridge.core.ports import Clock

PROOF = 90.0  # seconds until a whole pass must be seen
LOOK = 0.2
SHOWN = (
    "LoadState", "ActiveState", "SubState", "UnitFileState", "MainPID", "NRestarts", "Result", "ExecMainStatus",
    "StatusText", "ActiveEnterTimestamp",
)  # fmt: skip
NAMESPACE = "226"  # systemd could not set up what the unit is to be confined by
NOT_EXECUTED = ("203", "200")
CONFIGURATION = "2"

Document = Mapping[str, Any]


class Supervisor(Protocol):
    """The service manager. Raises Refused with its words, Unusable where there is none."""

    system: bool
    scope: str

    def unit_paths(self) -> list[Path]:
        """Where units are looked for."""

    def verify(self, unit: Path, drop_in: Path) -> str:
        """What it has to say against a unit, "" for nothing."""

    def reload(self) -> None:
        """Read the files of all units again."""

    def enable(self, unit: str) -> None:
        """Start it at every boot or login."""

    def restart(self, unit: str) -> None:
        """Start it, anew if it runs."""

    def disable(self, unit: str) -> None:
        """Stop it and start it no more."""

    def show(self, unit: str, *names: str) -> Mapping[str, str]:
        """Properties of a unit."""


@dataclass
class Installed:
    """What `install` did: sentences; the last status document; whether namespaces confine the unit."""

    did: list[str] = field(default_factory=list)
    files: list[Path] = field(default_factory=list)
    confined: bool = True
    document: Document | None = None


@dataclass(frozen=True)
class Service:
    """The unit of one soul. folder: where its files are. status: the last status document, None without one."""

    supervisor: Supervisor
    site: Site
    folder: Path
    status: Callable[[], Document | None]
    clock: Clock

    @property
    def template(self) -> Path:
        """The unit of every soul."""
        return self.folder / TEMPLATE

    @property
    def drop_in(self) -> Path:
        """What only this machine knows of this one."""
        return self.folder / f"{self.site.unit}.d" / DROP_IN

    def install(self) -> Installed:
        """All of it, up to the proof. Raises Refused with what is in the way and what to type."""
        done = Installed(files=[self.template, self.drop_in])
        self._refuse_foreign()
        confined = units.drop_in(self.site, confined=False) != _read(self.drop_in)
        self._put(done, confined)
        try:
            self._start(done)
        except Refused:
            if not confined or self._property("ExecMainStatus") != NAMESPACE or self.supervisor.system:
                raise
            # What a person would have to find out and do by hand; the memories matter more than the confinement.
            self._put(done, False)
            done.did.append("this machine lets no user make namespaces: the unit runs without that confinement")
            self._start(done)
        done.document = self._proof()
        return done

    def uninstall(self) -> list[Path]:
        """Stop it and take every trace of it away; which files there were. Of one that is not there: none."""
        self.supervisor.disable(self.site.unit)
        removed = [self.drop_in] if _remove(self.drop_in) else []
        with contextlib.suppress(OSError):  # a person's own settings stay
            self.drop_in.parent.rmdir()
        others = [path for path in self.folder.glob(f"soul-bridge@*.service.d/{DROP_IN}") if path != self.drop_in]
        if not others and _remove(self.template):
            removed.append(self.template)
        self.supervisor.reload()
        return removed

    def state(self) -> dict[str, str]:
        """What the service manager knows of it, by the names of its properties."""
        return dict(self.supervisor.show(self.site.unit, *SHOWN))

    def is_current(self) -> bool:
        """Whether the files say what they would say if they were written now."""
        wanted = [units.drop_in(self.site, confined=confined) for confined in (True, False)]
        return _read(self.template) == self._template() and _read(self.drop_in) in wanted

    def _template(self) -> str:
        return units.template(system=self.supervisor.system)

    def _property(self, name: str) -> str:
        return self.supervisor.show(self.site.unit, name)[name]

    def _refuse_foreign(self) -> None:
        """Refuse to take over a unit that serves another home of the same agent."""
        there = _read(self.drop_in)
        home = "Environment=" + units.quoted("SOUL_BRIDGE_HOME=")[:-1]
        lines = [
            [line for line in text.splitlines() if line.startswith(home)] for text in (there or "", self._wanted())
        ]
        if there is not None and lines[0] != lines[1]:
            raise Refused(
                f"{self.site.unit} serves another home of {self.site.agent} already: see {self.drop_in}",
                kind="busy",
                advice=f"soul-bridge service uninstall {self.site.agent}",
            )

    def _wanted(self, confined: bool = True) -> str:
        return units.drop_in(self.site, confined=confined)

    def _put(self, done: Installed, confined: bool) -> None:
        """Write what is not there yet, after systemd had a look at it elsewhere."""
        wanted = {self.template: self._template(), self.drop_in: self._wanted(confined)}
        done.confined = confined
        self._verify(wanted)
        for path, text in wanted.items():
            if _read(path) != text:
                done.did.append(f"{'replaced' if path.exists() else 'wrote'} {path}")
                _write(path, text)
        self.supervisor.reload()

    def _verify(self, wanted: Mapping[Path, str]) -> None:
        with tempfile.TemporaryDirectory(prefix="soul-bridge-") as name:
            unit = Path(name, self.site.unit)
            drop_in = Path(name, f"{self.site.unit}.d", DROP_IN)
            _write(unit, wanted[self.template])
            _write(drop_in, wanted[self.drop_in])
            complaints = self.supervisor.verify(unit, drop_in)
        if complaints:
            raise Refused(
                f"systemd does not like the unit, nothing was written:\n{complaints}", advice="systemctl --version"
            )

    def _start(self, done: Installed) -> None:
        unit = self.site.unit
        if self._property("UnitFileState") != "enabled":
            self.supervisor.enable(unit)
            done.did.append(f"enabled {unit}")
        if self._property("ActiveState") == "active" and not done.did:
            return
        try:
            self.supervisor.restart(unit)
        except Refused as error:
            raise self._explained(error) from error
        done.did.append(f"started {unit}")

    def _explained(self, error: Refused) -> Refused:
        """The same, with what the exit status of the program says about the cause."""
        code, scope = self._property("ExecMainStatus"), "" if self.supervisor.system else "--user "
        log = f"journalctl {scope}-n 30 -u {self.site.unit}"
        if code == CONFIGURATION:
            return Refused(
                f"{self.site.unit} does not start: the configuration cannot be used (exit 2)",
                kind="config",
                advice=f"soul-bridge run {self.site.agent} shows why, and so does {log}",
            )
        if code in NOT_EXECUTED:
            user = f" as {self.site.owner[0]}" if self.site.owner else ""
            return Refused(
                f"systemd cannot start {self.site.program[0]}{user} (exit {code})",
                advice="install the program where that user may read it, such as with `pipx install --global`, then "
                "install the service again",
            )
        return Refused(f"{self.site.unit} does not start: {error.message}", advice=log)

    def _proof(self) -> Document:
        """The status document that a pass of the started program left. Raises Refused when it stops before."""
        end = self.clock.boottime() + PROOF
        while self.clock.boottime() < end:
            found, document = self.state(), self.status()
            if found["ActiveState"] not in ("active", "activating", "reloading") or found["SubState"] == "auto-restart":
                raise self._explained(Refused(f"it ended again ({found['Result']}, exit {found['ExecMainStatus']})"))
            if document is not None and _passed(document, found["MainPID"]):
                return document
            self.clock.sleep(LOOK)
        raise Transient(
            f"{self.site.unit} runs, but made no whole pass within {PROOF:g} s; a first transfer may take longer",
            kind="busy",
            advice=f"soul-bridge status {self.site.agent}",
        )


def _passed(document: Document, pid: str) -> bool:
    """Whether the program of this number made a whole pass since it started, or a person paused it."""
    daemon, last = document.get("daemon") or {}, document.get("last_pass") or {}
    if str(daemon.get("pid")) != pid:
        return False
    if document.get("state") == "paused":
        return True
    try:
        return datetime.fromisoformat(last["at"]) >= datetime.fromisoformat(daemon["since"])
    except (KeyError, TypeError, ValueError):
        return False


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return None


def _write(path: Path, text: str) -> None:
    fresh = path.with_name(f".{path.name}.new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh.write_text(text, encoding="utf-8")
        fresh.chmod(0o644)
        os.replace(fresh, path)
    except OSError as error:
        raise Transient(
            f"{path} cannot be written: {error.strerror}", kind="disk", advice=f"ls -ld {path.parent}"
        ) from (error)


def _remove(path: Path) -> bool:
    try:
        path.unlink()
    except FileNotFoundError:
        return False
    except OSError as error:
        raise Transient(f"{path} cannot be removed: {error.strerror}", kind="disk", advice=f"ls -l {path}") from error
    return True


def problem_of(document: Document) -> SoulError | None:
    """What stood in the way of the proving pass, as an error that a command may end with."""
    problem = document.get("problem")
    if not problem:
        return None
    return Refused(problem["message"], kind=problem["kind"], advice=problem["advice"])
