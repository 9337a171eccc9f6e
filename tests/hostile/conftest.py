"""A git host that says yes to everything, and bodies whose memory and time are bounded."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import pytest

from bridge.app.host import Host
from tests.hostile.bounded import Ground

_numbers = itertools.count()


@pytest.fixture(scope="session")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """One loopback host for all of these tests."""
    running = Host(tmp_path_factory.mktemp("host") / "h").start()
    yield running
    running.stop()


@pytest.fixture(scope="session")
def found(host: Host, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], Ground]]:
    """Makes a repository of its own for whoever asks; daemons end with the tests."""
    made: list[Ground] = []

    def make() -> Ground:
        repository = f"kaoru{next(_numbers)}.soul.git"
        host.create(repository)
        made.append(Ground(host, tmp_path_factory.mktemp("ground"), repository))
        return made[-1]

    yield make
    for ground in made:
        ground.close()


@pytest.fixture
def ground(found: Callable[[], Ground]) -> Ground:
    """A repository of its own for one test."""
    return found()
