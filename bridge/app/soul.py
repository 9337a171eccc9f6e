"""One soul in one body: its ports, its limits, and what the passes of one process remember."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

from bridge.core import bodies, commits, identity, layout, newest
from bridge.core.errors import Held, SoulError
from bridge.core.layout import MAIN
from bridge.core.lease import Sighting
from bridge.core.model import File, SeenEntry
from bridge.core.plan import Watching
from bridge.core.ports import Clock, Facts, Remote, Repo, Seen, Tree

KNOWN = "main"  # remembered: where we left main


@dataclass(frozen=True, slots=True)
class Limits:
    """Durations in seconds and sizes in bytes from the configuration."""

    settle: float = 0.5
    guard: float = 60.0
    heartbeat: float = 86400.0
    hold_back_over: int = 50 * 1024 * 1024


def _always(path: str, since: float) -> bool:
    return True


def _unheard(path: str, began: float) -> AbstractContextManager[None]:
    """Nobody watches who reads."""
    return nullcontext()


def _unknown() -> str | None:
    return None


def _admitted(content: bytes) -> None:
    """Nothing is the matter."""


def _fit() -> None:
    """Nothing is the matter."""


@dataclass
class Soul:
    """The ports of one soul, and what only the present process knows.

    watching: changes going on in the working files. at_start: nothing was looked at whole yet. owed: hints that no
    look has followed yet, None: everything. waiting: why paths wait that were read but not recorded. unplaced: paths
    of the tree that are not materialised here, with the reason. company: boottime at which another body's commit was
    last merged. indexing: seconds that writing git's index took. index_due: boottime at which it is to follow, None:
    nothing waits for that. sighting: what looks at the lease found.
    frozen: directories that are not materialised, because a consolidation reads them (MERGE-12). lost: another lease
    than that consolidation's was read. born: since when this memory is where it is, epoch seconds; before that, it
    may have been another copy's. was_read: whether the agent closed a file after reading it since a boottime;
    true where nobody can tell (MERGE-12). replacing: around an exchange of a file that began at a boottime, for who
    tells its readers apart. recorded: what a file held at a boottime has been recorded. boot: which start of the
    machine this is; what was remembered with a boottime of another one is of an unknown age. key: the fingerprint of
    this body's deploy key, None: not known.
    strange: by path of another body, the commit whose history never held the blob that stands there (MERGE-9).
    ended: the outcome of the last pass, a `sync.Outcome`.
    placed, unrecorded: raise Refused for a private key inside the checkout, and for one that history has (CONTENT-2).
    admit: raises Held for bytes that are this body's private key (AUTH-2).
    """

    agent: str
    body: str
    repo: Repo
    seen: Seen
    remote: Remote
    tree: Tree
    clock: Clock
    facts: Facts
    limits: Limits = field(default_factory=Limits)
    host: str | None = None
    version: str = "0"
    watching: Watching = field(default_factory=Watching)
    at_start: bool = True
    owed: frozenset[str] | None = None
    waiting: dict[str, tuple[str, str]] = field(default_factory=dict)
    unplaced: dict[str, tuple[str, str]] = field(default_factory=dict)
    ignored: frozenset[str] = frozenset()
    passes: int = 0
    ended: object = None
    company: float | None = None
    indexing: float = 0.0
    index_due: float | None = None
    sighting: Sighting | None = None
    frozen: tuple[str, ...] = ()
    lost: bool = False
    born: float = math.inf
    was_read: Callable[[str, float], bool] = _always
    replacing: Callable[[str, float], AbstractContextManager[None]] = _unheard
    recorded: Callable[[str, float], object] = _unheard
    key: Callable[[], str | None] = _unknown
    placed: Callable[[], None] = _fit
    unrecorded: Callable[[], None] = _fit
    admit: Callable[[bytes], None] = _admitted
    boot: str = ""
    strange: dict[str, tuple[str, str]] = field(default_factory=dict)

    def head(self) -> str | None:
        """Where main stands, by what we know: a person may have moved the ref since (REPO-7)."""
        known: str | None = self.seen.recall(KNOWN)
        return known or self.repo.tip(MAIN)

    def tree_of(self, commit: str | None) -> str:
        """The tree of a commit, "" when there is none."""
        return self.repo.info(commit).tree if commit else ""

    def content(self, file: File | None) -> bytes | None:
        """Bytes of an entry of a tree; None when it is absent, no regular file, or too large to be one of ours."""
        try:
            return self.repo.read(file.oid) if file is not None and file.regular else None
        except Held:
            return None

    def seen_file(self, path: str) -> File | None:
        """The version that was last seen in a working file, None when none was."""
        entry = self.seen.get(path)
        return entry.file if entry is not None else None

    def display_name(self, tree: str) -> str:
        """The agent's displayed name by its identity in a tree, else its name."""
        name = (identity.read(self.content(self.repo.entry(tree, identity.PATH))) or {}).get("displayName")
        return name if isinstance(name, str) and name else self.agent

    def commit(
        self,
        tree: str,
        parents: list[str],
        words: str,
        trailers: list[tuple[str, str]] | None = None,
        time: int | None = None,
    ) -> str:
        """A new commit by this body (COMMIT-1), not yet on any branch.

        words: the description. time: seconds UTC, None: now.
        """
        author = commits.author(self.display_name(tree), self.body)
        message = commits.message(words, self.body, trailers or [])
        time = self.moment(parents) if time is None else time
        return self.repo.commit(tree, parents, author, commits.mail(self.agent, self.body), message, time)

    def moment(self, parents: Collection[str]) -> int:
        """The time that a new commit on top of these gets: seconds UTC."""
        return newest.moment(self.clock.now(), (self.repo.info(parent).time for parent in parents))

    def registered(self, tree: str) -> frozenset[str]:
        """The bodies that the registry in a tree names."""
        return bodies.registered([path for path, _ in self.repo.files(tree, "bodies")])

    def store(self, content: bytes, path: str, mode: int) -> File:
        """The file that working bytes become in the object store (TREE-5: text is stored with LF)."""
        return File(self.repo.write(layout.stored(content, path)), mode)


