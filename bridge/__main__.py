"""`soul-bridge`, and `python -m bridge`: whoever interrupts while it is still being loaded sees no traceback either."""

import sys

_INTERRUPTED = 130


def main() -> int:
    """Run what was typed; returns its exit code."""
    try:
        from bridge.cli import main as typed

        return typed()
    except KeyboardInterrupt:
        return _INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
