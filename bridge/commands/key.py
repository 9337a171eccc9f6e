"""`key show`: the public half of this body's key, and its fingerprint."""

from __future__ import annotations

import argparse

from bridge.adapters import keys
from bridge.commands.context import Context


def run(arguments: argparse.Namespace, context: Context) -> int:
    """Print the line to paste as a deploy key with write access; raises Refused(kind="auth") without a key."""
    settings = context.settings(arguments.agent)
    public = keys.public(settings.key)
    document = {"public_key": public.line, "fingerprint": public.fingerprint, "path": str(settings.key)}
    context.answer(document, f"{public.line}\n{public.fingerprint}  {settings.key}")
    return 0
