"""A line in two crontabs: add, commit, `git pull --rebase && git push`, each minute, on the minute."""

from __future__ import annotations

from bench.peers.pair import GitPair, Pair, Peer, clones
from bench.world import World

_LOOP = """\
while :; do
    sleep $(({period} - $(date +%s) % {period}))
    git add -A
    git diff --cached --quiet || git commit -q -m "as of $(date)"
    git pull -q --rebase && git push -q
done
"""


class CronPair(GitPair):
    """Both machines run the same line."""

    def __init__(self, world: World) -> None:
        users, folders, bare = clones(world, "cron")
        super().__init__(folders[0], folders[1], bare)
        for user, folder in zip(users, folders, strict=True):
            script = _LOOP.format(period=world.sizes.period)
            self.child(["sh", "-c", script], folder.parent / "log", folder, user.environment())


def _open(world: World) -> Pair:
    return CronPair(world)


PEER = Peer(
    "cron",
    "each minute on both machines: git add, commit, `git pull --rebase && git push`",
    ("git", "ssh"),
    ("git", "--version"),
    _open,
    patient=True,
)
