"""What one commit has and others have not: collected for a push, or looked at for being complete."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from bridge.adapters.repo import packs
from bridge.adapters.repo.history import History
from bridge.adapters.repo.store import EMPTY_TREE, Store
from bridge.adapters.repo.trees import Entry, Trees
from bridge.core import errors
from bridge.core.model import GITLINK

_CHAIN = 40  # deltas upon deltas in one pack

# Kind and id of an object, and the id of what it takes the place of ("": of nothing).
_Found = tuple[str, str, str]


def pack(store: Store, trees: Trees, history: History, new: str, have: Collection[str]) -> bytes:
    """A thin pack of what is reachable from `new` and not from `have`. Raises Refused(kind="internal") when something
    of it is not here."""
    depth: dict[str, int] = {}

    def items() -> Iterator[packs.Item]:
        for kind, oid, old in _missing(store, trees, history, new, have):
            chain = depth.get(old, 0) + 1
            depth[oid] = chain if old and chain < _CHAIN else 0
            base = (old, store.read(kind, old)) if depth[oid] else None
            yield packs.Item(oid, kind, store.read(kind, oid), base)

    return packs.build(items())


def complete(store: Store, trees: Trees, history: History, tip: str, have: Collection[str]) -> bool:
    """Whether everything reachable from `tip`, and not from `have`, is here."""
    try:
        return all(store.has(oid) for _, oid, _ in _missing(store, trees, history, tip, have))
    except errors.Refused:
        return False


def _missing(store: Store, trees: Trees, history: History, new: str, have: Collection[str]) -> Iterator[_Found]:
    """Commits, then trees and blobs along what each commit changed; parents first, each object once."""
    known = [oid for oid in have if store.has(oid)]
    wanted = history.between([new], known)
    met: set[bytes] = set()
    ordered = history.ordered(wanted)
    for oid in reversed(ordered):
        yield "commit", oid, ""
    for oid in ordered:
        commit = history.info(oid)
        parents = [history.info(parent).tree for parent in commit.parents]
        yield from _below(trees, commit.tree or EMPTY_TREE, [tree or EMPTY_TREE for tree in parents], met)


def _below(trees: Trees, tree: str, before: list[str], met: set[bytes]) -> Iterator[_Found]:
    """What a tree holds that is in none of the trees before it, at the same place."""
    top = bytes.fromhex(tree)
    if top in met or tree in before:
        return
    met.add(top)
    yield "tree", tree, before[0] if before else ""
    stack = [(tree, before)]
    while stack:
        at, earlier = stack.pop()
        olds = [trees.folder(each) for each in earlier]
        for entry in trees.folder(at).values():
            twins = [old[entry.name] for old in olds if entry.name in old]
            if entry.oid in met or any(twin.oid == entry.oid for twin in twins) or _elsewhere(entry):
                continue
            met.add(entry.oid)
            alike = [twin.oid.hex() for twin in twins if twin.folder == entry.folder and not _elsewhere(twin)]
            yield "tree" if entry.folder else "blob", entry.oid.hex(), alike[0] if alike else ""
            if entry.folder:
                stack.append((entry.oid.hex(), alike))


def _elsewhere(entry: Entry) -> bool:
    """Whether the object is not of this repository: a gitlink's commit."""
    return not entry.folder and entry.file.mode == GITLINK
