"""Another program, waited for by a process that has very many files open."""

from __future__ import annotations

import os
import resource
import time
from pathlib import Path

import pytest

from bridge.adapters import child, gitenv
from bridge.core.errors import Transient, Unusable
from tests import shortage

BEYOND = 1100  # select() knows no descriptor beyond 1023


def test_a_program_is_waited_for_and_ended_beyond_the_thousandth_descriptor(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, BEYOND + 200), hard))
    opened = [os.open("/dev/null", os.O_RDONLY) for _ in range(BEYOND)]
    try:
        assert (
            child.start(["sh", "-c", "exit 3"], tmp_path, child.environment(), stdin=opened[0], stdout=2).wait(20) == 3
        )
        slow = child.start(["sleep", "60"], tmp_path, child.environment(), stdin=opened[0], stdout=2)
        assert slow.wait(0.05) is None
        assert slow.end(0.5) == 128 + 15
    finally:
        for descriptor in opened:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def children() -> set[str]:
    """Of this process, ended ones that nobody asked for included."""
    return set(Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split())


def test_a_program_that_cannot_be_watched_over_does_not_run_on(tmp_path: Path) -> None:
    """Nobody would end it when the lease ends; and it is tried again, for the machine is only short of something."""
    before = children()
    with shortage.of_descriptors(), pytest.raises(Transient) as caught:
        child.start(["sh", "-c", "sleep 1; touch late"], tmp_path, child.environment())
    assert caught.value.kind == "busy"
    assert children() <= before
    time.sleep(1.5)
    assert not (tmp_path / "late").exists()


def test_a_git_that_cannot_be_run_is_told_and_one_for_which_there_is_no_room_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with shortage.of_descriptors(), pytest.raises(Transient):
        gitenv.run_git(["version"], gitenv.clean_environment())
    (tmp_path / "git").write_text("no program")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Unusable):
        gitenv.run_git(["version"], gitenv.clean_environment())


def test_a_command_that_no_shell_can_take_is_told_with_what_to_look_at(tmp_path: Path) -> None:
    """A person wrote it into the configuration."""
    with pytest.raises(Unusable) as caught:
        child.start(["tell", "a\0b"], tmp_path, child.environment())
    assert caught.value.kind == "config"
    assert "nothing is lost" in caught.value.advice and "NUL" in caught.value.advice
