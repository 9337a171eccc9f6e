"""Runs as root in a machine of its own, where a real systemd is the first process: a soul of the whole machine.

Usage: inside.py PACKAGE ANSWER. Writes what it found to ANSWER as JSON; the test judges it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

OWNER, NUMBER = "alice", 4711
UNIT = "soul-bridge@kaoru.service"
SOUL = Path("/home/alice/souls/kaoru.soul")
PLACES = {"CONFIGURATION_DIRECTORY": "/etc/soul-bridge", "STATE_DIRECTORY": "/var/lib/soul-bridge"}
KEY = Path("/etc/soul-bridge/keys/kaoru.server")


def main(package: str, answer: Path) -> None:
    """Live through the life of a service."""
    sys.path.insert(0, package)
    found: dict[str, Any] = {}
    try:
        _live(package, found)
    except BaseException:  # noqa: BLE001 - whatever it is, the test outside has to hear of it
        found["failed"] = traceback.format_exc() + call("journalctl", "--no-pager", "-n", "40")["out"]
    answer.write_text(json.dumps(found))
    call("systemctl", "exit", "0")


def _live(package: str, found: dict[str, Any]) -> None:
    from bridge.app.host import Host

    _make_owner(package)
    host = Host(Path("/srv/host")).start()
    host.create("kaoru.soul.git")
    found["unconfigured"] = bridge("service", "install", "--system")
    init = ("init", "kaoru", "--remote", host.address("kaoru.soul.git"), "--body", "server", "--soul", str(SOUL))
    bridge(*init, "--host-key", host.fingerprint(), **PLACES)
    host.authorize("kaoru.soul.git", KEY.with_name("kaoru.server.pub").read_text())
    found["joined"] = bridge(*init, "--host-key", host.fingerprint(), **PLACES)
    call("chown", "-R", f"{OWNER}:{OWNER}", f"/home/{OWNER}")
    found["installed"] = bridge("service", "install", "--system")
    found["show"] = shown()
    found["process"] = Path("/proc", found["show"]["MainPID"], "status").read_text()
    found["credential"] = call("stat", "-c", "%U %a", f"/run/credentials/{UNIT}/kaoru.server")["out"].strip()
    found["owners"] = {str(path): owner(path) for path in (Path("/var/lib/soul-bridge/kaoru"), KEY, KEY.parent)}
    with (SOUL / "memories" / "MEMORY.md").open("a") as memory:
        memory.write("I live on a server.\n")
    read = ("git", "-c", "safe.directory=*", "-C", "/srv/host/kaoru.soul.git", "show", "main:memories/MEMORY.md")
    found["published"] = until(lambda: call(*read)["out"])
    found["status"] = bridge("service", "status", "--system")
    call("systemctl", "kill", "--signal=KILL", UNIT)
    found["after_kill"] = until(lambda: restarted(found["show"]["MainPID"]))
    KEY.rename(KEY.with_name("gone"))
    found["without_key"] = call("systemctl", "restart", UNIT)
    KEY.with_name("gone").rename(KEY)
    found["installed_again"] = bridge("service", "install", "--system")
    found["uninstalled"] = bridge("service", "uninstall", "--system")
    found["traces"] = call("find", "/etc/systemd/system", "-name", "soul-bridge*")["out"].split()
    found["show_after"] = shown()
    host.stop()


def _make_owner(package: str) -> None:
    for name, line in {
        "passwd": f"{OWNER}:x:{NUMBER}:{NUMBER}::/home/{OWNER}:/bin/sh",
        "group": f"{OWNER}:x:{NUMBER}:",
    }.items():
        with Path("/etc", name).open("a") as file:
            file.write(line + "\n")
    SOUL.parent.mkdir(parents=True)
    # The program must be where the owner may read it, as a person would have installed it.
    for program in (Path(sys.executable), Path(sys.executable).resolve(), Path(package)):
        for folder in program.parents:
            if not folder.stat().st_mode & 0o001:
                folder.chmod(folder.stat().st_mode | 0o011)


def bridge(*words: str, **environment: str) -> dict[str, Any]:
    """One call of the program, in the words a script gets."""
    done = call(sys.executable, "-m", "bridge", *words, "--json", **environment)
    return {"code": done["code"], "answer": json.loads(done["out"]), "err": done["err"]}


def call(*words: str, **environment: str) -> dict[str, Any]:
    """One call of any program."""
    path = {"PYTHONPATH": sys.path[0]} if words[0] == sys.executable else {}
    done = subprocess.run(
        words, env={**os.environ, **path, **environment}, cwd="/", capture_output=True, text=True, timeout=100
    )
    return {"code": done.returncode, "out": done.stdout, "err": done.stderr}


def shown() -> dict[str, str]:
    """Properties of the unit."""
    names = "ActiveState,MainPID,StatusText,NRestarts,User,LoadState,UnitFileState"
    lines = call("systemctl", "show", UNIT, f"--property={names}")["out"].splitlines()
    return dict(line.partition("=")[::2] for line in lines)


def restarted(before: str) -> dict[str, str]:
    """The unit, once it runs in another process."""
    now = shown()
    return now if now["ActiveState"] == "active" and now["MainPID"] not in ("0", before) else {}


def owner(path: Path) -> str:
    """Owner and mode."""
    return call("stat", "-c", "%U %a", str(path))["out"].strip()


def until(found: Callable[[], Any], longest: float = 30.0) -> Any:
    """What is found, once it is something with "server" or a state in it; else the last thing."""
    end = time.monotonic() + longest
    while time.monotonic() < end:
        result = found()
        if isinstance(result, dict) and result or "server" in result:
            return result
        time.sleep(0.2)
    return result


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
