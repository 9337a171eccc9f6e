"""A push that the server refuses for what is in it: the rest is published, that is tried again (REPO-8 applied).

Only one step moves main to what does not descend from it: after the first part was accepted, main becomes that part,
and every other path is withheld. An intent written before that push lets a later process finish it. From then on
main only grows: by each further part that the server takes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any

from bridge.app import arrivals, withheld
from bridge.app.joining import IDENTITY, REBUILDING, REMOTE
from bridge.app.observing import leave
from bridge.app.recording import (
    beat,
    being_written,
    changed,
    clock_wrong,
    describe,
    entry_of,
    plain_entry,
    standing_around,
    with_lost,
)
from bridge.app.soul import KNOWN, Progress, Soul
from bridge.app.standing import advance, keep
from bridge.core import bodies, commits, identity, merge, withhold
from bridge.core.errors import Refused
from bridge.core.layout import MAIN
from bridge.core.model import File, Kind, Lost, Merged, Touch, Triple
from bridge.core.withhold import Hold, Refusal, Trial, Withheld

OFFERING = "offering"  # remembered: the intent of a further part

Push = Callable[[str | None, str], None]
Changes = dict[str, File | None]


def recover(soul: Soul) -> None:
    """Finish what a crash interrupted after the server had taken a part."""
    _settle_offer(soul)
    intent: dict[str, Any] | None = soul.seen.recall(REBUILDING)
    if intent is None:
        return
    tip = soul.repo.tip(MAIN)
    if soul.seen.recall(REMOTE) == intent["to"] and tip in (intent["from"], intent["to"]):
        _rebuild(soul, intent)
    else:
        soul.seen.remember(REBUILDING, None)


def withhold_from(soul: Soul, progress: Progress, push: Push, refused: Refused) -> None:
    """Publish what the server takes of main, which it refused as it is; hold the rest.

    Raises `refused` when it is not about paths: then nothing was changed. Moved, Transient and Refused of another kind
    as `push` does; what was published by then stays so, and what was not is withheld.
    """
    _settle_offer(soul)
    head, known = soul.head(), soul.seen.recall(REMOTE)
    if refused.kind != "rejected" or head is None:
        raise refused
    changes: Changes = {
        path: file for path, (_, file) in soul.repo.diff(soul.tree_of(known), soul.tree_of(head)).items()
    }
    riders = _riders(soul, known, head, changes)
    paths = tuple(sorted(changes.keys() - riders.keys()))
    merges = known is not None and any(len(commit.parents) > 1 for commit in soul.repo.log(head, known))
    flat = list(soul.repo.info(head).parents) == ([known] if known else [])
    refusal = Refusal(paths, refused.whole, flat, merges, frozenset(withheld.recall(soul)))
    trials: list[Trial] = []
    most = withhold.MOST_PUSHES - progress.tries
    while isinstance(step := withhold.decide(refusal, trials, most), withhold.Try):
        if any(trial.accepted for trial in trials):
            trials.append(_offer(soul, progress, push, step.paths))
        else:
            part = riders | {path: changes[path] for path in step.paths}
            trials.append(_first(soul, push, refused, part, step.paths, changes.keys() - part.keys(), merges))
    soul.seen.remember(REBUILDING, None)
    if step is None:
        raise refused
    _hold(soul, progress, step, refused.whole, trials)


def retry(soul: Soul, progress: Progress, push: Push, now: bool) -> None:
    """Try what is withheld and whose time has come, by itself, when everything else is published.

    now: a person asked for it. Raises as `push` does; what is refused is no error.
    """
    _settle_offer(soul)
    holds, head = withheld.recall(soul), soul.head()
    most = withhold.MOST_PUSHES - progress.tries
    if not holds or head is None or head != soul.seen.recall(REMOTE) or progress.held or most < 1:
        return
    due, done = [], []
    for path in sorted(holds.keys() & progress.apart.keys()):
        hold, (merged, changes, lost) = holds[path], _wanted(soul, progress, {path: holds[path]})
        if not changes and not lost:
            done.append(path)
            continue
        differs = withhold.mark(_file(soul, changes, merged, path)) != hold.refused
        if now or hold.due(differs, soul.clock.now()):
            due.append(path)
        elif differs or not hold.sure:
            progress.due(soul.clock.boottime() + hold.left(soul.clock.now()))
    if done:
        _let_go(soul, progress, done)
    if not due:
        return
    refusal, trials = Refusal(tuple(due), again=True), list[Trial]()
    while isinstance(step := withhold.decide(refusal, trials, most), withhold.Try):
        trials.append(_offer(soul, progress, push, step.paths))
    if step is not None:
        _hold(soul, progress, step, "", trials, now)


def _riders(soul: Soul, known: str | None, head: str, changes: Changes) -> Changes:
    """What goes with every part: this body's registry entry, and the identity where the remote has none (MERGE-5)."""
    tree, published = soul.tree_of(head), soul.tree_of(known)
    own = bodies.path(soul.body)
    riders: Changes = {}
    if own in changes:
        riders[own] = changes[own]
    elif not being_written(soul, own):
        riders[own] = beat(soul, tree)
    if identity.id_of(soul.content(soul.repo.entry(published, identity.PATH))) is None and identity.PATH in changes:
        riders[identity.PATH] = changes[identity.PATH]
    return riders


