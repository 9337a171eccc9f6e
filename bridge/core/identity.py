"""The identity file `agent.json`, its merge by field, and what keeps an agent the same agent; seed text of SOUL.md.

Rules: FORM-1, FORM-2, MERGE-4, MERGE-5.
"""

from __future__ import annotations

import enum
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bridge.core import instants, jsontext
from bridge.core.entries import WHITE
from bridge.core.model import Problem

PATH = "agent.json"
KEYS = ("id", "name", "displayName", "pronouns", "description", "color", "language", "createdAt", "seed")
NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,39}")
_LONGEST_NAME = 40
_FORMS: dict[str, tuple[re.Pattern[str], str]] = {
    "id": (
        re.compile(r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-4[0-9a-fA-F]{3}-[89abAB][0-9a-fA-F]{3}-[0-9a-fA-F]{12}"),
        "a UUID version 4",
    ),
    "name": (NAME, "1 to 40 of a-z, 0-9 and -, not starting with -"),
    "displayName": (re.compile(r"(?s).*\S.*"), "a text that is not empty"),
    "pronouns": (re.compile(r"(?s).*"), "a text"),
    "description": (re.compile(r"(?s).*"), "a text"),
    "color": (re.compile(r"#[0-9a-fA-F]{6}"), "a colour #RRGGBB"),
    "language": (re.compile(r"[A-Za-z]{1,8}(-[A-Za-z0-9]{1,8})*"), "a language tag (BCP 47)"),
    "createdAt": (
        re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"),
        "an instant in UTC with milliseconds, such as 2026-01-31T08:00:00.000Z",
    ),
}


def suggestion(text: str) -> str | None:
    """The name that somebody who wrote this may use: `my-laptop` for "My laptop"; None when nothing is left of it."""
    plain = unicodedata.normalize("NFKD", text.strip().removesuffix(".git").removesuffix(".soul"))
    letters = "".join(letter for letter in plain.lower() if not unicodedata.combining(letter))
    return re.sub(r"[^a-z0-9]+", "-", letters).strip("-")[:_LONGEST_NAME].strip("-") or None


class Outcome(enum.Enum):
    """Which file results when a local identity meets the one of the remote."""

    OURS = "ours"  # the remote has none
    THEIRS = "theirs"
    BOTH = "both"  # their id, fields of both
    REFUSED = "refused"  # two agents: a person has to decide


@dataclass(frozen=True, slots=True)
class Join:
    """The result of `join`. content: the file that results, None when refused or when there is none at all."""

    outcome: Outcome
    content: bytes | None
    local_id: str | None = None
    remote_id: str | None = None


def read(content: bytes | None) -> dict[str, Any] | None:
    """Fields of an identity, None when it is absent or not a JSON object. Of equal keys the last holds."""
    return jsontext.read(content)


def write(fields: Mapping[str, Any]) -> bytes:
    """Bytes of an identity: keys in the order of FORM-1, then others as they stand."""
    return jsontext.write(fields, first=KEYS)


def birth(agent: str, display_name: str, id: str, created_at_ms: int, seed: bool) -> dict[str, Any]:
    """Fields of a new identity. created_at_ms: milliseconds since the epoch. seed: generated and not yet touched."""
    fields: dict[str, Any] = {
        "id": id,
        "name": agent,
        "displayName": display_name,
        "pronouns": "",
        "description": "",
        "color": "#808080",
        "language": "en",
        "createdAt": instants.exact(created_at_ms),
    }
    return {**fields, "seed": True} if seed else fields


def id_of(content: bytes | None) -> str | None:
    """The id an identity states, None when it cannot be read or states none."""
    stated = (read(content) or {}).get("id")
    return stated if isinstance(stated, str) and stated else None


def merge(base: bytes | None, ours: bytes | None, theirs: bytes | None) -> bytes:
    """MERGE-4 by top-level field; of a file that cannot be read the other side stands, of two such theirs.

    The id is that of base, else theirs, else ours.
    """
    here, there, old = read(ours), read(theirs), read(base) or {}
    if here is None or there is None:
        readable = ours if here is not None else theirs
        return next((content for content in (readable, theirs, ours, base) if content is not None), b"{}\n")
    result: dict[str, Any] = {}
    for key in dict.fromkeys([*there, *here]):
        side = here if _changed(here, old, key) else there
        if key in side:
            result[key] = side[key]
    kept = id_of(base) or id_of(theirs) or id_of(ours)
    return write({**result, "id": kept} if kept else result)


def mend(published_id: str | None, base: bytes | None, side: bytes | None) -> tuple[bytes | None, bool]:
    """One side's identity with what MERGE-5 forbids undone, and whether something had to be undone.

    published_id: the id that was ever published, None before. A side that lost the file or broke it goes back to
    base; one that only altered the id keeps its other fields. Where base cannot be read either, nothing is undone.
    """
    if published_id is None or id_of(side) == published_id:
        return side, False
    fields = read(side)
    if fields is None:
        if id_of(base) == published_id:
            return base, True
        fields = read(base)
    if fields is None:
        return side, False
    return write({**fields, "id": published_id}), True


def join(local: bytes | None, remote: bytes | None, local_published: bool) -> Join:
    """Which identity results when a body with one joins a remote with one (MERGE-5).

    local_published: the local id was published somewhere, or was not generated by this program. A seed yields before
    anything else is asked, so a touched identity never loses to an untouched one.
    """
    here, there = read(local), read(remote)
    ids = (id_of(local), id_of(remote))
    if there is None or ids[1] is None:
        if here is None and remote is not None:
            return Join(Outcome.THEIRS, remote, *ids)
        return Join(Outcome.OURS, local, *ids)
    if here is None or ids[0] is None or here.get("seed") is True:
        return Join(Outcome.THEIRS, remote, *ids)
    if there.get("seed") is True:
        return Join(Outcome.BOTH, write({**here, "id": ids[1]}), *ids)
    if ids[0] == ids[1]:
        # Without a common base what is published wins; fields only we have are additions.
        both = {**here, **there}
        if jsontext.same(both, there):
            return Join(Outcome.THEIRS, remote, *ids)
        return Join(Outcome.BOTH, write(both), *ids)
    if not local_published:
        return Join(Outcome.THEIRS, remote, *ids)
    return Join(Outcome.REFUSED, None, *ids)


def is_seed_text(content: bytes) -> bool:
    """Whether a SOUL.md is blank, or one `# ` heading and nothing else (FORM-2)."""
    try:
        text = content.decode("utf-8").strip(WHITE)
    except UnicodeDecodeError:
        return False
    return not text or text == "#" or (text.startswith("# ") and "\n" not in text and "\r" not in text)


def seed_text(display_name: str) -> bytes:
    """The SOUL.md that an agent is born with (TREE-1)."""
    return jsontext.encode(f"# {' '.join(display_name.split())}\n")


def problems(path: str, content: bytes) -> list[Problem]:
    """Broken form of `agent.json` (FORM-1) or `SOUL.md` (FORM-2)."""
    if path != PATH:
        first = content.decode("utf-8", "replace").lstrip("\ufeff").split("\n", 1)[0]
        fine = not content.strip() or first.startswith("# ")
        return [] if fine else [Problem("FORM-2", path, 1, "the first line should be `# <displayName>`")]
    fields = read(content)
    if fields is None:
        return [Problem("FORM-1", path, 0, "not a JSON object")]
    found = [
        Problem("FORM-1", path, jsontext.line_of(content, key), f"the key {key!r} occurs more than once")
        for key in jsontext.repeated(content)
    ]
    for key, (form, words) in _FORMS.items():
        value = fields.get(key)
        if not (isinstance(value, str) and form.fullmatch(value)):
            found.append(Problem("FORM-1", path, jsontext.line_of(content, key), f"{key} must be {words}"))
    if fields.get("seed", True) is not True:
        found.append(Problem("FORM-1", path, jsontext.line_of(content, "seed"), "seed must be true or left out"))
    if not found and jsontext.write(fields) != content:
        found.append(Problem("FORM-1", path, 0, "not written as two-space JSON with one line feed at the end"))
    return found


def _changed(side: Mapping[str, Any], old: Mapping[str, Any], key: str) -> bool:
    if key in side and key in old:
        return not jsontext.same(side[key], old[key])
    return key in side or key in old
