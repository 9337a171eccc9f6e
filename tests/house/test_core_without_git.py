"""The rules need no git, no ssh and no library: they import and pass where none is installed."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

from tests.house.without_libraries import LIBRARIES

ROOT = Path(__file__).parents[2]


def imported(module: Path) -> set[str]:
    """Absolute names of what a module imports, wherever in it the import stands."""
    names = set()
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}: relative import"
            names.add(node.module or "")
    return names


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *words], cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)


def test_the_core_imports_only_the_standard_library_and_itself() -> None:
    foreign = {
        f"{module.name}: {name}"
        for module in (ROOT / "bridge" / "core").glob("*.py")
        for name in imported(module)
        if name.partition(".")[0] not in sys.stdlib_module_names and not f"{name}.".startswith("bridge.core.")
    }
    assert foreign == set()


def test_the_core_reads_no_file_and_no_clock_and_starts_nothing() -> None:
    doing = {"asyncio", "io", "logging", "os", "pathlib", "shutil", "socket", "sqlite3", "subprocess", "tempfile"}
    doing |= {"threading", "time", "urllib"}
    found = {
        f"{module.name}: {name}"
        for module in (ROOT / "bridge" / "core").glob("*.py")
        for name in imported(module)
        if name.partition(".")[0] in doing
    }
    assert found == set()


def test_a_missing_library_is_really_missing_under_the_plugin() -> None:
    code = "from tests.house import without_libraries\nwithout_libraries.pytest_configure()\nimport pygit2"
    answer = run("-c", code)
    assert answer.returncode == 1
    assert "No module named 'pygit2'" in answer.stderr
    assert "pygit2" in LIBRARIES


def test_the_core_and_its_tests_need_no_library() -> None:
    """Importing is enough here: scripts/check runs all of them under the plugin."""
    words = ["-m", "pytest", "-p", "tests.house.without_libraries", "-p", "no:cacheprovider", "--collect-only", "-q"]
    answer = run(*words, "tests/core")
    assert answer.returncode == 0, answer.stdout[-3000:] + answer.stderr[-3000:]
    assert "tests/core/test_vectors.py::" in answer.stdout
    check = (ROOT / "scripts" / "check").read_text()
    assert "coverage run -m pytest -p tests.house.without_libraries -q tests/core" in check
