"""The MERGE rules on real bodies, offline (one `sync` after the other) and online (daemons that were paused)."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from tests.real.fleet import Body, Fleet, git, until
from tests.real.rows import ROWS, Files, Row

SEED = 20260102


@dataclass
class Story:
    """A fleet after every row was played on it: who was first and second, and what stands."""

    fleet: Fleet
    first: Body
    second: Body
    files: dict[str, bytes] = field(default_factory=dict)

    def named(self, files: Files) -> dict[str, str | None]:
        """Contents by path with the bodies' names put in."""

        def put(text: str) -> str:
            return text.replace("{first}", self.first.name).replace("{second}", self.second.name)

        return {put(path): None if content is None else put(content) for path, content in files.items()}

    def lay(self, body: Body, files: Files) -> None:
        """Write and remove as an agent does, by either of its habits."""
        for path, content in self.named(files).items():
            write = random.Random(path).choice((body.write, body.rename_over))
            if content is None:
                body.remove(path)
            else:
                write(path, content.encode("utf-8", "surrogateescape"))


@pytest.fixture(scope="module", params=("offline", "online"))
def story(request: pytest.FixtureRequest, found: Callable[..., Fleet]) -> Story:
    """Every row at once: two bodies of three write without seeing each other, then all of them agree."""
    fleet = found()
    fleet.within = True  # offline, only; online the daemons are processes, and they do the work
    names = ["laptop", "server", "phone"]
    random.Random(f"{SEED}{request.param}").shuffle(names)
    for name in names:
        fleet.body(name)
    first, second, _ = fleet.shuffled(SEED)
    story = Story(fleet, first, second)
    for row in ROWS:
        story.lay(second, {path: content for path, content in row.base.items() if content is not None})
    fields = {"mood": "calm", "gone": 1}
    second.write("agent.json", json.dumps(json.loads(second.read("agent.json") or "") | fields, indent=2) + "\n")
    fleet.converge()
    online = request.param == "online"
    if online:
        fleet.everyone(Body.start)
        fleet.everyone(lambda body: body.json("pause"))
    _older(story)
    _newer(story)
    if online:
        for body in fleet.shuffled(SEED + 1):
            body.json("resume")
        fleet.settled()
    else:
        fleet.converge(fleet.shuffled(SEED + 1))
    story.files = fleet.agree()
    return story


def _older(story: Story) -> None:
    """Second commits while the server is away; first publishes later."""
    for row in ROWS:
        if row.older:
            story.lay(story.second, row.second)
    daemons = story.second.daemon is not None
    story.second.stop()
    with story.second.offline():
        assert story.second.sync(code=5)["recorded"]
    if daemons:
        story.second.start(ready=False)
    time.sleep(1.1)
    for row in ROWS:
        if row.older:
            story.lay(story.first, row.first)
    assert story.first.sync()["pushed"]


def _newer(story: Story) -> None:
    """First publishes; second writes a second later and merges."""
    for row in ROWS:
        if not row.older:
            story.lay(story.first, row.first)
    change(story.first, color="#112233", description="first", gone=None)
    story.first.sync()
    time.sleep(1.1)
    for row in ROWS:
        if not row.older:
            story.lay(story.second, row.second)
    change(story.second, pronouns="she/her", description="second", fresh=[1])
    story.second.sync()


def change(body: Body, **fields: object) -> None:
    """Change fields of the identity, None: remove it."""
    now = json.loads(body.read("agent.json") or "") | fields
    kept = {key: value for key, value in now.items() if value is not None}
    body.rename_over("agent.json", json.dumps(kept, indent=2, ensure_ascii=False) + "\n")


@pytest.mark.parametrize("row", ROWS, ids=[f"{row.rule}: {row.says}" for row in ROWS])
def test_every_body_holds_what_the_rule_says(story: Story, row: Row) -> None:
    """MERGE-1, MERGE-2, MERGE-3, MERGE-6, MERGE-7, MERGE-8, MERGE-9, MERGE-10, TREE-5, CONTENT-1: on every body."""
    for path, content in story.named(row.result).items():
        found = story.files.get(path)
        shown = None if found is None else found.decode("utf-8", "surrogateescape")
        assert shown == content, path


@pytest.mark.parametrize("row", [row for row in ROWS if row.lost], ids=lambda row: row.says)
def test_a_version_that_lost_is_listed_by_every_body(story: Story, row: Row) -> None:
    """MERGE-6: it stays in history, and every body lists the same."""
    assert row.lost is not None
    path, content = row.lost
    lists = story.fleet.everyone(lambda body: body.json("conflicts"))
    assert lists[0] == lists[1] == lists[2]
    blobs = {git(story.first.soul, "cat-file", "blob", one["blob"]) for one in lists[0] if one["path"] == path}
    assert content in blobs


def test_the_identity_is_merged_by_field(story: Story) -> None:
    """MERGE-4: the side that changed a field wins, ours where both did; the order is that of FORM-1, extras behind."""
    fields = json.loads(story.files["agent.json"])
    assert (fields["color"], fields["pronouns"], fields["description"]) == ("#112233", "she/her", "second")
    assert "gone" not in fields and fields["mood"] == "calm" and fields["fresh"] == [1]
    known = ["id", "name", "displayName", "pronouns", "description", "color", "language", "createdAt"]
    assert [key for key in fields if key in known] == known == list(fields)[: len(known)]


def test_a_body_that_is_done_commits_nothing(story: Story) -> None:
    """FORM-6, COMMIT: nothing changes, so no commit is made, however often or long anybody looks."""
    tip = story.fleet.tip()
    if story.first.daemon is None:
        for body in list(story.fleet.bodies.values()) * 5:
            body.sync()
    else:
        time.sleep(5)
    assert story.fleet.tip() == tip
    assert {body.tip() for body in story.fleet.bodies.values()} == {tip}
    story.fleet.agree()


def test_history_only_grew_and_never_held_a_conflict_marker(story: Story) -> None:
    """REPO-3, MERGE: the server refuses anything but growth, and no commit ever held a marker."""
    revisions = story.fleet.git("rev-list", "main").split()
    found = git(story.fleet.bare, "grep", "-l", "-E", "^(<<<<<<<|>>>>>>>)", *revisions, check=False)
    assert found == ""
    git(story.fleet.bare, "fsck", "--strict")


def test_every_commit_says_who_made_it_and_what_it_changed(story: Story) -> None:
    """COMMIT-1: author `<displayName> (<body>)`, mail of the body, a description, and the body again."""
    for line in story.fleet.git("log", "--format=%an|%ae|%cn|%ce|%s", "main").splitlines():
        author, mail, committer, committed, subject = line.split("|")
        body = author.removeprefix("Kaoru (").removesuffix(")")
        assert body in story.fleet.bodies and author == committer == f"Kaoru ({body})"
        assert mail == committed == f"kaoru@{body}.local"
        assert subject.endswith(f" ({body})") and not subject.lower().startswith("update")


def test_a_lost_version_comes_back_with_one_command(story: Story) -> None:
    """MERGE-6: `restore ID` is a new commit that every body gets, and the conflict goes off every list."""
    daemons = story.first.daemon is not None
    one = next(each for each in story.first.json("conflicts") if each["path"] == "notes/six/a.md")
    answer = story.first.json("restore", one["id"])
    assert answer["paths"] == ["notes/six/a.md"]
    other = story.second
    if not daemons:
        other.sync()
    until(lambda: other.read("notes/six/a.md") == "# a\nfirst\n", "the restored version arrives")
    assert one["id"] not in {each["id"] for each in other.json("conflicts")}
