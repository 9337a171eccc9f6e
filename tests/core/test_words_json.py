"""JSON that is printed steers no terminal, and says to a reader exactly what it said before."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from bridge.core.words import _UNSAFE, escaped

# Also what is beyond 16 bits and what is no character at all: a name on disk may be any bytes.
TEXTS = st.text(st.one_of(st.characters(), st.sampled_from('\x1b\x7f\x9b\u202e\u200f\ufeff\udcff\U000e0001\n\t\\"')))


@given(TEXTS)
def test_an_escaped_document_is_the_same_document(text: str) -> None:
    document = json.dumps({"path": text, text: [text]}, ensure_ascii=False)
    assert json.loads(escaped(document)) == json.loads(document)


@given(TEXTS)
def test_no_character_of_an_escaped_document_steers_a_terminal(text: str) -> None:
    assert _UNSAFE.search(escaped(json.dumps(text, ensure_ascii=False))) is None


def test_what_lies_beyond_16_bits_is_two_escapes() -> None:
    assert escaped('"\U000e0001"') == '"\\udb40\\udc01"'
