"""The merge of trees against spec/vectors/merge*.json: MERGE-1, 2, 4 to 11 and REPO-6, one case each.

input: three trees, path → text, or {"base64"}, {"text", "executable"}, {"link"}, {"gitlink"}; `times` of the last
commit of each side, or `touched` by side and path (default: ours 100 by laptop, theirs 200 by phone); `now` (default
1000), `clock_wrong`, `identity` (the published id), `joining`, `published`: texts that a path ever held, and
`recorded`: those that our history holds there.
expected: the whole tree, and which versions lost, as {"path", "side"}, sorted.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bridge.core.merge import trees
from bridge.core.model import Touch, Triple, blob_id
from tests.core.merge_world import World, is_tree, triples

VECTORS = Path(__file__).parents[2] / "spec" / "vectors"
CASES = [
    pytest.param(vector, id=f"{file.stem}: {vector['name']}")
    for file in sorted(VECTORS.glob("merge*.json"))
    for vector in json.loads(file.read_text(encoding="utf-8"))
]


def world_of(given: dict[str, Any]) -> World:
    """The stage of a vector."""
    times = given.get("times", {"ours": 100, "theirs": 200})
    return World(
        ours_at=times["ours"],
        theirs_at=times["theirs"],
        now=given.get("now", 1000),
        clock_wrong=given.get("clock_wrong", False),
        identity=given.get("identity"),
        joining=given.get("joining", False),
        published={
            path: {blob_id(text.encode()) for text in texts} for path, texts in given.get("published", {}).items()
        },
        recorded={path: {blob_id(text.encode()) for text in texts} for path, texts in given["recorded"].items()}
        if "recorded" in given
        else None,
        touches={
            (side, path): Touch(touch["time"], touch["body"])
            for side, touches in given.get("touched", {}).items()
            for path, touch in touches.items()
        },
    )


@pytest.mark.parametrize("vector", CASES)
def test_a_merge_gives_the_tree_and_the_losers_that_the_vector_expects(vector: dict[str, Any]) -> None:
    given, expected = vector["input"], vector["expected"]
    world = world_of(given)
    base, ours, theirs = (world.tree(given[side]) for side in ("base", "ours", "theirs"))
    merged = world.merge(base, ours, theirs)
    tree = world.applied(ours, merged)
    written = {path: (world.blobs.get(file.oid, file.oid), file.mode) for path, file in tree.items()}
    wanted = world.tree(expected["tree"])
    assert written == {path: (world.blobs.get(file.oid, file.oid), file.mode) for path, file in wanted.items()}
    assert [{"path": lost.path, "side": lost.side} for lost in merged.lost] == expected["lost"]
    assert is_tree(tree)


@pytest.mark.parametrize("vector", CASES)
def test_a_replay_in_any_order_gives_the_same_bytes(vector: dict[str, Any]) -> None:
    """MERGE-11."""
    given = vector["input"]
    world = world_of(given)
    base, ours, theirs = (world.tree(given[side]) for side in ("base", "ours", "theirs"))
    facts = world.facts(base, ours, theirs)
    asked = triples(base, ours, theirs)
    backwards: dict[str, Triple] = dict(reversed(asked.items()))
    first, second = trees(asked, facts), trees(backwards, facts)
    assert first == second
    assert list(first.files) == list(second.files)


def test_there_are_vectors_for_every_rule_of_a_merge_and_no_name_twice() -> None:
    names = [param.id for param in CASES]
    assert len(names) == len(set(names)) >= 60
    rules = {param.values[0]["rule"] for param in CASES}
    assert rules >= {f"MERGE-{number}" for number in (1, 2, 4, 5, 6, 7, 8, 9, 10)} | {"REPO-6"}
