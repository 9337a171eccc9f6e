"""Journals: one file a day and body, sections that are only ever added.

Rules: FORM-4.
"""

from __future__ import annotations

import datetime
import functools
import re

from bridge.core.model import Problem

_PATH = re.compile(r"journal/([a-z0-9][a-z0-9-]{0,39})/(\d{4}-\d\d-\d\d)(-[^/]+)?\.md")
_SECTION = re.compile(r"## ([01]\d|2[0-3]):[0-5]\d \S.*")
_FENCES = ("```", "~~~")


def sections(content: bytes) -> tuple[str, ...]:
    """Sections of a journal file, each from its `## ` line on, without blank ends; text before the first, less the
    title, counts as one. Raises UnicodeDecodeError when it is not UTF-8."""
    blocks: list[list[str]] = [[]]
    fence = ""
    for number, line in enumerate(_lines(content)):
        fence = _fence(line, fence)
        if line.startswith("## ") and not fence:
            blocks.append([])
        if number or not line.startswith("# "):
            blocks[-1].append(line)
    texts = ("\n".join(block).strip("\n\t ") for block in blocks)
    return tuple(text for text in texts if text)


def merge(ours: bytes, theirs: bytes) -> bytes:
    """Theirs, then our sections that are missing there, for one body name used on two machines (MERGE-9).

    A section stands there when its text does, also as the beginning of a longer one. Not UTF-8 on either side: theirs.
    """
    try:
        here, there = sections(ours), _lines(theirs)
    except UnicodeDecodeError:
        return theirs
    standing = set(sections(theirs))
    missing = [text for text in dict.fromkeys(here) if text not in standing]
    begun = _beginnings(there) if missing else {}
    added = [text for text in missing if not _stands(text, there, begun)]
    if not added:
        return theirs
    if not "".join(there).strip():
        return ours
    return theirs.rstrip(b"\r\n") + "".join(f"\n\n{text}" for text in added).encode() + b"\n"


def _beginnings(lines: list[str]) -> dict[int, int]:
    """Where something that may be a section begins, by the hash of its first line, of its first two, and so on.

    Each line is part of few of them, because a code block hides headings only until it ends: one look at the lines is
    enough for any number of sections.
    """
    found: dict[int, int] = {}
    for start, first in enumerate(lines):
        if not first.startswith("## "):
            continue
        mark, fence = hash(first), ""
        found.setdefault(mark, start)
        for number in range(start + 1, len(lines)):
            fence = _fence(lines[number], fence)
            if lines[number].startswith("## ") and not fence:
                break
            mark = hash((mark, lines[number]))
            found.setdefault(mark, start)
    return found


def _stands(text: str, lines: list[str], begun: dict[int, int]) -> bool:
    parts = text.split("\n")
    if not text.startswith("## "):
        return f"\n{text}\n" in "\n".join(["", *lines, ""])  # what comes before the first heading, once in a file
    start = begun.get(functools.reduce(lambda mark, line: hash((mark, line)), parts[1:], hash(parts[0])))
    return start is not None and lines[start : start + len(parts)] == parts


def problems(path: str, content: bytes) -> list[Problem]:
    """Where a file below `journal/` is not of the form `<body>/<date>[-slug].md` with title and timed sections."""
    if path.endswith("/.gitkeep"):
        return []
    named = _PATH.fullmatch(path)
    if not named or not _is_date(named[2]):
        return [Problem("FORM-4", path, 0, "a journal file is journal/<body>/<YYYY-MM-DD>[-<slug>].md")]
    try:
        lines = _lines(content)
    except UnicodeDecodeError:
        return [Problem("FORM-4", path, 0, "not UTF-8")]
    found = []
    title = f"# {named[2]} · {named[1]}"
    if lines[0] != title:
        found.append(Problem("FORM-4", path, 1, f"the first line must be `{title}`"))
    fence = ""
    for number, line in enumerate(lines, 1):
        fence = _fence(line, fence)
        if line.startswith("## ") and not fence and not _SECTION.fullmatch(line):
            found.append(Problem("FORM-4", path, number, "a section starts with `## <HH:MM> <title>`"))
    return found


def _lines(content: bytes) -> list[str]:
    return content.decode("utf-8-sig").replace("\r\n", "\n").split("\n")


def _fence(line: str, open_with: str) -> str:
    """The mark of the code block that is open after this line, "" when none is: headings in it are not headings."""
    mark = line.strip()[:3]
    if mark not in _FENCES:
        return open_with
    if open_with:
        return "" if mark == open_with else open_with
    return mark


def _is_date(text: str) -> bool:
    try:
        datetime.date.fromisoformat(text)
    except ValueError:
        return False
    return True
