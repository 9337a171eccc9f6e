"""Packs pile up, one for each pass: now and then they are put together, by git, in a child that can be ended."""

from __future__ import annotations

import contextlib
import os
import struct
from collections.abc import Mapping
from pathlib import Path

from bridge.adapters import gitenv
from bridge.adapters.repo.packs import settle
from bridge.core import errors

MOST_PACKS = 50  # a look for what is not here costs 2 µs for each pack
_MEMORY = "64m"
_TOTAL = 8 + 255 * 4  # where an index says how many objects it has


def counts(git_dir: Path) -> tuple[int, int]:
    """How many objects the repository has, those that lie in two packs counted twice, and how many packs."""
    objects = packs = 0
    folder = git_dir / "objects"
    for index in (folder / "pack").glob("pack-*.idx"):
        with contextlib.suppress(OSError, struct.error), index.open("rb") as file:
            file.seek(_TOTAL)
            objects += struct.unpack(">I", file.read(4))[0]
            packs += 1
    with contextlib.suppress(OSError):
        for loose in os.scandir(folder):
            if len(loose.name) == 2 and loose.is_dir(follow_symlinks=False):
                objects += sum(1 for _ in os.scandir(loose.path))
    return objects, packs


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
