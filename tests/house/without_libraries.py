"""Plugin for pytest: as if none of the libraries that adapters use were installed.

Use: `python -m pytest -p tests.house.without_libraries tests/core`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

LIBRARIES = frozenset(
    {
        "apscheduler",
        "cryptography",
        "jsonschema",
        "paramiko",
        "pathspec",
        "pygit2",
        "structlog",
        "watchdog",
        "yaml",
    }
)


class Absent(MetaPathFinder):
    """Answers for the libraries, and says that they are not there."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname.partition(".")[0] in LIBRARIES:
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)
        return None


def pytest_configure() -> None:
    """Begin with it: only where this module is used as a plugin, not where it is imported for its list."""
    sys.meta_path.insert(0, Absent())
