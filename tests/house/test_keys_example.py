"""The examples for keys are true and hold nothing secret."""

from __future__ import annotations

import base64
import hashlib
import re
from pathlib import Path

from bridge.adapters.hosts import SHIPPED, KnownHosts, host_name

EXAMPLE = Path(__file__).parents[2] / "keys.example"


def test_the_example_pins_what_the_program_ships() -> None:
    known = KnownHosts(EXAMPLE / "known_hosts.example")
    assert {name: known.lookup(host_name(name)) for name in SHIPPED} == {name: (key,) for name, key in SHIPPED.items()}


def test_the_page_tells_the_fingerprints_of_the_shipped_keys() -> None:
    told = dict(re.findall(r"\| ([\w.]+) \| `(SHA256:[^`]+)` \|", (EXAMPLE / "README.md").read_text()))
    assert told == {name: key.fingerprint for name, key in SHIPPED.items()}


def test_a_fingerprint_is_the_hash_of_the_key_itself() -> None:
    key = SHIPPED["github.com"]
    digest = base64.b64encode(hashlib.sha256(base64.b64decode(key.blob)).digest()).decode().rstrip("=")
    assert key.fingerprint == f"SHA256:{digest}"


def test_only_public_halves_lie_here() -> None:
    assert [path.name for path in EXAMPLE.iterdir() if b"PRIVATE" in path.read_bytes()] == []
