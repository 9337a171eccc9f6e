"""`consolidate -- CMD …`: run a command that rewrites memories while no other body does."""

from __future__ import annotations

import argparse

from bridge.commands.context import Context
from bridge.core.errors import Unusable


def run(arguments: argparse.Namespace, context: Context) -> int:
    """Run the command under the lease; its exit code. Raises Unusable without a command."""
    context.settings(arguments.agent)
    raise Unusable("a command is needed", kind="usage", advice="soul-bridge consolidate -- CMD …")
