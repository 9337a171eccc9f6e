"""The `status --json` document: built and written by whoever makes passes, read and put into words by `status`.

The first line is the honest one: how old the last answer of the remote is, and what has not arrived there.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from bridge.core import nextstep
from bridge.core.words import counted, escaped
from bridge.core.words import line as one_line
from bridge.core.words import readable as safe

Document = dict[str, Any]

STATES = ("idle", "settling", "syncing", "waiting", "refused", "paused", "stopped")
_SHOWN = 4  # lines of one kind in words, so that all of it fits a screen; the document has everything
_FLEET = 8  # bodies that are named in words
# What every version has written, and as what.
_NONE = type(None)
_SHAPE: dict[str, tuple[type, ...]] = {
    "state": (str,), "daemon": (dict,), "tip": (str, _NONE), "ahead": (int,), "behind": (int,), "pending": (list,),
    "held": (list,), "conflicts": (int,), "last_pass": (dict, _NONE), "problem": (dict, _NONE), "lease": (dict, _NONE),
    "bodies": (list,),
}  # fmt: skip
_CAUSES = {
    "auth": "key refused",
    "hostkey": "the key of the host is not accepted",
    "network": "remote unreachable",
    "identity": "the remote is another agent",
    "rewritten": "the remote's history was rewritten",
    "not-a-soul": "the remote is not a soul",
    "rejected": "refused by the server",
    "disk": "the checkout or its disk cannot be used",
    "busy": "something else is at work here",
    "config": "the configuration cannot be used",
    "internal": "a fault of soul-bridge",
}


# fmt: off
def build(
    *,
    agent: str, body: str, soul: str, remote: str, state: str,
    pid: int | None = None, since: str | None = None,
    tip: str | None = None, remote_tip: str | None = None, ahead: int = 0, behind: int = 0,
    last_pass: Mapping[str, str] | None = None, last_pull: str | None = None, last_push: str | None = None,
    pending: Iterable[str] = (), held: Iterable[Mapping[str, str]] = (), conflicts: int = 0,
    lease: Mapping[str, Any] | None = None, problem: Mapping[str, Any] | None = None,
    bodies: Iterable[Mapping[str, Any]] = (), ignored: int = 0, warnings: Iterable[str] = (),
    last_verified: str | None = None, unpushed_since: str | None = None, attention: Iterable[str] = (),
) -> Document:
    """The document. Times are ISO 8601 UTC texts; `pid` and `since` are the daemon's, None without one.

    last_pass: {at, outcome, sentence}. held: {path, rule, reason}. lease: {body, until, mine}. problem: {kind,
    message, advice, since, next_try}. bodies: {body, kind, last_seen}. ignored: paths that .gitignore leaves out.
    warnings: what keeps changes from being noticed at once, with its remedy. last_verified: when a pass last saw that
    here and there are the same. unpushed_since: of the oldest commit that the remote has not. attention: why a person
    is wanted (`app/attention`).
    """
    return {
        "agent": agent, "body": body, "soul": soul, "remote": remote, "state": state,
        "daemon": {"running": pid is not None, "pid": pid, "since": since},
        "tip": tip, "remote_tip": remote_tip, "ahead": ahead, "behind": behind,
        "last_pass": dict(last_pass) if last_pass else None, "last_pull": last_pull, "last_push": last_push,
        "pending": sorted(pending), "held": [dict(item) for item in held], "conflicts": conflicts,
        "lease": dict(lease) if lease else None, "problem": dict(problem) if problem else None,
        "bodies": [dict(item) for item in bodies], "ignored": ignored, "warnings": list(warnings),
        "last_verified": last_verified, "unpushed_since": unpushed_since, "attention": list(attention),
    }
# fmt: on


def write(path: Path, document: Mapping[str, Any]) -> bool:
    """Put the document there, whole or not at all (0600). False when it could not be: the old one tells its age."""
    # On one line: the indenting encoder of the library takes ten times as long, after every pass.
    content = escaped(json.dumps(document, ensure_ascii=False)).encode("utf-8", "backslashreplace") + b"\n"
    name = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}.new")
    try:
        with open(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "wb") as file:
            file.write(content)
        os.replace(name, path)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(name)
        return False
    return True


def read(path: Path) -> Document | None:
    """The last document that was written; None when there is none, or none that can be read."""
    try:
        document = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) and _whole(document) else None


def _whole(document: Document) -> bool:
    """Whether it is one that was written by us, if perhaps by an older version: not half a file, nor somebody's."""
    return all(isinstance(document.get(name), kinds) for name, kinds in _SHAPE.items())


