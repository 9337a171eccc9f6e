"""The remote in memory: a server is a FakeRepo with refs/heads/main, and every fault is played on request."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from bridge.core.errors import AnswerLost, Moved, Refused, SoulError, Transient
from bridge.core.layout import MAIN
from bridge.core.model import RemoteLook

if TYPE_CHECKING:
    from bridge.fakes.repo import FakeRepo


# What the server's hook says about a push: "" accepts, words refuse. Called with (server, expected, new).
Hook = Callable[["FakeRepo", str | None, str], str]


def accept(server: FakeRepo, expected: str | None, new: str) -> str:
    """The hook of a server that takes everything."""
    return ""


class FakeRemote:
    """One body's way to a server. Faults stay until taken back, except those that are counted.

    refusal: raised by fetch and push (a revoked key). push_refusal: raised by push only (a read-only key).
    unreachable: nothing gets through. drops: so many pushes arrive and lose their answer. swallows: so many pushes
    never arrive, and lose their answer. hook: judges what is pushed. fetches, pushes: how often each was asked for.
    """

    def __init__(self, server: FakeRepo, local: FakeRepo, hook: Hook = accept) -> None:
        self.server = server
        self.local = local
        self.hook = hook
        self.unreachable = False
        self.refusal: SoulError | None = None
        self.push_refusal: SoulError | None = None
        self.drops = 0
        self.swallows = 0
        self.fetches = 0
        self.pushes = 0

    def fetch(self, known: Collection[str]) -> RemoteLook:
        """As the port says."""
        self.fetches += 1
        self._reach()
        tip = self.server.tip(MAIN)
        if tip is not None and tip not in known:
            _copy(self.server, self.local, tip)
        return RemoteLook(tip, tuple(sorted(ref for ref in self.server.refs("refs/") if ref != MAIN)))

    def push(self, expected: str | None, new: str) -> None:
        """As the port says."""
        self.pushes += 1
        self._reach()
        if self.push_refusal is not None:
            raise self.push_refusal
        if self.server.tip(MAIN) != expected:
            raise Moved("the remote's main moved")
        if self.swallows > 0:
            self.swallows -= 1
            raise AnswerLost("the connection was cut before the push arrived")
        if not self.local.has(new):
            raise Refused(f"commit {new} is not here", kind="internal")
        self._receive(expected, new)
        if self.drops > 0:
            self.drops -= 1
            raise AnswerLost("the connection was cut before the answer came")

    def close(self) -> None:
        """As the port says."""

    def probe_write(self) -> None:
        """Ask whether this body may write, writing nothing. Raises as `push`."""
        self._reach()
        if self.push_refusal is not None:
            raise self.push_refusal

    def revoke(self, words: str = "Permission denied (publickey).") -> None:
        """Take this body's key off the server."""
        self.refusal = Refused(words, kind="auth", rule="AUTH-5", advice="authorise the key again")

    def make_read_only(self, words: str = "The key is read only.") -> None:
        """Leave this body's key the right to read alone."""
        self.push_refusal = Refused(words, kind="auth", rule="AUTH-3", advice="allow write access")

    def heal(self) -> None:
        """End every fault of this body's way; the server keeps its hook and its history."""
        self.unreachable = False
        self.refusal = self.push_refusal = None
        self.drops = self.swallows = 0

    def rewrite(self, commit: str | None) -> None:
        """Put the server's main anywhere: on an ancestor (a restored backup), elsewhere (rewritten), or away."""
        self.server.move(MAIN, self.server.tip(MAIN), commit)

    def _reach(self) -> None:
        if self.unreachable:
            raise Transient("the remote cannot be reached", kind="network")
        if self.refusal is not None:
            raise self.refusal

    def _receive(self, expected: str | None, new: str) -> None:
        """As receive-pack does it: the hook sees the new objects, a refusal leaves none of them behind."""
        brought = _copy(self.local, self.server, new)
        words = self.hook(self.server, expected, new)
        if words:
            for oid in brought:
                del self.server.objects[oid]
            raise Refused(words, kind="rejected", rule="REPO-8", advice="the server refused what is in the push")
        self.server.move(MAIN, expected, new)


def _copy(source: FakeRepo, target: FakeRepo, tip: str) -> list[str]:
    """Bring what is reachable from `tip` and nothing else, durable; gives the ids that were new."""
    brought: list[str] = []
    waiting = [tip]
    while waiting:
        oid = waiting.pop()
        if oid in target.objects:
            continue
        commit = source.info(oid)
        wanted = {oid, commit.tree} - {""} | {file.oid for _, file in source.files(commit.tree) if file.regular}
        for new in wanted - target.objects.keys():
            target.objects[new] = source.staged.get(new, source.objects.get(new))
            brought.append(new)
        waiting.extend(commit.parents)
    return brought
