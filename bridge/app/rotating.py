"""A new deploy key in the old one's place: made beside it, shown, proved with the host, switched, and only then told.

It may be stopped at any point and called again: a new key that waits is taken up, and a switch that nobody was told
of is told.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from bridge.app import onboarding
from bridge.core.address import Address
from bridge.core.errors import Refused, SoulError, Transient
from bridge.core.ports import Clock

PAUSE = 3.0  # seconds between two tries
RETRIED = ("auth", "network")
GRACE = 15.0  # seconds that a host may take until a key that its API just added opens its door


class Public(Protocol):
    """A public key."""

    @property
    def line(self) -> str: ...
    @property
    def blob(self) -> str: ...
    @property
    def fingerprint(self) -> str: ...


class Keys(Protocol):
    """The old key and the new one beside it."""

    def old(self) -> Public | None:
        """The key that goes, None when nobody knows it any more."""

    def switched(self) -> Public | None:
        """The present key, when it took another one's place and `settle` has not been called since."""

    def prepare(self) -> Public:
        """The new key: the one that waits, or one made now."""

    def switch(self) -> None:
        """Put the new key in the old one's place."""

    def settle(self) -> None:
        """What was done has been told."""


@dataclass(frozen=True, slots=True)
class Rotated:
    """The key in use, and the one to delete at the host (None: unknown)."""

    new: Public
    old: Public | None


@dataclass(frozen=True, slots=True)
class Asking:
    """How the host is asked. probe: whether it lets the new key write; raises as a push would. wait: seconds.

    add: has the new key let in by the host's API, where a person asked for that; raises what the API refuses.
    """

    probe: Callable[[], None]
    clock: Clock
    wait: float
    add: Callable[[Public], None] | None = None


def rotate(keys: Keys, asking: Asking, address: Address, agent: str, tell: Callable[[str], None]) -> Rotated:
    """Take a new key into use once the host accepts it with write access. The caller calls `settle` after telling.

    Raises Refused(kind="auth") with the key and where to paste it when the host does not accept it in time, Transient
    when it cannot be asked: the old key stays in use, and the same call goes on from there.
    """
    present = keys.switched()
    if present is not None:
        return Rotated(present, keys.old())
    new, old = keys.prepare(), keys.old()
    if asking.add is not None:
        asking.add(new)
    _accepted(asking, lambda error: _refused(new, address, agent, error), tell)
    keys.switch()
    return Rotated(new, old)


def _accepted(asking: Asking, shown: Callable[[SoulError], SoulError], tell: Callable[[str], None]) -> None:
    told = asking.add is not None
    deadline = asking.clock.boottime() + max(asking.wait, GRACE if told else 0.0)
    while True:
        try:
            asking.probe()
            return
        except (Refused, Transient) as error:
            refusal = shown(error)
            if error.kind not in RETRIED or asking.clock.boottime() >= deadline:
                raise refusal from error
            if not told:
                tell(f"{refusal.message}\n{refusal.advice}\n\nwaiting for it …")
                told = True
        asking.clock.sleep(PAUSE)


def _refused(new: Public, address: Address, agent: str, error: SoulError) -> SoulError:
    again = f"Then run `soul-bridge key rotate {agent}` again; until then the old key stays in use."
    again += onboarding.by_token(address, f"soul-bridge key rotate {agent}")
    paste = f"{new.line}\n\n{onboarding.where_to_paste(address, new.line)}\n{again}"
    if isinstance(error, Transient):
        return Transient(
            f"the new key could not be proved: {error.message}",
            kind=error.kind,
            rule=error.rule,
            advice=f"The new key is made; add it as a deploy key with write access:\n\n{paste}",
        )
    if error.kind != "auth":
        return error
    return Refused(
        f"the host does not accept the new key for {address.text} with write access: {error.message}",
        kind="auth",
        rule="AUTH-3",
        advice=f"Add it beside the old one, as a deploy key with write access:\n\n{paste}",
    )
