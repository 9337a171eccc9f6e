"""The seams: what the program asks of the outside, each a handful of verbs with its promise.

Every port has a real adapter in `bridge.adapters` and an in-memory twin in `bridge.fakes`; both pass the suite in
`tests/contract`. Adapters raise the families of `bridge.core.errors` and nothing else.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any, Protocol

from bridge.core.model import (
    CheckoutState,
    Commit,
    File,
    Kind,
    Leftover,
    Look,
    Presence,
    Reading,
    RemoteLook,
    SeenEntry,
    Stamp,
    Touch,
)


class Repo(Protocol):
    """Objects and refs of the checkout's git directory. Obeys no configuration and runs no hook (AUTH-7).

    New objects (write, edit, commit) are readable at once and kept in memory until `flush`, which makes all of them
    durable; `move` refuses a new tip that was never flushed by flushing first. Trees are named by oid; the absent
    tree is "".
    """

    def tip(self, ref: str) -> str | None:
        """Commit that the full ref name points to, None when absent."""

    def move(self, ref: str, expected: str | None, new: str | None) -> None:
        """Point `ref` at `new` (None deletes) only if it is still `expected` (None: absent); durable on return.

        Raises Moved when it is not, Transient when the disk is full or the ref is locked.
        """

    def refs(self, prefix: str) -> dict[str, str]:
        """All refs below a prefix such as "refs/soul-bridge/", with their targets."""

    def has(self, oid: str) -> bool:
        """Whether the object is here."""

    def read(self, oid: str) -> bytes:
        """Bytes of a blob. Raises Refused(kind="internal") when it is not here or damaged, Held(rule="TREE-6") when
        it is larger than any file that is taken in."""

    def size(self, oid: str) -> int:
        """Length of a blob in bytes."""

    def write(self, content: bytes) -> str:
        """Id of a blob with these bytes, kept until flush."""

    def commit(self, tree: str, parents: Iterable[str], author: str, mail: str, message: str, time: int) -> str:
        """Id of a new commit; author and committer are the same, `time` in seconds UTC."""

    def info(self, commit: str) -> Commit:
        """A commit. Raises Refused(kind="internal") when it is not here."""

    def entry(self, tree: str, path: str) -> File | None:
        """The file, link or gitlink at a path; None when absent or a directory."""

    def kind(self, tree: str, path: str) -> Kind:
        """What the tree holds at a path."""

    def files(self, tree: str, under: str = "") -> Iterator[tuple[str, File]]:
        """All entries that are not directories, below a directory, sorted by path."""

    def diff(self, old: str, new: str) -> dict[str, tuple[File | None, File | None]]:
        """Paths whose entries differ, old and new; cost follows what changed, equal subtrees are not opened."""

    def edit(self, tree: str, changes: Mapping[str, File | None]) -> str:
        """Tree with these entries set or removed; emptied directories vanish, other entries stay byte for byte.

        A change below a path that is a file in the tree replaces that file, unless the changes name it too.
        """

    def bases(self, one: str, other: str) -> list[str]:
        """Merge bases, newest committer time first, then lowest id; empty when the histories are unrelated."""

    def is_ancestor(self, old: str, new: str) -> bool:
        """Whether `new` is `old` or descends from it."""

    def touched(self, tip: str, path: str, since: str | None) -> Touch | None:
        """Last commit between `since` (exclusive, None: all) and `tip` that changed the path; a merge only if its
        entry differs from those of all parents."""

    def ever(self, tip: str, path: str, oid: str) -> bool:
        """Whether any commit reachable from `tip` has this blob at this path."""

    def log(self, tip: str, since: str | None = None) -> Iterator[Commit]:
        """Commits reachable from tip and not from `since`, children before parents, newest first."""

    def flush(self) -> None:
        """Make every new object durable, as one pack. Raises Transient(kind="disk")."""

    def discard(self) -> None:
        """Forget new objects that were not flushed."""

    def state(self) -> CheckoutState:
        """What a person is doing here with git."""

    def index(self, expected: str | None, new: str, absent: Collection[str] = ()) -> bool:
        """Bring git's index along from tree `expected` to tree `new`: entries equal to `expected` follow, staged ones
        stay, `absent` ones get skip-worktree. A locked or unknown index is left alone. False: try again, another git
        held it. Never raises."""

    def maintain(self) -> bool:
        """Put what was written in many pieces together, at rest and within a time; whether there was anything to do.

        Raises Transient."""


class Seen(Protocol):
    """What was last seen of each path, and what else this body must remember. Durable at the end of a transaction."""

    def transaction(self) -> AbstractContextManager[None]:
        """Group changes: all of them or none. Re-entrant; a change outside one is its own transaction."""

    def get(self, path: str) -> SeenEntry | None:
        """Entry of a path, None when nothing was seen there."""

    def put(self, path: str, entry: SeenEntry | None) -> None:
        """Remember or (None) forget a path."""

    def under(self, directory: str) -> dict[str, SeenEntry]:
        """All entries at or below a directory; "" is everything."""

    def count(self) -> int:
        """How many paths are seen."""

    def recall(self, name: str) -> Any:
        """A remembered JSON value, None when absent."""

    def remember(self, name: str, value: Any) -> None:
        """Remember a JSON value under a name; None forgets it."""


class Remote(Protocol):
    """The soul's remote repository over SSH, with this body's key only.

    Raises Transient (unreachable, silent, cut), Refused(kind="auth"|"hostkey"|"rejected"|"not-a-soul").
    """

    def fetch(self, known: Collection[str]) -> RemoteLook:
        """Read the remote's refs and, if its main is not in `known`, bring everything reachable from it into the
        repository, checked and durable. `known`: commits whose whole history is here."""

    def push(self, expected: str | None, new: str) -> None:
        """Move the remote's main from `expected` (None: absent) to `new`, a descendant of it (the caller checks).

        Returns only when the server said ok for that ref. Raises Moved when the tip is not `expected`, AnswerLost
        when it was sent and no answer came, Refused(kind="rejected") with the server's words.
        """

    def close(self) -> None:
        """Let go of the connection; the next call opens a new one. Never raises."""


class Tree(Protocol):
    """The working files of one checkout. Never follows a link, never opens what is not a regular file."""

    def presence(self) -> Presence:
        """What stands where the checkout should be."""

    def look(self, known: Mapping[str, SeenEntry], hints: Collection[str] | None) -> Look:
        """Stat everything (hints None) or only the hinted files and directories (recursively); `known` are the
        entries seen at or below what is looked at, and are looked at even where ignored."""

    def ignored(self, path: str) -> bool:
        """Whether the soul's own .gitignore files, as they are on disk now, name this path (TREE-4, TREE-8)."""

    def read(self, path: str, limit: int) -> Reading:
        """Bytes of a regular file of at most `limit` bytes. Raises Moved when it changed meanwhile, is gone or no
        longer regular, Held(rule="TREE-6") when larger or unreadable."""

    def replace(self, path: str, seen: SeenEntry, content: bytes, executable: bool) -> Stamp:
        """Swap in new content, durable, atomically; what came out is kept (GUARD-4). Keeps mode, owner and ACL.

        Raises Moved when the file is not as `seen` (by stamp) or someone has it open for writing,
        Held when the place cannot be written, Transient(kind="disk")."""

    def create(self, path: str, content: bytes, executable: bool) -> Stamp:
        """Make a new file and its directories; never replaces anything. Raises as `replace`."""

    def remove(self, path: str, seen: SeenEntry) -> None:
        """Take the file away (what came out is kept) and prune directories that became empty. Raises as `replace`."""

    def leftovers(self) -> list[Leftover]:
        """What is kept from exchanges, oldest first. After a crash, an exchange that never took place is undone."""

    def leftover(self, id: str) -> bytes:
        """Bytes of a leftover."""

    def keep(self, id: str, base: File, raw: str) -> None:
        """The leftover's present bytes (id `raw`) were recorded as `base`: from now on they are what is expected."""

    def drop(self, id: str) -> None:
        """Let go of a leftover."""


class Clock(Protocol):
    """The only reader of time."""

    def now(self) -> float:
        """Seconds since the epoch, UTC."""

    def boottime(self) -> float:
        """Seconds on a clock that only runs forward and through suspend."""

    def sleep(self, seconds: float) -> None:
        """Wait at least so long."""


class Facts(Protocol):
    """Where facts go: write-only, past tense, never the contents of files."""

    def bind_pass(self, id: str | None) -> None:
        """Name the pass that the next facts belong to; None: none."""

    def record(self, event: str, **fields: Any) -> None:
        """Write one fact, such as "commit.recorded". Never raises."""
