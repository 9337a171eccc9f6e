"""`key show`: the public half of this body's key, and its fingerprint. `key rotate`: a new one in its place."""

from __future__ import annotations

import argparse
from dataclasses import replace
from datetime import UTC, datetime

from bridge.adapters import config, keys
from bridge.adapters.remote import Remote
from bridge.app import authorizing, rotating
from bridge.commands import authorize, wiring
from bridge.commands.context import Context
from bridge.commands.init import NothingYet
from bridge.core import address


def run(arguments: argparse.Namespace, context: Context) -> int:
    """Print the line to paste as a deploy key with write access, or rotate; raises Refused(kind="auth"), Transient."""
    settings = context.settings(arguments.agent)
    if arguments.action == "rotate":
        return _rotate(settings, context, arguments)
    public = keys.public(settings.key)
    document = {"public_key": public.line, "fingerprint": public.fingerprint, "path": str(settings.key)}
    context.answer(document, f"{public.line}\n{public.fingerprint}  {settings.key}")
    return 0


def _rotate(settings: config.Settings, context: Context, arguments: argparse.Namespace) -> int:
    authorize.refuse_nonsense(arguments)
    where = address.parse(settings.remote)
    if arguments.authorize:
        authorize.refuse_mismatch(arguments.authorize, arguments.api, where)

    def add(public: rotating.Public) -> None:
        typed = f"soul-bridge key rotate {settings.agent}"
        again = typed + authorize.words(arguments)
        authorize.let_in(arguments, context, authorizing.Wanted(where, public, settings.body, again, typed))

    day = datetime.fromtimestamp(context.clock.now(), UTC).date().isoformat()
    pair = keys.Successor(settings.key, settings.soul, f"{settings.agent}.{settings.body} soul-bridge {day}")
    access = replace(wiring.access(settings, context.places), key=lambda: keys.load(pair.next, settings.soul))
    remote = Remote(access, NothingYet(), context.clock)
    try:
        asking = rotating.Asking(
            remote.probe_write, context.clock, arguments.wait or 0.0, add if arguments.authorize else None
        )
        rotated = rotating.rotate(pair, asking, where, settings.agent, context.say)
    finally:
        remote.close()
    new, old = rotated.new, rotated.old.fingerprint if rotated.old else None
    document = {"public_key": new.line, "fingerprint": new.fingerprint, "path": str(settings.key), "delete": old}
    what = f"the old one, {old}" if old else "the old one, whose fingerprint nobody knows any more"
    context.answer(
        document,
        f"{new.fingerprint}  {settings.key}\nThe new key is in use; a running daemon takes it at its next login.\n"
        f"Now delete at the host {what}: nobody needs it any more."
        + (f"\nOn an own server: soul-bridge host revoke {old}  (only that one, not the new one)" if old else ""),
    )
    pair.settle()
    return 0
