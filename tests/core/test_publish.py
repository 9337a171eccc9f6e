"""What the remote's answer and the checkout's refs mean."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.core import publish
from bridge.core.errors import Refused
from bridge.core.model import CheckoutState, File, RemoteLook, Triple
from bridge.core.publish import ByHand, Main, Push, Standing

# A history: one line of numbers, and one beside it that leaves it at 2.
LINE = {"1": {"1"}, "2": {"1", "2"}, "3": {"1", "2", "3"}, "x": {"1", "2", "x"}, "other": {"other"}}


def is_ancestor(old: str, new: str) -> bool:
    return old in LINE[new]


@pytest.mark.parametrize(
    ("known", "tip", "standing"),
    [
        (None, None, Standing.EMPTY),
        (None, "2", Standing.NEW),
        ("2", "2", Standing.SAME),
        ("2", "3", Standing.AHEAD),
        ("3", "2", Standing.BEHIND),
        ("3", None, Standing.BEHIND),
        ("3", "x", Standing.REWRITTEN),
        ("3", "other", Standing.REWRITTEN),
    ],
)
def test_where_the_remote_stands(known: str | None, tip: str | None, standing: Standing) -> None:
    """REPO-4, REPO-5, REPO-6."""
    assert publish.standing(known, RemoteLook(tip), is_ancestor) is standing


@pytest.mark.parametrize("known", [None, "2"])
def test_branches_without_main_are_refused_by_name(known: str | None) -> None:
    """REPO-5."""
    with pytest.raises(Refused) as raised:
        publish.standing(known, RemoteLook(None, ("refs/heads/master", "refs/tags/v1")), is_ancestor)
    assert raised.value.kind == "not-a-soul" and raised.value.rule == "REPO-5"
    assert "master" in raised.value.message and raised.value.exit_code == 3


def test_tags_alone_are_no_branches() -> None:
    """REPO-5: a remote with no branch at all is an empty soul."""
    assert publish.standing(None, RemoteLook(None, ("refs/tags/v1",)), is_ancestor) is Standing.EMPTY


@pytest.mark.parametrize(
    ("known", "tip", "verdict"),
    [
        ("2", "2", Main.KEEP),
        (None, None, Main.KEEP),
        (None, "2", Main.ACCEPT),
        ("2", "3", Main.ACCEPT),
        ("3", "2", Main.PUT_BACK),
        ("3", "x", Main.PUT_BACK),
        ("3", None, Main.PUT_BACK),
    ],
)
def test_what_becomes_of_a_main_that_a_person_moved(known: str | None, tip: str | None, verdict: Main) -> None:
    """REPO-7."""
    assert publish.main_moved(known, tip, is_ancestor) is verdict


TIPS = st.sampled_from(sorted(LINE))


@given(st.none() | TIPS, TIPS)
def test_only_what_makes_history_grow_may_be_pushed(expected: str | None, new: str) -> None:
    """REPO-3, COMMIT-2: the protocol itself knows no fast-forward."""
    if expected is None or is_ancestor(expected, new):
        assert publish.may_push(expected, new, is_ancestor) == Push(expected, new)
    else:
        with pytest.raises(ValueError, match="descend"):
            publish.may_push(expected, new, is_ancestor)


@pytest.mark.parametrize(
    ("error", "kind", "rule"),
    [
        (publish.rewritten("1" * 40, "2" * 40), "rewritten", "REPO-4"),
        (publish.not_a_soul(["main.py", "b", "c", "d"]), "not-a-soul", "REPO-5"),
    ],
)
def test_each_refusal_says_which_rule_what_is_safe_and_what_to_type(error: Refused, kind: str, rule: str) -> None:
    """REPO-4, REPO-5."""
    assert (error.kind, error.rule) == (kind, rule)
    assert "Nothing was" in error.advice


def test_the_refusals_name_what_was_found() -> None:
    """REPO-4, REPO-5: not more than three names, and both tips."""
    assert "main.py, b, c" in publish.not_a_soul(["main.py", "b", "c", "d"]).message
    assert "1111111111" in publish.rewritten("1" * 40, "2" * 40).message


@pytest.mark.parametrize(
    ("head", "busy", "words"),
    [
        ("refs/heads/main", "", ""),
        ("refs/heads/main", "a rebase is under way", "a rebase is under way"),
        (None, "", "HEAD is detached"),
        ("refs/heads/trial/a", "", "the branch trial/a is checked out, not main"),
        (None, "a rebase is under way", "a rebase is under way; HEAD is detached"),
    ],
)
def test_what_a_person_does_in_the_checkout_is_named(head: str | None, busy: str, words: str) -> None:
    """REPO-7"""
    assert publish.in_the_way(CheckoutState(head, busy)) == words


OLD, NEW, OTHER = File("a" * 40), File("b" * 40), File("c" * 40)


def change(
    had: File | None,
    committed: File | None,
    seen: File | None,
    *,
    untouched: bool = False,
    ours: bool = False,
    ignored: bool = False,
    stood: bool = False,
    read: File | None = None,
) -> ByHand:
    return ByHand(had, committed, seen, untouched, ours, lambda: read or seen, lambda: ignored, lambda: stood)


@pytest.mark.parametrize(
    ("made", "merge"),
    [
        (change(None, NEW, None), None),
        (change(NEW, OLD, OLD), Triple(OLD, OLD, NEW)),  # merged, not yet on disk, committed as it lay there
        (change(NEW, None, None), Triple(None, None, NEW)),  # never came to the disk
        (change(OLD, NEW, OLD), None),  # an ordinary commit of what was written
        (change(OLD, None, OLD), None),  # an ordinary removal
        (change(NEW, OTHER, NEW, read=OLD), Triple(OLD, OTHER, NEW)),  # written without having read what came in
        (change(OLD, None, OLD, untouched=True), Triple(None, None, OLD)),  # out of the index only
        (change(OLD, None, OLD, untouched=True, ignored=True), None),
        (change(OLD, NEW, OLD, untouched=True), None),  # made without the working file: it is brought to it
        (change(NEW, OLD, NEW, untouched=True, ours=True, stood=True), Triple(OLD, OLD, NEW)),
        (change(NEW, OTHER, NEW, untouched=True, ours=True), Triple(None, OTHER, NEW)),
    ],
)
def test_what_a_persons_commit_took_out_unseen_is_brought_back(made: ByHand, merge: Triple | None) -> None:
    """REPO-7, GUARD-5, MERGE-12"""
    assert publish.taken_out(made) == merge


@pytest.mark.parametrize(
    ("made", "merge"),
    [
        (change(OLD, NEW, OTHER), Triple(NEW, NEW, OLD)),
        (change(OLD, NEW, NEW, untouched=True), Triple(NEW, NEW, OLD)),
        (change(OLD, NEW, OTHER, untouched=True), None),
        (change(OLD, NEW, None, untouched=True), None),
    ],
)
def test_main_gets_back_what_it_had_of_a_withheld_path(made: ByHand, merge: Triple | None) -> None:
    """REPO-7, REPO-8: what is on the disk is its side branch's business; what was never there stays committed."""
    assert publish.taken_out_held(made) == merge


