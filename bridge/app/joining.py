"""The first contact with the remote: fill an empty one, or join the soul that lives there (REPO-5, REPO-6 applied)."""

from __future__ import annotations

from bridge.app.soul import MAIN, Progress, Soul
from bridge.app.standing import keep
from bridge.core import identity, layout, publish
from bridge.core.errors import Held, Moved, Refused
from bridge.core.model import PLAIN, File, RemoteLook, SeenEntry, Stamp, blob_id

UNREAD = Stamp(-1, 0, 0, 0)
ALONE = "alone"  # this body may record although it never saw a tip on the remote


def first_contact(soul: Soul, progress: Progress, look: RemoteLook) -> tuple[str | None, str | None]:
    """The remote answered for the first time: the tip to merge (None: nothing) and the tip to expect.

    Raises Refused(kind="not-a-soul"|"identity"); nothing was written then.
    """
    if look.tip is None:
        # What lies here is recorded first, then filled up and pushed: this body may work alone until then.
        soul.seen.remember(ALONE, True)
        _remember_identity(soul, soul.tree_of(soul.head()))
        return None, None
    theirs = look.tip
    tree = soul.tree_of(theirs)
    names = {path.partition("/")[0] for path, _ in soul.repo.files(tree)}
    if not layout.is_soul(names, soul.repo.entry(tree, "agent.json") is not None):
        raise publish.not_a_soul(sorted(name for name in names if not layout.is_soul([name], False)))
    head = soul.head()
    if head is None or not soul.repo.bases(head, theirs):
        _join(soul, progress, head, theirs)
    else:
        _adopt_clone(soul, head)
    with soul.seen.transaction():
        soul.seen.remember("remote", theirs)
        soul.seen.remember("main", soul.head())
        soul.seen.remember(ALONE, None)
        _remember_identity(soul, tree)
    return theirs, theirs


def _join(soul: Soul, progress: Progress, head: str | None, theirs: str) -> None:
    """Main becomes the remote's tip and nothing is seen; what was ours stays under a ref of our own."""
    local = _local_identity(soul, head)
    tree = soul.tree_of(theirs)
    file = soul.repo.entry(tree, "agent.json")
    remote = soul.repo.read(file.oid) if file is not None and file.regular else None
    verdict = identity.join(local, remote, local_published=not _born_here(soul, local))
    if verdict.outcome is identity.Outcome.REFUSED:
        raise Refused(
            f"two different agents: this checkout is {verdict.local_id}, the remote is {verdict.remote_id}",
            kind="identity",
            rule="MERGE-5",
            advice="Nothing was merged or written. Use the remote of this agent, or join from an empty folder.",
        )
    if head is not None:
        keep(soul, head)
    with soul.seen.transaction():
        for path in soul.seen.under(""):
            soul.seen.put(path, None)
        soul.seen.remember("joining", True)
        soul.seen.remember("materialised", None)
        soul.repo.move(MAIN, head, theirs)
        soul.seen.remember("main", theirs)
    soul.facts.record("identity.adopted", id=verdict.remote_id)
    progress.notes.append("joined the soul that lives on the remote")
    if local is not None and verdict.content is not None:
        _settle_identity(soul, theirs, local, verdict.content, remote)


def _settle_identity(soul: Soul, theirs: str, local: bytes, result: bytes, remote: bytes | None) -> None:
    """What identity.join decided about agent.json: our old file counts as seen, a new result as a commit of ours."""
    old = File(soul.repo.write(layout.stored(local, "agent.json")), PLAIN)
    soul.seen.put("agent.json", SeenEntry(old, blob_id(local), UNREAD))
    if result == remote:
        return
    tree = soul.repo.edit(soul.tree_of(theirs), {"agent.json": File(soul.repo.write(result), PLAIN)})
    commit = soul.commit(tree, [theirs], "identity from this body, under the published id")
    soul.repo.flush()
    soul.repo.move(MAIN, theirs, commit)
    soul.seen.remember("main", commit)


def _local_identity(soul: Soul, head: str | None) -> bytes | None:
    """The identity this body brings: the working file's, else the one on its own main."""
    try:
        return soul.tree.read("agent.json", soul.limits.hold_back_over).content
    except (Moved, Held):
        file = soul.repo.entry(soul.tree_of(head), "agent.json")
        return soul.repo.read(file.oid) if file is not None and file.regular else None


def _born_here(soul: Soul, local: bytes | None) -> bool:
    birth = soul.seen.recall("birth")
    fields = identity.read(local) if local is not None else None
    return bool(birth and fields and fields.get("id") == birth["id"])


def _adopt_clone(soul: Soul, head: str) -> None:
    """A clone of this soul: its HEAD is what was seen, files that are absent excepted (REPO-6)."""
    if soul.seen.count():
        return
    tree = soul.tree_of(head)
    look = soul.tree.look({}, None)
    with soul.seen.transaction():
        for path, file in soul.repo.files(tree):
            if path in look.files and file.regular:
                soul.seen.put(path, SeenEntry(file, file.oid, UNREAD))


def _remember_identity(soul: Soul, tree: str) -> None:
    file = soul.repo.entry(tree, "agent.json")
    fields = identity.read(soul.repo.read(file.oid)) if file is not None and file.regular else None
    if fields is not None and isinstance(fields.get("id"), str):
        soul.seen.remember("identity", fields["id"])
