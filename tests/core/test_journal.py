"""Journals: two files of one day become one in which nothing that was written is missing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.core import journal

PATH = "journal/laptop/2026-01-31.md"
TITLE = "# 2026-01-31 · laptop\n"
PIECES = st.lists(
    st.sampled_from(["## 07:00 a", "## 08:00 b", "word", "", "```", "~~~", "# 2026-01-31 · laptop", " ", "## x"]),
    max_size=8,
).map(lambda lines: "\n".join(lines).encode())


@given(ours=PIECES, theirs=PIECES)
def test_no_section_of_either_side_is_missing(ours: bytes, theirs: bytes) -> None:
    """MERGE-9: what stood on either side stands in the result, theirs first and byte for byte."""
    merged = journal.merge(ours, theirs)
    lines = "\n" + merged.decode() + "\n"
    assert all(f"\n{section}\n" in lines for section in (*journal.sections(ours), *journal.sections(theirs)))
    assert merged.startswith(theirs.rstrip(b"\r\n")) or not theirs.strip()


@given(ours=PIECES, theirs=PIECES)
def test_merging_again_changes_nothing(ours: bytes, theirs: bytes) -> None:
    """MERGE-9: two bodies that merge each other's results do not make the file grow."""
    merged = journal.merge(ours, theirs)
    assert journal.merge(ours, merged) == merged
    assert journal.merge(theirs, merged) == merged
    assert journal.merge(merged, merged) == merged


@given(ours=PIECES, theirs=PIECES)
def test_a_section_stands_where_its_lines_do(ours: bytes, theirs: bytes) -> None:
    """MERGE-9: looked up by its beginning, a section is found wherever a search through all of theirs finds it."""
    there = "\n".join(theirs.decode("utf-8-sig").replace("\r\n", "\n").split("\n"))
    standing = set(journal.sections(theirs))
    here = dict.fromkeys(journal.sections(ours))
    missing = [text for text in here if text not in standing and f"\n{text}\n" not in f"\n{there}\n"]
    merged = journal.merge(ours, theirs)
    if missing and there.strip():
        assert merged == theirs.rstrip(b"\r\n") + "".join(f"\n\n{text}" for text in missing).encode() + b"\n"
    else:
        assert merged == (ours if missing else theirs)


HOSTILE = {
    "the same heading": lambda number: f"## 07:00 a\n{number}\n",
    "no text": lambda number: f"## 07:00 {number}\n",
    "code that ends": lambda number: f"## 07:00 a\n```\n## {number}\n```\n",
    "code of two kinds": lambda number: f"## 07:00 {number}\n{('```', '~~~')[number % 2]}\n",
    "code that never ends": lambda number: "```\n" * (number == 0) + f"## 07:00 {number}\n",
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_many_sections_cost_what_their_number_costs(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """MERGE-9: whoever can push a journal of a megabyte makes nobody wait for a minute."""
    looked = 0
    real = journal._fence

    def counted(line: str, fence: str) -> str:
        nonlocal looked
        looked += 1
        return real(line, fence)

    monkeypatch.setattr(journal, "_fence", counted)
    theirs = "".join(HOSTILE[kind](number) for number in range(2_000)).encode()
    ours = b"".join(b"## 08:00 b\n%d\n" % number for number in range(2_000))
    merged = journal.merge(ours, theirs)
    assert looked <= 6 * (theirs.count(b"\n") + ours.count(b"\n"))
    assert len(merged) > len(theirs) + len(ours) and journal.merge(ours, merged) == merged


@given(ours=st.binary(max_size=30), theirs=st.binary(max_size=30))
def test_no_bytes_break_the_merge(ours: bytes, theirs: bytes) -> None:
    """MERGE-9: not UTF-8 on either side leaves theirs."""
    merged = journal.merge(ours, theirs)
    journal.problems(PATH, merged)
    assert merged in (ours, theirs) or merged.startswith(theirs.rstrip(b"\r\n"))


def test_sections_begin_at_their_headings_and_not_in_code() -> None:
    """FORM-4"""
    content = TITLE + "early\n\n## 07:00 a\n```\n## 07:30 no\n~~~\n```\nA\n\n## 08:00 b\n"
    assert journal.sections(content.encode()) == (
        "early",
        "## 07:00 a\n```\n## 07:30 no\n~~~\n```\nA",
        "## 08:00 b",
    )


@pytest.mark.parametrize(
    ("path", "text", "lines"),
    [
        (PATH, TITLE + "\n## 07:00 woke up\n\nwords\n```\n## not a section\n```\n", []),
        ("journal/laptop/2026-01-31-dreams.md", TITLE, []),
        ("journal/.gitkeep", "", []),
        ("journal/laptop/.gitkeep", "", []),
        ("journal/laptop/today.md", TITLE, [0]),
        ("journal/laptop/2026-02-30.md", TITLE, [0]),
        ("journal/laptop/2026-01-31.txt", TITLE, [0]),
        ("journal/laptop/a/2026-01-31.md", TITLE, [0]),
        ("journal/Laptop/2026-01-31.md", TITLE, [0]),
        (PATH, "# 2026-01-30 · laptop\n", [1]),
        (PATH, "", [1]),
        (PATH, TITLE + "## 24:00 a\n## 7:00 a\n## 07:00\n## 07:00 a\n### deeper\n", [2, 3, 4]),
    ],
)
def test_the_problems_of_a_journal_name_their_lines(path: str, text: str, lines: list[int]) -> None:
    """FORM-4"""
    found = journal.problems(path, text.encode())
    assert [problem.line for problem in found] == lines
    assert {problem.rule for problem in found} <= {"FORM-4"}


def test_a_journal_that_is_not_utf_8_is_reported_once() -> None:
    """FORM-4"""
    assert [problem.line for problem in journal.problems(PATH, b"\xff\n## x\n")] == [0]