def current(document: Document, *, running: bool, pid: int | None, paused: bool) -> Document:
    """What the document says now: its author may be gone, or stopped by a person, since it was written."""
    state, daemon = document["state"], document.get("daemon") or {}
    if paused:
        state = "paused"
    elif not running:
        state = "stopped"
    elif state in ("stopped", "paused"):
        state = "syncing"
    same = running and pid is not None and daemon.get("pid") == pid
    since = daemon.get("since") if same else None
    return {**document, "state": state, "daemon": {"running": running, "pid": pid if running else None, "since": since}}


def readable(document: Mapping[str, Any], now: float) -> str:
    """The document in words, safe to print on a terminal; `now` in seconds since the epoch.

    What a person may have to act on comes first, what hardly ever changes last.
    """
    lines = [sentence(document, now), *_problem(document.get("problem"), now), *_wait(document)]
    lines += [_row("warning", words) for words in document.get("warnings", ())]
    if bodies := document.get("bodies"):
        seen = [one_line(f"{item['body']} ({item['kind']}, seen {ago(item.get('last_seen'), now)})") for item in bodies]
        more = [f"and {len(seen) - _FLEET} more: soul-bridge bodies"] if len(seen) > _FLEET else []
        lines.append(_row("bodies", ", ".join([*seen[:_FLEET], *more])))
    lines += _paths("pending", [one_line(str(path)) for path in document["pending"]])
    lines += _paths(
        "held", [f"{one_line(item['path'])}  {item['rule']}: {item['reason']}" for item in document["held"]]
    )
    about = str(document["agent"]), str(document["body"]), str(document["soul"])
    lines += [_row("", f"next: {step}") for step in nextstep.of_all(document["held"], *about)[:_SHOWN]]
    if document["conflicts"]:
        lost = counted(document["conflicts"], "version")
        lines.append(_row("conflicts", f"{lost} lost a merge; see and bring back: soul-bridge conflicts"))
    if lease := document.get("lease"):
        whose = "this body" if lease.get("mine") else one_line(str(lease["body"]))
        lines.append(_row("lease", f"{whose} consolidates until {moment(lease['until'], now)}"))
    return "\n".join([*lines, *_standing_rows(document, now)])


def _standing_rows(document: Mapping[str, Any], now: float) -> list[str]:
    daemon = document["daemon"]
    running = "running" if daemon["running"] else "not running: soul-bridge run"
    if daemon["running"] and daemon.get("since"):
        running += f" since {moment(daemon['since'], now)}"
    lines = []
    if document.get("ignored"):
        lines.append(_row("ignored", f"{counted(document['ignored'], 'path')} left out by .gitignore"))
    if last := document.get("last_pass"):
        lines.append(_row("last pass", f"{ago(last['at'], now)}: {last['sentence']}"))
    lines += [
        _row("pulled", f"{ago(document.get('last_pull'), now)}; pushed {ago(document.get('last_push'), now)}"),
        _row("state", f"{document['state']}, daemon {running}"),
        _row("agent", f"{document['agent']} on the body {document['body']}"),
        _row("soul", str(document["soul"])),
        _row("remote", str(document["remote"])),
    ]
    return lines


def changed(document: Mapping[str, Any]) -> Document:
    """What of the document makes it another one for somebody who watches: all but times that pass by themselves."""
    last, problem = document.get("last_pass"), document.get("problem")
    passing = ("last_pull", "last_push", "last_verified", "last_pass", "problem", "daemon")
    return {
        **{key: value for key, value in document.items() if key not in passing},
        "outcome": last["outcome"] if last else None,
        "problem": (problem["kind"], problem["message"]) if problem else None,
        "running": document["daemon"]["running"],
    }


def sentence(document: Mapping[str, Any], now: float) -> str:
    """One line: whether all is where it should be, as of when, and if not, what is missing since when and why."""
    prefix = {"paused": "paused; ", "stopped": "stopped; "}.get(document["state"], "")
    return prefix + _standing(document, now)


