"""Expressions for ignore patterns that take a time in proportion to the path, whatever the pattern.

A pattern comes from whoever can push. The library's expressions for `*a*a*a*a` try every way to share a name out among
the stars, and a name of a hundred letters takes longer than anybody lives. Here each star but the last of a name takes
the first place where what follows it fits, for good (an atomic group): later places could fit nothing that this one
does not. So does each `**` but the last.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

# What the library writes for a `**/` at the start, a `/**/` in the middle, and at the end.
_LEAD, _MIDDLE = "(?:.+/)?", "(?:/.+)?/"
_PATH, _DIRECTORY = "(?:(?P<ps_d>/)|$)", "(?P<ps_d>/)"
_STAR = "[^/]*"
_FIXED = (_LEAD, _MIDDLE, _STAR, "[^/]+")

MOST_WILD = 32  # stars, question marks and classes of a pattern that a person would write


def wild(pattern: str) -> int:
    """How many stars, question marks and classes a pattern has at most."""
    return pattern.count("*") + pattern.count("?") + pattern.count("[")


def expression(library: str) -> re.Pattern[str]:
    """The pattern as an expression that matches the whole of each path it means, and no more: a directory's path ends
    in "/". Raises ValueError for what the library is not known to write."""
    try:
        return re.compile(_whole(library), re.DOTALL)
    except re.error as error:
        raise ValueError(library) from error


def _whole(library: str) -> str:
    if library == ".":
        return ".+"
    if library == _DIRECTORY:
        return ".*/"
    body = library.removeprefix("^")
    for end, ours in ((_PATH, "(?<!/)/?"), (_DIRECTORY, "(?<!/)/"), ("/", "/.+")):
        if body.endswith(end):
            return _blocks(list(_tokens(body.removesuffix(end)))) + ours
    raise ValueError(library)


def _blocks(tokens: list[str]) -> str:
    """The parts between one `**` and the next."""
    blocks: list[tuple[str, list[str]]] = [("", [])]
    for token in tokens:
        if token in (_LEAD, _MIDDLE):
            blocks.append((token, []))
        else:
            blocks[-1][1].append(token)
    texts = []
    for number, (gap, block) in enumerate(blocks):
        text = _names(block)
        if gap and number < len(blocks) - 1:
            nearest = gap.replace(".+", ".+?").replace(")?", ")??")
            texts.append(f"(?>{nearest}{text}(?=/))")
        else:
            texts.append(gap + text)
    return "".join(texts)


def _names(tokens: list[str]) -> str:
    """Names with slashes between them: of the stars of one name, only the last may try more than one place."""
    texts: list[str] = []
    stars: list[int] = []
    for token in [*tokens, "/"]:
        if token == "/":  # noqa: S105 - no password
            for number, at in enumerate(stars):
                last = number == len(stars) - 1
                texts[at] = (")" if number else "") + (_STAR if last else f"(?>{_STAR}?")
            stars = []
        elif token == _STAR:
            stars.append(len(texts))
        texts.append(token)
    return "".join(texts[:-1])


def _tokens(text: str) -> Iterator[str]:
    """The expression in pieces: a gap, a class that no slash is in, an escaped or plain letter."""
    at = 0
    while at < len(text):
        fixed = next((each for each in _FIXED if text.startswith(each, at)), None)
        if fixed is not None:
            end = at + len(fixed)
        elif text[at] == "[":
            end = _end_of_class(text, at)
        else:
            end = at + (2 if text[at] == "\\" else 1)
        token = text[at:end]
        if fixed is None and token in ("(", ")", "|", "^", "$", "*", "+", "?", "."):
            raise ValueError(f"not known to be written: {text}")
        yield f"(?!/){token}" if fixed is None and token[0] == "[" else token
        at = end


def _end_of_class(text: str, at: int) -> int:
    at += 2 if text.startswith("[^", at) else 1
    at += text.startswith("]", at)
    while text[at : at + 1] != "]":
        if at >= len(text):
            raise ValueError(f"a class without an end: {text}")
        at += 2 if text[at] == "\\" else 1
    return at + 1
