"""A server that refuses a push for what is in it (REPO-8)."""

from __future__ import annotations

import pytest

from bridge.core import commits
from bridge.core.model import Commit, File, blob_id
from bridge.fakes.remote import Hook, accept
from bridge.fakes.repo import FakeRepo
from tests.app.bodies import Body, Fleet, fleet

MAIN = "refs/heads/main"
MEMORY = "memories/MEMORY.md"
HOUR = 3600.0


def scanned(*names: str, words: str = "a secret was found") -> tuple[Fleet, list[Body]]:
    """Bodies whose server refuses every commit that holds a secret."""
    world = fleet()
    bodies = [world.body(name) for name in names]
    world.settle()
    for body in bodies:
        body.remote.hook = lambda server, expected, new: scan(server, expected, new, words)
    return world, bodies


def scan(server: FakeRepo, expected: str | None, new: str, words: str) -> str:
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


@pytest.mark.parametrize(
    ("held", "came"), [("notes/travel", "notes/travel/kyoto.md"), ("notes/travel/kyoto.md", "notes/travel")]
)
def test_what_was_published_in_the_place_of_a_held_path_stays(held: str, came: str) -> None:
    """REPO-8, MERGE-8: a folder for the file or a file for its folder; once the held version is clean, both stand."""
    world, (one, two) = scanned("laptop", "phone")
    one.write(held, "SECRET\n")
    one.settle()
    two.write(came, "from the phone\n")
    two.settle()
    one.settle()
    one.write(held, "clean\n")
    world.clock.advance(2 * HOUR)
    world.settle()
    assert {b"from the phone\n", b"clean\n"} <= set(world.published().values())
    assert one.soul.head() == two.soul.head() == world.server.tip(MAIN)
    world.clock.advance(HOUR)
    world.settle()
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


def judged(world: Fleet, judge: Hook) -> None:
    """The server judges every push, whoever sends it."""
    for body in world.bodies.values():
        body.remote.hook = judge


def took(world: Fleet) -> list[Commit]:
    """What the server has, newest first."""
    return list(world.server.log(world.server.tip(MAIN) or ""))


def by_path(server: FakeRepo, expected: str | None, new: str) -> str:
    """A hook that minds a name."""
    paths = {path for path, _ in server.files(server.info(new).tree)}
    return "no file of that name" if "notes/forbidden.md" in paths else ""


def by_size(server: FakeRepo, expected: str | None, new: str) -> str:
    """A hook that minds large files, and says which."""
    for path, file in server.files(server.info(new).tree):
        if server.size(file.oid) > 1000:
            return f"File {path} is {server.size(file.oid)} bytes; this exceeds the limit of 1000"
    return ""


def by_author(server: FakeRepo, expected: str | None, new: str) -> str:
    """A hook that knows nobody."""
    return "" if server.info(new).author == "Somebody" else "the author is not a member"


def by_form(server: FakeRepo, expected: str | None, new: str) -> str:
    """A hook that wants a straight line."""
    return "no merge commits" if any(len(one.parents) > 1 for one in server.log(new, expected)) else ""


@pytest.mark.parametrize(
    ("judge", "path", "text"), [(by_path, "notes/forbidden.md", "x\n"), (by_size, "notes/large.md", "x" * 2000)]
)
def test_names_and_sizes_are_found_like_contents(judge: Hook, path: str, text: str) -> None:
    """REPO-8: whatever the server minds in a path."""
    world, (one, two) = scanned("laptop", "phone")
    judged(world, judge)
    for number in range(5):
        one.write(f"notes/{number}.md", f"{number}\n")
    one.write(path, text)
    outcome = one.settle()
    assert outcome.held.keys() == {path} and outcome.outcome == "ok"
    world.settle()
    assert two.text("notes/4.md") == "4\n" and two.text(path) is None and one.text(path) == text


def test_what_the_server_says_is_the_reason() -> None:
    """REPO-8: in status, shortened, on one line; and a fact is told."""
    world, (one,) = scanned("laptop", words="GH013:\n  a secret in {path}" + " and more" * 60)
    one.write("notes/a.md", "SECRET\n")
    reason = one.settle().held["notes/a.md"][1]
    assert reason.startswith("GH013: a secret in notes/a.md and more") and len(reason) <= 200 and reason.endswith("…")
    assert {"path": "notes/a.md", "rule": "REPO-8", "reason": reason} in one.facts.named("file.held")


