"""Walks of history are exact whatever the clocks said, and cost what lies between, not what there is."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from bridge.adapters.repo import Repo, history

Parents = list[list[int]]


def drawn(source: random.Random, count: int) -> Parents:
    """Parents of commits by number, each below its own: mostly a line, some merges, now and then another root."""
    parents: Parents = [[]]
    for number in range(1, count):
        kinds = source.choices(["next", "fork", "merge", "root"], [6, 3, 3, 0.2])[0]
        if kinds == "root":
            parents.append([])
        elif kinds == "merge" and number > 1:
            parents.append(source.sample(range(number), 2))
        else:
            parents.append([number - 1 if kinds == "next" else source.randrange(number)])
    return parents


def made(repo: Repo, parents: Parents, times: list[int]) -> list[str]:
    """The commits, their ids by number."""
    ids: list[str] = []
    for number, (above, time) in enumerate(zip(parents, times, strict=True)):
        ids.append(repo.commit("", [ids[each] for each in above], "K (b)", "k@b", f"{number} (b)", time))
    return ids


def ancestors(parents: Parents) -> list[set[int]]:
    """For each commit itself and all that it descends from."""
    found: list[set[int]] = []
    for number, above in enumerate(parents):
        found.append({number}.union(*(found[each] for each in above)))
    return found


@pytest.mark.parametrize("seed", range(30))
def test_bases_ancestry_and_ranges_are_exact_whatever_the_clocks_said(tmp_path: Path, seed: int) -> None:
    """MERGE-6, REPO-3: true and lying clocks, merges across, several roots; against sets that need no order."""
    source = random.Random(seed)
    parents = drawn(source, 14)
    honest = seed % 3
    times = [1_700_000_000 + (60 * each if honest else 0) + source.randrange(1 if honest == 1 else 600)
             for each in range(14)]  # fmt: skip
    repo = Repo.create(tmp_path / "soul")
    ids, above = made(repo, parents, times), ancestors(parents)
    for one in range(14):
        for other in range(14):
            common = above[one] & above[other]
            best = {each for each in common if not any(each in above[more] for more in common - {each})}
            assert set(repo.bases(ids[one], ids[other])) == {ids[each] for each in best}, (one, other)
            assert repo.is_ancestor(ids[one], ids[other]) == (one in above[other]), (one, other)
            between = [commit.oid for commit in repo.log(ids[one], ids[other])]
            assert set(between) == {ids[each] for each in above[one] - above[other]}, (one, other)
            numbers = [ids.index(oid) for oid in between]
            for place, number in enumerate(numbers):
                assert not above[number] & set(numbers[:place]), "a parent before its child"


def test_what_lies_close_together_is_found_without_reading_history_to_its_root(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = Repo.create(tmp_path / "soul")
    line = made(repo, [[], *([each] for each in range(299))], [1_700_000_000 + each for each in range(300)])
    ours = repo.commit("", [line[-1]], "K (a)", "k@a", "ours (a)", 1_700_000_400)
    theirs = repo.commit("", [line[-1]], "K (b)", "k@b", "theirs (b)", 1_700_000_401)
    asked: list[str] = []
    parse = history.parse
    monkeypatch.setattr(history, "parse", lambda oid, raw: asked.append(oid) or parse(oid, raw))
    assert repo.bases(ours, theirs) == [line[-1]]
    assert repo.is_ancestor(line[-1], ours) and not repo.is_ancestor(theirs, ours)
    assert [commit.oid for commit in repo.log(ours, line[-3])] == [ours, line[-1], line[-2]]
    assert repo.pack(ours, [line[-1]])
    assert not {*line[:250]} & {*asked}
