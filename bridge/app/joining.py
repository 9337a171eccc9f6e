"""The first contact with the remote: fill an empty one, or join the soul that lives there (REPO-5, REPO-6 applied)."""

from __future__ import annotations

import contextlib

from bridge.app.soul import KNOWN, Progress, Soul
from bridge.app.standing import keep
from bridge.app.withheld import WITHHELD
from bridge.core import identity, layout, publish
from bridge.core.errors import Held, Moved
from bridge.core.layout import MAIN
from bridge.core.model import File, Lost, RemoteLook, SeenEntry, Stamp, Triple, blob_id

REMOTE = "remote"  # remembered: the remote tip last seen
ALONE = "alone"  # remembered: this body may record although it never saw a tip on the remote
JOINING = "joining"  # remembered: what lies in the checkout was there before the soul came
LATE = "late"  # remembered: what of that could not be read yet
IDENTITY = "identity"  # remembered: the published id
BIRTH = "birth"  # remembered: id, instant and displayed name of the identity that was generated here
DONE = "materialised"  # remembered: the tree that the working files were last brought to
LEFT = "left"  # remembered: paths whose working file may differ from that
PLACING = "files placed"  # remembered: the intent, boottime, what is placed, by path, and the boot
RECORDING = "recording"  # remembered: the intent of a record
REBUILDING = "rebuilding"  # remembered: the intent of a first part
BASE = "base"  # remembered by a fresh git directory: the commit that the checkout was last brought to (REPO-7)
NOBODY = Stamp(-1, 0, 0, 0)  # the stamp of bytes that we did not read ourselves: equal to no file's


def first_contact(soul: Soul, progress: Progress, look: RemoteLook) -> None:
    """The remote answered and this body never saw a tip there: work alone, join, or adopt a clone.

    Raises Refused(kind="not-a-soul"|"identity"); nothing was written then.
    """
    if look.tip is None:
        # What lies here is recorded first, then filled up and pushed.
        soul.seen.remember(ALONE, True)
        return
    tree = soul.tree_of(look.tip)
    top = _top(soul, tree)
    if not layout.is_soul(top, soul.repo.entry(tree, identity.PATH) is not None):
        raise publish.not_a_soul([name for name in top if not layout.is_soul([name], False)])
    head = soul.head()
    if head is None or soul.seen.recall(JOINING) or not soul.repo.bases(head, look.tip):
        _join(soul, progress, head, look.tip)
    else:
        # A fork that became an agent of its own has a commit in common, too.
        _agree(soul, _committed(soul, head), _committed(soul, look.tip))
        if soul.seen.count() == 0:
            base = soul.seen.recall(BASE)
            _adopt_clone(soul, base if base is not None and soul.repo.has(base) else head, look.tip)
    with soul.seen.transaction():
        soul.seen.remember(REMOTE, look.tip)
        soul.seen.remember(ALONE, None)
        soul.seen.remember(BASE, None)
        remember_identity(soul, tree)


def remember_identity(soul: Soul, published: str) -> None:
    """The id in a published tree is the soul's for ever (MERGE-5)."""
    if soul.seen.recall(IDENTITY) is None:
        soul.seen.remember(IDENTITY, identity.id_of(soul.content(soul.repo.entry(published, identity.PATH))))


def refuse_stranger(soul: Soul, tip: str) -> None:
    """Raise Refused when what stands on a remote that was met is another agent, or no soul, and not ours rewritten.

    To be asked before anything of it is merged, and before anything is laid on it (MERGE-5, REPO-5).
    """
    head = soul.head()
    before = [commit for commit in (soul.seen.recall(REMOTE), head) if commit is not None]
    related = any(soul.repo.bases(commit, tip) for commit in before)
    ours = soul.seen.recall(IDENTITY) or identity.id_of(_committed(soul, head))
    names = [name for name in _top(soul, soul.tree_of(tip)) if name != identity.PATH]
    refusal = publish.stranger(ours, identity.id_of(_committed(soul, tip)), related, names)
    if refusal is not None:
        raise refusal


def _top(soul: Soul, tree: str) -> list[str]:
    return sorted({path.partition("/")[0] for path, _ in soul.repo.files(tree)})


def _committed(soul: Soul, commit: str | None) -> bytes | None:
    return soul.content(soul.repo.entry(soul.tree_of(commit), identity.PATH))


