"""Traps H: growth, resources, and a status that tells the truth (tests/TRAPS.md)."""

from __future__ import annotations

import contextlib
import gc
import json
import os
import resource
import sqlite3
import threading
from pathlib import Path

import pytest

from bridge.adapters.repo import Repo
from tests.real.fleet import fsck, until
from tests.real.quick import Body, Fleet

MEMORY = "memories/MEMORY.md"
CANOE = "§\nhas a canoe\n"


def packs(body: Body) -> int:
    """How many packs lie in the checkout."""
    return len(list((body.soul / ".git/objects/pack").glob("*.pack")))


def pile_up(body: Body, number: int) -> None:
    """So many packs more, as so many passes would have left."""
    with contextlib.closing(Repo.open(body.soul)) as repo:
        for each in range(number):
            repo.write(b"%d" % each)
            repo.flush()


@pytest.mark.parametrize("daemon", [False, True], ids=["by calls of sync", "by a daemon"])
def test_what_many_passes_left_is_put_together(laptop: Body, daemon: bool) -> None:
    """Traps 132, 133: the number of packs is bounded, whoever makes the passes, and nothing is lost by it."""
    pile_up(laptop, 60)
    laptop.person("config", "core.repositoryFormatVersion", "1")
    laptop.person("config", "extensions.preciousObjects", "true")
    laptop.append(MEMORY, CANOE)
    if daemon:
        laptop.start()
        until(lambda: packs(laptop) <= 50, "the packs are put together", 15)
        assert laptop.stop() == 0
    else:
        laptop.sync()
        assert packs(laptop) <= 50
    fsck(laptop.soul)
    assert b"has a canoe" in laptop.tree()[MEMORY]


def test_housekeeping_that_fails_is_told_and_stops_nothing(laptop: Body) -> None:
    """Trap 133: packs that git cannot put together are a warning in the status, and passes go on."""
    before = set((laptop.soul / ".git/objects/pack").glob("*.pack"))
    pile_up(laptop, 60)
    for torn in sorted(set((laptop.soul / ".git/objects/pack").glob("*.pack")) - before)[:30]:
        torn.chmod(0o644)
        content = bytearray(torn.read_bytes())
        content[13] ^= 0xFF
        torn.write_bytes(content)
    laptop.start()
    until(lambda: any("packs" in words for words in laptop.seen()["warnings"]), "it is told", 20)
    laptop.append(MEMORY, CANOE)
    until(lambda: b"has a canoe" in laptop.tree()[MEMORY], "passes go on")
    assert laptop.stop() == 0


