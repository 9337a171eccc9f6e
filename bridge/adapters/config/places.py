"""Where the program keeps what is not the soul: configuration, keys, pinned hosts, state."""

from __future__ import annotations

import os
import pwd
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bridge.core import layout

_NAME = "soul-bridge"
_SYSTEM_CONFIG = Path("/etc") / _NAME
_SYSTEM_STATE = Path("/var/lib") / _NAME


@dataclass(frozen=True)
class Places:
    """Directories of one user, of one `SOUL_BRIDGE_HOME`, or of the system service; none of them need exist.

    home: what `~` stands for. log: level of the log ("debug" … "error"). color: False where NO_COLOR is set.
    credentials: where systemd put what the unit was to be given (LoadCredential), None outside of such a unit.
    journal: which stream of this process leads to the journal of systemd ("device:inode"), "" for none.
    """

    config: Path
    keys: Path
    known_hosts: Path
    state: Path
    souls: Path
    home: Path
    log: str = "info"
    color: bool = True
    credentials: Path | None = None
    journal: str = ""

    def config_file(self, agent: str) -> Path:
        """The configuration of one soul."""
        return self.config / f"{agent}.yaml"

    def key_file(self, agent: str, body: str) -> Path:
        """Where a private key is when the configuration does not say; the public one has `.pub` behind it."""
        return self.keys / f"{agent}.{body}"

    def credential(self, agent: str, body: str) -> Path | None:
        """The private key as systemd hands it over, None when it does not."""
        path = self.credentials / f"{agent}.{body}" if self.credentials is not None else None
        return path if path is not None and path.is_file() else None

    def soul_dir(self, agent: str) -> Path:
        """Where a soul is checked out when nobody says where."""
        return self.souls / layout.repository(agent)

    def state_dir(self, agent: str) -> Path:
        """What one daemon remembers outside the soul: the names below are all in it."""
        return self.state / agent

    def status_file(self, agent: str) -> Path:
        """The last `status --json` document."""
        return self.state / agent / "status.json"

    def events_file(self, agent: str) -> Path:
        """The facts, as JSON lines."""
        return self.state / agent / "events.jsonl"

    def lock_file(self, agent: str) -> Path:
        """Held for life by the one who makes passes."""
        return self.state / agent / "lock"

    def control_socket(self, agent: str) -> Path:
        """Where a running daemon answers."""
        return self.state / agent / "control.sock"

    def environment(self, *, system: bool = False) -> dict[str, str]:
        """What has to be in the environment of another program of ours, so that it finds these same places."""
        if self.keys == self.config.parent / "keys":
            return {"SOUL_BRIDGE_HOME": str(self.config.parent)}
        if system:
            return {}  # systemd names its directories
        own = {"XDG_CONFIG_HOME": self.config.parent, "XDG_STATE_HOME": self.state.parent}
        usual = {"XDG_CONFIG_HOME": self.home / ".config", "XDG_STATE_HOME": self.home / ".local" / "state"}
        return {name: str(path) for name, path in own.items() if path != usual[name]}

    def expand(self, text: str) -> Path:
        """A path of the configuration with `~` replaced."""
        return self.home / text[1:].lstrip("/") if text == "~" or text.startswith("~/") else Path(text)


def locate(environ: Mapping[str, str] | None = None, *, system: bool = False) -> Places:
    """Find the places from the environment (default: this process's own).

    SOUL_BRIDGE_HOME wins; then, for `system` or where systemd named our directories, those of the system service;
    else the XDG directories, of which only absolute ones count.
    """
    environ = os.environ if environ is None else environ
    home = Path(environ.get("HOME") or _home())
    log, color = environ.get("SOUL_BRIDGE_LOG", "").strip().lower() or "info", not environ.get("NO_COLOR")
    granted = Path(environ.get("CREDENTIALS_DIRECTORY", ""))
    credentials = granted if granted.is_absolute() else None
    journal = environ.get("JOURNAL_STREAM", "")
    if environ.get("SOUL_BRIDGE_HOME"):
        root = Path(os.path.abspath(environ["SOUL_BRIDGE_HOME"]))
        return Places(
            config=root / "config", keys=root / "keys", known_hosts=root / "known_hosts", state=root / "state",
            souls=root / "souls", home=home, log=log, color=color,
            credentials=credentials, journal=journal,
        )  # fmt: skip
    config = _SYSTEM_CONFIG if system else _granted(environ, "CONFIGURATION_DIRECTORY")
    state = _SYSTEM_STATE if system else _granted(environ, "STATE_DIRECTORY")
    souls = state / "souls" if state else home / "souls"
    config = config or _xdg(environ, "XDG_CONFIG_HOME", home / ".config") / _NAME
    state = state or _xdg(environ, "XDG_STATE_HOME", home / ".local" / "state") / _NAME
    return Places(
        config=config, keys=config / "keys", known_hosts=config / "known_hosts", state=state,
        souls=souls, home=home, log=log, color=color, credentials=credentials, journal=journal,
    )  # fmt: skip


def _home() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        return "/"


def _granted(environ: Mapping[str, str], variable: str) -> Path | None:
    # An agent's own unit passes its directories on to what it starts: only one that bears our name is ours. The unit
    # of one soul owns a part of it only, for another soul may belong to another user.
    for text in environ.get(variable, "").split(":"):
        path = Path(text)
        for own in (path, path.parent):
            if path.is_absolute() and own.name == _NAME:
                return own
    return None


def _xdg(environ: Mapping[str, str], variable: str, default: Path) -> Path:
    path = Path(environ.get(variable, ""))
    return path if path.is_absolute() else default
