"""What holds for every merge of trees: by exhaustion over a tiny alphabet, then over random trees and bytes."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bridge.core import entries, identity, layout
from bridge.core.merge import trees
from bridge.core.model import EXECUTABLE, GITLINK, LINK, PLAIN, Content, File
from bridge.core.sides import same
from tests.core.merge_world import Tree, World, is_tree, triples

MEMORY = "memories/M.md"
JOURNAL = "journal/b/2026-01-02.md"
LOCK = "locks/consolidation.json"
AGENT = "agent.json"
SOUL = "SOUL.md"
ID = "0b8f3f0e-2d1c-4c7a-9f5e-0a1b2c3d4e5f"

# x, y and seed text, as each kind of file has them.
CONTENTS: dict[str, tuple[str, ...]] = {
    MEMORY: ("x\n§\ns\n", "s\n§\ny\n", "# K\n"),
    JOURNAL: ("# 2026-01-02 · b\n\n## 09:00 X\nx\n", "# 2026-01-02 · b\n\n## 10:00 Y\ny\n", "# 2026-01-02 · b\n"),
    AGENT: (
        json.dumps({"id": ID, "color": "x"}, indent=2) + "\n",
        json.dumps({"id": ID, "color": "y", "more": 1}, indent=2) + "\n",
        json.dumps({"id": "other", "seed": True}, indent=2) + "\n",
    ),
}
TIMES = [(100, 200), (200, 100), (100, 100), (None, 100), (9999, 100), (100, 9999), (9999, None)]


def states(path: str) -> Iterator[dict[str, str]]:
    """A tree that lacks a path, and one with each of its versions."""
    yield {}
    for content in CONTENTS.get(path, ("x\n", "y\n", "# K\n")):
        yield {path: content}


def products(*paths: str) -> list[dict[str, str]]:
    """Every tree with these paths."""
    found = [
        {path: text for state in chosen for path, text in state.items()}
        for chosen in itertools.product(*map(states, paths))
    ]
    return [tree for tree in found if is_tree(tree)]


def all_triples(*paths: str) -> Iterator[tuple[World, Tree, Tree, Tree]]:
    """Every three trees over these paths, at every time."""
    for ours_at, theirs_at in TIMES:
        for wrong, joining in ((False, False), (True, False), (False, True)):
            world = World(ours_at=ours_at, theirs_at=theirs_at, clock_wrong=wrong, joining=joining, identity=ID)
            choices = [world.tree(tree) for tree in products(*paths)]
            bases: list[dict[str, File]] = [{}] if joining else choices
            for base, ours, theirs in itertools.product(bases, choices, choices):
                yield world, base, ours, theirs


ALPHABET = [("a",), ("a", "a/b"), (MEMORY,), (SOUL,), (LOCK,), (AGENT,), ("bodies/b.json",), (JOURNAL,)]


def merges_by_part(path: str) -> bool:
    """Whether new bytes may result from two versions."""
    return layout.is_memory(path) or layout.is_journal(path) or path == AGENT


def assert_laws(world: World, base: Tree, ours: Tree, theirs: Tree) -> dict[str, File]:
    """The laws that hold for any three trees, clocks and circumstances."""
    merged = world.merge(base, ours, theirs)
    result = world.applied(ours, merged)
    assert merged.files.keys() >= triples(base, ours, theirs).keys()
    assert is_tree(result), "a path is both file and directory"
    assert merged == world.merge(base, ours, theirs), "a replay differs"

    known = {file.oid for tree in (base, ours, theirs) for file in tree.values()}
    for path, version in merged.files.items():
        invented = isinstance(version, Content) and not merges_by_part(path) and "~" not in path
        assert not invented, f"{path} holds bytes that nobody wrote"
        assert not isinstance(version, File) or version.oid in known

    kept = {file.oid for file in result.values()} | {lost.file.oid for lost in merged.lost}
    kept |= {file.oid for file in base.values()}
    for side, tree in (("ours", ours), ("theirs", theirs)):
        for path, file in tree.items():
            old = world.joining and side == "ours" and file.oid in world.published.get(path, ())
            stood = layout.is_lock(path) and side == "ours" and world.recorded is None
            if not (merges_by_part(path) or stood or old):
                assert file.oid in kept, f"{side} {path} is neither in the result nor lost"
    for lost in merged.lost:
        tree = ours if lost.side == "ours" else theirs
        assert tree[lost.path] == lost.file
        assert not same(lost.file, result.get(lost.path))
        assert not same(lost.file, base.get(lost.path))
    return result


def test_no_lock_that_history_lacks_is_left_out_of_it() -> None:
    """MERGE-10: it is put back, and what was written there stays."""
    for world, base, ours, theirs in all_triples(LOCK):
        world.recorded = {}
        assert_laws(world, base, ours, theirs)


@pytest.mark.parametrize("paths", ALPHABET, ids=" ".join)
def test_every_law_holds_for_every_three_trees_of_a_tiny_alphabet(paths: tuple[str, ...]) -> None:
    """MERGE-1, 6, 8, 10, 11."""
    for world, base, ours, theirs in all_triples(*paths):
        assert_laws(world, base, ours, theirs)


@pytest.mark.parametrize("paths", ALPHABET, ids=" ".join)
def test_where_one_side_is_unchanged_the_other_stands(paths: tuple[str, ...]) -> None:
    """MERGE-1; MERGE-5 and MERGE-10 come before it."""
    for world, base, ours, theirs in all_triples(*paths):
        if world.joining or (AGENT in paths and not keeps_identity(world, base, ours, theirs)):
            continue
        if base == ours:
            assert world.result(base, ours, theirs) == theirs
        if base == theirs:
            assert world.result(base, ours, theirs) == (theirs if LOCK in paths else ours)
        if ours == theirs:
            assert world.result(base, ours, theirs) == ours
            assert world.merge(base, ours, theirs).lost == ()


def keeps_identity(world: World, *trees: Tree) -> bool:
    """Whether all trees hold the identity that is published."""
    files = [tree.get(AGENT) for tree in trees]
    return all(file is not None and identity.id_of(world.blobs[file.oid]) == ID for file in files)


@pytest.mark.parametrize("paths", ALPHABET, ids=" ".join)
def test_merging_a_result_again_changes_nothing(paths: tuple[str, ...]) -> None:
    """A move, which is over once it is merged, is the one thing that cannot be seen a second time."""
    for world, base, ours, theirs in all_triples(*paths):
        merged = world.merge(base, ours, theirs)
        result = world.applied(ours, merged)
        assert world.result(theirs, result, theirs) == result or LOCK in paths or world.joining
        if not any(decision.rule == "MERGE-7" for decision in merged.decisions):
            assert world.result(base, result, theirs) == result


@pytest.mark.parametrize("paths", [("a",), ("a", "a/b"), (SOUL,)], ids=" ".join)
def test_who_merges_does_not_matter_where_times_tell_the_sides_apart(paths: tuple[str, ...]) -> None:
    """MERGE-6, MERGE-7, MERGE-8, MERGE-11."""
    for world, base, ours, theirs in all_triples(*paths):
        known = [at for at in (world.ours_at, world.theirs_at) if at in (100, 200)]
        if world.joining or world.clock_wrong or world.ours_at == world.theirs_at or not known:
            continue
        mirror = World(
            ours_at=world.theirs_at,
            theirs_at=world.ours_at,
            bodies={"ours": "phone", "theirs": "laptop"},
            blobs=world.blobs,
        )
        assert world.result(base, ours, theirs) == mirror.result(base, theirs, ours)


def test_a_published_identity_is_in_every_result() -> None:
    """MERGE-5."""
    for world, base, ours, theirs in all_triples(AGENT):
        if keeps_identity(world, base):
            result = world.result(base, ours, theirs)
            assert keeps_identity(world, result)


def test_a_published_identity_survives_directories_in_its_place() -> None:
    """MERGE-5 before MERGE-8."""
    for world, base, ours, theirs in all_triples(AGENT, f"{AGENT}/b"):
        if keeps_identity(world, base):
            result = assert_laws(world, base, ours, theirs)
            assert keeps_identity(world, result)


@pytest.mark.parametrize("kinds", [("a", "c"), ("a", MEMORY), ("a/b", "a"), ("a", "c", "d")], ids=" ".join)
def test_every_law_holds_where_files_move(kinds: tuple[str, ...]) -> None:
    """MERGE-7: over two versions, for three paths have 27 trees and 19,683 triples."""
    world = World()
    texts = ["x\n"] if len(kinds) == 3 else ["x\n", "y\n"]
    options = [[None, *texts] for _ in kinds]
    choices = [
        world.tree({path: text for path, text in zip(kinds, chosen, strict=True) if text is not None})
        for chosen in itertools.product(*options)
    ]
    valid = [tree for tree in choices if is_tree(tree)]
    edited = [{**tree, "a": world.file("y\n")} for tree in valid if "a" in tree]
    for base, ours, theirs in itertools.product(valid, valid + edited, valid + edited):
        result = assert_laws(world, base, ours, theirs)
        if base == ours:
            assert result == theirs
        if base == theirs:
            assert result == ours


TEXTS = st.sampled_from(
    ["", "x\n", "y\n", "# K\n", "x\n§\ny\n", "y\n§\nz\n", "{}\n", '{"id": "1"}\n', "\ufeffx\n", "\n"]
)
BYTES = st.one_of(TEXTS.map(str.encode), st.binary(max_size=12))
MODES = st.sampled_from([PLAIN, PLAIN, PLAIN, EXECUTABLE, LINK])
NAMES = st.sampled_from(["a", "b", "a.md", "a~laptop", "a~phone", "é" * 127, "\udcff", "git"])
PATHS = st.one_of(
    st.lists(NAMES, min_size=1, max_size=3).map("/".join),
    st.sampled_from([MEMORY, SOUL, LOCK, AGENT, "agent.json/a", "locks", "memories", ".soul-spec.json", "README.md"]),
    st.sampled_from(["memories/MEMORY.md", "bodies/b.json", JOURNAL, "journal", "notes/a/b.md"]),
)


@st.composite
def stages(draw: st.DrawFn) -> tuple[World, Tree, Tree, Tree]:
    """A world and three valid trees in which paths repeat, so that sides meet."""
    instants = st.one_of(st.none(), st.integers(-5, 2000))
    world = World(
        ours_at=draw(instants),
        theirs_at=draw(instants),
        clock_wrong=draw(st.booleans()),
        joining=draw(st.booleans()),
        identity=draw(st.sampled_from([None, "1"])),
        bodies={"ours": draw(st.text(max_size=4)), "theirs": draw(st.text(max_size=60))},
    )
    pool = draw(st.lists(PATHS, min_size=1, max_size=6))
    found: list[dict[str, File]] = []
    for _ in range(3):
        tree: dict[str, File] = {}
        for path in pool:
            if draw(st.booleans()) and is_tree([*tree, path]):
                mode = draw(MODES)
                tree[path] = world.file(draw(BYTES), mode)
                if mode == LINK and draw(st.booleans()):
                    tree[path] = File("5" * 40, GITLINK)
        found.append(tree)
    if world.joining:
        found[0] = {}
        world.published = {path: {file.oid} for path, file in found[1].items() if draw(st.booleans())}
    return world, found[0], found[1], found[2]


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(stages())
def test_every_law_holds_for_random_trees_and_bytes(stage: tuple[World, Tree, Tree, Tree]) -> None:
    world, base, ours, theirs = stage
    assert_laws(world, base, ours, theirs)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(stages(), st.randoms(use_true_random=False))
def test_the_order_of_paths_does_not_matter(stage: tuple[World, Tree, Tree, Tree], random: object) -> None:
    """MERGE-11."""
    world, base, ours, theirs = stage
    asked = list(triples(base, ours, theirs).items())
    facts = world.facts(base, ours, theirs)
    first = trees(dict(asked), facts)
    random.shuffle(asked)  # type: ignore[attr-defined]
    assert trees(dict(asked), facts) == first


ENTRIES = st.lists(st.sampled_from("abcde"), unique=True, max_size=5)


@settings(max_examples=200, deadline=None)
@given(ENTRIES, ENTRIES, ENTRIES)
def test_no_entry_is_lost_and_none_is_invented(base: list[str], ours: list[str], theirs: list[str]) -> None:
    """MERGE-2 through trees, MERGE-1 before it."""
    world = World()
    sides = [world.tree({MEMORY: entries.write(side).decode()}) for side in (base, ours, theirs)]
    file = world.result(*sides)[MEMORY]
    result = set(entries.read(world.blobs[file.oid]))
    here, there, old = set(ours), set(theirs), set(base)
    assert result == (here | there) - (old - (here & there))


BODIES = ["laptop", "phone", "desk"]
WRITES = st.tuples(st.sampled_from(BODIES), st.sampled_from(["a", "a/b", "notes/n.md", MEMORY, SOUL]), st.booleans())


@settings(max_examples=100, deadline=None)
@given(st.permutations(BODIES), st.lists(WRITES, max_size=10))
def test_bodies_that_stop_writing_end_with_the_same_tree(order: list[str], writes: list[tuple[str, str, bool]]) -> None:
    """MERGE-11: three bodies write and merge through one remote, in any order; nobody's entry is lost (MERGE-2)."""
    world = World()
    remote: Tree = {}
    tips: dict[str, Tree] = dict.fromkeys(BODIES, {})
    bases: dict[str, Tree] = dict.fromkeys(BODIES, {})

    def meet(body: str, at: int) -> None:
        nonlocal remote
        world.ours_at, world.bodies = at, {"ours": body, "theirs": "another"}
        tips[body] = bases[body] = remote = world.result(bases[body], tips[body], remote)

    for at, (body, path, meets) in enumerate(writes):
        tree = {other: file for other, file in tips[body].items() if is_tree([other, path])}
        old = world.blobs[tree[path].oid] if path == MEMORY and path in tree else b""
        tips[body] = {**tree, path: world.file(entries.write([*entries.read(old), f"{body} {at}"]))}
        if meets:
            meet(body, at)
    for body in [*order, *order]:
        meet(body, 300)
    assert tips["laptop"] == tips["phone"] == tips["desk"] == remote
    assert is_tree(remote)
    remembered = entries.read(world.blobs[remote[MEMORY].oid]) if MEMORY in remote else ()
    assert set(remembered) == {f"{body} {at}" for at, (body, path, _) in enumerate(writes) if path == MEMORY}
