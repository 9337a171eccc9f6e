"""Three trees become one, path by path: which rule each path falls under.

The same function serves `record` (base: what was seen, ours: the working files, theirs: HEAD) and the merge with the
remote (base: the merge base, ours: our tip, theirs: the remote's tip). Its result depends on nothing but its
arguments, never on their order; it never raises and never waits for a person. What has parts is merged in the room
of that file; what has none is in `newest`, moved files are in `moves`, files in the way of directories in `beside`.

Rules: MERGE-10, MERGE-11.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from bridge.core import agentfile, beside, bodies, entries, journal, layout, moves, newest
from bridge.core.errors import Held
from bridge.core.model import Decision, File, Merged, Triple
from bridge.core.sides import Facts, Outcome, dropped, made, same, settled, with_bit

__all__ = ["Facts", "trees"]

SPEC_FILE = ".soul-spec.json"


def trees(triples: Mapping[str, Triple], facts: Facts) -> Merged:
    """The merge of three trees, given the paths where a side differs from base.

    Cost follows the number of triples; blobs are read and history is asked only for paths that both sides changed.
    """
    followed, decisions = moves.follow(triples)
    outcomes = {path: _one(path, followed[path], facts) for path in sorted(followed)}
    files = {path: outcome.version for path, outcome in outcomes.items()}
    lost = [version for outcome in outcomes.values() for version in outcome.lost]
    decisions += [decision for outcome in outcomes.values() for decision in outcome.decisions]
    if facts.identity is not None and files.get(agentfile.PATH) is not None:
        for path, versions in agentfile.clear_below(files, triples).items():
            files[path] = None
            lost += versions
            decisions.append(Decision(path, "MERGE-5", f"gone, for {agentfile.PATH} stays a file"))
    result, kept = beside.keep(files, triples, facts)
    return Merged(
        dict(sorted(result.items())),
        tuple(sorted(set(lost), key=lambda version: (version.path, version.side))),
        tuple(sorted(decisions + kept, key=lambda decision: (decision.path, decision.rule, decision.words))),
    )


def _one(path: str, triple: Triple, facts: Facts) -> Outcome:
    """What becomes of one path, other paths aside."""
    if layout.is_lock(path):
        return _lock(path, triple, facts)
    if _is_old_copy(path, triple, facts):
        return Outcome(triple.theirs, decisions=(Decision(path, "REPO-6", "ours is an old copy"),))
    if path == agentfile.PATH:
        return agentfile.merge(triple, facts)
    outcome = settled(triple) or _both(path, triple, facts)
    return replace(outcome, version=with_bit(outcome.version, triple))


def _is_old_copy(path: str, triple: Triple, facts: Facts) -> bool:
    """Whether ours, found on joining, is what the path held at some time in what is published (REPO-6)."""
    if not facts.joins(path, triple) or triple.ours is None or same(triple.ours, triple.theirs):
        return False
    # A remote that has lost its identity gets it back from whoever still has it (MERGE-5).
    lost_there = path == agentfile.PATH and triple.theirs is None
    return not lost_there and facts.published(path, triple.ours.oid)


def _both(path: str, triple: Triple, facts: Facts) -> Outcome:
    """The rule for a path whose bytes both sides changed."""
    if layout.is_fixed(path):
        return _fixed(path, triple, facts)
    outcome = None
    if layout.is_memory(path):
        outcome = _memory(path, triple, facts)
    elif layout.is_journal(path) or layout.is_body(path):
        outcome = _shared(path, triple, facts)
    return outcome or newest.merge(path, triple, facts)


def _lock(path: str, triple: Triple, facts: Facts) -> Outcome:
    """Theirs, also where only ours changed: who holds a lease is what is published. What was never recorded is lost."""
    if triple.ours in (triple.base, triple.theirs):
        return Outcome(triple.theirs)
    lost = tuple(one for one in dropped(path, triple, triple.theirs) if one.side == "ours")
    lost = tuple(one for one in lost if not facts.recorded(path, one.file.oid))
    return Outcome(triple.theirs, lost, (Decision(path, "MERGE-10", "ours is put back"),))


def _fixed(path: str, triple: Triple, facts: Facts) -> Outcome:
    """Theirs, unless ours is the specification file of a higher version."""
    ours, theirs = (layout.version(facts.content(file)) for file in (triple.ours, triple.theirs))
    higher = path == SPEC_FILE and ours is not None and (theirs is None or ours > theirs)
    winner = triple.ours if higher else triple.theirs
    words = "ours stands: it is the higher version" if higher else "theirs stands"
    return Outcome(winner, dropped(path, triple, winner), (Decision(path, "MERGE-10", words),))


def _memory(path: str, triple: Triple, facts: Facts) -> Outcome | None:
    """The merge by entry, None where one of the three has no entries: it is a link or not text."""
    base, ours, theirs = (_entries(file, facts) for file in (triple.base, triple.ours, triple.theirs))
    if base is None or ours is None or theirs is None:
        return None
    result = entries.merge(base, ours, theirs)
    gone = triple.ours is None or triple.theirs is None
    if not result and gone and not layout.is_required(path):
        return Outcome(None)
    return Outcome(made(entries.write(result), triple))


def _entries(file: File | None, facts: Facts) -> tuple[str, ...] | None:
    """Entries of a memory file: none when it is absent, None when it is a link or not text."""
    content = facts.content(file)
    if content is None:
        return () if file is None else None
    try:
        return entries.read(content)
    except Held:
        return None


def _shared(path: str, triple: Triple, facts: Facts) -> Outcome | None:
    """A file that only one body writes and that differs all the same, None where a side is no regular file."""
    ours, theirs = facts.content(triple.ours), facts.content(triple.theirs)
    if ours is None or theirs is None:
        return None
    version = made((journal.merge if layout.is_journal(path) else bodies.merge)(ours, theirs), triple)
    whole = layout.is_body(path) or not (_is_text(ours) and _is_text(theirs))
    words = "it changed on both sides: " + ("the one seen later stands" if layout.is_body(path) else "both are kept")
    return Outcome(version, dropped(path, triple, version) if whole else (), (Decision(path, "MERGE-9", words),))


def _is_text(content: bytes) -> bool:
    try:
        content.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True
