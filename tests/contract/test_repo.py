"""What the port `Repo` promises, proved on the fake and on the real adapter (COMMIT-3, REPO-7, MERGE-6, MERGE-11)."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridge.adapters.repo import Repo
from bridge.core import errors
from bridge.core.model import EXECUTABLE, GITLINK, LINK, Commit, File, Kind, Touch, blob_id
from bridge.fakes.repo import FakeRepo

MAIN = "refs/heads/main"
KEEP = "refs/soul-bridge/keep/1"
AnyRepo = Repo | FakeRepo


@pytest.fixture(params=["fake", "real"])
def repo(request: pytest.FixtureRequest, tmp_path: Path) -> AnyRepo:
    return FakeRepo() if request.param == "fake" else Repo.create(tmp_path / "soul")


class Story:
    """Commits with names: each is made of its parents' names, a time, and changes to its first parent's tree."""

    def __init__(self, repo: AnyRepo) -> None:
        self.repo = repo
        self.ids: dict[str, str] = {}

    def add(self, name: str, parents: str = "", time: int = 0, body: str = "laptop", **changes: str | None) -> str:
        above = [self.ids[parent] for parent in parents.split()]
        tree = self.repo.info(above[0]).tree if above else ""
        files = {path: None if text is None else File(self.repo.write(text.encode())) for path, text in changes.items()}
        self.ids[name] = self.repo.commit(
            self.repo.edit(tree, files), above, f"Kaoru ({body})", "kaoru@laptop.local", name, time or len(self.ids) + 1
        )
        return self.ids[name]

    def names(self, oids: list[str]) -> str:
        return " ".join(name for oid in oids for name, known in self.ids.items() if known == oid)


@pytest.fixture
def story(repo: AnyRepo) -> Story:
    return Story(repo)


def put(repo: AnyRepo, *paths: str) -> dict[str, File]:
    """A file for each path, holding its own path."""
    return {path: File(repo.write(path.encode("utf-8", "surrogateescape"))) for path in paths}


# --- objects ---------------------------------------------------------------------------------------------------------


def test_a_blob_has_the_id_that_git_gives_it_and_is_readable_at_once(repo: AnyRepo) -> None:
    oid = repo.write("Füße\n".encode())
    assert oid == blob_id("Füße\n".encode())
    assert repo.has(oid)
    assert repo.read(oid) == "Füße\n".encode()
    assert repo.size(oid) == 7


@pytest.mark.parametrize("content", [b"", b"\0" * 100_000, b"\xff\xfe\r\n", bytes(range(256)) * 300])
def test_bytes_come_back_as_they_were_written(repo: AnyRepo, content: bytes) -> None:
    oid = repo.write(content)
    repo.flush()
    assert repo.read(oid) == content
    assert repo.size(oid) == len(content)


def test_what_is_not_here_is_refused_and_not_invented(repo: AnyRepo) -> None:
    absent = "12" * 20
    assert not repo.has(absent)
    for ask in (repo.read, repo.size, repo.info, lambda oid: repo.entry(oid, "a"), lambda oid: list(repo.files(oid))):
        with pytest.raises(errors.Refused) as caught:
            ask(absent)
        assert caught.value.kind == "internal"


def test_an_object_of_another_kind_is_refused(repo: AnyRepo, story: Story) -> None:
    commit = story.add("first", **{"a": "1"})
    with pytest.raises(errors.Refused):
        repo.read(commit)
    with pytest.raises(errors.Refused):
        repo.info(repo.write(b"no commit"))


def test_discarded_objects_are_gone_and_flushed_ones_stay(repo: AnyRepo) -> None:
    kept = repo.write(b"kept")
    repo.flush()
    lost = repo.write(b"lost")
    repo.discard()
    assert repo.has(kept)
    assert not repo.has(lost)
    assert repo.write(b"lost") == lost
    assert repo.read(lost) == b"lost"


def test_a_commit_says_what_it_was_made_of(repo: AnyRepo) -> None:
    tree = repo.edit("", put(repo, "a"))
    first = repo.commit(tree, [], "Kaoru (laptop)", "kaoru@laptop.local", "memories +2 −1 (laptop)\n", 1_700_000_000)
    second = repo.commit("", [first], "香 (server)", "kaoru@server.local", "subject\n\nLost: x y\n", 1_700_000_001)
    expected = Commit(first, tree, (), 1_700_000_000, "Kaoru (laptop)", "memories +2 −1 (laptop)\n")
    assert repo.info(first) == expected
    found = repo.info(second)
    assert (found.tree, found.parents, found.body) == ("", (first,), "server")
    assert found.message == "subject\n\nLost: x y\n"


# --- refs ------------------------------------------------------------------------------------------------------------


def test_a_ref_moves_only_from_where_it_is_expected(repo: AnyRepo, story: Story) -> None:
    one, two = story.add("one"), story.add("two", "one")
    assert repo.tip(MAIN) is None
    repo.move(MAIN, None, one)
    for expected in (None, two):
        with pytest.raises(errors.Moved):
            repo.move(MAIN, expected, two)
    assert repo.tip(MAIN) == one
    repo.move(MAIN, one, two)
    assert repo.tip(MAIN) == two
    with pytest.raises(errors.Moved):
        repo.move(MAIN, one, None)
    repo.move(MAIN, two, None)
    assert repo.tip(MAIN) is None
    with pytest.raises(errors.Moved):
        repo.move(MAIN, two, None)


def test_moving_a_ref_to_a_new_commit_makes_it_durable(repo: AnyRepo, story: Story) -> None:
    one = story.add("one", **{"a/b": "text"})
    repo.move(MAIN, None, one)
    repo.discard()
    assert repo.read(repo.entry(repo.info(one).tree, "a/b").oid) == b"text"  # type: ignore[union-attr]


def test_a_ref_never_points_at_what_is_no_commit(repo: AnyRepo) -> None:
    blob = repo.write(b"text")
    for oid in (blob, "12" * 20):
        with pytest.raises(errors.Refused):
            repo.move(MAIN, None, oid)
    assert repo.tip(MAIN) is None


def test_refs_are_listed_by_prefix(repo: AnyRepo, story: Story) -> None:
    one = story.add("one")
    for name in (MAIN, KEEP, "refs/soul-bridge/keep/2", "refs/soul-bridge/seen"):
        repo.move(name, None, one)
    assert repo.refs("refs/soul-bridge/keep/") == {KEEP: one, "refs/soul-bridge/keep/2": one}
    assert list(repo.refs("refs/")) == [MAIN, KEEP, "refs/soul-bridge/keep/2", "refs/soul-bridge/seen"]
    assert repo.refs("refs/none/") == {}


# --- trees -----------------------------------------------------------------------------------------------------------


def test_a_tree_is_looked_up_listed_and_sorted(repo: AnyRepo) -> None:
    paths = ["a", "a.b", "a-b/c", "b/c/d", "b/c.d", "é/ü", "\udcff/\udcfe.md", "名前.md"]
    files = put(repo, *paths)
    files["x"] = File(repo.write(b"#!"), EXECUTABLE)
    files["l"] = File(repo.write(b"a"), LINK)
    files["g"] = File("12" * 20, GITLINK)
    tree = repo.edit("", files)
    assert list(repo.files(tree)) == sorted(files.items())
    assert {path: repo.entry(tree, path) for path in files} == files
    assert list(repo.files(tree, "b")) == [(path, files[path]) for path in ("b/c.d", "b/c/d")]
    assert [path for path, _ in repo.files(tree, "b/c")] == ["b/c/d"]
    assert list(repo.files(tree, "a")) == list(repo.files(tree, "nothing")) == list(repo.files("")) == []


@pytest.mark.parametrize(
    ("path", "kind"),
    [("a", Kind.FILE), ("l", Kind.FILE), ("d", Kind.DIRECTORY), ("d/e", Kind.FILE), ("d/x", Kind.ABSENT),
     ("a/x", Kind.ABSENT), ("x", Kind.ABSENT), ("d/e/f", Kind.ABSENT)],
)  # fmt: skip
def test_a_path_is_a_file_a_directory_or_absent(repo: AnyRepo, path: str, kind: Kind) -> None:
    tree = repo.edit("", {**put(repo, "a", "d/e"), "l": File(repo.write(b"a"), LINK)})
    assert repo.kind(tree, path) is kind
    assert (repo.entry(tree, path) is not None) == (kind is Kind.FILE)
    assert repo.kind("", path) is Kind.ABSENT


def test_removing_the_last_file_removes_its_directories(repo: AnyRepo) -> None:
    tree = repo.edit("", put(repo, "a/b/c", "d"))
    less = repo.edit(tree, {"a/b/c": None})
    assert repo.kind(less, "a") is Kind.ABSENT
    assert repo.edit(less, {"d": None}) == ""


def test_an_edit_that_changes_nothing_gives_the_same_tree(repo: AnyRepo) -> None:
    files = put(repo, "a/b", "c")
    tree = repo.edit("", files)
    assert repo.edit(tree, {}) == repo.edit(tree, files) == tree
    assert repo.edit(tree, {"x": None, "a/x": None, "c/x": None, "a": None, "x/y/z": None}) == tree
    assert repo.edit("", {"x": None, "x/y": None}) == ""


def test_the_same_files_make_the_same_tree_however_they_came(repo: AnyRepo) -> None:
    files = put(repo, "a", "a.b", "a/b" + "x", "c/d/e", "c/d.e") | {}
    del files["a"]
    at_once = repo.edit("", files)
    one_by_one = ""
    for path in sorted(files, reverse=True):
        one_by_one = repo.edit(one_by_one, {path: files[path]})
    assert at_once == one_by_one


def test_a_file_set_below_a_file_takes_its_place(repo: AnyRepo) -> None:
    files = put(repo, "a", "a/b", "a/c/d")
    tree = repo.edit("", {"a": files["a"]})
    below = {"a/b": files["a/b"], "a/c/d": files["a/c/d"]}
    assert dict(repo.files(repo.edit(tree, below))) == below
    assert dict(repo.files(repo.edit(tree, {**below, "a": None}))) == below


def test_a_file_set_at_a_directory_takes_its_place(repo: AnyRepo) -> None:
    files = put(repo, "a", "a/b", "a/c/d", "e")
    tree = repo.edit("", {path: files[path] for path in ("a/b", "a/c/d", "e")})
    replaced = repo.edit(tree, {"a": files["a"]})
    assert dict(repo.files(replaced)) == {"a": files["a"], "e": files["e"]}
    assert repo.edit(tree, {"a": files["a"], "a/b": None, "a/c/d": None}) == replaced
    assert repo.edit(tree, {"a/b": None, "a/c/d": None, "a": files["a"]}) == replaced


def test_the_executable_bit_is_a_change_of_its_own(repo: AnyRepo) -> None:
    plain = File(repo.write(b"x"))
    executable = File(plain.oid, EXECUTABLE)
    one, two = repo.edit("", {"a": plain}), repo.edit("", {"a": executable})
    assert repo.diff(one, two) == {"a": (plain, executable)}


def test_a_diff_names_what_differs_and_nothing_else(repo: AnyRepo) -> None:
    files = put(repo, "a", "b/c", "b/d", "e/f", "g/h", "g/i/j", "\udcff")
    old = repo.edit("", {path: files[path] for path in ("a", "b/c", "b/d", "e/f", "\udcff")})
    new = repo.edit(old, {"b/c": files["a"], "e/f": None, "e": files["e/f"], "g/i/j": files["g/i/j"]})
    difference = {
        "b/c": (files["b/c"], files["a"]),
        "e": (None, files["e/f"]),
        "e/f": (files["e/f"], None),
        "g/i/j": (None, files["g/i/j"]),
    }
    assert list(repo.diff(old, new).items()) == list(difference.items())
    assert repo.diff(new, old) == {path: (two, one) for path, (one, two) in difference.items()}
    assert repo.diff("", old) == {path: (None, file) for path, file in repo.files(old)}
    assert repo.diff(old, old) == repo.diff("", "") == {}


_NAMES = st.sampled_from(["a", "a.b", "a-", "b", "é", "\udc80"])
_PATHS = st.lists(_NAMES, min_size=1, max_size=3).map("/".join)
_TEXTS = st.sampled_from([None, "1", "2"])
_CHANGES = st.dictionaries(_PATHS, _TEXTS, max_size=6)


@settings(max_examples=60)
@given(steps=st.lists(_CHANGES, max_size=4))
def test_both_repositories_hold_the_same_files_after_the_same_edits(
    tmp_path_factory: pytest.TempPathFactory, steps: list[dict[str, str | None]]
) -> None:
    """The fake is a faithful twin, and a diff applied to the old tree gives the new one."""
    fake, real = FakeRepo(), Repo.create(tmp_path_factory.mktemp("soul"))
    trees: dict[AnyRepo, str] = {fake: "", real: ""}
    for step in steps:
        for each, tree in trees.items():
            files = {path: None if text is None else File(each.write(text.encode())) for path, text in step.items()}
            changed = each.edit(tree, files)
            difference = {path: new for path, (_, new) in each.diff(tree, changed).items()}
            assert each.edit(tree, difference) == changed
            trees[each] = changed
        assert dict(fake.files(trees[fake])) == dict(real.files(trees[real]))
        assert list(fake.files(trees[fake])) == list(real.files(trees[real]))


def test_a_path_of_two_hundred_directories_is_a_path_like_any_other(repo: AnyRepo) -> None:
    path = "/".join(f"d{number}" for number in range(200)) + "/f"
    files = put(repo, path)
    tree = repo.edit("", files)
    assert dict(repo.files(tree)) == files
    assert repo.diff("", tree) == {path: (None, files[path])}
    assert repo.entry(tree, path) == files[path]
    assert repo.edit(tree, {path: None}) == ""


# --- history ---------------------------------------------------------------------------------------------------------


def test_the_log_is_newest_first_with_children_before_parents(repo: AnyRepo, story: Story) -> None:
    story.add("root", time=10)
    story.add("left", "root", time=30)
    story.add("right", "root", time=20)
    story.add("early", "right", time=5)
    tip = story.add("merge", "left early", time=40)
    assert story.names([commit.oid for commit in repo.log(tip)]) == "merge left early right root"
    assert story.names([commit.oid for commit in repo.log(tip, story.ids["left"])]) == "merge early right"
    assert list(repo.log(tip, tip)) == []
    assert [commit.message for commit in repo.log(story.ids["root"])][0].strip() == "root"


def test_commits_of_one_second_are_told_apart_by_their_ids(repo: AnyRepo, story: Story) -> None:
    """MERGE-11: no order depends on chance."""
    story.add("root", time=10)
    twins = sorted(story.add(f"twin{number}", "root", time=20) for number in range(4))
    tip = repo.commit("", twins[::-1], "K (b)", "m", "merge", 30)
    assert [commit.oid for commit in repo.log(tip)][1:5] == twins


def test_ancestors_are_found_whatever_the_clocks_said(repo: AnyRepo, story: Story) -> None:
    """A body whose clock is years ahead, or behind, hides nothing."""
    times = [50, 9_000_000_000, 5, 60, 1]
    for number, time in enumerate(times):
        story.add(f"c{number}", f"c{number - 1}" if number else "", time=time)
    side = story.add("side", "c1", time=2)
    for older in range(5):
        for newer in range(5):
            assert repo.is_ancestor(story.ids[f"c{older}"], story.ids[f"c{newer}"]) == (older <= newer)
    assert repo.bases(side, story.ids["c4"]) == [story.ids["c1"]]
    assert story.names([commit.oid for commit in repo.log(side, story.ids["c4"])]) == "side"
    assert not repo.is_ancestor(side, story.ids["c4"])
    assert not repo.is_ancestor("12" * 20, side)


def test_merge_bases_are_all_found_newest_first(repo: AnyRepo, story: Story) -> None:
    """A criss-cross merge has two."""
    story.add("root", time=1)
    story.add("a", "root", time=20)
    story.add("b", "root", time=30)
    one, two = story.add("ab", "a b", time=40), story.add("ba", "b a", time=41)
    assert story.names(repo.bases(one, two)) == "b a"
    assert repo.bases(one, two) == repo.bases(two, one)
    assert story.names(repo.bases(one, story.ids["a"])) == "a"
    assert repo.bases(one, one) == [one]
    assert repo.bases(one, story.add("other root", time=99)) == []


def test_merge_bases_of_one_second_come_lowest_id_first(repo: AnyRepo, story: Story) -> None:
    story.add("root", time=1)
    ids = sorted([story.add("a", "root", time=20), story.add("b", "root", time=20)])
    one, two = story.add("ab", "a b", time=40), story.add("ba", "b a", time=41)
    assert repo.bases(one, two) == ids


def test_a_random_history_is_walked_the_same_by_both(tmp_path: Path) -> None:
    """Clocks jump, merges cross: fake and real agree on bases, ancestors, ranges and touches."""
    random_source = random.Random(7)
    stories = [Story(FakeRepo()), Story(Repo.create(tmp_path / "soul"))]
    names: list[str] = []
    for number in range(40):
        parents = " ".join(random_source.sample(names[-8:], min(len(names), random_source.choice([0, 1, 1, 1, 2, 2]))))
        time = random_source.choice([number * 10, number, 5_000, 1])
        changes = {random_source.choice("ab"): random_source.choice(["1", "2", None])}
        for story in stories:
            story.add(f"n{number}", parents, time or 1, body=f"b{number}", **changes)
        names.append(f"n{number}")
    for _ in range(150):
        one, other = random_source.sample(names, 2)
        path = random_source.choice("ab")
        answers = []
        for story in stories:
            repo, this, that = story.repo, story.ids[one], story.ids[other]
            answers.append(
                (
                    sorted(story.names(repo.bases(this, that)).split()),
                    repo.is_ancestor(this, that),
                    sorted(story.names([commit.oid for commit in repo.log(this, that)]).split()),
                    repo.touched(this, path, None),
                    repo.touched(this, path, that),
                    repo.ever(this, path, blob_id(b"1")),
                )
            )
        assert answers[0] == answers[1]


def test_a_path_was_touched_by_the_last_commit_that_changed_it(repo: AnyRepo, story: Story) -> None:
    """MERGE-6: within the range only; a merge counts only if it differs from all its parents."""
    story.add("root", time=10, **{"a": "1", "b": "1"})
    story.add("base", "root", time=20, **{"b": "2"})
    story.add("ours", "base", time=30, body="laptop", **{"a": "2"})
    story.add("theirs", "base", time=40, body="server", **{"c": "1"})
    merge = story.add("merge", "ours theirs", time=50, body="desk", **{"c": "1"})
    base = story.ids["base"]
    assert repo.touched(merge, "a", base) == Touch(30, "laptop")
    assert repo.touched(merge, "c", base) == Touch(40, "server")
    assert repo.touched(merge, "b", base) is None
    assert repo.touched(merge, "b", None) == Touch(20, "laptop")
    assert repo.touched(merge, "nothing", None) is None
    evil = story.add("evil", "merge theirs", time=60, body="desk", **{"a": "3"})
    assert repo.touched(evil, "a", base) == Touch(60, "desk")
    gone = story.add("gone", "evil", time=70, body="desk", **{"a": None})
    assert repo.touched(gone, "a", base) == Touch(70, "desk")
    assert repo.touched(gone, "a", gone) is None


def test_an_old_version_is_known_to_have_been_at_its_path(repo: AnyRepo, story: Story) -> None:
    """REPO-6: an old copy is told from a change by the history of its path."""
    story.add("one", **{"d/a": "1", "b": "3"})
    story.add("two", "one", **{"d/a": "2"})
    tip = story.add("three", "two", **{"d/a": None})
    assert repo.ever(tip, "d/a", blob_id(b"1"))
    assert repo.ever(tip, "d/a", blob_id(b"2"))
    assert not repo.ever(tip, "d/a", blob_id(b"3"))
    assert not repo.ever(tip, "a", blob_id(b"1"))
    assert not repo.ever(tip, "d", blob_id(b"1"))
    assert not repo.ever(story.ids["one"], "d/a", blob_id(b"2"))


def test_nothing_is_going_on_in_a_new_checkout(repo: AnyRepo) -> None:
    state = repo.state()
    assert (state.head, state.busy) == (MAIN, "")
    repo.index(None, "")
