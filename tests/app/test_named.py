"""An answer names what it is about, and the command that goes on from there."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from bridge.adapters import systemd
from bridge.app import leasing, undoing
from bridge.app.host import Host
from bridge.core import layout
from bridge.core.errors import Refused
from tests.app.bodies import fleet as world_of
from tests.real.fleet import Body, Fleet


@pytest.fixture
def body(tmp_path: Path) -> Iterator[Body]:
    """A body that joined a soul on a host."""
    host = Host(tmp_path / "host").start()
    host.create("kaoru.soul.git")
    made = Fleet(host, tmp_path, "kaoru.soul.git", within=True)
    yield made.body("laptop")
    made.close()
    host.stop()


def test_the_log_of_a_path_that_was_never_there_names_the_path(body: Body) -> None:
    """REPO-2."""
    assert body.run("log", "nosuch.md").out == "no commit has touched nosuch.md\n"


def test_a_file_that_is_too_large_is_named_once(body: Body) -> None:
    """TREE-6."""
    body.write("notes/big.bin", b"\0" * (layout.LARGEST_STORED + 1))
    said = body.run("validate")
    (line,) = (line for line in said.out.splitlines() if "big.bin" in line and "TREE-6" in line)
    assert said.code == 1 and line.count("notes/big.bin") == 1
    assert said.out.splitlines()[-1].startswith("Next: correct what is named.")


def test_a_commit_without_a_path_is_answered_with_what_may_be_meant() -> None:
    """REPO-3."""
    one = world_of().body("laptop")
    one.settle()
    head = (one.soul.head() or "")[:8]
    with pytest.raises(Refused) as refused:
        undoing.restore(one.soul, {"id": head})
    assert f"For a commit: `soul-bridge restore {head} PATH`, or `soul-bridge revert {head}`." in refused.value.advice
    with pytest.raises(Refused) as refused:
        undoing.restore(one.soul, {"id": "ffffffff"})
    assert "For a commit" not in refused.value.advice


def test_a_lease_that_another_body_holds_is_followed_by_the_command_that_shows_it() -> None:
    """LEASE-2."""
    world = world_of()
    one, two = world.body("laptop"), world.body("phone")
    one.settle()
    two.settle()
    leasing.acquire(one.soul, {})
    with pytest.raises(Refused) as refused:
        leasing.acquire(two.soul, {})
    assert "`soul-bridge lease show`" in refused.value.advice


@pytest.mark.parametrize("booted", [False, True])
def test_where_systemd_does_not_run_nobody_is_told_to_log_in(
    booted: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where it runs, and has no manager for this user, logging in is what helps."""

    def fails(self: systemd.Systemd, words: list[str], more: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(words, 1, "", "Failed to connect to bus: No medium found")

    monkeypatch.setattr(systemd.Systemd, "_run", fails)
    monkeypatch.setattr(systemd, "RUNNING", tmp_path if booted else tmp_path / "none")
    with pytest.raises(Refused) as refused:
        systemd.Systemd(system=False, agent="kaoru").reload()
    assert (refused.value.advice == "soul-bridge run kaoru") != booted
    assert ("systemd does not run here" in refused.value.message) != booted
