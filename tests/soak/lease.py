"""Eight bodies that ask for the lease at the same moment, over and over, with clocks that are up to an hour wrong."""

from __future__ import annotations

import io
import random
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bridge.adapters import config
from bridge.app import leasing
from bridge.app.host import Host
from bridge.app.soul import Soul
from bridge.commands import wiring
from bridge.commands.context import Context
from bridge.core import layout, lease
from bridge.core.errors import Refused, Transient
from tests.real import quick
from tests.soak.clock import LaterClock, Time

BODIES = 8
WRONG = 3600.0  # seconds by which a clock may be wrong, either way
HALF = lease.LASTS / 2 + 60


@dataclass
class Asker:
    """One body with its real adapters, open."""

    name: str
    soul: Soul
    clock: LaterClock

    def asks(self) -> bool:
        """Whether it gets the lease; raises what is no answer to that question."""
        try:
            return bool(leasing.acquire(self.soul, {})["lease"]["mine"])
        except Refused as refused:
            assert refused.exit_code == 6, refused
            return False
        except Transient as busy:
            assert busy.rule == "LEASE-2", busy
            return False

    def sees(self) -> tuple[str, bool] | None:
        """Whose it is, by what it sees, and whether that is itself."""
        found = leasing.show(self.soul, {})["lease"]
        return None if found is None else (found["body"], found["mine"])


class Eight:
    """The bodies, joined to one soul on a loopback host and open until `close`."""

    def __init__(self, host: Host, root: Path, seed: int) -> None:
        self.time, self.random = Time(), random.Random(seed)
        root.mkdir(exist_ok=True)
        self._fleet = quick.empty(host, root)
        self._ends = ExitStack()
        self.askers = [self._open(f"body{number}") for number in range(BODIES)]
        self._pool = self._ends.enter_context(ThreadPoolExecutor(BODIES))

    def close(self) -> None:
        """Let go of every body."""
        self._ends.close()

    def round(self, *, dies: bool) -> str:
        """Everybody looks, everybody asks at once; who got it. dies: the holder never gives it up."""
        for asker in self.askers:
            asker.clock.wrong = self.random.uniform(-WRONG, WRONG)
        self.everyone(lambda asker: asker.sees())
        holder = self._one(self._at_once())
        self._all_know(holder)
        self.time.passed += HALF  # an hour wrong, and half an hour older
        others = [asker for asker in self.askers if asker.name != holder]
        assert not any(self.everyone(lambda asker: asker.asks(), others)), "nobody else gets it meanwhile"
        self._all_know(holder)
        if dies:
            self.time.passed += lease.SURE_AFTER
        else:
            leasing.release(next(asker for asker in self.askers if asker.name == holder).soul, {})
        return holder

    def everyone(self, work: Callable[[Asker], Any], askers: list[Asker] | None = None) -> list[Any]:
        """Do something with each of them, in threads of their own."""
        return list(self._pool.map(work, self.askers if askers is None else askers))

    def _at_once(self) -> list[str]:
        start = threading.Barrier(BODIES)

        def ask(asker: Asker) -> bool:
            start.wait()
            return asker.asks()

        got = self.everyone(ask)
        return [asker.name for asker, has in zip(self.askers, got, strict=True) if has]

    def _one(self, holders: list[str]) -> str:
        assert len(holders) == 1, f"{holders} hold it"
        tip = self._fleet.tip()
        published = lease.read(quick.fleet.tree_of(self._fleet.bare, tip).get(layout.LEASE))
        assert published is not None and published.body == holders[0], published
        return holders[0]

    def _all_know(self, holder: str) -> None:
        seen = {asker.name: asker.sees() for asker in self.askers}
        assert seen == {name: (holder, name == holder) for name in seen}, seen

    def _open(self, name: str) -> Asker:
        body = self._fleet.body(name)
        clock = LaterClock(self.time)
        places = config.locate(body.env())
        context = Context(places, True, io.StringIO(), io.StringIO(), clock)
        opened = self._ends.enter_context(wiring.opened(config.load(places, body.agent), context))
        return Asker(name, opened.soul, clock)
