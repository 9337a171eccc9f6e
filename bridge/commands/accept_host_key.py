"""`accept-host-key`: show the pinned and the offered key, and pin the offered one once a person agrees."""

from __future__ import annotations

import argparse
import sys

from bridge.adapters import hosts
from bridge.commands import hostkey, wiring
from bridge.commands.context import Context
from bridge.core.errors import Refused


def run(arguments: argparse.Namespace, context: Context) -> int:
    """Accept a host key. Without a terminal, `--fingerprint` has to name it. Raises Refused(kind="hostkey")."""
    hostkey.refuse_nonsense(arguments.fingerprint, "--fingerprint")
    settings = context.settings(arguments.agent)
    known = hosts.KnownHosts(context.places.known_hosts)
    name, pinned, key = hostkey.look(settings, known, wiring.detour(settings, context.places))
    before = [one.fingerprint for one in pinned]
    document = {"host": name, "pinned": before, "offered": key.fingerprint, "accepted": key in pinned}
    if key in pinned:
        context.answer(document, f"{name} offers the pinned key {key.fingerprint}: nothing to accept")
        return 0
    shown = f"{name}\n  pinned:  {', '.join(before) or 'none'}\n  offered: {key.fingerprint}"
    if arguments.fingerprint is None and not (not pinned and key == hosts.shipped(name)):
        if not _agreed(context, shown):
            raise _undecided(settings.agent, name, key)
    elif arguments.fingerprint and not hosts.same_fingerprint(arguments.fingerprint, key.fingerprint):
        raise Refused(
            f"the host {name} offers {key.fingerprint}, not {arguments.fingerprint}",
            kind="hostkey",
            rule="AUTH-6",
            advice="Nothing was pinned. Ask the host's owner for its fingerprint.",
        )
    known.replace(name, key)
    context.answer({**document, "accepted": True}, f"{shown}\nThe offered key is pinned now.")
    return 0


def _agreed(context: Context, shown: str) -> bool:
    if context.json or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    context.err.write(f"{shown}\nPin the offered key (yes/no)? ")
    context.err.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _undecided(agent: str, name: str, key: hosts.HostKey) -> Refused:
    return Refused(
        f"the host {name} offers {key.fingerprint}; nobody said that it is right",
        kind="hostkey",
        rule="AUTH-6",
        advice="Nothing was pinned. Compare it with the host's own, then run\n"
        f"soul-bridge accept-host-key {agent} --fingerprint {key.fingerprint}",
    )
