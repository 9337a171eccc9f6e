"""Notes: file names that every machine can hold, made from any topic.

Rules: FORM-5.
"""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Collection, Sequence

from bridge.core import layout
from bridge.core.entries import WHITE
from bridge.core.model import Problem

LONGEST = 60  # code points of one name, ending excluded
DEEPEST = 4  # names below notes/, the topic's own included
UNTITLED = "untitled"
_FORBIDDEN = re.compile(f'[\\\\/:*?"<>|\x00-\x1f\x7f-\x9f\ud800-\udfff{WHITE}]+')
# Names that Windows gives to devices, whatever follows the first dot, and the short name of .git.
_RESERVED = re.compile(r"(?i)(con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³]|conin\$|conout\$|git~[0-9]+)(\..*)?")
_BEFORE = "-." + "".join(map(chr, layout.PASSED_OVER))
_INDEXES = ("index.md", "_index.md")

_JOINER = "\u200d"
_INDICATOR = range(0x1F1E6, 0x1F200)
# What belongs to the letter before it without being a mark: joiners, skin tones, tags, Thai and Lao AM, half marks.
_EXTENDING = re.compile("[\u200c\u200d\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f\u0e33\u0eb3\uff9e\uff9f]")
_PREPENDED = re.compile("[\u0600-\u0605\u06dd\u070f\u0890\u0891\u08e2\u0d4e\U000110bd\U000110cd]")
_VIRAMA = 9  # combining class: the next consonant belongs to the same cluster
_LEADING = re.compile("[\u1100-\u115f\ua960-\ua97c]")
_INNER = re.compile("[\u1160-\u11ff\ud7b0-\ud7c6\ud7cb-\ud7fb]")
_SYLLABLE = re.compile("[\uac00-\ud7a3]")


def segment(text: str) -> str:
    """A name for one level: safe on every system, at most LONGEST code points, no grapheme cut in two."""
    name = _FORBIDDEN.sub("-", unicodedata.normalize("NFC", text)).lstrip(_BEFORE)
    name = _cut(name, LONGEST)
    if _RESERVED.fullmatch(name.translate(layout.PASSED_OVER)):
        name = "_" + _cut(name, LONGEST - 1)
    return name or UNTITLED


def path(topic: str, categories: Sequence[str] = (), taken: Collection[str] = frozenset()) -> str:
    """Path of a note that this program makes. taken: paths that are there; a new note never takes one of them, nor
    one that some systems hold to be the same."""
    names = [*categories, topic]
    deepest = DEEPEST - 1
    *above, last = map(segment, [*names[:deepest], "-".join(names[deepest:])] if len(names) > deepest else names)
    folded = {layout.fold(other) for other in taken}
    name, number = last, 1
    while layout.fold(found := "/".join(["notes", *above, f"{name}.md"])) in folded:
        number += 1
        ending = f"-{number}"
        name = (_cut(last, LONGEST - len(ending)) or UNTITLED) + ending
    return found


def problems(path: str, content: bytes) -> list[Problem]:
    """Where a file below `notes/` is not named or begun as this program would; it keeps its name all the same."""
    if path.endswith("/.gitkeep"):
        return []
    *above, last = path.split("/")[1:]
    found = []
    if not last.endswith(".md"):
        found.append(Problem("FORM-5", path, 0, "a note is a Markdown file, <topic>.md"))
    if len(above) >= DEEPEST:
        found.append(Problem("FORM-5", path, 0, f"deeper than {DEEPEST} levels"))
    for name in (*above, last.removesuffix(".md")):
        made = segment(name)
        if made.strip("-") != unicodedata.normalize("NFC", name).strip("-"):
            found.append(Problem("FORM-5", path, 0, f"{name!r} is no name for every system; {made!r} would be"))
    if last.casefold() in _INDEXES:
        found.append(Problem("FORM-5", path, 0, "index files are not kept in a soul"))
    first = content.decode("utf-8", "replace").split("\n", 1)[0]
    if last.endswith(".md") and not (first.startswith("# ") and first[2:].strip()):
        found.append(Problem("FORM-5", path, 1, "the first line must be `# <topic>`"))
    return found


def _cut(text: str, limit: int) -> str:
    """The longest beginning of whole graphemes within the limit, without the ends that Windows drops."""
    end = min(limit, len(text))
    while 0 < end < len(text) and _joined(text, end):
        end -= 1
    return text[:end].rstrip("-. ")


def _joined(text: str, at: int) -> bool:
    """Whether the letters before and after a place in a text are one grapheme. Where it is unsure: yes."""
    before, after = text[at - 1], text[at]
    if unicodedata.category(after).startswith("M") or _EXTENDING.match(after):
        return True
    if before == _JOINER or unicodedata.combining(before) == _VIRAMA or _PREPENDED.match(before):
        return True
    if ord(after) in _INDICATOR:
        run = itertools.takewhile(lambda letter: ord(letter) in _INDICATOR, reversed(text[:at]))
        return sum(1 for _ in run) % 2 == 1
    if _INNER.match(after):
        return bool(_LEADING.match(before) or _INNER.match(before) or _SYLLABLE.match(before))
    return bool(_LEADING.match(before) and (_LEADING.match(after) or _SYLLABLE.match(after)))
