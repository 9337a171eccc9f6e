"""The register of bodies: which machines carry the soul, what belongs to which, and when one last showed itself.

Rules: FORM-6, MERGE-9.
"""

from __future__ import annotations

import heapq
import ipaddress
import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from bridge.core import instants, jsontext
from bridge.core.identity import NAME
from bridge.core.model import Problem

LARGEST = 64 * 1024  # bytes of a body's file; a longer one is nobody's
LONGEST = 100  # characters of what a body says of itself that anybody is shown
MOST = 1_000  # bodies that are listed
KINDS = ("runtime", "bridge")
_FIRST = ("body", "kind", "framework", "bridge", "host")
_LAST = ("lastSeen",)
_OWNED = re.compile(r"(?s)journal/([^/]+)/.+|bodies/([^/]+)\.json")
_REGISTERED = re.compile(r"bodies/([^/]+)\.json")
_HARDWARE = re.compile(r"(?i)(ip|mac)(v?[46])?_?(addr(ess)?)?|serial(_?(number|no))?")
_FINGERPRINT = re.compile(r"SHA256:[A-Za-z0-9+/]{43}")
_MAC = re.compile(r"(?i)[0-9a-f]{2}([:-][0-9a-f]{2}){5}")


def path(body: str) -> str:
    """Where the register keeps a body."""
    return f"bodies/{body}.json"


def read(content: bytes | None) -> dict[str, Any] | None:
    """Fields of a body, None when the file is absent, longer than LARGEST or not a JSON object."""
    return None if content is None or len(content) > LARGEST else jsontext.read(content)


def said(fields: Mapping[str, Any], key: str) -> str | None:
    """What a body says of itself, as long as anybody is shown: None when that is no text."""
    found = fields.get(key)
    return found[:LONGEST] if isinstance(found, str) else None


def latest(rows: Iterable[tuple[str, dict[str, Any]]], own: str | None) -> list[tuple[str, dict[str, Any]]]:
    """Of rows (name, {last_seen, ...}) this body's own and those seen most recently, MOST in all, by name."""

    def order(row: tuple[str, dict[str, Any]]) -> tuple[bool, float]:
        seen = instants.seconds(row[1]["last_seen"])
        return row[0] == own, -math.inf if seen is None else seen

    return sorted(heapq.nlargest(MOST, rows, key=order), key=lambda row: row[0])


def write(fields: Mapping[str, Any]) -> bytes:
    """Bytes of a body's file: FORM-6's keys, others as they stand, `lastSeen` last."""
    return jsontext.write(fields, first=_FIRST, last=_LAST)


def merge(ours: bytes, theirs: bytes) -> bytes:
    """The side that was seen later; theirs where that is equal or cannot be told (MERGE-9)."""
    here, there = _last_seen(ours), _last_seen(theirs)
    if read(theirs) is None and read(ours) is not None:
        return ours
    return ours if here is not None and (there is None or here > there) else theirs


def key_of(fields: Mapping[str, Any]) -> str | None:
    """The fingerprint of a body's deploy key, where its file says one."""
    found = fields.get("key")
    return found if isinstance(found, str) and _FINGERPRINT.fullmatch(found) else None


def owner(path: str) -> str | None:
    """The body that alone writes this path, None when it belongs to none."""
    found = _OWNED.fullmatch(path)
    name = found and (found[1] or found[2])
    return name if name and NAME.fullmatch(name) else None


def registered(paths: Collection[str]) -> frozenset[str]:
    """The bodies that have a file among these paths."""
    found = (_REGISTERED.fullmatch(path) for path in paths)
    return frozenset(match[1] for match in found if match and NAME.fullmatch(match[1]))


def foreign(path: str, body: str, registered: Collection[str]) -> bool:
    """Whether only another registered body may write this path: a change here is held, a loss is put back."""
    name = owner(path)
    return name is not None and name != body and name in registered


def beat(
    current: bytes | None,
    body: str,
    framework: str,
    version: str,
    host: str | None,
    now: float,
    key: str | None = None,
) -> bytes:
    """A body's file with what is true of it now; fields that are not ours to say stay. now: seconds since the epoch.

    key: the fingerprint of its deploy key, so that every body can say which one to delete. An empty framework, no host
    or no key leaves what the file says.
    """
    fields = read(current) or {}
    fields |= {"body": body, "kind": fields.get("kind") if fields.get("kind") in KINDS else "bridge"}
    fields["framework"] = framework or fields.get("framework", "")
    fields["bridge"] = version
    if host is not None:
        fields["host"] = host
    if key is not None:
        fields["key"] = key
    fields["lastSeen"] = instants.exact(int(now * 1000))
    return write(fields)


def heartbeat_due(current: bytes | None, now: float, period: float) -> bool:
    """Whether an idle body has to show itself again: a period (seconds) has passed, or nobody can tell."""
    seen = _last_seen(current)
    return seen is None or not -period < now - seen < period


def problems(path: str, content: bytes) -> list[Problem]:
    """Where a file below `bodies/` is not a body of FORM-6."""
    if path == "bodies/.gitkeep":
        return []
    named = _REGISTERED.fullmatch(path)
    if not named:
        return [Problem("FORM-6", path, 0, "a body's file is bodies/<body>.json")]
    fields = read(content)
    if fields is None:
        return [Problem("FORM-6", path, 0, "not a JSON object")]

    found = [
        Problem("FORM-6", path, jsontext.line_of(content, key), words)
        for key, words in [*_wrong(fields, named[1]), *_repeated(content), *_private(fields)]
    ]
    if not found and write(fields) != content:
        found.append(Problem("FORM-6", path, 0, "not written as two-space JSON in the order of FORM-6"))
    return found


def _wrong(fields: Mapping[str, Any], name: str) -> Iterator[tuple[str, str]]:
    if fields.get("body") != name or not NAME.fullmatch(name):
        yield "body", "body must equal the file's name: 1 to 40 of a-z, 0-9 and -"
    if fields.get("kind") not in KINDS:
        yield "kind", "kind must be runtime or bridge"
    for key in ("framework", "bridge"):
        if not isinstance(fields.get(key), str):
            yield key, f"{key} must be a text"
    if not isinstance(fields.get("host", ""), str):
        yield "host", "host must be a text or left out"
    if instants.seconds(fields.get("lastSeen")) is None or list(fields)[-1] != "lastSeen":
        yield "lastSeen", "lastSeen must be an instant and come last"


def _repeated(content: bytes) -> Iterator[tuple[str, str]]:
    for key in jsontext.repeated(content):
        yield key, f"the key {key!r} occurs more than once"


def _private(fields: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for key, value in fields.items():
        if _HARDWARE.fullmatch(key) or (key == "host" and _address(value)):
            yield key, f"{key} holds a network address or serial number"


def _last_seen(content: bytes | None) -> float | None:
    return instants.seconds((read(content) or {}).get("lastSeen"))


def _address(value: object) -> bool:
    try:
        return bool(_MAC.fullmatch(str(value))) or bool(ipaddress.ip_address(str(value)))
    except ValueError:
        return False
