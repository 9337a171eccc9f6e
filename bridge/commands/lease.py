"""`lease show|acquire|renew|release`: the right of one body to consolidate memories."""

from __future__ import annotations

import argparse

from bridge.commands import wiring
from bridge.commands.context import Context
from bridge.core.words import line


def run(arguments: argparse.Namespace, context: Context) -> int:
    """Do it and show who holds the lease. Raises Refused(kind="lease"), Transient when the remote does not answer."""
    settings = context.settings(arguments.agent)
    lease = wiring.request(settings, context, {"command": f"lease {arguments.action}"})["lease"]
    if lease is None:
        words = "nobody holds the consolidation lease"
    else:
        whose = "this body holds" if lease["mine"] else f"{lease['body']} holds"
        words = f"{whose} the consolidation lease until {lease['until']}"
    context.answer(lease, line(words))
    return 0
