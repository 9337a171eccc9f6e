"""This body's key as a deploy key of the repository, through the host's API, for a person who has a token for it.

It looks first and adds once: a key that is there is left as it is, and told of. Whether it works is for a login to
prove, not for the API to say.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from bridge.app import revoking
from bridge.app.rotating import Public
from bridge.core.address import Address
from bridge.core.errors import AnswerLost, Refused, SoulError, Transient
from bridge.core.words import readable


class DeployKey(Protocol):
    """A key of the repository, as its host has it."""

    @property
    def id(self) -> int: ...
    @property
    def title(self) -> str: ...
    @property
    def blob(self) -> str: ...
    @property
    def write(self) -> bool: ...


class Forge(Protocol):
    """The deploy keys of one repository. source: where the token is from, in words; never the token."""

    kind: str
    host: str
    repository: str
    source: str

    def keys(self) -> Sequence[DeployKey]:
        """Every deploy key that is there. Raises Refused, Transient."""

    def add(self, title: str, line: str) -> DeployKey:
        """Let a key in, with write access. Raises Refused, Transient, AnswerLost."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which key is to be let in where. again: the command that was typed. pasted: the one that shows what to paste."""

    address: Address
    key: Public
    body: str
    again: str
    pasted: str


def title(body: str) -> str:
    """What a body's deploy key is called at the host."""
    return f"soul-bridge {body}"


def authorize(forge: Forge, wanted: Wanted, tell: Callable[[str], None]) -> None:
    """Have this key among the repository's deploy keys, with write access; says what was found or done.

    Raises Refused(rule="AUTH-3"), Transient: each says what became of the key, and what to type next.
    """
    tell(f"asking {forge.host} about the deploy keys of {forge.repository}, with the token from {forge.source}")
    try:
        present = forge.keys()
        mine = [key for key in present if key.blob == wanted.key.blob]
        if mine:
            tell(_present(mine, forge, wanted))
            return
        name = _free(title(wanted.body), wanted.key, [key.title for key in present])
        added = forge.add(name, wanted.key.line)
    except SoulError as error:
        raise told(error, wanted) from error
    tell(
        f"added: deploy key {readable(added.title, 100)!r} (id {added.id}), {wanted.key.fingerprint}, with write access"
    )
    if forge.kind == "github":
        tell("GitHub takes it away again when the token that added it is deleted or revoked.")


def _present(mine: Sequence[DeployKey], forge: Forge, wanted: Wanted) -> str:
    """What to say of a key that is there already. Raises Refused when it may only read."""
    shown = f"{readable(mine[0].title, 100)!r} (id {mine[0].id})"
    if any(key.write for key in mine):
        return f"this body's key is there already, with write access: {shown}, {wanted.key.fingerprint}"
    steps = "\n".join(revoking.by_program(forge.kind, forge.host, forge.repository, mine[0].id))
    raise Refused(
        f"this body's key is a deploy key of {forge.repository} already, {shown}, but it may only read",
        kind="auth",
        rule="AUTH-3",
        advice=f"Delete it there, so that it can be added with write access:\n{steps}\nor at "
        f"{revoking.page(forge.kind, wanted.address)}",
    )


def _free(wanted: str, key: Public, taken: Sequence[str]) -> str:
    """A title that no other key has: some hosts take each only once, and a body may have had another key before."""
    return wanted if wanted not in taken else f"{wanted} {key.fingerprint.removeprefix('SHA256:')[:8]}"


def told(error: SoulError, wanted: Wanted) -> SoulError:
    """The same, with what to type next."""
    family = AnswerLost if isinstance(error, AnswerLost) else Transient if isinstance(error, Transient) else Refused
    advice = f"{error.advice}\nThen: {wanted.again}\nOr without a token, `{wanted.pasted}` prints what to paste where."
    return family(error.message, kind=error.kind, rule=error.rule or "AUTH-3", advice=advice.strip())


def not_yet(again: str, error: SoulError) -> Refused:
    """The refusal of a key that the API has, and the login does not accept. again: the command that goes on."""
    return Refused(
        f"the key is added, but the host does not accept it yet: {error.message}",
        kind="auth",
        rule="AUTH-3",
        advice="The key stays added; nothing else was changed. Some hosts take a minute: "
        f"`{again}` again.\nIf that goes on, see whether the address and --api mean one repository.",
    )
