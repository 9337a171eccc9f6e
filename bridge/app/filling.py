"""Missing fixed and required entries are made, as one commit (TREE-1 applied)."""

from __future__ import annotations

from bridge.app.recording import beat, describe
from bridge.app.soul import MAIN, Progress, Soul
from bridge.app.standing import stand_off
from bridge.core import identity, layout
from bridge.core.model import File, Kind

A_DAY = 86400.0


def fill(soul: Soul, progress: Progress) -> None:
    """Commit what the tree lacks; at most once a day after the first time, so that two bodies cannot fight."""
    head = soul.head()
    tree = soul.tree_of(head)
    missing = _missing(soul, head, tree)
    if missing.keys() & (progress.pending | soul.watching.held.keys()):
        return  # the agent is writing it right now
    path = f"bodies/{soul.body}.json"
    if not missing and soul.repo.kind(tree, path) is not Kind.ABSENT:
        return
    last = soul.seen.recall("filled")
    if head is not None and last is not None and 0 <= soul.clock.now() - last < A_DAY:
        return
    changes: dict[str, File | None] = {where: File(soul.repo.write(content)) for where, content in missing.items()}
    if path not in soul.watching.changes:
        changes[path] = beat(soul, tree)
    words = describe(soul, tree, changes)
    commit = soul.commit(soul.repo.edit(tree, changes), [head] if head else [], words)
    soul.repo.flush()
    stand_off(soul)
    soul.repo.move(MAIN, head, commit)
    with soul.seen.transaction():
        soul.seen.remember("main", commit)
        soul.seen.remember("filled", soul.clock.now())
    soul.facts.record("commit.recorded", commit=commit, paths=sorted(changes))
    progress.recorded += sorted(changes)


def _missing(soul: Soul, head: str | None, tree: str) -> dict[str, bytes]:
    """What the tree lacks, with the bytes it gets; an identity that nobody can read counts as none."""
    readable = identity.id_of(_content(soul, tree)) is not None

    def holds(name: str) -> bool:
        if name == identity.PATH and not readable:
            return False
        wanted = Kind.DIRECTORY if name.endswith("/") else Kind.FILE
        return soul.repo.kind(tree, name.rstrip("/")) is wanted

    born = _content(soul, tree) if readable else _identity(soul, head)
    name = (identity.read(born) or {}).get("displayName")
    missing = layout.missing(holds, soul.agent, name if isinstance(name, str) and name else soul.agent, born)
    return missing if born else {path: content for path, content in missing.items() if path != identity.PATH}


def _identity(soul: Soul, head: str | None) -> bytes:
    """The last readable identity that history has, else the one this body was born with, b"" when there is none."""
    for commit in soul.repo.log(head) if head else ():
        content = _content(soul, commit.tree)
        if identity.id_of(content) is not None:
            return content
    birth = soul.seen.recall("birth")
    if birth is None:
        return b""
    name = birth.get("display_name") or soul.agent
    return identity.write(identity.birth(soul.agent, name, birth["id"], birth["created"], True))


def _content(soul: Soul, tree: str) -> bytes:
    file = soul.repo.entry(tree, identity.PATH)
    return soul.repo.read(file.oid) if file is not None and file.regular else b""
