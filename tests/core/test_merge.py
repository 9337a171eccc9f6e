"""What the vectors cannot say about a merge of trees: cost, laziness, hostile names, words."""

from __future__ import annotations

import dataclasses
import random
import sys
import time

import pytest

from bridge.core import beside, newest, sides
from bridge.core.merge import Facts, trees
from bridge.core.model import PLAIN, Content, Decision, File, Kind, Lost, Touch, Triple, blob_id
from tests.core.merge_world import World, triples
from tests.pace import patience

MEMORY = "memories/MEMORY.md"


def memory(seed: int) -> bytes:
    """10,000 entries, 1 MiB; a seed other than 0 deletes, edits and adds here and there."""
    draw = random.Random(seed)
    found = []
    for number in range(10_000):
        entry = f"entry {number} " + "x" * 88
        chance = draw.random() if seed else 0.5
        if chance < 0.02:
            continue
        found.append(entry + f" edited {seed}" if chance < 0.04 else entry)
        if chance > 0.95:
            found.append(f"added by {seed} at {number} " + "y" * 80)
    return ("\n§\n".join(found) + "\n").encode()


def test_two_versions_of_a_mebibyte_of_memories_merge_within_100_ms() -> None:
    """MERGE-2, bytes to bytes."""
    world = World()
    base, ours, theirs = (world.file(memory(seed)) for seed in range(3))
    assert len(world.blobs[base.oid]) > 1_000_000
    facts = world.facts({}, {}, {})
    elapsed = []
    for _ in range(5):
        start = time.perf_counter()
        merged = trees({MEMORY: Triple(base, ours, theirs)}, facts)
        elapsed.append(time.perf_counter() - start)
    assert isinstance(merged.files[MEMORY], Content)
    # What measures coverage traces every line.
    assert min(elapsed) < (0.1 if sys.gettrace() is None else 0.5) * patience()


def test_a_merge_costs_what_changed_times_a_constant() -> None:
    """100,000 changed paths, deep ones among them, within seconds: no step looks at all pairs."""
    world = World()
    file = world.file("x\n")
    many = {f"notes/{number % 100}/{number}": Triple(None, file, None) for number in range(50_000)}
    deep = {"/".join(["d"] * 500) + f"/{number}": Triple(None, None, file) for number in range(1_000)}
    start = time.perf_counter()
    trees(many | deep, world.facts({}, {}, {}))
    assert time.perf_counter() - start < 5


def test_nothing_is_read_and_history_is_not_asked_where_one_side_changed_a_path() -> None:
    """MERGE-1."""
    world = World(identity="1", joining=False)
    base = world.tree({"a": "x\n", MEMORY: "x\n", "notes/n.md": "x\n", "bodies/b.json": "{}\n"})
    ours = {**base, **world.tree({MEMORY: "y\n", "notes/n.md": "y\n"})}
    theirs = {**base, **world.tree({"a": "y\n", "bodies/b.json": "[]\n"})}
    merged = world.merge(base, ours, theirs)
    assert (world.reads, world.asked) == ([], [])
    assert (merged.lost, merged.decisions) == ((), ())


def test_whether_a_version_was_published_is_asked_only_on_joining() -> None:
    """REPO-6."""

    def never(path: str, oid: str) -> bool:
        raise AssertionError(f"asked about {path}")

    world = World()
    ours, theirs = world.tree({"a": "ours\n"}), world.tree({"a": "theirs\n"})
    plain = world.facts({}, ours, theirs)
    facts = Facts(
        plain.read, plain.touched_ours, plain.touched_theirs, plain.kind_ours, plain.kind_theirs, 1000, published=never
    )
    merged = trees({"a": Triple(None, ours["a"], theirs["a"])}, facts)
    assert merged.files == {"a": theirs["a"]}
    merged = trees({"a": Triple(None, ours["a"], ours["a"])}, dataclasses.replace(facts, joining=True))
    assert merged.files == {"a": ours["a"]}


def test_without_an_answer_nothing_was_ever_published() -> None:
    """REPO-6."""
    world = World()
    plain = world.facts({}, {}, {})
    facts = Facts(
        plain.read, plain.touched_ours, plain.touched_theirs, plain.kind_ours, plain.kind_theirs, 1000, joining=True
    )
    ours, theirs = world.file("ours\n"), world.file("theirs\n")
    assert trees({"a": Triple(None, ours, theirs)}, facts).lost == (Lost("a", ours, "ours"),)


