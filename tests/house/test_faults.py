"""The deliberate faults of tests/faults fit the program as it is, and the table in tests/README.md names them all."""

from __future__ import annotations

import ast
from pathlib import Path

from tests.faults import page
from tests.faults.__main__ import ALL
from tests.faults.fault import ROOT

FEWEST = 45
# What decides, and what carries decisions out: a room of rules that nobody tries is a hole.
ROOMS = {
    "core": "plan merge entries newest sides moves beside identity journal notes bodies lease publish commits cycle "
    "withhold projection layout",
    "app": "sync observing recording arrivals publishing materialise joining filling standing repairing undoing "
    "leasing keeping accepting withholding withheld freezing",
}


def test_each_fault_changes_a_text_that_stands_there_once() -> None:
    """A fault whose text is gone proves nothing any more: change it with the program (tests/faults)."""
    for fault in ALL:
        ast.parse(fault.lay(ROOT))


def test_there_are_faults_in_every_room_and_no_name_twice() -> None:
    names = [fault.name for fault in ALL]
    assert len(names) >= FEWEST and len(set(names)) == len(names)
    wanted = {f"{layer}/{room}.py" for layer, rooms in ROOMS.items() for room in rooms.split()}
    assert wanted - {fault.file for fault in ALL} == set()


def test_the_tests_that_are_to_notice_exist() -> None:
    named = {test for fault in ALL for test in fault.tests}
    assert sorted(test for test in named if not (ROOT / test).is_file()) == []


def test_the_page_names_every_fault_as_it_is() -> None:
    """The table is written by `python -m tests.faults --write`."""
    rows = page.rows(page.PAGE.read_text("utf-8"))
    assert {name: row[:2] for name, row in rows.items()} == {fault.name: (fault.file, fault.rule) for fault in ALL}


def test_the_page_names_tests_that_exist() -> None:
    for name, (_, _, test) in page.rows(page.PAGE.read_text("utf-8")).items():
        path, _, function = test.partition("::")
        assert f"def {function}(" in Path(ROOT, "tests", path).read_text("utf-8"), f"{name}: {test}"


def test_the_table_is_written_anew_with_what_was_tried_and_keeps_the_rest() -> None:
    text = f"before\n{page.BEGIN}\n{page.HEAD}| {ALL[1].name} | `x.py` | OLD-1 | `a::b` |\n{page.END}\nafter\n"
    after = page.written(text, ALL[:2], {ALL[0].name: "c::d"})
    assert page.rows(after) == {
        ALL[0].name: (ALL[0].file, ALL[0].rule, "c::d"),
        ALL[1].name: (ALL[1].file, ALL[1].rule, "a::b"),
    }
    assert after.startswith("before\n") and after.endswith("after\n")


def test_the_table_stands_on_the_page_once() -> None:
    """Written between the marks, where nothing stood yet, and nowhere else."""
    after = page.written(f"before\nand more\n{page.BEGIN}\n{page.END}\n", ALL[:1], {ALL[0].name: "c::d"})
    assert after.startswith("before\nand more\n") and after.count(page.HEAD) == 1
    assert page.PAGE.read_text("utf-8").count(page.HEAD) == 1
