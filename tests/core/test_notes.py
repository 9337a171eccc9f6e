"""Names of notes: whatever the topic, a name that every machine can hold and that takes no other's place."""

from __future__ import annotations

import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.core import layout, notes

LETTERS = (
    'aé e\u0301.\\/:*?"<>|-~\x00\x85 \u3000\u200d\u200c\ufeff海👨👩🏽🇩🇪❤\ufe0f\u1112\u119e\u11ab각กำक्ष\U000e0061\u0600'
)
TOPICS = st.text(alphabet=LETTERS, max_size=90) | st.text(max_size=90)
DEVICES = re.compile(r"(?i)(con|prn|aux|nul|com\d|lpt\d)(\..*)?")


@given(topic=TOPICS | st.sampled_from(["nul", "Aux.md", "COM7", "git~1", ".GIT", "con.\u200c", "con" + "-" * 70]))
def test_every_topic_becomes_a_name_for_every_system(topic: str) -> None:
    """FORM-5, TREE-7"""
    name = notes.segment(topic)
    assert 0 < len(name) <= 60
    assert not set(name) & set('\\/:*?"<>|')
    assert not any(letter.isspace() or unicodedata.category(letter) == "Cc" for letter in name if letter != "\x1c")
    assert name[0] not in "." and name[-1] not in ". "
    assert not DEVICES.fullmatch(name)
    assert layout.unsafe(f"notes/{name}.md") is None
    assert layout.held(f"notes/{name}.md", 0o100644, 0) is None
    assert notes.segment(name) == name


@given(topics=st.lists(TOPICS, max_size=8), categories=st.lists(TOPICS, max_size=6))
def test_no_new_note_takes_the_place_of_another(topics: list[str], categories: list[str]) -> None:
    """FORM-5: also where the two differ in nothing that every file system can tell."""
    taken: list[str] = []
    for topic in topics:
        path = notes.path(topic, categories, taken)
        assert layout.fold(path) not in {layout.fold(other) for other in taken}
        assert 2 <= len(path.split("/")) <= 5
        assert all(len(part) <= 60 for part in path.removesuffix(".md").split("/"))
        assert notes.problems(path, b"# a topic\n") == []
        taken.append(path)


@pytest.mark.parametrize(
    ("topic", "there", "path"),
    [
        ("Tea", "notes/tea.md", "notes/Tea-2.md"),
        ("tea", "notes/TEA.md", "notes/tea-2.md"),
        ("caf\u00e9", "notes/cafe\u0301.md", "notes/caf\u00e9-2.md"),
        ("tea", "notes/other/tea.md", "notes/tea.md"),
    ],
)
def test_two_topics_that_some_disk_takes_for_one_get_two_names(topic: str, there: str, path: str) -> None:
    """FORM-5"""
    assert notes.path(topic, (), [there]) == path


@pytest.mark.parametrize(
    "grapheme",
    [
        "e\u0323\u0302",
        "👨‍👩‍👧‍👦",
        "❤️",
        "🇩🇪",
        "👍🏽",
        "🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f",
        "\u1112\u119e\u11ab",
        "\uac00\u11f0",
        "\u1100\u1100\uac01",
        "กำ",
        "क्ष",
        "\u0600\u0661",
        "1\ufe0f\u20e3",
        "ｶﾞ",
    ],
)
def test_a_name_never_ends_in_the_middle_of_a_grapheme(grapheme: str) -> None:
    """FORM-5: however much of it would still fit."""
    whole = unicodedata.normalize("NFC", grapheme)
    for room in range(1, len(whole)):
        before = "x" * (60 - room)
        assert notes.segment(before + grapheme) == before
    fitting = "x" * (60 - len(whole))
    assert notes.segment(fitting + grapheme + "y") == fitting + whole


def test_letters_that_stand_alone_are_cut_apart() -> None:
    """FORM-5: only what belongs together is kept together."""
    for text in ("각각", "海a", "🇩🇪🇫🇷", "❤️❤️", "\u11ab\u1112"):
        middle = len(text) // 2
        assert notes.segment("x" * (60 - middle) + text) == "x" * (60 - middle) + text[:middle]


def test_one_grapheme_that_fills_a_name_alone_leaves_it_untitled() -> None:
    """FORM-5"""
    assert notes.segment("q" + "\u0323" * 80) == notes.UNTITLED
    long = "q" + "\u0323" * 59
    assert notes.path(long, taken=[f"notes/{long}.md"]) == "notes/untitled-2.md"


@pytest.mark.parametrize(
    ("path", "content", "lines"),
    [
        ("notes/travel/kyoto.md", "# Kyoto\n> in spring\n", []),
        ("notes/.gitkeep", "", []),
        ("notes/travel/.gitkeep", "", []),
        ("notes/cafe\u0301.md", "# café\n", []),
        ("notes/-x-.md", "# x\n", []),
        ("notes/kyoto.md", "Kyoto\n", [1]),
        ("notes/kyoto.md", "# \n", [1]),
        ("notes/map.png", "x", [0]),
        ("notes/a/b/c/d/e.md", "# e\n", [0]),
        ("notes/my trip.md", "# my trip\n", [0]),
        ("notes/con/a.md", "# a\n", [0]),
        ("notes/.hidden.md", "# a\n", [0]),
        ("notes/" + "x" * 61 + ".md", "# x\n", [0]),
        ("notes/travel/Index.md", "# a\n", [0]),
    ],
)
def test_the_problems_of_a_note_are_reported_and_nothing_is_renamed(path: str, content: str, lines: list[int]) -> None:
    """FORM-5"""
    found = notes.problems(path, content.encode())
    assert [problem.line for problem in found] == lines
    assert {problem.rule for problem in found} <= {"FORM-5"}
