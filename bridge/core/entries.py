"""Memory files: what an entry is, how three versions become one, and what a write had read.

Everything here is linear in the size of its input and never raises on any bytes, `read` on text that is not UTF-8
excepted.

Rules: FORM-3, MERGE-2, MERGE-3, MERGE-12.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from bridge.core.errors import Held
from bridge.core.model import Problem

SEPARATOR = "§"
# Unicode's White_Space and U+FEFF, spelled out: Python's own notion also holds U+001C to U+001F, other languages' not.
WHITE = (
    "\t\n\x0b\x0c\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000\ufeff"
)
RECENT = 86400.0  # seconds for which it is remembered what came into a file with a write of ours (MERGE-12)
_BLANK = " \t\r"


@dataclass(frozen=True, slots=True)
class Arrival:
    """One earlier write of ours into a memory file: its entries right before and right after that write."""

    before: tuple[str, ...]
    after: tuple[str, ...]

    def then(self, later: Arrival) -> Arrival:
        """Both writes as one. What the agent wrote in between came with neither of them."""
        came = set(self.after)
        own = [entry for entry in later.before if entry not in came]
        after = later.after if later.after != later.before else (*self.after, *own)
        return Arrival(tuple(dict.fromkeys((*self.before, *own))), tuple(dict.fromkeys(after)))


def read(content: bytes) -> tuple[str, ...]:
    """Entries of a memory file, duplicates kept, in order. Raises Held(rule="FORM-3") when it is not UTF-8."""
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Held(
            f"not UTF-8 (byte {error.start})",
            rule="FORM-3",
            advice="save the file as UTF-8; its bytes stay as they are",
        ) from error
    return tuple(_split(text))


def write(entries: Iterable[str]) -> bytes:
    """Bytes of a memory file with these entries, such as `read` gives them: `read(write(x)) == x` for every x read."""
    text = f"\n{SEPARATOR}\n".join(_guarded(entry) if SEPARATOR in entry else entry for entry in entries)
    return (text + "\n").encode("utf-8") if text else b""


def merge(base: Sequence[str], ours: Sequence[str], theirs: Sequence[str]) -> tuple[str, ...]:
    """Entries of both sides less those of base that either side dropped (MERGE-2), in the order of MERGE-3.

    MERGE-1 comes before this, on bytes: a side that only moved entries loses its order here.
    """
    known, here, there = set(base), dict.fromkeys(ours), dict.fromkeys(theirs)
    # Our additions, by the last entry before them that is in the result; None is the start.
    behind: dict[str | None, list[str]] = {}
    anchor: str | None = None
    for entry in here:
        if entry in there:
            anchor = entry
        elif entry not in known:
            behind.setdefault(anchor, []).append(entry)
    result: list[str] = []
    pending = behind.get(None, [])
    for entry in there:
        if entry in here:
            result += pending
            pending = behind.get(entry, [])
            result.append(entry)
        elif entry not in known:
            # Theirs alone added it: our additions wait until this run is over.
            result.append(entry)
    return tuple(result + pending)


def base_of_write(
    written: Sequence[str],
    seen: Sequence[str],
    arrivals: Sequence[Arrival],
    read_since: bool,
    remembered: Iterable[str] = (),
) -> tuple[str, ...]:
    """The entries a local write is merged against, so that it deletes only what it can have read (MERGE-12).

    arrivals: our earlier writes into the file, oldest first. read_since: whether the file was closed after a read
    since the last of them, or nobody can tell. Whoever has read one of our writes has read those before it too.
    remembered: entries of versions from before them, which were read.
    """
    if read_since:
        return tuple(seen)
    have = set(written)
    earlier = set(remembered)
    newest_read = -1
    for number, arrival in enumerate(arrivals):
        earlier.update(arrival.before)
        # An entry that was already there in an earlier version may be remembered from then: it proves nothing.
        if any(entry in have and entry not in earlier for entry in arrival.after):
            newest_read = number
        earlier.update(arrival.after)
    unread = arrivals[newest_read + 1 :]
    return _without(unread, seen) if unread else tuple(seen)


def _without(unread: Sequence[Arrival], seen: Sequence[str]) -> tuple[str, ...]:
    """What was seen as it would be had these writes of ours not been made; what the agent wrote in between stays."""
    if unread[-1].after == tuple(seen) and all(a.after == b.before for a, b in itertools.pairwise(unread)):
        return unread[0].before
    base = dict.fromkeys(seen)
    for arrival in reversed(unread):
        before, after = dict.fromkeys(arrival.before), set(arrival.after)
        base = {entry: None for entry in base if entry in before or entry not in after}
        base |= {entry: None for entry in before if entry not in after}
    return tuple(base)


def suspicious(seen: bytes, now: bytes) -> bool:
    """Whether a memory file that held `seen` looks broken rather than edited: emptied, filled with NUL, or short of
    at least half of four or more entries. The rule that asks is in `plan`."""
    if b"\0" in now and b"\0" not in seen:
        return True
    before, after = (len(set(_split(content.decode("utf-8", "replace")))) for content in (seen, now))
    return (before > 0 and after == 0) or (before >= 4 and 2 * (before - after) >= before)


def problems(path: str, content: bytes) -> list[Problem]:
    """Where a memory file, though it can be read, is not as `write` would make it."""
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        return [Problem("FORM-3", path, 0, "not UTF-8, so it is merged as a whole and not by entry")]
    found = [Problem("FORM-3", path, 1, "starts with a byte order mark")] if text.startswith("\ufeff") else []
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").split("\n")
    filled = False
    for number, line in enumerate(lines, 1):
        if _separates(line):
            if not filled:
                found.append(Problem("FORM-3", path, number, "no entry before this separator"))
            if line != SEPARATOR:
                found.append(Problem("FORM-3", path, number, "blanks after the separator"))
            filled = False
        else:
            filled = filled or bool(line.strip(WHITE))
    if not filled and any(map(_separates, lines)):
        found.append(Problem("FORM-3", path, len(lines), "no entry after the last separator"))
    if text and (not text.endswith("\n") or not lines[-2].strip(WHITE)):
        found.append(Problem("FORM-3", path, len(lines), "must end with one line feed"))
    if not found and write(read(content)) != content.replace(b"\r\n", b"\n"):
        found.append(Problem("FORM-3", path, 0, "white space around an entry"))
    return found


def _split(text: str) -> Iterator[str]:
    lines: list[str] = []
    for line in text.removeprefix("\ufeff").split("\n"):
        if _separates(line):
            yield from _entry(lines)
            lines = []
        else:
            lines.append(line)
    yield from _entry(lines)


def _separates(line: str) -> bool:
    return line.startswith(SEPARATOR) and line.rstrip(_BLANK) == SEPARATOR


def _entry(lines: list[str]) -> Iterator[str]:
    text = "\n".join(lines)
    if "\r" in text:
        text = "\n".join(line.rstrip("\r") for line in lines)
    text = text.strip(WHITE)
    if text:
        yield text


def _guarded(entry: str) -> str:
    """The entry so that none of its lines reads as a separator: white space at its outside vanishes on reading."""
    lines = entry.split("\n")
    for number, line in enumerate(lines):
        if _separates(line):
            outside = number and number == len(lines) - 1
            lines[number] = f"{line}\xa0" if outside else f" {line}"
    return "\n".join(lines)