def _agree(soul: Soul, local: bytes | None, remote: bytes | None) -> identity.Join:
    """Whose identity it is after joining. Raises Refused for two agents (MERGE-5); nothing was written then."""
    verdict = _verdict(soul, local, remote)
    # A body that carried this soul before published its id, untouched as that may be: only its memory is gone.
    carried = soul.seen.recall(BASE) is not None and None not in (verdict.local_id, verdict.remote_id)
    if verdict.outcome is identity.Outcome.REFUSED or (carried and verdict.local_id != verdict.remote_id):
        raise publish.two_agents(verdict.local_id, verdict.remote_id)
    return verdict


def _join(soul: Soul, progress: Progress, head: str | None, theirs: str) -> None:
    """Main becomes the remote's tip and nothing is seen; what was ours stays under a ref of our own."""
    verdict = _agree(soul, _local_identity(soul, head), _committed(soul, theirs))
    if head is not None and head != theirs:
        keep(soul, head)
    with soul.seen.transaction():
        # Before main moves: a crash after that must not make an old copy look like an edit of a clone.
        for path in soul.seen.under(""):
            soul.seen.put(path, None)
        for name in (DONE, LEFT, LATE, PLACING, RECORDING, WITHHELD, REBUILDING):
            soul.seen.remember(name, None)
        soul.seen.remember(JOINING, True)
    if head != theirs:
        soul.repo.move(MAIN, head, theirs)
    soul.seen.remember(KNOWN, theirs)
    base = soul.seen.recall(BASE)
    if base is not None and soul.repo.has(base):
        with soul.seen.transaction():
            _adopt_clone(soul, base, theirs)
            soul.seen.remember(JOINING, None)
            soul.seen.remember(BASE, None)
    soul.facts.record("identity.adopted", id=verdict.remote_id)
    progress.notes.append("joined the soul that lives on the remote")


def _adopt_clone(soul: Soul, head: str, tip: str) -> None:
    """A clone of this soul: its HEAD is what was seen, files that are absent excepted (REPO-6).

    tip: of the remote. What lies here may be a copy of a version from between the two.
    """
    look, tree = soul.tree.look({}, None), soul.tree_of(head)
    between, left = [commit.tree for commit in soul.repo.log(tip, head)], []
    with soul.seen.transaction():
        for path, file in soul.repo.files(tree):
            here = path in look.files or any(each in look.special for each in (path, *layout.parents(path)))
            if not here or not file.regular:
                left.append(path)
                continue
            known = _copied(soul, path, file, between) if between and path in look.files else file
            left += [path] if known != file else []
            soul.seen.put(path, SeenEntry(known, known.oid, NOBODY))
        soul.seen.remember(DONE, tree)
        soul.seen.remember(LEFT, left or None)


def _copied(soul: Soul, path: str, file: File, trees: list[str]) -> File:
    """What was seen of a file: the version that lies here, if one of these trees has it there, else `file`."""
    with contextlib.suppress(Moved, Held):
        oid = blob_id(soul.tree.read(path, soul.limits.hold_back_over).content)
        if oid != file.oid and any((one := soul.repo.entry(tree, path)) and one.oid == oid for tree in trees):
            return File(oid, file.mode)
    return file


def _local_identity(soul: Soul, head: str | None) -> bytes | None:
    """The identity this body brings: the working file's, else the one on its own main."""
    try:
        return soul.tree.read(identity.PATH, soul.limits.hold_back_over).content
    except (Moved, Held):
        return _committed(soul, head)


def _verdict(soul: Soul, local: bytes | None, remote: bytes | None) -> identity.Join:
    birth = soul.seen.recall(BIRTH) or {}
    id = identity.id_of(local)
    return identity.join(local, remote, local_published=id is None or id != birth.get("id"))


def settle_identity(soul: Soul, version: File, theirs: File | None) -> tuple[Triple, tuple[Lost, ...]]:
    """The local identity found on joining, as a side of a merge whose base is what is published (MERGE-5).

    Its bytes are lost where they are in no result, seeds excepted: nobody wrote those.
    """
    local, remote = soul.content(version), soul.content(theirs)
    verdict = _verdict(soul, local, remote)
    if verdict.content is None or theirs is None:
        return Triple(None, version, theirs), ()
    result = File(soul.repo.write(verdict.content), theirs.mode)
    seed = (identity.read(local) or {}).get("seed") is True
    kept = seed or version.oid in (result.oid, theirs.oid)
    return Triple(theirs, result, theirs), () if kept else (Lost(identity.PATH, version, "ours"),)
