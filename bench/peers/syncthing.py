"""Syncthing: two machines and, where the others have their git host, a third one that is always on."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from bench.measure import run
from bench.peers.pair import Pair, Peer
from bench.world import World

_CONFIGURATION = """\
<configuration version="36">
  <folder id="soul" label="soul" path="{folder}" type="sendreceive" rescanIntervalS="3600" fsWatcherEnabled="true"
          fsWatcherDelayS="{delay}">
{members}
  </folder>
{devices}
  <gui enabled="false"></gui>
  <options>
    <listenAddress>tcp://{listen}</listenAddress>
    <globalAnnounceEnabled>false</globalAnnounceEnabled>
    <localAnnounceEnabled>false</localAnnounceEnabled>
    <relaysEnabled>false</relaysEnabled>
    <natEnabled>false</natEnabled>
    <startBrowser>false</startBrowser>
    <urAccepted>-1</urAccepted>
    <autoUpgradeIntervalH>0</autoUpgradeIntervalH>
    <crashReportingEnabled>false</crashReportingEnabled>
    <reconnectionIntervalS>{reconnect}</reconnectionIntervalS>
  </options>
</configuration>
"""


class SyncthingPair(Pair):
    """here ↔ hub ↔ there; the hub is what counts as the remote."""

    def __init__(self, world: World, delay: int) -> None:
        homes = {name: world.fresh(f"syncthing-{name}") for name in ("hub", "here", "there")}
        super().__init__(homes["here"] / "soul", homes["there"] / "soul")
        self.hub = homes["hub"] / "soul"
        ids = {name: _identity(home) for name, home in homes.items()}
        listens = {name: f"{self._address(world, name)}:{_free_port()}" for name in homes}
        for name, home in homes.items():
            others = ["here", "there"] if name == "hub" else ["hub"]
            (home / "soul").mkdir()
            members = "".join(f'    <device id="{ids[other]}"></device>\n' for other in [name, *others])
            # The hub waits to be called: two that call each other at once over a slow line may hang up for ever.
            calls = {other: f"tcp://{listens[other]}" if name != "hub" else "dynamic" for other in [name, *others]}
            devices = "".join(_device(ids[other], other, calls[other]) for other in [name, *others])
            text = _CONFIGURATION.format(
                folder=home / "soul", delay=delay, members=members, devices=devices, listen=listens[name],
                reconnect=5 if delay == 1 else 60,
            )  # fmt: skip
            (home / "config.xml").write_text(text)
        for name, home in homes.items():
            beyond = world.network.beyond if name == "hub" else ()
            command = [*beyond, "syncthing", "serve", f"--home={home}", "--no-browser", "--no-restart"]
            self.child(command, home / "log", home, _environment(home))

    def _address(self, world: World, name: str) -> str:
        return world.network.address if name == "hub" else world.network.near

    def mark(self) -> object:
        """When the hub's folders changed."""
        return tuple(os.stat(folder).st_mtime_ns for folder, _, _ in os.walk(self.hub))

    def arrived(self, name: str, content: str) -> bool:
        """Whether the hub holds the file so."""
        try:
            return (self.hub / name).read_text("utf-8") == content
        except (OSError, UnicodeDecodeError):
            return False


def _identity(home: Path) -> str:
    environment = _environment(home)
    run("syncthing", "generate", f"--home={home}", "--no-default-folder", "--skip-port-probing", env=environment)
    return run("syncthing", f"--home={home}", "--device-id", env=environment).strip()


def _environment(home: Path) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "HOME": str(home), "STNOUPGRADE": "1", "STNODEFAULTFOLDER": "1"}


def _device(identity: str, name: str, call: str) -> str:
    address = f"<address>{call}</address>"
    return f'  <device id="{identity}" name="{name}" compression="metadata">{address}</device>\n'


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def _open_default(world: World) -> Pair:
    return SyncthingPair(world, 10)


def _open_tuned(world: World) -> Pair:
    return SyncthingPair(world, 1)


_PROGRAMS, _VERSION = ("syncthing",), ("syncthing", "--version")
_HUB = "the remote is a third, always-on machine between the two"
DEFAULT = Peer("Syncthing", f"as it comes (watcher delay 10 s); {_HUB}", _PROGRAMS, _VERSION, _open_default)
TUNED = Peer("Syncthing tuned", f"watcher delay 1 s, its least; {_HUB}", _PROGRAMS, _VERSION, _open_tuned)