def test_an_author_whom_the_server_refuses_is_told_and_nothing_is_rebuilt() -> None:
    """REPO-8: all trials are refused, and there are two of them at most."""
    world, (one,) = scanned("laptop")
    judged(world, by_author)
    for number in range(9):
        one.write(f"notes/{number}.md", f"{number}\n")
    outcome = one.run()
    world.clock.advance(1)
    pushes, published = one.remote.pushes, world.server.tip(MAIN)
    outcome = one.run()
    assert outcome.problem is not None and outcome.problem.kind == "rejected" and outcome.held == {}
    assert one.remote.pushes - pushes <= 3 and world.server.tip(MAIN) == published
    assert one.soul.head() == one.run().tip and "notes/8.md" in one.tracked()
    assert one.repo.refs("refs/soul-bridge/") == {} and one.seen.recall("rebuilding") is None


def test_merge_commits_that_the_server_refuses_are_told_and_nothing_is_rebuilt() -> None:
    """REPO-8: laid flat it would have been accepted, and again at every merge."""
    world, (one, two) = scanned("laptop", "phone")
    judged(world, by_form)
    two.write("notes/two.md", "two\n")
    one.remote.unreachable = True
    one.write("notes/one.md", "one\n")
    one.settle()
    two.settle()
    one.remote.heal()
    outcome = one.settle()
    assert outcome.problem is not None and "no merge commits" in outcome.problem.message and outcome.held == {}
    assert one.text("notes/two.md") == "two\n" and "notes/one.md" not in world.published()
    judged(world, accept)
    world.settle()
    assert two.text("notes/one.md") == "one\n"


def test_a_secret_in_a_merge_is_found_although_merges_may_be_what_is_minded() -> None:
    """REPO-8: a merge of nothing but the registry entry is accepted, so it is about paths."""
    world, (one, two) = scanned("laptop", "phone")
    two.write("notes/two.md", "two\n")
    one.remote.unreachable = True
    one.write("notes/one.md", "one\n")
    one.write("notes/a.md", "SECRET\n")
    one.settle()
    two.settle()
    one.remote.heal()
    assert one.settle().held.keys() == {"notes/a.md"}
    world.settle()
    assert two.text("notes/one.md") == "one\n" and two.files() == world.published()


def test_the_first_push_of_a_soul_may_hold_something_back() -> None:
    """REPO-8, MERGE-5: what is published has an identity all the same, and one root."""
    world = fleet()
    one, two = world.body("laptop"), world.body("phone")
    judged(world, lambda server, expected, new: scan(server, expected, new, "a secret was found"))
    one.write("notes/a.md", "SECRET\n")
    one.write("notes/b.md", "b\n")
    outcome = one.settle()
    assert outcome.held.keys() == {"notes/a.md"} and outcome.outcome == "ok"
    world.settle()
    assert two.text("notes/b.md") == "b\n" and two.files() == world.published()
    assert sum(not commit.parents for commit in took(world)) == 1
    judged(world, accept)
    one.run(now=True)
    world.settle()
    assert two.text("notes/a.md") == "SECRET\n"


def test_a_commit_made_again_keeps_its_time_and_the_facts_that_others_can_look_up() -> None:
    """REPO-8, MERGE-6: of lost versions those that are published; what was recorded on Monday is no edit of today."""
    world, (one, two) = scanned("laptop", "phone")
    one.write("SOUL.md", "# Kaoru\n\nfirst\n")
    world.settle()
    one.remote.unreachable = True
    one.write("SOUL.md", "# Kaoru\n\nfrom the laptop\n")
    one.write("notes/a.md", "SECRET\n")
    one.settle()
    recorded = int(world.clock.now())
    world.clock.advance(100)
    two.write("SOUL.md", "# Kaoru\n\nfrom the phone\n")
    two.settle()
    world.clock.advance(100_000)
    one.remote.heal()
    lost = blob_id(b"# Kaoru\n\nfrom the laptop\n")
    one.write("notes/b.md", "b\n")
    one.remote.unreachable = True
    one.settle()
    one.remote.heal()
    one.settle()
    assert one.text("SOUL.md") == "# Kaoru\n\nfrom the phone\n"
    assert lost not in "".join(commit.message for commit in took(world)), "nobody else could look it up"
    assert lost in {version.oid for commit in kept(one) for version in [entry(one, commit, "SOUL.md")] if version}
    newest = took(world)[0].time
    assert recorded < newest <= world.clock.now()


def test_facts_of_published_versions_go_along() -> None:
    """REPO-8: a version of theirs that lost to ours is in what is published, so the trailer stays."""
    world, (one, two) = scanned("laptop", "phone")
    two.write("SOUL.md", "# Kaoru\n\nfrom the phone\n")
    two.settle()
    world.clock.advance(100)
    one.remote.unreachable = True
    one.write("SOUL.md", "# Kaoru\n\nfrom the laptop\n")
    one.write("notes/a.md", "SECRET\n")
    one.settle()
    one.remote.heal()
    assert one.settle().held.keys() == {"notes/a.md"}
    assert ("SOUL.md", blob_id(b"# Kaoru\n\nfrom the phone\n")) in {
        (path, blob) for commit in took(world) for blob, path in commits.lost_trailers(commit.message)
    }


