"""Whether what stands at the configured place is this body's soul, where it does not carry the id that is known."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from bridge.adapters import formats
from bridge.adapters.repo import Repo
from bridge.app.standing import ABSENCES
from bridge.core import identity, ports, publish
from bridge.core.errors import Refused
from bridge.core.layout import MAIN
from bridge.core.model import Presence

AWAY = (
    "Nothing was recorded, marked or deleted. Move what stands there out of the way, then bring this body's checkout "
    "back, or have a new one made: soul-bridge init {agent}"
)


def refuse_another(
    agent: str,
    repo: Repo,
    mark: Path,
    inside: Path,
    materialised: Path,
    reach: Callable[[Repo], ports.Remote] | None,
) -> None:
    """Raise Refused for a checkout that is not this agent's (MERGE-5), or where nobody can tell (GUARD-2).

    To be asked before anything is written there; `repo` is closed when it raises. The files: `mark`, the id that is
    known; `inside`, what the checkout has; `materialised`, the commit this body last brought to disk. reach: the way to
    the remote for a repository, None without one. Raises as a fetch does.
    """
    known, commit = formats.line_of(mark), formats.line_of(materialised)
    if known is None or formats.line_of(inside) == known:
        return
    try:
        if repo.tip(MAIN) is not None and not (commit is not None and repo.has(commit)):
            _compare(agent, repo, mark.parent, reach)
    except BaseException:
        repo.close()
        raise


def _compare(agent: str, repo: Repo, state: Path, reach: Callable[[Repo], ports.Remote] | None) -> None:
    """Compare a checkout with the remote: what that says goes into a repository in `state`, and is gone afterwards, for
    nothing of this soul may lie in another one's."""
    head = repo.tip(MAIN) or ""
    here, there = _id(repo, head), None
    if reach is not None:
        with ExitStack() as ends:
            place = ends.enter_context(tempfile.TemporaryDirectory(dir=state, prefix="remote."))
            asked = Repo.create(place)
            ends.callback(asked.close)
            remote = reach(asked)
            ends.callback(remote.close)
            tip = remote.fetch([]).tip
            if tip is not None and (repo.has(tip) or asked.has(head)):
                return
            there = None if tip is None else _id(asked, tip)
    if here is None or there is None:
        raise Refused(ABSENCES[Presence.FOREIGN], kind="disk", rule="GUARD-2", advice=AWAY.format(agent=agent))
    if here != there:
        raise publish.two_agents(here, there, AWAY.format(agent=agent))


def _id(repo: Repo, commit: str) -> str | None:
    file = repo.entry(repo.info(commit).tree, identity.PATH)
    return None if file is None or not file.regular else identity.id_of(repo.read(file.oid))
