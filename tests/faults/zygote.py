"""Runs of pytest that begin with everything loaded but the program and its tests: a fork for each, many times as quick.

`python -m tests.faults.zygote` in a copy reads one run as a line of JSON and answers with its exit code.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import NoReturn

LOADED = (
    "pytest", "hypothesis", "hypothesis.strategies", "hypothesis.stateful", "pygit2", "paramiko",
    "cryptography.hazmat.primitives.asymmetric.ed25519", "yaml", "jsonschema", "structlog", "pathspec", "watchdog",
    "apscheduler.triggers.cron", "sqlite3", "unittest.mock", "concurrent.futures.thread", "multiprocessing",
)  # fmt: skip


def _run(words: list[str], out: str) -> NoReturn:
    os.setsid()
    said = os.open(out, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    for descriptor in (1, 2):
        os.dup2(said, descriptor)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    import pytest

    code = 70
    try:
        code = int(pytest.main(words))
    except BaseException:  # noqa: BLE001 - whatever it is, it is told
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _wait(child: int, longest: float) -> int:
    """Its exit code; -1 when it took too long. Whatever it started goes with it."""
    end = time.monotonic() + longest
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        late = not done and time.monotonic() > end
        if done or late:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL)
        if done:
            return os.waitstatus_to_exitcode(status)
        if late:
            os.waitpid(child, 0)
            return -1
        time.sleep(0.02)


def _main() -> None:
    for name in LOADED:
        importlib.import_module(name)
    assert not [name for name in sys.modules if name.partition(".")[0] == "bridge"]
    for line in sys.stdin:
        call = json.loads(line)
        os.environ["HEARD"] = call["heard"]
        Path(call["heard"]).unlink(missing_ok=True)
        child = os.fork()
        if not child:
            _run(call["words"], call["out"])
        print(_wait(child, call["longest"]), flush=True)


if __name__ == "__main__":
    _main()
