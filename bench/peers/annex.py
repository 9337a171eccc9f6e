"""git-annex assistant: text in git itself, git-annex-shell on the host, so that it tells of changes at once."""

from __future__ import annotations

from bench.peers.pair import GitPair, Pair, Peer, clones
from bench.world import World


class AnnexPair(GitPair):
    """Both machines run the assistant."""

    refs = ("main", "synced/main")

    def __init__(self, world: World) -> None:
        users, folders, bare = clones(world, "annex", host="annex")
        super().__init__(folders[0], folders[1], bare)
        for user, folder in zip(users, folders, strict=True):
            user.git(folder, "config", "user.name", user.name)
            user.git(folder, "config", "user.email", f"{user.name}@invalid")
            user.git(folder, "config", "core.sshCommand", " ".join(["ssh", *user.ssh_options]))
            user.git(folder, "config", "remote.origin.annex-ssh-options", " ".join(user.ssh_options))
            user.git(folder, "annex", "init", "-q", user.name)
            user.git(folder, "config", "annex.largefiles", "nothing")
            user.git(folder, "annex", "sync", "-q")
        for user, folder in zip(users, folders, strict=True):
            command = ["git", "annex", "assistant", "--foreground", "--startdelay=0"]
            self.child(command, folder.parent / "log", folder, user.environment())


def _open(world: World) -> Pair:
    return AnnexPair(world)


PEER = Peer(
    "git-annex assistant",
    "annex.largefiles=nothing (notes stay text in git), git-annex-shell on the host tells of pushes",
    ("git-annex", "git-annex-shell", "git", "ssh"),
    ("git-annex", "version", "--raw"),
    _open,
)
