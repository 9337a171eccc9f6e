"""`agent.json` in a merge of trees: whatever the two sides did, one readable identity comes out.

What an identity is and how two of them become one is said in `identity`; here is when which of that is asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bridge.core import identity, jsontext, newest
from bridge.core.model import PLAIN, Decision, File, Lost, Triple, blob_id
from bridge.core.sides import Facts, Outcome, Version, dropped, made, same, settled, with_bit

PATH = identity.PATH


@dataclass(frozen=True, slots=True)
class _Side:
    """One side's version after mending. content: None where it is absent or no regular file."""

    name: str
    file: File | None
    content: bytes | None
    undone: bool = False

    @property
    def fields(self) -> dict[str, Any] | None:
        return identity.read(self.content)

    @property
    def told(self) -> bool:
        """Whether its fields say all that its bytes say, so that nothing of it is lost where they are merged."""
        return self.content is not None and self.fields is not None and jsontext.exact(self.content)


def merge(triple: Triple, facts: Facts) -> Outcome:
    """Each side is mended first (MERGE-5), then comes MERGE-1, then the merge by field (MERGE-4).

    On joining, fields only we have are added to what is published, and our version is lost (REPO-6). A caller that
    settled two identities by `identity.join` gives what is published as base, and the result of that as ours.
    """
    base = facts.content(triple.base)
    ours = _mended("ours", triple.ours, triple.base, base, facts)
    theirs = _mended("theirs", triple.theirs, triple.base, base, facts)
    mended = Triple(triple.base, ours.file, theirs.file)
    outcome = settled(mended) or _by_field(mended, base, (ours, theirs), facts)
    version = outcome.version
    for side in (ours, theirs):
        if side.content is not None and version == side.file:
            version = made(side.content, triple)
    version = with_bit(version, mended)
    joins = facts.joins(PATH, triple)
    unused = {side.name for side in (ours, theirs) if side.undone or not side.told} | ({"ours"} if joins else set())
    lost = tuple(one for one in dropped(PATH, triple, version) if one.side in unused)
    words = "{} lost the identity, broke it or changed its id: undone"
    undone = tuple(Decision(PATH, "MERGE-5", words.format(side.name)) for side in (ours, theirs) if side.undone)
    return Outcome(version, lost, outcome.decisions + undone)


def clear_below(files: Mapping[str, Version | None], triples: Mapping[str, Triple]) -> dict[str, tuple[Lost, ...]]:
    """Paths below `agent.json` that would take its place, each with the versions that are lost with it (MERGE-5)."""
    below = (path for path, version in files.items() if path.startswith(PATH + "/") and version is not None)
    return {path: dropped(path, triples[path], None) for path in below}


def _mended(name: str, file: File | None, base: File | None, old: bytes | None, facts: Facts) -> _Side:
    """A side with what MERGE-5 forbids undone; what it did not change is not looked at."""
    content = facts.content(file)
    if same(file, base):
        return _Side(name, file, content)
    after, undone = identity.mend(facts.identity, old, content)
    if not undone or after is None:
        return _Side(name, file, content)
    mode = next((one.mode for one in (file, base) if one is not None and one.regular), PLAIN)
    return _Side(name, File(blob_id(after), mode), after, True)


def _by_field(triple: Triple, base: bytes | None, sides: tuple[_Side, _Side], facts: Facts) -> Outcome:
    """Both sides changed it: the fields of both, of one that can be read, or the newer of two that cannot."""
    ours, theirs = sides
    here, there = ours.fields, theirs.fields
    if here is None and there is None:
        return newest.merge(PATH, triple, facts)
    if here is None or there is None:
        return Outcome(triple.ours if there is None else triple.theirs)
    if facts.joins(PATH, triple):
        both = {**here, **there}
        return Outcome(triple.theirs if jsontext.same(both, there) else made(identity.write(both), triple))
    content = identity.merge(base, ours.content, theirs.content)
    # A base with a foreign id would hand it on.
    after, _ = identity.mend(facts.identity, base, content)
    return Outcome(made(content if after is None else after, triple))