def _first(
    soul: Soul, push: Push, refused: Refused, part: Changes, paths: frozenset[str], rest: Collection[str], merges: bool
) -> Trial:
    """Offer a part of main laid on the remote tip; once the server took it, main is that and `rest` is withheld."""
    head, known = soul.head() or "", soul.seen.recall(REMOTE)
    before = soul.tree_of(known)
    tree = soul.repo.edit(before, part)
    if tree == before:
        return Trial(paths, False, refused.whole)
    time = _time(soul, head, known)
    words, parents = describe(soul, before, part), [known] if known else []
    commit = soul.commit(tree, parents, words, _facts_of(soul, head, known), time)
    if merges and not paths and known is not None:
        # Merge commits may be what the server minds: nothing but the form of what it refused.
        commit = soul.commit(tree, [known, commit], words, None, time)
    holds = _new_holds(soul, head, known, rest, refused.whole, time)
    soul.repo.flush()
    intent = {"from": head, "to": commit, "held": {path: _plain(hold) for path, hold in holds.items()}}
    soul.seen.remember(REBUILDING, intent)
    try:
        push(known, commit)
    except Refused as error:
        if error.kind != "rejected":
            raise
        return Trial(paths, False, error.whole)
    _rebuild(soul, intent)
    return Trial(paths, True)


def _rebuild(soul: Soul, intent: dict[str, Any]) -> None:
    """Move main to what was accepted, and withhold the rest: no descendant, so where it stood is kept."""
    head, commit = intent["from"], intent["to"]
    keep(soul, head)
    if soul.repo.tip(MAIN) != commit:
        advance(soul, head, commit)
    holds = {path: Withheld(*plain) for path, plain in intent["held"].items()}
    for kept in {hold.commit for hold in holds.values()}:
        keep(soul, kept)
    with soul.seen.transaction():
        soul.seen.remember(KNOWN, commit)
        withheld.remember(soul, withheld.recall(soul) | holds)
        leave(soul, set(holds))
        soul.seen.remember(REBUILDING, None)


def _new_holds(
    soul: Soul, head: str, known: str | None, paths: Iterable[str], words: str, time: int
) -> dict[str, Withheld]:
    """What becomes of each path that is not published now; what was withheld before is joined with what came since."""
    tree, before, now = soul.tree_of(head), withheld.recall(soul), soul.clock.now()
    fresh = [path for path in paths if path not in before]
    commit_of = dict.fromkeys(fresh, head)
    files = {path: soul.repo.entry(tree, path) for path in fresh}
    twice = [path for path in paths if path in before]
    if twice:
        merged = _joined(soul, {path: before[path] for path in twice}, {}, head)
        both = soul.repo.edit(tree, {path: None for path in twice} | changed(soul, merged, ""))
        parents = list(dict.fromkeys([head, *(before[path].commit for path in twice)]))
        kept = soul.commit(both, parents, "keep " + withhold.paths_of(twice), None, time)
        commit_of |= dict.fromkeys(twice, kept)
        files |= {path: soul.repo.entry(both, path) for path in twice}
    said = withhold.reason(words)
    return {
        path: Withheld(commit, known, said, time, now, withhold.DOUBTFUL_PAUSE, withhold.mark(files[path]))
        for path, commit in commit_of.items()
    }


