"""What two bodies write while they cannot see each other, and what stands on every body afterwards.

`first` synchronises first, so its version is published when `second` merges: it is theirs.
"""

from __future__ import annotations

from dataclasses import dataclass

Files = dict[str, str | None]


@dataclass(frozen=True)
class Row:
    """One case. Contents by path, None: removed or absent. older: second committed before first, and merges after.

    lost: the content that has to be on every body's list of conflicts.
    """

    rule: str
    says: str
    base: Files
    first: Files
    second: Files
    result: Files
    older: bool = False
    lost: tuple[str, str] | None = None


def entries(*texts: str) -> str:
    """A memory file."""
    return "\n§\n".join(texts) + "\n" if texts else ""


def memory(
    rule: str, says: str, name: str, base: str, first: str | None, second: str | None, result: str | None
) -> Row:
    """A case of one memory file, entries as words."""

    def content(words: str | None) -> str | None:
        return None if words is None else entries(*words.split())

    path = f"memories/{name}.md"
    return Row(
        rule, says, {path: content(base)}, {path: content(first)}, {path: content(second)}, {path: content(result)}
    )


ROWS = (
    Row(
        "MERGE-1",
        "only the first changed it",
        {"notes/one/a.md": "# a\n"},
        {"notes/one/a.md": "# a\n1\n"},
        {},
        {"notes/one/a.md": "# a\n1\n"},
    ),
    Row(
        "MERGE-1",
        "only the second changed it",
        {"notes/one/b.md": "# b\n"},
        {},
        {"notes/one/b.md": "# b\n2\n"},
        {"notes/one/b.md": "# b\n2\n"},
    ),
    Row(
        "MERGE-1",
        "both wrote the same",
        {"notes/one/c.md": "# c\n"},
        {"notes/one/c.md": "# c\n=\n"},
        {"notes/one/c.md": "# c\n=\n"},
        {"notes/one/c.md": "# c\n=\n"},
    ),
    Row(
        "MERGE-1",
        "one side's own spelling of a memory file stays",
        {"memories/odd.md": "a\n§\nb\n"},
        {"memories/odd.md": "\n§ \nb\n\n§\n\na"},
        {},
        {"memories/odd.md": "\n§ \nb\n\n§\n\na"},
    ),
    Row(
        "MERGE-1",
        "one side removed it",
        {"notes/one/d.md": "# d\n"},
        {"notes/one/d.md": None},
        {},
        {"notes/one/d.md": None},
    ),
    memory("MERGE-2", "both additions are kept", "add", "a", "a b", "a c", "a b c"),
    memory("MERGE-2", "edited on both: both versions", "both", "a z", "a1 z", "a2 z", "a1 a2 z"),
    memory("MERGE-2", "edited here, removed there: the edit stays", "edit", "a b", "a1 b", "b", "a1 b"),
    memory("MERGE-2", "removed on the first: it is gone", "gone1", "a b", "a", "a b c", "a c"),
    memory("MERGE-2", "removed on the second: it is gone", "gone2", "a b", "a b c", "a", "a c"),
    memory("MERGE-2", "the same addition is there once", "once", "a", "a b", "a b", "a b"),
    memory("MERGE-2", "a text appears once, at its first place", "twice", "a", "a x", "b a b", "b a x"),
    memory(
        "MERGE-2",
        "a removed file has lost its entries, not the other side's new ones",
        "file",
        "a b",
        None,
        "a b c",
        "c",
    ),
    memory(
        "MERGE-3",
        "ours goes behind its neighbour and theirs' additions",
        "order",
        "a b c",
        "a x b c",
        "a y b c",
        "a x y b c",
    ),
    memory("MERGE-3", "ours goes behind the entry it followed", "order2", "a b c", "a x b c", "a b y c", "a x b y c"),
    memory("MERGE-3", "at the start when nothing precedes", "order3", "a", "a x", "y a", "y a x"),
    Row(
        "MERGE-2",
        "not UTF-8: the newer file, whole",
        {"memories/raw.md": "a\n"},
        {"memories/raw.md": "a\udcff\n"},
        {"memories/raw.md": "b\n"},
        {"memories/raw.md": "b\n"},
        lost=("memories/raw.md", "a\udcff\n"),
    ),
    Row(
        "MERGE-6",
        "the newer version stands, the other is listed",
        {"notes/six/a.md": "# a\n"},
        {"notes/six/a.md": "# a\nfirst\n"},
        {"notes/six/a.md": "# a\nsecond\n"},
        {"notes/six/a.md": "# a\nsecond\n"},
        lost=("notes/six/a.md", "# a\nfirst\n"),
    ),
    Row(
        "MERGE-6",
        "the older version loses, though it merges",
        {"notes/six/b.md": "# b\n"},
        {"notes/six/b.md": "# b\nfirst\n"},
        {"notes/six/b.md": "# b\nsecond\n"},
        {"notes/six/b.md": "# b\nfirst\n"},
        older=True,
        lost=("notes/six/b.md", "# b\nsecond\n"),
    ),
    Row(
        "MERGE-6",
        "two files of one new name",
        {},
        {"extra/new.txt": "first\n"},
        {"extra/new.txt": "second\n"},
        {"extra/new.txt": "second\n"},
        lost=("extra/new.txt", "first\n"),
    ),
    Row(
        "MERGE-6",
        "the newer SOUL.md stands",
        {},
        {"SOUL.md": "# Kaoru\n\nfirst\n"},
        {"SOUL.md": "# Kaoru\n\nsecond\n"},
        {"SOUL.md": "# Kaoru\n\nsecond\n"},
        lost=("SOUL.md", "# Kaoru\n\nfirst\n"),
    ),
    Row(
        "MERGE-6",
        "an edit beats a deletion that is published",
        {"notes/six/c.md": "# c\n"},
        {"notes/six/c.md": None},
        {"notes/six/c.md": "# c\n2\n"},
        {"notes/six/c.md": "# c\n2\n"},
    ),
    Row(
        "MERGE-6",
        "an edit that is published beats a deletion",
        {"notes/six/d.md": "# d\n"},
        {"notes/six/d.md": "# d\n1\n"},
        {"notes/six/d.md": None},
        {"notes/six/d.md": "# d\n1\n"},
    ),
    Row(
        "MERGE-6",
        "our blank text yields",
        {"notes/six/e.md": "# e\nx\n"},
        {"notes/six/e.md": "# e\n1\n"},
        {"notes/six/e.md": "\n"},
        {"notes/six/e.md": "# e\n1\n"},
    ),
    Row(
        "MERGE-6",
        "their seed text yields to ours, older as it is",
        {"notes/six/f.md": "# f\nx\n"},
        {"notes/six/f.md": "# f\n"},
        {"notes/six/f.md": "# f\n2\n"},
        {"notes/six/f.md": "# f\n2\n"},
        older=True,
    ),
    Row(
        "MERGE-7",
        "an edit follows a published move",
        {"notes/seven/a.md": "# seven a\n"},
        {"notes/seven/a.md": None, "notes/seven/moved/a.md": "# seven a\n"},
        {"notes/seven/a.md": "# seven a\nedit\n"},
        {"notes/seven/a.md": None, "notes/seven/moved/a.md": "# seven a\nedit\n"},
    ),
    Row(
        "MERGE-7",
        "a published edit follows a move",
        {"notes/seven/b.md": "# seven b\n"},
        {"notes/seven/b.md": "# seven b\nedit\n"},
        {"notes/seven/b.md": None, "notes/seven/moved/b.md": "# seven b\n"},
        {"notes/seven/b.md": None, "notes/seven/moved/b.md": "# seven b\nedit\n"},
    ),
    Row(
        "MERGE-8",
        "a directory keeps its name, the published file stands beside it",
        {},
        {"notes/eight.md": "# file\n"},
        {"notes/eight.md/deep.md": "# deep\n"},
        {"notes/eight.md/deep.md": "# deep\n", "notes/eight~{first}.md": "# file\n"},
    ),
    Row(
        "MERGE-8",
        "a published directory keeps its name, our file stands beside it",
        {},
        {"notes/eight2.md/deep.md": "# deep\n"},
        {"notes/eight2.md": "# file\n"},
        {"notes/eight2.md/deep.md": "# deep\n", "notes/eight2~{second}.md": "# file\n"},
    ),
    Row(
        "MERGE-9",
        "each body's journal is its own",
        {},
        {"journal/{first}/2026-01-02.md": "# 2026-01-02 · {first}\n"},
        {"journal/{second}/2026-01-02.md": "# 2026-01-02 · {second}\n"},
        {
            "journal/{first}/2026-01-02.md": "# 2026-01-02 · {first}\n",
            "journal/{second}/2026-01-02.md": "# 2026-01-02 · {second}\n",
        },
    ),
    Row(
        "MERGE-10",
        "fixed files: theirs",
        {},
        {"README.md": "# first\n"},
        {"README.md": "# second\n"},
        {"README.md": "# first\n"},
    ),
    Row(
        "MERGE-10",
        "the higher version of the specification",
        {},
        {".soul-spec.json": '{\n  "spec": "soul-repo",\n  "version": 5\n}\n'},
        {".soul-spec.json": '{\n  "spec": "soul-repo",\n  "version": 6\n}\n'},
        {".soul-spec.json": '{\n  "spec": "soul-repo",\n  "version": 6\n}\n'},
    ),
    Row(
        "MERGE-10",
        "a lock that one body wrote by hand is put back",
        {},
        {"locks/mine.json": "{}\n"},
        {},
        {"locks/mine.json": None},
    ),
    Row(
        "TREE-5",
        "text with CRLF is stored with LF",
        {},
        {"notes/crlf.md": "# crlf\r\none\r\n"},
        {},
        {"notes/crlf.md": "# crlf\none\n"},
    ),
    Row(
        "CONTENT-1",
        "what looks like a secret is the agent's",
        {},
        {"notes/secret.md": "# s\nAKIAIOSFODNN7EXAMPLE\n"},
        {},
        {"notes/secret.md": "# s\nAKIAIOSFODNN7EXAMPLE\n"},
    ),
)
