"""What stands in the files of a service: the shipped templates, and beside them what only this machine knows."""

from __future__ import annotations

import plistlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path

TEMPLATE = "soul-bridge@.service"
DROP_IN = "soul-bridge.conf"  # in the instance's folder of drop-ins
PLAIN_PATH = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")

_HEAD = """\
# Written by `soul-bridge service install {agent}`: what only this machine knows. Run it again after a change of the
# configuration. Settings of your own belong into another file of this folder.
[Service]
"""
_COMMANDS = """
# Hooks and the consolidation command run inside this unit and are programs of yours: they may write where you may,
# look at other processes and compile as they go. Without such commands none of this is here.
ProtectSystem=full
ProtectHome=no
PrivateTmp=no
ProtectProc=default
ProcSubset=all
MemoryDenyWriteExecute=no
RestrictNamespaces=no
RestrictAddressFamilies=AF_NETLINK
SystemCallFilter=
"""
_UNCONFINED = """
# This machine lets no user make namespaces, so the unit cannot be kept from reading and writing what you may.
PrivateUsers=no
ProtectSystem=no
ProtectHome=no
PrivateTmp=no
PrivateDevices=no
PrivateMounts=no
ProtectClock=no
ProtectControlGroups=no
ProtectHostname=no
ProtectKernelModules=no
ProtectProc=default
ProcSubset=all
CapabilityBoundingSet=~
"""


@dataclass(frozen=True)
class Site:
    """What only this machine knows about the service of one soul.

    program: the words that start soul-bridge. writable: folders the daemon writes into. path: folders of programs it
    needs beyond the plain ones. commands: whether hooks or a consolidation are configured. owner: user and group it
    runs as, None for a user's own unit. credential: name and file of the key that systemd hands over.
    """

    agent: str
    program: tuple[str, ...]
    writable: tuple[Path, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    path: tuple[str, ...] = ()
    commands: bool = False
    owner: tuple[str, str] | None = None
    credential: tuple[str, Path] | None = None

    @property
    def unit(self) -> str:
        """The name of the instance."""
        return f"soul-bridge@{self.agent}.service"


def template(*, system: bool) -> str:
    """The shipped unit."""
    place = resources.files("bridge").joinpath("units")
    return (place / "system" / TEMPLATE if system else place / TEMPLATE).read_text(encoding="utf-8")


def drop_in(site: Site, *, confined: bool = True) -> str:
    """The settings of one instance on this machine. confined: whether the machine can set up namespaces."""
    lines = ["ExecStart=", f"ExecStart={' '.join(map(_word, site.program))} run %i"]
    path = ":".join(dict.fromkeys((*site.path, *PLAIN_PATH)))
    for name, value in {"PATH": path, **site.environment}.items():
        lines.append(f"Environment={quoted(f'{name}={value}')}")
    if site.owner is not None:
        lines += [f"User={site.owner[0]}", f"Group={site.owner[1]}"]
    if site.credential is not None:
        lines.append(f"LoadCredential={site.credential[0]}:{_escaped(str(site.credential[1]))}")
    # One that is not there at the start is no reason not to start.
    lines += [f"ReadWritePaths={quoted(f'-{place}')}" for place in dict.fromkeys(site.writable)]
    more = (_COMMANDS if site.commands else "") + ("" if confined else _UNCONFINED)
    return _HEAD.format(agent=site.agent) + "\n".join(lines) + "\n" + more


def plist(site: Site, log: Path) -> bytes:
    """A launchd agent for macOS that does the same. Untested: nobody ran it yet."""
    return plistlib.dumps(
        {
            "Label": label(site.agent),
            "ProgramArguments": [*site.program, "run", site.agent],
            "EnvironmentVariables": {
                "PATH": ":".join(dict.fromkeys((*site.path, *PLAIN_PATH))),
                "PYTHONUTF8": "1",
                **site.environment,
            },
            "RunAtLoad": True,
            "KeepAlive": {"SuccessfulExit": False},
            "ThrottleInterval": 10,
            "ExitTimeOut": 30,
            "ProcessType": "Background",
            "StandardErrorPath": str(log),
        }
    )


def label(agent: str) -> str:
    """What launchd calls the service of an agent."""
    return f"local.soul-bridge.{agent}"


def quoted(text: str) -> str:
    """A word of a unit file that means exactly this text."""
    for plain, written in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("%", "%%")):
        text = text.replace(plain, written)
    return f'"{text}"'


def _word(text: str) -> str:
    return quoted(text).replace("$", "$$")


def _escaped(text: str) -> str:
    return text.replace("%", "%%")
