"""The words of the program as values: what a file, a commit, a look at the world and a merge are.

Paths are `str` with `/`, relative to the soul, decoded with surrogateescape. Ids (`oid`) are git's 40 hex digits.
"""

from __future__ import annotations

import enum
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field

PLAIN = 0o100644
EXECUTABLE = 0o100755
LINK = 0o120000
GITLINK = 0o160000
DIRECTORY = 0o040000


def blob_id(content: bytes) -> str:
    """Git's id of a blob with these bytes."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


@dataclass(frozen=True, slots=True)
class File:
    """One entry of a tree: the id of its stored bytes (LF) and its git mode."""

    oid: str
    mode: int = PLAIN

    @property
    def regular(self) -> bool:
        """Whether it is a file with bytes, not a link or a gitlink."""
        return self.mode in (PLAIN, EXECUTABLE)


@dataclass(frozen=True, slots=True)
class Content:
    """New bytes that a merge made, not stored yet."""

    data: bytes
    mode: int = PLAIN


@dataclass(frozen=True, slots=True)
class Stamp:
    """Stat identity of a working file: equal stamps mean "the same bytes as when we looked"."""

    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int
    executable: bool = False


@dataclass(frozen=True, slots=True)
class SeenEntry:
    """What was last read from, or written to, a working file.

    `raw` is the id of the bytes on disk, `file` their stored form. `racy`: the file was under 2 s old when it was
    looked at, so an equal stamp proves nothing yet.
    """

    file: File
    raw: str
    stamp: Stamp
    racy: bool = False


@dataclass(frozen=True, slots=True)
class Reading:
    """Bytes read from an open file, whose stamp was the same before and after. `busy`: someone has it open to write."""

    content: bytes
    stamp: Stamp
    busy: bool = False


@dataclass(frozen=True, slots=True)
class Look:
    """One look at the working files.

    files: regular files by path. special: paths that are neither a file nor gone, each with (rule, reason): links,
    pipes, nested repositories, unreadable things. gone: known paths that are ENOENT below real, readable
    directories. complete: whether everything was looked at, or only what the hints named. ignored: paths that
    the soul's .gitignore left out, a directory for everything in it.
    """

    files: Mapping[str, Stamp]
    special: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    gone: frozenset[str] = frozenset()
    complete: bool = True
    ignored: frozenset[str] = frozenset()


class Presence(enum.Enum):
    """What stands where the checkout should be (GUARD-2, REPO-7)."""

    PRESENT = "present"
    MISSING = "missing"
    EMPTY = "empty"
    FOREIGN = "foreign"  # another repository than the one the state knows
    UNMARKED = "without its mark"  # its id is empty, and nothing else shows that it is the one the state knows
    NO_GIT = "no git directory"  # soul files without a usable .git


@dataclass(frozen=True, slots=True)
class Leftover:
    """A file that left its name in an exchange and is still kept (GUARD-4).

    path, base: the working path and the seen version it was taken for (None: nothing). raw: the id of the bytes that
    were expected to come out. new: the id of the bytes that took its name, "" where it was removed. changed: its bytes
    are not those that were expected. busy: someone has it open for writing. age: seconds since it last changed.
    """

    id: str
    path: str
    base: File | None
    raw: str
    new: str
    changed: bool
    busy: bool
    age: float


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit. `time`: committer time, seconds since the epoch. `body`: who made it (COMMIT-3)."""

    oid: str
    tree: str
    parents: tuple[str, ...]
    time: int
    author: str
    message: str

    @property
    def body(self) -> str:
        """The body that made it: the last "(…)" of the author's name, "" when there is none (COMMIT-3)."""
        name = self.author.rstrip()
        for opening, closing in (("(", ")"), ("（", "）")):
            if name.endswith(closing) and opening in name:
                return name[name.rindex(opening) + 1 : -1].strip()
        return ""


@dataclass(frozen=True, slots=True)
class Touch:
    """The last commit on one side that changed a path: when, by which body."""

    time: int
    body: str


@dataclass(frozen=True, slots=True)
class Triple:
    """One path in three trees; None is absent."""

    base: File | None
    ours: File | None
    theirs: File | None


@dataclass(frozen=True, slots=True)
class Lost:
    """A version that lost a merge and must stay reachable: which path, which file, which side had it."""

    path: str
    file: File
    side: str  # "ours" or "theirs"


@dataclass(frozen=True, slots=True)
class Decision:
    """One thing a merge decided beyond the obvious: for messages, events and reports."""

    path: str
    rule: str
    words: str


@dataclass(frozen=True, slots=True)
class Merged:
    """The result of a merge of trees.

    files: for every path looked at, and for every path the merge invented, what the result holds there: an existing
    file, new content, or None for absent. lost: versions that are in none of the result. decisions: what was decided.
    """

    files: Mapping[str, File | Content | None]
    lost: tuple[Lost, ...] = ()
    decisions: tuple[Decision, ...] = ()


@dataclass(frozen=True, slots=True)
class Problem:
    """A broken rule of form (`validate`): which rule, where (line 0: the whole file), what is wrong."""

    rule: str
    path: str
    line: int
    message: str


class Kind(enum.Enum):
    """What a tree holds at a path."""

    ABSENT = "absent"
    FILE = "file"
    DIRECTORY = "directory"


@dataclass(frozen=True, slots=True)
class RemoteLook:
    """What the remote said: the tip of its main (None: absent) and the names of its other refs."""

    tip: str | None
    others: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CheckoutState:
    """What a person is doing with git in the checkout (REPO-7).

    head: the full name of the ref HEAD names, or None when it is detached. busy: a sentence naming what is going on
    (a rebase, a young index.lock, …), "" when nothing is.
    """

    head: str | None
    busy: str = ""
