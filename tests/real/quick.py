"""Bodies whose commands run in the process of the tests: the same program, without starting Python for each call."""

from __future__ import annotations

import contextlib
import io
import itertools
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bridge import cli
from bridge.adapters import config
from bridge.app.host import Host
from tests.real import fleet
from tests.real.fleet import AGENT, QUICK, Done

_numbers = itertools.count()


@dataclass
class Body(fleet.Body):
    """A body that is called in this process; `start` and calls with an environment of their own are processes."""

    def run(self, *words: str, stdin: int | str = subprocess.DEVNULL, **environment: str) -> Done:
        """Call the program as a person does."""
        if environment or self.environment or isinstance(stdin, str):
            return super().run(*words, stdin=stdin, **environment)
        out, err = io.StringIO(), io.StringIO()
        with _surroundings(self.env()):
            try:
                code = cli.run(words, config.locate(), out, err)
            except SystemExit as end:
                code = end.code if isinstance(end.code, int) else 0
        return Done(words, code, out.getvalue(), err.getvalue())

    def events(self, name: str = "") -> list[dict[str, object]]:
        """Facts, all or those of one name."""
        found = self.json("events")
        return [one for one in found if not name or one["event"] == name]

    def person(self, *words: str, check: bool = True, **environment: str) -> str:
        """git in the checkout as somebody at a terminal runs it: nothing is switched off."""
        return person(self.soul, *words, check=check, **environment)

    def private(self) -> Path:
        """The program's own folder in the git directory."""
        return self.soul / ".git" / "soul-bridge"


class Fleet(fleet.Fleet):
    """A fleet of such bodies on the loopback host."""

    server: Host
    bodies: dict[str, Body]  # type: ignore[assignment]

    def body(self, name: str, *, authorized: bool = True, init: bool = True, **settings: str) -> Body:
        """A new body with a key of its own."""
        body = Body(name, self.root / name, self.server.address(self.repository), self.agent)
        body.home.mkdir()
        self.bodies[name] = body
        line = body.make_key()
        if authorized:
            self.server.authorize(self.repository, line)
        if init:
            body.init("--host-key", self.server.fingerprint(), "--display-name", "Kaoru")
            body.configure(**(QUICK | settings))
        return body


def empty(host: Host, root: Path) -> Fleet:
    """A fleet without a body around an empty repository of its own."""
    name = f"{AGENT}{next(_numbers)}.soul.git"
    host.create(name)
    return Fleet(host, root, name)


def copied(template: Fleet, root: Path) -> Fleet:
    """The same fleet once more in another place, as if every disk had been copied; its server stands still."""
    made = empty(template.server, root)
    shutil.rmtree(made.bare)
    shutil.copytree(template.bare, made.bare)
    for name, body in template.bodies.items():
        twin = Body(name, root / name, made.server.address(made.repository), made.agent)
        shutil.copytree(body.home, twin.home, symlinks=True)
        path = twin.home / "config" / f"{twin.agent}.yaml"
        text = path.read_text().replace(str(body.home), str(twin.home)).replace(template.repository, made.repository)
        path.write_text(text)
        made.bodies[name] = twin
        made.server.authorize(made.repository, twin.public_line())
    return made


def person(place: Path, *words: str, check: bool = True, **environment: str) -> str:
    """git as somebody at a terminal runs it, who has told git a name and nothing else."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    who = {f"GIT_{role}_{what}": "person" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    own = {"HOME": str(place.parent), "GIT_CONFIG_NOSYSTEM": "1", "GIT_EDITOR": "true", "LC_ALL": "C.UTF-8"}
    done = subprocess.run(["git", *words], cwd=place, env={**kept, **own, **who, **environment}, capture_output=True)
    assert not check or done.returncode == 0, (words, done.stderr.decode(errors="replace"))
    return done.stdout.decode("utf-8", "surrogateescape")


@contextlib.contextmanager
def _surroundings(environment: dict[str, str]) -> Iterator[None]:
    kept = dict(os.environ)
    os.environ.clear()
    os.environ.update(environment)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(kept)
