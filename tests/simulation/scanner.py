"""A server that refuses what holds a secret, and what must hold while it does (REPO-8)."""

from __future__ import annotations

from bridge.core import layout, plan
from bridge.core.withhold import Withheld
from bridge.fakes.remote import Hook, accept
from bridge.fakes.repo import FakeRepo
from tests.simulation.agent import deed
from tests.simulation.oracle import published
from tests.simulation.world import MAIN, Broken, SimBody, World

SECRET = b"SECRET"


@deed
def scan(world: World, body: SimBody, yes: bool, names: bool = False) -> None:
    """The server refuses, or takes again, what holds a secret; names: it says which path it minds first."""
    world.scanned, world.scanning = True, yes
    for each in world.bodies:
        each.remote.hook = _hook(names) if yes else accept


def _hook(names: bool) -> Hook:
    def judge(server: FakeRepo, expected: str | None, new: str) -> str:
        for commit in server.log(new, expected):
            parents = [server.info(parent).tree for parent in commit.parents]
            for path, (_, file) in server.diff(parents[0] if parents else "", commit.tree).items():
                inherited = any(server.entry(tree, path) == file for tree in parents)
                if file is not None and not inherited and SECRET in server.read(file.oid):
                    return f"error: {path} holds a secret" if names else "a secret was found"
        return ""

    return judge


def may_rest(world: World) -> bool:
    """Whether bodies can agree while the server scans: it has a soul, with all of its history."""
    return world.scanning and not world.rolled_back and world.server.tip(MAIN) is not None


def at_rest(world: World) -> None:
    """Held paths excepted, everything converged; nothing innocent is held. Raises Broken."""
    tip, agreed = world.server.tip(MAIN), published(world)
    for body in world.bodies:
        outcome = body.outcome
        if outcome is None or outcome.problem is not None or body.repo.tip(MAIN) != tip:
            raise Broken(f"REPO-8: {body.name} is at {body.repo.tip(MAIN)}, the remote at {tip}: {outcome}")
        # One of them may wait by GUARD-2 before it is tried again.
        held = set(body.seen.recall("withheld") or ())
        files = {path: layout.stored(content, path) for path, content in body.tree.paths().items()}
        differ = {path for path in files.keys() | agreed.keys() if files.get(path) != agreed.get(path)}
        differ -= {path for path in differ if path not in agreed and body.tree.ignored(path)}
        elsewhere = (differ | set(outcome.pending) | outcome.held.keys()) - held
        if stray := elsewhere - plan.in_the_way(elsewhere, held):
            raise Broken(f"REPO-8: {sorted(stray)} of {body.name} wait, and only {sorted(held)} are held")
        for path in sorted(held):
            _guilty(body, path)


def _guilty(body: SimBody, path: str) -> None:
    """Some version of it is what the server minds: that was offered, withheld at first, or is on disk now."""
    hold = Withheld(*(body.seen.recall("withheld") or {})[path])
    oid, first = hold.refused.partition(" ")[2], body.repo.entry(body.repo.info(hold.commit).tree, path)
    contents = [body.repo.read(each) for each in (oid, first.oid if first is not None else "") if each]
    if not any(SECRET in content for content in [*contents, body.tree.agent_read(path) or b""]):
        raise Broken(f"REPO-8: {path} of {body.name} is held and innocent: {hold}")
