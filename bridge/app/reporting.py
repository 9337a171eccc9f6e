"""What a running soul's `status` says, built from its life after each pass; history is asked only when it moved."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from bridge.app import conflicts, history, leasing, namesake, status
from bridge.app.joining import REMOTE
from bridge.app.life import Life
from bridge.app.soul import Soul
from bridge.core import layout, lease
from bridge.core.instants import iso, seconds

KINDS = (
    "auth", "hostkey", "network", "identity", "rewritten", "not-a-soul", "rejected", "disk", "busy", "config",
    "internal",
)  # fmt: skip
RULED = {"rule": "config"}  # a rule that keeps a pass from beginning: a person set it so, and mends it
LISTED = "conflicts"  # remembered: what history said about lost versions, up to which commit
UNREAD = 32  # commits that may be read again before that is remembered anew
COUNTED = 10_000  # commits at most that ahead and behind count


@dataclass
class Reporter:
    """Builds the document; `remote`, `soul` as configured, `pid` and `since` of this process (None: no daemon).

    before: the last document, for what this process has not seen itself.
    """

    soul_dir: str
    remote: str
    pid: int | None
    since: str | None
    before: status.Document | None = None
    _moved: tuple[Any, ...] = ()
    _history: dict[str, Any] = field(default_factory=dict)

    def document(self, life: Life) -> status.Document:
        """The `status` document of a life."""
        soul, last = life.soul, life.last
        return status.build(
            agent=soul.agent,
            body=soul.body,
            soul=self.soul_dir,
            remote=self.remote,
            state=life.state,
            pid=self.pid,
            since=self.since,
            last_pass=self._last_pass(life),
            last_pull=iso(life.last_pull),
            last_push=iso(life.last_push),
            pending=() if last is None else last.pending,
            held=_held(life),
            problem=_problem(life),
            ignored=len(soul.ignored),
            warnings=(*life.warnings, *namesake.words(soul)),
            last_verified=iso(life.verified),
            attention=(self.before or {}).get("attention") or (),
            **{**self._of_history(soul), "lease": _lease(soul)},
        )

    def _last_pass(self, life: Life) -> dict[str, str] | None:
        if life.last is None:
            return (self.before or {}).get("last_pass")
        return {"at": iso(life.last_at) or "", "outcome": life.last.outcome, "sentence": life.last.sentence}

    def _of_history(self, soul: Soul) -> dict[str, Any]:
        tip, remote = soul.head(), soul.seen.recall(REMOTE)
        if (tip, remote) != self._moved or not self._history:
            self._history = of_history(soul, tip, remote)
            self._moved = (tip, remote)
        return self._history


def of_history(soul: Soul, tip: str | None, remote: str | None) -> dict[str, Any]:
    """What the refs and the tree of main say: tips, distance and since when, conflicts, bodies."""
    tree = soul.tree_of(tip)
    ahead, oldest = _counted(soul, tip, remote)
    return {
        "tip": tip,
        "remote_tip": remote,
        "ahead": ahead,
        "behind": _counted(soul, remote, tip)[0],
        "unpushed_since": iso(oldest),
        "conflicts": _conflicts(soul, tip),
        "bodies": _bodies(soul, tree),
    }


def _conflicts(soul: Soul, tip: str | None) -> int:
    """How many are open; what was read of history is remembered, for it may be long."""
    if tip is None:
        return 0
    now, before = soul.clock.now(), _known(soul.seen.recall(LISTED))
    known = conflicts.read(soul.repo, tip, now, before)
    news = before is None or (known.found, known.closed) != (before.found, before.closed)
    if news or _counted(soul, tip, before.tip if before else None)[0] >= UNREAD:
        plain = {"tip": tip, "found": [asdict(one) for one in known.found], "closed": sorted(known.closed)}
        soul.seen.remember(LISTED, plain)
    return len(conflicts.standing(soul.repo, known, now))


def _known(plain: dict[str, Any] | None) -> conflicts.Known | None:
    if plain is None:
        return None
    found = tuple(conflicts.Conflict(**one) for one in plain["found"])
    return conflicts.Known(plain["tip"], found, frozenset(plain["closed"]))


def _counted(soul: Soul, tip: str | None, since: str | None) -> tuple[int, float | None]:
    """How many commits one tip has that the other has not, and the time of the oldest of them."""
    number, oldest = 0, None
    if tip is None or tip == since:
        return number, oldest
    for commit in soul.repo.log(tip, since):
        number += 1
        oldest = commit.time if oldest is None else min(oldest, commit.time)
        if number >= COUNTED:
            break
    return number, oldest


def resumed(soul: Soul, before: status.Document | None) -> Life:
    """A life that remembers from the last document when the remote answered and took something."""
    life = Life(soul)
    if before is not None:
        life.last_pull, life.last_push = seconds(before.get("last_pull")), seconds(before.get("last_push"))
        life.verified = seconds(before.get("last_verified"))
    return life


def _held(life: Life) -> list[dict[str, str]]:
    held = life.last.held if life.last is not None else {}
    return [{"path": path, "rule": rule, "reason": reason} for path, (rule, reason) in sorted(held.items())]


def _problem(life: Life) -> dict[str, Any] | None:
    problem = life.problem
    if problem is None:
        return None
    kind = RULED.get(problem.kind, problem.kind)
    return {
        "kind": kind if kind in KINDS else "internal",
        "message": problem.message,
        "advice": problem.advice,
        "since": iso(life.problem_since),
        "times": life.problem_times,
        "next_try": iso(life.next_try),
    }


def _lease(soul: Soul) -> dict[str, Any] | None:
    """Whose the lease in main is, None for one that is over: asked at every report, for that comes with time alone."""
    content = soul.content(soul.repo.entry(soul.tree_of(soul.head()), layout.LEASE))
    now, sighting = soul.clock.boottime(), soul.sighting
    if sighting is None or sighting.content != content:
        sighting = lease.sight(None, content, now)
    ours = content if content in leasing.written(soul) else None
    verdict = lease.decide(sighting, ours, int(soul.clock.now() * 1000), now)
    if isinstance(verdict, lease.Free) or verdict.until is None:
        return None
    mine = isinstance(verdict, lease.Mine)
    body = soul.body if isinstance(verdict, lease.Mine) else verdict.body
    return {"body": body, "until": iso(verdict.until / 1000), "mine": mine}


def _bodies(soul: Soul, tree: str) -> list[dict[str, Any]]:
    rows = history.registry(soul.repo, tree, soul.body)
    return [{"body": name, "kind": said["kind"], "last_seen": said["last_seen"]} for name, said in rows]