@pytest.mark.parametrize("path", ["locks/consolidation.json", "locks/mine.md"])
def test_of_two_tips_that_are_merged_history_holds_both_sides_already(path: str) -> None:
    """MERGE-10: what is put back is lost only where it was never recorded."""
    world = World()
    plain = world.facts({}, {}, {})
    facts = Facts(plain.read, plain.touched_ours, plain.touched_theirs, plain.kind_ours, plain.kind_theirs, 1000)
    base, ours = world.file("base\n"), world.file("ours\n")
    assert trees({path: Triple(base, ours, base)}, facts).lost == ()
    never = dataclasses.replace(facts, recorded=lambda path, oid: False)
    assert trees({path: Triple(base, ours, base)}, never).lost == (Lost(path, ours, "ours"),)


def test_a_merge_says_what_it_decided_and_why() -> None:
    world = World(identity="1")
    base = world.tree({"agent.json": '{"id": "1"}\n', "n": "x\n", "old": "moved\n", "gone": "x\n"})
    ours = world.tree({"n": "ours\n", "new": "moved\n", "d": "file\n", "README.md": "1\n", "locks/l": "1\n"})
    theirs = world.tree({"n": "theirs\n", "old": "edited\n", "d/e": "x\n", "README.md": "2\n", "gone": "y\n"})
    theirs["agent.json"] = base["agent.json"]
    merged = world.merge(base, ours, theirs)
    assert merged.decisions == (
        Decision("README.md", "MERGE-10", "theirs stands"),
        Decision("agent.json", "MERGE-5", "ours lost the identity, broke it or changed its id: undone"),
        Decision("d", "MERGE-8", "the directory stays, the file is kept as d~laptop"),
        Decision("gone", "MERGE-6", "theirs stands: an edit beats a deletion"),
        Decision("locks/l", "MERGE-10", "ours is put back"),
        Decision("n", "MERGE-6", "theirs stands: ours is not newer"),
        Decision("new", "MERGE-7", "the edit of old follows the move"),
    )


def test_what_one_body_writes_and_differs_on_both_sides_is_reported() -> None:
    """MERGE-9: two machines share its name, or it forgot what it published (a restored backup): no tree says which."""
    world = World()
    ours = world.tree({"bodies/pi.json": "{}\n", "journal/pi/a.md": "x\n"})
    theirs = world.tree({"bodies/pi.json": '{"body": "pi"}\n', "journal/pi/a.md": "y\n"})
    merged = world.merge({}, ours, theirs)
    assert [(each.path, each.words) for each in merged.decisions] == [
        ("bodies/pi.json", "it changed on both sides: the one seen later stands"),
        ("journal/pi/a.md", "it changed on both sides: both are kept"),
    ]


@pytest.mark.parametrize(("ours", "theirs"), [(b"\xff", b"x\n"), (b"x\n", b"\xff")])
def test_a_journal_that_is_not_text_keeps_theirs_and_loses_ours(ours: bytes, theirs: bytes) -> None:
    """MERGE-9."""
    world = World()
    path = "journal/pi/a.md"
    merged = world.merge({}, {path: world.file(ours)}, {path: world.file(theirs)})
    assert merged.files == {path: world.file(theirs)}
    assert merged.lost == (Lost(path, world.file(ours), "ours"),)


def test_a_base_with_a_foreign_id_hands_it_to_no_result() -> None:
    """MERGE-5."""
    world = World(identity="1")
    base = world.tree({"agent.json": '{"id": "2", "a": 1, "b": 1}\n'})
    ours = world.tree({"agent.json": '{"id": "1", "a": 2, "b": 1}\n'})
    theirs = world.tree({"agent.json": '{"id": "2", "a": 1, "b": 2}\n'})
    result = world.result(base, ours, theirs)["agent.json"]
    assert world.blobs[result.oid] == b'{\n  "id": "1",\n  "a": 2,\n  "b": 2\n}\n'


def test_what_nothing_can_mend_is_left_as_it_is() -> None:
    """MERGE-5: neither base nor the side can be read."""
    world = World(identity="1")
    broken = world.tree({"agent.json": "{"})
    assert world.result({}, broken, {}) == broken
    assert world.result(broken, {}, broken) == {}


