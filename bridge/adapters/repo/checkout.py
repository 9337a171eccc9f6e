"""The port `Repo` over the git directory of one checkout."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path

from bridge.adapters.gitenv import refuse_alternates
from bridge.adapters.repo import history, locks, maintenance, outgoing, receive
from bridge.adapters.repo.history import History
from bridge.adapters.repo.index import Index
from bridge.adapters.repo.packs import settle
from bridge.adapters.repo.refs import Refs
from bridge.adapters.repo.store import Store, damaged, plain, unreadable
from bridge.adapters.repo.trees import Trees
from bridge.adapters.repo.unmerged import Unmerged
from bridge.core import errors
from bridge.core.layout import LARGEST_STORED, MAIN
from bridge.core.model import CheckoutState, Commit, File, Kind, Touch

_CONFIG = "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n"
# What a person may be in the middle of, by the file that git keeps for it.
_UNDER_WAY = (
    ("MERGE_HEAD", "a merge is under way"),
    ("rebase-merge", "a rebase is under way"),
    ("rebase-apply", "a rebase, or the applying of mails, is under way"),
    ("CHERRY_PICK_HEAD", "a cherry-pick is under way"),
    ("REVERT_HEAD", "a revert is under way"),
    ("BISECT_LOG", "a bisect is under way"),
    ("sequencer", "a cherry-pick or revert of several commits is under way"),
)
_SPARSE = re.compile(rb"^\s*sparsecheckout\s*=\s*([^#;\n]*)", re.IGNORECASE | re.MULTILINE)
# Formats that would be misread rather than fail.
_FORMATS = re.compile(rb"^\s*(objectformat\s*=\s*\"?sha256|refstorage\s*=\s*\"?reftable)", re.IGNORECASE | re.MULTILINE)


class Repo:
    """The port `Repo`; for one thread at a time. `git_dir`: where git keeps what it keeps. `largest`: bytes of
    a blob that `read` gives. `reads` is called with a path before its working file is opened to be read (MERGE-12)."""

    def __init__(self, git_dir: Path) -> None:
        self.git_dir = git_dir
        self.largest = LARGEST_STORED
        self.reads: Callable[[str], None] = lambda path: None
        self._refs = Refs(git_dir)
        self._unmerged = Unmerged(git_dir / "index")
        self._load()

    def _load(self) -> None:
        self._store = Store(self.git_dir / "objects")
        self._trees = Trees(self._store)
        self._history = History(self._store, self._trees)
        self._index = Index(self.git_dir, self._store, self._trees, lambda path: self.reads(path))

    @classmethod
    def open(cls, directory: str | Path) -> Repo:
        """The checkout at `directory`, whose owner the caller has looked at.

        Raises Refused: kind "internal" (REPO-7) when its git directory is missing or damaged, kind "rule" when it is
        of a kind that cannot be worked with.
        """
        git_dir = Path(os.path.abspath(directory), ".git")
        try:
            if git_dir.is_symlink() or not git_dir.is_dir():
                raise damaged(f"{git_dir} is not a git directory")
            for name in ("objects", "refs"):
                if not (git_dir / name).is_dir():
                    raise damaged(f"{git_dir} has no {name}")
            _refuse_kinds(git_dir)
        except OSError as error:
            raise unreadable(str(git_dir), error) from error
        repo = cls(git_dir)
        repo._refs.head()
        return repo

    @classmethod
    def create(cls, directory: str | Path) -> Repo:
        """A new, empty git directory in `directory` (made when absent), HEAD on main, nothing else in it.

        Raises Refused(kind="rule") when there is one already, Transient(kind="disk").
        """
        place = Path(os.path.abspath(directory))
        git_dir, draft = place / ".git", place / ".git.tmp"
        try:
            place.mkdir(parents=True, exist_ok=True)
            if os.path.lexists(git_dir):
                raise errors.Refused(
                    f"{git_dir} is already there and was left as it is", kind="rule", rule="REPO-7",
                    advice="look at it with `git status`, or choose another directory with --soul",
                )  # fmt: skip
            if draft.is_dir():
                shutil.rmtree(draft)
            _draft(draft)
            draft.rename(git_dir)
            settle(place)
        except OSError as error:
            raise errors.Transient(f"cannot make {git_dir}: {error.strerror}", kind="disk") from error
        return cls.open(place)

    def recover(self) -> list[str]:
        """Clear away what a crash left (locks, half-written packs, damaged loose objects), at a start, while holding
        the process lock; a sentence for each thing done. Raises Transient(kind="disk")."""
        done = locks.recover(self.git_dir)
        if done:
            self.reopen()
        return done

    def maintain(self, *, most: int = maintenance.MOST_PACKS, deadline: float = 600.0) -> bool:
        """Put packs together when there are more than `most`; whether it was done. See `maintenance.repack`.

        What earlier passes read is not kept at hand beyond this: it is megabytes for each soul, and there may be many.
        """
        self.flush()
        self._store.forget()
        self._trees.forget()
        done = maintenance.repack(self.git_dir, self.refs("refs/"), most=most, deadline=deadline)
        if done:
            self.reopen()
        return done

    def reopen(self) -> None:
        """Look at the packs afresh, after a repack or a receive by another."""
        self._store.reopen()

    def close(self) -> None:
        """Let go of the packs. New objects that were not flushed are forgotten."""
        self.discard()
        self._store.close()

    # --- refs --------------------------------------------------------------------------------------------------------

    def tip(self, ref: str) -> str | None:
        """Commit that the full ref name points to, None when absent. Raises Refused(REPO-7) when it is damaged."""
        return self._refs.tip(ref)

    def move(self, ref: str, expected: str | None, new: str | None) -> None:
        """Point `ref` at `new` (None deletes) only if it is still `expected`; durable on return.

        Raises Moved, Transient(kind="busy"|"disk"), Refused(kind="internal") when `new` is no commit that is here.
        """
        if new is not None:
            self.info(new)
            self.flush()
        self._refs.move(ref, expected, new)

    def refs(self, prefix: str) -> dict[str, str]:
        """All refs whose names begin with a prefix, with their targets."""
        return self._refs.below(prefix)

    # --- objects -----------------------------------------------------------------------------------------------------

    def has(self, oid: str) -> bool:
        """Whether the object is here and, when loose, whole."""
        return self._store.has(oid)

    def read(self, oid: str) -> bytes:
        """See the port: what is larger than `largest` bytes is not read, whoever has sent it."""
        size = self.size(oid)
        if size > self.largest:
            raise errors.Held(
                f"larger than {self.largest} bytes ({size})",
                rule="TREE-6",
                advice="It stays in history. `hold_back_over` in the configuration says how large a file may be.",
            )
        return self._store.read("blob", oid)

    def size(self, oid: str) -> int:
        """Length of a blob in bytes. Raises as `read`."""
        kind, size = self._store.header(oid)
        if kind != "blob":
            raise damaged(f"object {oid} is a {kind}, not a blob")
        return size

    def write(self, content: bytes) -> str:
        """Id of a blob with these bytes, kept until flush."""
        return self._store.add("blob", content)

    def commit(self, tree: str, parents: Iterable[str], author: str, mail: str, message: str, time: int) -> str:
        """Id of a new commit; author and committer are the same, `time` in seconds UTC."""
        if not tree:
            self._store.add("tree", b"")
        return self._store.add("commit", history.compose(tree, parents, author, mail, message, time))

    def flush(self) -> None:
        """Make every new object durable, as one pack. Raises Transient(kind="disk")."""
        self._store.flush()

    def discard(self) -> None:
        """Forget new objects that were not flushed."""
        self._store.discard()

    def receive(self, pack: Iterable[bytes], *, deadline: float = 600.0, limit: int | None = None) -> None:
        """Bring a received pack into the repository, checked and durable; see `receive.index_pack`."""
        receive.index_pack(self.git_dir, pack, deadline=deadline, limit=limit)
        self._store.reopen()

    def pack(self, new: str, have: Collection[str]) -> bytes:
        """A pack with what is reachable from the commit `new` and not from the commits `have`, thin. Ids in `have`
        that are not here are left out of account. An object that only came back or moved may be sent again."""
        return outgoing.pack(self._store, self._trees, self._history, new, have)

    def reaches(self, tip: str, have: Collection[str] = ()) -> bool:
        """Whether everything reachable from `tip`, and not from the commits `have`, is here."""
        return outgoing.complete(self._store, self._trees, self._history, tip, have)

    # --- history and trees -------------------------------------------------------------------------------------------

    def info(self, commit: str) -> Commit:
        """A commit. Raises Refused(kind="internal") when it is not here."""
        return self._history.info(commit)

    def bases(self, one: str, other: str) -> list[str]:
        """Merge bases, newest committer time first, then lowest id; empty when the histories are unrelated."""
        return self._history.bases(one, other)

    def is_ancestor(self, old: str, new: str) -> bool:
        """Whether `new` is `old` or descends from it."""
        return self._history.is_ancestor(old, new)

    def touched(self, tip: str, path: str, since: str | None) -> Touch | None:
        """Last commit between `since` (exclusive, None: all) and `tip` that changed the path."""
        return self._history.touched(tip, path, since)

    def ever(self, tip: str, path: str, oid: str) -> bool:
        """Whether any commit reachable from `tip` has this blob at this path."""
        return self._history.ever(tip, path, oid)

    def log(self, tip: str, since: str | None = None) -> Iterator[Commit]:
        """Commits reachable from tip and not from `since`, children before parents, newest first."""
        return self._history.log(tip, since)

    def entry(self, tree: str, path: str) -> File | None:
        """The file, link or gitlink at a path; None when absent or a directory."""
        return self._trees.entry(tree, path)

    def kind(self, tree: str, path: str) -> Kind:
        """What the tree holds at a path."""
        return self._trees.kind(tree, path)

    def files(self, tree: str, under: str = "") -> Iterator[tuple[str, File]]:
        """All entries that are not directories, below a directory, sorted by path."""
        return self._trees.files(tree, under)

    def diff(self, old: str, new: str) -> dict[str, tuple[File | None, File | None]]:
        """Paths whose entries differ, old and new, sorted; equal subtrees are not opened."""
        return self._trees.diff(old, new)

    def edit(self, tree: str, changes: Mapping[str, File | None]) -> str:
        """Tree with these entries set or removed, "" when nothing is left; see `Trees.edit`."""
        return self._trees.edit(tree, changes)

    # --- a person's git ----------------------------------------------------------------------------------------------

    def state(self) -> CheckoutState:
        """What a person is doing here with git. Raises Refused(REPO-7) when HEAD is damaged, Transient."""
        head = self._refs.head()
        reasons = [words for name, words in _UNDER_WAY if os.path.lexists(self.git_dir / name)]
        if locks.young(self.git_dir, self.git_dir / "index.lock"):
            reasons.append("another git holds index.lock")
        if self._unmerged.found():
            reasons.append("a conflict of git is not resolved yet (`git status` names it, `git add` ends it)")
        if _is_sparse(self.git_dir):
            reasons.append("a sparse checkout hides files (`git sparse-checkout disable` shows them again)")
        return CheckoutState(head, "; ".join(reasons))

    def index(self, expected: str | None, new: str, absent: Collection[str] = ()) -> bool:
        """Bring git's index along from tree `expected` to tree `new`; see `Index.follow`. Never raises."""
        followed = self._index.follow(expected, new, absent)
        known = self._index.known()
        if known is not None:
            self._unmerged.learn(*known)
        return followed


