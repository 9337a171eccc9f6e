"""A git directory in memory: the same promises as `bridge.adapters.repo`, with flat trees and no files."""

from __future__ import annotations

import copy
import hashlib
import heapq
from collections.abc import Collection, Iterable, Iterator, Mapping
from types import MappingProxyType

from bridge.core import errors
from bridge.core.layout import MAIN
from bridge.core.model import CheckoutState, Commit, File, Kind, Touch, blob_id


class FakeRepo:
    """Objects by id, refs by name. `objects` outlive a crash, `staged` do not."""

    def __init__(self) -> None:
        self.objects: dict[str, object] = {}
        self.staged: dict[str, object] = {}
        self.names: dict[str, str] = {}
        self.checkout = CheckoutState(MAIN)
        self.indexed: str | None = None

    def __deepcopy__(self, memo: dict[int, object]) -> FakeRepo:
        """Objects never change, so a copy of the world shares them."""
        other = type(self)()
        memo[id(self)] = other
        vars(other).update({name: copy.copy(value) for name, value in vars(self).items()})
        return other

    def tip(self, ref: str) -> str | None:
        return self.names.get(ref)

    def move(self, ref: str, expected: str | None, new: str | None) -> None:
        if self.names.get(ref) != expected:
            raise errors.Moved(f"{ref} is {self.names.get(ref)}, not {expected}")
        if new in self.staged:
            self.flush()
        if new is None:
            self.names.pop(ref, None)
        else:
            self._commit(new)
            self.names[ref] = new

    def refs(self, prefix: str) -> dict[str, str]:
        return {name: oid for name, oid in sorted(self.names.items()) if name.startswith(prefix)}

    def has(self, oid: str) -> bool:
        return oid in self.objects or oid in self.staged

    def read(self, oid: str) -> bytes:
        content = self._object(oid)
        if not isinstance(content, bytes):
            raise errors.Refused(f"object {oid} is not a blob", kind="internal")
        return content

    def size(self, oid: str) -> int:
        return len(self.read(oid))

    def write(self, content: bytes) -> str:
        return self._stage(blob_id(content), content)

    def commit(self, tree: str, parents: Iterable[str], author: str, mail: str, message: str, time: int) -> str:
        parents = tuple(parents)
        body = f"{tree}\n{parents}\n{author} <{mail}> {time}\n\n{message}".encode("utf-8", "surrogateescape")
        oid = hashlib.sha1(b"commit " + body, usedforsecurity=False).hexdigest()
        return self._stage(oid, Commit(oid, tree, parents, time, author, message))

    def info(self, commit: str) -> Commit:
        return self._commit(commit)

    def entry(self, tree: str, path: str) -> File | None:
        return self._tree(tree).get(path)

    def kind(self, tree: str, path: str) -> Kind:
        files = self._tree(tree)
        if path in files:
            return Kind.FILE
        prefix = path + "/"
        return Kind.DIRECTORY if any(name.startswith(prefix) for name in files) else Kind.ABSENT

    def files(self, tree: str, under: str = "") -> Iterator[tuple[str, File]]:
        for path, file in sorted(self._tree(tree).items()):
            if not under or path.startswith(under + "/"):
                yield path, file

    def diff(self, old: str, new: str) -> dict[str, tuple[File | None, File | None]]:
        before, after = self._tree(old), self._tree(new)
        return {
            path: (before.get(path), after.get(path))
            for path in sorted(before.keys() | after.keys())
            if before.get(path) != after.get(path)
        }

    def edit(self, tree: str, changes: Mapping[str, File | None]) -> str:
        files = dict(self._tree(tree))
        for path in changes:
            files.pop(path, None)
        for path, file in changes.items():
            if file is not None:
                for other in [name for name in files if name.startswith(path + "/") or path.startswith(name + "/")]:
                    del files[other]
                files[path] = file
        if not files:
            return ""
        text = "\n".join(f"{file.mode:o} {file.oid} {path!r}" for path, file in sorted(files.items()))
        oid = hashlib.sha1(b"tree " + text.encode("utf-8", "surrogateescape"), usedforsecurity=False).hexdigest()
        return self._stage(oid, MappingProxyType(files))

    def bases(self, one: str, other: str) -> list[str]:
        shared = self.ancestors(one) & self.ancestors(other)
        nested: set[str] = set()
        for oid in shared:
            for parent in self._commit(oid).parents:
                nested |= self.ancestors(parent)
        return sorted(shared - nested, key=lambda oid: (-self._commit(oid).time, oid))

    def is_ancestor(self, old: str, new: str) -> bool:
        return old in self.ancestors(new)

    def touched(self, tip: str, path: str, since: str | None) -> Touch | None:
        excluded = self.ancestors(since) if since else frozenset()
        oid = tip
        while oid not in excluded:
            commit = self._commit(oid)
            file = self.entry(commit.tree, path)
            if not commit.parents and file is None:
                return None
            same = [parent for parent in commit.parents if self.entry(self._commit(parent).tree, path) == file]
            if not same:
                return Touch(commit.time, commit.body)
            oid = same[0]
        return None

    def ever(self, tip: str, path: str, oid: str) -> bool:
        entries = (self.entry(self._commit(commit).tree, path) for commit in self.ancestors(tip))
        return any(entry is not None and entry.oid == oid for entry in entries)

    def log(self, tip: str, since: str | None = None) -> Iterator[Commit]:
        wanted = self.ancestors(tip) - (self.ancestors(since) if since else frozenset())
        children = {oid: 0 for oid in wanted}
        for oid in wanted:
            for parent in self._commit(oid).parents:
                if parent in children:
                    children[parent] += 1
        ready = [(-self._commit(oid).time, oid) for oid, count in children.items() if not count]
        heapq.heapify(ready)
        while ready:
            commit = self._commit(heapq.heappop(ready)[1])
            yield commit
            for parent in commit.parents:
                if parent in children:
                    children[parent] -= 1
                    if not children[parent]:
                        heapq.heappush(ready, (-self._commit(parent).time, parent))

    def flush(self) -> None:
        self.objects.update(self.staged)
        self.staged.clear()

    def discard(self) -> None:
        self.staged.clear()

    def state(self) -> CheckoutState:
        return self.checkout

    def index(self, expected: str | None, new: str, absent: Collection[str] = ()) -> bool:
        self.indexed = new
        return True

    def maintain(self) -> bool:
        """As `Repo.maintain`: there is nothing to put together in memory."""
        return False

    def ancestors(self, tip: str) -> frozenset[str]:
        """All commits reachable from `tip`, itself included."""
        known = self._reachable
        if tip in known:
            return known[tip]
        stack = [tip]
        while stack:
            oid = stack[-1]
            missing = [parent for parent in self._commit(oid).parents if parent not in known]
            if missing:
                stack.extend(missing)
                continue
            known[oid] = frozenset({oid}).union(*(known[parent] for parent in self._commit(oid).parents))
            stack.pop()
        return known[tip]

    _reachable: dict[str, frozenset[str]] = {}  # ids never change their meaning, so all fakes may share it

    def _stage(self, oid: str, content: object) -> str:
        if oid not in self.objects:
            self.staged[oid] = content
        return oid

    def _object(self, oid: str) -> object:
        found = self.staged.get(oid, self.objects.get(oid))
        if found is None:
            raise errors.Refused(f"object {oid} is not here", kind="internal")
        return found

    def _commit(self, oid: str) -> Commit:
        found = self._object(oid)
        if not isinstance(found, Commit):
            raise errors.Refused(f"object {oid} is not a commit", kind="internal")
        return found

    def _tree(self, oid: str) -> Mapping[str, File]:
        if not oid:
            return {}
        found = self._object(oid)
        if not isinstance(found, MappingProxyType):
            raise errors.Refused(f"object {oid} is not a tree", kind="internal")
        return found
