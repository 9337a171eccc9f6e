"""Worlds of many bodies, played from fixed seeds and from everything that ever failed."""

from __future__ import annotations

from pathlib import Path

import pytest

from bridge.app import joining, materialise, publishing, recording
from bridge.core import entries, publish
from tests.simulation.__main__ import failure
from tests.simulation.generate import generate
from tests.simulation.play import play
from tests.simulation.script import Script, Step, load
from tests.simulation.shrink import shrink

KEPT = sorted((Path(__file__).parent / "kept").glob("*.json"))
SEEDS = range(120)


@pytest.mark.parametrize("seed", SEEDS)
def test_bodies_agree_at_rest_and_nothing_is_lost(seed: int) -> None:
    """MERGE-2, MERGE-11, REPO-3, GUARD-4, COMMIT-2: whatever happened on the way."""
    assert failure(generate(seed)) == ""


@pytest.mark.parametrize("path", KEPT, ids=[path.stem for path in KEPT])
def test_what_failed_once_holds(path: Path) -> None:
    """Every script that ever failed is played again."""
    assert failure(load(path)) == ""


def test_a_script_plays_the_same_way_each_time_also_from_a_file(tmp_path: Path) -> None:
    """A failure is replayed, not searched for."""
    script = next(each for each in map(generate, range(50)) if len(each.steps) > 60)
    (tmp_path / "script.json").write_text(script.dump())
    traces: list[list[str]] = [[], [], []]
    play(script, traces[0].append)
    play(generate(script.seed), traces[1].append)
    play(load(tmp_path / "script.json"), traces[2].append)
    assert traces[0] == traces[1] == traces[2]


def test_a_pass_that_forgets_deletions_is_found_and_shrunk(monkeypatch: pytest.MonkeyPatch) -> None:
    """The simulation has to be able to fail: entries united without a base."""
    merge = entries.merge
    monkeypatch.setattr(entries, "merge", lambda base, ours, theirs: merge((), ours, theirs))
    script = next(script for script in map(generate, range(60)) if "MERGE-2" in failure(script))
    small = shrink(script, lambda trial: "MERGE-2" in failure(trial), 400)
    assert "MERGE-2" in failure(small)
    assert len(small.steps) <= min(8, len(script.steps))


MEMORY = "memories/MEMORY.md"
BEGIN: list[Step] = [
    ["pass", 0, {}],
    ["pass", 1, {}],
    ["add", 0, MEMORY, "first", "write"],
    ["advance", 3.0],
    ["pass", 0, {}],
    ["pass", 1, {}],
    ["advance", 3.0],
]


def test_a_pass_that_forgets_what_it_was_placing_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The simulation has to be able to fail: a crash between an exchange and its seen entry."""
    steps: list[Step] = [
        ["add", 0, MEMORY, "second", "write"],
        ["advance", 3.0],
        ["pass", 0, {}],
        ["pass", 1, {"crash": ["tree replace.sync", 2]}],
        ["drop", 1, MEMORY, -1, "write"],
    ]
    script = Script(2, BEGIN + steps, seed=1)
    assert failure(script) == ""
    monkeypatch.setattr(materialise, "recover", lambda soul: soul.seen.remember(joining.PLACING, None))
    assert "MERGE-2" in failure(script)


def test_a_pass_that_forgets_what_it_was_recording_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The simulation has to be able to fail: a crash between main and what was seen."""
    steps: list[Step] = [
        ["add", 0, MEMORY, "second", "write"],
        ["advance", 3.0],
        ["pass", 0, {"crash": ["repo.move after", 1]}],
        ["drop", 0, MEMORY, -1, "write"],
    ]
    script = Script(2, BEGIN + steps, seed=1)
    assert failure(script) == ""
    monkeypatch.setattr(recording, "recover", lambda soul: soul.seen.remember("recording", None))
    assert "MERGE-2" in failure(script)


def test_a_remote_that_forgets_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The simulation has to be able to fail: history that does not grow."""
    monkeypatch.setattr(publish, "may_push", lambda expected, new, is_ancestor: publish.Push(expected, new))
    monkeypatch.setattr(publishing, "merge_commit", lambda soul, ours, theirs: (ours, None, []))
    assert "REPO-3" in failure(Script(2, [*BEGIN, ["add", 1, MEMORY, "x", "write"]], seed=1))
