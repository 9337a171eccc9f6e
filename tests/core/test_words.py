"""A server's words: safe to show, and answered with advice."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.core import words


@given(st.text(max_size=300) | st.binary(max_size=300))
def test_no_text_keeps_a_character_that_steers_a_terminal(text: str | bytes) -> None:
    shown = words.readable(text)
    assert not [letter for letter in shown if unicodedata.category(letter) in ("Cc", "Cs") and letter != "\n"]
    assert not set(shown) & set("\u202e\u2066\u200b\u2028\ufeff\U000e0041")
    shown.encode()


@given(st.text(max_size=100))
def test_reading_twice_changes_nothing(text: str) -> None:
    assert words.readable(words.readable(text)) == words.readable(text)


def test_plain_words_stay_and_line_ends_become_one_kind() -> None:
    assert words.readable("  Größe 你好 §\r\nzwei\rdrei\tvier\0\n") == "Größe 你好 §\nzwei\ndrei vier"


def test_escapes_show_what_was_there() -> None:
    assert words.readable("a\x1b[2Jb\x9b\u202e\U000e0041") == "a\\x1b[2Jb\\x9b\\u202e\\U000e0041"


def test_long_words_are_cut() -> None:
    assert words.readable("x" * 5000) == "x" * words.LONGEST + " …"


def test_of_many_lines_a_person_is_shown_the_first_and_the_last_and_how_many_more_there_were() -> None:
    lines = [f"line {number}" for number in range(100)]
    shown = words.told("\n".join(lines)).split("\n")
    assert shown == [*lines[:10], "… and 80 more lines …", *lines[90:]]
    assert words.told("\n".join(lines[:21])).split("\n")[10] == "… and 1 more line …"
    assert "… and 85 more lines …" in words.told("\n".join(lines), 5)


def test_few_words_are_shown_as_they_are_and_long_lines_are_cut_in_their_middle() -> None:
    assert words.told(b"no secrets\x1b[1m here\r\nplease\n") == "no secrets\\x1b[1m here\nplease"
    assert words.told("") == ""
    for text in ("a" + "x" * 5000 + "z", "a" + "x\n" * 15 + "y" * 5000 + "z", "a\nb\n" + "\x1b" * 5000 + "z"):
        shown = words.told(text)
        assert shown.startswith("a") and shown.endswith("z") and "\n…\n" in shown
        assert len(shown) <= 4 * words.LONGEST + 10 and "\x1b" not in shown


@given(st.text(max_size=3000) | st.binary(max_size=3000), st.integers(0, 5))
def test_no_words_of_a_server_steer_a_terminal_however_they_are_cut(text: str | bytes, missing: int) -> None:
    shown = words.told(text, missing)
    assert not [letter for letter in shown if unicodedata.category(letter) in ("Cc", "Cs") and letter != "\n"]
    assert len(shown.split("\n")) <= words.LINES + 1


@pytest.mark.parametrize(
    ("said", "asked"),
    [
        ("ERROR: The key you are authenticating with has been marked as read only.", "Allow write access"),
        ("ERROR: Permission to me/x.git denied to deploy key", "Allow write access"),
        ("FATAL: W any kaoru laptop DENIED by fallthru", "Allow write access"),
        ("ERROR: Repository not found.", "Check `remote`"),
        ("fatal: '/x.git' does not appear to be a git repository", "Check `remote`"),
        ("git@host: Permission denied (publickey).", "as a deploy key with write access"),
        ("fatal: detected dubious ownership in repository", "belongs to another user"),
        ("something nobody ever said", "soul-bridge doctor"),
    ],
)
def test_the_advice_fits_the_refusal(said: str, asked: str) -> None:
    """AUTH-3."""
    assert asked in words.advice(said)


def test_a_lost_race_and_a_servers_own_trouble_may_pass_and_a_hook_does_not() -> None:
    assert words.may_pass("failed to update ref")
    assert words.may_pass("incorrect old value provided")
    assert not words.may_pass("pre-receive hook declined")


def test_a_line_keeps_its_white_space_and_steers_no_terminal() -> None:
    assert words.line("    indented\r") == "    indented\\x0d"
    assert words.line("a\tb\x1b[2J\nc") == "a   b\\x1b[2J\\x0ac"
    assert words.line("x" * 12, 10) == "x" * 10 + " …"


def test_one_of_something_is_not_several() -> None:
    assert [words.counted(number, "commit") for number in (0, 1, 2)] == ["0 commits", "1 commit", "2 commits"]


@given(st.binary(max_size=200))
def test_lines_are_ended_by_lf_alone_and_are_the_bytes_that_were_there(content: bytes) -> None:
    lines = words.lines_of(content)
    again = "".join(line + "\n" for line in lines).encode("utf-8", "surrogateescape")
    assert again in (content, content + b"\n") and len(lines) == again.count(b"\n")
