"""What costs what while nothing happens: memory, processor, wake-ups; many souls in one process, and the peers."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

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
    """Ourselves and every peer that runs all the time; they rest at the same time, and each is looked at alone."""
    sizes = world.sizes
    with ExitStack() as closing:
        watched: dict[str, list[int]] = {}
        for count in sizes.souls:
            world.say(f"  {who(count)}")
            body = _many(world, count)
            closing.enter_context(world.running(body))
            watched[who(count)] = [body.daemon.pid] if body.daemon is not None else []
        for peer in peers.chosen(sizes.peers):
            if peer.name in (OURS, FLOOR, peers.cron_git.PEER.name) or peer.missing():
                continue  # the last two do not run in between
            world.say(f"  {peer.name}")
            name = f"{peer.name}, 1 folder"
            pair = peer.open(world)
            closing.callback(pair.close)
            try:
                Watch(pair, sizes.longest).ready()
            except NotSeen as error:
                results.add(MEMORY, name, world.network.name, "MiB", (), note=str(error))
                continue
            watched[name] = pair.pids()
        world.say(f"  all of them at rest for {sizes.quiet:g} s, then watched for {sizes.watched:g} s")
        sleep(sizes.quiet)
        _watch(world, results, {name: _with_children(pids) for name, pids in watched.items()})


def _with_children(pids: list[int]) -> list[int]:
    return [pid for each in pids for pid in tree_of_processes(each)]


def _many(world: World, count: int) -> Body:
    agents = tuple(f"soul{number}" for number in range(count))
    body = Body("here", world.fresh(f"rest-{count}"), agents)
    repos = {agent: world.repo(agent) for agent in agents}

    def join(agent: str) -> None:
        world.server.authorize(body.make_key(agent))
        world.join(body, repos[agent], agent)

    join(agents[0])  # the first one pins the host, alone
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(join, agents[1:]))
    return body


def _watch(world: World, results: Results, watched: dict[str, list[int]]) -> None:
    line, seconds, one = world.network.name, world.sizes.watched, who(1)
    before = {name: (processor(pids), wake_ups(pids)) for name, pids in watched.items()}
    sleep(seconds)
    for name, pids in watched.items():
        cpu, wakes = before[name]
        results.add(CPU, name, line, "%", [(processor(pids) - cpu) / seconds * 100], than=one)
        results.add(WAKES, name, line, "/s", [(wake_ups(pids) - wakes) / seconds], than=one)
        results.add(MEMORY, name, line, "MiB", [memory(pids)], than=one)
