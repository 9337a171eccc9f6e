"""What a person would pick to keep a folder alike on two machines. One room per peer; `ALL` is the order of tables."""

from __future__ import annotations

from bench.peers import annex, cron_git, plain_git, soul_bridge, syncthing, watch_git
from bench.peers.pair import Peer

ALL: tuple[Peer, ...] = (
    soul_bridge.PEER,
    plain_git.PEER,
    syncthing.TUNED,
    syncthing.DEFAULT,
    watch_git.PEER,
    annex.PEER,
    cron_git.PEER,
)


def chosen(names: tuple[str, ...]) -> list[Peer]:
    """The peers that take part; no names: all."""
    return [peer for peer in ALL if not names or peer.name in names]