def kept(body: Body) -> list[str]:
    """All commits that are kept under a ref of our own."""
    tips = body.repo.refs("refs/soul-bridge/keep/").values()
    return sorted({oid for tip in tips for oid in body.repo.ancestors(tip)})


def entry(body: Body, commit: str, path: str) -> File | None:
    """What a commit has at a path."""
    return body.repo.entry(body.repo.info(commit).tree, path)


def test_a_held_path_is_tried_again_by_itself() -> None:
    """REPO-8: everything else is published before, and a refusal leaves main as it is."""
    world, (one,) = scanned("laptop")
    one.write("notes/a.md", "SECRET\n")
    one.settle()
    world.clock.advance(HOUR)
    one.write("notes/a.md", "SECRET still\n")
    one.write("notes/b.md", "b\n")
    offered: list[set[str]] = []
    push = one.remote.push

    def watched(expected: str | None, new: str) -> None:
        offered.append(set(one.repo.diff(one.repo.info(expected or "").tree, one.repo.info(new).tree)))
        push(expected, new)

    one.remote.push = watched  # type: ignore[method-assign]
    one.settle()
    own = {"bodies/laptop.json"}
    assert [paths - own for paths in offered] == [{"notes/b.md"}, {"notes/a.md"}]
    assert one.soul.head() == world.server.tip(MAIN) and "notes/a.md" not in one.tracked()
    assert b"SECRET still\n" in {
        one.repo.read(file.oid) for commit in kept(one) if (file := entry(one, commit, "notes/a.md"))
    }


def test_a_stale_write_that_is_refused_deletes_nothing_of_others() -> None:
    """REPO-8, MERGE-12: what the refused write had not read comes through when it is tried again."""
    world, (one, two) = scanned("laptop", "phone")
    one.write(MEMORY, "base\n")
    world.settle()
    two.write(MEMORY, "base\n§\nfrom the phone\n")
    two.settle()
    one.soul.was_read = lambda path, since: False
    one.write(MEMORY, "base\n§\nSECRET\n")
    one.settle()
    assert one.run().held.keys() == {MEMORY}
    judged(world, accept)
    one.run(now=True, waive=True)
    world.settle()
    assert entries(two) == {"base", "from the phone", "SECRET"}


def entries(body: Body) -> set[str]:
    """What a body's memory holds."""
    return set((body.text(MEMORY) or "").strip().split("\n§\n"))


def test_an_identity_is_withheld_like_any_file() -> None:
    """REPO-8, MERGE-5: main keeps the published one."""
    world, (one, two) = scanned("laptop", "phone")
    before = world.published()["agent.json"]
    text = (one.text("agent.json") or "").replace('"description": ""', '"description": "SECRET"')
    one.write("agent.json", text)
    assert one.settle().held.keys() == {"agent.json"} and world.published()["agent.json"] == before
    judged(world, accept)
    one.run(now=True)
    world.settle()
    assert "SECRET" in (two.text("agent.json") or "")


def test_a_required_file_that_goes_while_it_is_held_comes_back_as_it_was() -> None:
    """REPO-8, GUARD-2: not as main has it, which is without what the agent wrote."""
    world, (one, two) = scanned("laptop", "phone")
    one.write(MEMORY, "base\n§\nSECRET\n")
    one.settle()
    one.delete(MEMORY)
    one.settle()
    assert one.text(MEMORY) == "base\n§\nSECRET\n" and one.run().held.keys() == {MEMORY}
    one.write(MEMORY, "base\n")
    world.clock.advance(HOUR)
    world.settle()
    assert two.text(MEMORY) == "base\n"


def test_a_held_file_that_is_moved_is_held_under_its_new_name() -> None:
    """REPO-8: and under the old one it is held no longer."""
    world, (one,) = scanned("laptop")
    one.write("notes/a.md", "SECRET\n")
    one.settle()
    one.tree.agent_rename("notes/a.md", "notes/b.md")
    assert one.settle().held.keys() == {"notes/b.md"} and one.text("notes/b.md") == "SECRET\n"


def test_what_a_person_commits_of_a_held_path_is_held_again_with_what_was() -> None:
    """REPO-8, REPO-7: both versions are merged when it is let go."""
    world, (one, two) = scanned("laptop", "phone")
    one.write(MEMORY, "base\n§\nSECRET one\n")
    one.settle()
    head = one.soul.head() or ""
    file = File(one.repo.write("base\n§\nSECRET two\n".encode()))
    tree = one.repo.edit(one.repo.info(head).tree, {MEMORY: file})
    one.repo.move(MAIN, head, one.repo.commit(tree, [head], "A Person", "p@x", "by hand", int(world.clock.now())))
    assert one.settle().held.keys() == {MEMORY}
    judged(world, accept)
    one.run(now=True, waive=True)
    world.settle()
    assert entries(two) == entries(one) == {"base", "SECRET one", "SECRET two"}


