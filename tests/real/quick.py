"""Bodies whose commands run in the process of the tests: the same program, without starting Python for each call."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field

from bridge import cli
from bridge.adapters import config
from tests.real import fleet
from tests.real.fleet import QUICK, Done


@dataclass
class Body(fleet.Body):
    """A body that is called in this process; `start` and calls with an environment of their own are processes."""

    files_before: dict[str, bytes] = field(default_factory=dict)

    def run(self, *words: str, stdin: int | str = fleet.subprocess.DEVNULL, **environment: str) -> Done:
        """Call the program as a person does."""
        if environment or self.environment or isinstance(stdin, str):
            return super().run(*words, stdin=stdin, **environment)
        out, err = io.StringIO(), io.StringIO()
        with _home(self.env()):
            places = config.locate()
            try:
                code = cli.run(words, places, out, err)
            except SystemExit as end:
                code = end.code if isinstance(end.code, int) else 0
        return Done(words, code, out.getvalue(), err.getvalue())


@contextlib.contextmanager
def _home(environment: dict[str, str]) -> Iterator[None]:
    kept = dict(os.environ)
    os.environ.clear()
    os.environ.update(environment)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(kept)