def test_a_deleted_identity_comes_back_as_it_was_but_for_its_id() -> None:
    """MERGE-5, with a base that has another id than the published one, and the bit of base."""
    world = World(identity="1")
    base = world.tree({"agent.json": {"text": '{"id": "2"}\n', "executable": True}})
    result = world.result(base, {}, base)["agent.json"]
    assert (world.blobs[result.oid], result.mode) == (b'{\n  "id": "1"\n}\n', base["agent.json"].mode)


@pytest.mark.parametrize("text", ['{"id": "1", "x": "one", "x": "two"}', '{"id": "1", "n": 1.00000000000000000001}'])
def test_what_the_fields_of_an_identity_do_not_say_is_kept_as_lost(text: str) -> None:
    """MERGE-4: of equal keys one is merged, of a long number what a double holds; the bytes stay to be had."""
    world = World(identity="1")
    base = world.tree({"agent.json": '{"id": "1"}\n'})
    ours, theirs = world.tree({"agent.json": text}), world.tree({"agent.json": '{"id": "1", "color": "red"}\n'})
    merged = trees(triples(base, ours, theirs), world.facts(base, ours, theirs))
    assert merged.lost == (Lost("agent.json", ours["agent.json"], "ours"),)
    alone = trees(triples(base, ours, base), world.facts(base, ours, base))
    assert alone.files["agent.json"] == ours["agent.json"] and not alone.lost


def test_what_would_take_the_place_of_the_identity_is_lost_once_and_told_once() -> None:
    """MERGE-5: both sides made agent.json a directory, and a file that was already gone is not told again."""
    world = World(identity="1")
    base = world.tree({"agent.json": '{"id": "1"}\n'})
    ours, theirs = world.tree({"agent.json/x": "1\n"}), world.tree({"agent.json/x": "2\n"})
    triple = Triple(world.file("0\n"), None, world.file("0\n"))
    asked = {**triples(base, ours, theirs), "agent.json/y": triple}
    merged = trees(asked, world.facts(base, ours, theirs))
    assert merged.files == {"agent.json": base["agent.json"], "agent.json/x": None, "agent.json/y": None}
    assert merged.lost == (
        Lost("agent.json/x", ours["agent.json/x"], "ours"),
        Lost("agent.json/x", theirs["agent.json/x"], "theirs"),
    )
    assert [decision.path for decision in merged.decisions if decision.words.startswith("gone")] == ["agent.json/x"]


@pytest.mark.parametrize(
    ("path", "mark", "named"),
    [
        ("a", "~b", "a~b"),
        ("d.d/a", "~b", "d.d/a~b"),
        ("a.tar.gz", "~b", "a.tar~b.gz"),
        (".a", "~b", ".a~b"),
        ("a.", "~b", "a.~b"),
        ("a" * 255, "~b", "a" * 253 + "~b"),
        ("a" * 9999 + ".md", "~b-2", "a" * 248 + "~b-2.md"),
        ("a." + "m" * 64, "~b", "a." + "m" * 64 + "~b"),
        ("a." + "m" * 63, "~b", "a~b." + "m" * 63),
        ("語" * 85, "~b", "語" * 84 + "~b"),
        ("\udcff" * 255, "~b", "\udcff" * 253 + "~b"),
    ],
)
def test_a_name_takes_its_mark_before_the_extension_and_stays_a_name(path: str, mark: str, named: str) -> None:
    """MERGE-8."""
    assert beside.name(path, mark) == named
    assert len(named.rpartition("/")[2].encode("utf-8", "surrogateescape")) <= 255


def test_a_name_that_was_no_name_for_every_disk_is_kept_beside_all_the_same() -> None:
    """MERGE-8: a path with a backslash is never created, but the merge in the object store has to go on."""
    world = World()
    assert world.result({}, world.tree({"a\\b": "file\n"}), world.tree({"a\\b/c": "x\n"})).keys() == {
        "a\\b/c",
        "a\\b~laptop",
    }


@pytest.mark.parametrize(
    ("body", "mark"),
    [
        ("K" * 60, "k" * 40),
        ("../..", "unknown"),
        ("\u212aelvin", "elvin"),
        ("a" * 39 + "/b", "a" * 39),
        ("日本", "unknown"),
    ],
)
def test_a_body_that_a_commit_made_up_cannot_leave_the_name(body: str, mark: str) -> None:
    """MERGE-8."""
    world = World(bodies={"ours": body, "theirs": body})
    assert f"a~{mark}" in world.result({}, world.tree({"a": "file\n"}), world.tree({"a/b": "x\n"}))


