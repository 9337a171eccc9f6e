"""Bodies that run another implementation: git's own merge where it finds no conflict, its subjects, its fixed files.

They never look at what was seen, take their time between writing and merging, and write memories in a form of their
own. What they publish is history like any other (COMMIT-3), and what they wrote may not be lost either.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from bridge.core import entries, layout
from bridge.core.model import PLAIN, File
from tests.simulation.ledger import told
from tests.simulation.world import MAIN, World

NAMES = ("iris", "juniper")
FORMS = ("{before}\n§\n{entry}\n", "{before}\n\n§\n\n{entry}", "{before}\r\n§\r\n{entry}\r\n")
SUBJECTS = ("更新记忆", "update", "Merge branch 'main' of github.invalid:kaoru/kaoru.soul", "")


@dataclass
class Other:
    """One of them: where its own main is."""

    name: str
    tip: str | None = None
    count: int = 0


def take(world: World, number: int, what: str, *words: Any) -> None:
    """One step of one of them."""
    if world.rolled_back:
        return
    other = world.others.setdefault(number, Other(NAMES[number % len(NAMES)]))
    if what != "sync" and other.tip is None:
        what = "sync"
    _STEPS[what](world, other, *words)


def _sync(world: World, other: Other, *words: Any) -> None:
    """Fetch, merge, push."""
    server, ours, theirs = world.server, other.tip, world.server.tip(MAIN)
    if theirs is None:
        return
    if ours is None or server.is_ancestor(ours, theirs):
        other.tip = theirs
        return
    if not server.is_ancestor(theirs, ours):
        ours = _merged(world, other, ours, theirs)
    server.move(MAIN, theirs, ours)
    other.tip = ours


def _merged(world: World, other: Other, ours: str, theirs: str) -> str:
    server = world.server
    common = server.ancestors(ours) & server.ancestors(theirs)
    base = next(commit.oid for commit in server.log(ours) if commit.oid in common)
    before, here, there = (server.info(oid).tree for oid in (base, ours, theirs))
    changes: dict[str, File | None] = {}
    for path, (was, is_now) in server.diff(before, here).items():
        standing = server.entry(there, path)
        if standing == was:
            changes[path] = is_now
        elif layout.is_memory(path) and standing != is_now:
            sides = [told(server.read(file.oid)) if file else frozenset() for file in (was, is_now, standing)]
            kept = entries.merge(*(sorted(side) for side in sides))
            changes[path] = File(server.write(entries.write(kept)), PLAIN)
    return _commit(world, other, server.edit(there, changes), [ours, theirs], SUBJECTS[2])


def _add(world: World, other: Other, path: str, entry: str) -> None:
    """An entry at the end of a memory, in a form that only reading makes the same."""
    before = _read(world, other, path)
    form = FORMS[other.count % len(FORMS)]
    text = form.format(before=before.decode().rstrip("\r\n"), entry=entry) if told(before) else f"{entry}\n"
    _write(world, other, path, text.encode())


def _drop(world: World, other: Other, path: str) -> None:
    """An entry less."""
    kept = entries.read(_read(world, other, path))[:-1]
    if path in _paths(world, other):
        _write(world, other, path, entries.write(kept))


def _note(world: World, other: Other, path: str, text: str) -> None:
    """A whole file; where a directory is, nothing."""
    if not any(each.startswith(path + "/") or path.startswith(each + "/") for each in _paths(world, other)):
        _write(world, other, path, text.encode())


def _fixed(world: World, other: Other, text: str) -> None:
    """Fixed files as another version of the format has them."""
    _write(world, other, "README.md", f"# {text}\n".encode())
    _write(world, other, ".soul-spec.json", json.dumps({"spec": "soul-repo", "version": 14}).encode())


def _paths(world: World, other: Other) -> set[str]:
    return {path for path, _ in world.server.files(world.server.info(other.tip or "").tree)}


def _read(world: World, other: Other, path: str) -> bytes:
    file = world.server.entry(world.server.info(other.tip or "").tree, path)
    return world.server.read(file.oid) if file is not None else b""


def _write(world: World, other: Other, path: str, content: bytes) -> None:
    """A commit on its own main."""
    server, tip = world.server, other.tip or ""
    before = _read(world, other, path) if path in _paths(world, other) else None
    tree = server.edit(server.info(tip).tree, {path: File(server.write(content), PLAIN)})
    if before == content:
        return
    other.tip = _commit(world, other, tree, [tip], SUBJECTS[other.count % len(SUBJECTS)])
    world.ledger.changed(other.name, path, before, content)


def _commit(world: World, other: Other, tree: str, parents: list[str], subject: str) -> str:
    other.count += 1
    author, mail = f"Kaoru（{other.name}）", f"{other.name}@example.invalid"
    made = world.server.commit(tree, parents, author, mail, subject, int(1_800_000_000 + world.elapsed))
    world.server.flush()
    return made


_STEPS = {"sync": _sync, "add": _add, "drop": _drop, "note": _note, "fixed": _fixed}
