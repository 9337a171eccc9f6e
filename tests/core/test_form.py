"""The whole check of form: every file is asked about in the room of its rule."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bridge.core import bodies, form, identity, layout, lease
from bridge.core.model import LINK, PLAIN

ID = "7c9e6679-7425-40de-944b-e07fc1f90ae7"
BORN = identity.write(identity.birth("kaoru", "Kaoru", ID, 0, seed=True))
WHOLE = layout.missing([], "kaoru", "Kaoru", BORN)


def problems(files: dict[str, bytes], modes: dict[str, int] | None = None) -> list[tuple[str, str]]:
    modes = modes or {}
    tree = {path: (content, modes.get(path, PLAIN), len(content)) for path, content in files.items()}
    return [(problem.rule, problem.path) for problem in form.problems(tree)]


def test_a_soul_as_it_is_born_has_no_problems() -> None:
    """TREE-1, TREE-2"""
    beaten = bodies.beat(None, "laptop", "hermes", "0.1.0", "thinkpad", 0)
    grown = {
        "bodies/laptop.json": beaten,
        "journal/laptop/2026-01-31.md": "# 2026-01-31 · laptop\n\n## 08:00 woke up\n".encode(),
        "notes/travel/kyoto.md": b"# Kyoto\n",
        "memories/MEMORY.md": "a\n§\nb\n".encode(),
        layout.LEASE: lease.write("laptop", 1),
        "skills/mine.py": b"print()\n",
    }
    assert problems(WHOLE) == []
    assert problems({**WHOLE, **grown}) == []


def test_every_room_is_asked_about_its_own_files() -> None:
    """FORM-1 to FORM-7, TREE-1, TREE-5, TREE-7"""
    broken = {
        **WHOLE,
        "SOUL.md": b"hi\n",
        "agent.json": b"{}",
        "bodies/pi.json": b"",
        "journal/pi/x.md": b"",
        layout.LEASE: b"",
        "memories/USER.md": b"a",
        "notes/a.md": b"",
        "notes/A.md": b"# a\n",
        "big.txt": b"x" * (1024 * 1024 + 1),
    }
    del broken["README.md"]
    found = set(problems(broken))
    assert {
        ("FORM-1", "agent.json"),
        ("FORM-2", "SOUL.md"),
        ("FORM-3", "memories/USER.md"),
        ("FORM-4", "journal/pi/x.md"),
        ("FORM-5", "notes/a.md"),
        ("FORM-6", "bodies/pi.json"),
        ("FORM-7", layout.LEASE),
        ("TREE-1", "README.md"),
        ("TREE-5", "big.txt"),
        ("TREE-7", "notes/a.md"),
    } <= found


def test_problems_come_in_the_order_of_paths_and_lines() -> None:
    """FORM-3"""
    tree = {path: (content, PLAIN, len(content)) for path, content in WHOLE.items()}
    text = "§\n§ \na".encode()
    tree["memories/a.md"] = tree["memories/MEMORY.md"] = (text, PLAIN, len(text))
    found = [(problem.path, problem.line) for problem in form.problems(tree)]
    assert found == sorted(found) and len(found) > 4


def test_an_empty_directory_of_the_tree_is_missing() -> None:
    """TREE-1"""
    assert problems({path: content for path, content in WHOLE.items() if path != "notes/.gitkeep"}) == [
        ("TREE-1", "notes/")
    ]


def test_the_fixed_files_of_another_version_are_no_problem() -> None:
    """TREE-3"""
    later = {**WHOLE, ".gitignore": b"*.tmp\n"}
    assert problems(later) == [("TREE-2", ".gitignore")]
    assert problems({**later, ".soul-spec.json": b'{"spec": "soul-repo", "version": 5}'}) == []


def test_a_link_is_reported_as_a_link_and_not_read() -> None:
    """TREE-6"""
    assert problems({**WHOLE, "notes/a.md": b"../SOUL.md"}, {"notes/a.md": LINK}) == [("TREE-6", "notes/a.md")]


@given(
    files=st.dictionaries(
        st.sampled_from(
            [*WHOLE, layout.LEASE, "bodies/a.json", "notes/a.md", "journal/a/2026-01-31.md", "memories/a.md"]
        ),
        st.binary(max_size=20) | st.sampled_from([b'{"body": 1, "lastSeen": 2}', "§\n§".encode(), b"{}"]),
    )
)
def test_no_bytes_break_the_check(files: dict[str, bytes]) -> None:
    """TREE-5: form is reported, whatever the files hold."""
    for path, content in files.items():
        assert all(problem.message and problem.line >= 0 for problem in form.problems({path: (content, PLAIN, 0)}))
