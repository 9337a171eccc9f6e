"""What the port `Seen` promises, proved on the fake and on sqlite (REPO-6: an unreadable table is nothing seen)."""

from __future__ import annotations

import contextlib
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridge.adapters import seen as adapter
from bridge.core import errors
from bridge.core.model import EXECUTABLE, File, SeenEntry, Stamp
from bridge.fakes.seen import FakeSeen

AnySeen = adapter.Seen | FakeSeen
ROOT = Path(__file__).parents[2]


@pytest.fixture(params=["fake", "real"])
def seen(request: pytest.FixtureRequest, tmp_path: Path) -> AnySeen:
    if request.param == "fake":
        return FakeSeen()
    opened = adapter.open(tmp_path / "seen.db")
    request.addfinalizer(opened.close)
    return opened


def entry(number: int = 1, **more: bool) -> SeenEntry:
    stamp = Stamp(number, 1_700_000_000_000_000_000 + number, -5, 2**64 - number, more.get("executable", False))
    return SeenEntry(File(f"{number:040x}", EXECUTABLE), f"{number + 1:040x}", stamp, more.get("racy", False))


def test_an_entry_comes_back_as_it_was_put(seen: AnySeen) -> None:
    """Times before 1970 and inodes of 64 bits included."""
    for one in (entry(1), entry(2, executable=True), entry(3, racy=True)):
        seen.put("a", one)
        assert seen.get("a") == one
    assert seen.get("b") is None


def test_a_forgotten_path_is_gone(seen: AnySeen) -> None:
    seen.put("a", entry())
    seen.put("a", None)
    seen.put("never there", None)
    assert seen.get("a") is None
    assert seen.count() == 0


def test_entries_below_a_directory_are_found_and_no_neighbours(seen: AnySeen) -> None:
    paths = ["a", "a.b", "a/b", "a/b.c", "a/b/c", "a0", "b", "é/x", "\udcff/x", "100%/x", "100_/x"]
    for number, path in enumerate(paths):
        seen.put(path, entry(number))
    assert set(seen.under("")) == set(paths)
    assert set(seen.under("a")) == {"a", "a/b", "a/b.c", "a/b/c"}
    assert set(seen.under("a/b")) == {"a/b", "a/b/c"}
    assert set(seen.under("\udcff")) == {"\udcff/x"}
    assert set(seen.under("100%")) == {"100%/x"}
    assert seen.under("nothing") == {}
    assert seen.under("a")["a/b"] == entry(2)
    assert seen.count() == len(paths)


def test_values_are_remembered_as_json(seen: AnySeen) -> None:
    for value in (1, "ü\udcff", [1, None], {"a": {"b": 1.5}}, False, 0, ""):
        seen.remember("x", value)
        assert seen.recall("x") == value
    assert seen.recall("y") is None
    seen.remember("x", None)
    assert seen.recall("x") is None


def test_a_value_that_was_changed_afterwards_is_not_changed_in_memory(seen: AnySeen) -> None:
    value = {"waits": [1]}
    seen.remember("x", value)
    value["waits"].append(2)
    seen.recall("x")["waits"].append(3)
    assert seen.recall("x") == {"waits": [1]}


def test_a_transaction_that_fails_leaves_nothing(seen: AnySeen) -> None:
    seen.put("kept", entry(1))
    seen.remember("x", 1)
    with pytest.raises(RuntimeError), seen.transaction():
        seen.put("kept", None)
        seen.put("new", entry(2))
        seen.remember("x", 2)
        with seen.transaction():
            seen.put("inner", entry(3))
        raise RuntimeError
    assert set(seen.under("")) == {"kept"}
    assert seen.recall("x") == 1


@settings(max_examples=40)
@given(
    st.lists(
        st.tuples(
            st.booleans(),
            st.lists(st.tuples(st.integers(0, 2 * adapter._KEPT), st.none() | st.integers(0, 9)), max_size=8),
        ),
        max_size=12,
    )
)
def test_what_is_recalled_is_what_the_table_holds(
    tmp_path_factory: pytest.TempPathFactory, transactions: list[tuple[bool, list[tuple[int, int | None]]]]
) -> None:
    """Also of values that were asked for before, of many, and after a transaction that failed."""
    place = tmp_path_factory.mktemp("seen") / "seen.db"
    one, kept = adapter.open(place), dict.fromkeys(map(str, range(2 * adapter._KEPT + 1)))
    for fails, changes in transactions:
        with contextlib.suppress(InterruptedError), one.transaction():
            for number, value in changes:
                one.remember(str(number), value)
                assert one.recall(str(number)) == value
            if fails:
                raise InterruptedError
            kept |= {str(number): value for number, value in changes}
    other = adapter.open(place)
    for name, value in kept.items():
        assert one.recall(name) == one.recall(name) == other.recall(name) == value
    one.close()
    other.close()


def test_a_value_that_is_asked_for_again_costs_no_query(tmp_path: Path) -> None:
    """A quiet pass asks for thirty of them; a hundred souls in one process ask four times a second."""
    one, queries = adapter.open(tmp_path / "seen.db"), list[str]()
    one.remember("a", 1)
    one._connection.set_trace_callback(queries.append)
    assert [one.recall(name) for name in "abab"] == [1, None, 1, None]
    assert len(queries) == 1
    one.close()


