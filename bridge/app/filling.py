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
    path = f"bodies/{soul.body}.json"
    born = _identity(soul, head, tree)
    present = {name for name in layout.EXPECTED if soul.repo.kind(tree, name) is not Kind.ABSENT}
    if not (identity.read(_content(soul, tree)) or {}).get("id"):
        present.discard("agent.json")  # an identity nobody can read is none; its bytes stay in history
    enrolled = soul.repo.kind(tree, path) is not Kind.ABSENT
    if present >= set(layout.EXPECTED) and enrolled:
        return
    last = soul.seen.recall("filled")
    if head is not None and last is not None and 0 <= soul.clock.now() - last < A_DAY:
        return
    name = (identity.read(born) or {}).get("displayName") or soul.agent
    missing = layout.missing(present, soul.agent, name, born)
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


def _identity(soul: Soul, head: str | None, tree: str) -> bytes:
    """The identity in the tree, else the last one history has, else the one this body was born with."""
    if (identity.read(_content(soul, tree)) or {}).get("id"):
        return _content(soul, tree)
    for commit in soul.repo.log(head) if head else ():
        if (identity.read(_content(soul, commit.tree)) or {}).get("id"):
            return _content(soul, commit.tree)
    birth = soul.seen.recall("birth") or {}
    return identity.write(
        identity.birth(soul.agent, birth.get("display_name") or soul.agent, birth["id"], birth["created"], True)
    )


def _content(soul: Soul, tree: str) -> bytes:
    file = soul.repo.entry(tree, "agent.json")
    return soul.repo.read(file.oid) if file is not None and file.regular else b""
