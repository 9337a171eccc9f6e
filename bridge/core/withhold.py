"""A push that the server refuses for what is in it: whom to suspect next, whom to hold, when to try again.

A server says no to all of a push and yes to all of one. So the paths are tried in parts: without those that its words
name, else by halves. Nothing is held that the server did not refuse while it took the rest in the same run.

Rules: REPO-8.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Generator, Iterable, Sequence
from dataclasses import dataclass, replace

from bridge.core.model import File
from bridge.core.words import readable

MOST_PUSHES = 12  # a run
FIRST_PAUSE = 3600.0
LONGEST_PAUSE = 86400.0
DOUBTFUL_PAUSE = 60.0
SHOWN = 200  # characters of the server's words that stand as a reason


@dataclass(frozen=True, slots=True)
class Refusal:
    """What was refused. paths: suspects, this body's own registry entry not among them. words: the server's.

    flat: it was one commit on the remote tip, so that the paths alone were the reason. merges: merge commits were among
    what was refused, which may have been the reason. known: paths that were refused before. again: these paths are held
    already and are tried once more; the rest is published.
    """

    paths: tuple[str, ...]
    words: str = ""
    flat: bool = True
    merges: bool = False
    known: frozenset[str] = frozenset()
    again: bool = False


@dataclass(frozen=True, slots=True)
class Trial:
    """A push of these paths on top of what was accepted before, and what the server said to it."""

    paths: frozenset[str]
    accepted: bool
    words: str = ""


@dataclass(frozen=True, slots=True)
class Try:
    """Push these paths next; none: nothing but this body's registry entry, in the form of what was refused."""

    paths: frozenset[str]


@dataclass(frozen=True, slots=True)
class Hold:
    """It is over. proven: refused by themselves, or named while the rest was accepted. doubtful: not tried apart."""

    proven: frozenset[str]
    doubtful: frozenset[str]


def decide(refusal: Refusal, trials: Sequence[Trial], most: int = MOST_PUSHES) -> Try | Hold | None:
    """What to do after these trials, each the one that was asked for; None: it is not about paths, hold nothing."""
    proven: set[str] = set()
    search = _search(refusal, proven)
    try:
        wanted = next(search)
        for trial in trials:
            wanted = search.send(trial)
        if len(trials) < most:
            return Try(frozenset(wanted))
    except StopIteration:
        pass
    if not refusal.again and not any(trial.accepted for trial in trials):
        return None
    left = set(refusal.paths).difference(*(trial.paths for trial in trials if trial.accepted))
    return Hold(frozenset(left & proven), frozenset(left - proven))


def _search(refusal: Refusal, proven: set[str]) -> Generator[tuple[str, ...], Trial, None]:
    """Ask for one trial after the other."""
    if refusal.again:
        yield from _parts(refusal, proven, (), refusal.paths, True)
    elif not refusal.paths and not refusal.flat:
        # What the server minds was taken back again: it is in a commit that nobody else needs.
        yield ()
    elif not refusal.merges or (yield ()).accepted:
        yield from _parts(refusal, proven, refusal.paths, (), refusal.merges)


def _parts(
    refusal: Refusal, proven: set[str], group: tuple[str, ...], rest: tuple[str, ...], accepted: bool
) -> Generator[tuple[str, ...], Trial, None]:
    """Parts of what was refused, ever smaller.

    group: refused together (`sure`), or what is left of a refused group whose rest was accepted. rest: not tried yet.
    blame: whom the words of that refusal name; they prove it (`flat`) where nothing but paths was refused. accepted:
    some push was.
    """
    blame, flat = named(refusal.words, group) | refusal.known, refusal.flat
    sure = flat
    while group or rest:
        if not group:
            trial = yield rest
            group, rest, flat, sure = (() if trial.accepted else rest), (), True, True
            blame = named(trial.words, group)
            continue
        kept, out, proof = _split(group, blame)
        proof = proof and flat
        if accepted and not kept:
            if sure or proof or not (yield group).accepted:
                proven.update(group)
            group = ()
            continue
        trial = yield kept
        if not trial.accepted and not accepted and (not kept or not (yield ()).accepted):
            return
        accepted = True
        if not trial.accepted:
            group, rest, flat, sure = kept, rest + out, True, True
            blame = named(trial.words, kept)
        elif proof:
            proven.update(out)
            group = ()
        else:
            group, sure, blame = out, sure and not kept, frozenset()


def _split(group: tuple[str, ...], blamed: Collection[str]) -> tuple[tuple[str, ...], tuple[str, ...], bool]:
    """A group without its suspects, and those: who is blamed, else the second half. Whether somebody is blamed."""
    out = tuple(path for path in group if path in blamed) or group[len(group) // 2 :]
    left = set(out)
    return tuple(path for path in group if path not in left), out, not left.isdisjoint(blamed)


def named(words: str, paths: Iterable[str]) -> frozenset[str]:
    """Those of the paths that a server's words name, as they are or quoted as git quotes them."""
    found = set()
    for path in sorted(paths, key=len, reverse=True):
        for spelled in {path, readable(path), _quoted(path)}:
            if spelled and spelled in words:
                words, times = re.subn(rf"(?<![\w.-]){re.escape(spelled)}(?![\w/-]|\.\w)", "\0", words)
                found.update([path] * times)
    return frozenset(found)


def _quoted(path: str) -> str:
    """The inside of git's quotes: bytes beyond ASCII in octal."""
    text = path.replace("\\", "\\\\").replace('"', '\\"').encode("utf-8", "surrogateescape")
    return "".join(chr(byte) if byte < 0x80 else f"\\{byte:03o}" for byte in text)


def reason(words: str) -> str:
    """A server's words as the reason why a path is held: one line, not too long."""
    line = " ".join(readable(words).split())
    return line if len(line) <= SHOWN else line[: SHOWN - 1].rstrip() + "…"


def mark(file: File | None) -> str:
    """What a path held, as text: two are equal exactly when the files are."""
    return "" if file is None else f"{file.mode:o} {file.oid}"


@dataclass(frozen=True, slots=True)
class Withheld:
    """A path that is held. commit, base: its version is the one in `commit`, which left `base` (None: nothing).

    reason: the server's words. time: when the version was made, UTC seconds. tried: when it was refused last, UTC
    seconds. pause: seconds until it may be tried again. refused: the mark of what was refused then. sure: it was
    refused for itself.
    """

    commit: str
    base: str | None
    reason: str
    time: int
    tried: float
    pause: float
    refused: str
    sure: bool = False

    def left(self, now: float) -> float:
        """Seconds until the pause is over; 0.0 when it is, or when the clock was set back behind its beginning."""
        return max(0.0, self.tried + self.pause - now) if self.tried <= now else 0.0

    def due(self, changed: bool, now: float) -> bool:
        """Whether it is tried again by itself: changed, or never tried apart, and the pause is over."""
        return (changed or not self.sure) and not self.left(now)

    def again(self, now: float, refused: str, words: str, sure: bool, asked: bool = False) -> Withheld:
        """After a refusal: the pause doubles, unless a person `asked` for the trial."""
        if sure:
            pause = FIRST_PAUSE if not self.sure else min(2 * self.pause, LONGEST_PAUSE)
        else:
            pause = min(2 * self.pause, LONGEST_PAUSE if self.sure else FIRST_PAUSE)
        pause = self.pause if asked and self.sure else pause
        return replace(self, tried=now, refused=refused, reason=words, sure=sure or self.sure, pause=pause)


def paths_of(holds: Collection[str]) -> str:
    """Held paths in words."""
    names = sorted(holds)
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