def test_a_transaction_sees_its_own_changes_and_keeps_them(seen: AnySeen) -> None:
    with seen.transaction():
        seen.put("a", entry(1))
        with seen.transaction():
            seen.put("b", entry(2))
        assert set(seen.under("")) == {"a", "b"}
    assert set(seen.under("")) == {"a", "b"}
    with seen.transaction():
        seen.put("a", None)
    assert set(seen.under("")) == {"b"}


_PATHS = st.lists(st.sampled_from(["a", "b.", "b", "0", "é", "\udc80"]), min_size=1, max_size=3).map("/".join)


@settings(max_examples=40)
@given(steps=st.lists(st.tuples(_PATHS, st.one_of(st.none(), st.integers(1, 9))), max_size=12), below=_PATHS)
def test_the_fake_and_the_table_hold_the_same(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int | None]], below: str
) -> None:
    fake, real = FakeSeen(), adapter.open(tmp_path_factory.mktemp("seen") / "seen.db")
    for each in (fake, real):
        with each.transaction():
            for path, number in steps:
                each.put(path, None if number is None else entry(number))
    assert fake.under("") == real.under("")
    assert fake.under(below) == real.under(below)
    assert fake.count() == real.count()
    real.close()


# --- the table on disk -----------------------------------------------------------------------------------------------


def test_what_was_put_is_there_after_a_new_start(tmp_path: Path) -> None:
    first = adapter.open(tmp_path / "place" / "seen.db")
    first.put("a", entry())
    first.remember("x", [1])
    first.close()
    second = adapter.open(tmp_path / "place" / "seen.db")
    assert second.get("a") == entry()
    assert second.recall("x") == [1]
    assert second.lost is None
    second.close()


def test_a_killed_writer_leaves_whole_transactions(tmp_path: Path) -> None:
    """Durable when the transaction ends, kill -9 right after it included."""
    script = """
import os, signal, sys
from bridge.adapters import seen
from bridge.core.model import File, SeenEntry, Stamp
table = seen.open(sys.argv[1])
one = SeenEntry(File("1" * 40), "1" * 40, Stamp(1, 1, 1, 1))
with table.transaction():
    table.put("a", one)
    table.put("b", one)
with table.transaction():
    table.put("c", one)
    os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path / "seen.db")], cwd=ROOT, timeout=60)
    assert done.returncode == -signal.SIGKILL
    table = adapter.open(tmp_path / "seen.db")
    assert set(table.under("")) == {"a", "b"}
    table.close()


@pytest.mark.parametrize("damage", ["text", "middle", "version", "column"])
def test_an_unreadable_table_is_moved_aside_and_nothing_is_seen(tmp_path: Path, damage: str) -> None:
    """REPO-6: nothing of the old one is deleted, and the new one works."""
    path = tmp_path / "seen.db"
    table = adapter.open(path)
    with table.transaction():
        for number in range(500):
            table.put(f"notes/{number}", entry(number))
    table.close()
    ruin(path, damage)
    before = path.read_bytes()
    table = adapter.open(path)
    assert table.lost is not None
    assert table.lost.read_bytes() == before
    assert table.count() == 0
    table.put("a", entry())
    table.close()
    table = adapter.open(path)
    assert table.get("a") == entry()
    assert table.lost is None
    table.close()


def test_a_table_of_a_newer_version_is_refused_and_stays(tmp_path: Path) -> None:
    """It is whole, and whoever wrote it will need it again."""
    path = tmp_path / "seen.db"
    adapter.open(path).close()
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 99")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(errors.Unusable, match="version 99") as caught:
        adapter.open(path)
    assert "soul-bridge --version" in caught.value.advice and path.read_bytes() == before
    assert not list(tmp_path.glob("*.damaged-*"))


def ruin(path: Path, damage: str) -> None:
    if damage == "text":
        path.write_bytes(b"not a database" * 100)
    elif damage == "middle":
        content = path.read_bytes()
        path.write_bytes(content[:8192] + b"\x55" * (len(content) - 8192))
    else:
        change = "PRAGMA user_version = -1" if damage == "version" else "ALTER TABLE seen DROP COLUMN raw"
        connection = sqlite3.connect(path)
        connection.execute(change)
        connection.commit()
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.close()


def test_a_second_ruin_does_not_overwrite_the_first_one_kept(tmp_path: Path) -> None:
    path = tmp_path / "seen.db"
    lost = []
    for text in (b"first" * 300, b"second" * 300):
        path.write_bytes(text)
        table = adapter.open(path)
        lost.append(table.lost)
        table.close()
    assert [each.read_bytes()[:6] for each in lost if each] == [b"firstf", b"second"]


def test_only_the_user_may_read_the_table(tmp_path: Path) -> None:
    adapter.open(tmp_path / "seen.db").close()
    assert (tmp_path / "seen.db").stat().st_mode & 0o777 == 0o600


def test_a_table_held_by_another_command_is_a_reason_to_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adapter, "_PATIENCE", 0.05)
    first, second = adapter.open(tmp_path / "seen.db"), adapter.open(tmp_path / "seen.db")
    with first.transaction():
        first.put("a", entry())
        with pytest.raises(errors.Transient) as caught:
            second.put("b", entry())
    assert caught.value.kind == "busy"
    second.put("b", entry())
    assert set(first.under("")) == {"a", "b"}
    first.close()
    second.close()


def test_a_place_that_cannot_be_written_is_a_reason_to_wait(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(errors.Transient) as caught:
        adapter.open(tmp_path / "file" / "seen.db")
    assert caught.value.kind == "disk"
