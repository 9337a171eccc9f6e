"""What a commit of ours says: who made it, what changed in words, and facts for machines as trailers.

A message is one subject line and, where there are facts, one block of `Key: value` lines at the end. Everything that
comes from a file's name is quoted, so that no name can end a line and start a fact of its own; whatever cannot have
been written here is not a fact when it is read.

Rules: COMMIT-1, COMMIT-3.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from bridge.core import entries, layout
from bridge.core.errors import Held

Change = tuple[bytes | None, bytes | None]

LOST = "Lost"  # a version that lost a merge: blob and path
RESTORED = "Restored"  # a lost version that was brought back, by its id
DISMISSED = "Dismissed"  # a lost version that nobody needs to hear of again, by its id
UNDONE = "Undone"  # a commit whose reverse this is

SUBJECT = 72  # characters that a description takes at most
NAME = 120  # characters of a name that are shown before it is cut

_TRAILER = re.compile(r"([A-Za-z][A-Za-z0-9-]*): (.*)", re.DOTALL)
_OID = re.compile(r"[0-9a-f]{40}")
_UNSAID = {"Cc", "Cs", "Zl", "Zp"}  # control characters, undecodable bytes, line and paragraph separators
_TURNING = set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")  # would turn the text that follows around
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"}
_UNESCAPES = {"\\": b"\\", '"': b'"', "n": b"\n", "t": b"\t", "r": b"\r"}
_ESCAPED = re.compile('\\\\([\\\\"ntr]|[0-3][0-7]{2})|([^\\\\"\ud800-\udc7f\udd00-\udfff])')
_UNWRITABLE = re.compile("[\x00-\x1f\x7f\ud800-\udfff]+")


def author(display_name: str, body: str) -> str:
    """`<displayName> (<body>)` without angle brackets, line ends and control characters; never empty."""
    name = _plain(display_name, "<>")
    return f"{_cut(name, NAME) or 'soul'} ({_cut(_plain(body, '<>()（）'), NAME) or 'unknown'})"


def mail(agent: str, body: str) -> str:
    """`<name>@<body>.local`, each part of ASCII letters, digits, `.`, `_` and `-` only; never empty."""
    return f"{_address(agent) or 'soul'}@{_address(body) or 'unknown'}.local"


def message(description: str, body: str, trailers: Iterable[tuple[str, str]] = ()) -> str:
    """The whole message: `<description> (<body>)` on one line, then the trailers, each (key, value) on one line.

    Values are taken as they are but for what would end the line: quote a path with `quote` first, or take `lost`.
    """
    subject = f"{_plain(description) or 'nothing changed'} ({_plain(body, '()') or 'unknown'})\n"
    lines = [f"{key}: {_UNWRITABLE.sub(' ', value)}\n" for key, value in trailers]
    return subject + ("\n" + "".join(lines) if lines else "")


def lost(blob: str, path: str) -> tuple[str, str]:
    """The trailer that keeps a lost version findable: which blob stood at which path."""
    return LOST, f"{blob} {quote(path)}"


def trailers(text: str, most: int | None = None) -> list[tuple[str, str]]:
    """Facts at the end of a message, in order, values as written; [] when the last block is not made of facts only.

    The subject is never a fact, whatever it looks like. most: so many are read, and what follows is not looked at.
    """
    lines = text.rstrip().split("\n")
    blank = next((number for number in reversed(range(len(lines))) if not lines[number].strip()), 0)
    if not any(line.rstrip("\r") for line in lines[:blank]):
        return []
    end = None if most is None else blank + 1 + most
    found = [_TRAILER.fullmatch(line.rstrip("\r")) for line in lines[blank + 1 : end]]
    return [(match[1], match[2].strip()) for match in found if match] if None not in found else []


def lost_trailers(text: str) -> list[tuple[str, str]]:
    """(blob, path) of every well-formed `Lost:` fact of a message, each once, in order."""
    return lost_among(trailers(text))


def lost_among(facts: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """(blob, path) of the well-formed `Lost:` facts among facts, each once, in order."""
    found: dict[tuple[str, str], None] = {}
    for key, value in facts:
        blob, _, quoted = value.partition(" ")
        path = unquote(quoted)
        if key == LOST and _OID.fullmatch(blob) and path is not None and _in_a_tree(path):
            found[blob, path] = None
    return list(found)


def quote(path: str) -> str:
    """A path for one line of text: as it is where that is unmistakable, else in double quotes with C escapes."""
    if path and path == path.strip() and path[0] != '"' and not any(_must_escape(char) for char in path):
        return path
    return '"' + "".join(_escape(char) for char in path) + '"'


def unquote(text: str) -> str | None:
    """The path that `quote` wrote; None when the text is malformed."""
    if not text.startswith('"'):
        return text if text and quote(text) == text else None
    if len(text) < 2 or not text.endswith('"'):
        return None
    inner, out, at = text[1:-1], bytearray(), 0
    while at < len(inner):
        match = _ESCAPED.match(inner, at)
        if match is None:
            return None
        out += _unescape(match)
        at = match.end()
    return out.decode("utf-8", "surrogateescape")


def describe(changes: Mapping[str, Change]) -> str:
    """What changed, in words of at most SUBJECT characters: "memories +2 −1; notes travel/kyoto; −todo.txt".

    changes: by path, the bytes before and after, None for absent. Only of memories are the bytes looked at: any
    bytes will do for the others.
    """
    told: list[tuple[tuple[int, str], str]] = []
    memories = {path: change for path, change in changes.items() if layout.is_memory(path)}
    if memories:
        told.append(((0, "memories"), _counts(memories.values())))
    others = sorted(changes.keys() - memories.keys(), key=lambda path: (_rank(path), path))
    for path in others[:SUBJECT]:  # no more of them could fit
        group, word = _word(path)
        gone = "−" if changes[path][1] is None else ""
        told.append(((_rank(path), group), gone + (_cut(_plain(word), SUBJECT // 2) or "?")))
    return _fit(told, len(others[SUBJECT:])) or "nothing changed"


def _fit(told: Sequence[tuple[tuple[int, str], str]], more: int) -> str:
    """Words, each after its group's name where that is new, as far as SUBJECT allows, and how many are left out.

    more: how many there are beyond those told.
    """
    text, previous = "", None
    for number, (group, word) in enumerate(told):
        said = ", " + word if group == previous else ("; " if text else "") + f"{group[1]} {word}".strip()
        left = len(told) + more - number - 1
        room = SUBJECT - (len(f" and {left} more") if left else 0)
        if text and len(text + said) > room:
            return f"{text} and {left + 1} more"
        text, previous = text + said, group
    return text


def _word(path: str) -> tuple[str, str]:
    """The group that a changed path is told in, and its word there."""
    parts = path.split("/")
    if parts[0] == "notes" and len(parts) > 1:
        return "notes", "/".join(parts[1:]).removesuffix(".md")
    if parts[0] == "journal" and len(parts) > 2:
        return "journal", parts[-1].removesuffix(".md")
    if parts[0] == "bodies" and len(parts) == 2:
        return "body", parts[1].removesuffix(".json")
    return ("", "lease") if layout.is_lock(path) else ("", path)


def _rank(path: str) -> int:
    """Where a path stands in a description: what the agent cares about first."""
    order = ("memories", "SOUL.md", "agent.json", "notes", "journal")
    first = path.split("/", 1)[0]
    if first in order:
        return order.index(first)
    return len(order) + (first in ("bodies", "locks"))


def _counts(changes: Iterable[Change]) -> str:
    """How many entries came and went in all memory files together; "" when only their form or order changed."""
    came = gone = 0
    for before, after in changes:
        old, new = Counter(_entries(before)), Counter(_entries(after))
        came += (new - old).total()
        gone += (old - new).total()
    return " ".join(([f"+{came}"] if came else []) + ([f"−{gone}"] if gone else []))


def _entries(content: bytes | None) -> tuple[str, ...]:
    try:
        return entries.read(content or b"")
    except Held:
        return ()


def _plain(text: str, without: str = "") -> str:
    """Text that fits on one line: what is not said is dropped, runs of white space become one blank."""
    said = (" " if char.isspace() else char for char in text if char not in without and _sayable(char))
    return " ".join("".join(said).split())


def _sayable(char: str) -> bool:
    return char.isspace() or not (char in _TURNING or unicodedata.category(char) in _UNSAID)


def _address(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "", text)[:NAME].strip(".")


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1].rstrip() + "…"


def _in_a_tree(path: str) -> bool:
    """Whether git could hold this path at all: a fact about any other was not written by a merge."""
    return not {"", ".", ".."}.intersection(path.split("/")) and "\0" not in path


def _must_escape(char: str) -> bool:
    return char == "\\" or unicodedata.category(char) in _UNSAID or char in _TURNING


def _escape(char: str) -> str:
    if char in _ESCAPES:
        return _ESCAPES[char]
    if not _must_escape(char):
        return char
    return "".join(f"\\{byte:03o}" for byte in char.encode("utf-8", "surrogateescape"))


def _unescape(match: re.Match[str]) -> bytes:
    code, plain = match.groups()
    if plain is not None:
        return str(plain).encode("utf-8", "surrogateescape")
    return _UNESCAPES[code] if code in _UNESCAPES else bytes([int(code, 8)])
