"""`demo`: two bodies and a git host in a temporary directory; exits 0 only when all that is shown was true."""

from __future__ import annotations

import argparse

from bridge.app import demo
from bridge.commands.context import Context


def run(arguments: argparse.Namespace, context: Context) -> int:
    """Run it. Raises Untrue (exit 1) for anything that was not as told."""
    began = context.clock.boottime()

    def say(words: str) -> None:
        stream = context.err if context.json else context.out
        stream.write(words + "\n")
        stream.flush()

    checks = demo.run(context.clock, say)
    took = context.clock.boottime() - began
    context.answer(
        {"ok": True, "seconds": round(took, 1), "checks": checks},
        f"\nAll {len(checks)} statements were true, in {took:.1f} s.",
    )
    return 0
