"""Long lines for people: prose is laid out, and what is typed, pasted or compared stays in one piece."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.core.words import wrapped

KEY = f"ssh-ed25519 {'A' * 68} kaoru.laptop soul-bridge"


def test_prose_is_laid_out_within_the_width_behind_its_indentation() -> None:
    assert wrapped("  next: Nothing was changed. Choose another folder.", 30) == (
        "  next: Nothing was changed.\n    Choose another folder."
    )
    assert wrapped("short\nand short", 30) == "short\nand short"


@pytest.mark.parametrize(
    "whole",
    [
        "soul-bridge init kaoru --remote git@git.example.org:me/kaoru.soul.git --body laptop",
        KEY,
        "ls -ld /home/me/souls",
        "sed -i 's|^remote:.*|remote: git@h:k.git|' /home/me/.config/kaoru.yaml && soul-bridge accept-host-key kaoru",
        'restrict,command="case x in esac" ssh-ed25519 AAAA kaoru.laptop',
    ],
)
@pytest.mark.parametrize("before", ["", "  ", "Nothing was changed and nothing was sent. Then: "])
def test_a_command_or_a_key_is_never_parted(before: str, whole: str) -> None:
    lines = wrapped(before + whole, 40).split("\n")
    assert lines[-1].endswith(whole)
    assert " ".join(line.strip() for line in lines) == (before + whole).strip()


@pytest.mark.parametrize(
    "part",
    [
        "`soul-bridge service install kaoru --system`",
        '"kaoru.laptop soul-bridge"',
        "'/home/me/my souls/kaoru.soul'",
        "/home/me/.local/state/soul-bridge/kaoru/control.sock",
        "SHA256:+DiY3wvvV6TuJJhbpZisF/zLDA0zPMSvHdkr4UvCOqU",
    ],
)
def test_what_is_quoted_and_what_is_a_path_or_a_fingerprint_stays_whole(part: str) -> None:
    assert part in wrapped(f"this body's words before it, and {part} and the host's words behind it", 40)


@pytest.mark.parametrize(
    "line",
    [
        "error   AUTH-2  the key lies inside the soul, which would be published",
        '{"error": {"kind": "usage", "message": "a command is needed", "advice": "soul-bridge --help"}}',
        "/home/me/a-long-folder/with-another-one/and-another-one",
    ],
)
def test_tables_documents_and_paths_alone_are_left_as_they_are(line: str) -> None:
    assert wrapped(line, 40) == line


@given(st.text(alphabet="ab `'\"\n.", max_size=200), st.integers(1, 60))
def test_no_letter_is_lost_or_added(text: str, width: int) -> None:
    assert "".join(wrapped(text, width).split()) == "".join(text.split())
