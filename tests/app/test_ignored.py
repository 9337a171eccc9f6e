"""How many paths a `.gitignore` leaves out, for `status` (TREE-4)."""

from __future__ import annotations

from tests.app.bodies import Body, fleet


def count(body: Body) -> int:
    return len(body.soul.ignored)


def test_what_is_left_out_is_known_also_where_only_hints_are_looked_at() -> None:
    """TREE-4: a daemon looks at everything at its start, and then for an hour at what changed."""
    world = fleet()
    one = world.body("laptop")
    one.write(".gitignore", "*.tmp\nbuild\n")
    one.write("a.tmp", "a")
    one.settle()
    assert count(one) == 1
    one.write("b.tmp", "b")
    one.run(hints={"b.tmp"})
    assert count(one) == 2
    for path in ("b.tmp", "notes/a.md", "bodies"):
        one.run(hints={path})
        assert count(one) == 2, path
    one.delete("a.tmp")
    one.run(hints={"a.tmp"})
    assert count(one) == 1
    one.write("x/c.tmp", "c")
    one.run(hints={"x"})
    assert count(one) == 2
    one.delete("x/c.tmp")
    one.run(hints={"x"})
    assert count(one) == 1
    one.run(hints=None)
    assert count(one) == 1