@dataclass(frozen=True, slots=True)
class Order:
    """What a pass is asked to do.

    hints: paths to look at, None for everything. waive: do not wait for `settle` (GUARD-1). now: end the waits of
    GUARD-2 and GUARD-3. remote: ask the remote. publish: speak to it when there is something to publish.
    """

    hints: frozenset[str] | None = None
    waive: bool = False
    now: bool = False
    remote: bool = True
    publish: bool = True


@dataclass(frozen=True, slots=True)
class Apart:
    """A withheld path as this pass found it. changed: not as seen; then version (None: gone), and what seen becomes."""

    changed: bool
    version: File | None = None
    entry: SeenEntry | None = None


@dataclass
class Progress:
    """What a pass has done so far; the outcome is made from it.

    again: paths worth a look at once. young: written by us so shortly ago that they are to be read once more.
    back: files that are gone and to be put back. pending: unsettled and waiting paths. deadline: boottime of
    the next look that is worth it. took: seconds the push took. tries: pushes sent.
    apart: withheld paths that may be tried again. held: paths that the server refused in this pass (REPO-8).
    """

    recorded: list[str] = field(default_factory=list)
    merged: list[str] = field(default_factory=list)
    written: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    fetched: bool = False
    pushed: bool = False
    moved: bool = False
    remote_tip: str | None = None
    problem: SoulError | None = None
    notes: list[str] = field(default_factory=list)
    again: set[str] = field(default_factory=set)
    young: set[str] = field(default_factory=set)
    back: set[str] = field(default_factory=set)
    pending: set[str] = field(default_factory=set)
    deadline: float | None = None
    took: float = 0.0
    tries: int = 0
    apart: dict[str, Apart] = field(default_factory=dict)
    held: frozenset[str] = frozenset()

    def due(self, boottime: float) -> None:
        """Something is worth another look at this boottime."""
        self.deadline = boottime if self.deadline is None else min(self.deadline, boottime)
