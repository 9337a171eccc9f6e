"""The benchmarks work: every case runs at tiny sizes and measures what it says. Times are not looked at."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from bench import cases, goals, plot, table
from bench.cases import arrival, eight, merging, passes, transport
from bench.measure import quantile
from bench.results import Results
from bench.sizes import FULL, SMOKE
from tests.real import sshd

# It takes half a minute where nothing else runs.
pytestmark = pytest.mark.timeout(540)

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """The results of one smoke run."""
    if sshd.missing() or os.geteuid() != 0:
        pytest.skip("sshd, or the right to give it an account `git`, is missing")
    out = tmp_path_factory.mktemp("bench")
    command = [sys.executable, "-m", "bench", "--sizes", "smoke", "--out", str(out)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    results = Results.read(out / "results.json")
    assert (out / "README.md").read_text() == table.markdown(results)
    assert (out / "plot.svg").read_text() == plot.drawn(results)
    assert table.plain(results) == done.stdout
    return results


def test_every_case_measures_and_none_fails(found: Results) -> None:
    assert found.failures == []
    assert all(row.samples for row in found.rows), [row for row in found.rows if not row.samples]
    assert {case.name for case in cases.ALL} == {
        "transport", "arrival", "rested", "eight", "merging", "clone", "passes", "starting", "rest", "wire",
        "growth",
    }  # fmt: skip


def test_what_was_written_arrives_in_the_right_order(found: Results) -> None:
    for who in ("soul-bridge", "plain git"):
        remote, there = found.row(arrival.REMOTE, who), found.row(arrival.THERE, who)
        assert remote and there
        assert len(remote.samples) == len(there.samples) == SMOKE.samples
        assert all(0 < first < second for first, second in zip(remote.samples, there.samples, strict=True))


def test_pushes_are_counted_at_the_host(found: Results) -> None:
    tried, lost = found.median(eight.TRIED, eight.OURS), found.median(eight.LOST, eight.OURS)
    assert tried is not None and lost is not None
    assert 1 <= tried - lost <= tried


def test_every_way_to_the_remote_is_there(found: Results) -> None:
    for case in (transport.POLL, transport.FETCH, transport.PUSH):
        assert {row.who for row in found.rows if row.case == case} == {
            "soul-bridge", "git, fresh ssh", "git, shared ssh", "libgit2",
        }  # fmt: skip


def test_every_size_of_soul_and_memory_is_there(found: Results) -> None:
    for changed in SMOKE.changed:
        assert found.median(passes.RECORD.format(changed), passes.who(10, 5)) is not None
    assert [found.median(merging.CASE, merging.who(entries), "") is not None for entries in SMOKE.entries] == [
        True,
        True,
    ]


def test_a_goal_is_judged_by_the_rows_and_only_by_them() -> None:
    results = Results("full", {}, {})
    assert {goal.met for goal in goals.judged(results)} == {None}
    results.add(arrival.REMOTE, "soul-bridge", "loopback", "s", [0.6])
    results.add(arrival.REMOTE, "Syncthing", "loopback", "s", [0.5])
    assert [goal.met for goal in goals.judged(results) if goal.met is not None] == [False]
    results.add(arrival.REMOTE, "cron", "loopback", "s", [30.0])
    results.rows[1] = results.add(arrival.REMOTE, "Syncthing", "loopback", "s", [0.7])
    assert [goal.met for goal in goals.judged(results) if goal.met is not None] == [True]


def test_a_peer_that_is_not_installed_is_listed_so_and_never_made_up() -> None:
    machine = {"when": "", "load before": "0.1 0 0", "processor": "2 × x"}
    results = Results("full", machine, {"Syncthing": "not installed (syncthing is missing)"})
    results.add(arrival.REMOTE, "Syncthing", "loopback", "s", (), note="not installed")
    shown = table.markdown(results)
    assert "| write → remote | Syncthing | loopback | not installed |" in shown
    assert "not installed (syncthing is missing)" in shown


def test_the_plot_is_a_picture_of_the_rows() -> None:
    results = Results("full", {}, {})
    results.add(arrival.REMOTE, "soul-bridge", "loopback", "s", [0.5, 0.6, 0.7])
    results.add(arrival.REMOTE, "Syncthing", "loopback", "s", [5.0])
    picture = ElementTree.fromstring(plot.drawn(results))  # noqa: S314 - our own
    words = ["".join(node.itertext()) for node in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert {"soul-bridge", "Syncthing", "0.60 s", "5.00 s"} <= set(words)
    drawn = list(picture.iter("{http://www.w3.org/2000/svg}rect"))[1:]
    bars = [float(node.get("width", "0")) for node in drawn]
    assert len(bars) == 2 and bars[0] < bars[1]


def test_quantiles_are_samples_that_occurred() -> None:
    assert quantile([3.0, 1.0, 2.0], 0.5) == 2.0
    assert quantile([1.0, 2.0, 3.0, 4.0], 0.5) == 2.5
    assert quantile([float(each) for each in range(1, 101)], 0.95) == 95.0
    assert quantile([7.0], 0.95) == 7.0


def test_a_whole_run_has_the_sizes_that_are_promised() -> None:
    assert (FULL.notes, FULL.commits, FULL.changed) == ((100, 10_000, 100_000), (1_000, 100_000), (1, 100, 5_000))
    assert (FULL.entries, FULL.souls, FULL.bodies, FULL.slow) == ((10, 10_000, 100_000), (1, 10, 100), 8, 50)
