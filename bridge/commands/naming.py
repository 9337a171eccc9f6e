"""The names and the address that `init` is given: what cannot be is answered with the whole command that was meant."""

from __future__ import annotations

import argparse
import contextlib
import shlex
from pathlib import Path

from bridge.adapters import config
from bridge.app import onboarding
from bridge.commands import authorize
from bridge.core import address, forges, identity
from bridge.core.errors import Unusable
from bridge.core.words import line, readable


def refuse_names(arguments: argparse.Namespace) -> None:
    """Raise Unusable for names that cannot be, with the command that was probably meant."""
    for word, what, rule in (("agent", "an agent", "FORM-1"), ("body", "a body", "FORM-6")):
        name = getattr(arguments, word)
        if name is None or identity.NAME.fullmatch(name):
            continue
        given = {each: getattr(arguments, each) for each in ("agent", "body")}
        names = {each: identity.suggestion(text or "") or text for each, text in given.items()}
        meant = f"Nothing was written. {typed(arguments, **names, remote=_right(arguments.remote))}"
        raise Unusable(
            f"{readable(name, 60)!r} cannot be the name of {what}: "
            "lower-case letters, digits and -, at most 40, not beginning with -",
            kind="usage",
            rule=rule,
            advice=meant
            if identity.suggestion(name)
            else "Nothing was written. Choose another name, such as kaoru or laptop.",
        )


def _right(remote: str | None) -> str | None:
    """An address as it can be, where that is plain."""
    with contextlib.suppress(Unusable):
        return address.parse(remote or "").text
    return address.meant(remote or "") or remote


def refuse_address(arguments: argparse.Namespace) -> None:
    """Raise Unusable for an address that cannot be, with the command that was probably meant."""
    try:
        address.parse(arguments.remote)
    except Unusable as error:
        right = address.meant(arguments.remote) or f"git@HOST:OWNER/{arguments.agent}.soul.git"
        advice = f"Nothing was changed. {typed(arguments, remote=right)}"
        raise Unusable(error.message, kind=error.kind, rule=error.rule, advice=advice) from error
    given = address.parse(arguments.remote)
    ported = address.with_port(given)
    if ported is not None and forges.kind(given.host) is None:
        folder = f"ssh://git@{given.host}/{given.path.removeprefix('/')}"
        raise Unusable(
            f"{given.text} names a folder, and no port; did you mean {ported} ?",
            kind="usage",
            rule="AUTH-1",
            advice=f"Nothing was changed. {typed(arguments, remote=ported)}\n"
            f"Or, if it is a folder: {typed(arguments, remote=folder)}",
        )


def typed(arguments: argparse.Namespace, **other: str | None) -> str:
    """The command as it was typed, with other words in the place of some."""
    given = {**vars(arguments), **other}
    words = ["soul-bridge init", shlex.quote(given["agent"])]
    for name in ("remote", "body", "soul", "display_name", "host_key"):
        if given[name]:
            words.append(f"--{name.replace('_', '-')} {shlex.quote(line(given[name]))}")
    words += [f"--wait {given['wait']:g}"] if given["wait"] else []
    words += [f"--{name.replace('_', '-')}" for name in ("offline", "take_over") if given[name]]
    return " ".join(words) + authorize.words(arguments)


def again(arguments: argparse.Namespace) -> str:
    """The command that goes on with an `init` which stopped before the soul was made: what is kept nowhere until then
    is said again."""
    name = f" --display-name {shlex.quote(line(arguments.display_name))}" if arguments.display_name else ""
    return f"soul-bridge init {shlex.quote(arguments.agent)}{name}"


def refuse_another_agent(
    content: bytes | None, arguments: argparse.Namespace, settings: config.Settings, configuration: Path
) -> None:
    """Raise Refused where neither the soul itself nor its repository is called as the agent that was typed.

    content: of the identity there. One of the two is enough: a soul may have been given another name, and the agents
    of two people the same.
    """
    found, agent = (identity.read(content) or {}).get("name"), settings.agent
    called = identity.suggestion(address.parse(settings.remote).path.rpartition("/")[2])
    if isinstance(found, str) and identity.NAME.fullmatch(found) and agent not in (found, called):
        again = typed(arguments, agent=found, remote=settings.remote, body=settings.body)
        left = [configuration, settings.key, settings.key.with_name(f"{settings.key.name}.pub")]
        raise onboarding.another_agent(agent, found, again, settings.remote, left)
