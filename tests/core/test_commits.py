"""COMMIT-1 and COMMIT-3: who made a commit, what it says, and facts that no file name can forge."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bridge.core import commits
from bridge.core.model import Commit

BLOB = "0123456789abcdef0123456789abcdef01234567"
OTHER = "f" * 40
ANY = st.text(st.characters(exclude_categories=()), max_size=40)
# Paths as git's bytes decode: any bytes, but no NUL and no lone surrogate that is not an escaped byte.
PATHS = (
    st.binary(min_size=1, max_size=40)
    .map(lambda data: data.decode("utf-8", "surrogateescape"))
    .filter(lambda path: "\0" not in path and not {"", ".", ".."} & set(path.split("/")))
)


def body_of(author: str) -> str:
    """The body that a reader finds in an author's name."""
    return Commit(BLOB, BLOB, (), 0, author, "").body


@pytest.mark.parametrize(
    ("name", "body", "author"),
    [
        ("Kaoru", "laptop", "Kaoru (laptop)"),
        ("薫 <kaoru@example.org>", "laptop", "薫 kaoru@example.org (laptop)"),
        ("Kaoru\nAuthor: Eve", "laptop", "Kaoru Author: Eve (laptop)"),
        ("Ka\x00o\x1bru\u2028", "pi", "Kaoru (pi)"),
        ("\u202eKaoru", "pi", "Kaoru (pi)"),
        ("<>", "laptop", "soul (laptop)"),
        ("", "", "soul (unknown)"),
        (" \t\n", "(＜）", "soul (＜)"),
        ("Kaoru (she)", "pi", "Kaoru (she) (pi)"),
        ("\ud800", "pi", "soul (pi)"),
        ("k" * 500, "pi", "k" * 119 + "… (pi)"),
    ],
)
def test_an_author_is_a_name_and_a_body_on_one_line(name: str, body: str, author: str) -> None:
    """COMMIT-1."""
    assert commits.author(name, body) == author


@given(ANY, st.from_regex(r"[a-z0-9][a-z0-9-]{0,39}", fullmatch=True))
def test_an_author_can_be_written_and_its_body_read_again(name: str, body: str) -> None:
    """COMMIT-1, COMMIT-3."""
    author = commits.author(name, body)
    author.encode("utf-8")
    assert not set("<>\n\r\0") & set(author)
    assert body_of(author) == body


@pytest.mark.parametrize(
    ("author", "body"),
    [
        ("Kaoru (laptop)", "laptop"),
        ("Kaoru (she) (laptop) ", "laptop"),
        ("薫（ノート）", "ノート"),
        ("Kaoru", ""),
        ("Kaoru )", ""),
        ("(pi)", "pi"),
    ],
)
def test_the_body_is_the_last_parenthesis_of_the_author_whoever_wrote_it(author: str, body: str) -> None:
    """COMMIT-3."""
    assert body_of(author) == body


@pytest.mark.parametrize(
    ("agent", "body", "mail"),
    [
        ("kaoru", "laptop", "kaoru@laptop.local"),
        ("ka oru<x>@y", "lap\ntop", "kaoruxy@laptop.local"),
        ("", "..", "soul@unknown.local"),
        ("薫", "é", "soul@unknown.local"),
    ],
)
def test_a_mail_address_is_plain(agent: str, body: str, mail: str) -> None:
    """COMMIT-1."""
    assert commits.mail(agent, body) == mail


def test_a_message_is_a_description_with_the_body_and_facts_at_its_end() -> None:
    """COMMIT-1."""
    lost = commits.lost(BLOB, "notes/tea.md")
    assert commits.message("memories +2 −1", "laptop") == "memories +2 −1 (laptop)\n"
    assert commits.message("merged", "laptop", [lost, (commits.RESTORED, OTHER)]) == (
        f"merged (laptop)\n\nLost: {BLOB} notes/tea.md\nRestored: {OTHER}\n"
    )


def test_a_message_stays_one_line_whatever_is_described() -> None:
    hostile = f"notes x\n\nLost: {BLOB} SOUL.md"
    message = commits.message(hostile, "pi)\n(", [("Undone", "a\nLost: b\0c\ud800")])
    assert message == f"notes x Lost: {BLOB} SOUL.md (pi)\n\nUndone: a Lost: b c \n"
    assert commits.message("\n", "") == "nothing changed (unknown)\n"
    assert commits.lost_trailers(message) == []


