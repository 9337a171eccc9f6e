"""JSON objects as this program reads and writes them in a soul: two spaces, non-ASCII as is, one LF at the end."""

from __future__ import annotations

import collections
import decimal
import json
import math
from collections.abc import Iterable, Mapping
from typing import Any

DEEPEST = 100
LARGEST = 4 * 1024 * 1024  # bytes; a machine cannot hold the objects of everything that a file can


def read(content: bytes | None) -> dict[str, Any] | None:
    """Fields of a JSON object, None when it is none. A byte order mark is passed over; of equal keys the last holds.

    Refuses what only some readers take: NaN, Infinity, numbers beyond a double, nesting deeper than DEEPEST,
    and what is longer than LARGEST.
    """
    if content is None or len(content) > LARGEST:
        return None
    try:
        value = json.loads(content.decode("utf-8-sig"), parse_constant=_refuse, parse_float=_finite)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) and _shallow(value) else None


def write(fields: Mapping[str, Any], first: Iterable[str] = (), last: Iterable[str] = ()) -> bytes:
    """Bytes of an object whose keys come in the order `first`, others as they stand, `last`."""
    ends = dict.fromkeys(key for key in last if key in fields)
    order = [key for key in dict.fromkeys([*first, *fields]) if key in fields and key not in ends]
    return encode(json.dumps({key: fields[key] for key in (*order, *ends)}, indent=2, ensure_ascii=False) + "\n")


def encode(text: str) -> bytes:
    """UTF-8; half a surrogate pair, which JSON can hold and UTF-8 cannot, stays the escape it was."""
    return text.encode("utf-8", "backslashreplace")


def same(one: Any, other: Any) -> bool:
    """Whether two values are the same JSON: the order of keys does not count, true is not 1."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def repeated(content: bytes) -> list[str]:
    """Keys that occur more than once in one object of a JSON text that can be read."""
    found: list[str] = []

    def note(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        times = collections.Counter(key for key, _ in pairs)
        found.extend(key for key, count in times.items() if count > 1)
        return dict(pairs)

    json.loads(content.decode("utf-8-sig"), object_pairs_hook=note)
    return found


def exact(content: bytes) -> bool:
    """Whether what `read` makes of a JSON text that can be read says all that it says: of equal keys only one is read,
    of a number with a fraction as many digits as a double has."""
    rounded: list[str] = []

    def number(text: str) -> float:
        value = float(text)
        try:
            same = decimal.Decimal(repr(value)) == decimal.Decimal(text)
        except decimal.InvalidOperation:  # JSON bounds no exponent, and a decimal does
            same = False
        if not same:
            rounded.append(text)
        return value

    json.loads(content.decode("utf-8-sig"), parse_float=number)
    return not rounded and not repeated(content)


def line_of(content: bytes, key: str) -> int:
    """Line in which a key first occurs, 0 when it is not there as such."""
    quoted = json.dumps(key, ensure_ascii=False)
    for number, line in enumerate(content.decode("utf-8", "replace").split("\n"), 1):
        if quoted in line:
            return number
    return 0


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is too large")
    return number


def _shallow(value: dict[str, Any]) -> bool:
    level: list[Any] = [value]
    for _ in range(DEEPEST):
        inner = [item.values() if isinstance(item, dict) else item for item in level if isinstance(item, dict | list)]
        level = [part for parts in inner for part in parts]
    return not level
