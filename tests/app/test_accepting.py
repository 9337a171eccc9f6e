"""A rewritten remote: nothing happens until a person decides, and both sides stay reachable."""

from __future__ import annotations

import pytest

from bridge.app import accepting
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


def test_another_agent_on_the_remote_is_no_rewritten_history() -> None:
    """MERGE-5: two agents are never mixed, whatever a person accepts."""
    world, one = rewritten()
    server = world.server
    file = _file(server, b'{"id": "8c1f9a52-0c5e-4b7e-9d7b-2f3a4b5c6d7e", "name": "aiko"}\n')
    tree = server.edit("", {"agent.json": file})  # type: ignore[dict-item]
    other = server.commit(tree, [], "Aiko (phone)", "aiko@phone.local", "aiko (phone)", 1_800_000_200)
    server.flush()
    one.remote.rewrite(other)
    outcome = one.run()
    assert outcome.problem is not None and outcome.problem.kind == "identity"
    head = one.soul.head()
    for choice in (None, "merge", "theirs"):
        with pytest.raises(Refused, match="two different agents"):
            accepting.accept(one.soul, {"choice": choice})
    assert one.soul.head() == head
