"""The soul's remote over one SSH session that stays open: git's own protocol, every step within a time."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

from bridge.adapters import wire
from bridge.adapters.remote.session import Access, Session, SshChannel, offered
from bridge.adapters.wire import Advertisement, Limits, Wire
from bridge.core.errors import Moved, Refused, SoulError, Transient
from bridge.core.model import Commit, RemoteLook
from bridge.core.ports import Clock
from bridge.core.words import advice, may_pass

__all__ = ["Access", "Objects", "Patience", "Remote", "offered"]

HAVES = 256  # commits named to the server as common; more would not make a pack smaller
REACH = 128  # commits that are read to find some to name, each time something new is fetched
WORTH_TELLING = 2**20  # bytes of a pack from which on a push takes a while
DOUBTS = 3  # so many times the same push may fail for a reason that could pass by itself


class Objects(Protocol):
    """What the remote needs of a repository."""

    def has(self, oid: str) -> bool:
        """Whether the object is here."""

    def info(self, commit: str) -> Commit:
        """A commit that is here."""

    def is_ancestor(self, old: str, new: str) -> bool:
        """Whether `new` is `old` or descends from it."""

    def receive(self, chunks: Iterable[bytes]) -> None:
        """Take in a pack, checked and durable, or nothing at all."""

    def pack(self, new: str, have: Collection[str]) -> bytes:
        """A pack of what is reachable from `new` and not from `have`."""


@dataclass(frozen=True, slots=True)
class Patience:
    """Seconds: connecting and logging in, each; a whole look; a whole transfer; a session's greatest age."""

    step: float = 15.0
    look: float = 60.0
    transfer: float = 1800.0
    age: float = 600.0
    limits: Limits = field(default_factory=Limits)


