"""`service` on macOS: a launchd agent is written, and what to type to start it is told. Untested: nobody ran it yet."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from pathlib import Path

from bridge.adapters import config
from bridge.app import units
from bridge.app.units import Site
from bridge.commands.context import Context
from bridge.core.errors import Transient

UNTESTED = "services on macOS are untested: see that `soul-bridge status` tells of a pass"


def run(arguments: argparse.Namespace, context: Context, site_of: Callable[[config.Settings], Site]) -> int:
    """Write or remove the agent's plist, or tell whether it is there. Raises Unusable, Transient(kind="disk")."""
    agent = context.agent(arguments.agent)
    place = context.places.home / "Library" / "LaunchAgents" / f"{units.label(agent)}.plist"
    domain = f"gui/{os.getuid()}"
    try:
        if arguments.action == "install":
            log = context.places.state_dir(agent) / "daemon.log"
            log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(units.plist(site_of(context.settings(agent)), log))
            words = [f"wrote {place}", f"next: launchctl bootstrap {domain} {place}", UNTESTED]
        elif arguments.action == "uninstall":
            words = [f"next: launchctl bootout {domain}/{units.label(agent)}", *_removed(place)]
        else:
            words = [f"{place} is {'there' if place.exists() else 'not there'}", UNTESTED]
    except OSError as error:
        raise Transient(f"{place}: {error.strerror}", kind="disk", advice=f"ls -ld {place.parent}") from error
    document = {"agent": agent, "unit": str(place), "scope": "user", "installed": place.exists(), "tested": False}
    context.answer(document, "\n".join(words))
    return 0


def _removed(place: Path) -> list[str]:
    if not place.exists():
        return [f"{place} was not there"]
    place.unlink()
    return [f"removed {place}"]
