"""A notice on the desktop of whoever is logged in: by the program that is there for it."""

from __future__ import annotations

import html
import shutil
from collections.abc import Callable

from bridge.core.words import line

USUAL = "notify-send"
LONGEST = 300  # characters: a notice is read in passing
# Words go in as arguments of the script, never as a part of it.
_SCRIPT = (
    "on run argv",
    "display notification (item 2 of argv) with title (item 1 of argv)",
    "end run",
)


def command(
    title: str, body: str, *, urgent: bool, which: Callable[[str], str | None] = shutil.which
) -> list[str] | None:
    """The words of a program that shows it; None where neither notify-send nor osascript is installed."""
    title, body = (line(text, LONGEST - 2) for text in (title, body))
    if program := which(USUAL):
        urgency = "critical" if urgent else "normal"
        # Some desktops read markup in the body.
        body = html.escape(body, quote=False)
        return [program, "--app-name=soul-bridge", f"--urgency={urgency}", "--", title, body]
    if program := which("osascript"):
        return [program, *(word for step in _SCRIPT for word in ("-e", step)), title, body]
    return None
