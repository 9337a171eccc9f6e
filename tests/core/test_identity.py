"""Identities: merge by field and what keeps an agent the same one, as laws over small and random identities."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.core import identity, instants, jsontext

ID = "7c9e6679-7425-40de-944b-e07fc1f90ae7"
OTHER = "0f8fad5b-d9cb-469f-a165-70867728950e"
ABSENT = object()
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
FIELDS = st.dictionaries(st.sampled_from([*identity.KEYS[1:], "x", "y", ""]), VALUES, max_size=6)
ANY = st.none() | st.binary(max_size=30) | FIELDS.map(identity.write) | st.just(identity.write({"id": ID}))


def with_id(fields: dict[str, Any], id: str = ID) -> bytes:
    return identity.write({"id": id, **fields})


def one(value: object) -> bytes:
    return with_id({} if value is ABSENT else {"x": value})


def test_each_field_follows_the_side_that_changed_it_and_ours_when_both_did() -> None:
    """MERGE-4 over every way one field can stand on the three sides."""
    for base, ours, theirs in itertools.product([ABSENT, 1, 2, True], repeat=3):
        merged = identity.read(identity.merge(one(base), one(ours), one(theirs)))
        wanted = theirs if ours is base else ours
        assert merged is not None
        assert jsontext.same(merged, identity.read(one(wanted))), (base, ours, theirs)


@given(base=FIELDS, ours=FIELDS, theirs=FIELDS)
def test_fields_merge_apart_from_each_other(base: dict[str, Any], ours: dict[str, Any], theirs: dict[str, Any]) -> None:
    """MERGE-4"""
    merged = identity.read(identity.merge(*map(with_id, (base, ours, theirs))))
    assert merged is not None
    for key in {*base, *ours, *theirs}:
        three = ({key: side[key]} if key in side else {} for side in (base, ours, theirs))
        alone = identity.read(identity.merge(*map(with_id, three)))
        assert alone is not None
        assert (key in merged) == (key in alone)
        assert key not in merged or jsontext.same(merged[key], alone[key])
    assert set(merged) <= {"id", *base, *ours, *theirs}


@given(base=FIELDS, side=FIELDS)
def test_a_side_that_changed_nothing_leaves_the_other(base: dict[str, Any], side: dict[str, Any]) -> None:
    """MERGE-4"""
    old, new = with_id(base), with_id(side)
    for merged in (identity.merge(old, new, old), identity.merge(old, old, new), identity.merge(old, new, new)):
        assert jsontext.same(identity.read(merged), identity.read(new))


@given(base=FIELDS, ours=FIELDS, theirs=FIELDS)
def test_merging_again_changes_nothing(base: dict[str, Any], ours: dict[str, Any], theirs: dict[str, Any]) -> None:
    """MERGE-4, MERGE-11: replayed against its own result it gives the same bytes, keys in the order of FORM-1."""
    merged = identity.merge(*map(with_id, (base, ours, theirs)))
    assert identity.merge(with_id(base), with_id(ours), merged) == merged
    order = [key for key in json.loads(merged) if key in identity.KEYS]
    assert order == sorted(order, key=identity.KEYS.index)


@given(base=ANY, ours=ANY, theirs=ANY)
def test_no_bytes_break_the_merge(base: bytes | None, ours: bytes | None, theirs: bytes | None) -> None:
    """MERGE-4: any bytes come out as some bytes, readable when any side is."""
    merged = identity.merge(base, ours, theirs)
    readable = any(identity.read(side) is not None for side in (ours, theirs))
    assert (identity.read(merged) is not None) or not readable
    identity.problems("agent.json", merged)
    identity.problems("SOUL.md", merged)
    identity.is_seed_text(merged)


def test_two_broken_sides_leave_theirs_then_ours_then_base() -> None:
    """MERGE-4: nothing is made up where nothing can be read."""
    assert identity.merge(None, b"[", b"{") == b"{"
    assert identity.merge(None, b"[", None) == b"["
    assert identity.merge(b"?", None, None) == b"?"
    assert identity.merge(None, None, None) == b"{}\n"


@given(base=ANY, side=ANY)
def test_a_published_id_survives_whatever_a_side_did(base: bytes | None, side: bytes | None) -> None:
    """MERGE-5: the result has the published id wherever base or the side can be read at all."""
    mended, undone = identity.mend(ID, base, side)
    assert undone == (mended != side)
    if identity.read(base) is not None or identity.read(side) is not None:
        assert identity.id_of(mended) == ID
        assert identity.mend(ID, base, mended) == (mended, False)
    assert identity.mend(None, base, side) == (side, False)


@given(local=ANY, remote=ANY, published=st.booleans())
def test_a_join_never_ends_with_another_id_than_a_published_one(
    local: bytes | None, remote: bytes | None, published: bool
) -> None:
    """MERGE-5: what the remote states stands, or nothing is written."""
    join = identity.join(local, remote, published)
    assert join.local_id == identity.id_of(local) and join.remote_id == identity.id_of(remote)
    if join.outcome is identity.Outcome.REFUSED:
        assert join.content is None and join.local_id != join.remote_id
    elif join.remote_id is not None:
        assert identity.id_of(join.content) == join.remote_id


def test_two_real_agents_are_named_when_they_are_refused() -> None:
    """MERGE-5"""
    join = identity.join(with_id({}), with_id({}, OTHER), local_published=True)
    assert join == identity.Join(identity.Outcome.REFUSED, None, ID, OTHER)


def test_two_broken_files_leave_the_one_of_the_remote() -> None:
    """MERGE-5"""
    assert identity.join(b"[", b"{", False) == identity.Join(identity.Outcome.THEIRS, b"{")


@pytest.mark.parametrize(
    ("content", "line", "words"),
    [
        (b"[]", 0, "not a JSON object"),
        (b'{\n  "id": "1",\n  "id": "2"\n}\n', 2, "more than once"),
        (identity.write(identity.birth("a", "A", ID, 0, True)).replace(b'"a"', b'"A a"'), 3, "name"),
        (identity.write(identity.birth("a", "A", ID, 0, True)).replace(b"  ", b" "), 0, "two-space"),
        (b"\xef\xbb\xbf" + identity.write(identity.birth("a", "A", ID, 0, True)), 0, "two-space"),
        (identity.write({**identity.birth("a", "A", ID, 0, True), "seed": 1}), 10, "seed"),
    ],
)
def test_the_problems_of_an_identity_name_their_lines(content: bytes, line: int, words: str) -> None:
    """FORM-1"""
    first = identity.problems("agent.json", content)[0]
    assert (first.rule, first.path, first.line) == ("FORM-1", "agent.json", line)
    assert words in first.message


@given(name=st.text(min_size=1).filter(lambda text: text.strip()), seed=st.booleans())
def test_an_identity_is_born_without_problems(name: str, seed: bool) -> None:
    """FORM-1, FORM-2"""
    fields = identity.birth("kaoru", name, ID, 1_769_846_400_007, seed)
    assert identity.problems("agent.json", identity.write(fields)) == []
    assert tuple(fields) == identity.KEYS[: 9 if seed else 8]
    assert fields["createdAt"] == "2026-01-31T08:00:00.007Z"


def test_a_soul_text_without_a_heading_is_reported() -> None:
    """FORM-2"""
    assert identity.problems("SOUL.md", b"\xef\xbb\xbf# Kaoru\nhi\n") == identity.problems("SOUL.md", b" \n") == []
    assert [problem.rule for problem in identity.problems("SOUL.md", b"hi\n")] == ["FORM-2"]
    assert identity.is_seed_text(identity.seed_text("Kaoru"))


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1970-01-01T00:00:01.500Z", 1.5),
        ("1970-01-01T09:00:00+09:00", 0.0),
        ("1970-01-01T00:01:00", 60.0),
        ("0001-01-01T00:00:00+23:59", -62135683140.0),
        ("yesterday", None),
        (7, None),
        (None, None),
    ],
)
def test_an_instant_is_read_in_its_zone(text: object, seconds: float | None) -> None:
    """FORM-6: without a zone it is UTC, and what is no instant is none."""
    assert instants.seconds(text) == seconds


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Kaoru", "kaoru"),
        ("my laptop", "my-laptop"),
        ("-my_Laptop!", "my-laptop"),
        ("Käthe", "kathe"),
        ("kaoru.soul", "kaoru"),
        ("kaoru\n", "kaoru"),
        ("a" * 60, "a" * 40),
        ("薫", None),
        ("--", None),
    ],
)
def test_a_name_that_cannot_be_suggests_one_that_can(text: str, name: str | None) -> None:
    """FORM-1, FORM-6."""
    assert identity.suggestion(text) == name
    assert name is None or identity.NAME.fullmatch(name)


@pytest.mark.parametrize(
    ("text", "exact"),
    [
        ('{"a": 1, "b": {"c": [0.5, 1e3, -0.25, 12345678901234567890]}}', True),
        ('{"a": 1, "a": 2}', False),
        ('{"a": {"b": 1, "b": 1}}', False),
        ('{"a": 1234567890.12345678901234567890}', False),
        ('\ufeff{"a": 0.1}', True),
        ('{"a": 0e99999999999999999999}', False),
        ('{"a": [{"b": 1e-99999999999999999999}]}', False),
    ],
)
def test_a_text_that_says_more_than_is_read_of_it_is_told(text: str, exact: bool) -> None:
    assert jsontext.exact(text.encode()) is exact


@given(
    st.from_regex(r"-?(0|[1-9][0-9]{0,30})(\.[0-9]{1,30})?([eE][+-]?[0-9]{1,30})?", fullmatch=True),
)
def test_no_number_that_can_be_read_breaks_the_look_at_it(number: str) -> None:
    """MERGE-4: whoever can push writes what numbers they like."""
    text = f'{{"a": {number}}}'.encode()
    if jsontext.read(text) is not None:
        assert jsontext.exact(text) in (True, False)
