"""Bringing back, taking back and closing: each is a new commit, and a refusal changes nothing."""

from __future__ import annotations

import json

import pytest

from bridge.app import conflicts, history, undoing
from bridge.core.errors import Refused
from bridge.core.model import File
from tests.app.bodies import Body, Fleet, fleet

NOTE = "notes/kyoto.md"


def two_versions() -> tuple[Fleet, Body, Body]:
    """Two bodies of which each wrote its own version of a note; the phone's is newer."""
    world = fleet()
    one, two = world.body("laptop"), world.body("phone")
    one.settle()
    two.settle()
    world.settle()
    one.remote.unreachable = two.remote.unreachable = True
    one.write(NOTE, "# kyoto\nolder\n")
    one.settle()
    two.write(NOTE, "# kyoto\nnewer\n")
    two.settle()
    one.remote.heal()
    two.remote.heal()
    world.settle()
    return world, one, two


def listed(body: Body) -> list[conflicts.Conflict]:
    return conflicts.listed(body.repo, body.clock.now())


def test_every_body_lists_the_same_lost_version() -> None:
    """MERGE-6: the loser stays in history and is listed by `conflicts`, on every body alike."""
    _, one, two = two_versions()
    assert one.text(NOTE) == two.text(NOTE) == "# kyoto\nnewer\n"
    assert [found.path for found in listed(one)] == [NOTE]
    assert listed(one) == listed(two)


def test_a_restored_version_stands_everywhere_and_leaves_the_list() -> None:
    """REPO-3: bringing back is a new commit."""
    world, one, two = two_versions()
    answer = undoing.restore(two.soul, {"id": listed(two)[0].id})
    assert answer["paths"] == [NOTE]
    world.settle()
    assert one.text(NOTE) == two.text(NOTE) == "# kyoto\nolder\n"
    assert listed(one) == listed(two) == []


def test_a_restored_memory_gets_the_entries_back_that_were_left_out_and_keeps_what_came_since() -> None:
    """MERGE-2, MERGE-12: entries come back, no old file."""
    world = fleet()
    one, two = world.body("laptop"), world.body("phone")
    world.settle()
    memory = "memories/MEMORY.md"
    two.write(memory, "fresh\n§\nother\n")
    world.settle()
    one.write(memory, "other\n")
    world.settle()
    one.write(memory, "other, said better\n§\nsince\n")
    world.settle()
    # "other" was dropped within a day of its arrival, too, when it was said better.
    of_fresh = next(found for found in listed(two) if b"fresh" in two.repo.read(found.blob))
    undoing.restore(two.soul, {"id": of_fresh.id})
    world.settle()
    assert one.text(memory) == two.text(memory)
    assert sorted((one.text(memory) or "").strip().split("\n§\n")) == ["fresh", "other, said better", "since"]
    assert of_fresh.id not in {found.id for found in listed(one)}


def test_a_dismissed_version_leaves_the_list_and_stays_in_history() -> None:
    """MERGE-6: dismissing forgets the notice, not the bytes."""
    world, one, two = two_versions()
    lost = listed(one)[0]
    undoing.dismiss(one.soul, {"id": lost.id[:6]})
    world.settle()
    assert listed(one) == listed(two) == []
    assert two.repo.read(lost.blob) == b"# kyoto\nolder\n"


def test_a_version_of_an_old_commit_comes_back() -> None:
    """REPO-3: `restore COMMIT PATH` takes any commit of main's history."""
    world = fleet()
    one = world.body("laptop")
    one.write(NOTE, "first\n")
    one.settle()
    first = one.soul.head()
    one.write(NOTE, "second\n")
    one.settle()
    undoing.restore(one.soul, {"commit": (first or "")[:8], "path": NOTE})
    one.settle()
    assert one.text(NOTE) == "first\n"
    assert world.published()[NOTE] == b"first\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"id": "ffffffff"}, "no lost version"),
        ({"id": "f"}, "no lost version"),
        ({"commit": "ffffffff", "path": NOTE}, "no commit"),
        ({"commit": "HEAD", "path": "notes/none.md"}, "no file"),
        ({"commit": "HEAD", "path": NOTE}, "like that already"),
    ],
)
def test_what_cannot_come_back_is_refused_and_changes_nothing(words: dict[str, str], said: str) -> None:
    """REPO-3: a refusal names what was refused and moves nothing."""
    _, one, _ = two_versions()
    head = one.soul.head()
    with pytest.raises(Refused, match=said) as refused:
        undoing.restore(one.soul, words)
    assert refused.value.exit_code == 3
    assert refused.value.advice
    assert one.soul.head() == head