def _standing(document: Mapping[str, Any], now: float) -> str:
    if (last := document.get("last_pass")) and last["outcome"] == "waiting":
        return str(last["sentence"])
    problem, ahead, behind = document.get("problem"), document["ahead"], document["behind"]
    why = f": {cause(problem['kind'])}" if problem else ""
    since = f" since {moment(problem['since'], now)}" if problem and problem.get("since") else ""
    waiting = counted(len(document["pending"]), "path") + " not recorded yet" if document["pending"] else ""
    held = len({item["path"] for item in document["held"]} - set(document["pending"]))
    apart = f"{counted(held, 'path')} held" if held else ""
    more = "".join(f"; {words}" for words in (waiting, apart) if words)
    if ahead:
        return f"{counted(ahead, 'commit')} not pushed{since or ' yet'}{why}{more}"
    if problem:
        return f"not in sync{since}{why}{more}"
    if document.get("remote_tip") is None:
        return f"the remote has not answered yet: nothing is known about it{more}"
    if document.get("last_pull") is None:
        return f"nothing to push, but the remote has not been heard of yet{more}"
    when = ago(document["last_pull"], now)
    if behind:
        return f"{counted(behind, 'commit')} of the remote not merged yet, as of {when}{more}"
    if document.get("tip") != document["remote_tip"]:
        return f"not in sync with origin as of {when}{more}"
    if waiting or apart:
        return f"{more.removeprefix('; ')}; all else in sync with origin as of {when}"
    return f"in sync with origin as of {when}"


def _problem(problem: Mapping[str, Any] | None, now: float) -> list[str]:
    if not problem:
        return []
    lines = [_row("problem", problem["message"])]
    if problem.get("advice"):
        lines.append(_row("do", problem["advice"]))
    if problem.get("next_try"):
        times = problem.get("times") or 0
        tried = f"; tried {times} times so far" if times > 1 else ""
        lines.append(_row("next try", f"{moment(problem['next_try'], now)}, by itself{tried}"))
    return lines


def _wait(document: Mapping[str, Any]) -> list[str]:
    """What ends a person's git work that passes wait for."""
    last = document.get("last_pass")
    if not last or last["outcome"] != "waiting" or not last["sentence"].startswith("waiting: "):
        return []
    return [_row("do", f"finish it, or {nextstep.of_git(last['sentence'], str(document['soul']))}")]


def _paths(name: str, paths: list[str]) -> list[str]:
    if not paths:
        return []
    fit = len(paths) if len(paths) <= _SHOWN else _SHOWN - 1
    more = [f"… and {len(paths) - fit} more: soul-bridge status --json"] if len(paths) > fit else []
    shown = [*paths[:fit], *more]
    return [_row(name, shown[0]), *(_row("", path) for path in shown[1:])]


def _row(name: str, words: str) -> str:
    lines = safe(words).split("\n")
    return "\n".join([f"  {name:<10} {lines[0]}", *(f"{'':13}{line}" for line in lines[1:])]).rstrip()


def held_row(item: Mapping[str, str]) -> str:
    """A held path and its reason, beneath what a command did; words of a server keep their lines, further in."""
    reason = safe(item["reason"]).replace("\n", "\n    ")
    return f"  held: {one_line(item['path'])}: {reason} ({item['rule']})"


def cause(kind: str) -> str:
    """A kind of problem in a few words."""
    return _CAUSES.get(kind, kind)


def ago(at: str | None, now: float) -> str:
    """How long before `now`, roughly; "never" for None, "just now" for under a second and for times ahead."""
    if at is None:
        return "never"
    then = _seconds(at)
    if then is None:
        return f"at {at!r}"
    passed = now - then
    for unit, length, until in (("d", 86400, 172800), ("h", 3600, 7200), ("min", 60, 120), ("s", 1, 1)):
        if passed >= until:
            return f"{int(passed // length)} {unit} ago"
    return "just now"


def moment(at: str, now: float) -> str:
    """A time on this machine's wall: 09:14 within a day, Tue 09:14 within six, else with the date.

    What another body wrote as a time is said as it wrote it where no wall shows such a time.
    """
    seconds = _seconds(at)
    if seconds is None:
        return repr(at)
    try:
        then, present = _local(seconds), _local(now)
    except (ValueError, OverflowError, OSError):  # the first or last hours of the calendar, east or west of Greenwich
        return repr(at)
    if then.date() == present.date():
        return f"{then:%H:%M}"
    if abs(then - present) < timedelta(days=6):
        return f"{_DAYS[then.weekday()]} {then:%H:%M}"
    return f"{then:%Y-%m-%d %H:%M}"


def time_of_day(now: float) -> str:
    """A time on this machine's wall, to the second."""
    return f"{_local(now):%H:%M:%S}"


# strftime would take the locale's names.
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


def _local(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC).astimezone()


def _seconds(at: object) -> float | None:
    """Seconds since the epoch; None for what is no time, as another body may have written it."""
    try:
        found = datetime.fromisoformat(str(at))
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None
