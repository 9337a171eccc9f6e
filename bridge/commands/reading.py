"""The repository of a soul, for commands that only read history: no lock, no remote, and nothing imported for them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from bridge.adapters import config
from bridge.adapters.repo import Repo
from bridge.core.errors import Refused


@contextlib.contextmanager
def repository(settings: config.Settings) -> Iterator[Repo]:
    """The soul's repository, open. Raises Refused without one."""
    if not (settings.soul / ".git").is_dir():
        raise no_soul(settings)
    repo = Repo.open(settings.soul)
    try:
        yield repo
    finally:
        repo.close()


def no_soul(settings: config.Settings) -> Refused:
    """The refusal of a folder that holds no soul."""
    return Refused(
        f"there is no soul in {settings.soul}",
        kind="config",
        rule="GUARD-2",
        advice=f"Nothing was changed. Run `soul-bridge init {settings.agent}` to bring it here.",
    )
