"""Trying a fault: a copy of the program with the fault in it has to fail its tests, and pass them without it."""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.faults.fault import ROOT, Broken, Fault

LEFT_BEHIND = shutil.ignore_patterns(".git", ".venv", "__pycache__", ".*_cache", ".hypothesis", "results")
LONGEST = 600.0  # seconds for all tests of one fault
LONGEST_TEST = 300
# A program that does not even run is no fault of the kind that tests are there to find.
_NO_PROGRAM = re.compile(r"\b(NameError|ImportError|ModuleNotFoundError|SyntaxError|UnboundLocalError)\b")


@dataclass(frozen=True)
class Verdict:
    """How a trial ended. caught: the test that failed, "" when none did. words: what it said. took: seconds."""

    fault: Fault
    caught: str
    words: str
    took: float


class Copy:
    """The program and its tests once more, in a folder of its own; one fault at a time."""

    def __init__(self, place: Path) -> None:
        self._root, self._place = place / "copy", place
        shutil.copytree(ROOT, self._root, symlinks=True, ignore=LEFT_BEHIND)
        self._edits = itertools.count(1)
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "PYTHON"))}
        self._zygote = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.zygote"],
            cwd=self._root,
            env=kept,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def attempt(self, fault: Fault) -> Verdict:
        """Lay the fault, run its tests. Raises Stale and Broken."""
        began = time.monotonic()
        with self._laid(fault):
            heard = self._run(fault.tests)
        if "elsewhere" in heard:
            raise Broken(f"“{fault.name}” fails outside of any test: {heard['elsewhere']}")
        words = heard.get("words", "")
        if _NO_PROGRAM.search(words):
            raise Broken(f"“{fault.name}” is no program any more: {words}")
        caught = heard.get("test", "")
        if caught and (without := self._run((caught,))):
            raise Broken(f"“{fault.name}”: {caught} fails without the fault, too: {without}")
        return Verdict(fault, caught, words, time.monotonic() - began)

    @contextmanager
    def _laid(self, fault: Fault) -> Iterator[None]:
        path = self._root / "bridge" / fault.file
        before, after = path.read_text("utf-8"), fault.lay(self._root)
        try:
            self._write(path, after)
            yield
        finally:
            self._write(path, before)

    def _write(self, path: Path, text: str) -> None:
        path.write_text(text, "utf-8")
        # Compiled code is known to be old by whole seconds and the size, which may both be equal.
        moment = path.stat().st_mtime + next(self._edits)
        os.utime(path, (moment, moment))

    def _run(self, tests: tuple[str, ...]) -> dict[str, str]:
        heard, out = self._place / "heard.json", self._place / "out.txt"
        words = [
            "-x",
            "-q",
            "-W",
            "ignore::pytest.PytestAssertRewriteWarning",
            "-p",
            "no:cacheprovider",
            "-p",
            "no:xdist",
            "-p",
            "no:cov",
            "-p",
            "tests.faults.listening",
        ]
        words += [f"--timeout={LONGEST_TEST}", f"--basetemp={self._place / 'pytest'}", *tests]
        call = {"words": words, "heard": str(heard), "out": str(out), "longest": LONGEST}
        assert self._zygote.stdin is not None and self._zygote.stdout is not None
        self._zygote.stdin.write(json.dumps(call) + "\n")
        self._zygote.stdin.flush()
        code = int(self._zygote.stdout.readline())
        # 0: all passed. 1: some failed. Whatever else: nothing was found to run, or it did not end.
        if code not in (0, 1) or not heard.exists():
            raise Broken(f"{' '.join(tests)} ended with {code}:\n{out.read_text(errors='replace')[-2000:]}")
        found: dict[str, str] = json.loads(heard.read_text())
        return found

    def close(self) -> None:
        """End what runs the tests."""
        assert self._zygote.stdin is not None and self._zygote.stdout is not None
        self._zygote.stdin.close()
        self._zygote.wait(30)
        self._zygote.stdout.close()
