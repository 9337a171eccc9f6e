"""What costs what while nothing happens: memory, processor, wake-ups; many souls in one process, and the peers."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from bench import peers
from bench.cases.watch import FLOOR, OURS, Watch
from bench.measure import NotSeen, memory, processor, sleep, tree_of_processes, wake_ups
from bench.results import Results
from bench.world import Body, World

MEMORY, CPU, WAKES = "memory at rest", "processor at rest", "wake-ups at rest"


def who(souls: int) -> str:
    """The row's name."""
    return f"soul-bridge, {souls} soul{'s' * (souls > 1)} in one process"


def run(world: World, results: Results) -> None:
    """First ourselves, then every peer that runs all the time."""
    for count in world.sizes.souls:
        world.say(f"  {who(count)}")
        body = _many(world, count)
        with world.running(body):
            sleep(world.sizes.rest)
            pids = [body.daemon.pid] if body.daemon is not None else []
            _watch(world, results, who(count), pids)
    for peer in peers.chosen(world.sizes.peers):
        if peer.name in (OURS, FLOOR, peers.cron_git.PEER.name) or peer.missing():
            continue  # the last two do not run in between
        world.say(f"  {peer.name}")
        pair = peer.open(world)
        try:
            Watch(pair, world.sizes.longest).ready()
            sleep(min(20, world.sizes.rest))
            pids = [pid for each in pair.pids() for pid in tree_of_processes(each)]
            _watch(world, results, f"{peer.name}, 1 folder", pids)
        except NotSeen as error:
            results.add(MEMORY, f"{peer.name}, 1 folder", world.network.name, "MiB", (), note=str(error))
        finally:
            pair.close()


def _many(world: World, count: int) -> Body:
    agents = tuple(f"soul{number}" for number in range(count))
    body = Body("here", world.fresh(f"rest-{count}"), agents)
    repos = {agent: world.repo(agent) for agent in agents}

    def join(agent: str) -> None:
        world.server.authorize(body.make_key(agent))
        world.join(body, repos[agent], agent, {"poll": world.sizes.poll})

    join(agents[0])  # the first one pins the host, alone
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(join, agents[1:]))
    return body


def _watch(world: World, results: Results, name: str, pids: list[int]) -> None:
    line, seconds, one = world.network.name, world.sizes.watched, who(1)
    cpu, wakes = processor(pids), wake_ups(pids)
    sleep(seconds)
    results.add(CPU, name, line, "%", [(processor(pids) - cpu) / seconds * 100], than=one)
    results.add(WAKES, name, line, "/s", [(wake_ups(pids) - wakes) / seconds], than=one)
    results.add(MEMORY, name, line, "MiB", [memory(pids)], than=one)
