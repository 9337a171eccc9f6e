"""A loop like gitwatch: inotifywait, two seconds of quiet, commit, pull, push; and a pull each minute from cron."""

from __future__ import annotations

from bench.peers.pair import GitPair, Pair, Peer, clones
from bench.world import World

_LOOP = """\
(
    while :; do
        sleep $(({period} - $(date +%s) % {period}))
        git pull -q --rebase
    done
) &
inotifywait -q -m -r --exclude '/\\.git(/|$)' -e close_write,modify,move,delete,create . | {{
    waiting=
    while read -r event; do
        [ -n "$waiting" ] && kill "$waiting" 2>/dev/null
        (
            sleep {quiet}
            git add --all .
            git diff --cached --quiet || {{
                git commit -q -m "as of $(date)"
                git pull -q --rebase
                git push -q
            }}
        ) &
        waiting=$!
    done
}}
"""


class WatchPair(GitPair):
    """Both machines run the same loop."""

    def __init__(self, world: World) -> None:
        users, folders, bare = clones(world, "watch")
        super().__init__(folders[0], folders[1], bare)
        for user, folder in zip(users, folders, strict=True):
            script = _LOOP.format(period=world.sizes.period, quiet=2)
            self.child(["bash", "-c", script], folder.parent / "log", folder, user.environment())


def _open(world: World) -> Pair:
    return WatchPair(world)


PEER = Peer(
    "gitwatch-like",
    "inotifywait, 2 s of quiet, git add, commit, pull --rebase, push; and `git pull --rebase` each minute from cron",
    ("inotifywait", "bash", "git", "ssh"),
    ("sh", "-c", "inotifywait --help | head -1"),
    _open,
    patient=True,
)
