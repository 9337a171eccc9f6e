"""`soul-bridge`, and `python -m bridge`: whoever interrupts while it is still being loaded sees no traceback either."""

import sys

_INTERRUPTED = 130
_BEYOND = """\
soul-bridge: the clock of this machine shows a time beyond the year 2262, with which nothing can be reckoned
next: Nothing was done; memories and history are safe. Set it right: sudo timedatectl set-ntp true
"""


def main() -> int:
    """Run what was typed; returns its exit code."""
    try:
        if not _reckoned():
            sys.stderr.write(_BEYOND)
            return 1
        from bridge.cli import main as typed

        return typed()
    except KeyboardInterrupt:
        return _INTERRUPTED


def _reckoned() -> bool:
    """Whether there is a number for what the clock shows; without, not even the standard library can be loaded."""
    from bridge.adapters.clock import SystemClock

    try:
        SystemClock().now()
    except OverflowError:
        return False
    return True


if __name__ == "__main__":
    sys.exit(main())
