"""Commits: read with every tolerance, and walked exactly, whatever their clocks said.

Committer times may lie (a body with a wrong clock), so walks are ordered by a *rank*: one more than the highest rank
of the parents, or the committer time where that is higher. A child always ranks above its parents, so a walk in this
order never meets a commit too late. Ranks are found once per commit and program run, down to the root, which takes
seconds where there are many. So a walk is first tried by plain times, and counts where it came down to one commit
that everything else is below of: then nothing can have been met too late.
"""

from __future__ import annotations

import contextlib
import heapq
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from bridge.adapters.repo.store import EMPTY_TREE, Store
from bridge.adapters.repo.trees import Trees, split
from bridge.core.model import Commit, Touch

_TIME = re.compile(rb"(-?\d{1,18})(?:\s+[-+]?\d+)?\s*\Z")
# Encodings that people's tools have declared; of all that Python knows, some take for ever and some raise anything.
_ENCODING = re.compile(
    r"(us-?)?ascii|utf-?(8|16)|latin-?\d+|iso-?8859-?\d+|iso-2022-(jp|kr)|(windows-?|cp)\d{3,4}|euc-?(jp|kr|cn)"
    r"|(shift[-_]?|s)jis|gbk|gb2312|gb18030|big5|koi8-?[ru]",
    re.IGNORECASE,
)
_LAST = 253_402_300_799  # the last second of the year 9999: later times cannot be shown
_PARENT, _OTHER, _STALE = 1, 2, 4
_NEAR = 2000  # commits that a walk by plain times may meet
LONGEST_MESSAGE = 1 << 20  # bytes of a message that are read; the rest stays in history
_LARGE = 1 << 16  # bytes of a commit beyond which it is read once
_KEPT = 256  # such commits kept at hand


@dataclass(frozen=True, slots=True)
class _Node:
    rank: int
    parents: tuple[str, ...]


