"""The service of a whole machine, in one with a real systemd as first process (systemd-nspawn over a copy of /)."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.real.fleet import PACKAGE
from tests.service.manager import SHARED_TMP, missing, unseen

INSIDE = """\
[Service]
Type=oneshot
ExecStart={python} /srv/package/tests/service/inside.py /srv/package /srv/answer/found.json
"""
# The overlay lies on a file system of its own, for it cannot lie on another overlay; all of it goes with the namespace.
BOOT = """\
set -e
mount -t tmpfs tmpfs {root}
mkdir {root}/upper {root}/work {root}/tree
mount -t overlay overlay -o lowerdir=/,upperdir={root}/upper,workdir={root}/work {root}/tree
cp {answer}/inside.service {root}/tree/etc/systemd/system/
mkdir -p {root}/tree/usr/local/lib/systemd/system/soul-bridge@.service.d
cp {answer}/tests.conf {root}/tree/usr/local/lib/systemd/system/soul-bridge@.service.d/
: > {root}/tree/etc/machine-id
mkdir -p {root}/tree/srv/package {root}/tree/srv/answer
exec systemd-nspawn --quiet --register=no --keep-unit --private-network --directory={root}/tree {binds} \
    --bind={answer}:/srv/answer --bind-ro={package}:/srv/package --boot systemd.unit=inside.service
"""

pytestmark = pytest.mark.timeout(180)


def absent() -> str:
    """What is missing for a machine of its own."""
    for program in ("systemd-nspawn", "dbus-daemon"):
        if shutil.which(program) is None:
            return f"{program} is missing (Debian, Ubuntu: apt-get install systemd-container dbus)"
    return missing()


@pytest.fixture(scope="module")
def found() -> Iterator[dict[str, Any]]:
    """What was found inside."""
    if reason := absent():
        pytest.skip(reason)
    place = Path(tempfile.mkdtemp(prefix="soul-bridge-test-", dir="/var/lib"))
    answer, root = place / "answer", place / "root"
    answer.mkdir()
    root.mkdir()
    (answer / "inside.service").write_text(INSIDE.format(python=sys.executable))
    (answer / "tests.conf").write_text(SHARED_TMP if unseen() else "")
    # Folders that are mounts of their own are not in the copy of /.
    needed = {sys.prefix, sys.base_prefix, sysconfig.get_path("purelib")}
    elsewhere = [path for path in sorted(needed) if unseen() or os.stat(path).st_dev != os.stat("/").st_dev]
    binds = " ".join(f"--bind-ro={path}" for path in elsewhere)
    script = BOOT.format(root=root, answer=answer, package=PACKAGE, binds=binds)
    try:
        with (place / "console").open("wb") as console:
            command = ["unshare", "-m", "--propagation", "private", "sh", "-c", script]
            subprocess.run(command, stdin=subprocess.DEVNULL, stdout=console, stderr=console, timeout=170)
        path = answer / "found.json"
        assert path.exists(), (place / "console").read_text(errors="replace")[-3000:]
        yield json.loads(path.read_text())
    finally:
        shutil.rmtree(place, ignore_errors=True)


def test_all_of_it_was_lived_through(found: dict[str, Any]) -> None:
    assert "failed" not in found, found["failed"]


def test_without_a_configuration_the_command_that_makes_one_is_told(found: dict[str, Any]) -> None:
    refused = found["unconfigured"]
    assert refused["code"] == 2
    assert "CONFIGURATION_DIRECTORY=/etc/soul-bridge" in refused["answer"]["error"]["advice"]
    assert found["joined"]["code"] == 0


def test_it_runs_as_the_owner_of_the_checkout_without_any_right(found: dict[str, Any]) -> None:
    assert found["installed"]["code"] == 0, found["installed"]
    assert found["installed"]["answer"]["scope"] == "system"
    assert (found["show"]["ActiveState"], found["show"]["UnitFileState"]) == ("active", "enabled")
    assert found["show"]["User"] == "alice"
    fields = dict(line.split(":", 1) for line in found["process"].splitlines())
    assert fields["Uid"].split() == ["4711"] * 4
    facts = {name: fields[name].strip() for name in ("NoNewPrivs", "Seccomp", "CapEff", "CapBnd")}
    assert facts == {"NoNewPrivs": "1", "Seccomp": "2", "CapEff": "0" * 16, "CapBnd": "0" * 16}


def test_the_key_stays_with_root_and_is_handed_over(found: dict[str, Any]) -> None:
    """AUTH-2: readable by one user, in the folder of credentials only."""
    assert found["credential"] in ("alice 400", "root 440")
    assert found["owners"] == {
        "/var/lib/soul-bridge/kaoru": "alice 700",
        "/etc/soul-bridge/keys/kaoru.server": "root 600",
        "/etc/soul-bridge/keys": "root 700",
    }


def test_it_synchronises_and_tells_how_it_is(found: dict[str, Any]) -> None:
    assert "I live on a server." in found["published"]
    status = found["status"]["answer"]
    assert (status["active"], status["enabled"], status["current"]) == ("active", True, True)


def test_killed_it_begins_again(found: dict[str, Any]) -> None:
    assert int(found["after_kill"]["NRestarts"]) >= 1


def test_a_key_that_is_gone_is_a_failure_that_is_mended_by_installing_again(found: dict[str, Any]) -> None:
    assert found["without_key"]["code"] != 0
    assert found["installed_again"]["code"] == 0


def test_uninstalled_nothing_is_left_of_it(found: dict[str, Any]) -> None:
    assert found["uninstalled"]["code"] == 0
    assert set(found["uninstalled"]["answer"]["left"]) == {"soul", "key", "configuration", "state"}
    assert found["traces"] == []
    assert found["show_after"]["LoadState"] == "not-found"
