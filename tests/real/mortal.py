"""Passes that die at one chosen effect: a process that has the program loaded, forks for each call and kills the fork.

`python -m tests.real.mortal` reads a call as one line of JSON and answers with one line. The fork is the program as
anybody runs it; nothing in it knows that it is watched (see `tests.effects`).
"""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from typing import Any, NoReturn

from tests.effects import Effect, watched
from tests.real.fleet import PACKAGE, Body

LONGEST = 60  # seconds of one call


@dataclass(frozen=True)
class End:
    """How a call ended. effects: how many there were. last: the one it died at, "" when it ended by itself; then its
    exit code."""

    effects: int
    last: str
    code: int


class Mortal:
    """Calls the program; each call may be told at which effect it dies."""

    def __init__(self) -> None:
        self._child = subprocess.Popen(
            [sys.executable, "-m", "tests.real.mortal"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=PACKAGE
        )

    def call(self, body: Body, at: int, *words: str) -> End:
        """Call the program as this body; it is killed right before its effect number `at` (0: never)."""
        assert self._child.stdin is not None and self._child.stdout is not None
        self._child.stdin.write(json.dumps({"at": at, "words": words, "env": body.env()}).encode() + b"\n")
        self._child.stdin.flush()
        return End(**json.loads(self._child.stdout.readline()))

    def close(self) -> None:
        """End it."""
        assert self._child.stdin is not None and self._child.stdout is not None
        self._child.stdin.close()
        self._child.wait(20)
        self._child.stdout.close()


class Count:
    """Counts effects, and dies at one of them."""

    def __init__(self, at: int, told: int) -> None:
        self._at, self._told = at, told
        self._number = 0

    def __call__(self, effect: Effect) -> None:
        """One more; two threads may come at once, and then either is as good."""
        self._number += 1
        if self._number == self._at:
            if effect.kind == "write":
                write, descriptor, content = effect.more
                write(descriptor, content[: len(content) // 2])
            self.tell(str(effect))
            os.kill(os.getpid(), signal.SIGKILL)

    def tell(self, last: str) -> None:
        """Say how far it came."""
        line = json.dumps([self._number, last]).encode()
        with os.fdopen(os.dup(self._told), "wb", buffering=0) as told:
            told.write(line)


def _one(call: dict[str, Any]) -> dict[str, Any]:
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)
        _live(call, writing)
    os.close(writing)
    with os.fdopen(reading, "rb") as told:
        effects, last = json.loads(told.read() or b'[0, "it said nothing"]')
    _, status = os.waitpid(child, 0)
    return {"effects": effects, "last": last, "code": os.waitstatus_to_exitcode(status)}


def _live(call: dict[str, Any], told: int) -> NoReturn:
    from bridge import cli

    os.environ.clear()
    os.environ.update(call["env"])
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)
    signal.alarm(LONGEST)
    count, code = Count(call["at"], told), 70
    try:
        with watched(count):
            code = cli.main(call["words"])
    finally:
        count.tell("")
        os._exit(code)


def _main() -> None:
    import bridge

    for module in pkgutil.walk_packages(bridge.__path__, "bridge."):
        if module.name != "bridge.__main__":
            importlib.import_module(module.name)
    for line in sys.stdin:
        sys.stdout.write(json.dumps(_one(json.loads(line))) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    _main()
