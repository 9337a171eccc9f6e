"""The checks of `doctor` that look at the machine: what is installed, and what its disk and its clock are like."""

from __future__ import annotations

import re
import shlex

from bridge.app.diagnosis import Finding, Patient, fail, ok, size, span, warn
from bridge.core import newest
from bridge.core.instants import seconds

PYTHON = (3, 11)
GIT = (2, 34)
LIBRARIES = {
    "apscheduler": "3.11", "cryptography": "43", "jsonschema": "4.21", "paramiko": "4", "pathspec": "0.12",
    "pygit2": "1.19", "PyYAML": "6.0.1", "structlog": "24.1", "watchdog": "5",
}  # fmt: skip
LITTLE = 200 << 20  # bytes free: soon nothing can be recorded
NONE_LEFT = 20 << 20
FEW_INODES = 1000
LOOKED_AT = 500  # commits that are looked at for their time
WATCHES = "sudo sysctl -w fs.inotify.max_user_watches=1048576"


def python(patient: Patient) -> Finding:
    """A Python that this program is written for."""
    shown = ".".join(map(str, patient.machine.python))
    if patient.machine.python[:2] < PYTHON:
        return fail(f"Python {shown} is too old: 3.11 is needed", patient.machine.installs("python3"))
    return ok(f"Python {shown}")


def libraries(patient: Patient) -> Finding:
    """Every library, in a version that was tested."""
    wrong = []
    for name, least in LIBRARIES.items():
        there = patient.machine.library(name)
        if there is None or _version(there) < _version(least):
            wrong.append((f"{name} {there or 'missing'}", f"'{name}>={least}'"))
    if wrong:
        wanted = " ".join(each for _, each in wrong)
        command = f"{shlex.quote(patient.machine.interpreter)} -m pip install --upgrade {wanted}"
        return fail("missing or too old: " + ", ".join(each for each, _ in wrong), command)
    return ok(f"{len(LIBRARIES)} libraries, all in versions that were tested")


def git(patient: Patient) -> Finding:
    """git, which takes in what is fetched."""
    said = patient.machine.git()
    if said is None:
        return fail("there is no git", patient.machine.installs("git"))
    if _version(said) < GIT:
        return fail(f"{said} is too old: 2.34 is needed", patient.machine.installs("git"))
    return ok(said)


def disk(patient: Patient) -> Finding | None:
    """Room for what will be written, where the soul is and where the state is."""
    for path in (patient.soul, patient.state):
        space = patient.machine.space(path)
        if space is None:
            continue
        remedy = f"du -xh --max-depth=3 {shlex.quote(str(path.parent))} | sort -h | tail -20"
        if space.free < NONE_LEFT or 0 <= space.inodes < FEW_INODES // 10:
            return fail(f"the disk of {path} is full: {size(space.free)} free", remedy)
        if space.free < LITTLE or 0 <= space.inodes < FEW_INODES:
            return warn(f"the disk of {path} is nearly full: {size(space.free)} free", remedy)
    space = patient.machine.space(patient.soul)
    return None if space is None else ok(f"{size(space.free)} of {size(space.total)} free")


def watches(patient: Patient) -> Finding | None:
    """Enough inotify watches for every folder of the soul."""
    limits = patient.machine.inotify()
    if limits is None:
        return None
    folders, (most, instances) = patient.machine.folders(patient.soul), limits
    if instances < 8:
        command = "sudo sysctl -w fs.inotify.max_user_instances=1024"
        return warn(f"only {instances} programs may watch files: changes may be noticed late", command)
    if folders > most:
        return fail(f"{folders} folders, but only {most} may be watched: changes are noticed late", WATCHES)
    if 2 * folders > most:
        return warn(f"{folders} folders of the {most} that all programs together may watch", WATCHES)
    return ok(f"{folders} folders, {most} may be watched")


def open_files(patient: Patient) -> Finding | None:
    """Whether the file system tells who has a file open for writing (GUARD-4)."""
    if not patient.machine.exists(patient.git_dir):
        return None
    if patient.checkout.leases():
        return ok("the file system tells who has a file open for writing")
    return warn(
        f"the file system of {patient.soul} does not tell who is writing: files are left alone until they were quiet",
        f"df -T {shlex.quote(str(patient.soul))}   # then move the soul to a local disk (ext4, xfs, btrfs)",
    )


def names(patient: Patient) -> Finding | None:
    """Whether names that differ only in case can both be here (TREE-7)."""
    if not patient.machine.exists(patient.git_dir):
        return None
    if patient.checkout.folds():
        return warn(
            "this file system takes names that differ only in case for one: the second one stays out",
            patient.command("status") + "   # lists the names that stayed out",
        )
    return ok("names that differ only in case are two names here")


def clock(patient: Patient) -> Finding | None:
    """Whether this clock and those of the others agree (MERGE-6)."""
    if patient.repo is None:
        return None
    now, ahead = patient.now, []
    stored = _last_pass(patient)
    if now < newest.EARLIEST:
        return fail(
            "this clock was never set: until it is right, others win",
            "sudo timedatectl set-ntp true",
        )
    if stored is not None and newest.clock_wrong(stored, now):
        return fail(
            f"this clock is {span(stored - now)} earlier than at the last pass: until it is right, others win",
            "sudo timedatectl set-ntp true",
        )
    tips = [tip for tip in (patient.remote_tip(), patient.tip()) if tip and patient.repo.has(tip)]
    for tip in dict.fromkeys(tips):
        for number, commit in enumerate(patient.repo.log(tip)):
            if number >= LOOKED_AT:
                break
            if newest.from_future(commit.time, now):
                ahead.append(commit)
    if ahead:
        last = max(commit.time for commit in ahead)
        bodies = ", ".join(sorted({commit.body or "somebody" for commit in ahead}))
        return warn(
            f"commits of {bodies} are up to {span(last - now)} in the future: a clock is wrong",
            "sudo timedatectl set-ntp true   # here, and on that machine",
        )
    return ok("no commit is from the future")


def _last_pass(patient: Patient) -> float | None:
    return seconds(((patient.status or {}).get("last_pass") or {}).get("at"))


def _version(text: str) -> tuple[int, ...]:
    found = re.search(r"\d+(?:\.\d+)*", text)
    return tuple(int(part) for part in found[0].split(".")) if found else ()
