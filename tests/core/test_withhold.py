"""Whom a refused push makes suspect, whom it holds, and when that is tried again."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from bridge.core import withhold
from bridge.core.model import File
from bridge.core.withhold import Hold, Refusal, Trial, Try, Withheld

Server = Callable[[frozenset[str]], str]
PATHS = tuple(f"notes/{number:02}.md" for number in range(40))


def run(refusal: Refusal, server: Server, most: int = 12) -> tuple[Hold | None, list[Trial]]:
    """All trials of a run against a server whose words refuse, and what came of them."""
    trials: list[Trial] = []
    while isinstance(step := withhold.decide(refusal, trials, most), Try):
        words = server(step.paths)
        trials.append(Trial(step.paths, not words, words))
    return step, trials


def minding(*guilty: str, names: bool = False) -> Server:
    """A server that minds these paths, and may say which it found first."""

    def server(paths: frozenset[str]) -> str:
        found = sorted(paths.intersection(guilty))
        return (f"error: {found[0]}: a secret" if names else "no") if found else ""

    return server


def test_a_named_path_is_held_when_the_rest_is_accepted() -> None:
    """REPO-8: one push finds it."""
    found, trials = run(Refusal(PATHS, "secret in notes/07.md, line 3"), minding("notes/07.md"))
    assert found == Hold(frozenset({"notes/07.md"}), frozenset())
    assert [trial.paths for trial in trials] == [frozenset(PATHS) - {"notes/07.md"}]


def test_each_refusal_may_name_the_next() -> None:
    """REPO-8: a server that stops at the first thing it minds."""
    guilty = ("notes/03.md", "notes/17.md", "notes/30.md")
    found, trials = run(Refusal(PATHS, "error: notes/03.md: a secret"), minding(*guilty, names=True))
    assert found == Hold(frozenset(guilty), frozenset())
    assert len(trials) <= 8


def test_a_path_that_was_refused_before_is_suspected_as_if_it_were_named() -> None:
    """REPO-8: it is the likeliest."""
    found, trials = run(Refusal(PATHS, "no", known=frozenset({"notes/09.md", "gone.md"})), minding("notes/09.md"))
    assert found == Hold(frozenset({"notes/09.md"}), frozenset()) and len(trials) == 1


@pytest.mark.parametrize("guilty", range(40))
def test_halves_find_any_single_path_in_forty(guilty: int) -> None:
    """REPO-8: it is the only one held, and it was refused by itself."""
    found, trials = run(Refusal(PATHS, "no"), minding(PATHS[guilty]))
    assert found == Hold(frozenset({PATHS[guilty]}), frozenset())
    assert Trial(frozenset({PATHS[guilty]}), False, "no") in trials
    assert len(trials) <= 9


def test_a_single_path_is_held_when_the_barest_push_was_accepted() -> None:
    """REPO-8: a push without it was accepted, though there was nothing else to push."""
    found, trials = run(Refusal(("notes/a.md",), "no"), minding("notes/a.md"))
    assert found == Hold(frozenset({"notes/a.md"}), frozenset()) and [trial.paths for trial in trials] == [frozenset()]
    found, _ = run(Refusal(("notes/a.md",), "notes/a.md is bad"), minding("notes/a.md"))
    assert found == Hold(frozenset({"notes/a.md"}), frozenset())


@pytest.mark.parametrize("paths", [PATHS[:1], PATHS[:2], PATHS])
def test_a_server_that_refuses_everything_minds_no_path(paths: tuple[str, ...]) -> None:
    """REPO-8: nothing is held, and two pushes are enough to know."""
    found, trials = run(Refusal(paths, "main is protected"), lambda pushed: "main is protected")
    assert found is None and len(trials) <= 2


def test_merge_commits_are_tried_in_their_form_first() -> None:
    """REPO-8: what refuses the form is not about paths; what does not is searched as always."""
    found, trials = run(Refusal(PATHS, "no", merges=True), lambda pushed: "no merge commits")
    assert found is None and [trial.paths for trial in trials] == [frozenset()]
    found, trials = run(Refusal(PATHS, "no", merges=True), minding("notes/01.md"))
    assert found == Hold(frozenset({"notes/01.md"}), frozenset()) and trials[0].paths == frozenset()


def test_what_was_taken_back_again_leaves_nobody_to_suspect() -> None:
    """REPO-8: a clean end is published without what led to it; a registry entry alone is not tried twice."""
    found, trials = run(Refusal((), "no", flat=False), minding())
    assert found == Hold(frozenset(), frozenset()) and [trial.paths for trial in trials] == [frozenset()]
    assert run(Refusal((), "no", flat=False), lambda pushed: "no")[0] is None
    assert run(Refusal((), "no"), minding()) == (None, [])


def test_where_more_than_paths_was_refused_words_only_say_where_to_look() -> None:
    """REPO-8: what they name may be an older version, so it is offered by itself before it is held."""
    found, trials = run(Refusal(PATHS, "secret in notes/07.md", flat=False), minding())
    assert found == Hold(frozenset(), frozenset()) and len(trials) == 2
    found, _ = run(Refusal(PATHS, "secret in notes/07.md and notes/08.md", flat=False), minding("notes/08.md"))
    assert found == Hold(frozenset({"notes/08.md"}), frozenset())
    found, _ = run(Refusal(PATHS[:1], "no", flat=False), minding())
    assert found == Hold(frozenset(), frozenset())


def test_what_only_all_together_was_too_much_is_published_in_parts() -> None:
    """REPO-8: a limit on the size of a push holds nobody."""
    found, _ = run(Refusal(PATHS[:8], "too large"), lambda pushed: "too large" if len(pushed) > 4 else "")
    assert found == Hold(frozenset(), frozenset())


def test_what_is_tried_again_is_pushed_together_and_needs_no_other_push() -> None:
    """REPO-8: the rest is published already."""
    found, trials = run(Refusal(PATHS[:3], again=True), minding())
    assert found == Hold(frozenset(), frozenset()) and [trial.paths for trial in trials] == [frozenset(PATHS[:3])]
    found, trials = run(Refusal(PATHS[:1], again=True), minding(*PATHS))
    assert found == Hold(frozenset(PATHS[:1]), frozenset()) and len(trials) == 1
    found, _ = run(Refusal(PATHS[:4], again=True), minding(PATHS[1]))
    assert found == Hold(frozenset({PATHS[1]}), frozenset())


def test_without_a_push_left_nothing_is_known() -> None:
    """REPO-8: what was not tried apart is doubtful when something was accepted, else nothing is held."""
    assert withhold.decide(Refusal(PATHS, "no"), [], 0) is None
    assert withhold.decide(Refusal(PATHS[:2], again=True), [], 0) == Hold(frozenset(), frozenset(PATHS[:2]))
    found, trials = run(Refusal(PATHS, "no"), minding(PATHS[39]), most=2)
    assert len(trials) == 2
    assert found is not None and found.proven == frozenset() and PATHS[39] in found.doubtful


@given(
    st.sets(st.sampled_from(PATHS), min_size=1),
    st.sets(st.sampled_from(PATHS), max_size=5),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.booleans(),
)
def test_nothing_guilty_is_published_and_nothing_innocent_is_proven(
    paths: set[str], guilty: set[str], names: bool, flat: bool, merges: bool, again: bool
) -> None:
    """REPO-8: at most 12 pushes, and every path is published or held."""
    assume(again or guilty & paths)
    server = minding(*guilty, names=names)
    refusal = Refusal(tuple(sorted(paths)), server(frozenset(paths)) or "no", flat, merges, again=again)
    found, trials = run(refusal, server)
    assert len(trials) <= withhold.MOST_PUSHES and found is not None
    published = {path for trial in trials if trial.accepted for path in trial.paths}
    assert not published & guilty
    assert published | found.proven | found.doubtful == paths and found.proven <= guilty
    assert not published & (found.proven | found.doubtful) and not found.proven & found.doubtful
    assert any(trial.accepted for trial in trials) or again
    if len(guilty & paths) <= 1:
        assert found == Hold(frozenset(guilty & paths), frozenset())


@given(st.sets(st.sampled_from(PATHS), min_size=1), st.text(max_size=20), st.booleans())
def test_a_server_that_says_no_to_all_holds_nothing(paths: set[str], words: str, merges: bool) -> None:
    """REPO-8: nothing is rebuilt."""
    assert run(Refusal(tuple(sorted(paths)), words, merges=merges), lambda pushed: words or "no")[0] is None


@pytest.mark.parametrize(
    ("words", "names"),
    [
        ("notes/a.md: a secret", {"notes/a.md"}),
        ("File notes/a.md is 101.00 MB; this exceeds the limit", {"notes/a.md"}),
        ("found in notes/a.md.", {"notes/a.md"}),
        ("path: ./notes/a.md:3", {"notes/a.md"}),
        ("in \"notes/a.md\" and 'b'", {"notes/a.md", "b"}),
        ("deep/notes/a.md is bad", {"deep/notes/a.md"}),
        ("deep/notes/a.md and notes/a.md are bad", {"deep/notes/a.md", "notes/a.md"}),
        ("notes/a.md.bak, notes/a.mdx, xnotes/a.md-1", set()),
        ("a bad word", set()),
        ('"notes/caf\\303\\251.md" is bad', {"notes/café.md"}),
        ("notes/café.md is bad", {"notes/café.md"}),
        ('"odd\\"name" is bad', {'odd"name'}),
        ("zero\\u200bwidth.md is bad", {"zero\u200bwidth.md"}),
        ("", set()),
    ],
)
def test_words_name_whole_paths(words: str, names: set[str]) -> None:
    """REPO-8: also as git quotes them, and as they are made safe to show."""
    paths = ["notes/a.md", "deep/notes/a.md", "b", "notes/café.md", 'odd"name', "zero\u200bwidth.md"]
    assert withhold.named(words, paths) == names


def test_a_reason_is_one_line_of_the_servers_words() -> None:
    """REPO-8."""
    assert withhold.reason("no\n  secrets,\tplease \x1b[0m") == "no secrets, please \\x1b[0m"
    assert len(withhold.reason("x" * 500)) == withhold.SHOWN


def test_marks_tell_files_apart() -> None:
    """REPO-8: bytes and mode, and absence."""
    files = [None, File("1" * 40), File("2" * 40), File("1" * 40, 0o100755)]
    assert len({withhold.mark(file) for file in files}) == 4


HELD = Withheld("c", "b", "no", 5, 1000.0, withhold.FIRST_PAUSE, "old", sure=True)


def test_a_held_path_is_tried_again_when_it_changed_and_its_pause_is_over() -> None:
    """REPO-8: neither alone is enough; by a clock that was set back behind its beginning a pause is over."""
    assert not HELD.due(True, 1000.0 + 3599) and HELD.due(True, 1000.0 + 3600)
    assert not HELD.due(False, 1000.0 + 90_000)
    assert HELD.left(1000.0) == 3600 and HELD.left(999.0) == 0.0


def test_the_pause_doubles_from_an_hour_to_a_day() -> None:
    """REPO-8: a trial that a person asked for leaves it as it is."""
    pauses, hold = [], HELD
    for _ in range(6):
        hold = hold.again(2000.0, "new", "still no", sure=True)
        pauses.append(hold.pause)
    assert pauses == [7200, 14_400, 28_800, 57_600, 86_400, 86_400]
    assert (hold.tried, hold.refused, hold.reason, hold.commit, hold.base) == (2000.0, "new", "still no", "c", "b")
    assert HELD.again(2000.0, "new", "no", sure=True, asked=True).pause == 3600


def test_a_doubtful_path_is_tried_again_soon_and_unchanged() -> None:
    """REPO-8: it may be innocent."""
    doubtful = Withheld("c", None, "no", 5, 1000.0, withhold.DOUBTFUL_PAUSE, "old")
    assert not doubtful.due(False, 1059.0) and doubtful.due(False, 1060.0)
    again = doubtful.again(1060.0, "old", "no", sure=False)
    assert again.pause == 120 and not again.sure
    for _ in range(9):
        again = again.again(1060.0, "old", "no", sure=False)
    assert again.pause == withhold.FIRST_PAUSE
    proven = again.again(1060.0, "old", "no", sure=True)
    assert proven.sure and proven.pause == withhold.FIRST_PAUSE
    unsure = HELD.again(2000.0, "new", "no", sure=False)
    assert unsure.sure and unsure.pause == 7200


def test_many_paths_are_told_in_few_words() -> None:
    """REPO-8."""
    assert withhold.paths_of({"b", "a"}) == "a, b"
    assert withhold.paths_of(list("edcba")) == "a, b, c and 2 more"
