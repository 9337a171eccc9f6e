"""The floor: git's own commands at once after each write, over an SSH connection that is already open."""

from __future__ import annotations

import subprocess

from bench.peers.pair import GitPair, Pair, Peer, clones
from bench.world import World


class PlainPair(GitPair):
    """A person at both machines who types without a pause."""

    def __init__(self, world: World) -> None:
        self._users, folders, bare = clones(world, "plain", shared=True)
        super().__init__(folders[0], folders[1], bare)
        self._log = folders[0].parent / "log"

    def write(self, name: str, content: str) -> None:
        """Write, and let the commands run: commit and push here, pull there."""
        super().write(name, content)
        for child in self.children:
            child.wait()
        self.children.clear()
        pull = " ".join(f"{key}='{value}'" for key, value in self._users[1].environment().items() if key[:4] == "GIT_")
        script = (
            f"git add -A && git commit -q -m 'a note' && git push -q && cd '{self.there}' && "
            f"HOME='{self.there.parent}' {pull} git pull -q --ff-only"
        )
        self.child(["sh", "-c", script], self._log, self.here, self._users[0].environment())

    def pids(self) -> list[int]:
        """Nothing runs."""
        return []

    def close(self) -> None:
        """Let the last commands end, then hang up."""
        for child in self.children:
            try:
                child.wait(30)
            except subprocess.TimeoutExpired:
                child.kill()
        for user in self._users:
            user.hang_up()


def _open(world: World) -> Pair:
    return PlainPair(world)


PEER = Peer(
    "plain git",
    "the floor: add, commit, push, then pull at the other end, typed without a pause, over one shared SSH connection",
    ("git", "ssh"),
    ("git", "--version"),
    _open,
)
