"""What is committed, by itself, and what is built of it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.packaging.building import ROOT, run


@pytest.fixture(scope="session")
def export(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What is committed, by itself; others may go on committing meanwhile."""
    place = tmp_path_factory.mktemp("export")
    run("git", "-c", "safe.directory=*", "clone", "-q", "--no-local", ROOT, place / "clone", cwd=place)
    return place / "clone"


@pytest.fixture(scope="session")
def dist(export: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with wheel and source distribution."""
    place = tmp_path_factory.mktemp("dist")
    run(sys.executable, export / "scripts" / "dist", "--output", place, cwd=place)
    assert [path.name.split("-")[0] for path in place.iterdir()] == ["soul_bridge", "soul_bridge"]
    return place