@pytest.mark.parametrize(
    ("path", "quoted"),
    [
        ("notes/tea.md", "notes/tea.md"),
        ("notes/tea  time.md", "notes/tea  time.md"),
        ("notes/薫.md", "notes/薫.md"),
        (" a", '" a"'),
        ("a\u3000", '"a\u3000"'),
        ("a\nLost: x", r'"a\nLost: x"'),
        ('"a"', r'"\"a\""'),
        ('a"b', 'a"b'),
        ("a\\b", r'"a\\b"'),
        ("\udcff\t\r\x7f", r'"\377\t\r\177"'),
        ("a\u2028b\u202e", r'"a\342\200\250b\342\200\256"'),
        ("", '""'),
    ],
)
def test_a_path_is_quoted_where_it_could_be_mistaken(path: str, quoted: str) -> None:
    assert commits.quote(path) == quoted
    assert commits.unquote(quoted) == path


@pytest.mark.parametrize(
    "text", ["", '"', '"a', "a\\b", " a", "a\n", r'"\x"', r'"\9"', r'"\777"', r'"\37"', '"a"b"', '"\\"', '"\ud800"']
)
def test_what_is_not_a_quoted_path_is_none(text: str) -> None:
    assert commits.unquote(text) is None


def test_a_path_quoted_more_than_it_must_be_is_read_as_git_would() -> None:
    assert commits.unquote(r'"\303\251.md"') == "é.md"
    assert commits.unquote('"plain"') == "plain"


@settings(max_examples=200)
@given(st.lists(st.tuples(st.sampled_from([BLOB, OTHER]), PATHS), max_size=4, unique=True), ANY)
@example([(BLOB, "a\n\nLost: " + OTHER + " b")], "x")
@example([(BLOB, "\r"), (BLOB, "\x85"), (BLOB, "\u2028"), (BLOB, "\x0b")], "\x1c")
def test_lost_versions_are_found_again_whatever_their_paths_are(lost: list[tuple[str, str]], words: str) -> None:
    """COMMIT-1: as facts for machines."""
    message = commits.message(words, "pi", [commits.lost(blob, path) for blob, path in lost])
    assert commits.lost_trailers(message.encode("utf-8").decode("utf-8")) == lost


@pytest.mark.parametrize(
    "message",
    [
        "",
        "\n\n",
        f"Lost: {BLOB} a",
        f"\n\nLost: {BLOB} a",
        f"x\nLost: {BLOB} a",
        f"x\n\nLost: {BLOB} a\n\nand more words",
        f"x\n\nLost: {BLOB} a\nand more words",
        f"x\n\nlost: {BLOB} a",
        f"x\n\n Lost: {BLOB} a",
        f"x\n\nLost:{BLOB} a",
        f"x\n\nLost: {BLOB}",
        f"x\n\nLost: {BLOB.upper()} a",
        f"x\n\nLost: {BLOB[:39]} a",
        f"x\n\nLost: {BLOB} ../a",
        f"x\n\nLost: {BLOB} /a",
        f"x\n\nLost: {BLOB} a//b",
        f'x\n\nLost: {BLOB} "a\\000b"',
        f'x\n\nLost: {BLOB} "a',
        f"x\n\nLost: {BLOB} \\a",
    ],
)
def test_what_no_merge_of_ours_wrote_is_no_lost_version(message: str) -> None:
    assert commits.lost_trailers(message) == []


def test_no_more_facts_are_read_than_are_asked_for() -> None:
    """Whoever can push a message of a megabyte makes nobody read all of it."""
    text = "subject\n\n" + "".join(f"Key-{number}: value\n" for number in range(100))
    assert commits.trailers(text, 3) == [("Key-0", "value"), ("Key-1", "value"), ("Key-2", "value")]
    assert len(commits.trailers(text)) == len(commits.trailers(text, 1_000)) == 100
    assert commits.trailers(text + "and no fact\n", 100) != [] == commits.trailers(text + "and no fact\n", 101)
    assert commits.trailers("\n" * 1_000 + text.partition("\n\n")[2]) == [], "without a subject there are none"