def test_a_search_that_takes_too_many_pushes_goes_on_in_later_passes() -> None:
    """REPO-8: at most 12 pushes a pass; what was not tried apart is tried again though it did not change."""
    world, (one,) = scanned("laptop")
    for number in range(120):
        one.write(f"notes/{number:03}.md", "SECRET\n" if number % 20 == 7 else f"{number}\n")
    for _ in range(40):
        before = one.remote.pushes
        one.run()
        assert one.remote.pushes - before <= 12
        world.clock.advance(130)
    guilty = {f"notes/{number:03}.md" for number in range(120) if number % 20 == 7}
    assert one.run().held.keys() == guilty
    assert {path for path in world.published() if path.startswith("notes/0")} >= {"notes/000.md", "notes/099.md"}
    pushes = one.remote.pushes
    world.clock.advance(10 * HOUR)
    one.run()
    assert one.remote.pushes == pushes, "they did not change"


def test_a_quota_on_one_push_is_met_by_smaller_ones() -> None:
    """REPO-8: nobody is held for that."""
    world, (one,) = scanned("laptop")

    def quota(server: FakeRepo, expected: str | None, new: str) -> str:
        before = server.info(expected).tree if expected else ""
        return "too much at once" if len(server.diff(before, server.info(new).tree)) > 6 else ""

    judged(world, quota)
    for number in range(9):
        one.write(f"notes/{number}.md", f"{number}\n")
    assert one.settle().held == {} and {f"notes/{number}.md" for number in range(9)} <= set(world.published())


def test_somebody_quicker_in_the_middle_of_a_search_is_merged() -> None:
    """REPO-8, COMMIT-2: the search begins again on what they pushed."""
    world, (one, two) = scanned("laptop", "phone")
    for number in range(6):
        one.write(f"notes/{number}.md", "SECRET\n" if number == 5 else f"{number}\n")
    push, times = one.remote.push, []

    def interrupted(expected: str | None, new: str) -> None:
        times.append(new)
        if len(times) == 3:
            two.write("notes/two.md", "two\n")
            two.settle(remote=True)
        push(expected, new)

    one.remote.push = interrupted  # type: ignore[method-assign]
    one.run()
    world.clock.advance(1)
    assert one.run().outcome == "moved"
    one.settle(12)
    world.clock.advance(HOUR)
    one.settle()
    world.settle()
    assert one.run().held.keys() == {"notes/5.md"} and two.files() == world.published()
    assert two.text("notes/4.md") == "4\n" and one.text("notes/two.md") == "two\n"


@pytest.mark.parametrize("fault", ["drops", "swallows"])
@pytest.mark.parametrize("at", range(1, 8))
def test_an_answer_that_is_lost_in_the_middle_of_a_search_loses_nothing(fault: str, at: int) -> None:
    """REPO-8, COMMIT-2: whether the push arrived or not."""
    world, (one, two) = scanned("laptop", "phone")
    for number in range(6):
        one.write(f"notes/{number}.md", "SECRET\n" if number == 3 else f"{number}\n")
    push, times = one.remote.push, []

    def faulty(expected: str | None, new: str) -> None:
        times.append(new)
        setattr(one.remote, fault, int(len(times) == at))
        push(expected, new)

    one.remote.push = faulty  # type: ignore[method-assign]
    one.settle(12)
    one.remote.push = push  # type: ignore[method-assign]
    one.remote.heal()
    world.clock.advance(HOUR)
    world.settle()
    assert one.run().held.keys() == {"notes/3.md"} and one.text("notes/3.md") == "SECRET\n"
    assert two.files() == world.published() and two.text("notes/5.md") == "5\n"


def test_what_is_laid_together_anew_was_written_when_it_was_recorded() -> None:
    """REPO-8, MERGE-6: hours offline do not make it newer than what others wrote meanwhile."""
    world, (one,) = scanned("laptop", words="no secrets: {path}")
    one.remote.unreachable = True
    one.write("notes/a.md", "SECRET\n")
    one.write("notes/b.md", "b\n")
    one.settle()
    recorded = one.repo.info(one.soul.head() or "").time
    world.clock.advance(10_000)
    one.remote.heal()
    one.settle()
    touch = world.server.touched(world.server.tip("refs/heads/main") or "", "notes/b.md", None)
    assert touch is not None and touch.time == recorded
