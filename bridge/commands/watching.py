"""`status --watch`: redrawn in place on a terminal, else one line for each change, until it is interrupted."""

from __future__ import annotations

import json
import os
from collections.abc import Callable

from bridge.app import status
from bridge.commands.context import Context
from bridge.core.words import escaped, line

LOOK = 0.5  # seconds between two looks, and so between two pictures
_QUIET = "nothing to do."
# What a terminal is to clear, and where to go on.
_EVERYTHING, _HOME, _REST_OF_LINE, _BELOW = "\x1b[2J", "\x1b[H", "\x1b[K", "\x1b[J"


def run(look: Callable[[], status.Document], context: Context) -> int:
    """Show what `look` gives, for ever. Raises what it raises, and KeyboardInterrupt with the cursor below the picture.

    With --json: an object on a line of its own for each change.
    """
    if context.json or not context.out.isatty():
        return _lines(look, context)
    shown: list[str] = []
    clear = _EVERYTHING
    while True:
        lines = _fitting(status.readable(look(), context.clock.now()), context)
        if lines != shown:
            context.line(clear + _HOME + "".join(f"{each}{_REST_OF_LINE}\n" for each in lines) + _BELOW)
            shown, clear = lines, ""
        context.clock.sleep(LOOK)


def _fitting(words: str, context: Context) -> list[str]:
    """The lines of a picture, cut to the terminal: what scrolls cannot be drawn over."""
    try:
        columns, rows = os.get_terminal_size(context.out.fileno())
    except (OSError, ValueError):
        columns, rows = 0, 0
    wide, high = max(columns or 80, 20), max(rows or 24, 4)
    return [each if len(each) < wide else each[: wide - 2] + "…" for each in words.split("\n")[: high - 2]]


def _lines(look: Callable[[], status.Document], context: Context) -> int:
    before: status.Document | None = None
    while True:
        document = look()
        now = status.changed(document)
        if now != before:
            before = now
            context.line(
                escaped(json.dumps(document, ensure_ascii=False)) if context.json else _told(document, context)
            )
        context.clock.sleep(LOOK)


def _told(document: status.Document, context: Context) -> str:
    at = context.clock.now()
    last = document.get("last_pass")
    done = f"; {last['sentence']}" if last and last["outcome"] == "ok" and last["sentence"] != _QUIET else ""
    return line(f"{status.time_of_day(at)}  {status.sentence(document, at)}{done}")
