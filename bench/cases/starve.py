"""While one file is rewritten all the time: other notes still arrive, and so do newer versions of that file."""

from __future__ import annotations

import threading

from bench.cases.watch import Arrivals, Watch
from bench.measure import now, sleep
from bench.peers.pair import Pair, Peer
from bench.results import Results
from bench.world import World

EVERY = 0.05  # seconds between rewrites
HOT = "notes/bench/hot.md"
NOTES, STALE, VERSIONS = "A → B beside a hot file", "hot file: its age on B at worst", "hot file: versions that B saw"


def beside(peer: Peer, watch: Watch, world: World, results: Results) -> None:
    """The peer whose pair is watched, while a file is rewritten in its `here`."""
    watch.found = Arrivals()
    hot = _Hot(watch.pair, world.sizes.hot, world.sizes.longest)
    hot.start()
    while now() < hot.end - min(2.0, world.sizes.hot / 2):
        began = now()
        watch.one(0.01)
        sleep(min(began + 2.0 - now(), hot.end - now()))
    hot.join()
    line = world.network.name
    results.add(NOTES, peer.name, line, "s", watch.found.there, than="soul-bridge")
    results.add(STALE, peer.name, line, "s", [hot.stalest], than="soul-bridge", note=hot.note)
    results.add(VERSIONS, peer.name, line, "", [len(hot.seen)])


class _Hot:
    """Rewrites a file in place and watches how old the version on the other side is."""

    def __init__(self, pair: Pair, seconds: float, longest: float) -> None:
        self._pair = pair
        self._longest = longest
        self.end = now() + seconds
        self.seen: set[int] = set()
        self.stalest = 0.0
        self.note = ""
        self._written: list[float] = []
        self._threads = [threading.Thread(target=self._write), threading.Thread(target=self._watch)]

    def start(self) -> None:
        """Begin to write and to watch."""
        for thread in self._threads:
            thread.start()

    def join(self) -> None:
        """Wait for the last version to arrive, or until that lasts too long."""
        for thread in self._threads:
            thread.join()

    def _write(self) -> None:
        while now() < self.end:
            number = len(self._written)
            (self._pair.here / HOT).parent.mkdir(parents=True, exist_ok=True)
            (self._pair.here / HOT).write_text(f"# hot\n\nversion {number}\n" + "words\n" * 40, "utf-8")
            self._written.append(now())
            sleep(EVERY)

    def _watch(self) -> None:
        """Age of B's version: how long ago the next one was written. Before the first one arrived, since it was."""
        latest = -1
        while True:
            number = self._number()
            if number is not None and number > latest:
                latest = number
                self.seen.add(number)
            if latest + 1 < len(self._written):
                self.stalest = max(self.stalest, now() - self._written[latest + 1])
            elif now() > self.end and not self._threads[0].is_alive():
                return
            if now() > self.end + self._longest:
                self.note = "the last version did not arrive"
                return
            sleep(0.01)

    def _number(self) -> int | None:
        lines = (self._pair.reads(HOT) or "").split("\n")
        whole = len(lines) == 44 and lines[2].startswith("version ")
        return int(lines[2].split()[1]) if whole else None