def test_a_file_does_not_come_back_where_a_directory_stands() -> None:
    """MERGE-8: the directory stays."""
    world = fleet()
    one = world.body("laptop")
    one.write("notes/topic", "a file\n")
    one.settle()
    first = one.soul.head() or ""
    one.delete("notes/topic")
    one.settle()
    one.write("notes/topic/part.md", "below\n")
    one.settle()
    with pytest.raises(Refused, match="a directory now"):
        undoing.restore(one.soul, {"commit": first, "path": "notes/topic"})


def test_reverting_a_memory_takes_its_entries_back_and_keeps_later_ones() -> None:
    """MERGE-2: memories are taken back by entry."""
    world = fleet()
    one = world.body("laptop")
    one.write("memories/MEMORY.md", "first\n")
    one.settle()
    one.write("memories/MEMORY.md", "first\n§\nsecond\n")
    one.settle()
    second = next(history.log(one.repo, "memories/MEMORY.md"))["commit"]
    one.write("memories/MEMORY.md", "first\n§\nsecond\n§\nthird\n")
    one.settle()
    undoing.revert(one.soul, {"commit": second})
    one.settle()
    assert one.text("memories/MEMORY.md") == "first\n§\nthird\n"


def test_reverting_a_file_that_changed_since_is_refused_with_nothing_half_done() -> None:
    """REPO-3: a commit is taken back whole or not at all."""
    world = fleet()
    one = world.body("laptop")
    one.settle()
    one.write(NOTE, "one\n")
    one.write("notes/other.md", "other\n")
    one.settle()
    made = one.soul.head() or ""
    one.write(NOTE, "two\n")
    one.settle()
    head = one.soul.head()
    with pytest.raises(Refused, match=f"{NOTE}: it changed since"):
        undoing.revert(one.soul, {"commit": made})
    assert one.soul.head() == head
    assert one.text("notes/other.md") == "other\n"


@pytest.mark.parametrize(
    ("gone", "came", "why"),
    [
        ("notes/travel", "notes/travel/kyoto.md", "a directory is there now"),
        ("notes/travel/kyoto.md", "notes/travel", "notes/travel is a file now"),
    ],
)
def test_a_file_whose_place_was_taken_since_is_not_taken_back_over_it(gone: str, came: str, why: str) -> None:
    """MERGE-8: what came there since is another body's; what one commit turned into the other goes back whole."""
    world = fleet()
    one, two = world.body("laptop"), world.body("phone")
    one.write(gone, "first\n")
    world.settle()
    one.delete(gone)
    one.settle()
    removal = one.soul.head()
    world.settle()
    two.write(came, "second\n")
    world.settle()
    with pytest.raises(Refused, match=why):
        undoing.revert(one.soul, {"commit": removal})
    world.settle()
    assert world.published()[came] == b"second\n" and gone not in world.published()


def test_each_path_that_cannot_be_taken_back_has_its_own_reason_and_one_gets_a_command() -> None:
    """REPO-3: what was refused, why, and the very words to type."""
    one = fleet().body("laptop")
    one.write(NOTE, "one\n")
    one.write("notes/gone.md", "one\n")
    one.write("notes/odd.md", "one\n")
    one.settle()
    first = one.soul.head() or ""
    one.write(NOTE, "two\n")
    one.write("notes/gone.md", "two\n")
    one.write("notes/odd.md", "two\n")
    one.settle()
    made = one.soul.head() or ""
    one.write(NOTE, "three\n")
    one.delete("notes/gone.md")
    one.settle()
    with pytest.raises(Refused) as refused:
        undoing.revert(one.soul, {"commit": made})
    said = refused.value.message
    assert f"  {NOTE}: it changed since" in said and "  notes/gone.md: it is gone since" in said
    assert "notes/odd.md" not in said, "what could be taken back has no reason"
    command = refused.value.advice.partition(": ")[2].split()
    assert command[:3] == ["soul-bridge", "restore", "kaoru"] and command[4] in (NOTE, "notes/gone.md")
    assert first.startswith(command[3])
    undoing.restore(one.soul, {"commit": command[3], "path": command[4]})
    assert one.tracked()[command[4]] == b"one\n"


def test_many_paths_that_cannot_be_taken_back_are_counted() -> None:
    """REPO-3."""
    one = fleet().body("laptop")
    one.settle()
    names = [f"notes/n{number:02}.md" for number in range(undoing.SHOWN + 3)]
    heads = []
    for text in ("one\n", "two\n"):
        for name in names:
            one.write(name, text)
        one.settle()
        heads.append(one.soul.head() or "")
    with pytest.raises(Refused, match="and 3 more") as refused:
        undoing.revert(one.soul, {"commit": heads[0]})
    assert "restore" not in refused.value.advice, "there is nothing older of them"


