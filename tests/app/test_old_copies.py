"""REPO-6 at its edges: copies that lay here before, and that could be looked at only later or stood in between."""

from __future__ import annotations

from bridge.app.repairing import begin_again
from tests.app.bodies import Body, Fleet, fleet, joined

NOTE, MEMORY = "notes/deep/x.md", "memories/MEMORY.md"


def rewritten(world: Fleet, body: Body) -> dict[str, bytes]:
    """Two versions are published; the files as they were with the first one."""
    body.write(NOTE, "first\n")
    body.write(MEMORY, "one\n§\ntwo\n")
    body.settle()
    copies = body.files()
    body.write(NOTE, "second\n")
    body.write(MEMORY, "two\n")
    body.settle()
    return copies


def late(world: Fleet, copies: dict[str, bytes], folder: str) -> Body:
    """A body that joins with these copies, of which it could not read those in a folder."""
    new = world.body("phone")
    for path, content in copies.items():
        if not path.startswith("bodies/"):
            new.tree.agent_write(path, content)
    new.tree.agent_hide(folder)
    world.settle()
    new.restart()
    assert folder in new.run().held
    return new


def test_what_could_not_be_read_on_joining_is_an_old_copy_all_the_same() -> None:
    """It is no change of this body's, and no entry comes back that others took out."""
    for folder in ("notes/deep", "memories"):
        world = fleet()
        old = world.body("laptop")
        new = late(world, rewritten(world, old), folder)
        new.tree.agent_show(folder)
        world.settle()
        assert new.files() == old.files() == world.published()
        assert new.text(NOTE) == "second\n" and new.text(MEMORY) == "two\n"


def test_what_could_not_be_read_on_joining_and_was_never_published_is_kept() -> None:
    """What is published wins on joining, and ours is listed."""
    world = fleet()
    old = world.body("laptop")
    new = late(world, {**rewritten(world, old), NOTE: b"mine\n"}, "notes/deep")
    new.tree.agent_show("notes/deep")
    world.settle()
    assert new.text(NOTE) == old.text(NOTE) == "second\n"
    assert any("Lost: " in commit.message for commit in old.repo.log(old.soul.head() or ""))


def test_once_it_was_read_a_file_is_like_any_other() -> None:
    """A note that is written as it once was is a change."""
    world = fleet()
    old = world.body("laptop")
    new = late(world, rewritten(world, old), "notes/deep")
    new.tree.agent_show("notes/deep")
    world.settle()
    new.delete(NOTE)
    world.settle()
    new.write(NOTE, "first\n")
    world.settle()
    assert old.text(NOTE) == "first\n"


def test_a_copy_of_a_version_in_between_is_no_edit() -> None:
    """REPO-7: the git directory is made anew from a commit that is older than what lies on the disk."""
    world, (one, two) = joined("laptop", "phone")
    one.write(NOTE, "first\n")
    one.write(MEMORY, "one\n")
    world.settle()
    materialised = one.soul.head()
    two.write(NOTE, "second\n")
    two.write(MEMORY, "one\n§\ntwo\n§\nthree\n")
    world.settle()
    two.write(NOTE, "third\n")
    two.write(MEMORY, "one\n§\nthree\n")
    two.settle()
    del one.repo.names["refs/heads/main"]
    one.seen.entries.clear()
    one.seen.memory.clear()
    one.restart()
    begin_again(one.soul, materialised)
    world.settle()
    assert one.files() == two.files() == world.published()
    assert one.text(NOTE) == "third\n" and one.text(MEMORY) == "one\n§\nthree\n"
