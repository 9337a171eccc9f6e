"""The pass on fakes, one sentence at a time."""

from __future__ import annotations

from tests.app.bodies import fleet


def test_two_bodies_converge() -> None:
    """MERGE-11: what each writes arrives at the other."""
    world = fleet()
    one, two = world.body("laptop"), world.body("phone")
    one.write("memories/MEMORY.md", "likes tea\n")
    one.settle()
    two.write("notes/plants.md", "# plants\n")
    two.settle()
    world.settle()
    assert one.files() == two.files() == one.tracked() == two.tracked() == world.published()
    assert one.text("memories/MEMORY.md") == "likes tea\n"
    assert one.text("notes/plants.md") == "# plants\n"