def test_reverting_a_merge_takes_back_what_it_brought() -> None:
    """REPO-3: a merge is taken back against its first parent, the side that merged."""
    world = fleet()
    one, two = world.body("laptop"), world.body("phone")
    one.settle()
    two.settle()
    world.settle()
    one.remote.unreachable = True
    one.write("notes/mine.md", "mine\n")
    one.settle()
    two.write(NOTE, "theirs\n")
    two.settle()
    one.remote.heal()
    one.settle()
    merge = next(commit for commit in one.repo.log(one.soul.head() or "") if len(commit.parents) > 1)
    undoing.revert(one.soul, {"commit": merge.oid})
    world.settle()
    assert NOTE not in two.files()
    assert two.text("notes/mine.md") == "mine\n"


def test_the_first_commit_cannot_be_reverted() -> None:
    """TREE-1: what a soul must have stays."""
    world = fleet()
    one = world.body("laptop")
    one.settle()
    root = list(one.repo.log(one.soul.head() or ""))[-1]
    with pytest.raises(Refused, match="needed"):
        undoing.revert(one.soul, {"commit": root.oid})


def test_a_forgotten_body_leaves_the_registry_and_its_journal_stays() -> None:
    """FORM-6: taking a dead body out of the registry removes nothing else."""
    world = fleet()
    one, two = world.body("laptop"), world.body("phone")
    one.settle()
    two.write("journal/phone/2026-01-02.md", "# 2026-01-02 · phone\n")
    two.settle()
    one.settle()
    undoing.forget(one.soul, {"body": "phone"})
    one.settle()
    assert "bodies/phone.json" not in world.published()
    assert "journal/phone/2026-01-02.md" in world.published()
    for gone in ("phone", "laptop"):
        with pytest.raises(Refused):
            undoing.forget(one.soul, {"body": gone})


def test_an_identity_comes_back_under_the_published_id() -> None:
    """MERGE-5: no restored agent.json changes who the agent is."""
    world = fleet()
    one = world.body("laptop")
    one.settle()
    fields = json.loads(one.text("agent.json") or "")
    first = one.soul.head() or ""
    one.write("agent.json", json.dumps({**fields, "color": "#010203"}))
    one.settle()
    undoing.restore(one.soul, {"commit": first, "path": "agent.json"})
    one.settle()
    assert json.loads(one.text("agent.json") or "") == fields


def test_an_identity_of_another_id_comes_back_with_everything_but_that() -> None:
    """MERGE-5: a person once committed another id; what else stood there may come back."""
    one = fleet().body("laptop")
    one.settle()
    fields = json.loads(one.text("agent.json") or "")
    head = one.soul.head() or ""
    other = {**fields, "id": "0f8fad5b-d9cb-469f-a165-70867728950e", "color": "#010203"}
    file = File(one.repo.write(json.dumps(other).encode()))
    tree = one.repo.edit(one.soul.tree_of(head), {"agent.json": file})
    mistake = one.repo.commit(tree, [head], "P (p)", "a@b", "by hand", 5)
    one.repo.names["refs/heads/main"] = mistake
    one.repo.flush()
    one.settle()
    undoing.restore(one.soul, {"commit": mistake, "path": "agent.json"})
    assert json.loads(one.tracked()["agent.json"]) == {**fields, "color": "#010203"}


def test_history_tells_what_changed_in_words() -> None:
    """COMMIT-1: log, differences and the fleet read what commits say."""
    _, one, _ = two_versions()
    rows = list(history.log(one.repo, NOTE))
    assert {row["body"] for row in rows} == {"laptop", "phone"}
    assert all(NOTE in row["paths"] for row in rows)
    oldest = list(one.repo.log(one.soul.head() or ""))[-1]
    found = history.differences(one.repo, oldest.tree, one.soul.tree_of(one.soul.head()), "notes")
    assert [(each.path, each.change) for each in found if each.path == NOTE] == [(NOTE, "added")]
    assert [row["body"] for row in history.fleet(one.repo)] == ["laptop", "phone"]
    with pytest.raises(Refused):
        history.resolve(one.repo, "zz")


@pytest.mark.timeout(10)
def test_a_large_memory_is_compared_in_a_time_in_proportion_to_it() -> None:
    """MERGE-2: thirty thousand entries, of which one came and one went."""
    one = fleet().body("laptop")
    before, after = ("\n§\n".join(map(str, numbers)).encode() for numbers in (range(30_000), range(1, 30_001)))
    old, new = (File(one.repo.write(content)) for content in (before, after))
    found = history.difference(one.repo, "memories/MEMORY.md", old, new)
    assert (found.plus, found.minus) == (("30000",), ("0",))