class History:
    """The commits of one store."""

    def __init__(self, store: Store, trees: Trees) -> None:
        self._store = store
        self._trees = trees
        self._nodes: dict[str, _Node] = {}
        self._large: dict[str, Commit] = {}
        self._range: tuple[str, str, frozenset[str]] = ("", "", frozenset())

    def info(self, oid: str) -> Commit:
        """A commit. Raises Refused(kind="internal") when it is not here, damaged or not a commit."""
        known = self._large.get(oid)
        if known is None:
            raw = self._store.read("commit", oid)
            known = parse(oid, raw)
            if len(raw) > _LARGE:
                self._large[oid] = known
                if len(self._large) > _KEPT:
                    del self._large[next(iter(self._large))]
        return known

    def bases(self, one: str, other: str) -> list[str]:
        """Best common ancestors: newest first, then lowest id."""
        if one == other:
            self.info(one)
            return [one]
        found = self._paint({one: _PARENT, other: _OTHER}, _PARENT | _OTHER)
        best = [oid for oid, flags in found.items() if flags & 7 == _PARENT | _OTHER]
        return sorted(best, key=lambda oid: (-self.info(oid).time, oid))

    def is_ancestor(self, old: str, new: str) -> bool:
        """Whether `new` is `old` or descends from it."""
        if not self._store.has(old):
            return False  # all ancestors of what is here are here
        if old == new:
            self.info(new)
            return True
        near = self._near({new: _PARENT, old: _OTHER}, _PARENT | _OTHER)
        if near is not None:
            return bool(near[old] & _PARENT)
        floor = self._node(old).rank
        heap = [(-self._node(new).rank, new)]
        met = {new}
        while heap:
            rank, oid = heapq.heappop(heap)
            if oid == old:
                return True
            if -rank < floor:
                return False
            for parent in self._nodes[oid].parents:
                if parent not in met:
                    met.add(parent)
                    heapq.heappush(heap, (-self._node(parent).rank, parent))
        return False

    def between(self, tips: Iterable[str], since: Collection[str]) -> set[str]:
        """Commits reachable from `tips` and from none of `since`."""
        if not since:
            return self._reachable(tips)
        start = {oid: _PARENT for oid in tips}
        start.update({oid: _STALE for oid in since})
        found = self._paint(start, 0)
        return {oid for oid, flags in found.items() if not flags & _STALE}

    def _reachable(self, tips: Iterable[str]) -> set[str]:
        met = set(tips)
        stack = list(met)
        while stack:
            fresh = [parent for parent in self.info(stack.pop()).parents if parent not in met]
            met.update(fresh)
            stack += fresh
        return met

    def ordered(self, oids: Collection[str]) -> list[str]:
        """These commits, each behind those of its parents that are among them, the same everywhere."""
        return [commit.oid for commit in self._newest_first(set(oids))][::-1]

    def log(self, tip: str, since: str | None) -> Iterator[Commit]:
        """Commits reachable from tip and not from `since`, children before parents, newest first, then lowest id."""
        yield from self._newest_first(self.between([tip], [since] if since else []))

    def _newest_first(self, wanted: set[str]) -> Iterator[Commit]:
        """Children before parents, newest first, then lowest id."""
        waiting = dict.fromkeys(wanted, 0)
        for oid in wanted:
            for parent in set(self.info(oid).parents) & wanted:
                waiting[parent] += 1
        ready = [(-self.info(oid).time, oid) for oid, children in waiting.items() if not children]
        heapq.heapify(ready)
        while ready:
            commit = self.info(heapq.heappop(ready)[1])
            yield commit
            for parent in set(commit.parents) & wanted:
                waiting[parent] -= 1
                if not waiting[parent]:
                    heapq.heappush(ready, (-self.info(parent).time, parent))

    def touched(self, tip: str, path: str, since: str | None) -> Touch | None:
        """Follow, from tip, the first parent with the same entry, until none has it or `since` is reached."""
        inside = self._inside(tip, since)
        oid = tip
        while inside is None or oid in inside:
            commit = self.info(oid)
            entry = self._trees.entry(commit.tree, path)
            same = next((each for each in commit.parents if self._entry(each, path) == entry), None)
            if same is None:
                if not commit.parents and entry is None:
                    return None
                return Touch(commit.time, commit.body)
            oid = same
        return None

    def ever(self, tip: str, path: str, oid: str) -> bool:
        """Whether any commit reachable from tip has this blob at this path; each different folder is opened once."""
        names = split(path)
        wanted = bytes.fromhex(oid)
        known: dict[tuple[int, str], bool] = {}
        stack, met = [tip], {tip}
        while stack:
            commit = self.info(stack.pop())
            if self._holds(commit.tree, names, wanted, known):
                return True
            fresh = [parent for parent in commit.parents if parent not in met]
            met.update(fresh)
            stack += fresh
        return False

    def _holds(self, tree: str, names: list[bytes], wanted: bytes, known: dict[tuple[int, str], bool]) -> bool:
        opened = []
        for depth, name in enumerate(names):
            if (depth, tree) in known:
                return known[depth, tree]
            opened.append((depth, tree))
            entry = self._trees.folder(tree).get(name)
            if entry is None or entry.folder != (depth < len(names) - 1):
                break
            if not entry.folder and entry.oid == wanted:
                return True
            tree = entry.oid.hex()
        known.update(dict.fromkeys(opened, False))
        return False

    def _entry(self, commit: str, path: str) -> object:
        return self._trees.entry(self.info(commit).tree, path)

    def _inside(self, tip: str, since: str | None) -> frozenset[str] | None:
        """The commits of a range, remembered for the next path of the same merge; None: all there are."""
        if since is None:
            return None
        if self._range[:2] != (tip, since):
            self._range = (tip, since, frozenset(self.between([tip], [since])))
        return self._range[2]

    def _paint(self, start: dict[str, int], shared: int) -> dict[str, int]:
        """Carry flags from commits to their ancestors, highest rank first, until only stale ones are left.

        Commits that got all `shared` flags (if any) make their ancestors stale. Since a child is always met before
        its parents, the flags of a commit are complete when it is taken.
        """
        near = self._near(start, shared)
        if near is not None:
            return near
        flags = dict(start)
        heap = [(-self._node(oid).rank, oid) for oid in flags]
        heapq.heapify(heap)
        fresh = sum(1 for value in flags.values() if not value & _STALE)
        done: dict[str, int] = {}
        while heap and fresh:
            _, oid = heapq.heappop(heap)
            value = done[oid] = flags.pop(oid)
            fresh -= not value & _STALE
            passed = value | _STALE if shared and value & shared == shared else value
            for parent in self._nodes[oid].parents:
                before = flags.get(parent)
                if before is None:
                    heapq.heappush(heap, (-self._node(parent).rank, parent))
                after = flags[parent] = (before or 0) | passed
                fresh += (not after & _STALE) - (before is not None and not before & _STALE)
        return done

    def _near(self, start: dict[str, int], shared: int) -> dict[str, int] | None:
        """As `_paint`, by committer times. None where it does not come down to one stale commit soon, or where a
        commit was met too late.

        What was met cannot be below that commit: its own ancestors would have been met down to a root, and none was.
        """
        flags, done = dict(start), dict[str, int]()
        heap = [(-self.info(oid).time, oid) for oid in flags]
        heapq.heapify(heap)
        while heap and len(done) < _NEAR:
            _, oid = heapq.heappop(heap)
            value = done[oid] = flags.pop(oid)
            passed = value | _STALE if shared and value & shared == shared else value
            if not heap and passed & _STALE:
                return done
            parents = self.info(oid).parents
            if not parents:
                return None
            for parent in parents:
                if parent not in done:
                    if parent not in flags:
                        heapq.heappush(heap, (-self.info(parent).time, parent))
                    flags[parent] = flags.get(parent, 0) | passed
                elif passed & ~done[parent]:
                    return None
        return None

    def _node(self, oid: str) -> _Node:
        """Rank and parents of a commit; ancestors that are not known yet are read first."""
        known = self._nodes.get(oid)
        if known is not None:
            return known
        stack = [(oid, self.info(oid))]
        while stack:
            top, commit = stack[-1]
            unknown = [parent for parent in commit.parents if parent not in self._nodes]
            if unknown:
                stack += [(parent, self.info(parent)) for parent in unknown[:1]]
                continue
            rank = max([commit.time, *(self._nodes[parent].rank + 1 for parent in commit.parents)])
            self._nodes[top] = _Node(rank, commit.parents)
            stack.pop()
        return self._nodes[oid]


