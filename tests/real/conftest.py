"""One server for all of these tests, and a repository of its own for whoever asks for a fleet."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import pytest

from bridge.app.host import Host
from tests.real.fleet import Fleet, GitSshd, serve
from tests.real.sshd import missing

_numbers = itertools.count()


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GitSshd | Host]:
    """A git host that lives as long as the tests."""
    if (absent := missing()) in ("git", "ssh-keygen"):
        pytest.skip(f"{absent} is missing")
    running = serve(tmp_path_factory.mktemp("server") / "s")
    yield running
    running.stop()


@pytest.fixture(scope="session")
def found(server: GitSshd | Host, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Fleet]]:
    """Makes fleets; their daemons end with the tests."""
    made: list[Fleet] = []

    def make(agent: str = "kaoru", on: GitSshd | Host | None = None) -> Fleet:
        host = server if on is None else on
        name = f"{agent}{next(_numbers)}.soul.git"
        host.create(name)
        made.append(Fleet(host, tmp_path_factory.mktemp("fleet"), name, agent))
        return made[-1]

    yield make
    for fleet in made:
        fleet.close()


@pytest.fixture
def near(found: Callable[..., Fleet]) -> Iterator[Fleet]:
    """A fleet for one test whose calls start no process of their own, to tell longer stories in the same time."""
    made = found()
    made.within = True
    yield made
    made.close()


@pytest.fixture
def fleet(found: Callable[..., Fleet]) -> Iterator[Fleet]:
    """A fleet of its own for one test."""
    made = found()
    yield made
    made.close()
