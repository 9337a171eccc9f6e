"""The state directory goes away under a running daemon: it is there again, or a person hears why it is not."""

from __future__ import annotations

import shutil
import stat
import subprocess
import time

from tests.real.fleet import Body, Fleet, until


def running(fleet: Fleet) -> Body:
    """A body whose daemon runs, and has no reason to look by itself."""
    body = fleet.body("laptop", poll="10m").start()
    until(lambda: body.status()["state"] == "idle", "it is idle")
    return body


def found_again(body: Body) -> None:
    """Commands find the daemon, and what it says and does is written down."""
    assert body.daemon is not None
    until(lambda: "taken away or replaced" in body.log(), "it is noticed", 10)
    until(lambda: body.seen().get("daemon", {}).get("pid"), "the status is written again", 10)
    assert stat.S_IMODE(body.state.stat().st_mode) == 0o700
    document = body.status()
    assert document["daemon"]["running"] is True and document["daemon"]["pid"] == body.daemon.pid
    assert document["state"] in ("idle", "syncing") and document["last_pass"] and document["warnings"] == []
    assert str(body.daemon.pid) in body.run("run", "--json").out, "a second daemon is kept out"
    body.write("notes/after.md", "# after\n")
    assert body.sync()["outcome"] == "ok" and "notes/after.md" in body.tree()
    assert body.json("pause")["daemon"] is True and body.json("resume")["daemon"] is True
    assert {"lock", "control.sock", "status.json", "events.jsonl", "format", "checkout"} <= {
        path.name for path in body.state.iterdir()
    }
    assert body.log().count("taken away or replaced") == 1
    assert body.stop() == 0 and body.status()["state"] == "stopped"
    assert body.start().stop() == 0, "the checkout is known again"


def test_a_state_directory_that_was_removed_is_made_again(fleet: Fleet) -> None:
    body = running(fleet)
    shutil.rmtree(body.home / "state")
    found_again(body)


def test_a_state_directory_that_was_replaced_by_an_old_copy_is_the_daemons_again(fleet: Fleet) -> None:
    body = running(fleet)
    subprocess.run(["cp", "-a", str(body.state), str(body.home / "copy")], check=True)
    shutil.rmtree(body.state)
    (body.home / "copy").rename(body.state)
    found_again(body)


def test_a_socket_that_was_swept_away_is_made_again(fleet: Fleet) -> None:
    body = running(fleet)
    (body.state / "control.sock").unlink()
    until((body.state / "control.sock").exists, "the socket is there again", 10)
    assert body.json("pause")["daemon"] is True
    body.stop()


def test_a_pause_outlives_its_state_directory(fleet: Fleet) -> None:
    body = running(fleet)
    body.json("pause")
    until(lambda: body.seen().get("state") == "paused", "it is paused")
    shutil.rmtree(body.state)
    until(lambda: body.seen().get("state"), "the status is written again", 10)
    body.write("notes/paused.md", "# paused\n")
    time.sleep(1.5)
    assert body.status()["state"] == "paused" and "notes/paused.md" not in body.tree()
    body.stop()


def test_a_state_directory_that_cannot_be_made_is_told_once_and_the_daemon_is_not_called_stopped(fleet: Fleet) -> None:
    body = running(fleet)
    assert body.daemon is not None
    shutil.rmtree(body.home / "state")
    (body.home / "state").write_text("in the way\n")
    until(lambda: "was taken away, and" in body.log(), "it is told", 10)
    body.write("notes/on.md", "# on\n")
    until(lambda: "notes/on.md" in body.tree(), "passes go on")
    document = body.status()
    assert document["daemon"] == {"running": True, "pid": body.daemon.pid, "since": None}
    assert document["state"] != "stopped" and "was taken away" in document["warnings"][0]
    rows = {row["check"]: row for row in body.run("doctor", "--json").document}
    assert rows["daemon"]["state"] == "fail" and "was taken away" in rows["daemon"]["message"]
    for words in (["sync"], ["lease", "show"], ["init", "kaoru"]):
        error = body.run(*words, "--json").expect(1)["error"]
        assert error["kind"] == "disk" and "ls -ld" in error["advice"], words
    assert body.log().count("was taken away") == 1
    (body.home / "state").unlink()
    body.write("notes/again.md", "# again\n")
    until(lambda: body.seen().get("daemon", {}).get("pid") == body.daemon.pid, "it is there again", 10)
    assert body.status()["warnings"] == []
    body.stop()
