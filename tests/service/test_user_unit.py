"""The service of a user, under a real systemd: from installing to taking it away."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

from bridge.app.host import Host
from tests.real.fleet import Body, git, until
from tests.service.manager import UNIT, Manager

MEMORY = "memories/MEMORY.md"


def published(body: Body, host: Host) -> str:
    """The memory file as the host has it."""
    return git(host.root / body.remote.rpartition("/")[2], "show", f"main:{MEMORY}", check=False)


def install(body: Body, code: int = 0) -> Any:
    return body.json("service", "install", code=code)


def test_an_installed_service_runs_was_seen_to_pass_and_synchronises(manager: Manager, body: Body, host: Host) -> None:
    said = install(body)
    assert (said["unit"], said["scope"], said["problem"]) == (UNIT, "user", None)
    assert said["last_pass"]["outcome"] == "ok"
    assert said["did"][-1] == f"started {UNIT}"
    assert (manager.show("ActiveState"), manager.show("UnitFileState")) == ("active", "enabled")
    assert body.status()["daemon"]["pid"] == manager.pid()
    body.append(MEMORY, "I run by myself now.\n")
    until(lambda: "I run by myself now." in published(body, host), "it is published")
    until(lambda: manager.show("StatusText").startswith("kaoru: "), "the unit says what it did")


def test_installing_again_changes_nothing_and_starts_nothing(manager: Manager, body: Body) -> None:
    install(body)
    before = manager.pid()
    again = install(body)
    assert (again["did"], manager.pid()) == ([], before)
    told = body.run("service", "status")
    assert told.code == 0
    assert f"{UNIT}: active (running), enabled" in told.out


def test_a_change_that_the_unit_has_to_know_is_told_and_installed(manager: Manager, body: Body) -> None:
    install(body)
    before = manager.pid()
    body.configure(hooks="{synced: [sh, -c, 'true']}")
    assert body.json("service", "status")["current"] is False
    assert "service install" in body.run("service", "status").out
    assert install(body)["did"]
    assert manager.pid() != before
    assert body.json("service", "status")["current"] is True
    assert "ProtectHome=no" in (manager.units / f"{UNIT}.d" / "soul-bridge.conf").read_text()


def test_it_is_confined_as_the_unit_says(manager: Manager, body: Body) -> None:
    install(body)
    place = Path("/proc", str(manager.pid()))
    fields = dict(line.split(":", 1) for line in (place / "status").read_text().splitlines())
    facts = {name: fields[name].strip() for name in ("NoNewPrivs", "Seccomp", "CapEff")}
    assert facts == {"NoNewPrivs": "1", "Seccomp": "2", "CapEff": "0" * 16}
    mounts = {line.split()[4]: line.split()[5].split(",") for line in (place / "mountinfo").read_text().splitlines()}
    assert "ro" in mounts["/"]
    for folder in (body.soul.parent, body.home / "state"):
        assert "rw" in mounts[str(folder)]


def test_a_daemon_that_hangs_is_killed_and_begins_again(manager: Manager, body: Body) -> None:
    install(body)
    manager.own_drop_in("WatchdogSec=1", "RestartSec=100ms", "TimeoutStopSec=2", "TimeoutAbortSec=2")
    manager.call("restart", UNIT)
    first = manager.pid()
    time.sleep(2.5)
    assert (manager.pid(), manager.show("NRestarts")) == (first, "0"), "one that gets on is left alone"
    os.kill(first, signal.SIGSTOP)
    until(lambda: int(manager.show("NRestarts")) >= 1 and manager.show("ActiveState") == "active", "it begins again")
    until(lambda: body.seen()["daemon"]["pid"] == manager.pid() and body.seen()["state"] == "idle", "it passes again")


def test_a_reload_takes_what_can_be_used_and_keeps_what_was_where_it_cannot(manager: Manager, body: Body) -> None:
    install(body)
    before = manager.pid()
    kept = (body.home / "config" / "kaoru.yaml").read_text()
    body.configure(pole="1s")
    manager.call("reload", UNIT)
    until(lambda: "cannot be used; the one before it holds" in manager.show("StatusText"), "the problem is told")
    assert (manager.show("ActiveState"), manager.pid()) == ("active", before)
    (body.home / "config" / "kaoru.yaml").write_text(kept.replace("500ms", "700ms"))
    manager.call("reload", UNIT)
    until(lambda: manager.show("StatusText") == "kaoru: nothing to do.", "it goes on")
    assert (manager.show("ActiveState"), manager.pid(), manager.show("NRestarts")) == ("active", before, "0")


def test_a_configuration_that_cannot_work_is_not_started_again(manager: Manager, body: Body) -> None:
    install(body)
    body.configure(pole="1s")
    assert manager.call("restart", UNIT, check=False).returncode != 0
    time.sleep(1.0)
    facts = [manager.show(name) for name in ("ActiveState", "SubState", "ExecMainStatus", "NRestarts")]
    assert facts == ["failed", "failed", "2", "0"]
    refused = install(body, code=2)
    assert "unknown key pole" in refused["error"]["message"]


def test_without_its_host_it_runs_and_says_so(manager: Manager, body: Body) -> None:
    with body.offline():
        said = install(body, code=5)
        assert said["problem"]["kind"] == "network"
        assert manager.show("ActiveState") == "active"
        assert body.status()["problem"]["kind"] == "network"
    assert manager.show("NRestarts") == "0"


def test_stopping_records_and_publishes_what_has_not_settled(manager: Manager, body: Body, host: Host) -> None:
    """GUARD-1: at the end nothing waits for `settle`."""
    body.configure(settle="60s")
    install(body)
    body.append(MEMORY, "the last words\n")
    began = time.monotonic()
    manager.call("stop", UNIT)
    assert time.monotonic() - began < 15.0
    assert "the last words" in published(body, host)
    assert (manager.show("Result"), manager.show("ExecMainStatus")) == ("success", "0")


def test_uninstalling_leaves_no_trace_but_what_it_names(manager: Manager, body: Body) -> None:
    install(body)
    pid = manager.pid()
    said = body.json("service", "uninstall")
    assert [path.name for path in map(Path, said["removed"])] == ["soul-bridge.conf", "soul-bridge@.service"]
    assert set(said["left"]) == {"soul", "key", "configuration", "state"}
    assert all(Path(path).exists() for path in said["left"].values())
    assert [path for path in manager.home.rglob("*") if not path.is_dir()] == []
    assert not Path("/proc", str(pid)).exists()
    assert manager.show("LoadState") == "not-found"
    again = body.json("service", "uninstall")
    assert again["removed"] == []


def test_a_unit_that_serves_another_home_is_not_taken_over(manager: Manager, body: Body) -> None:
    install(body)
    path = manager.units / f"{UNIT}.d" / "soul-bridge.conf"
    path.write_text(path.read_text().replace(str(body.home), "/somewhere/else"))
    refused = install(body, code=1)["error"]
    assert "serves another home" in refused["message"]
    assert refused["advice"] == "soul-bridge service uninstall kaoru"


def test_all_souls_of_a_process_share_one_inotify_instance(manager: Manager, body: Body, host: Host) -> None:
    """A user has 128 of them by default: not one for every soul or folder."""
    second = Body("phone", body.home, host.address("mei.soul.git"), "mei")
    second.environment |= manager.environment
    host.create("mei.soul.git")
    host.authorize("mei.soul.git", second.make_key())
    second.init("--host-key", host.fingerprint())
    with (body.home / "all.log").open("wb") as log:
        process = subprocess.Popen(body.command("run", "--all"), env=body.env(), stdout=log, stderr=log)
    try:
        for one in (body, second):
            until(lambda one=one: one.seen().get("daemon", {}).get("pid") == process.pid, "both live")
            until(lambda one=one: one.seen().get("state") == "idle", "both pass")
        folder = Path("/proc", str(process.pid), "fd")
        assert sum("inotify" in os.readlink(each) for each in folder.iterdir()) == 1
    finally:
        process.terminate()
        assert process.wait(20) == 0


def test_a_daemon_that_was_started_by_hand_is_not_fought_with(manager: Manager, body: Body) -> None:
    with (body.home / "hand.log").open("wb") as log:
        hand = subprocess.Popen(body.command("run"), env=body.env(), stdout=log, stderr=log)
    try:
        until(lambda: body.seen().get("daemon", {}).get("pid") == hand.pid, "it lives")
        refused = install(body, code=1)["error"]
        assert f"kill {hand.pid}" in refused["advice"]
        assert not manager.units.exists()
    finally:
        hand.terminate()
        assert hand.wait(20) == 0