class Remote:
    """The port `Remote` on paramiko. One thread uses it; `close` may come from another one, and cuts what goes on.

    `tell` hears about once a second how far a long transfer is.
    """

    def __init__(
        self,
        access: Access,
        repo: Objects,
        clock: Clock,
        patience: Patience = Patience(),  # noqa: B008
        tell: Callable[[str], None] = lambda words: None,
    ) -> None:
        self._access = access
        self._tell = tell
        self._repo = repo
        self._clock = clock
        self._patience = patience
        self._session: Session | None = None
        self._closes = 0
        self._doubts: tuple[str, int] = ("", 0)

    def fetch(self, known: Collection[str]) -> RemoteLook:
        """As the port says."""
        with self._served("git-upload-pack", self._patience.transfer) as (line, said):
            tip = said.tip
            if tip is None or self._here(tip, known):
                line.part()
                return RemoteLook(tip, said.others)
            self._repo.receive(self._counted(wire.fetch(line, said, tip, self._haves(known))))
            if not self._repo.has(tip):
                raise Transient(f"the server's pack did not hold the commit {tip} that it has as main")
            self._insist_on_commit(tip)
            return RemoteLook(tip, said.others)

    def push(self, expected: str | None, new: str) -> None:
        """As the port says. The advertisement of receive-pack is the look: nothing is sent to a main that moved."""
        with self._served("git-receive-pack", self._patience.transfer) as (line, said):
            if said.tip != expected:
                line.part()
                raise Moved(f"the remote's main is at {said.tip or 'no commit'}, not at {expected or 'no commit'}")
            pack = self._repo.pack(new, {expected} if expected else ())
            if len(pack) > WORTH_TELLING:
                self._tell(f"sending {len(pack) / 2**20:.1f} MiB")
            report = wire.push(line, said, expected, new, pack)
        if report.accepted:
            self._doubts = ("", 0)
            return
        raise self._rejection(report, expected, new)

    def probe_write(self) -> None:
        """Ask whether this body may write, writing nothing. Raises as `push`."""
        with self._served("git-receive-pack", self._patience.look) as (line, _):
            line.part()

    def close(self) -> None:
        """As the port says."""
        self._closes += 1
        self._drop()

    def _drop(self) -> None:
        """Cut the session; the next use logs in afresh."""
        session, self._session = self._session, None
        if session is not None:
            session.close()

    def _counted(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        total, told = 0, self._clock.boottime()
        for chunk in chunks:
            total += len(chunk)
            now = self._clock.boottime()
            if now - told >= 1:
                self._tell(f"receiving {total / 2**20:.1f} MiB")
                told = now
            yield chunk

    def _rejection(self, report: wire.Report, expected: str | None, new: str) -> SoulError:
        """What a refused push means. A lost race and a broken server look alike, so the tip is looked at again."""
        said = "\n".join(words for words in (report.reason, report.shown) if words)
        if report.unpacked and not may_pass(report.reason):
            begun = "the remote refused the push: "
            refused = Refused(
                begun + said,
                kind="rejected",
                rule="REPO-8",
                advice="Local work is safe. Read the server's words; `soul-bridge status` shows what is held back.",
            )
            refused.said = f"{begun}{report.reason}\n{report.words}"
            return refused
        with self._served("git-upload-pack", self._patience.look) as (line, seen):
            line.part()
        if seen.tip != expected:
            return Moved(f"the remote's main moved meanwhile: {said}")
        before, times = self._doubts
        self._doubts = (new, times + 1 if before == new else 1)
        if self._doubts[1] >= DOUBTS:
            return Refused(f"the remote cannot take the push: {said}", kind="rejected", advice=advice(said))
        return Transient(f"the remote could not take the push: {said}", advice=advice(said))

    def _here(self, tip: str, known: Collection[str]) -> bool:
        if tip in known or not self._repo.has(tip):
            return tip in known
        self._insist_on_commit(tip)
        return any(self._repo.is_ancestor(tip, commit) for commit in known)

    def _insist_on_commit(self, tip: str) -> None:
        try:
            self._repo.info(tip)
        except Refused as error:
            raise Refused(
                f"the remote's main is no commit that can be read: {error.message}",
                kind="rejected",
                rule="REPO-2",
                advice="Local work is safe. Look at the repository on its host: `git log main`, `git fsck`.",
            ) from error

    def _haves(self, known: Collection[str]) -> list[str]:
        """Known commits, then some of their ancestors ever further back: the server may have been set back."""
        haves = dict.fromkeys(sorted(known)[:HAVES])
        for commit in list(haves)[:8]:
            for distance in range(1, REACH + 1):
                parents = self._repo.info(commit).parents
                if not parents or len(haves) >= HAVES:
                    break
                commit = parents[0]
                if distance & (distance - 1) == 0:  # 1, 2, 4, 8, …
                    haves[commit] = None
        return list(haves)

    @contextlib.contextmanager
    def _served(self, service: str, seconds: float) -> Iterator[tuple[Wire, Advertisement]]:
        """A conversation with a service that has introduced itself, which may go on for so many seconds."""
        try:
            with self._watched(self._patience.look) as left:
                line, said = self._introduced(service, left)
            with self._watched(seconds) as line.left:
                try:
                    yield line, said
                finally:
                    line.channel.close()
        except Moved:
            raise
        except BaseException:
            self._drop()
            raise

    @contextlib.contextmanager
    def _watched(self, seconds: float) -> Iterator[Callable[[], float]]:
        """Cut the connection after so many seconds, whatever call hangs then; gives how many are left."""
        end = self._clock.boottime() + seconds
        watch = threading.Timer(seconds, self.close)
        watch.daemon = True
        watch.start()
        try:
            yield lambda: end - self._clock.boottime()
        finally:
            watch.cancel()
            watch.join()

    def _introduced(self, service: str, left: Callable[[], float]) -> tuple[Wire, Advertisement]:
        """A session that is left from before may have died unnoticed: then, and only then, a second one is tried."""
        closes = self._closes
        while True:
            session, used = self._logged_in(left)
            channel: SshChannel | None = None
            try:
                channel = session.run(self._access.command(service), _some(left))
                line = Wire(channel, left, self._patience.limits)
                return line, wire.advertisement(line)
            except SoulError as error:
                if channel is not None:
                    channel.close()
                self._drop()
                if not used or closes != self._closes or not isinstance(error, Transient):
                    raise

    def _logged_in(self, left: Callable[[], float]) -> tuple[Session, bool]:
        """The session and whether it was used before."""
        now = self._clock.boottime()
        session = self._session
        if session is not None and session.alive and now - session.born < self._patience.age:
            return session, True
        self._drop()
        self._session = fresh = Session(self._access, now)
        fresh.open(min(self._patience.step, _some(left)))
        return fresh, False


def _some(left: Callable[[], float]) -> float:
    seconds = left()
    if seconds <= 0:
        raise Transient("the remote took too long")
    return seconds
