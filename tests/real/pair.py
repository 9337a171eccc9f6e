"""Fixtures: one loopback host for all tests of a module or folder, and for each test two bodies that carry one soul."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bridge.app.host import Host
from tests.real import quick


@pytest.fixture(scope="session")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """A git host that lives as long as the tests."""
    running = Host(tmp_path_factory.mktemp("host") / "h").start()
    yield running
    running.stop()


@pytest.fixture(scope="session")
def template(host: Host, tmp_path_factory: pytest.TempPathFactory) -> quick.Fleet:
    """Two bodies that joined one soul and agree; copied for each test."""
    fleet = quick.empty(host, tmp_path_factory.mktemp("template"))
    first, second = fleet.body("laptop"), fleet.body("server")
    first.write("memories/MEMORY.md", "owns a kettle\n§\nspeaks Finnish\n§\nborn in Turku\n")
    first.write("notes/tea/sencha.md", "# sencha\n\n70 degrees.\n")
    fleet.converge([first, second])
    return fleet


@pytest.fixture
def fleet(template: quick.Fleet, tmp_path: Path) -> Iterator[quick.Fleet]:
    """Two bodies, `laptop` and `server`, with a few memories and a note."""
    made = quick.copied(template, tmp_path)
    yield made
    made.close()


@pytest.fixture
def laptop(fleet: quick.Fleet) -> quick.Body:
    """The body that was there first."""
    return fleet.bodies["laptop"]


@pytest.fixture
def server(fleet: quick.Fleet) -> quick.Body:
    """The body that joined."""
    return fleet.bodies["server"]
