"""A machine of its own with a real systemd as first process: systemd-nspawn over a copy of /."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from tests.real.fleet import PACKAGE
from tests.service.manager import SHARED_TMP, missing, unseen

INSIDE = """\
[Service]
Type=oneshot
ExecStart={python} /srv/package/tests/service/{script} /srv/package /srv/answer/found.json
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


def absent() -> str:
    """What is missing for a machine of its own."""
    for program in ("systemd-nspawn", "dbus-daemon"):
        if shutil.which(program) is None:
            return f"{program} is missing (Debian, Ubuntu: apt-get install systemd-container dbus)"
    return missing()


def lived(script: str, longest: float) -> dict[str, Any]:
    """What a script of this folder found in such a machine, within so many seconds."""
    place = Path(tempfile.mkdtemp(prefix="soul-bridge-test-", dir="/var/lib"))
    answer, root = place / "answer", place / "root"
    answer.mkdir()
    root.mkdir()
    (answer / "inside.service").write_text(INSIDE.format(python=sys.executable, script=script))
    (answer / "tests.conf").write_text(SHARED_TMP if unseen() else "")
    # Folders that are mounts of their own are not in the copy of /.
    needed = {sys.prefix, sys.base_prefix, sysconfig.get_path("purelib")}
    elsewhere = [path for path in sorted(needed) if unseen() or os.stat(path).st_dev != os.stat("/").st_dev]
    binds = " ".join(f"--bind-ro={path}" for path in elsewhere)
    boot = BOOT.format(root=root, answer=answer, package=PACKAGE, binds=binds)
    try:
        with (place / "console").open("wb") as console:
            command = ["unshare", "-m", "--propagation", "private", "sh", "-c", boot]
            subprocess.run(command, stdin=subprocess.DEVNULL, stdout=console, stderr=console, timeout=longest)
        path = answer / "found.json"
        assert path.exists(), (place / "console").read_text(errors="replace")[-3000:]
        found: dict[str, Any] = json.loads(path.read_text())
        return found
    finally:
        shutil.rmtree(place, ignore_errors=True)
