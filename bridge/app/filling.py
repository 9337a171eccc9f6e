"""Missing fixed and required entries are made, as one commit (TREE-1 applied)."""

from __future__ import annotations

from bridge.app.joining import BIRTH
from bridge.app.recording import beat, being_written, describe
from bridge.app.soul import Progress, Soul
from bridge.app.standing import advance
from bridge.core import bodies, identity, layout
from bridge.core.model import File, Kind

FILLED = "filled"  # remembered: when main was last filled up


def fill(soul: Soul, progress: Progress) -> None:
    """Commit what the tree lacks; at most once a day after the first time, so that two bodies cannot fight."""
    head = soul.head()
    tree = soul.tree_of(head)
    path = bodies.path(soul.body)
    missing = _missing(soul, head, tree)
    enrolled = soul.repo.kind(tree, path) is not Kind.ABSENT
    if (not missing and enrolled) or any(being_written(soul, each) for each in missing):
        return
    last = soul.seen.recall(FILLED)
    if head is not None and not layout.may_fill(last, soul.clock.now()):
        # Nobody can fight about the identity: every merge undoes its loss (MERGE-5).
        missing = {where: content for where, content in missing.items() if where == identity.PATH}
        if not missing:
            return
    changes: dict[str, File | None] = {where: File(soul.repo.write(content)) for where, content in missing.items()}
    if not being_written(soul, path):
        changes[path] = beat(soul, tree)
        changes.pop("bodies/.gitkeep", None)
    if not changes:
        return
    commit = soul.commit(soul.repo.edit(tree, changes), [head] if head else [], describe(soul, tree, changes))
    advance(soul, head, commit)
    soul.seen.remember(FILLED, soul.clock.now())
    soul.facts.record("commit.recorded", commit=commit, paths=sorted(changes))
    progress.recorded += sorted(changes)


def heartbeat(soul: Soul, progress: Progress) -> None:
    """An idle body says once per `heartbeat` that it lives (FORM-6)."""
    head = soul.head()
    path = bodies.path(soul.body)
    if head is None or being_written(soul, path):
        return
    tree = soul.tree_of(head)
    current = soul.content(soul.repo.entry(tree, path))
    if current is None or not bodies.heartbeat_due(current, soul.clock.now(), soul.limits.heartbeat):
        return
    commit = soul.commit(soul.repo.edit(tree, {path: beat(soul, tree)}), [head], "heartbeat")
    advance(soul, head, commit)
    soul.facts.record("commit.recorded", commit=commit, paths=[path])
    progress.recorded.append(path)


def _missing(soul: Soul, head: str | None, tree: str) -> dict[str, bytes]:
    """What the tree lacks, with the bytes it gets; an identity that nobody can read counts as none."""
    current = soul.content(soul.repo.entry(tree, identity.PATH))
    readable = identity.id_of(current) is not None

    def holds(name: str) -> bool:
        if name == identity.PATH and not readable:
            return False
        wanted = Kind.DIRECTORY if name.endswith("/") else Kind.FILE
        return soul.repo.kind(tree, name.rstrip("/")) is wanted

    if layout.missing(holds, soul.agent, soul.agent, b"") == {}:
        return {}
    born = current if readable and current is not None else _identity(soul, head)
    name = (identity.read(born) or {}).get("displayName")
    missing = layout.missing(holds, soul.agent, name if isinstance(name, str) and name else soul.agent, born or b"")
    return {path: content for path, content in missing.items() if path != identity.PATH or born is not None}


def _identity(soul: Soul, head: str | None) -> bytes | None:
    """The last readable identity that history has, else the one this body was born with, None when there is none."""
    for commit in soul.repo.log(head) if head else ():
        content = soul.content(soul.repo.entry(commit.tree, identity.PATH))
        if identity.id_of(content) is not None:
            return content
    birth = soul.seen.recall(BIRTH)
    if birth is None:
        return None
    name = birth.get("display_name") or soul.agent
    return identity.write(identity.birth(soul.agent, name, birth["id"], birth["created"], True))
