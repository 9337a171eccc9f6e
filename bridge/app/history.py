"""History in words: which commits there are, what each changed, who is in the fleet. Reads only."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from bridge.core import bodies, entries, layout
from bridge.core.errors import Held, Refused
from bridge.core.layout import MAIN
from bridge.core.model import Commit, File
from bridge.core.ports import Repo

LARGEST_SHOWN = 256 * 1024  # bytes of a file that is compared line by line

LARGEST_REGISTRY = 4 * 1024 * 1024  # bytes of bodies' files that are read for one list


def tip_of(repo: Repo) -> str:
    """The tip of main. Raises Refused when there is no history yet."""
    tip = repo.tip(MAIN)
    if tip is None:
        raise Refused(
            "this soul has no history yet", kind="rule", rule="REPO-6", advice="Run `soul-bridge sync` first."
        )
    return tip


def resolve(repo: Repo, words: str) -> Commit:
    """The commit of main's history that an id or its beginning names. Raises Refused when none or several do."""
    tip = tip_of(repo)
    if words.lower() in ("head", "main"):
        return repo.info(tip)
    found = [commit for commit in repo.log(tip) if commit.oid.startswith(words.lower())] if len(words) >= 4 else []
    if len(found) == 1:
        return found[0]
    what = "no commit" if not found else f"{len(found)} commits"
    raise Refused(
        f"{what} of this soul's history is named {words!r}" if not found else f"{what} begin with {words!r}",
        kind="rule",
        rule="REPO-2",
        advice="Nothing was changed. `soul-bridge log` lists them; give at least four digits, and enough to be one.",
    )


def log(repo: Repo, path: str | None = None) -> Iterator[dict[str, Any]]:
    """Commits, newest first, as {commit, at, body, subject, paths}; of one path, or of a directory, if named.

    `at` is in seconds since the epoch.
    """
    for commit in repo.log(tip_of(repo)):
        paths = sorted(changes(repo, commit))
        if path is not None and not _touches(repo, commit, path):
            continue
        yield row(commit, paths)


def row(commit: Commit, paths: list[str]) -> dict[str, Any]:
    """The shape of one commit in `log`."""
    subject = commit.message.partition("\n")[0]
    return {"commit": commit.oid, "at": commit.time, "body": commit.body, "subject": subject, "paths": paths}


def changes(repo: Repo, commit: Commit) -> dict[str, tuple[File | None, File | None]]:
    """What a commit changed against its first parent."""
    before = repo.info(commit.parents[0]).tree if commit.parents else ""
    return repo.diff(before, commit.tree)


def _touches(repo: Repo, commit: Commit, path: str) -> bool:
    prefix = path.rstrip("/") + "/"
    trees = [repo.info(parent).tree for parent in commit.parents] or [""]
    return all(any(name == path or name.startswith(prefix) for name in repo.diff(tree, commit.tree)) for tree in trees)


@dataclass(frozen=True, slots=True)
class Difference:
    """What became of one path: `added`, `removed` or `changed`; entries or lines that came and went."""

    path: str
    change: str
    plus: tuple[str, ...]
    minus: tuple[str, ...]
    lines: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """Its shape in --json."""
        return {"path": self.path, "change": self.change, "added": list(self.plus), "removed": list(self.minus)}


def differences(repo: Repo, before: str, after: str, path: str | None = None) -> list[Difference]:
    """What differs between two trees, in words: memories by entry, other text by line."""
    prefix = (path or "").rstrip("/") + "/"
    return [
        difference(repo, name, old, new)
        for name, (old, new) in repo.diff(before, after).items()
        if path is None or name == path or name.startswith(prefix)
    ]


def difference(repo: Repo, path: str, old: File | None, new: File | None) -> Difference:
    """What differs between two versions of one path; None: absent."""
    change = "added" if old is None else "removed" if new is None else "changed"
    before, after = _content(repo, old), _content(repo, new)
    if before is None or after is None:
        return Difference(path, change, (), (), ("(not shown: no text, or too large)",))
    if layout.is_memory(path):
        try:
            came, gone = entries.read(after), entries.read(before)
        except Held:
            pass
        else:
            here, there = set(came), set(gone)
            plus = tuple(entry for entry in came if entry not in there)
            minus = tuple(entry for entry in gone if entry not in here)
            lines = tuple(f"- {entry}" for entry in minus) + tuple(f"+ {entry}" for entry in plus)
            return Difference(path, change, plus, minus, lines)
    old_lines, new_lines = before.decode("utf-8", "replace").split("\n"), after.decode("utf-8", "replace").split("\n")
    lines = tuple(difflib.unified_diff(old_lines, new_lines, lineterm="", n=2))[2:]
    plus = tuple(line[1:] for line in lines if line.startswith("+"))
    minus = tuple(line[1:] for line in lines if line.startswith("-"))
    return Difference(path, change, plus, minus, lines)


def _content(repo: Repo, file: File | None) -> bytes | None:
    if file is None:
        return b""
    if not file.regular or repo.size(file.oid) > LARGEST_SHOWN:
        return None
    content = repo.read(file.oid)
    return None if b"\0" in content else content


def fleet(repo: Repo, own: str | None = None) -> list[dict[str, Any]]:
    """The registry as [{body, kind, host, last_seen, fingerprint, commits}], by name; `own` is listed in any case.

    fingerprint: of its deploy key, where the body itself says so in a field `key`.
    """
    tip = tip_of(repo)
    counted = Counter(commit.body for commit in repo.log(tip))
    return [{"body": name, **said, "commits": counted[name]} for name, said in registry(repo, repo.info(tip).tree, own)]


def unlisted(repo: Repo, listed: int) -> int:
    """How many bodies of the registry are not among those listed."""
    names = bodies.registered([path for path, _ in repo.files(repo.info(tip_of(repo)).tree, "bodies")])
    return max(0, len(names) - listed)


def registry(repo: Repo, tree: str, own: str | None = None) -> list[tuple[str, dict[str, Any]]]:
    """What the bodies say of themselves: (name, {kind, host, last_seen, fingerprint}), by name.

    Of many this body and those seen most recently; a text is cut, a large file is not read, and one that stands under
    several names is read once.
    """
    known: dict[str, dict[str, Any] | None] = {}
    found, room = [], LARGEST_REGISTRY
    first = bodies.path(own) if own else None
    files = list(repo.files(tree, "bodies"))
    for path, file in sorted(files, key=lambda each: each[0] != first):
        if not path.endswith(".json") or not file.regular:
            continue
        if file.oid not in known:
            size = repo.size(file.oid)
            fits = size <= min(room, bodies.LARGEST)
            room -= size if fits else 0
            known[file.oid] = _said(repo.read(file.oid)) if fits else None
        said = known[file.oid]
        if said is not None:
            found.append((path[len("bodies/") : -len(".json")], said))
    return bodies.latest(found, own)


def _said(content: bytes) -> dict[str, Any] | None:
    fields = bodies.read(content)
    if fields is None:
        return None
    return {
        "kind": bodies.said(fields, "kind") or "",
        "host": bodies.said(fields, "host"),
        "last_seen": bodies.said(fields, "lastSeen"),
        "fingerprint": bodies.key_of(fields),
    }