def test_whose_business_a_path_is_that_was_committed_by_hand() -> None:
    """MERGE-10, REPO-8: below locks/ main's stands again; elsewhere it depends on whether the path is withheld."""
    ordinary = change(OLD, NEW, OLD)
    assert publish.brought_back("locks/consolidate.json", ordinary, False) == Triple(NEW, NEW, OLD)
    assert publish.brought_back("locks/consolidate.json", change(None, NEW, None), True) == Triple(NEW, NEW, None)
    assert publish.brought_back("notes/a.md", ordinary, False) is None
    assert publish.brought_back("notes/a.md", ordinary, True) == Triple(NEW, NEW, OLD)


def test_no_name_on_a_remote_begins_a_line_of_its_refusal() -> None:
    """REPO-5: whoever owns a repository names what is in it."""
    assert "\n" not in publish.not_a_soul(["x\nsoul-bridge: done"]).message


@pytest.mark.parametrize(
    ("ours", "theirs", "related", "kind"),
    [
        ("a", "a", False, None),  # rewritten: a person decides (REPO-4)
        ("a", "b", True, "identity"),
        ("a", "b", False, "identity"),
        (None, "b", False, None),
        ("a", None, True, None),  # its identity is damaged, which a merge mends
        ("a", None, False, "not-a-soul"),
    ],
)
def test_what_took_the_place_of_a_remote_that_was_met(
    ours: str | None, theirs: str | None, related: bool, kind: str | None
) -> None:
    """MERGE-5, REPO-5: nobody can accept another agent, or what is no soul."""
    found = publish.stranger(ours, theirs, related, ["setup.py", "src"])
    assert (found.kind if found else None) == kind
    if kind == "identity" and found:
        assert "a" in found.message and "b" in found.message
    if kind == "not-a-soul" and found:
        assert "setup.py, src" in found.message


def test_another_agent_may_need_other_advice_than_the_address() -> None:
    """MERGE-5."""
    assert publish.two_agents("a", "b", "do this").advice == "do this"
    assert "Correct `remote`" in publish.two_agents("a", "b").advice
