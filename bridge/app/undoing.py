"""Bringing versions back, taking commits back, closing conflicts: each a new commit, history only grows (REPO-3)."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from typing import Any

from bridge.app import conflicts, history, recording, sync
from bridge.app.joining import IDENTITY
from bridge.app.soul import Order, Soul
from bridge.app.standing import advance
from bridge.core import bodies, commits, entries, identity, layout
from bridge.core.errors import Held, Moved, Refused
from bridge.core.model import Commit, File, Kind
from bridge.core.ports import Repo
from bridge.core.words import line

Changes = dict[str, File | None]
Decide = Callable[[str], tuple[Changes, str, list[tuple[str, str]]]]  # of HEAD: changes, description, trailers
TRIES = 5
SAFE = "Nothing was changed."
TAKE_OUT = "`soul-bridge conflicts --show ID` shows what a lost version held, and how to take it out."
SHOWN = 8  # paths that a refusal names


def restore(soul: Soul, words: dict[str, Any]) -> dict[str, Any]:
    """Bring back a lost version (`id`), or a path as a commit had it (`commit`, `path`)."""

    def decide(head: str) -> tuple[Changes, str, list[tuple[str, str]]]:
        path, file, lost = version(soul.repo, soul.tree_of(head), soul.clock.now(), words)
        if lost is not None:
            return _back(soul, head, path, file), f"restore {path}", [(commits.RESTORED, lost.id)]
        commit = history.resolve(soul.repo, words["commit"])
        return _back(soul, head, path, file), f"restore {path} from {commit.oid[:10]}", []

    return _do(soul, decide)


def version(repo: Repo, tree: str, now: float, words: dict[str, Any]) -> tuple[str, File, conflicts.Conflict | None]:
    """The path and the version that `restore` brings back into a tree, and the conflict it lost. Raises Refused."""
    if words.get("id"):
        lost = conflicts.pick(repo, now, words["id"])
        file = File(lost.blob, _mode(repo, tree, lost.path))
        return lost.path, _rejoined(repo, tree, lost, file) if layout.is_memory(lost.path) else file, lost
    commit = history.resolve(repo, words["commit"])
    path = words["path"]
    found = repo.entry(commit.tree, path) if "" not in path.split("/") else None
    if found is None or not found.regular:
        raise Refused(
            f"{line(path)} is no file in commit {commit.oid[:10]}",
            kind="rule",
            rule="REPO-3",
            advice=f"{SAFE} `soul-bridge log {shlex.quote(line(path))}` shows the commits that have it.",
        )
    return path, found, None


def _rejoined(repo: Repo, tree: str, lost: conflicts.Conflict, file: File) -> File:
    """The memory as it stands, with the entries that the merge left out: what was written or dropped since stays so."""
    now, won = repo.entry(tree, lost.path), repo.entry(repo.info(lost.commit).tree, lost.path)
    if now is None or won is None:
        return file
    try:
        back, stands, stood = (entries.read(repo.read(each.oid)) for each in (file, now, won))
    except Held:
        return file
    there = set(stood)
    missing = [entry for entry in back if entry not in there]
    return File(repo.write(entries.write(entries.merge(stood, stands, (*stood, *missing)))), file.mode)


def dismiss(soul: Soul, words: dict[str, Any]) -> dict[str, Any]:
    """Take a lost version off the list; it stays in history."""

    def decide(head: str) -> tuple[Changes, str, list[tuple[str, str]]]:
        lost = conflicts.pick(soul.repo, soul.clock.now(), words["id"])
        return {}, f"dismiss the lost version of {lost.path}", [(commits.DISMISSED, lost.id)]

    return _do(soul, decide)


def forget(soul: Soul, words: dict[str, Any]) -> dict[str, Any]:
    """Take a dead body out of the registry; its journal stays."""

    def decide(head: str) -> tuple[Changes, str, list[tuple[str, str]]]:
        body = words["body"]
        path = f"bodies/{body}.json"
        if body == soul.body or "/" in body or soul.repo.entry(soul.tree_of(head), path) is None:
            why = "is this body itself" if body == soul.body else "is not in the registry"
            raise Refused(f"{line(body)} {why}", kind="rule", rule="FORM-6", advice=f"{SAFE} See `soul-bridge bodies`.")
        return {path: None}, f"forget the body {body}", []

    return _do(soul, decide)


def revert(soul: Soul, words: dict[str, Any]) -> dict[str, Any]:
    """Take back what one commit did: memories by entry, other files only where nothing happened since."""

    def decide(head: str) -> tuple[Changes, str, list[tuple[str, str]]]:
        commit = history.resolve(soul.repo, words["commit"])
        changes = _reverse(soul, head, commit)
        if not changes:
            raise Refused(
                f"nothing of commit {commit.oid[:10]} is left to take back",
                kind="rule",
                rule="REPO-3",
                advice=SAFE,
            )
        subject = commit.message.partition("\n")[0]
        return changes, f"revert {commit.oid[:10]}: {subject}", [(commits.UNDONE, commit.oid)]

    return _do(soul, decide)


def _do(soul: Soul, decide: Decide) -> dict[str, Any]:
    """Record what is there, commit what `decide(head)` says on top, then synchronise."""
    for _ in range(TRIES):
        _local_pass(soul)
        head = history.tip_of(soul.repo)
        tree = soul.tree_of(head)
        changes, words, trailers = decide(head)
        own = f"bodies/{soul.body}.json"
        if own not in soul.watching.changes and own not in soul.watching.held:
            changes = {**changes, own: recording.beat(soul, tree)}
        commit = soul.commit(soul.repo.edit(tree, changes), [head], words, trailers)
        try:
            advance(soul, head, commit)
        except Moved as error:
            if error.rule:
                raise
            continue
        soul.facts.record("commit.recorded", commit=commit, paths=sorted(changes))
        outcome = sync.run(soul, Order(None, waive=True))
        kind = outcome.problem.kind if outcome.problem is not None else None
        paths = sorted(path for path in changes if path != own)
        held = [{"path": path, "rule": rule, "reason": why} for path, (rule, why) in sorted(outcome.held.items())]
        apart = [row for row in held if row["path"] in paths]
        return {"commit": commit, "paths": paths, "pushed": outcome.pushed, "problem": kind, "held": apart}
    raise Refused("main moved at every try", kind="busy", advice=f"{SAFE} Try again in a moment.")


def _local_pass(soul: Soul) -> None:
    outcome = sync.run(soul, Order(None, waive=True, remote=False, publish=False))
    if outcome.problem is not None:
        raise outcome.problem


def _mode(repo: Repo, tree: str, path: str) -> int:
    file = repo.entry(tree, path)
    return file.mode if file is not None and file.regular else File("").mode


def refuse_what_cannot_stand(repo: Repo, tree: str, body: str, path: str, file: File) -> None:
    """Raise Refused where a version cannot come back into this tree, or stands there already."""
    shown = line(path)
    if repo.entry(tree, path) == file:
        raise Refused(f"{shown} is like that already", kind="rule", rule="REPO-3", advice=SAFE)
    in_the_way = [each for each in layout.parents(path) if repo.kind(tree, each) is Kind.FILE]
    if repo.kind(tree, path) is Kind.DIRECTORY or in_the_way:
        what, stands = ("a file", in_the_way[0]) if in_the_way else ("a directory", path)
        raise Refused(
            f"{shown} cannot come back: {line(stands)} is {what} now",
            kind="rule",
            rule="MERGE-8",
            advice=f"{SAFE} Move what stands there away first.",
        )
    if reason := layout.held(path, file.mode, 0):
        raise Refused(f"{shown} cannot come back: {reason[1]}", kind="rule", rule=reason[0], advice=SAFE)
    if layout.is_lock(path):
        raise Refused(
            f"{shown} lies below locks/, where only a lease stands",
            kind="rule",
            rule="MERGE-10",
            advice=f"{SAFE} {TAKE_OUT}",
        )
    if bodies.owner(path) not in (None, body) and path.startswith("bodies/"):
        raise Refused(f"{shown} is not this body's to write", kind="rule", rule="MERGE-9", advice=SAFE)


def _back(soul: Soul, head: str, path: str, file: File) -> Changes:
    """One path brought back, if it may stand there now."""
    tree = soul.tree_of(head)
    refuse_what_cannot_stand(soul.repo, tree, soul.body, path, file)
    if path == identity.PATH:
        content = soul.repo.read(file.oid)
        now = soul.repo.entry(tree, path)
        current = soul.repo.read(now.oid) if now is not None else None
        mended, _ = identity.mend(soul.seen.recall(IDENTITY), current, content)
        file = File(soul.repo.write(mended or content), file.mode)
    return {path: file}


def _reverse(soul: Soul, head: str, commit: Commit) -> Changes:
    tree = soul.tree_of(head)
    changes: Changes = {}
    stuck: dict[str, str] = {}
    for path, (before, after) in history.changes(soul.repo, commit).items():
        if path.startswith("bodies/") or layout.is_lock(path):
            continue
        now = soul.repo.entry(tree, path)
        if now == before:
            continue
        if layout.is_memory(path) and (merged := _entries_back(soul, path, before, after, now)) is not None:
            if merged != now:
                changes[path] = merged
        elif reason := _stuck(path, before, after, now):
            stuck[path] = reason
        else:
            changes[path] = before
    stuck |= _crowded(soul.repo, tree, changes)
    if stuck:
        raise Refused(
            f"commit {commit.oid[:10]} cannot be taken back as a whole\n" + _reasons(stuck),
            kind="rule",
            rule="REPO-3",
            advice=f"{SAFE}{_singly(soul, commit, stuck)}",
        )
    return changes


def _stuck(path: str, before: File | None, after: File | None, now: File | None) -> str:
    """Why a path cannot be as it was before a commit, "" where it can."""
    if now != after:
        return "it is gone since" if now is None else "it changed since"
    if before is None:
        return "it is needed in every soul" if _needed(path) else ""
    unsafe = layout.held(path, before.mode, 0)
    return f"{unsafe[1]} ({unsafe[0]})" if unsafe else ""


def _crowded(repo: Repo, tree: str, changes: Changes) -> dict[str, str]:
    """Files that cannot come back, for something came above or below their places since (MERGE-8); and why."""
    removed = {path for path, file in changes.items() if file is None}
    found = {}
    for path in changes.keys() - removed:
        above = [each for each in layout.parents(path) if each not in removed and repo.kind(tree, each) is Kind.FILE]
        is_folder = repo.kind(tree, path) is Kind.DIRECTORY
        if above or (is_folder and any(below not in removed for below, _ in repo.files(tree, path))):
            found[path] = f"{line(above[0])} is a file now" if above else "a directory is there now"
    return found


def _reasons(stuck: dict[str, str]) -> str:
    lines = [f"  {line(path)}: {reason}" for path, reason in stuck.items()]
    more = [f"  and {len(lines) - SHOWN} more"] if len(lines) > SHOWN else []
    return "\n".join([*lines[:SHOWN], *more])


def _singly(soul: Soul, commit: Commit, stuck: dict[str, str]) -> str:
    """What brings one file back to what it was before the commit, where the whole of it cannot be taken back."""
    parent = commit.parents[0] if commit.parents else None
    before = soul.tree_of(parent)
    changed = [path for path in history.changes(soul.repo, commit) if not path.startswith("bodies/")]
    back = [path for path in changed if _may_stand(soul, path, soul.repo.entry(before, path))]
    if parent is None or not back:
        return ""
    first = next((path for path in back if path in stuck), back[0])
    command = f"soul-bridge restore {soul.agent} {parent[:10]} {shlex.quote(line(first))}"
    return f" To bring back a single file as it was before: {command}"


def _may_stand(soul: Soul, path: str, file: File | None) -> bool:
    if file is None:
        return False
    try:
        refuse_what_cannot_stand(soul.repo, soul.tree_of(soul.head()), soul.body, path, file)
    except Refused:
        return False
    return True


def _needed(path: str) -> bool:
    return layout.is_required(path) or layout.is_fixed(path)


def _entries_back(soul: Soul, path: str, before: File | None, after: File | None, now: File | None) -> File | None:
    """The memory file without what the commit added and with what it removed; None when it is not text."""

    def read(file: File | None) -> tuple[str, ...]:
        return entries.read(soul.repo.read(file.oid)) if file is not None else ()

    try:
        merged = entries.merge(read(after), read(now), read(before))
    except Held:
        return None
    return File(soul.repo.write(entries.write(merged)), now.mode if now is not None else File("").mode)