def test_a_hundred_idle_looks_leave_nothing_behind(laptop: Body, fleet: Fleet) -> None:
    """Traps 106, 132, 135: no commit, no pack, no ref, no file, no descriptor, no thread, no child, no memory."""
    laptop.sync()

    def count() -> dict[str, int]:
        gc.collect()
        return {
            "descriptors": len(os.listdir("/proc/self/fd")),
            "threads": threading.active_count(),
            "children": len(Path("/proc/self/task", str(os.getpid()), "children").read_text().split()),
            "packs": packs(laptop),
            "refs": len(laptop.git("for-each-ref").splitlines()),
            "state": len(list(laptop.state.iterdir())),
            "private": len([each for each in laptop.private().rglob("*") if each.name != "seen.db-wal"]),
        }

    for _ in range(5):
        laptop.sync()
    before, memory = count(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(40):
        laptop.sync()
    after = count()
    # The host runs in this process as well: its threads come and go with connections.
    assert all(after[name] <= before[name] + (4 if name in ("threads", "descriptors") else 0) for name in before), after
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory < 20_000
    assert fleet.tip() == laptop.tip()


def test_the_same_trouble_is_told_once(laptop: Body) -> None:
    """Trap 134: a log and the facts of a long failure hold it once, not once for each try."""
    laptop.configure(poll="100ms")
    config = laptop.home / "config/kaoru.yaml"
    config.write_text(config.read_text().replace("127.0.0.1", "127.0.0.9"))
    known = laptop.home / "known_hosts"
    known.write_text(known.read_text().replace("127.0.0.1", "127.0.0.9"))
    laptop.start()
    for number in range(12):
        laptop.append(MEMORY, f"§\nnumber {number}\n")
        until(lambda n=number: b"number %d" % n in laptop.tree()[MEMORY], "it is recorded")  # type: ignore[misc]
    assert laptop.stop() == 0
    assert len(laptop.events("remote.unreachable")) == 1
    assert len(laptop.log()) < 12 * 500
    assert laptop.log().count("cannot reach") <= 14


def test_a_daemon_without_a_remote_rests(laptop: Body) -> None:
    """Traps 61, 135: while nobody answers it uses next to no time, starts no child and keeps no descriptor."""
    config = laptop.home / "config/kaoru.yaml"
    config.write_text(config.read_text().replace("127.0.0.1", "127.0.0.9"))
    known = laptop.home / "known_hosts"
    known.write_text(known.read_text().replace("127.0.0.1", "127.0.0.9"))
    laptop.start()
    assert laptop.daemon is not None
    proc = Path("/proc", str(laptop.daemon.pid))
    until(lambda: laptop.seen().get("state") == "waiting", "it waits")

    def used() -> float:
        words = proc.joinpath("stat").read_text().rsplit(")", 1)[1].split()
        return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")

    before, descriptors = used(), len(os.listdir(proc / "fd"))
    threading.Event().wait(3)
    assert used() - before < 0.3
    assert len(os.listdir(proc / "fd")) <= descriptors + 1
    assert not proc.joinpath("task", str(laptop.daemon.pid), "children").read_text().split()
    assert laptop.stop() == 0


def test_the_status_tells_what_has_not_arrived(laptop: Body, server: Body, fleet: Fleet) -> None:
    """Trap 136: one document, one truth: unpushed commits, waiting files, the age of the last answer, the fleet."""
    laptop.sync()
    laptop.append(MEMORY, CANOE)
    laptop.write("notes/big.md", "x")
    fleet.server.revoke(fleet.repository, laptop.public_line())
    laptop.sync(code=4)
    document = laptop.status()
    assert document["state"] == "stopped" and document["ahead"] == 1
    assert document["problem"]["kind"] == "auth" and document["problem"]["advice"]
    assert {one["body"] for one in document["bodies"]} == {"laptop", "server"}
    first = laptop.run("status").out.splitlines()[0]
    assert "1 commit" in first and "key refused" in first
    assert laptop.run("status").code == 0
    fleet.server.authorize(fleet.repository, laptop.public_line())
    laptop.sync()
    assert "in sync with origin" in laptop.run("status").out.splitlines()[0]


def test_what_the_rules_leave_out_is_no_alarm(laptop: Body) -> None:
    """Trap 137: ignored and temporary files make nothing "not in sync"; how many they are is told."""
    for name in ("scratch.tmp", ".MEMORY.md.swp", "notes/.DS_Store", "memories/x.incoming-1.md"):
        laptop.write(name, "x\n")
    laptop.sync()
    document = laptop.status()
    assert document["ignored"] == 4 and not document["pending"] and not document["held"] and not document["problem"]
    assert laptop.run("status").out.startswith(("stopped; in sync", "in sync"))


def test_a_conflict_is_open_until_it_is_settled(laptop: Body, server: Body) -> None:
    """Trap 138: restored, dismissed, or written again by anybody: it goes off every list by itself."""
    names = [f"notes/{name}.md" for name in ("restored", "dismissed", "written")]
    for body in (laptop, server):
        for name in names:
            body.write(name, f"# {name}\n\n{body.name}\n")
    laptop.sync()
    threading.Event().wait(1.1)
    server.sync()
    laptop.sync()
    found = {one["path"]: one["id"] for one in laptop.json("conflicts")}
    assert set(found) == set(names)
    laptop.json("restore", found[names[0]])
    laptop.json("conflicts", "--dismiss", found[names[1]])
    laptop.write(names[2], f"# {names[2]}\n\nlaptop\n")
    laptop.sync()
    server.sync()
    assert laptop.json("conflicts") == server.json("conflicts") == []


def test_a_table_of_a_newer_version_is_refused_and_loses_nothing(laptop: Body, server: Body, fleet: Fleet) -> None:
    """Trap 139: after a downgrade it says so and touches nothing; with the newer version again, all is there."""
    laptop.append(MEMORY, CANOE)
    laptop.remove("notes/tea/sencha.md")
    _version(laptop, 99)
    refused = laptop.run("sync")
    assert refused.code == 2 and "version 99" in refused.err and "soul-bridge --version" in refused.err
    _version(laptop, 1)
    laptop.sync()
    server.sync()
    assert "has a canoe" in server.entries(MEMORY) and not (server.soul / "notes/tea/sencha.md").exists()
    fleet.converge()


def _version(body: Body, number: int) -> None:
    with contextlib.closing(sqlite3.connect(body.private() / "seen.db")) as database:
        database.execute(f"PRAGMA user_version={number}")
        database.commit()


def test_a_soul_of_a_later_version_is_synchronised_as_it_is(laptop: Body, server: Body, fleet: Fleet) -> None:
    """Trap 139; TREE-3: another implementation's version and files are never written back to ours."""
    spec = '{\n  "spec": "soul-repo",\n  "version": 14,\n  "more": true\n}\n'
    server.write(".soul-spec.json", spec)
    server.write("future/thing.json", '{"a": 1}\n')
    server.sync()
    laptop.append(MEMORY, CANOE)
    for body in (laptop, server, laptop):
        body.sync()
    assert laptop.read(".soul-spec.json") == server.read(".soul-spec.json") == spec
    assert laptop.read("future/thing.json") == '{"a": 1}\n'
    assert json.loads(fleet.agree()[".soul-spec.json"])["version"] == 14
