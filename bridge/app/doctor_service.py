"""The check of `doctor` that asks the service manager: installed, started, and started again at the next boot."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from bridge.app.diagnosis import Finding, fail, ok, warn
from bridge.core.errors import SoulError

UNIT = "soul-bridge@{agent}.service"


class Supervisor(Protocol):
    """A service manager, of this user or of the system. Raises SoulError where there is none."""

    system: bool

    def show(self, unit: str, *names: str) -> Mapping[str, str]:
        """Properties of a unit."""


def examine(
    agent: str, supervisors: Sequence[Callable[[], Supervisor]], lingers: Callable[[], bool | None]
) -> Finding | None:
    """The service of one soul, of whichever manager has it; None where there is no service manager at all."""
    unit, asked = UNIT.format(agent=agent), False
    for opened in supervisors:
        try:
            supervisor = opened()
            found = supervisor.show(unit, "LoadState", "ActiveState", "UnitFileState", "Result")
        except SoulError:
            continue
        asked = True
        if found["LoadState"] == "loaded" and (
            found["UnitFileState"] == "enabled" or found["ActiveState"] != "inactive"
        ):
            return _judged(agent, unit, supervisor.system, found, lingers)
    if not asked:
        return None
    return warn("it is not installed: nothing starts by itself", f"soul-bridge service install {agent}")


def _judged(
    agent: str, unit: str, system: bool, found: Mapping[str, str], lingers: Callable[[], bool | None]
) -> Finding:
    scope = " --system" if system else ""
    install = f"soul-bridge service install {agent}{scope}"
    if found["ActiveState"] == "failed":
        return fail(f"{unit} failed ({found['Result']})", install)
    if found["ActiveState"] not in ("active", "activating", "reloading"):
        return warn(f"{unit} is {found['ActiveState']}", install)
    if found["UnitFileState"] != "enabled":
        return warn(f"{unit} runs, but is not started at the next boot", install)
    if not system and lingers() is False:
        return warn(f"{unit} runs only while you are logged in", "loginctl enable-linger")
    return ok(f"{unit} is active and enabled")