def _is_sparse(git_dir: Path) -> bool:
    """Whether a person has git hide files of the checkout: they are gone, and nobody deleted them.

    Raises Transient where that cannot be told.
    """
    if not os.path.lexists(git_dir / "info" / "sparse-checkout"):
        return False
    said = []
    for name in ("config", "config.worktree"):
        try:
            with contextlib.suppress(FileNotFoundError):
                said.append(plain(git_dir / name))
        except OSError as error:
            raise errors.Transient(
                f"{git_dir / name} does not say whether files are hidden: {error.strerror}", kind="busy", rule="REPO-7",
                advice=f"Nothing was recorded; the files are safe. ls -l {git_dir / name}",
            ) from error  # fmt: skip
    # The second file's word counts where both have one.
    words = [match for content in said for match in _SPARSE.findall(content)]
    return bool(words) and words[-1].strip().lower() not in (b"false", b"no", b"off", b"0")


def _draft(draft: Path) -> None:
    """A git directory as `git init` without templates would make it, durable."""
    for name in ("objects/pack", "objects/info", "refs/heads", "refs/tags", "soul-bridge"):
        (draft / name).mkdir(parents=True)
    for name, text in (("config", _CONFIG), ("HEAD", f"ref: {MAIN}\n")):
        with open(draft / name, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
    for folder, _, _ in os.walk(draft, topdown=False):
        settle(Path(folder))


def _refuse_kinds(git_dir: Path) -> None:
    """Refuse git directories that would be misread. Raises Refused(kind="rule")."""
    refuse_alternates(git_dir)
    try:
        config = plain(git_dir / "config")
    except OSError:
        config = b""  # it is obeyed in nothing, so it need not be there
    for met, words, advice in (
        ((git_dir / "shallow").exists(), "is shallow: its history has been cut off", "git fetch --unshallow"),
        ((git_dir / "commondir").exists(), "is a linked worktree", "use the checkout that it is linked to"),
        (_FORMATS.search(config), "is in a format (sha256 or reftable) that is not supported", "clone it anew"),
    ):
        if met:
            raise errors.Refused(f"{git_dir} {words}; it was left as it is", kind="rule", rule="AUTH-7", advice=advice)
