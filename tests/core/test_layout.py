"""The tree of a soul: fixed contents, which rule a path falls under, which paths may reach a disk."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.core import layout
from bridge.core.model import EXECUTABLE, GITLINK, LINK, PLAIN

WHOLE = [
    ".soul-spec.json",
    ".gitattributes",
    ".gitignore",
    "README.md",
    "agent.json",
    "SOUL.md",
    "memories/MEMORY.md",
    "memories/USER.md",
    "journal/.gitkeep",
    "notes/.gitkeep",
    "bodies/.gitkeep",
]
PATHS = st.lists(st.text(alphabet=".gitGIT~1: \\\x00\x7f\u200cañ", max_size=8), min_size=1, max_size=4).map("/".join)


def missing(present: list[str]) -> dict[str, bytes]:
    return layout.missing(present, "kaoru", "Kaoru", b"{}\n")


def test_the_fixed_contents_have_the_lengths_of_the_specification() -> None:
    """TREE-2"""
    assert len(layout.SOUL_SPEC) == 42
    assert len(layout.ATTRIBUTES) == 55
    assert len(layout.IGNORE) == 37
    assert layout.version(layout.SOUL_SPEC) == layout.SPEC_VERSION == 4


def test_a_soul_is_one_branch_of_a_repository_named_after_its_agent() -> None:
    """REPO-1, REPO-2"""
    assert layout.repository("kaoru") == "kaoru.soul"
    assert layout.MAIN == "refs/heads/main"


def test_the_readme_names_the_agent_and_says_what_the_repository_is() -> None:
    """TREE-2: private, kept by software, undone through history."""
    text = layout.readme("kaoru", "Kaoru\nof the sea").decode()
    assert text.startswith("# Kaoru of the sea\n")
    assert all(word in text for word in ("`kaoru`", "private", "Software", "history"))


def test_an_empty_tree_lacks_everything_and_a_filled_one_nothing() -> None:
    """TREE-1"""
    filled = missing([])
    assert sorted(filled) == sorted(WHOLE)
    assert filled["SOUL.md"] == b"# Kaoru\n"
    assert filled["agent.json"] == b"{}\n"
    assert filled["memories/USER.md"] == filled["journal/.gitkeep"] == b""
    assert missing(list(filled)) == {}


def test_a_directory_that_holds_something_needs_no_placeholder() -> None:
    """TREE-1"""
    assert missing([path for path in WHOLE if path != "notes/.gitkeep"] + ["notes/a/b.md"]) == {}


def test_nothing_of_the_agents_is_removed_to_make_room() -> None:
    """TREE-1, TREE-4: a file where a directory belongs, or the other way round, stays, and what it blocks waits."""
    there = ["notes", "memories", "README.md/mine.txt"]
    filled = missing(there)
    assert sorted(filled) == sorted(
        {*WHOLE} - {"notes/.gitkeep", "memories/MEMORY.md", "memories/USER.md", "README.md"}
    )


def test_a_question_can_stand_for_the_list_of_paths() -> None:
    """TREE-1"""
    there = {*WHOLE, "journal/", "notes/", "bodies/", "memories/"}
    assert layout.missing(there.__contains__, "kaoru", "Kaoru", b"") == {}


def test_fixed_files_that_are_there_are_never_written() -> None:
    """TREE-3: also those of another version stay as they are."""
    assert all(path not in missing([path]) for path in WHOLE)
    assert layout.version(b'{"spec": "soul-repo", "version": 14}') == 14
    assert layout.version(b'{"version": true}') is layout.version(b"[") is layout.version(None) is None


@pytest.mark.parametrize(
    ("path", "rule"),
    [
        ("memories/MEMORY.md", "memory"),
        ("memories/更.md", "memory"),
        ("memories/.md", "newest"),
        ("memories/old/MEMORY.md", "newest"),
        ("memories/MEMORY.txt", "newest"),
        ("notes/memories/a.md", "newest"),
        ("SOUL.md", "newest"),
        ("skills/a.py", "newest"),
        ("agent.json", "identity"),
        ("README.md", "fixed"),
        (".gitignore", "fixed"),
        ("notes/README.md", "newest"),
        ("locks/consolidation.json", "lock"),
        ("locks/a/b", "lock"),
        ("journal/laptop/2026-01-31.md", "journal"),
        ("journal/laptop/a/b.md", "journal"),
        ("journal/.gitkeep", "newest"),
        ("bodies/laptop.json", "body"),
        ("bodies/a/laptop.json", "newest"),
        ("bodies/.gitkeep", "newest"),
    ],
)
def test_each_path_falls_under_one_rule_of_merging(path: str, rule: str) -> None:
    """MERGE-6 takes what no other rule names."""
    answers = {
        "memory": layout.is_memory(path),
        "fixed": layout.is_fixed(path),
        "identity": path == "agent.json",
        "lock": layout.is_lock(path),
        "journal": layout.is_journal(path),
        "body": layout.is_body(path),
        "newest": layout.newest_wins(path),
    }
    assert [name for name, answer in answers.items() if answer] == [rule]


def test_the_files_of_the_tree_that_must_be_there_are_required() -> None:
    """TREE-1"""
    assert [path for path in WHOLE if layout.is_required(path)] == WHOLE[4:8]


@given(path=PATHS)
def test_no_path_breaks_the_questions_about_it(path: str) -> None:
    """TREE-7: a path that may be created cannot leave the soul or reach into its git directory."""
    reason = layout.unsafe(path)
    layout.fold(path)
    layout.held(path, PLAIN, 0)
    if reason is None:
        segments = path.split("/")
        assert all(segments) and ".." not in segments
        assert not any(segment.casefold() == ".git" for segment in segments)
    else:
        assert reason == reason.strip()


def test_bytes_that_are_not_utf_8_count_as_one_each() -> None:
    """TREE-7"""
    assert layout.unsafe(b"\xff".decode("utf-8", "surrogateescape") * 255) is None
    assert layout.unsafe("/".join(["x" * 99] * 41)[:4095]) is None


@pytest.mark.parametrize(
    ("path", "mode", "size", "rule"),
    [
        ("notes/a.md", PLAIN, 50 * 1024 * 1024, ""),
        ("notes/a.md", EXECUTABLE, 0, ""),
        ("notes/a.md", PLAIN, 50 * 1024 * 1024 + 1, "TREE-6"),
        ("notes/a.md", LINK, 1, "TREE-6"),
        ("notes/a", GITLINK, 0, "TREE-6"),
        ("notes/a", 0o010644, 0, "TREE-6"),
        ("notes/a\n.md", PLAIN, 0, "TREE-6"),
        ("notes/git~1", PLAIN, 0, "TREE-7"),
    ],
)
def test_what_hosts_or_bodies_cannot_hold_is_held(path: str, mode: int, size: int, rule: str) -> None:
    """TREE-6"""
    found = layout.held(path, mode, size)
    assert (found[0] if found else "") == rule
    assert found is None or found[1]


def test_the_limit_of_sizes_can_be_another() -> None:
    """TREE-6"""
    assert layout.held("a", PLAIN, 11, limit=10) is not None
    assert layout.held("a", PLAIN, 10, limit=10) is None


def test_text_is_stored_as_git_would_store_it(tmp_path: Path) -> None:
    """TREE-5: the same blobs as `git add` under the attributes of a soul, where no NUL is in a declared text."""
    cases = {
        "a.md": b"a\r\nb\r\r\nc\rd\n",
        "a.json": b"{\r\n}\r\n\x01\x02\x03",
        "a.txt": b"a\r\nb\r\n",
        "lone.txt": b"a\rb\r\n",
        "nul.bin": b"a\0\r\n",
        "noise.bin": b"\x01\x02\x7f\r\n" + b"x" * 200,
        "noisy.txt": b"\x01\r\n" + b"x" * 200,
        "few.txt": b"\x0b\r\n" + b"x" * 100,
        "escape.txt": b"\x1b\x08\x0c\t\r\n\xff\xfe",
        "dos.txt": b"a\r\n\x1a",
    }
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    (tmp_path / ".gitattributes").write_bytes(layout.ATTRIBUTES)
    for name, content in cases.items():
        (tmp_path / name).write_bytes(content)
        ask = ["git", "-C", str(tmp_path), "hash-object", "-w", "--", name]
        blob = subprocess.run(ask, check=True, capture_output=True, text=True).stdout.strip()
        show = ["git", "-C", str(tmp_path), "cat-file", "blob", blob]
        assert layout.stored(content, name) == subprocess.run(show, check=True, capture_output=True).stdout, name


@given(content=st.binary(max_size=40))
def test_what_is_stored_is_stored_again_unchanged_unless_carriage_returns_pile_up(content: bytes) -> None:
    """TREE-5"""
    for path in ("a.md", "a.txt"):
        once = layout.stored(content, path)
        assert layout.stored(once, path) == once or b"\r\r\n" in content


@pytest.mark.parametrize(
    ("path", "content", "mode", "rules"),
    [
        ("a.md", b"a\n", PLAIN, []),
        ("a.md", b"a\n", LINK, ["TREE-6"]),
        ("..\\a.md", b"a\n", PLAIN, ["TREE-7"]),
        ("a.md", b"x" * (1024 * 1024 + 1), PLAIN, ["TREE-5"]),
        ("a.png", b"\x89PNG\0", PLAIN, ["TREE-5"]),
        ("a.md", b"\xff", PLAIN, ["TREE-5"]),
        ("a.md", b"a\r\n", PLAIN, ["TREE-5"]),
        (".gitignore", b"*.tmp\n", PLAIN, ["TREE-2"]),
        (".gitignore", layout.IGNORE, PLAIN, []),
        (".soul-spec.json", layout.SOUL_SPEC, PLAIN, []),
        (".soul-spec.json", layout.SOUL_SPEC.replace(b"  ", b" "), PLAIN, ["TREE-2"]),
        (".soul-spec.json", b'{"spec": "soul-repo", "version": 9}', PLAIN, []),
        (".soul-spec.json", b'{"spec": "other", "version": 4}', PLAIN, ["TREE-2"]),
        (".soul-spec.json", b"", PLAIN, ["TREE-2"]),
    ],
)
def test_broken_form_is_reported_with_its_rule(path: str, content: bytes, mode: int, rules: list[str]) -> None:
    """TREE-2, TREE-5, TREE-6, TREE-7"""
    assert [problem.rule for problem in layout.problems(path, content, mode)] == rules


def test_broken_text_is_reported_with_its_line_and_whole_size() -> None:
    """TREE-5"""
    assert [problem.line for problem in layout.problems("a.md", b"a\nb\nc\xff\n")] == [3]
    assert [problem.line for problem in layout.problems("a.md", b"a\nb\r\n")] == [2]
    assert "2000000 bytes" in layout.problems("a.md", b"a\n", PLAIN, 2_000_000)[0].message


@pytest.mark.parametrize(
    ("last", "now", "may"),
    [(None, 0.0, True), (100.0, 100.0, False), (100.0, 86_499.0, False), (100.0, 86_500.0, True), (100.0, 99.0, True)],
)
def test_missing_entries_are_made_once_a_day(last: float | None, now: float, may: bool) -> None:
    """TREE-1: a time in the future, by a clock that was set back since, holds nothing up."""
    assert layout.may_fill(last, now) is may


def test_links_and_unsafe_names_are_never_created() -> None:
    """TREE-6, TREE-7"""
    assert layout.unplaceable("notes/a.md", regular=True) is None
    assert (layout.unplaceable("notes/a.md", regular=False) or ("",))[0] == "TREE-6"
    assert (layout.unplaceable("notes/.git/config", regular=True) or ("",))[0] == "TREE-7"


@pytest.mark.parametrize(
    ("path", "own"),
    [
        ("SOUL.md", True),
        ("memories/extra.md", True),
        ("memories/deep/extra.md", False),
        ("notes/kyoto.md", True),
        ("notes/travel/deep/kyoto.md", True),
        ("notes/run.log", False),
        ("notes/a.incoming.md", False),
        ("notes/a.incoming-2.md", False),
        ("memories/.DS_Store", False),
        ("notes/.gitkeep", True),
        ("journal/laptop/2026-01-02.md", True),
        ("journal/laptop/2026-01-02-late.md", True),
        ("journal/laptop/draft.md", False),
        ("bodies/laptop.json", True),
        ("locks/consolidation.json", True),
        ("extra.md", False),
    ],
)
def test_which_entries_are_the_trees_own(path: str, own: bool) -> None:
    """TREE-4: recorded even where a `.gitignore` names them."""
    assert layout.is_own(path) is own


def test_in_which_directories_they_can_be() -> None:
    """TREE-4"""
    for directory in ("memories", "journal", "journal/laptop", "notes", "notes/travel/deep", "bodies", "locks"):
        assert layout.may_hold_own(directory)
    for directory in ("build", "memories/deep", "journal/laptop/deep", "notebook"):
        assert not layout.may_hold_own(directory)


@pytest.mark.parametrize(
    ("path", "rules"),
    [(".gitignore", True), ("notes/.gitignore", True), ("notes/x.gitignore", False), (".gitignore/a", False)],
)
def test_what_says_which_paths_are_left_out(path: str, rules: bool) -> None:
    """TREE-4."""
    assert layout.is_rules(path) is rules
