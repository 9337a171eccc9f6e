"""What `bridge.core.ports.Tree` promises, on the fake, on a disk, and on a disk that knows no exchange."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bridge.core.errors import Held, Moved, Transient
from bridge.core.model import File, SeenEntry, blob_id
from tests.contract.tree_worlds import LIMIT, Crash, make_world, moved

NOTE = "notes/a.md"


@pytest.fixture(params=["fake", "real", "steps"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    return make_world(request.param, tmp_path)


def known(world: Any, *paths: str) -> dict[str, SeenEntry]:
    return {path: world.seen(path) for path in paths}


# Looking.


def test_a_look_finds_files_with_the_same_stamp_until_they_change(world: Any) -> None:
    world.write("SOUL.md", b"# K\n")
    world.write("notes/deep/x.md", b"x")
    first = world.tree.look({}, None)
    assert set(first.files) == {"SOUL.md", "notes/deep/x.md"} and first.complete and not first.special
    assert world.tree.look(known(world, "SOUL.md"), None).files == first.files
    world.append("SOUL.md", b"more")
    second = world.tree.look({}, None)
    assert second.files["SOUL.md"] != first.files["SOUL.md"]
    assert second.files["notes/deep/x.md"] == first.files["notes/deep/x.md"]


def test_only_a_known_path_can_be_gone(world: Any) -> None:
    """GUARD-6: a path with no seen entry is never deleted."""
    world.write(NOTE, b"a")
    world.write("notes/b.md", b"b")
    before = known(world, NOTE)
    world.delete(NOTE)
    world.delete("notes/b.md")
    look = world.tree.look(before, None)
    assert look.gone == {NOTE} and not look.files


def test_everything_below_a_removed_directory_is_gone(world: Any) -> None:
    world.write(NOTE, b"a")
    world.write("notes/b/c.md", b"c")
    before = known(world, NOTE, "notes/b/c.md")
    world.delete("notes")
    assert world.tree.look(before, None).gone == before.keys()
    assert world.tree.look(before, ["notes"]).gone == before.keys()
    assert world.tree.look(before, ["notes/b/c.md", NOTE]).gone == before.keys()


@pytest.mark.parametrize("place", [NOTE, "notes"])
def test_a_link_at_or_above_a_known_path_is_held_and_never_a_deletion(world: Any, place: str) -> None:
    """GUARD-6, TREE-6."""
    world.write(NOTE, b"a")
    before = known(world, NOTE)
    world.link(place)
    for hints in (None, [place], [NOTE], [""]):
        look = world.tree.look(before, hints)
        assert not look.gone and NOTE in look.special and not look.files


def test_a_file_where_a_directory_was_and_the_reverse_take_the_place_of_what_is_gone(world: Any) -> None:
    world.write(NOTE, b"a")
    world.write("skills", b"s")
    before = known(world, NOTE, "skills")
    world.delete("notes")
    world.delete("skills")
    world.write("notes", b"now a file")
    world.write("skills/one.md", b"now a directory")
    for hints in (None, ["notes", "skills"]):
        look = world.tree.look(before, hints)
        assert look.gone == {NOTE, "skills"} and set(look.files) == {"notes", "skills/one.md"}


def test_hints_limit_a_look_to_themselves_and_what_is_below(world: Any) -> None:
    for path in (NOTE, "notes/b/c.md", "SOUL.md"):
        world.write(path, b"x")
    look = world.tree.look({}, ["notes/b", "nowhere/at/all.md"])
    assert set(look.files) == {"notes/b/c.md"} and not look.complete and not look.gone
    assert set(world.tree.look({}, [NOTE]).files) == {NOTE}
    assert set(world.tree.look({}, [""]).files) == {NOTE, "notes/b/c.md", "SOUL.md"}
    assert not world.tree.look({}, []).files


def test_ignored_paths_are_counted_but_known_and_own_ones_are_looked_at(world: Any) -> None:
    """TREE-4."""
    world.write(".gitignore", b"*.tmp\nSOUL.md\nbuild\nd.*\n")
    for path in ("a.tmp", "b.tmp", "SOUL.md", "notes/c.tmp", "notes/d.md", "memories/d.md", "d.md"):
        world.write(path, b"x")
    before = known(world, "b.tmp")
    look = world.tree.look(before, None)
    assert (
        set(look.files) == {".gitignore", "b.tmp", "SOUL.md", "notes/d.md", "memories/d.md"} and len(look.ignored) == 3
    )
    assert world.tree.look(before, ["a.tmp", "notes/c.tmp"]).ignored <= look.ignored | {"a.tmp"}
    assert "a.tmp" in world.tree.look(before, ["a.tmp"]).ignored
    assert all(map(world.tree.ignored, ("notes/new.tmp", "build/x.md", "notes/d.md", "SOUL.md")))
    assert not world.tree.ignored("notes/e.md")
    world.delete("b.tmp")
    assert world.tree.look(before, None).gone == {"b.tmp"}


# Reading.


def test_reading_gives_bytes_and_the_stamp_a_look_shows(world: Any) -> None:
    world.write(NOTE, b"bytes\r\n\0")
    reading = world.tree.read(NOTE, LIMIT)
    assert reading.content == b"bytes\r\n\0" and not reading.busy
    assert world.tree.look({}, None).files[NOTE] == reading.stamp


def test_reading_what_is_gone_is_moved_and_what_is_too_large_is_held(world: Any) -> None:
    """TREE-6."""
    world.write(NOTE, b"12345")
    assert world.tree.read(NOTE, 5).content == b"12345"
    with pytest.raises(Held) as refused:
        world.tree.read(NOTE, 4)
    assert refused.value.rule == "TREE-6"
    assert moved(lambda: world.tree.read("notes/b.md", 4)) and moved(lambda: world.tree.read("no/b.md", 4))


def test_a_link_is_never_read_through(world: Any) -> None:
    world.write(NOTE, b"a")
    world.link("notes")
    with pytest.raises((Held, Moved)):
        world.tree.read(NOTE, LIMIT)


def test_a_file_that_somebody_has_open_for_writing_is_busy(world: Any) -> None:
    world.write(NOTE, b"a")
    handle = world.open(NOTE)
    assert world.tree.read(NOTE, LIMIT).busy
    handle.close()
    assert not world.tree.read(NOTE, LIMIT).busy


# Replacing, creating, removing.


def test_replacing_swaps_in_new_content_and_keeps_what_came_out(world: Any) -> None:
    """GUARD-4."""
    world.write(NOTE, b"old")
    seen = world.seen(NOTE)
    stamp = world.tree.replace(NOTE, seen, b"new", False)
    assert world.content(NOTE) == b"new" and world.tree.look({}, None).files[NOTE] == stamp
    [kept] = world.tree.leftovers()
    assert (kept.path, kept.base, kept.raw, kept.new) == (NOTE, seen.file, seen.raw, blob_id(b"new"))
    assert not kept.changed and not kept.busy and world.tree.leftover(kept.id) == b"old"


@pytest.mark.parametrize("change", ["append", "rename_over", "delete", "chmod", "link"])
def test_nothing_is_replaced_or_removed_that_is_not_as_it_was_seen(world: Any, change: str) -> None:
    """GUARD-4."""
    world.write(NOTE, b"old")
    seen = world.seen(NOTE)
    arguments: dict[str, tuple[Any, ...]] = {"append": (b"!",), "rename_over": (b"!",), "chmod": (True,)}
    getattr(world, change)(NOTE, *arguments.get(change, ()))
    before = world.paths()
    for act in (lambda: world.tree.replace(NOTE, seen, b"new", False), lambda: world.tree.remove(NOTE, seen)):
        with pytest.raises((Moved, Held)):
            act()
    assert world.paths() == before and not world.tree.leftovers()


def test_a_path_waits_for_those_who_have_it_open_for_writing_but_not_for_ever(world: Any) -> None:
    """GUARD-4: at most 60 s; what they write later is kept and is a local write."""
    world.write(NOTE, b"old")
    seen = world.seen(NOTE)
    handle = world.open(NOTE)
    assert moved(lambda: world.tree.replace(NOTE, seen, b"new", False))
    world.pass_time(59)
    assert moved(lambda: world.tree.replace(NOTE, seen, b"new", False)) and world.content(NOTE) == b"old"
    world.pass_time(2)
    world.tree.replace(NOTE, seen, b"new", False)
    [kept] = world.tree.leftovers()
    assert kept.busy and not kept.changed
    handle.write(b" and more")
    [kept] = world.tree.leftovers()
    assert kept.busy and kept.changed and world.tree.leftover(kept.id) == b"old and more"
    handle.close()
    [kept] = world.tree.leftovers()
    assert not kept.busy and kept.changed and world.content(NOTE) == b"new"


def test_waiting_begins_again_when_the_file_was_free_in_between(world: Any) -> None:
    world.write(NOTE, b"old")
    handle = world.open(NOTE)
    seen = world.seen(NOTE)
    assert moved(lambda: world.tree.remove(NOTE, seen))
    handle.close()
    world.pass_time(61)
    stamp = world.tree.replace(NOTE, seen, b"new", False)
    handle = world.open(NOTE)
    assert moved(lambda: world.tree.remove(NOTE, world.written(stamp, b"new")))
    handle.close()


def test_a_lock_file_that_is_taken_is_respected(world: Any) -> None:
    world.write(NOTE, b"old")
    seen = world.seen(NOTE)
    with world.locked(NOTE):
        assert moved(lambda: world.tree.replace(NOTE, seen, b"new", False))
        assert moved(lambda: world.tree.remove(NOTE, seen)) and world.content(NOTE) == b"old"
    world.tree.replace(NOTE, seen, b"new", False)
    assert world.content(NOTE) == b"new"


def test_the_executable_bit_follows(world: Any) -> None:
    """TREE-5."""
    world.write(NOTE, b"old")
    stamp = world.tree.replace(NOTE, world.seen(NOTE), b"new", True)
    assert stamp.executable and world.tree.look({}, None).files[NOTE].executable
    entry = SeenEntry(File(blob_id(b"new"), 0o100755), blob_id(b"new"), stamp)
    assert not world.tree.replace(NOTE, entry, b"newer", False).executable
    assert world.tree.create("run.sh", b"#!", True).executable


def test_a_write_between_exchange_and_return_is_not_taken_for_what_was_written(world: Any) -> None:
    world.write(NOTE, b"old")
    world.tree.checkpoint = lambda step: world.append(NOTE, b" agent") if step == "replace.sync" else None
    stamp = world.tree.replace(NOTE, world.seen(NOTE), b"new", False)
    assert world.content(NOTE) == b"new agent" and world.tree.look({}, None).files[NOTE] != stamp


def test_a_write_right_before_the_exchange_comes_out_and_is_told(world: Any) -> None:
    """GUARD-4: what leaves its name and is not what was seen is a local write."""
    world.write(NOTE, b"old")
    seen = world.seen(NOTE)
    world.tree.checkpoint = lambda step: world.append(NOTE, b" late") if step == "replace.exchange" else None
    world.tree.replace(NOTE, seen, b"new", False)
    [kept] = world.tree.leftovers()
    assert kept.changed and kept.base == seen.file and world.tree.leftover(kept.id) == b"old late"


@pytest.mark.parametrize("act", ["replace", "remove"])
def test_a_file_that_changes_while_its_note_is_written_keeps_its_name(world: Any, act: str) -> None:
    """GUARD-4: it is looked at once more after everything slow is done."""
    world.write(NOTE, b"old")
    seen = world.seen(NOTE)
    world.tree.checkpoint = lambda step: world.append(NOTE, b" late") if step == f"{act}.note" else None
    with pytest.raises(Moved):
        world.tree.replace(NOTE, seen, b"new", False) if act == "replace" else world.tree.remove(NOTE, seen)
    assert world.content(NOTE) == b"old late" and world.tree.leftovers() == []


@pytest.mark.parametrize("act", ["replace", "remove"])
@pytest.mark.parametrize("change", ["link", "mkdir", "delete"])
def test_what_takes_the_place_of_the_file_in_the_last_moment_stays_there(world: Any, act: str, change: str) -> None:
    """GUARD-4, GUARD-6."""
    world.write(NOTE, b"old")
    seen = world.seen(NOTE)

    def agent(step: str) -> None:
        if step in ("replace.exchange", "remove.rename"):
            world.delete(NOTE)
            getattr(world, change)(NOTE)

    world.tree.checkpoint = agent
    arguments = (b"new", False) if act == "replace" else ()
    with pytest.raises((Moved, Held)):
        getattr(world.tree, act)(NOTE, seen, *arguments)
    world.restart()
    look = world.tree.look({NOTE: seen}, None)
    assert not look.files and not world.tree.leftovers()
    assert (NOTE in look.special) == (change == "link") and (NOTE in world.directories()) == (change == "mkdir")


def test_creating_makes_directories_and_never_replaces(world: Any) -> None:
    stamp = world.tree.create("notes/deep/er/x.md", b"x", False)
    assert world.tree.look({}, None).files == {"notes/deep/er/x.md": stamp}
    assert moved(lambda: world.tree.create("notes/deep/er/x.md", b"y", False))
    assert world.content("notes/deep/er/x.md") == b"x" and not world.tree.leftovers()


def test_a_file_that_appears_right_before_creation_stays(world: Any) -> None:
    world.tree.checkpoint = lambda step: world.write(NOTE, b"agent") if step == "create.rename" else None
    assert moved(lambda: world.tree.create(NOTE, b"ours", False))
    world.restart()
    assert world.content(NOTE) == b"agent" and not world.tree.leftovers()


@pytest.mark.parametrize("block", ["a file above", "a link above", "a link", "a directory"])
def test_nothing_is_created_where_something_else_stands(world: Any, block: str) -> None:
    """TREE-7: no link on the way."""
    acts: dict[str, Callable[[], None]] = {
        "a file above": lambda: world.write("notes", b"file"),
        "a link above": lambda: world.link("notes"),
        "a link": lambda: world.link(NOTE),
        "a directory": lambda: world.mkdir(NOTE),
    }
    acts[block]()
    before = world.paths()
    with pytest.raises(Held) as refused:
        world.tree.create(NOTE, b"new", False)
    assert refused.value.rule and world.paths() == before and not world.tree.leftovers()


def test_removing_keeps_what_came_out_and_prunes_empty_directories(world: Any) -> None:
    world.write("notes/deep/er/x.md", b"x")
    world.write("notes/y.md", b"y")
    seen = world.seen("notes/deep/er/x.md")
    world.tree.remove("notes/deep/er/x.md", seen)
    assert world.directories() == {"notes"} and world.paths() == {"notes/y.md": b"y"}
    [kept] = world.tree.leftovers()
    assert (kept.base, kept.new) == (seen.file, "") and not kept.changed and world.tree.leftover(kept.id) == b"x"
    world.tree.remove("notes/y.md", world.seen("notes/y.md"))
    assert not world.directories()


def test_an_empty_directory_of_the_agent_beside_a_removed_file_stays(world: Any) -> None:
    world.write(NOTE, b"a")
    world.mkdir("notes/plans")
    world.tree.remove(NOTE, world.seen(NOTE))
    assert world.directories() == {"notes", "notes/plans"}


def test_a_full_disk_leaves_everything_as_it_was(world: Any) -> None:
    """Transient(kind="disk"), the working file untouched."""
    world.write(NOTE, b"old")
    seen = world.seen(NOTE)
    with world.full_disk():
        for act in (
            lambda: world.tree.replace(NOTE, seen, b"new", False),
            lambda: world.tree.create("new/x.md", b"x", False),
            lambda: world.tree.remove(NOTE, seen),
        ):
            with pytest.raises(Transient) as refused:
                act()
            assert refused.value.kind == "disk"
    assert world.paths() == {NOTE: b"old"} and world.directories() == {"notes"} and not world.tree.leftovers()
    assert world.seen(NOTE) == seen


# What is kept.


def test_leftovers_come_oldest_first_and_grow_old(world: Any) -> None:
    world.write(NOTE, b"0")
    for text in (b"1", b"2", b"3"):
        world.tree.replace(NOTE, world.seen(NOTE), text, False)
    kept = world.tree.leftovers()
    assert [world.tree.leftover(each.id) for each in kept] == [b"0", b"1", b"2"]
    assert all(each.age < 5 for each in kept)
    world.pass_time(30)
    assert all(30 <= each.age < 35 for each in world.tree.leftovers())


def test_a_recorded_leftover_is_expected_from_then_on_even_after_a_restart(world: Any) -> None:
    world.write(NOTE, b"old")
    handle = world.open(NOTE)
    world.tree.patience = 0.0
    world.tree.replace(NOTE, world.seen(NOTE), b"new", False)
    handle.write(b"+1")
    [kept] = world.tree.leftovers()
    world.tree.keep(kept.id, File(blob_id(b"old+1")), blob_id(b"old+1"))
    world.restart()
    [kept] = world.tree.leftovers()
    assert not kept.changed and kept.base == File(blob_id(b"old+1"))
    handle.write(b"+2")
    handle.close()
    [kept] = world.tree.leftovers()
    assert kept.changed and world.tree.leftover(kept.id) == b"old+1+2"


def test_a_dropped_leftover_is_gone(world: Any) -> None:
    world.write(NOTE, b"old")
    world.tree.remove(NOTE, world.seen(NOTE))
    [kept] = world.tree.leftovers()
    world.tree.drop(kept.id)
    assert not world.tree.leftovers()
    assert moved(lambda: world.tree.leftover(kept.id))
    assert moved(lambda: world.tree.keep(kept.id, File(kept.raw), kept.raw))
    world.tree.drop(kept.id)


def test_new_content_that_equals_what_came_out_is_not_taken_for_an_exchange_that_never_was(world: Any) -> None:
    world.write(NOTE, b"same")
    handle = world.open(NOTE)
    world.tree.patience = 0.0
    world.tree.replace(NOTE, world.seen(NOTE), b"same", True)
    assert len(world.tree.leftovers()) == 1
    handle.write(b" but more")
    handle.close()
    assert [world.tree.leftover(each.id) for each in world.tree.leftovers()] == [b"same but more"]


# Crashes.

REPLACE = ["write", "replace.note", "replace.exchange", "steps.aside", "steps.new", "replace.sync"]
CREATE = ["create.parents", "write", "create.rename", "create.sync"]
REMOVE = ["remove.note", "remove.rename", "remove.prune"]


def test_the_steps_are_those_that_crashes_are_tried_at(world: Any) -> None:
    world.write(NOTE, b"old")
    steps = [name for name in REPLACE if world.name == "steps" or not name.startswith("steps.")]
    assert world.steps_of(lambda: world.tree.replace(NOTE, world.seen(NOTE), b"new", False)) == steps
    assert world.steps_of(lambda: world.tree.remove(NOTE, world.seen(NOTE))) == REMOVE
    assert world.steps_of(lambda: world.tree.create(NOTE, b"new", False)) == CREATE


def crash(world: Any, step: str, act: Callable[[], Any]) -> bool:
    """Kill the program at a step and start it anew; False where the act has no such step."""
    world.crash_at(step)
    try:
        act()
    except Crash:
        world.restart()
        return True
    world.restart()
    return False


@pytest.mark.parametrize("step", REPLACE)
def test_killed_while_replacing_either_nothing_happened_or_what_came_out_is_kept(world: Any, step: str) -> None:
    """GUARD-4: no byte is lost, kill -9 included, and nothing looks like a deletion."""
    world.write(NOTE, b"old")
    seen = world.seen(NOTE)
    crash(world, step, lambda: world.tree.replace(NOTE, seen, b"new", False))
    kept = world.tree.leftovers()
    if kept:
        assert world.content(NOTE) == b"new" and world.tree.leftover(kept[0].id) == b"old"
        assert len(kept) == 1 and kept[0].base == seen.file and not kept[0].changed
    else:
        assert world.content(NOTE) == b"old"
    assert world.tree.leftovers() == kept or kept[0].age != world.tree.leftovers()[0].age
    assert not world.tree.look({NOTE: seen}, None).gone


@pytest.mark.parametrize("step", REPLACE)
def test_what_a_writer_adds_across_a_kill_is_told(world: Any, step: str) -> None:
    """GUARD-4: through a descriptor opened before, and after the program was killed."""
    world.write(NOTE, b"old")
    seen = world.seen(NOTE)
    handle = world.open(NOTE)
    world.tree.patience = 0.0
    crash(world, step, lambda: world.tree.replace(NOTE, seen, b"new", False))
    handle.write(b" more")
    handle.close()
    told = [world.tree.leftover(each.id) for each in world.tree.leftovers() if each.changed]
    assert [*told, world.content(NOTE)].count(b"old more") == 1


@pytest.mark.parametrize("step", CREATE)
def test_killed_while_creating_there_is_the_whole_file_or_none(world: Any, step: str) -> None:
    assert crash(world, step, lambda: world.tree.create(NOTE, b"new", False))
    assert world.content(NOTE) in (None, b"new") and not world.tree.leftovers()
    if world.content(NOTE) is None:
        world.tree.create(NOTE, b"new", False)
    assert world.paths() == {NOTE: b"new"}


@pytest.mark.parametrize("step", REMOVE)
def test_killed_while_removing_the_file_is_there_or_kept(world: Any, step: str) -> None:
    world.write(NOTE, b"old")
    seen = world.seen(NOTE)
    assert crash(world, step, lambda: world.tree.remove(NOTE, seen))
    kept = world.tree.leftovers()
    assert (world.content(NOTE) == b"old") != bool(kept)
    assert [world.tree.leftover(each.id) for each in kept] in ([], [b"old"])
    assert all(each.base == seen.file and not each.changed for each in kept)
