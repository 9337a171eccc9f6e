"""What a merge may ask about its two sides, and what is settled for one path before any rule of its own is asked.

Rules: MERGE-1.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

from bridge.core import layout
from bridge.core.errors import Held
from bridge.core.model import Content, Decision, File, Kind, Lost, Touch, Triple, blob_id

Version = File | Content


def _never(path: str, oid: str) -> bool:
    return False


def _always(path: str, oid: str) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Facts:
    """What the rules need to know beyond the three trees; whatever costs something is asked only when a rule needs it.

    read: bytes of a regular file's blob. touched_…: the last commit of that side since base that changed the path
    (in `record` ours is the instant of the merge and this body). kind_…: what that side's whole tree holds at a path.
    now: seconds since the epoch on the merging body's clock; clock_wrong: it is known to be wrong (MERGE-6).
    identity: the published id of the soul, None before there is one. joining: nothing was seen yet (REPO-6), so that
    an absent base does not mean that the path is new. late: files and folders of which that is still so, for they could
    not be read then. published: whether a path ever held this blob in what is published; asked only of what may be an
    old copy. recorded: whether our history holds this blob at a path; asked only of what is put back, and always so of
    two tips that are merged.
    """

    read: Callable[[str], bytes]
    touched_ours: Callable[[str], Touch | None]
    touched_theirs: Callable[[str], Touch | None]
    kind_ours: Callable[[str], Kind]
    kind_theirs: Callable[[str], Kind]
    now: int
    clock_wrong: bool = False
    identity: str | None = None
    joining: bool = False
    late: Collection[str] = ()
    published: Callable[[str, str], bool] = _never
    recorded: Callable[[str, str], bool] = _always

    def joins(self, path: str, triple: Triple) -> bool:
        """Whether ours was never seen, and may have lain there before the soul came (REPO-6)."""
        if triple.base is not None:
            return False
        return self.joining or any(each in self.late for each in (path, *layout.parents(path)))

    def content(self, file: File | None) -> bytes | None:
        """Bytes of a version; None for what is absent, is no regular file (a gitlink's bytes are nowhere), or is
        larger than any file that is taken in (TREE-6)."""
        try:
            return self.read(file.oid) if file is not None and file.regular else None
        except Held:
            return None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What becomes of one path, which versions lost it, and what was decided."""

    version: Version | None
    lost: tuple[Lost, ...] = ()
    decisions: tuple[Decision, ...] = ()


def same(one: File | None, other: File | None) -> bool:
    """Whether two versions have the same bytes: the executable bit aside, but a link is not a file."""
    if one is None or other is None:
        return one is other
    return one.oid == other.oid and (one.mode == other.mode or (one.regular and other.regular))


def settled(triple: Triple) -> Outcome | None:
    """What MERGE-1 takes where at most one side changed the bytes, or both to the same; None otherwise."""
    if same(triple.ours, triple.theirs) or same(triple.base, triple.ours):
        return Outcome(triple.theirs)
    return Outcome(triple.ours) if same(triple.base, triple.theirs) else None


def with_bit(version: Version | None, triple: Triple) -> Version | None:
    """The version with the executable bit, which is merged by itself: both changed it → theirs."""
    if version is None or (isinstance(version, File) and not version.regular):
        return version
    base, ours, theirs = (
        file.mode if file is not None and file.regular else None for file in (triple.base, triple.ours, triple.theirs)
    )
    mode = ours if theirs is None or (ours is not None and theirs == base) else theirs
    return version if mode is None else replace(version, mode=mode)


def made(data: bytes, triple: Triple) -> Version:
    """New bytes of a path, as the version that has them where there is one."""
    oid = blob_id(data)
    there = (file for file in (triple.theirs, triple.ours, triple.base) if file is not None)
    return next((file for file in there if file.regular and file.oid == oid), Content(data))


def identify(version: Version) -> File:
    """A version as the file it is stored as."""
    return version if isinstance(version, File) else File(blob_id(version.data), version.mode)


def dropped(path: str, triple: Triple, version: Version | None) -> tuple[Lost, ...]:
    """The versions of a path that are neither its result nor its base, and so have to be kept elsewhere."""
    kept = (triple.base, None if version is None else identify(version))
    sides = (("ours", triple.ours), ("theirs", triple.theirs))
    return tuple(
        Lost(path, file, side) for side, file in sides if file is not None and not any(same(file, one) for one in kept)
    )
