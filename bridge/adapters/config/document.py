"""A YAML text as plain values that are exactly what was written, each with its line and column.

YAML would read `no` as false, `012` as ten and the second of two equal keys silently instead of the first: here every
scalar stays the text it is, and equal keys are a problem.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

Place = tuple[int, int]
_PLAIN_TAGS = frozenset(
    f"tag:yaml.org,2002:{name}"
    for name in ("str", "null", "bool", "int", "float", "timestamp", "map", "seq", "merge", "value")
)
_NULL = "tag:yaml.org,2002:null"
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")


@dataclass
class Document:
    """What a text says.

    value: mappings, lists and texts; a key with nothing behind it is left out. places: line and column (from 1) of
    each value by its path, keys under (…, key, "key"). problems: (line, column, words).
    """

    value: Any = None
    places: dict[tuple[Any, ...], Place] = field(default_factory=dict)
    problems: list[tuple[int, int, str]] = field(default_factory=list)

    def place(self, path: tuple[Any, ...]) -> Place:
        """Where a value stands, or the nearest thing around it."""
        while path and path not in self.places:
            path = path[:-1]
        return self.places.get(path, (1, 1))


def read(content: bytes) -> Document:
    """Read a text; whatever is wrong with it is in the document's problems."""
    import yaml

    document = Document()
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = content[: error.start]
        return _broken(document, before.count(b"\n") + 1, len(before) - before.rfind(b"\n"), "this is not UTF-8 text")
    if found := _CONTROL.search(text):
        before_it = text[: found.start()]
        column = len(before_it) - before_it.rfind("\n")
        return _broken(document, before_it.count("\n") + 1, column, "there is a control character here")
    try:
        node = yaml.compose(text, yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        words = ", ".join(part for part in (error.context, error.problem) if part)
        place = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        return _broken(document, *place, f"this is not YAML: {words}")
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        return _broken(document, 1, 1, f"this is not YAML: {error}")
    if node is not None:
        document.value = _plain(node, (), document, set())
    return document


def _broken(document: Document, line: int, column: int, words: str) -> Document:
    document.problems.append((line, column, words))
    return document


def _plain(node: Any, path: tuple[Any, ...], document: Document, opened: set[int]) -> Any:
    import yaml

    line, column = node.start_mark.line + 1, node.start_mark.column + 1
    document.places.setdefault(path, (line, column))
    if node.tag not in _PLAIN_TAGS:
        _broken(document, line, column, f"the tag {node.tag} is not understood here: leave it out")
        return None
    if isinstance(node, yaml.ScalarNode):
        return None if node.tag == _NULL and path else node.value
    if id(node) in opened:
        _broken(document, line, column, "aliases (*name) are not understood here: write the value out")
        return None
    opened.add(id(node))
    if isinstance(node, yaml.SequenceNode):
        return [_text(item, (*path, i), document, opened) for i, item in enumerate(node.value)]
    return _mapping(node, path, document, opened)


def _text(node: Any, path: tuple[Any, ...], document: Document, opened: set[int]) -> Any:
    value = _plain(node, path, document, opened)
    # In a list, `~` and `null` are words like any other.
    return node.value if value is None and node.tag == _NULL else value


def _mapping(node: Any, path: tuple[Any, ...], document: Document, opened: set[int]) -> dict[str, Any]:
    import yaml

    result: dict[str, Any] = {}
    first: dict[str, int] = {}
    for key_node, value_node in node.value:
        line, column = key_node.start_mark.line + 1, key_node.start_mark.column + 1
        if not isinstance(key_node, yaml.ScalarNode):
            _broken(document, line, column, "a key must be a word")
            continue
        key = key_node.value
        if key in first:
            _broken(document, line, column, f"{key} is there twice: it was first given in line {first[key]}")
            continue
        first[key] = line
        document.places[(*path, key, "key")] = (line, column)
        value = _plain(value_node, (*path, key), document, opened)
        if value is not None:
            result[key] = value
    return result
