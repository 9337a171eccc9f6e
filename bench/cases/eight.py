"""Eight bodies that write at the same moment: seconds until all agree, pushes tried and lost."""

from __future__ import annotations

import random
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from bench.measure import NotSeen, now, sleep, until
from bench.peers.pair import GitUser
from bench.results import Results
from bench.world import Body, World

MEMORY = "memories/MEMORY.md"
AGREE, TRIED, LOST = "{} bodies write at once: all agree", "… pushes tried", "… of them lost"
OURS, LOOP = "soul-bridge, one memory file", "git pull --rebase && git push until it works, a note each"


def run(world: World, results: Results) -> None:
    """Daemons at their defaults, then git in a loop."""
    _daemons(world, results)
    _loops(world, results)


def _rows(world: World, results: Results, who: str, found: Sequence[tuple[float, int, int]]) -> None:
    line, count = world.network.name, world.sizes.bodies
    results.add(AGREE.format(count), who, line, "s", [each[0] for each in found], than=OURS)
    results.add(TRIED, who, line, "", [each[1] for each in found], than=OURS)
    results.add(LOST, who, line, "", [each[1] - each[2] for each in found])


def _daemons(world: World, results: Results) -> None:
    repo = world.repo("eight")
    bodies = [world.body("b0", repo)]
    names = [f"b{number}" for number in range(1, world.sizes.bodies)]
    bodies += [world.body(name, repo) for name in names]
    with world.running(*bodies):
        sleep(3)
        found = [_round(world, repo, bodies, number) for number in range(world.sizes.rounds)]
    _rows(world, results, OURS, found)


def _round(world: World, repo: str, bodies: list[Body], number: int) -> tuple[float, int, int]:
    wanted = {f"{body.name} was here in round {number}" for body in bodies}
    tried, taken = world.server.asked("git-receive-pack"), world.server.pushes(repo)
    began = now()
    for body in bodies:
        with (body.soul() / MEMORY).open("a") as file:
            before = "§\n" if file.tell() else ""
            file.write(f"{before}{body.name} was here in round {number}\n")
    at = until(lambda: _agree(bodies, wanted), "all bodies agree", world.sizes.longest, 0.01)
    until(lambda: all(body.status().get("ahead") == 0 for body in bodies), "all is pushed", 60, 0.05)
    sleep(2)
    return at - began, world.server.asked("git-receive-pack") - tried, world.server.pushes(repo) - taken


def _agree(bodies: list[Body], wanted: set[str]) -> bool:
    texts = {(body.soul() / MEMORY).read_text("utf-8") for body in bodies}
    return len(texts) == 1 and wanted <= set(texts.pop().rstrip("\n").split("\n§\n"))


def _loops(world: World, results: Results) -> None:
    repo = world.repo("loops")
    users, folders = [], []
    for number in range(world.sizes.bodies):
        home = world.fresh(f"loop-{number}")
        users.append(GitUser.make(world, home, f"u{number}", shared=True))
        users[-1].git(home, "-c", "init.defaultBranch=main", "clone", "-q", world.server.address(repo), "soul")
        folders.append(home / "soul")
        if number == 0:
            (folders[0] / "SOUL.md").write_text("# Kaoru\n")
            users[0].git(folders[0], "add", "-A")
            users[0].git(folders[0], "commit", "-q", "-m", "begin")
            users[0].git(folders[0], "push", "-q", "-u", "origin", "HEAD:main")
    found = []
    for number in range(world.sizes.rounds):
        tried, taken = world.server.asked("git-receive-pack"), world.server.pushes(repo)
        names = [f"notes/u{each}-{number}.md" for each in range(len(users))]
        began = now()
        with ThreadPoolExecutor(len(users)) as pool:
            everyone = [
                pool.submit(_loop, world, user, folder, name, names)
                for user, folder, name in zip(users, folders, names, strict=True)
            ]
        for each in everyone:
            each.result()
        took = now() - began
        found.append((took, world.server.asked("git-receive-pack") - tried, world.server.pushes(repo) - taken))
    for user in users:
        user.hang_up()
    _rows(world, results, LOOP, found)


def _loop(world: World, user: GitUser, folder: Path, name: str, names: list[str]) -> None:
    """Commit, push until it is taken, then pull until everybody's note is here."""
    (folder / "notes").mkdir(exist_ok=True)
    (folder / name).write_text(f"# {name}\n")
    user.git(folder, "add", "-A")
    user.git(folder, "commit", "-q", "-m", name)
    end = now() + world.sizes.longest
    while not _pushed(user, folder):
        if now() > end:
            raise NotSeen("the loop never got through")
        user.git(folder, "pull", "-q", "--rebase")
    while not all((folder / each).exists() for each in names):
        threading.Event().wait(random.uniform(0.1, 0.5))  # noqa: S311
        user.git(folder, "pull", "-q", "--rebase")


def _pushed(user: GitUser, folder: Path) -> bool:
    try:
        user.git(folder, "push", "-q")
    except NotSeen:
        return False
    return True
