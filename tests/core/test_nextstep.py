"""Every reason for which a path is held, or a pass waits, has a step of its own that leads out."""

from __future__ import annotations

import pytest

from bridge.core import nextstep

ABOUT = ("kaoru", "laptop", "/s/kaoru.soul")


def held(rule: str, reason: str, path: str = "notes/a b.md") -> dict[str, str]:
    return {"path": path, "rule": rule, "reason": reason}


@pytest.mark.parametrize(
    ("rule", "reason", "words"),
    [
        ("GUARD-2", "so much disappeared at once", ("sync --now", "pause kaoru", "checkout main -- 'notes/a b.md'")),
        ("GUARD-3", "the remote removed so much at once", ("sync --now", "pause kaoru", "log", "revert COMMIT")),
        ("MERGE-9", "only the body server writes here", ("notes/", "journal/laptop/")),
        ("REPO-8", "secret found", ("server's words", "sync --now")),
        ("TREE-6", "larger than 9 bytes (10), which hosts refuse for ever", ("hold_back_over",)),
        ("TREE-6", "a nested repository", ("remove the .git",)),
        ("TREE-6", "the name holds a control character", ("rename it",)),
        ("TREE-6", "a symbolic link", (".gitignore",)),
        ("TREE-7", "'A' is the same name on this file system", ("rename one",)),
        ("GUARD-6", "unreadable: permission denied", ("chmod u+rwX '/s/kaoru.soul/notes/a b.md'",)),
        ("GUARD-6", "a mount point", ("unmount",)),
    ],
)
def test_each_reason_has_its_step(rule: str, reason: str, words: tuple[str, ...]) -> None:
    """GUARD-2, GUARD-3, GUARD-6, REPO-8, MERGE-9, TREE-6, TREE-7."""
    step = nextstep.of_held(held(rule, reason), *ABOUT)
    assert all(word in step for word in words), step


@pytest.mark.parametrize("path", ["z\n  next: rm -r .", "a\x1b[2J", "a\u202egnp", "a\tb", "\udcff"])
def test_a_name_that_nobody_can_read_is_part_of_no_command(path: str) -> None:
    """Whoever can push names files, and none of them writes a line of advice."""
    step = nextstep.of_held(held("GUARD-6", "unreadable: permission denied", path), *ABOUT)
    assert step and "PATH" in step and path not in step and "\n" not in step


def test_a_deletion_that_waits_is_never_only_confirmed() -> None:
    """GUARD-2, GUARD-3."""
    for rule in ("GUARD-2", "GUARD-3"):
        step = nextstep.of_held(held(rule, "so much"), *ABOUT)
        assert "meant: `soul-bridge sync --now" in step and "not meant: `soul-bridge pause" in step


def test_many_paths_of_one_kind_have_one_step() -> None:
    many = [held("TREE-6", f"larger than 9 bytes ({size})", f"{size}.bin") for size in range(100)]
    assert len(nextstep.of_all([*many, held("MERGE-9", "only the body server writes here")], *ABOUT)) == 2


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("another git holds index.lock", "rm /s/kaoru.soul/.git/index.lock"),
        ("a sparse checkout hides files (`git sparse-checkout disable` shows them)", "sparse-checkout disable"),
        ("a conflict of git is not resolved yet", "add each"),
        ("a merge is under way", "merge --abort"),
        ("a rebase, or the applying of mails, is under way", "am --abort"),
        ("a cherry-pick or revert of several commits is under way", "revert --abort"),
        ("a bisect is under way", "bisect reset"),
        ("the branch x is checked out, not main", "symbolic-ref HEAD refs/heads/main"),
    ],
)
def test_each_work_of_git_is_ended_by_its_own_command(reason: str, words: str) -> None:
    """REPO-7: a lock, a sparse checkout and a conflict are not ended by naming main."""
    assert words in nextstep.of_git(reason, "/s/kaoru.soul")


def test_a_reason_that_nobody_knows_a_step_for_has_none() -> None:
    """Better no step than one that does not lead out."""
    unknown = held("TREE-99", "something new")
    assert nextstep.of_held(unknown, *ABOUT) == "" and nextstep.of_all([unknown], *ABOUT) == []
