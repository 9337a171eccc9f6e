"""A server that refuses a push for what is in it (REPO-8)."""

from __future__ import annotations

from bridge.fakes.repo import FakeRepo
from tests.app.bodies import Body, Fleet, fleet

MAIN = "refs/heads/main"
HOUR = 3600.0


def scanned(*names: str, words: str = "a secret was found") -> tuple[Fleet, list[Body]]:
    """Bodies whose server refuses every commit that holds a secret."""
    world = fleet()
    bodies = [world.body(name) for name in names]
    world.settle()
    for body in bodies:
        body.remote.hook = lambda server, expected, new: _scan(server, expected, new, words)
    return world, bodies


def _scan(server: FakeRepo, expected: str | None, new: str, words: str) -> str:
    for commit in server.log(new, expected):
        for path, file in server.files(commit.tree):
            if b"SECRET" in server.read(file.oid):
                return words.format(path=path)
    return ""


def test_one_refused_path_is_held_and_everything_else_is_published() -> None:
    """REPO-8: halves find it; the commit that had it is kept; the file stays as the agent wrote it."""
    world, (one, two) = scanned("laptop", "phone")
    for number in range(9):
        one.write(f"notes/{number}.md", f"{number}\n")
    one.write("notes/5.md", "SECRET\n")
    one.write("memories/MEMORY.md", "likes tea\n")
    outcome = one.settle()
    assert outcome.outcome == "ok", outcome
    assert outcome.held.keys() == {"notes/5.md"}
    assert outcome.held["notes/5.md"][0] == "REPO-8"
    assert one.text("notes/5.md") == "SECRET\n" and "notes/5.md" not in world.published()
    assert {f"notes/{number}.md" for number in range(9) if number != 5} <= set(world.published())
    kept = one.repo.refs("refs/soul-bridge/keep/").values()
    assert any(one.repo.entry(one.repo.info(commit).tree, "notes/5.md") for commit in kept)
    assert one.remote.pushes <= 20
    world.settle()
    assert one.soul.head() == two.soul.head() == world.server.tip(MAIN)
    assert two.files() == world.published()


def test_a_path_that_the_server_names_is_found_at_once() -> None:
    """REPO-8: first those the server's words name."""
    world, (one,) = scanned("laptop", words="secret in {path}, line 1")
    for number in range(9):
        one.write(f"notes/{number}.md", f"{number}\n")
    one.write("notes/5.md", "SECRET\n")
    one.run()
    world.clock.advance(1)
    pushes = one.remote.pushes
    one.run()
    assert one.remote.pushes == pushes + 2
    assert "notes/4.md" in world.published() and "notes/5.md" not in world.published()


def test_a_refusal_that_is_not_about_a_path_rebuilds_nothing() -> None:
    """REPO-8: a person is told; one push more is all it costs."""
    world, (one,) = scanned("laptop")
    one.remote.hook = lambda server, expected, new: "main is protected"
    one.write("notes/a.md", "a\n")
    one.run()
    world.clock.advance(1)
    pushes, head = one.remote.pushes, one.soul.head()
    outcome = one.run()
    assert outcome.outcome == "refused" and outcome.problem is not None and "protected" in outcome.problem.message
    assert one.remote.pushes == pushes + 2 and outcome.held == {}
    assert one.repo.is_ancestor(head or "", one.soul.head() or "")
    one.remote.hook = lambda server, expected, new: ""
    one.settle()
    assert "notes/a.md" in world.published()


def test_a_refused_path_is_tried_again_when_it_changed_and_an_hour_went_by() -> None:
    """REPO-8: neither alone is enough; each refusal doubles the hour."""
    world, (one,) = scanned("laptop")
    one.write("notes/a.md", "SECRET\n")
    one.settle()
    world.clock.advance(HOUR)
    pushes = one.remote.pushes
    one.settle()
    assert one.remote.pushes == pushes
    one.write("notes/a.md", "still SECRET\n")
    outcome = one.settle()
    assert one.remote.pushes > pushes and outcome.held["notes/a.md"][0] == "REPO-8"
    one.write("notes/a.md", "clean\n")
    world.clock.advance(HOUR)
    one.settle()
    assert "notes/a.md" not in world.published()
    world.clock.advance(HOUR)
    outcome = one.settle()
    assert world.published()["notes/a.md"] == b"clean\n" and outcome.held == {}
    one.write("notes/a.md", "SECRET again\n")
    one.settle()
    one.write("notes/a.md", "clean again\n")
    world.clock.advance(HOUR + 1)
    one.settle()
    assert world.published()["notes/a.md"] == b"clean again\n", "a success forgets the doubling"


def test_sync_now_tries_at_once() -> None:
    """REPO-8: a person said so."""
    world, (one,) = scanned("laptop")
    one.write("notes/a.md", "SECRET\n")
    one.settle()
    one.restart()
    one.remote.hook = lambda server, expected, new: ""
    assert one.settle().held["notes/a.md"][0] == "REPO-8"
    one.run(waive=True, now=True)
    assert world.published()["notes/a.md"] == b"SECRET\n" and one.run().held == {}


def test_a_refused_path_that_is_taken_back_is_held_no_longer() -> None:
    """REPO-8: as published again, or gone when it never was."""
    world, (one,) = scanned("laptop")
    one.write("notes/old.md", "old\n")
    one.settle()
    one.write("notes/old.md", "SECRET\n")
    one.write("notes/new.md", "SECRET\n")
    outcome = one.settle()
    assert set(outcome.held) == {"notes/old.md", "notes/new.md"}
    one.write("notes/old.md", "old\n")
    one.delete("notes/new.md")
    assert one.settle().held == {} and one.seen.recall("withheld") is None
    assert one.files() == world.published()


def test_what_others_write_meanwhile_is_merged_and_their_version_of_the_held_path_waits() -> None:
    """GUARD-5: neither recorded nor materialised; when it is let go, both are merged."""
    world, (one, two) = scanned("laptop", "phone")
    one.write("memories/MEMORY.md", "base\n")
    world.settle()
    one.write("memories/MEMORY.md", "base\n§\nSECRET\n")
    one.settle()
    two.write("memories/MEMORY.md", "base\n§\nfrom the phone\n")
    two.write("notes/b.md", "b\n")
    world.settle()
    assert one.text("notes/b.md") == "b\n" and one.text("memories/MEMORY.md") == "base\n§\nSECRET\n"
    one.write("memories/MEMORY.md", "base\n§\nclean\n")
    world.clock.advance(HOUR)
    world.settle()
    assert set((two.text("memories/MEMORY.md") or "").strip().split("\n§\n")) == {"base", "clean", "from the phone"}
    assert one.files() == two.files() == world.published()


def test_a_deletion_that_the_server_refuses_is_held_too() -> None:
    """REPO-8: whatever it minds."""
    world, (one,) = scanned("laptop")
    one.write("notes/a.md", "a\n")
    one.settle()

    def no_deletion(server: FakeRepo, expected: str | None, new: str) -> str:
        return "" if server.entry(server.info(new).tree, "notes/a.md") else "do not delete"

    one.remote.hook = no_deletion
    one.delete("notes/a.md")
    one.write("notes/b.md", "b\n")
    outcome = one.settle()
    assert outcome.held["notes/a.md"][0] == "REPO-8" and one.text("notes/a.md") is None
    assert world.published()["notes/b.md"] == b"b\n" and world.published()["notes/a.md"] == b"a\n"
