"""Souls of any size, laid into the host's repositories by `git fast-import`."""

from __future__ import annotations

import random
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.measure import NotSeen, timed
from bench.world import Body, World
from bridge.adapters.clock import SystemClock

FOLDER = 200  # notes in one folder at most
_WHO = "Kaoru (elsewhere) <kaoru@elsewhere.local>"
_skeletons: dict[int, dict[str, bytes]] = {}


@dataclass(frozen=True)
class Made:
    """A soul on the host, a body that joined it, and how many seconds that took."""

    repo: str
    body: Body
    took: float
    notes: int
    commits: int


_made: dict[tuple[int, int, int], Made] = {}


def note(number: int) -> str:
    """The path of a note."""
    return f"notes/f{number // FOLDER:04d}/n{number:06d}.md"


def text(number: int, version: int) -> bytes:
    """A note of the usual length, about 600 bytes."""
    line = f"Version {version} of what is worth knowing about {number}, in a line of its own.\n"
    return (f"# n{number:06d}\n\n" + line * 8).encode()


def made(world: World, notes: int, commits: int) -> Made:
    """A soul of this size with one body; the same one each time in a run."""
    key = (id(world), notes, commits)
    if key not in _made:
        repo = build(world, notes, commits)
        body = Body("here", world.fresh(f"soul-{notes}"))
        world.server.authorize(body.make_key())
        took = timed(lambda: world.join(body, repo, body.agents[0], apart=True))
        found = sum(1 for _ in (body.soul() / "notes").rglob("*.md"))
        if found != notes:
            raise NotSeen(f"the clone holds {found} notes of {notes}")
        _made[key] = Made(repo, body, took, notes, commits)
    return _made[key]


def build(world: World, notes: int, commits: int) -> str:
    """A repository on the host with so many notes and commits; its name."""
    repo = world.repo(f"soul-{notes}-{commits}")
    _import(world.server.path(repo), _stream(_skeleton(world), notes, commits))
    return repo


def advance(bare: Path, paths: Sequence[str]) -> None:
    """One commit of another body on the host's main that changes these paths."""
    now = int(SystemClock().now())

    def stream() -> Iterator[bytes]:
        yield f"commit refs/heads/main\ncommitter {_WHO} {now} +0000\ndata 5\nelse.\nfrom refs/heads/main^0\n".encode()
        for path in paths:
            yield _file(path, f"# {path}\n\n{random.random()}\n".encode())  # noqa: S311 - only to differ

    _import(bare, stream())


def _skeleton(world: World) -> dict[str, bytes]:
    """The files of a fresh soul, as `init` makes them."""
    if id(world) not in _skeletons:
        body = world.body("elsewhere", world.repo("skeleton"))
        paths = [path for path in body.soul().rglob("*") if path.is_file() and ".git/" not in f"{path}"]
        _skeletons[id(world)] = {path.relative_to(body.soul()).as_posix(): path.read_bytes() for path in paths}
    return _skeletons[id(world)]


def _stream(skeleton: dict[str, bytes], notes: int, commits: int) -> Iterator[bytes]:
    begin = int(SystemClock().now()) - 60 * commits - 3600
    for number in range(commits):
        yield f"commit refs/heads/main\ncommitter {_WHO} {begin + 60 * number} +0000\ndata 9\nnotes +1.\n".encode()
        if number == 0:
            yield from (_file(path, content) for path, content in skeleton.items())
            yield from (_file(note(each), text(each, 0)) for each in range(notes))
        else:
            each = number * 7919 % notes
            yield _file(note(each), text(each, number))
        yield b"\n"


def _file(path: str, content: bytes) -> bytes:
    return f"M 100644 inline {path}\ndata {len(content)}\n".encode() + content + b"\n"


def _import(bare: Path, stream: Iterator[bytes]) -> None:
    command = ["git", "fast-import", "--quiet", "--date-format=raw", "--force"]
    child = subprocess.Popen(command, cwd=bare, stdin=subprocess.PIPE, stderr=subprocess.PIPE)
    assert child.stdin is not None and child.stderr is not None  # noqa: S101 - pipes were asked for
    try:
        child.stdin.writelines(stream)
        child.stdin.close()
    except BrokenPipeError:
        pass
    said = child.stderr.read().decode(errors="replace")
    if child.wait():
        raise NotSeen(f"git fast-import: {said[-500:]}")
