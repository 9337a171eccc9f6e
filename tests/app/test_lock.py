"""One daemon at a time: the kernel's lock says who lives, and ends with its holder."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from bridge.adapters.lock import Lock, holder, is_held
from bridge.core.errors import Refused, Transient

HOLD = """
import sys, time
from pathlib import Path
from bridge.adapters.lock import Lock
Lock(*map(Path, sys.argv[1:])).acquire()
print("held", flush=True)
time.sleep(60)
"""


def hold_elsewhere(*paths: Path) -> subprocess.Popen[str]:
    """Another program that holds these locks."""
    words = [sys.executable, "-c", HOLD, *map(str, paths)]
    other = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    assert other.stdout is not None
    assert other.stdout.readline() == "held\n"
    return other


def test_a_second_daemon_is_refused_by_name_and_exits_1(tmp_path: Path) -> None:
    path = tmp_path / "state" / "lock"
    with hold_elsewhere(path) as other:
        with pytest.raises(Refused, match=rf"pid {other.pid}\b") as caught:
            Lock(path).acquire()
        assert (caught.value.exit_code, caught.value.kind) == (1, "busy")
        assert holder(path) == other.pid
        other.kill()


def test_a_killed_holder_holds_nothing(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with hold_elsewhere(path) as other:
        os.kill(other.pid, signal.SIGKILL)
    assert path.exists()
    assert not is_held(path)
    with Lock(path) as lock:
        assert lock.held
        assert holder(path) == os.getpid()


def test_the_number_of_a_dead_holder_is_not_believed(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    path.write_text(f"{os.getpid()}\n")
    assert holder(path) is None
    assert not is_held(path)


def test_both_locks_are_taken_or_none(tmp_path: Path) -> None:
    mine, shared = tmp_path / "state" / "lock", tmp_path / "soul-bridge" / "lock"
    with hold_elsewhere(shared) as other:
        lock = Lock(mine, shared)
        with pytest.raises(Refused):
            lock.acquire()
        assert not lock.held
        assert not is_held(mine)
        other.kill()


def test_a_released_lock_can_be_taken_again_and_its_file_stays(tmp_path: Path) -> None:
    lock = Lock(tmp_path / "lock")
    lock.acquire()
    lock.acquire()
    lock.release()
    lock.release()
    assert not lock.held
    assert not is_held(tmp_path / "lock")
    assert stat.S_IMODE((tmp_path / "lock").stat().st_mode) == 0o600
    with lock:
        assert is_held(tmp_path / "lock")


def test_looking_at_a_lock_never_turns_a_starting_daemon_away(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    stop = threading.Event()

    def look() -> None:
        while not stop.is_set():
            is_held(path)

    looking = threading.Thread(target=look)
    looking.start()
    try:
        for _ in range(20):
            with Lock(path) as lock:
                assert lock.held
    finally:
        stop.set()
        looking.join()


def test_a_lock_file_that_was_removed_keeps_nobody_out_so_it_is_made_anew(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    first = Lock(path)
    first.acquire()
    path.unlink()
    with Lock(path) as second:
        assert second.held
        assert is_held(path)
    first.release()


@pytest.mark.parametrize("place", ["file/lock", "link"])
def test_a_lock_that_cannot_be_made_is_told_without_a_traceback(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path / "file")
    with pytest.raises(Transient) as caught:
        Lock(tmp_path / place).acquire()
    assert caught.value.kind == "disk"
    assert not is_held(tmp_path / place)


def test_a_holder_whose_file_was_taken_away_takes_the_new_one(tmp_path: Path) -> None:
    """Two files, one replaced: it is found by its name again, and the other stays held all the while."""
    mine, shared = tmp_path / "mine", tmp_path / "shared"
    lock = Lock(mine, shared)
    lock.acquire()
    lock.renew(mine)
    mine.unlink()
    mine.touch()
    assert not lock.stands(mine) and lock.stands(shared) and not is_held(mine)
    lock.renew(mine)
    assert lock.held and lock.stands(mine) and is_held(mine) and is_held(shared)
    lock.release()
    lock.renew(mine)
    assert not is_held(mine) and not is_held(shared)


def test_a_holder_does_not_take_a_new_file_from_whoever_was_quicker(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    lock = Lock(path)
    lock.acquire()
    path.unlink()
    with hold_elsewhere(path) as other:
        with pytest.raises(Refused, match=f"pid {other.pid}"):
            lock.renew(path)
        assert lock.held and not lock.stands(path)
        other.kill()
