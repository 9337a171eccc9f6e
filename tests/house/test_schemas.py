"""The published schemas say what the rooms write and what they report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from bridge.core import bodies, identity, layout, lease

SCHEMAS = Path(__file__).parents[2] / "spec" / "schemas"
ID = "7c9e6679-7425-40de-944b-e07fc1f90ae7"
BORN = identity.birth("kaoru", "Kaoru", ID, 1_769_846_400_007, seed=True)
BEATEN = json.loads(bodies.beat(None, "laptop", "hermes", "0.1.0", "thinkpad", 1_769_846_400.5))


def validator(name: str) -> Draft202012Validator:
    return Draft202012Validator(json.loads((SCHEMAS / f"{name}.json").read_text(encoding="utf-8")))


@pytest.mark.parametrize("path", sorted(SCHEMAS.glob("*.json")), ids=lambda path: path.stem)
def test_every_schema_is_one(path: Path) -> None:
    schema = json.loads(path.read_text(encoding="utf-8"))
    Draft202012Validator.check_schema(schema)
    assert schema["$id"] == f"urn:soul-bridge:schema:{path.stem}"


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("agent", identity.write(BORN)),
        ("agent", identity.write(identity.birth("a", "海", ID, 0, seed=False) | {"favourite": 7})),
        ("body", bodies.beat(None, "laptop", "hermes", "0.1.0", "thinkpad", 1_769_846_400.5)),
        ("body", bodies.beat(b'{"kind": "runtime", "model": "x"}', "pi", "", "0.1.0", None, 0)),
        ("lease", lease.write("laptop", lease.until(1_769_846_400_000))),
        ("soul-spec", layout.SOUL_SPEC),
        ("soul-spec", b'{"spec": "soul-repo", "version": 14, "more": true}'),
    ],
)
def test_what_the_rooms_write_is_valid(name: str, written: bytes) -> None:
    """FORM-1, FORM-6, FORM-7, TREE-2"""
    assert [error.message for error in validator(name).iter_errors(json.loads(written))] == []


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("id", "7c9e6679-7425-10de-944b-e07fc1f90ae7"),
        ("id", None),
        ("name", "Kaoru"),
        ("name", "-kaoru"),
        ("name", "k" * 41),
        ("displayName", " \t"),
        ("pronouns", None),
        ("description", ["x"]),
        ("color", "#12345"),
        ("color", "red"),
        ("language", "en_GB"),
        ("createdAt", "2026-01-31T08:00:00Z"),
        ("createdAt", 1_769_846_400_007),
        ("seed", False),
        ("seed", "yes"),
    ],
)
def test_schema_and_room_report_the_same_identities(key: str, value: Any) -> None:
    """FORM-1"""
    broken = {**BORN, key: value}
    assert not validator("agent").is_valid(broken)
    assert key in identity.problems("agent.json", identity.write(broken))[0].message


@pytest.mark.parametrize(
    ("key", "value"),
    [("body", "Laptop"), ("kind", "toaster"), ("framework", 1), ("bridge", None), ("host", 7), ("lastSeen", "now")],
)
def test_schema_and_room_report_the_same_bodies(key: str, value: Any) -> None:
    """FORM-6"""
    broken = {**BEATEN, key: value}
    assert not validator("body").is_valid(broken)
    assert key in bodies.problems("bodies/laptop.json", bodies.write(broken))[0].message


@pytest.mark.parametrize("broken", [{"body": "a"}, {"until": 1}, {"body": "a", "until": "1"}, {"body": 1, "until": 1}])
def test_schema_and_room_report_the_same_leases(broken: dict[str, Any]) -> None:
    """FORM-7"""
    assert not validator("lease").is_valid(broken)
    assert lease.read(json.dumps(broken).encode()) is None