def test_a_side_without_a_touch_has_an_unknown_body_and_an_unknown_time() -> None:
    world = World(ours_at=None, theirs_at=None)
    assert "a~unknown" in world.result({}, world.tree({"a": "file\n"}), world.tree({"a/b": "x\n"}))
    assert world.result({}, world.tree({"a": "1\n"}), world.tree({"a": "2\n"})) == world.tree({"a": "2\n"})


def test_two_long_names_that_are_cut_alike_are_both_kept() -> None:
    """MERGE-8."""
    world = World()
    one, other = "a" * 254 + "b", "a" * 254 + "c"
    ours = {one: world.file("1\n"), other: world.file("2\n")}
    theirs = {f"{one}/x": world.file("x\n"), f"{other}/x": world.file("x\n")}
    result = world.result({}, ours, theirs)
    kept = {path: world.blobs[file.oid] for path, file in result.items() if "~" in path}
    assert kept == {"a" * 248 + "~laptop": b"1\n", "a" * 246 + "~laptop-2": b"2\n"}


def test_new_bytes_that_a_side_already_has_are_that_sides_file() -> None:
    world = World()
    ours, theirs = world.tree({MEMORY: "\na\n"}), world.tree({MEMORY: "a\n"})
    assert world.merge({}, ours, theirs).files == theirs
    assert sides.identify(Content(b"a\n", PLAIN)) == theirs[MEMORY]


@pytest.mark.parametrize(("ahead", "side"), [(newest.AHEAD, "theirs"), (newest.AHEAD + 1, "ours")])
def test_a_time_more_than_five_minutes_ahead_is_unknown(ahead: int, side: str) -> None:
    """MERGE-6."""
    world = World(ours_at=1, theirs_at=1000 + ahead, now=1000)
    trees_of = {"ours": world.tree({"n": "1\n"}), "theirs": world.tree({"n": "2\n"})}
    assert world.result({}, trees_of["ours"], trees_of["theirs"]) == trees_of[side]


def test_in_record_the_working_file_counts_as_written_now() -> None:
    """MERGE-6: base is what was seen, ours the working file, theirs HEAD, which another body's commit moved."""
    head = Touch(990, "phone")
    files = {text: File(blob_id(text.encode())) for text in ("seen\n", "working\n", "head\n")}
    facts = Facts(
        read=lambda oid: next(text.encode() for text, file in files.items() if file.oid == oid),
        touched_ours=lambda path: Touch(1000, "laptop"),
        touched_theirs=lambda path: head,
        kind_ours=lambda path: Kind.ABSENT,
        kind_theirs=lambda path: Kind.ABSENT,
        now=1000,
    )
    merged = trees({"notes/n.md": Triple(files["seen\n"], files["working\n"], files["head\n"])}, facts)
    assert merged.files == {"notes/n.md": files["working\n"]}
    assert merged.lost == (Lost("notes/n.md", files["head\n"], "theirs"),)


AT = 1_800_000_000.0


@pytest.mark.parametrize(
    ("last", "now", "wrong"),
    [
        (None, AT, False),
        (AT, AT, False),
        (AT, AT - 300, False),
        (AT, AT - 301, True),
        (AT, 9e9, False),
        (None, newest.EARLIEST, False),
        (None, newest.EARLIEST - 1, True),
        (None, -1.0, True),
        (-1.0, -1.0, True),
    ],  # fmt: skip
)
def test_a_clock_that_was_set_back_by_more_than_five_minutes_is_wrong(
    last: float | None, now: float, wrong: bool
) -> None:
    """MERGE-6"""
    assert newest.clock_wrong(last, now) is wrong


@pytest.mark.parametrize(
    ("now", "known", "time"),
    [
        (AT + 0.9, [9_000_000_000], int(AT)),
        (-2e8, [], newest.EARLIEST),
        (-2e8, [5], newest.EARLIEST),
        (5.0, [1_700_000_000, 1_600_000_000], 1_700_000_000),
    ],
)
def test_what_a_clock_that_nobody_set_records_has_the_newest_time_that_is_known(
    now: float, known: list[int], time: int
) -> None:
    """MERGE-6: git takes no time before 1970, and 1970 would lose to every other body for ever."""
    assert newest.moment(now, known) == time
