"""Real bodies with a bound on memory and time, and everything outside their checkouts watched."""

from __future__ import annotations

import contextlib
import os
import resource
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.hostile.forge import Forge
from tests.real.fleet import QUICK, Body, Done, Fleet

MEMORY = 1_200_000  # KiB of address space for the program and each of its children
LONGEST = 40.0  # seconds that one command may take, whatever it meets


class Bounded(Body):
    """A body that is killed rather than let grow; `slowest`: seconds of its slowest command so far.

    `within` bounds it just as much, only that what it would be killed for is then an error of its own.
    """

    slowest: float = 0.0
    memory: int = MEMORY

    def command(self, *words: str) -> list[str]:
        return ["sh", "-c", f'ulimit -v {self.memory} && exec "$@"', "sh", *super().command(*words)]

    def run(self, *words: str, stdin: int | str = subprocess.DEVNULL, **environment: str) -> Done:
        began = time.monotonic()
        done = super().run(*words, stdin=stdin, **environment)
        self.slowest = max(self.slowest, time.monotonic() - began)
        assert self.slowest < LONGEST, (words, self.slowest)
        assert "Traceback" not in done.out + done.err, done.err
        assert not (self.home / "state" / "errors.log").exists(), (self.home / "state" / "errors.log").read_text()
        return done

    def _run_within(self, words: tuple[str, ...], **environment: str) -> Done:
        with at_most(self.memory):
            return super()._run_within(words, **environment)

    def held(self) -> dict[str, str]:
        """Rule by held path, as `status` tells it."""
        return {item["path"]: item["rule"] for item in self.status()["held"]}


@dataclass
class Ground(Fleet):
    """A repository whose server anybody may have written to, and the bodies around it."""

    places: list[Path] = field(default_factory=list)
    before: dict[Path, bytes] = field(default_factory=dict)

    @property
    def forge(self) -> Forge:
        """Writes on the server, past git."""
        return Forge(self.bare)

    def body(self, name: str, *, authorized: bool = True, init: bool = True, **settings: str) -> Bounded:
        body = Bounded(name, self.root / name, self.server.address(self.repository), self.agent, within=self.within)
        body.home.mkdir()
        self.bodies[name] = body
        line = body.make_key()
        if authorized:
            self.server.authorize(self.repository, line)
        if init:
            self.join(body, **settings)
        return body

    def join(self, body: Body, code: int = 0, **settings: str) -> Any:
        """Make it a body of this soul."""
        answer = body.init("--host-key", self.server.fingerprint(), "--display-name", "Kaoru", code=code)
        body.configure(**(QUICK | settings))
        return answer

    def watch(self, *places: Path) -> None:
        """From now on nothing in these places may change: `untouched` looks."""
        self.places += places
        self.before = self._contents()

    def untouched(self) -> None:
        """Nothing in the watched places was changed or taken away, and nothing came to them."""
        assert self._contents() == self.before

    def _contents(self) -> dict[Path, bytes]:
        files = [path for place in self.places for path in (place, *place.rglob("*"))]
        return {path: path.read_bytes() if path.is_file() else b"" for path in files}


@contextlib.contextmanager
def at_most(more: int) -> Iterator[None]:
    """So many KiB of address space may this process grow meanwhile, and so many more than it each of its children."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    before, hardest = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + more * 1024, hardest))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (before, hardest))


def below(place: Path) -> list[str]:
    """Every name below a directory, links not followed, git's own directory left out."""
    found = []
    for folder, names, files in os.walk(os.fsencode(place)):
        if Path(os.fsdecode(folder)) == place and b".git" in names:
            names.remove(b".git")
        found += [
            os.fsdecode(os.path.relpath(os.path.join(folder, each), os.fsencode(place))) for each in files + names
        ]
    return sorted(found)
