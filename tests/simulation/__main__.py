"""`python -m tests.simulation`: explore seeds until the time is over, or play one script again.

A failure is shrunk, printed and kept as a file beside the others, so that the tests play it from then on.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from pathlib import Path

from tests.simulation.generate import generate
from tests.simulation.play import play
from tests.simulation.script import Script, load
from tests.simulation.shrink import shrink
from tests.simulation.tally import FILE, README, Tally, tell

KEPT = Path(__file__).parent / "kept"


def failure(script: Script, tally: Tally | None = None) -> str:
    """What went wrong, "" when nothing did."""
    world, words = None, ""
    try:
        world = play(script)
    except Exception as error:  # noqa: BLE001 - whatever comes out of a world is what we look for
        words = f"{type(error).__name__}: {error}"
    if tally is not None:
        tally.count(len(script.steps), world)
    return words


def main() -> int:
    """The exit code: 1 when a seed failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="how long to explore")
    parser.add_argument("--seed", type=int, help="the first seed; without it, one from the clock")
    parser.add_argument("--replay", type=Path, metavar="FILE", help="play this script and tell what happens")
    parser.add_argument("--failures", type=int, default=1, help="stop after so many")
    parser.add_argument("--tally", action="store_true", help="add the run to the figure in the README")
    arguments = parser.parse_args()
    if arguments.replay:
        return _replay(load(arguments.replay))
    seed = arguments.seed if arguments.seed is not None else int(time.time()) * 1000
    began, first, tally = time.monotonic(), seed, Tally()
    while time.monotonic() - began < arguments.seconds:
        script = generate(seed)
        words = failure(script, tally)
        seed += 1
        if words:
            _report(script, words)
            if tally.lost >= arguments.failures:
                break
    took = max(time.monotonic() - began, 1e-9)
    print(
        f"{tally.seeds} seeds from {first}, {tally.steps} steps, {tally.steps / took:.0f} a second, {tally.lost} failed"
    )
    if arguments.tally:
        tell(README, tally.add_to(FILE))
    return 1 if tally.lost else 0


def _replay(script: Script) -> int:
    try:
        play(script, print)
    except Exception:  # noqa: BLE001 - it is printed whole
        traceback.print_exc()
        return 1
    print("everything holds")
    return 0


def _report(script: Script, words: str) -> None:
    kind = words.partition(":")[0] + words.partition(": ")[2][:7]
    small = shrink(script, lambda trial: _same(failure(trial), kind), 1500)
    small.why = failure(small)
    path = KEPT / f"{script.seed}.json"
    path.write_text(small.dump())
    print(f"seed {script.seed} fails: {words}\nshrunk to {len(small.steps)} steps in {path.name}: {small.why}\n")
    print(small.dump())


def _same(words: str, kind: str) -> bool:
    return bool(words) and words.partition(":")[0] + words.partition(": ")[2][:7] == kind


if __name__ == "__main__":
    sys.exit(main())
