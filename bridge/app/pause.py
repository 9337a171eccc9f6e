"""Whether a person stopped the passes of one soul: a file in the state directory, so that a restart does not forget."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from bridge.adapters import folders
from bridge.core.errors import Transient

_NAME = "paused"


def is_paused(state: Path) -> bool:
    """Whether passes are stopped; `state` is the state directory of one soul."""
    return os.path.lexists(state / _NAME)


def pause(state: Path) -> bool:
    """Stop passes, durably; False when they were stopped before. Raises Transient(kind="disk")."""
    if is_paused(state):
        return False
    try:
        folders.make(state)
        os.close(os.open(state / _NAME, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
        _sync(state)
    except OSError as error:
        raise _failed(state, error) from error
    return True


def resume(state: Path) -> bool:
    """Let passes go on, durably; False when they were not stopped. Raises Transient(kind="disk")."""
    if not is_paused(state):
        return False
    try:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(state / _NAME)
        _sync(state)
    except OSError as error:
        raise _failed(state, error) from error
    return True


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _failed(state: Path, error: OSError) -> Transient:
    return Transient(f"{state / _NAME} cannot be changed: {error.strerror}", kind="disk", advice=f"ls -ld {state}")
