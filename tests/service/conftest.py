"""One manager for all of these tests, outside of the folders that a unit does not see (PrivateTmp)."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from bridge.app.host import Host
from tests.real.fleet import Body, Fleet
from tests.service.manager import Manager, missing


@pytest.fixture(scope="session")
def manager() -> Iterator[Manager]:
    """A real `systemd --user`."""
    if absent := missing():
        pytest.skip(absent)
    root = Path(tempfile.mkdtemp(prefix="soul-bridge-test-", dir="/var/lib"))
    running = Manager(root)
    yield running
    running.stop()
    shutil.rmtree(root)


@pytest.fixture(scope="session")
def host(manager: Manager) -> Iterator[Host]:
    """A git host that lives as long as the tests."""
    running = Host(manager.home.parent / "host").start()
    yield running
    running.stop()


@pytest.fixture(scope="session")
def joined(manager: Manager, host: Host) -> Iterator[Body]:
    """A body that was joined; its state, its soul and its keys are in a home of its own."""
    host.create("kaoru.soul.git")
    root = manager.home.parent / "fleet"
    root.mkdir()
    fleet = Fleet(host, root, "kaoru.soul.git")
    yield manager.adopt(fleet.body("laptop"))
    fleet.close()


@pytest.fixture
def body(manager: Manager, joined: Body) -> Iterator[Body]:
    """The body, with nothing installed and the configuration that it was joined with."""
    manager.clean()
    configuration = joined.home / "config" / "kaoru.yaml"
    before = configuration.read_text()
    yield joined
    manager.clean()
    for path in configuration.parent.iterdir():
        path.unlink()
    configuration.write_text(before)
