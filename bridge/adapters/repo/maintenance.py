"""Packs pile up, one for each pass: now and then they are put together, by git, in a child that can be ended."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from bridge.adapters import gitenv
from bridge.adapters.repo.packs import settle
from bridge.core import errors

MOST_PACKS = 50  # a look for what is not here costs 2 µs for each pack
_MEMORY = "64m"


def repack(git_dir: Path, refs: Mapping[str, str], *, most: int = MOST_PACKS, deadline: float = 600.0) -> bool:
    """Put small packs together when there are more than `most`; whether it was done. Nothing is ever thrown away that
    is not in the new pack. Raises Transient when the disk is full or it takes too long, Refused when git finds damage.
    """
    folder = git_dir / "objects" / "pack"
    if sum(1 for _ in folder.glob("pack-*.pack")) <= most:
        return False
    # By size only: what no ref reaches stays, and so does what a person keeps with a .keep file.
    args = ["-c", "repack.writeBitmaps=false", "repack", "-d", "-q", "--geometric=2", f"--window-memory={_MEMORY}"]
    outcome = gitenv.run_git(args, gitenv.skeleton(git_dir, refs), deadline=deadline)
    settle(folder)
    if outcome.code == 0:
        return True
    if "No space left" in outcome.words or "Disk quota" in outcome.words:
        raise errors.Transient(f"no room to put packs together: {outcome.words}", kind="disk")
    raise errors.Refused(
        f"git could not put the packs together: {outcome.words}",
        kind="internal",
        rule="REPO-7",
        advice="nothing was changed; run `git fsck` in the checkout",
    )
