"""From the end of a write to the remote, and to the other machine."""

from __future__ import annotations

import random
import threading
from concurrent.futures import ThreadPoolExecutor

from bench import peers
from bench.cases import starve
from bench.cases.watch import FLOOR, OURS, Arrivals, Watch
from bench.measure import NotSeen, now, sleep
from bench.peers.pair import Pair, Peer
from bench.results import Results
from bench.world import World

BUSY = (0.5, 3.0)  # seconds between writes of a busy machine
REMOTE, THERE = "write → remote", "A → B, busy"
REST_REMOTE, REST_THERE, LATELY = "write → remote, at rest", "A → B, at rest", "A → B, last change 20–55 s before"


def run(world: World, results: Results) -> None:
    """Every peer, one note after the other, both machines awake; then beside a file that is rewritten all the time.

    Those that act by the clock sleep for most of it, and are watched at the same time.
    """
    waiting = []
    for peer in peers.chosen(world.sizes.peers):
        if peer.patient and world.network.name != "loopback":
            continue  # what waits for the clock does not notice a slow line
        if peer.missing():
            results.add(REMOTE, peer.name, world.network.name, "s", (), note="not installed")
            continue
        world.say(f"  {peer.name}")
        try:
            pair = peer.open(world)
        except NotSeen as error:
            results.add(REMOTE, peer.name, world.network.name, "s", (), note=str(error))
            continue
        if peer.patient:
            waiting.append((peer, pair))
        else:
            _one(peer, pair, world, results)
    if waiting:
        with ThreadPoolExecutor(len(waiting)) as pool:
            list(pool.map(lambda one: _one(*one, world, results), waiting))


def _one(peer: Peer, pair: Pair, world: World, results: Results) -> None:
    try:
        _watched(peer, Watch(pair, world.sizes.longest), world, results)
    except NotSeen as error:
        results.add(REMOTE, peer.name, world.network.name, "s", (), note=str(error))
    finally:
        pair.close()


def _watched(peer: Peer, watch: Watch, world: World, results: Results) -> None:
    watch.ready()
    if peer.patient:
        _side_by_side(watch, world)
    else:
        for _ in range(world.sizes.samples):
            sleep(random.uniform(*BUSY))  # noqa: S311 - moments that follow no pattern
            watch.one()
    watch.found.rows(results, world, (REMOTE, THERE), peer.name)
    # The floor's person types one command after the other, and the slow line changes nothing about who starves.
    if peer.name != FLOOR and world.network.name == "loopback":
        starve.beside(peer, watch, world, results)


def _side_by_side(watch: Watch, world: World) -> None:
    """What acts by the clock is written to at moments spread over two periods; all notes are on their way at once."""
    span = 2.0 * world.sizes.period
    moments = sorted(random.uniform(0, span) for _ in range(max(2, world.sizes.samples // 2)))  # noqa: S311
    began = now()
    threads = []
    for moment in moments:
        sleep(began + moment - now())
        thread = threading.Thread(target=watch.one, args=(0.02,))
        thread.start()
        threads.append(thread)
    for thread in threads:
        thread.join()


def rested(world: World, results: Results) -> None:
    """soul-bridge after a long rest, and again when the last change is most of a minute old: many pairs at once."""
    if world.sizes.rest == 0:
        return
    pairs = [peers.soul_bridge.PEER.open(world) for _ in range(world.sizes.pairs)]
    try:
        watches = [Watch(pair, world.sizes.longest) for pair in pairs]
        for watch in watches:
            watch.ready()
        with ThreadPoolExecutor(len(watches)) as pool:
            found = list(pool.map(lambda watch: _rested(watch, world), watches))
    finally:
        for pair in pairs:
            pair.close()
    rest, lately = Arrivals(), Arrivals()
    for first, second in found:
        for total, part in ((rest, first), (lately, second)):
            total.remote += part.remote
            total.there += part.there
            total.missed += part.missed
    rest.rows(results, world, (REST_REMOTE, REST_THERE), OURS)
    note = f"{lately.missed} not seen" if lately.missed else ""
    results.add(LATELY, OURS, world.network.name, "s", lately.there, note=note)


def _rested(watch: Watch, world: World) -> tuple[Arrivals, Arrivals]:
    sleep(world.sizes.rest + random.uniform(0, 30))  # noqa: S311
    watch.one(0.01)
    first, watch.found = watch.found, Arrivals()
    sleep(random.uniform(20, 55))  # noqa: S311
    watch.one(0.01)
    return first, watch.found
