"""Whether to trust the host that answers at the remote's address (AUTH-6), for `init` and `accept-host-key`."""

from __future__ import annotations

import sys

from bridge.adapters import config, hosts
from bridge.adapters.remote import offered
from bridge.commands import wiring
from bridge.commands.context import Context
from bridge.core import address
from bridge.core.errors import Refused, Unusable


def look(
    settings: config.Settings, known: hosts.KnownHosts, detour: str = ""
) -> tuple[str, tuple[hosts.HostKey, ...], hosts.HostKey]:
    """The host's name, the keys pinned for it, and the key it offers now. Raises Transient.

    detour: what to tell a person when nobody answers at that port.
    """
    parsed = address.parse(settings.remote)
    name = parsed.known_host_key_name
    pinned = known.lookup(name)
    shipped = hosts.shipped(name)
    types = [key.type for key in pinned] or ([shipped.type] if shipped else ["ssh-ed25519"])
    return name, pinned, hosts.HostKey(*offered(parsed, types, detour=detour))


def refuse_nonsense(fingerprint: str | None, option: str) -> None:
    """Raise Unusable for words that no key can have as its fingerprint."""
    if fingerprint is not None and not hosts.FINGERPRINT.fullmatch(fingerprint.strip()):
        raise Unusable(
            f"{option} {fingerprint!r} is no fingerprint of a host key: it looks like SHA256:+DiY3wvv…, 43 characters",
            kind="usage",
            rule="AUTH-6",
            advice="Nothing was pinned or sent. On the server, `ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub` "
            "prints it.",
        )


def trust(settings: config.Settings, context: Context, fingerprint: str | None, again: str) -> None:
    """Pin the host's key when it is known to be right, or a person at a terminal says so. Raises Refused.

    again: the command that goes on once a person has compared the two.
    """
    known = hosts.KnownHosts(context.places.known_hosts)
    name, pinned, key = look(settings, known, wiring.detour(settings, context.places))
    verdict = hosts.verdict(pinned, hosts.shipped(name), fingerprint, key)
    if verdict is hosts.Verdict.TRUSTED:
        return
    if verdict is hosts.Verdict.PIN or (verdict is hosts.Verdict.ASK and _asked(context, name, key)):
        known.pin(name, key)
        return
    raise _refused(settings, name, key, verdict, fingerprint, again)


def _asked(context: Context, name: str, key: hosts.HostKey) -> bool:
    if context.json or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    context.err.write(f"The host {name} is not known yet. Its key is {key.fingerprint}\nTrust it (yes/no)? ")
    context.err.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _refused(
    settings: config.Settings,
    name: str,
    key: hosts.HostKey,
    verdict: hosts.Verdict,
    fingerprint: str | None,
    again: str,
) -> Refused:
    if verdict is hosts.Verdict.ASK:
        message = f"the host {name} is not known; its key is {key.fingerprint}"
        advice = (
            "Nothing was pinned or sent. Compare the fingerprint with the host's own, then run\n"
            f"{again} --host-key {key.fingerprint}"
        )
    elif verdict is hosts.Verdict.CHANGED:
        message = f"the host key of {name} has changed: it offers {key.fingerprint}"
        advice = (
            "Nothing was sent. Ask the host's owner whether that is right, then "
            f"`soul-bridge accept-host-key {settings.agent}`."
        )
    else:
        expected = fingerprint or "the one the host publishes"
        message = f"the host {name} offers the key {key.fingerprint}, expected is {expected}"
        advice = "Nothing was pinned or sent: someone may stand between you and the host. Check the address."
    return Refused(message, kind="hostkey", rule="AUTH-6", advice=advice)