def parse(oid: str, raw: bytes) -> Commit:
    """A commit from its bytes; what is sloppy in the head is read as well as it can be (COMMIT-3)."""
    head, _, message = raw.partition(b"\n\n")
    tree, parents, author, committer, encoding = "", [], b"", b"", "utf-8"
    for line in head.split(b"\n"):
        key, _, value = line.partition(b" ")
        if key == b"tree" and not tree:
            tree = value.decode("ascii", "replace")
        elif key == b"parent":
            parents.append(value.decode("ascii", "replace"))
        elif key == b"author" and not author:
            author = value
        elif key == b"committer" and not committer:
            committer = value
        elif key == b"encoding":
            encoding = value.decode("ascii", "replace")
    name = author.partition(b"<")[0].rstrip()
    time = _TIME.search(committer[-64:])
    seconds = min(max(int(time[1]), 0), _LAST) if time else 0
    return Commit(
        oid,
        "" if tree == EMPTY_TREE else tree,
        tuple(parents),
        seconds,
        _text(name, encoding),
        _text(message[:LONGEST_MESSAGE], encoding),
    )


def compose(tree: str, parents: Iterable[str], author: str, mail: str, message: str, time: int) -> bytes:
    """The bytes of a commit, author and committer the same, in UTC. Raises ValueError for a name that breaks it."""
    if any(character in text for text in (author, mail) for character in "<>\n\0") or "\0" in message:
        raise ValueError("a name, mail or message cannot stand in a commit")
    who = f"{author} <{mail}> {time:d} +0000"
    head = [f"tree {tree or EMPTY_TREE}", *(f"parent {parent}" for parent in parents)]
    text = "\n".join([*head, f"author {who}", f"committer {who}", "", message.rstrip("\n") + "\n"])
    return text.encode("utf-8", "surrogateescape")


def _text(raw: bytes, encoding: str) -> str:
    if _ENCODING.fullmatch(encoding):
        with contextlib.suppress(UnicodeError, LookupError):
            return raw.decode(encoding)
    return raw.decode("utf-8", "replace")
