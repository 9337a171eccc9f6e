"""The seams that everything is built against: errors name what to do, ports promise, a version may be too large."""

from __future__ import annotations

import inspect

import pytest

from bridge.core import errors, ports
from bridge.core.errors import EXIT_CODES, Held, SoulError
from bridge.core.model import File
from tests.core.merge_world import World

FAMILIES = [errors.Transient, errors.AnswerLost, errors.Moved, errors.Refused, errors.Held, errors.Unusable]


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_is_worth_an_exit_code(family: type[SoulError]) -> None:
    assert family("no").exit_code == EXIT_CODES[family.kind] > 0


@pytest.mark.parametrize("kind", EXIT_CODES)
def test_an_error_is_told_with_what_was_refused_which_rule_and_what_to_do(kind: str) -> None:
    error = SoulError("the key is open", kind=kind, rule="AUTH-2", advice="chmod 600 KEY")
    assert error.exit_code == EXIT_CODES[kind]
    assert str(error) == "the key is open"
    assert error.as_dict() == {
        "kind": kind,
        "rule": "AUTH-2",
        "message": "the key is open",
        "advice": "chmod 600 KEY",
    }


def test_a_lost_answer_is_waited_out_like_anything_transient() -> None:
    assert issubclass(errors.AnswerLost, errors.Transient)
    assert errors.AnswerLost("cut").exit_code == 5


def test_every_verb_of_a_port_makes_a_promise() -> None:
    protocols = [port for port in vars(ports).values() if getattr(port, "_is_protocol", False) and port.__doc__]
    verbs = [
        (port.__name__, name, verb)
        for port in protocols
        if port.__module__ == ports.__name__
        for name, verb in vars(port).items()
        if inspect.isfunction(verb) and not name.startswith("_")
    ]
    assert len(verbs) > 30
    assert [f"{port}.{name}" for port, name, verb in verbs if not verb.__doc__] == []


class Narrow(World):
    """A world that reads no blob of more than 100 bytes."""

    def read(self, oid: str) -> bytes:
        if len(self.blobs[oid]) > 100:
            raise Held("it is larger than any file taken in", rule="TREE-6")
        return super().read(oid)


def test_memories_too_large_to_be_read_are_merged_whole() -> None:
    """MERGE-2, MERGE-6, TREE-6: the newer version stands, the other one is lost and listed."""
    world = Narrow()
    path = "memories/MEMORY.md"
    base = {path: world.file("a\n")}
    ours = {path: world.file("ours\n")}
    theirs: dict[str, File] = {path: world.file("theirs " * 100 + "\n")}
    merged = world.merge(base, ours, theirs)
    assert world.applied(ours, merged) == theirs
    assert [(lost.path, lost.side) for lost in merged.lost] == [(path, "ours")]


def test_an_error_without_advice_of_its_own_has_the_usual_one_of_its_kind() -> None:
    """Nobody is left without what is safe and what to type; what a person typed wrong says so at its place."""
    for kind in errors.EXIT_CODES.keys() - {
        "usage",
        "config",
        "identity",
        "rewritten",
        "not-a-soul",
        "auth",
        "hostkey",
        "lease",
    }:
        assert "`soul-bridge " in errors.SoulError("no", kind=kind).advice
    assert errors.Transient("no", advice="wait").advice == "wait"


def test_an_error_keeps_more_of_a_servers_words_than_it_shows() -> None:
    error = SoulError("no", kind="rejected")
    assert error.whole == "no"
    error.said = "no, and why"
    assert (error.whole, error.message) == ("no, and why", "no")


@pytest.mark.parametrize(
    ("request_", "shows"),
    [
        ({"command": "lease acquire", "agent": "kaoru"}, "soul-bridge lease show --agent kaoru"),
        ({"command": "unheard of", "agent": None}, "soul-bridge status"),
    ],
)
def test_a_request_of_which_nobody_knows_whether_it_was_done_names_what_shows_it(
    request_: dict[str, object], shows: str
) -> None:
    error = errors.doubtful(request_, "the daemon went away")
    assert error.kind == "busy" and "may have been done" in error.advice and f"`{shows}`" in error.advice