def test_facts_are_read_through_what_git_and_people_do_to_messages() -> None:
    message = f"x (pi)\r\n\r\nwords\r\n \r\nLost: {BLOB} a b\r\nLost: {BLOB} a b\r\nSigned-off-by: K <k@x>\r\n\r\n"
    assert commits.trailers(message) == [("Lost", f"{BLOB} a b")] * 2 + [("Signed-off-by", "K <k@x>")]
    assert commits.lost_trailers(message) == [(BLOB, "a b")]


@given(ANY)
def test_any_message_can_be_read(message: str) -> None:
    """COMMIT-3."""
    assert all(isinstance(value, str) for _, value in commits.trailers(message))
    assert all(len(blob) == 40 and path for blob, path in commits.lost_trailers(message))


def entries(*texts: str) -> bytes:
    return "\n§\n".join(texts).encode()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"memories/MEMORY.md": (entries("a", "b"), entries("b", "c", "d"))}, "memories +2 −1"),
        ({"memories/MEMORY.md": (None, entries("a")), "memories/USER.md": (entries("b", "b"), None)}, "memories +1 −2"),
        ({"memories/MEMORY.md": (entries("a", "b"), entries("b", "a"))}, "memories"),
        ({"memories/MEMORY.md": (b"\xff", entries("a"))}, "memories +1"),
        ({"notes/travel/kyoto.md": (None, b""), "notes/b.md": (b"", None)}, "notes −b, travel/kyoto"),
        ({"journal/pi/2026-01-02.md": (None, b"")}, "journal 2026-01-02"),
        ({"bodies/pi.json": (b"", b"")}, "body pi"),
        ({"bodies/pi.json": (b"", None), "locks/consolidation.json": (None, b"")}, "body −pi; lease"),
        ({"locks/consolidation.json": (b"", None)}, "−lease"),
        ({"SOUL.md": (b"", b""), "todo.txt": (b"", None), "agent.json": (b"", b"")}, "SOUL.md; agent.json; −todo.txt"),
        ({"notes": (None, b""), "journal/x": (None, b""), "bodies/a/b": (None, b"")}, "notes; journal/x; bodies/a/b"),
        ({"a\nb\u202e": (None, b"")}, "a b"),
        ({"\x01": (None, b"")}, "?"),
        ({"memories/old/m.md": (None, b""), "memories/m.md": (None, b"a")}, "memories +1; memories/old/m.md"),
        ({}, "nothing changed"),
    ],
)
def test_a_description_says_in_words_what_changed(
    changes: dict[str, tuple[bytes | None, bytes | None]], words: str
) -> None:
    """COMMIT-1."""
    assert commits.describe(changes) == words


def test_a_description_puts_first_what_the_agent_cares_about() -> None:
    paths = ["z", "bodies/pi.json", "journal/pi/2026-01-02.md", "notes/n.md", "agent.json", "SOUL.md"]
    changes: dict[str, tuple[bytes | None, bytes | None]] = {path: (b"", b"") for path in paths}
    changes["memories/M.md"] = (None, entries("a"))
    assert commits.describe(changes) == "memories +1; SOUL.md; agent.json; notes n; journal 2026-01-02 and 2 more"


@given(st.dictionaries(PATHS, st.tuples(st.none() | st.binary(max_size=3), st.none() | st.binary(max_size=3))))
def test_a_description_is_one_short_line(changes: dict[str, tuple[bytes | None, bytes | None]]) -> None:
    """COMMIT-1."""
    words = commits.describe(changes)
    assert 0 < len(words) <= commits.SUBJECT
    words.encode("utf-8")
    assert commits.trailers(commits.message(words, "pi")) == []


def test_what_does_not_fit_is_counted() -> None:
    changes: dict[str, tuple[bytes | None, bytes | None]] = {f"notes/note {n}.md": (None, b"") for n in range(20)}
    assert commits.describe(changes) == "notes note 0, note 1, note 10, note 11, note 12, note 13 and 14 more"
    assert commits.describe({f"notes/{'x' * 99}.md": (None, b"")}) == "notes " + "x" * 35 + "…"
