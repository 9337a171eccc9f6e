"""How much of everything: a whole run, a quick one, and one that only proves that the harness works."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sizes:
    """samples: of what takes seconds. many: of what takes milliseconds. pairs: of bodies that rest together. rest:
    seconds until they rest. poll: of the configuration. slow: milliseconds of a round trip on the slow line, 0: none.
    period: seconds between the calls of what cron would call. hot: seconds of rewriting. notes, commits, changed:
    of souls. entries: of memories. souls: in one process. quiet: seconds until a process asks as rarely as it will.
    watched: seconds that it is then watched. growth: changes. peers: names of those that take part, empty: all.
    longest: seconds before a wait is given up.
    """

    name: str
    samples: int
    many: int
    pairs: int
    rest: float
    poll: str
    slow: float
    period: int
    hot: float
    bodies: int
    rounds: int
    notes: tuple[int, ...]
    commits: tuple[int, ...]
    changed: tuple[int, ...]
    entries: tuple[int, ...]
    souls: tuple[int, ...]
    quiet: float
    watched: float
    growth: int
    peers: tuple[str, ...] = ()
    longest: float = 200.0


FULL = Sizes(
    "full", samples=10, many=20, pairs=10, rest=90, poll="30s", slow=50, period=60, hot=20, bodies=8, rounds=4,
    notes=(100, 10_000, 100_000), commits=(1_000, 100_000), changed=(1, 100, 5_000), entries=(10, 10_000, 100_000),
    souls=(1, 10, 100), quiet=180, watched=45, growth=500,
)  # fmt: skip
QUICK = Sizes(
    "quick", samples=5, many=10, pairs=4, rest=70, poll="5s", slow=50, period=60, hot=12, bodies=8, rounds=2,
    notes=(100, 10_000), commits=(1_000,), changed=(1, 100), entries=(10, 10_000, 100_000), souls=(1, 10, 100),
    quiet=180, watched=20, growth=100,
)  # fmt: skip
SMOKE = Sizes(
    "smoke", samples=1, many=1, pairs=1, rest=0, poll="30s", slow=0, period=2, hot=1, bodies=2, rounds=1,
    notes=(10,), commits=(5,), changed=(3,), entries=(10, 100), souls=(1,), quiet=0, watched=0.5, growth=3,
    peers=("soul-bridge", "plain git"), longest=90,
)  # fmt: skip
ALL = {sizes.name: sizes for sizes in (FULL, QUICK, SMOKE)}