def _offer(soul: Soul, progress: Progress, push: Push, paths: Collection[str]) -> Trial:
    """Offer withheld paths on top of main; once the server took them, they are on main."""
    head = soul.head() or ""
    tree = soul.tree_of(head)
    holds = {path: hold for path, hold in withheld.recall(soul).items() if path in paths}
    _, changes, lost = _wanted(soul, progress, holds)
    if changes or lost:
        new = any(_changed(progress, path) for path in paths)
        time = soul.moment([head] if head else []) if new else max(hold.time for hold in holds.values())
        words = describe(soul, tree, changes) if changes else "keep " + withhold.paths_of(paths)
        own = bodies.path(soul.body)
        rider: Changes = {} if own in changes or being_written(soul, own) or not new else {own: beat(soul, tree)}
        commit = with_lost(soul, head, tree, changes | rider, lost, words, time)
        soul.seen.remember(OFFERING, _offered(progress, paths, commit))
        try:
            push(head, commit)
        except Refused as error:
            if error.kind != "rejected":
                raise
            soul.seen.remember(OFFERING, None)
            if new:
                keep(soul, commit)
            return Trial(frozenset(paths), False, error.whole)
        advance(soul, head, commit)
        progress.recorded += sorted(changes)
        progress.lost += [version.path for version in lost]
        soul.facts.record("commit.recorded", commit=commit, paths=sorted(changes))
    _let_go(soul, progress, paths)
    return Trial(frozenset(paths), True)


def _offered(progress: Progress, paths: Collection[str], commit: str) -> dict[str, Any]:
    entries = {path: plain_entry(progress.apart[path].entry) for path in paths if _changed(progress, path)}
    return {"commit": commit, "paths": sorted(paths), "entries": entries}


def _changed(progress: Progress, path: str) -> bool:
    return path in progress.apart and progress.apart[path].changed


def _settle_offer(soul: Soul) -> None:
    """Once main has a part that was offered, what it holds is withheld no more.

    The answer may have been lost, or this process with it: then main comes to that commit by a fetch.
    """
    intent: dict[str, Any] | None = soul.seen.recall(OFFERING)
    if intent is None or not soul.repo.has(intent["commit"]):
        return
    tip = soul.repo.tip(MAIN)
    if tip is None or not soul.repo.is_ancestor(intent["commit"], tip):
        return
    holds = withheld.recall(soul)
    landed = holds.keys() & set(intent["paths"])
    with soul.seen.transaction():
        for path in landed & intent["entries"].keys():
            soul.seen.put(path, entry_of(intent["entries"][path]))
        withheld.remember(soul, {path: hold for path, hold in holds.items() if path not in landed})
        leave(soul, landed)
        soul.seen.remember(OFFERING, None)


def _let_go(soul: Soul, progress: Progress, paths: Collection[str]) -> None:
    # What was read becomes what was seen: its bytes are the base of what comes next, though no commit may hold them.
    soul.repo.flush()
    with soul.seen.transaction():
        withheld.let_go(soul, progress, paths)
        leave(soul, set(paths))
        soul.seen.remember(OFFERING, None)
    for path in sorted(paths):
        soul.facts.record("guard.passed", path=path, rule=withheld.RULE)


def _hold(soul: Soul, progress: Progress, found: Hold, words: str, trials: list[Trial], asked: bool = False) -> None:
    """Remember what a run found out of the paths that are still withheld."""
    holds, now = withheld.recall(soul), soul.clock.now()
    for path in (found.proven | found.doubtful) & holds.keys():
        said = next((trial.words for trial in reversed(trials) if path in trial.paths and not trial.accepted), words)
        merged, changes, _ = _wanted(soul, progress, {path: holds[path]})
        mark = withhold.mark(_file(soul, changes, merged, path))
        sure = path in found.proven
        holds[path] = holds[path].again(now, mark, withhold.reason(said or holds[path].reason), sure, asked)
    withheld.remember(soul, holds)
    progress.held |= found.proven | found.doubtful
    if progress.held:
        progress.notes.append(f"held, for the server refuses it: {withhold.paths_of(progress.held)}")


def _wanted(soul: Soul, progress: Progress, side: dict[str, Withheld]) -> tuple[Merged, Changes, tuple[Lost, ...]]:
    """Withheld paths brought into main: the merge, what main changes by it, versions that lost and are not kept yet."""
    head = soul.head() or ""
    merged = _joined(soul, side, _locals(soul, progress, side), head)
    dropped = [lost for path in side for lost in _dropped(soul, progress, path, head)]
    lost = tuple(
        version
        for version in dict.fromkeys(merged.lost + tuple(dropped))
        if not soul.repo.ever(head, version.path, version.file.oid)
    )
    return merged, changed(soul, merged, soul.tree_of(head)), lost


