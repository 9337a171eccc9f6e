"""Folders of ours: configuration, keys, state, hosts. A leaf, for every adapter and what stands above them."""

from __future__ import annotations

from pathlib import Path


def make(path: Path) -> None:
    """A folder that is only ours (0700), where there is none; one that is there keeps its mode. Raises OSError.

    Those above it that are missing can be read by others, as `mkdir -p` makes them: a unit of the system has its state
    below one. But nobody else can rename what lies in them, whatever the umask says.
    """
    for above in reversed(path.parents):
        if not above.exists():
            above.mkdir(mode=0o755, exist_ok=True)
    path.mkdir(mode=0o700, exist_ok=True)
