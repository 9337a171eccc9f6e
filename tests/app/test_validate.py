"""`validate` finds what is wrong in a directory, where it is wrong, and says so in words and in JSON."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path
from typing import Any

import pytest

from bridge.adapters import config
from bridge.cli import run as call
from bridge.core import layout


@pytest.fixture
def soul(tmp_path: Path) -> Path:
    """A soul in which every rule of form holds."""
    identity = {
        "id": "6f1c1f0e-7a53-4b0a-9d7e-0b8f7a0c2a11", "name": "kaoru", "displayName": "Kaoru", "pronouns": "",
        "description": "", "color": "#AABBCC", "language": "en", "createdAt": "2026-01-02T03:04:05.678Z",
    }  # fmt: skip
    written = (json.dumps(identity, indent=2) + "\n").encode()
    for path, content in layout.missing([], "kaoru", "Kaoru", written).items():
        (tmp_path / "soul" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "soul" / path).write_bytes(content)
    return tmp_path / "soul"


def validate(tmp_path: Path, *words: str) -> tuple[int, Any]:
    """Exit code and document."""
    out, err = io.StringIO(), io.StringIO()
    code = call(["validate", "--json", *words], config.locate({"SOUL_BRIDGE_HOME": str(tmp_path)}), out, err)
    return code, json.loads(out.getvalue())


def test_a_soul_in_good_form_exits_0_with_an_empty_list(tmp_path: Path, soul: Path) -> None:
    assert validate(tmp_path, str(soul)) == (0, [])


def test_each_broken_rule_is_told_with_number_path_and_line(tmp_path: Path, soul: Path) -> None:
    (soul / "memories/MEMORY.md").write_bytes(b"one\n\xc2\xa7\n\xc2\xa7\ntwo\n")
    (soul / "notes/big.md").write_bytes(b"# big\n" + b"x" * layout.LARGEST_FORM)
    (soul / "notes/crlf.md").write_bytes(b"# crlf\nx\r\n")
    (soul / "journal/laptop").mkdir()
    (soul / "journal/laptop/today.md").write_text("x\n")
    (soul / "bodies/mac.json").write_text("[]\n")
    (soul / "agent.json").write_text("{}\n")
    (soul / ".gitattributes").write_text("* text\n")
    (soul / "memories/USER.md").unlink()
    code, document = validate(tmp_path, str(soul))
    assert code == 1
    assert all(set(problem) == {"rule", "path", "line", "message"} for problem in document)
    found = {(problem["rule"], problem["path"], problem["line"]) for problem in document}
    assert found >= {
        ("FORM-3", "memories/MEMORY.md", 3),
        ("TREE-5", "notes/big.md", 0),
        ("TREE-5", "notes/crlf.md", 2),
        ("FORM-4", "journal/laptop/today.md", 0),
        ("FORM-6", "bodies/mac.json", 0),
        ("TREE-2", ".gitattributes", 0),
        ("TREE-1", "memories/USER.md", 0),
    }
    assert "FORM-1" in {problem["rule"] for problem in document}


def test_what_is_neither_file_nor_directory_is_told_and_never_followed(tmp_path: Path, soul: Path) -> None:
    (tmp_path / "secret.md").write_text("no note\n")
    (soul / "notes/link.md").symlink_to(tmp_path / "secret.md")
    os.mkfifo(soul / "notes/pipe")
    code, document = validate(tmp_path, str(soul))
    assert (code, {(problem["rule"], problem["path"]) for problem in document}) == (
        1, {("TREE-6", "notes/link.md"), ("TREE-6", "notes/pipe")}
    )  # fmt: skip


def test_ignored_files_are_not_the_souls(tmp_path: Path, soul: Path) -> None:
    (soul / "notes/x.tmp").write_bytes(b"\0")
    assert validate(tmp_path, str(soul)) == (0, [])


def test_looking_changes_nothing(tmp_path: Path, soul: Path) -> None:
    before = sorted(soul.rglob("*"))
    validate(tmp_path, str(soul))
    assert sorted(soul.rglob("*")) == before


def test_a_directory_that_is_not_there_is_a_mistake_of_the_call(tmp_path: Path) -> None:
    code, document = validate(tmp_path, str(tmp_path / "none"))
    assert (code, document["error"]["kind"]) == (2, "usage")
