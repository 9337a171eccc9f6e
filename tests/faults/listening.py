"""A plugin for the tests that a fault is tried on: writes down the first one that failed, and why.

Loaded with `-p tests.faults.listening`; HEARD in the environment names the file.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

_failed: dict[str, str] = {}


def pytest_exception_interact(
    node: pytest.Item | pytest.Collector,
    call: pytest.CallInfo[object],
    report: pytest.CollectReport | pytest.TestReport,
) -> None:
    """Only what a test itself says counts: a fixture or an import that fails proves nothing."""
    if call.excinfo is None:
        return
    if isinstance(report, pytest.TestReport) and report.when == "call":
        _failed.setdefault("test", node.nodeid)
        _failed.setdefault("words", f"{call.excinfo.typename}: {call.excinfo.value}")
    else:
        _failed.setdefault("elsewhere", f"{node.nodeid}: {call.excinfo.typename}: {call.excinfo.value}")


def pytest_sessionfinish() -> None:
    """Write it down."""
    Path(os.environ["HEARD"]).write_text(json.dumps(_failed))
