"""Every check of `doctor`, in the order in which one depends on another, as a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bridge.app import doctor_machine as machine
from bridge.app import doctor_remote as remote
from bridge.app import doctor_soul as soul
from bridge.app.diagnosis import Check, Finding, Patient, fail, warn
from bridge.core.errors import SoulError

_NOT_CHECKED = "not checked"


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the answer."""

    check: str
    state: str
    message: str
    remedy: str

    @property
    def checked(self) -> bool:
        """Whether it could be checked at all."""
        return not self.message.startswith(_NOT_CHECKED)


# name, check, the checks that must not have failed for this one to mean anything
CHECKS: tuple[tuple[str, Check, tuple[str, ...]], ...] = (
    ("python", machine.python, ()),
    ("libraries", machine.libraries, ()),
    ("git", machine.git, ()),
    ("checkout", soul.checkout, ()),
    ("owner", soul.owner, ("checkout",)),
    ("writable", soul.writable, ("checkout",)),
    ("private", soul.private, ()),
    ("disk", machine.disk, ()),
    ("watches", machine.watches, ("checkout",)),
    ("open files", machine.open_files, ("checkout",)),
    ("names", machine.names, ("checkout",)),
    ("git directory", soul.git_directory, ("checkout",)),
    ("replaced objects", soul.replaced, ("git directory",)),
    ("git locks", soul.locks, ("checkout",)),
    ("git in use", soul.person, ("git directory",)),
    ("packs", soul.packs, ("checkout",)),
    ("key", remote.key, ()),
    ("host key", remote.host_key, ()),
    ("host name", remote.name, ()),
    ("connection", remote.connection, ("host name",)),
    ("login", remote.login, ("key", "host key", "connection")),
    ("write access", remote.write_access, ("login",)),
    ("remote soul", remote.soul, ("git directory",)),
    ("remote history", remote.history, ("login", "git directory", "remote soul")),
    ("identity", soul.who, ("git directory",)),
    ("body", soul.body, ("git directory",)),
    ("fixed files", soul.fixed, ("git directory",)),
    ("clock", machine.clock, ("git directory",)),
    ("daemon", soul.daemon, ()),
    ("service", soul.service, ()),
    ("last pass", soul.last_pass, ()),
    ("problem", soul.problem, ()),
    ("hints", soul.hints, ()),
    ("unpublished", soul.unpushed, ("git directory",)),
    ("set aside", soul.held, ()),
    ("conflicts", soul.lost, ("git directory",)),
    ("programs", soul.programs, ()),
    ("metrics", soul.metrics, ()),
)


def run(patient: Patient, checks: Sequence[tuple[str, Check, tuple[str, ...]]] = CHECKS) -> list[Row]:
    """Every check that has something to say. One that cannot be made because another failed says so, as a warning."""
    rows: dict[str, Row] = {}
    for name, check, needs in checks:
        found = _missed(needs, rows) or _made(check, patient)
        if found is not None:
            rows[name] = Row(name, found.state, found.message, found.remedy)
    return list(rows.values())


def _missed(needs: tuple[str, ...], rows: dict[str, Row]) -> Finding | None:
    for need in needs:
        row = rows.get(need)
        if row is not None and (row.state == "fail" or not row.checked):
            return warn(f"{_NOT_CHECKED}: first the {need} has to be right", row.remedy)
    return None


def _made(check: Check, patient: Patient) -> Finding | None:
    try:
        return check(patient)
    except SoulError as error:
        return fail(error.message, error.advice or patient.command("status"))
