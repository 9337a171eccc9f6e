"""`python -m bench`: measure, print the one table, and write results.json, README.md and plot.svg from it."""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from bench import goals, machine, peers, plot, table
from bench.cases import ALL, Case
from bench.measure import NotSeen, now
from bench.network import Loopback, Network, Slow
from bench.results import Results
from bench.server import Server
from bench.sizes import ALL as SIZES
from bench.sizes import Sizes
from bench.world import World

HERE = Path(__file__).resolve().parent


def main(words: list[str] | None = None) -> int:
    """Measure what was asked for; 1 when a case failed, else 0, goals met or not."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--sizes", choices=SIZES, default="full", help="how much of everything")
    parser.add_argument("--only", nargs="*", default=[], metavar="CASE", help="of " + ", ".join(c.name for c in ALL))
    parser.add_argument("--out", type=Path, default=HERE, help="directory of results.json, README.md and plot.svg")
    parser.add_argument("--show", action="store_true", help="measure nothing; write the pages from results.json again")
    arguments = parser.parse_args(words)
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(143))  # so that what was started is ended
    if arguments.show:
        results = Results.read(arguments.out / "results.json")
        results.goals = goals.judged(results)
    else:
        results = measured(SIZES[arguments.sizes], [case for case in ALL if case.name in (arguments.only or _names())])
    arguments.out.mkdir(parents=True, exist_ok=True)
    results.write(arguments.out / "results.json")
    (arguments.out / "README.md").write_text(table.markdown(results), "utf-8")
    (arguments.out / "plot.svg").write_text(plot.drawn(results), "utf-8")
    sys.stdout.write(table.plain(results))
    return 1 if results.failures else 0


def _names() -> list[str]:
    return [case.name for case in ALL]


def measured(sizes: Sizes, cases: list[Case]) -> Results:
    """One run of these cases, on loopback and then over the slow line."""
    began = now()
    with tempfile.TemporaryDirectory(prefix="soul-bench-", ignore_cleanup_errors=True) as directory:
        root = Path(directory)
        versions = {peer.name: peer.describe() for peer in peers.chosen(sizes.peers)}
        results = Results(sizes.name, machine.described(root), versions)
        _on(root / "loopback", Loopback, sizes, cases, results)
        slow = [case for case in cases if case.slow]
        if sizes.slow and slow:
            _on(root / "slow", lambda: Slow(sizes.slow), sizes, slow, results)
    results.goals = goals.judged(results)
    results.seconds = now() - began
    return results


def _on(root: Path, line: Callable[[], Network], sizes: Sizes, cases: list[Case], results: Results) -> None:
    try:
        with _world(root, line, sizes) as world:
            for case in cases:
                _say(f"{case.name}, {world.network.name}")
                began = now()
                world.network.call(lambda: _case(case, world, results))  # noqa: B023
                _say(f"  {now() - began:.1f} s")
    except NotSeen as error:
        results.failures.append(f"{root.name}: {error}")


def _case(case: Case, world: World, results: Results) -> None:
    """One case; that it fails is told, and does not keep the others from being measured."""
    try:
        case.run(world, results)
    except Exception as error:  # noqa: BLE001 - told in the table, with its place
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(place.filename).name}:{place.lineno}"
        results.failures.append(f"{case.name} on {world.network.name}: {error} ({type(error).__name__}, {where})")
        _say(f"  failed: {error}")


@contextmanager
def _world(root: Path, line: Callable[[], Network], sizes: Sizes) -> Iterator[World]:
    root.mkdir()
    network = line()
    try:
        server = Server(root / "server", network)
        try:
            yield World(root, network, server, sizes, _say)
        finally:
            server.close()
    finally:
        network.close()


def _say(words: str) -> None:
    sys.stderr.write(f"{words}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
