"""What of a look may be recorded, what waits, what is held."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.core import plan
from bridge.core.errors import Held
from bridge.core.model import File, Look, SeenEntry, Stamp, blob_id
from bridge.core.plan import Activity, Clocks, Instant, Wait, Watching

NOW = 1_800_000_000.0
BOOT = 5_000.0
SETTLE = 0.5
PATH = "notes/a.md"
MEMORY = "memories/MEMORY.md"


def stamp(age: float = 0.0, inode: int = 1, size: int = 3) -> Stamp:
    """A file that was touched so many seconds before NOW."""
    at = int((NOW - age) * 1e9)
    return Stamp(size, at, at, inode)


def entry(of: Stamp, racy: bool = False) -> SeenEntry:
    return SeenEntry(File(blob_id(b"abc")), blob_id(b"abc"), of, racy)


def at(later: float = 0.0, waive: bool = False, first: bool = False) -> Instant:
    return Instant(NOW + later, BOOT + later, SETTLE, waive, first)


def test_a_file_as_it_was_seen_is_not_looked_into() -> None:
    found = plan.observe(Look({PATH: stamp(9)}), {PATH: entry(stamp(9))}, Watching(), at())
    assert (found.read, found.gone, found.pending, found.deadline) == ((), (), frozenset(), None)
    assert found.watching == Watching()


def test_a_file_touched_shortly_before_we_looked_is_read_once_more() -> None:
    """An equal stamp proves nothing while the file is younger than the clock of files is fine."""
    seen = {PATH: entry(stamp(1), racy=True)}
    early = plan.observe(Look({PATH: stamp(1)}), seen, Watching(), at())
    assert early.read == () and early.watching.again == {PATH} and early.watching.paths == {PATH}
    late = plan.observe(Look({PATH: stamp(1)}), seen, early.watching, at(2))
    assert late.read == (PATH,) and late.watching.again == frozenset()
    assert plan.observe(Look({PATH: stamp(1)}), seen, Watching(), at(waive=True)).read == (PATH,)


def test_a_change_is_read_when_it_was_quiet_for_settle() -> None:
    """GUARD-1."""
    look = Look({PATH: stamp(0)})
    early = plan.observe(look, {}, Watching(), at())
    assert early.read == () and early.pending == {PATH} and early.deadline == BOOT + SETTLE
    assert plan.observe(look, {}, early.watching, at(0.4)).read == ()
    assert plan.observe(look, {}, early.watching, at(0.5)).read == (PATH,)
    assert plan.observe(look, {}, Watching(), at(waive=True)).read == (PATH,)


def test_a_change_that_was_quiet_before_we_looked_waits_no_more() -> None:
    """GUARD-1: what the file itself tells about its last change counts."""
    assert plan.observe(Look({PATH: stamp(0.6)}), {}, Watching(), at()).read == (PATH,)
    assert plan.observe(Look({PATH: stamp(-30)}), {}, Watching(), at()).pending == {PATH}, "a time ahead tells nothing"


def test_unbroken_activity_is_read_after_five_seconds() -> None:
    """GUARD-1."""
    watching, later = Watching(), 0.0
    while True:
        found = plan.observe(Look({PATH: stamp(-later, size=int(later * 10))}), {}, watching, at(later))
        if found.read:
            break
        watching, later = found.watching, later + 0.25
    assert later == plan.LONGEST_ACTIVITY


def test_a_deletion_needs_two_looks_settle_apart() -> None:
    """GUARD-6: never waived."""
    look, seen = Look({}, gone=frozenset({PATH})), {PATH: entry(stamp(9))}
    first = plan.observe(look, seen, Watching(), at(waive=True))
    assert first.gone == () and first.pending == {PATH} and first.deadline == BOOT + SETTLE
    assert plan.observe(look, seen, first.watching, at(waive=True)).gone == ()
    assert plan.observe(look, seen, first.watching, at(0.4, waive=True)).gone == ()
    assert plan.observe(look, seen, first.watching, at(0.5)).gone == (PATH,)


def test_two_looks_at_one_instant_are_one_look() -> None:
    """GUARD-6: also where settle is nothing."""
    look = Look({}, gone=frozenset({PATH}))
    instant = Instant(NOW, BOOT, 0.0)
    first = plan.observe(look, {}, Watching(), instant)
    assert plan.observe(look, {}, first.watching, instant).gone == ()


def test_a_file_that_comes_back_begins_anew() -> None:
    gone = plan.observe(Look({}, gone=frozenset({PATH})), {}, Watching(), at())
    back = plan.observe(Look({PATH: stamp(-1)}), {}, gone.watching, at(1))
    assert back.pending == {PATH} and back.watching.changes[PATH].began == BOOT


def test_what_was_there_at_a_start_is_known_as_found() -> None:
    """GUARD-2: nobody saw it happen, also when it is judged by a later look."""
    look = Look({}, gone=frozenset({PATH}))
    first = plan.observe(look, {}, Watching(), at(first=True))
    assert plan.observe(look, {}, first.watching, at(1)).watching.changes[PATH].found
    assert not plan.observe(look, {}, Watching(), at(1)).watching.changes[PATH].found
    again = plan.observe(Look({PATH: stamp(-1)}), {}, first.watching, at(1))
    assert again.watching.changes[PATH].found


def test_what_is_no_file_is_held() -> None:
    """GUARD-6: never a deletion."""
    look = Look({}, special={PATH: ("TREE-6", "a symbolic link")})
    found = plan.observe(look, {PATH: entry(stamp(9))}, Watching(), at())
    assert found.gone == () and found.watching.held == {PATH: ("TREE-6", "a symbolic link")}
    assert found.watching.paths == {PATH}
    assert plan.observe(Look({PATH: stamp(9)}), {PATH: entry(stamp(9))}, found.watching, at()).watching.held == {}


def test_finished_held_and_again_leave_the_rest_alone() -> None:
    watching = Watching({PATH: Activity(None, 1, 1), MEMORY: Activity(None, 2, 2)}, frozenset({"x"}))
    assert set(plan.finished(watching, [PATH, "other"]).changes) == {MEMORY}
    held = plan.hold(watching, PATH, Held("no", rule="TREE-6"))
    assert held.held == {PATH: ("TREE-6", "no")} and set(held.changes) == {MEMORY}
    assert plan.again(watching, ["y"]).again == {"x", "y"} and plan.again(watching, []).changes == watching.changes


TIMES = st.lists(st.floats(0.01, 3), min_size=1, max_size=12)


@given(TIMES, st.booleans())
def test_a_change_that_stops_is_read_at_the_first_look_after_settle(pauses: list[float], gone: bool) -> None:
    """GUARD-1, GUARD-6: whatever was before, nothing waits for ever, and never longer than its deadline."""
    look = Look({}, gone=frozenset({PATH})) if gone else Look({PATH: stamp(0)})
    watching, later, done = Watching(), 0.0, False
    for pause in pauses:
        found = plan.observe(look, {}, watching, at(later))
        done = PATH in found.read + found.gone
        assert done == (later >= SETTLE)
        assert done or found.deadline == pytest.approx(BOOT + SETTLE)
        watching, later = found.watching, later + pause


@given(st.lists(st.tuples(st.floats(0.0, 2.0), st.integers(0, 3)), max_size=20))
def test_nothing_changes_for_longer_than_five_seconds_unread(changes: list[tuple[float, int]]) -> None:
    """GUARD-1: a file that never rests is read at the first look after 5 s."""
    watching, later, began = Watching(), 0.0, 0.0
    for pause, size in changes:
        found = plan.observe(Look({PATH: stamp(-later, size=size)}), {}, watching, at(later))
        if later - began >= plan.LONGEST_ACTIVITY:
            assert found.read == (PATH,)
        watching = found.watching
        if found.read:
            watching, began = plan.finished(watching, found.read), later + pause
        later += pause


@pytest.mark.parametrize(
    ("path", "seen", "now", "grown"),
    [
        (PATH, None, b"", True),
        (PATH, b"ab", b"abc", True),
        (PATH, b"ab", b"a", False),
        (MEMORY, b"a\n\xc2\xa7\nb\n", b"b\n\xc2\xa7\na\n\xc2\xa7\nc\n", True),
        (MEMORY, b"a\n\xc2\xa7\nb\n", b"a\n", False),
        (MEMORY, b"\xff", b"\xff\xfe", True),
        (MEMORY, b"\xff", b"a", False),
        (MEMORY, b"a", b"\xff", False),
    ],
)
def test_grown_means_that_nothing_is_missing(path: str, seen: bytes | None, now: bytes, grown: bool) -> None:
    """GUARD-1."""
    assert plan.grown(path, seen, now) is grown


def test_an_open_file_rests_when_it_has_grown_for_five_seconds_or_after_guard() -> None:
    """GUARD-1."""
    assert not plan.at_rest(PATH, b"ab", b"abc", 4.9, 60)
    assert plan.at_rest(PATH, b"ab", b"abc", 5, 60)
    assert not plan.at_rest(PATH, b"ab", b"x", 59, 60)
    assert plan.at_rest(PATH, b"ab", b"x", 60, 60)


@pytest.mark.parametrize(
    ("gone", "tracked", "much"),
    [(3, 3, False), (4, 9, False), (4, 8, True), (49, 99, False), (50, 10_000, True), (49, 98, True), (0, 0, False)],
)
def test_a_mass_is_fifty_or_half_and_at_least_four(gone: int, tracked: int, much: bool) -> None:
    """GUARD-2, GUARD-3."""
    assert plan.mass(gone, tracked) is much


def clocks(now: float, boottime: float = 7.0, boot: str = "") -> Clocks:
    return Clocks(now, boottime, boot)


def test_a_wait_lasts_guard_or_sixty_times_that_and_ends() -> None:
    """GUARD-2: and goes on where it was."""
    assert plan.wait_for(None, clocks(NOW), 60, found=False) == Wait(NOW, 60, 7.0)
    assert plan.wait_for(None, clocks(NOW), 60, found=True) == Wait(NOW, 3600, 7.0)
    before = Wait(NOW - 50, 60)
    assert plan.wait_for(before, clocks(NOW), 60, found=True) is before
    assert [before.left(clocks(NOW + passed)) for passed in (0, 9, 10, 99)] == [10, 1, 0, 0]


def test_a_clock_that_was_set_back_lengthens_no_wait_beyond_its_length() -> None:
    """GUARD-2: nobody waits for ever."""
    assert plan.wait_for(Wait(NOW + 1e6, 60), clocks(NOW), 60, found=False) == Wait(NOW, 60, 7.0)


@pytest.mark.parametrize("jump", [-1e9, -1.0, 0.0, 1.0, 1e9])
def test_no_setting_of_the_clock_changes_a_wait_within_one_start_of_the_machine(jump: float) -> None:
    """GUARD-2: a machine without a clock of its own learns the time when the files it misses may still be coming."""
    before = plan.wait_for(None, clocks(NOW, 7.0, "this"), 60, found=False)
    for passed, left in ((0.0, 60.0), (59.0, 1.0), (60.0, 0.0)):
        here = clocks(NOW + passed + jump, 7.0 + passed, "this")
        assert plan.wait_for(before, here, 60, found=False) is before and before.left(here) == left
    assert before.left(clocks(NOW + 50, 1.0, "another")) == 10.0


def test_a_memory_file_that_lost_much_is_suspicious_and_no_other_file() -> None:
    """GUARD-2."""
    assert plan.suspicious(MEMORY, b"a\n", b"")
    assert not plan.suspicious(PATH, b"a\n", b"")
    assert not plan.suspicious(MEMORY, b"a\n", b"b\n")


def test_what_must_be_there_is_put_back() -> None:
    """GUARD-2."""
    for path in ("README.md", ".gitignore", "agent.json", "SOUL.md", MEMORY):
        assert plan.put_back(path)
    assert not plan.put_back(PATH) and not plan.put_back("memories/other.md")


def test_what_is_apart_stands_in_the_way_above_and_below() -> None:
    """GUARD-5."""
    assert plan.in_the_way(["a", "a/b", "a/b/c", "ab", "d", "d/e"], {"a/b", "d"}) == {"a", "a/b", "a/b/c", "d", "d/e"}
    assert plan.in_the_way(["a"], set()) == frozenset()


PATHS = st.lists(st.sampled_from(["a", "b", "ab"]), min_size=1, max_size=4).map("/".join)


@given(st.sets(PATHS, max_size=8), st.sets(PATHS, max_size=4))
def test_in_the_way_is_what_shares_a_line_with_something_apart(paths: set[str], apart: set[str]) -> None:
    """GUARD-5: said the slow way."""

    def related(one: str, other: str) -> bool:
        return one == other or one.startswith(other + "/") or other.startswith(one + "/")

    assert plan.in_the_way(paths, apart) == {path for path in paths if any(related(path, each) for each in apart)}