def _file(soul: Soul, changes: Changes, merged: Merged, path: str) -> File | None:
    return changes[path] if path in changes else soul.repo.entry(soul.tree_of(soul.head()), path)


def _locals(soul: Soul, progress: Progress, holds: dict[str, Withheld]) -> Changes:
    """What the agent wrote since, recorded on the side branch of its path: what `record` does on main."""
    triples = {}
    for path, hold in holds.items():
        apart = progress.apart.get(path)
        if apart is not None and apart.changed:
            base = arrivals.base_of(soul, path, soul.seen_file(path), apart.version)
            triples[path] = Triple(base, apart.version, soul.repo.entry(soul.tree_of(hold.commit), path))
    if not triples:
        return {}
    now = int(soul.clock.now())
    trees = {path: soul.tree_of(holds[path].commit) for path in triples}
    merged = merge.trees(
        triples,
        merge.Facts(
            read=soul.repo.read,
            touched_ours=lambda path: Touch(now, soul.body),
            touched_theirs=lambda path: soul.repo.touched(holds[path].commit, path, None) if path in holds else None,
            kind_ours=lambda path: soul.repo.kind(trees[path], path) if path in trees else Kind.ABSENT,
            kind_theirs=lambda path: soul.repo.kind(trees[path], path) if path in trees else Kind.ABSENT,
            now=now,
            clock_wrong=clock_wrong(soul),
            identity=soul.seen.recall(IDENTITY),
        ),
    )
    found = changed(soul, merged, "")
    return {path: found.get(path) for path in triples}


def _joined(soul: Soul, holds: dict[str, Withheld], since: Changes, theirs: str) -> Merged:
    """Side branches merged with a commit: their base is what they left. since: their newest versions."""
    ours: Changes = {}
    triples = {}
    for path, hold in holds.items():
        ours[path] = since[path] if path in since else soul.repo.entry(soul.tree_of(hold.commit), path)
        base = soul.repo.entry(soul.tree_of(hold.base), path)
        triples[path] = Triple(base, ours[path], soul.repo.entry(soul.tree_of(theirs), path))
    now, tree, there = int(soul.clock.now()), soul.repo.edit("", ours), soul.tree_of(theirs)
    # What was published meanwhile above or below such a path stays, and the version is laid beside it (MERGE-8).
    triples |= {path: Triple(None, None, file) for path, file in standing_around(soul, there, triples).items()}

    def touched_ours(path: str) -> Touch | None:
        if path in since or path not in holds:
            return Touch(now, soul.body)
        return soul.repo.touched(holds[path].commit, path, holds[path].base)

    def touched_theirs(path: str) -> Touch | None:
        return soul.repo.touched(theirs, path, holds[path].base if path in holds else None)

    return merge.trees(
        triples,
        merge.Facts(
            read=soul.repo.read,
            touched_ours=touched_ours,
            touched_theirs=touched_theirs,
            kind_ours=lambda path: soul.repo.kind(tree, path),
            kind_theirs=lambda path: soul.repo.kind(there, path),
            now=now,
            clock_wrong=clock_wrong(soul),
            identity=soul.seen.recall(IDENTITY),
        ),
    )


def _dropped(soul: Soul, progress: Progress, path: str, head: str) -> tuple[Lost, ...]:
    apart = progress.apart.get(path)
    if apart is None or not apart.changed:
        return ()
    base = arrivals.base_of(soul, path, soul.seen_file(path), apart.version)
    return arrivals.dropped(soul, path, base, apart.version, soul.repo.entry(soul.tree_of(head), path))


def _time(soul: Soul, head: str, known: str | None) -> int:
    """When what is made again was made: commits made again keep their time (MERGE-6)."""
    times = [commit.time for commit in soul.repo.log(head, known) if len(commit.parents) < 2]
    return max(times, default=soul.repo.info(head).time)


def _facts_of(soul: Soul, head: str, known: str | None) -> list[tuple[str, str]]:
    """The facts of the commits that are laid together; of lost versions those that published history has."""
    kept: dict[tuple[str, str], None] = {}
    for commit in soul.repo.log(head, known):
        facts = commits.trailers(commit.message)
        kept |= {fact: None for fact in facts if fact[0] != commits.LOST}
        for blob, path in commits.lost_among(facts):
            if known is not None and soul.repo.ever(known, path, blob):
                kept[commits.lost(blob, path)] = None
    return list(kept)


def _plain(hold: Withheld) -> list[Any]:
    return list(withheld.plain(hold))
