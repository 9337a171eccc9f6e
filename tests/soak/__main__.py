"""`python -m tests.soak`: the long ones. Years of a soul, and the lease asked for over and over; prints figures."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from bridge.app.host import Host
from tests.soak.lease import Eight
from tests.soak.years import HEAD, Measure, Years, steady

POINTS = (500, 1_000, 2_000, 5_000, 10_000)


def main() -> int:
    """The exit code: 1 when something grew that must not."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--commits", type=int, default=POINTS[-1], help="of the two bodies together, 0: none")
    parser.add_argument("--rounds", type=int, default=100, help="of eight bodies asking for the lease, 0: none")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="soul-soak-") as directory:
        host = Host(Path(directory) / "host").start()
        try:
            if arguments.rounds:
                _lease(host, Path(directory), arguments.rounds, arguments.seed)
            return _years(host, Path(directory), arguments.commits, arguments.seed) if arguments.commits else 0
        finally:
            host.stop()


def _lease(host: Host, root: Path, rounds: int, seed: int) -> None:
    eight = Eight(host, root / "lease", seed)
    try:
        holders = [eight.round(dies=number % 3 == 2) for number in range(rounds)]
    finally:
        eight.close()
    often = ", ".join(f"{name} {holders.count(name)}" for name in sorted(set(holders)))
    print(f"{rounds} rounds of eight bodies at once, one holder in each: {often}", flush=True)


def _years(host: Host, root: Path, commits: int, seed: int) -> int:
    years, measures = Years(host, root / "years", seed), list[Measure]()
    print(HEAD, flush=True)
    try:
        for point in [*(each for each in POINTS if each < commits), commits]:
            measures.append(years.live(point))
            print(measures[-1].line(), flush=True)
        years.check()
    finally:
        years.close()
    grown = steady(measures)
    print("\n".join(grown) if grown else "nothing grew that must not")
    return 1 if grown else 0


if __name__ == "__main__":
    sys.exit(main())
