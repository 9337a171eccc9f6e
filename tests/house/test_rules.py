"""Every rule of spec/ lives in exactly one room under bridge/, and something proves it."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
STATED = re.compile(r"^- \*\*([A-Z]+-\d+)\*\*", re.MULTILINE)
NUMBER = re.compile(r"\b[A-Z]+-\d+\b")


def stated() -> list[str]:
    """Numbers that spec/*.md state, in order, repetitions included."""
    return [number for page in sorted((ROOT / "spec").glob("*.md")) for number in STATED.findall(page.read_text())]


def rooms() -> dict[str, list[str]]:
    """For each number, the modules whose docstring says that it lives there."""
    found: dict[str, list[str]] = {}
    for module in sorted((ROOT / "bridge").rglob("*.py")):
        docstring = ast.get_docstring(ast.parse(module.read_text())) or ""
        line = re.search(r"^Rules: ([^.]*)\.", docstring, re.MULTILINE)
        for number in NUMBER.findall(line[1]) if line else ():
            found.setdefault(number, []).append(room_of(module))
    return found


def room_of(module: Path) -> str:
    """A module's name as the architecture page writes it: `core/merge`; a package goes by its folder."""
    return str(module.relative_to(ROOT / "bridge").with_suffix("")).removesuffix("/__init__")


def proofs() -> str:
    """Everything that could name a rule because it proves it: tests (gates and faults excepted) and vectors."""
    pages = [page for page in (ROOT / "tests").rglob("*.py") if page.parent.name not in ("house", "faults")]
    return "\n".join(page.read_text() for page in [*pages, *(ROOT / "spec" / "vectors").glob("*.json")])


def in_words(numbers: set[str]) -> list[str]:
    """Numbers in an order that reads well."""
    return sorted(numbers, key=lambda number: (number.split("-")[0], int(number.split("-")[1])))


def test_every_rule_is_stated_once() -> None:
    numbers = stated()
    assert len(numbers) > 50
    assert in_words({number for number in numbers if numbers.count(number) > 1}) == []


def test_the_numbers_of_a_chapter_have_no_gap() -> None:
    chapters: dict[str, list[int]] = {}
    for number in stated():
        chapter, place = number.split("-")
        chapters.setdefault(chapter, []).append(int(place))
    assert all(places == list(range(1, len(places) + 1)) for places in chapters.values()), chapters


def test_every_rule_has_a_room() -> None:
    assert in_words(set(stated()) - set(rooms())) == []


def test_no_rule_has_two_rooms() -> None:
    assert {number: modules for number, modules in rooms().items() if len(modules) > 1} == {}


def test_no_room_names_a_rule_that_is_not_stated() -> None:
    assert in_words(set(rooms()) - set(stated())) == []


def test_every_rule_is_named_by_a_test_or_a_vector() -> None:
    named = set(NUMBER.findall(proofs()))
    assert in_words(set(stated()) - named) == []


def test_the_architecture_page_says_where_each_rule_lives() -> None:
    page = (ROOT / "bridge" / "README.md").read_text()
    table = {}
    for room, numbers in re.findall(r"^\| `([\w/]+)` \|[^|]*\| ([A-Z][^|]*) \|$", page, re.MULTILINE):
        table.update({number: [room] for number in NUMBER.findall(numbers)})
    assert table == rooms()


def test_the_architecture_page_names_every_room() -> None:
    page = (ROOT / "bridge" / "README.md").read_text()
    rooms_there = {
        "/".join(module.relative_to(ROOT / "bridge").with_suffix("").parts[:2])
        for layer in ("core", "adapters", "app")
        for module in (ROOT / "bridge" / layer).rglob("*.py")
        if module.parent.name != layer or module.stem != "__init__"
    }
    assert sorted(room for room in rooms_there if f"`{room}`" not in page) == []
