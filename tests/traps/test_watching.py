"""Traps F: watching, timing and telling what changed (tests/TRAPS.md)."""

from __future__ import annotations

import os
import signal
import threading
import time

from tests.real.fleet import tree_of, until
from tests.real.quick import Body, Fleet

MEMORY = "memories/MEMORY.md"


def passes(body: Body) -> int:
    """How many passes were made so far."""
    return len(body.events("pass.finished"))


def test_careful_saves_are_seen_and_their_temporary_names_are_not_recorded(
    laptop: Body, server: Body, fleet: Fleet
) -> None:
    """Traps 100, 108: editors write beside and rename over; a lock link, swap and backup names come and go."""
    laptop.configure(poll="60s")
    laptop.start()
    os.symlink("me@host.1234:99", laptop.soul / "memories/.#MEMORY.md")
    laptop.write("memories/.MEMORY.md.swp", b"b0VIM\x00\x01")
    laptop.write("4913", "")
    laptop.remove("4913")
    for number in range(6):
        laptop.rename_over(MEMORY, f"owns a kettle\n§\nsaved {number}\n")
        time.sleep(0.02)
    until(lambda: b"saved 5" in tree_of(fleet.bare).get(MEMORY, b""), "the last save is published", 15)
    for commit in fleet.git("rev-list", "main").split():
        names = set(tree_of(fleet.bare, commit))
        assert not {name for name in names if name.endswith((".tmp", ".swp")) or "4913" in name or "#" in name}
    held = laptop.seen()["held"]
    assert [(one["path"], one["rule"]) for one in held] == [("memories/.#MEMORY.md", "TREE-6")]
    assert laptop.stop() == 0
    server.sync()
    assert server.entries(MEMORY) == ["owns a kettle", "saved 5"]


def test_the_program_does_not_wake_itself(laptop: Body, server: Body) -> None:
    """Trap 101: what it writes into files and into `.git` is no reason for pass after pass."""
    laptop.configure(poll="60s")
    laptop.start()
    server.append(MEMORY, "§\nhas a canoe\n")
    server.sync()
    laptop.sync()
    until(lambda: "has a canoe" in laptop.entries(MEMORY), "it arrives")
    time.sleep(10)  # what came out of the exchange is let go of after two seconds; polls are close for some more
    before = passes(laptop)
    time.sleep(2)
    assert passes(laptop) - before <= 2, "two polls at most"
    assert laptop.stop() == 0


def test_each_new_file_of_a_new_directory_counts(laptop: Body, fleet: Fleet) -> None:
    """Trap 102: the second one too, and the tenth, each by itself."""
    for number in range(4):
        laptop.write(f"notes/new/deep/{number}.md", f"# {number}\n")
        assert laptop.sync()["recorded"] == ["bodies/laptop.json", f"notes/new/deep/{number}.md"]


def test_half_a_text_is_not_published_while_its_writer_is_at_it(laptop: Body, fleet: Fleet) -> None:
    """Trap 105; GUARD-1: a pause longer than `settle` in the middle of a write makes no half version."""
    laptop.start()
    with (laptop.soul / "notes/slow.md").open("wb", buffering=0) as file:
        for piece in (b"# slow\n\n", b"first half, ", b"second half.\n"):
            file.write(piece)
            time.sleep(0.7)
    until(lambda: "notes/slow.md" in tree_of(fleet.bare), "it is published")
    versions = fleet.git("log", "--format=%H", "main", "--", "notes/slow.md").split()
    texts = {tree_of(fleet.bare, commit)["notes/slow.md"] for commit in versions}
    assert texts == {b"# slow\n\nfirst half, second half.\n"}
    assert laptop.stop() == 0


def test_a_writer_without_pause_is_recorded_all_the_same(laptop: Body, fleet: Fleet) -> None:
    """Trap 103; GUARD-1: a file that is never quiet is read after five seconds, while it goes on."""
    laptop.configure(settle="800ms", poll="60s")
    laptop.start()
    over = threading.Event()

    def write() -> None:
        number = 0
        while not over.wait(0.1):
            number += 1
            laptop.append("journal/laptop/2026-02-03.md", f"line {number}\n")

    writer = threading.Thread(target=write)
    writer.start()
    try:
        until(lambda: "journal/laptop/2026-02-03.md" in tree_of(fleet.bare), "it is published meanwhile", 12)
        assert writer.is_alive()
    finally:
        over.set()
        writer.join()
    assert laptop.stop() == 0


def test_what_changes_nothing_makes_no_commit(laptop: Body, server: Body, fleet: Fleet) -> None:
    """Traps 106, 107: touched, rewritten alike, renamed away and back, an empty directory that comes and goes."""
    fleet.converge()
    tip, path = fleet.tip(), laptop.soul / MEMORY
    text = path.read_bytes()
    (laptop.soul / "empty/deeper").mkdir(parents=True)
    os.utime(path)
    laptop.sync()
    path.write_bytes(b"")
    path.write_bytes(text)
    laptop.sync()
    laptop.rename_over(MEMORY, text)
    laptop.sync()
    path.rename(path.with_name("away"))
    path.with_name("away").rename(path)
    laptop.sync()
    (laptop.soul / "empty/deeper").rmdir()
    for body in (laptop, server, laptop):
        body.sync()
    assert fleet.tip() == tip
    assert (laptop.soul / "empty").is_dir(), "what the agent made is not tidied away"


def test_after_a_sleep_one_look_is_enough(laptop: Body, server: Body) -> None:
    """Trap 109: a stopped machine asks the remote as soon as it wakes, once, not for each poll that it missed."""
    laptop.configure(poll="1s")
    laptop.start()
    until(lambda: laptop.seen().get("state") == "idle", "it is quiet")
    assert laptop.daemon is not None
    laptop.daemon.send_signal(signal.SIGSTOP)
    server.append(MEMORY, "§\nhas a canoe\n")
    server.sync()
    time.sleep(3)
    before = passes(laptop)
    laptop.daemon.send_signal(signal.SIGCONT)
    until(lambda: "has a canoe" in laptop.entries(MEMORY), "it is asked for", 5)
    time.sleep(0.5)
    assert passes(laptop) - before <= 5
    assert laptop.stop() == 0


def test_a_folder_that_was_made_anew_is_still_watched(laptop: Body, fleet: Fleet) -> None:
    """Trap 99: removed and made again within a moment, with a file in it."""
    laptop.write("notes/box/a.md", "# a\n")
    laptop.sync()
    laptop.configure(poll="60s")
    laptop.start()
    laptop.remove("notes/box")
    laptop.write("notes/box/b.md", "# b\n")
    until(lambda: "notes/box/b.md" in tree_of(fleet.bare), "the new file is published", 10)
    laptop.write("notes/box/c.md", "# c\n")
    until(lambda: "notes/box/c.md" in tree_of(fleet.bare), "the next one too", 10)
    assert laptop.stop() == 0
