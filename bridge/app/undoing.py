"""Bringing versions back, taking commits back, closing conflicts: each a new commit, history only grows (REPO-3)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bridge.app import conflicts, history, recording, sync
from bridge.app.soul import Order, Soul
from bridge.app.standing import advance
from bridge.core import bodies, commits, entries, identity, layout
from bridge.core.errors import Held, Moved, Refused
from bridge.core.model import Commit, File, Kind
from bridge.core.ports import Repo

Changes = dict[str, File | None]
Decide = Callable[[str], tuple[Changes, str, list[tuple[str, str]]]]  # of HEAD: changes, description, trailers
TRIES = 5
SAFE = "Nothing was changed."


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
            f"{path} is no file in commit {commit.oid[:10]}",
            kind="rule",
            rule="REPO-3",
            advice=f"{SAFE} `soul-bridge log {path}` shows the commits that have it.",
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
    missing = [entry for entry in back if entry not in stood]
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
            raise Refused(f"{body} {why}", kind="rule", rule="FORM-6", advice=f"{SAFE} See `soul-bridge bodies`.")
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
        return {"commit": commit, "paths": paths, "pushed": outcome.pushed, "problem": kind}
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
    if repo.entry(tree, path) == file:
        raise Refused(f"{path} is like that already", kind="rule", rule="REPO-3", advice=SAFE)
    parents = [path[:at] for at, letter in enumerate(path) if letter == "/"]
    in_the_way = [each for each in parents if repo.kind(tree, each) is Kind.FILE]
    if repo.kind(tree, path) is Kind.DIRECTORY or in_the_way:
        raise Refused(
            f"{path} cannot come back: {(in_the_way or [path])[0]} is {'a file' if in_the_way else 'a directory'} now",
            kind="rule",
            rule="MERGE-8",
            advice=f"{SAFE} Move what stands there away first.",
        )
    if reason := layout.held(path, file.mode, 0):
        raise Refused(f"{path} cannot come back: {reason[1]}", kind="rule", rule=reason[0], advice=SAFE)
    if layout.is_lock(path) or (bodies.owner(path) not in (None, body) and path.startswith("bodies/")):
        raise Refused(f"{path} is not this body's to write", kind="rule", rule="MERGE-9", advice=SAFE)


def _back(soul: Soul, head: str, path: str, file: File) -> Changes:
    """One path brought back, if it may stand there now."""
    tree = soul.tree_of(head)
    refuse_what_cannot_stand(soul.repo, tree, soul.body, path, file)
    if path == identity.PATH:
        content = soul.repo.read(file.oid)
        now = soul.repo.entry(tree, path)
        current = soul.repo.read(now.oid) if now is not None else None
        mended, _ = identity.mend(soul.seen.recall("identity"), current, content)
        file = File(soul.repo.write(mended or content), file.mode)
    return {path: file}


def _reverse(soul: Soul, head: str, commit: Commit) -> Changes:
    tree = soul.tree_of(head)
    changes: Changes = {}
    stuck: list[str] = []
    for path, (before, after) in history.changes(soul.repo, commit).items():
        if path.startswith("bodies/") or layout.is_lock(path):
            continue
        now = soul.repo.entry(tree, path)
        if now == before:
            continue
        if layout.is_memory(path) and (merged := _entries_back(soul, path, before, after, now)) is not None:
            if merged != now:
                changes[path] = merged
        elif now != after or (before is None and _needed(path)) or _unsafe(path, before):
            stuck.append(path)
        else:
            changes[path] = before
    if stuck:
        raise Refused(
            f"commit {commit.oid[:10]} cannot be taken back: changed since, needed, or not safe: "
            + ", ".join(stuck[:5]),
            kind="rule",
            rule="REPO-3",
            advice=f"{SAFE} Bring single files back with `soul-bridge restore COMMIT PATH`.",
        )
    return changes


def _unsafe(path: str, file: File | None) -> bool:
    """Whether it would bring back what no disk should hold (TREE-6, TREE-7)."""
    return file is not None and layout.held(path, file.mode, 0) is not None


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
