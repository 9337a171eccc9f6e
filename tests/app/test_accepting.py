"""A rewritten remote: nothing happens until a person decides, and both sides stay reachable."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from bridge.app import accepting, leasing
from bridge.app.joining import IDENTITY
from bridge.app.soul import Soul
from bridge.core import identity
from bridge.core.errors import Refused
from tests.app.bodies import Body, Fleet, fleet

MAIN = "refs/heads/main"


def rewritten() -> tuple[Fleet, Body]:
    """A body with one published and one unpublished note, and a remote whose last commit was replaced."""
    world = fleet()
    one = world.body("laptop")
    one.settle()
    base = world.server.tip(MAIN) or ""
    one.write("notes/published.md", "published\n")
    one.settle()
    server = world.server
    tree = server.edit(server.info(base).tree, {"notes/theirs.md": _file(server, b"theirs\n")})
    other = server.commit(tree, [base], "Kaoru (phone)", "kaoru@phone.local", "rewritten (phone)", 1_800_000_100)
    server.flush()
    one.remote.rewrite(other)
    one.write("notes/mine.md", "never published\n")
    one.settle()
    return world, one


def _file(server: object, content: bytes) -> object:
    from bridge.core.model import File

    return File(server.write(content))  # type: ignore[attr-defined]


def test_a_rewritten_remote_is_neither_merged_nor_pushed_to() -> None:
    """REPO-4: local commits go on."""
    world, one = rewritten()
    outcome = one.run()
    assert outcome.problem is not None and outcome.problem.kind == "rewritten"
    assert outcome.problem.exit_code == 3
    assert "notes/mine.md" not in world.published()
    assert "notes/mine.md" in one.tracked()
    assert "notes/theirs.md" not in one.files()


def test_both_sides_are_shown_before_anything_is_decided() -> None:
    """REPO-4: without a choice nothing moves."""
    _, one = rewritten()
    head = one.soul.head()
    answer = accepting.accept(one.soul, {})
    assert any("mine" in line for line in answer["only_here"])
    assert any("rewritten" in line for line in answer["only_there"])
    assert one.soul.head() == head


def test_theirs_takes_theirs_and_applies_again_what_was_never_published() -> None:
    """REPO-4: what main was is kept under a ref."""
    world, one = rewritten()
    head = one.soul.head()
    answer = accepting.accept(one.soul, {"choice": "theirs"})
    one.settle()
    files = set(world.published())
    assert {"notes/mine.md", "notes/theirs.md"} <= files
    assert "notes/published.md" not in files
    assert one.files() == one.tracked() == world.published()
    assert one.repo.tip(answer["kept"]) == head


def test_merge_keeps_both_histories() -> None:
    """REPO-4: everything of both sides is published, and both tips are ancestors."""
    world, one = rewritten()
    theirs, head = world.server.tip(MAIN) or "", one.soul.head() or ""
    accepting.accept(one.soul, {"choice": "merge"})
    one.settle()
    assert {"notes/mine.md", "notes/theirs.md", "notes/published.md"} <= set(world.published())
    tip = world.server.tip(MAIN) or ""
    assert world.server.is_ancestor(theirs, tip)
    assert world.server.is_ancestor(head, tip)


def test_there_is_nothing_to_accept_where_nothing_was_rewritten() -> None:
    """REPO-4: refused with exit code 3."""
    world = fleet()
    one = world.body("laptop")
    one.settle()
    with pytest.raises(Refused) as refused:
        accepting.accept(one.soul, {"choice": "theirs"})
    assert refused.value.exit_code == 3


FOREIGN = "8c1f9a52-0c5e-4b7e-9d7b-2f3a4b5c6d7e"
STRANGERS = {
    "another agent": ({"agent.json": f'{{"id": "{FOREIGN}", "name": "aiko"}}'}, "identity"),
    "a seed of the same name": ({"agent.json": f'{{"id": "{FOREIGN}", "name": "kaoru", "seed": true}}'}, "identity"),
    "a program": ({"setup.py": "", "src/main.c": "", "README.md": ""}, "not-a-soul"),
    "a program with an agent.json of its own": ({"agent.json": '{"model": "x"}', "src/main.c": ""}, "not-a-soul"),
    "a new repository with a page": ({"README.md": "# kaoru"}, "not-a-soul"),
    "nothing but a commit": ({}, "not-a-soul"),
}


@pytest.mark.parametrize("who", STRANGERS)
def test_what_took_the_place_of_the_remote_is_no_rewritten_history(who: str) -> None:
    """MERGE-5, REPO-5: two agents are never mixed, nor a soul and a program, whatever a person accepts."""
    world, one = rewritten()
    files, kind = STRANGERS[who]
    server = world.server
    tree = server.edit("", {path: _file(server, text.encode()) for path, text in files.items()})  # type: ignore[misc]
    other = server.commit(tree, [], "Aiko (phone)", "aiko@phone.local", "aiko (phone)", 1_800_000_200)
    server.flush()
    one.remote.rewrite(other)
    one.write("notes/private.md", "private\n")
    outcome = one.settle()
    assert outcome.problem is not None and (outcome.problem.kind, outcome.problem.exit_code) == (kind, 3)
    assert "notes/private.md" in one.tracked(), "work goes on locally"
    words, head, before = outcome.problem.message, one.soul.head(), one.files()
    if kind == "identity":
        assert "two different agents" in words and FOREIGN in words and str(one.seen.recall(IDENTITY)) in words
    else:
        assert "the remote is not a soul" in words
    for act in (_accept(None), _accept("merge"), _accept("theirs"), leasing.acquire, leasing.show):
        with pytest.raises(Refused) as refused:
            act(one.soul, {})
        assert refused.value.message == words and refused.value.kind == kind
    one.restart()
    assert one.run(now=True).problem is not None
    assert (one.soul.head(), one.files(), server.tip(MAIN)) == (head, before, other)


def test_a_rewritten_history_without_its_identity_is_still_this_soul() -> None:
    """REPO-4, MERGE-5: what it has in common with ours shows whose it is, and it gets its identity back."""
    world, one = rewritten()
    server, tip = world.server, world.server.tip(MAIN) or ""
    tree = server.edit(server.info(tip).tree, {"agent.json": None})
    other = server.commit(tree, [tip], "Kaoru (phone)", "kaoru@phone.local", "rewritten (phone)", 1_800_000_300)
    server.flush()
    one.remote.rewrite(other)
    assert getattr(one.run().problem, "kind", None) == "rewritten"
    accepting.accept(one.soul, {"choice": "merge"})
    one.settle()
    assert identity.id_of(world.published()["agent.json"]) == one.seen.recall(IDENTITY)


def _accept(choice: str | None) -> Callable[[Soul, dict[str, Any]], dict[str, Any]]:
    return lambda soul, words: accepting.accept(soul, {"choice": choice})
