"""`--authorize` of `init` and `key rotate`: this body's key through the host's API, by a token that is kept nowhere."""

from __future__ import annotations

import argparse
import shlex

from bridge import __version__
from bridge.adapters import child, config, forges
from bridge.app import authorizing
from bridge.commands.context import Context
from bridge.core import address
from bridge.core import forges as known
from bridge.core.errors import Unusable


def refuse_nonsense(arguments: argparse.Namespace, offline: bool = False) -> None:
    """Raise Unusable for words that cannot go together, before anything is made."""
    kind, api = arguments.authorize, arguments.api
    if api is not None and kind is None:
        raise Unusable(
            "--api says where to ask, and --authorize is missing",
            kind="usage",
            advice="Nothing was changed. Add --authorize github, gitlab or forgejo.",
        )
    if kind is not None and offline:
        raise Unusable(
            "--authorize asks the host, and --offline asks nobody",
            kind="usage",
            advice="Nothing was changed. Leave one of them out.",
        )
    if api is not None:
        forges.base(api)


def refuse_mismatch(kind: str, api: str | None, where: address.Address) -> None:
    """Raise Unusable when the address is of another kind of host: the token must not go there."""
    other = known.kind(where.host)
    if api is None and other is not None and other != kind:
        raise Unusable(
            f"{where.host} is no {forges.DIALECTS[kind].name}: the token was not sent there",
            kind="usage",
            rule="AUTH-3",
            advice=f"Nothing was changed. Give --authorize {other}.",
        )
    if kind != "gitlab" and known.repository(where).count("/") != 1:
        raise Unusable(
            f"{where.text} does not say OWNER/REPO, which is how {forges.DIALECTS[kind].name} names a repository",
            kind="usage",
            rule="AUTH-3",
            advice="Nothing was changed. The address ends in OWNER/REPO.git on such a host; "
            "`soul-bridge init --help` shows it.",
        )


def words(arguments: argparse.Namespace) -> str:
    """The options as they were typed, for the command to be typed again."""
    api = f" --api {shlex.quote(arguments.api)}" if arguments.api else ""
    return f" --authorize {arguments.authorize}{api}" if arguments.authorize else ""


def let_in(arguments: argparse.Namespace, context: Context, wanted: authorizing.Wanted) -> None:
    """Find a token, and have the key let in with it. Raises Refused, Transient, Unusable: each says what is safe."""
    kind, where = arguments.authorize, wanted.address
    refuse_mismatch(kind, arguments.api, where)
    url, host = known.api(kind, where.host), known.site(where.host)
    if arguments.api is not None:
        named = forges.base(arguments.api)
        url = arguments.api.rstrip("/") + ("" if named.path else known.api_path(kind, named.host))
        host = named.shown
    looked = forges.names(kind, host, arguments.api is not None)
    found = config.token(looked)
    token = forges.plain(found) if found else forges.of_program(kind, host, child.environment())
    if token is None:
        raise authorizing.told(forges.missing(kind, host, looked), wanted)
    forge = forges.Forge(kind, url, known.repository(where), token, __version__)
    authorizing.authorize(forge, wanted, context.say)
