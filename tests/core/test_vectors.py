"""The language-neutral vectors, run against this program: whoever writes another one runs the same files.

A case names the rule, the function, the input and the one right result. Bytes are texts in UTF-8 or {"base64": …}.
The files named merge*.json are about whole trees and run elsewhere.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bridge.core import address, bodies, entries, identity, journal, layout, lease, notes, projection
from bridge.core.errors import SoulError

VECTORS = Path(__file__).parents[2] / "spec" / "vectors"
CASES = [
    (path.stem, case)
    for path in sorted(VECTORS.glob("*.json"))
    if not path.stem.startswith("merge")
    for case in json.loads(path.read_text(encoding="utf-8"))
]


def octets(value: Any) -> Any:
    """Bytes of a text or of {"base64": …}; None stays None."""
    if value is None:
        return None
    return base64.b64decode(value["base64"]) if isinstance(value, dict) else value.encode("utf-8")


def plain(content: bytes | None) -> str | None:
    """Bytes as the vectors write a result."""
    return None if content is None else content.decode("utf-8")


def base_of_write(given: dict[str, Any]) -> list[str]:
    """Entries that a write is merged against."""
    arrivals = [entries.Arrival(tuple(one["before"]), tuple(one["after"])) for one in given["arrivals"]]
    return list(
        entries.base_of_write(
            given["written"], given["seen"], arrivals, given["read_since"], given.get("remembered", ())
        )
    )


def mended(given: dict[str, Any]) -> dict[str, Any]:
    """One side of an identity with what may not be undone."""
    content, undone = identity.mend(given["published_id"], octets(given["base"]), octets(given["side"]))
    return {"content": plain(content), "undone": undone}


def joined(given: dict[str, Any]) -> dict[str, Any]:
    """The identity that results when a body joins."""
    join = identity.join(octets(given["local"]), octets(given["remote"]), given["local_published"])
    return {"outcome": join.outcome.value, "content": plain(join.content)}


def decided(given: dict[str, Any]) -> dict[str, Any]:
    """Whose a lease is after some looks."""
    sighting = None
    for look in given["looks"]:
        sighting = lease.sight(sighting, octets(look["published"]), look["boottime"])
    assert sighting is not None
    answer = lease.decide(sighting, octets(given["ours"]), given["now_ms"], given["boottime"])
    match answer:
        case lease.Mine(until):
            return {"state": "mine", "until": until}
        case lease.HeldBy(body, until, wait):
            return {"state": "held", "body": body, "until": until, "wait": wait}
    return {"state": "free"}


def stated(given: dict[str, Any]) -> dict[str, Any] | None:
    """What a lease file says."""
    found = lease.read(octets(given["content"]))
    return None if found is None else {"body": found.body, "until": found.until}


def parsed(given: dict[str, Any]) -> dict[str, Any]:
    """The parts of an address."""
    found = address.parse(given["text"])
    return {"host": found.host, "port": found.port, "path": found.path}


def projected(given: dict[str, Any]) -> dict[str, Any]:
    """What a framework gets."""
    found = projection.project(given["entries"], given["limit"])
    return {"kept": list(found.kept), "left_out": list(found.left_out)}


FUNCTIONS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "entries.read": lambda given: list(entries.read(octets(given["content"]))),
    "entries.write": lambda given: plain(entries.write(given["entries"])),
    "entries.rewrite": lambda given: plain(entries.write(entries.read(octets(given["content"])))),
    "entries.merge": lambda given: list(entries.merge(given["base"], given["ours"], given["theirs"])),
    "entries.base_of_write": base_of_write,
    "entries.suspicious": lambda given: entries.suspicious(octets(given["seen"]), octets(given["now"])),
    "identity.read": lambda given: identity.read(octets(given["content"])),
    "identity.write": lambda given: plain(identity.write(given["fields"])),
    "identity.rewrite": lambda given: plain(identity.write(identity.read(octets(given["content"])) or {})),
    "identity.birth": lambda given: plain(identity.write(identity.birth(**given))),
    "identity.merge": lambda given: plain(identity.merge(*(octets(given[key]) for key in ("base", "ours", "theirs")))),
    "identity.mend": mended,
    "identity.join": joined,
    "identity.is_seed_text": lambda given: identity.is_seed_text(octets(given["content"])),
    "journal.merge": lambda given: plain(journal.merge(octets(given["ours"]), octets(given["theirs"]))),
    "bodies.merge": lambda given: plain(bodies.merge(octets(given["ours"]), octets(given["theirs"]))),
    "bodies.owner": lambda given: bodies.owner(given["path"]),
    "layout.unsafe": lambda given: layout.unsafe(given["path"]) is not None,
    "layout.twins": lambda given: layout.fold(given["one"]) == layout.fold(given["other"]),
    "layout.is_soul": lambda given: layout.is_soul(given["top_level"], given["has_identity"]),
    "layout.stored": lambda given: plain(layout.stored(octets(given["content"]), given["path"])),
    "notes.segment": lambda given: notes.segment(given["text"]),
    "notes.path": lambda given: notes.path(given["topic"], given["categories"], given["taken"]),
    "address.parse": parsed,
    "lease.decide": decided,
    "lease.write": lambda given: plain(lease.write(given["body"], given["until_ms"])),
    "lease.read": stated,
    "lease.duty": lambda given: lease.duty(given["started"], given["boottime"]).value,
    "projection.project": projected,
    "projection.take_back": lambda given: list(
        projection.take_back(projection.project(given["entries"], given["limit"]), given["returned"])
    ),
}


@pytest.mark.parametrize(
    "case", [case for _, case in CASES], ids=[f"{stem}: {case['function']}: {case['name']}" for stem, case in CASES]
)
def test_every_vector_comes_out_as_it_says(case: dict[str, Any]) -> None:
    try:
        found = FUNCTIONS[case["function"]](case["input"])
    except SoulError as error:
        found = {"error": error.rule}
    assert found == case["expected"]


def test_no_function_has_the_same_answer_in_all_its_vectors() -> None:
    """A vector file in which one function always has the same result would prove nothing."""
    results: dict[str, set[str]] = {}
    for _, case in CASES:
        results.setdefault(case["function"], set()).add(json.dumps(case["expected"]))
    single = {"entries.rewrite", "identity.birth", "identity.rewrite", "lease.write"}
    assert {function for function, found in results.items() if len(found) < 2} <= single
    assert len(CASES) > 300
