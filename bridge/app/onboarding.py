"""What a person is told on the way to a synchronised soul, and where a soul must not be laid."""

from __future__ import annotations

import re
from pathlib import Path

from bridge.core.address import Address
from bridge.core.errors import Refused, Unusable

_FORGES = {
    "github.com": ("https://github.com/{path}/settings/keys/new", "Allow write access"),
    "gitlab.com": (
        "https://gitlab.com/{path}/-/settings/repository#js-deploy-keys-settings",
        "Grant write permissions to this key",
    ),
    "codeberg.org": ("https://codeberg.org/{path}/settings/keys", "Enable write access"),
}


def body_name(host: str) -> str:
    """A body's name from a machine's: lower-case letters, digits and "-", "body" when nothing is left."""
    return re.sub(r"[^a-z0-9]+", "-", host.partition(".")[0].lower()).strip("-")[:40].strip("-") or "body"


def where_to_paste(address: Address, public_line: str) -> str:
    """Exactly where a deploy key goes on this host, in words for people (AUTH-3)."""
    path = address.path.strip("/").removesuffix(".git")
    if address.host in _FORGES:
        place, box = _FORGES[address.host]
        return f'Open {place.format(path=path)}, paste the line, tick "{box}".'
    place = address.path.removeprefix("/") if address.path.startswith("/~") else address.path
    cases = "".join(f"'git-{name} '*) exec git-{name} '{place}';; " for name in ("upload-pack", "receive-pack"))
    command = f'case \\"$SSH_ORIGINAL_COMMAND\\" in {cases}*) exit 1;; esac'
    return (
        f"On a GitLab, Forgejo or Gitea at {address.host}: the repository's settings, Deploy keys, with write access.\n"
        f"On your own server, as its user {address.user}: soul-bridge host authorize {place} '{public_line}'\n"
        f"or, without soul-bridge there, this line in ~{address.user}/.ssh/authorized_keys, with the place where the\n"
        f'repository lies: restrict,command="{command}" {public_line}'
    )


def not_authorised(address: Address, public_line: str, agent: str, error: Refused) -> Refused:
    """The refusal of a key that the host does not accept yet, with what to do next."""
    return Refused(
        f"the host does not accept this body's key for {address.text} with write access: {error.message}",
        kind="auth",
        rule="AUTH-3",
        advice=f"Add it as a deploy key with write access (Allow write access):\n\n{public_line}\n\n"
        f"{where_to_paste(address, public_line)}\nThen run `soul-bridge init {agent}` again; nothing was written yet.",
    )


def refuse_place(soul: Path, home: Path, private: list[Path]) -> None:
    """Raise when a soul must not be laid here: the root, a home directory, or a folder with keys in it (CONTENT-2)."""
    real = soul.resolve()
    if real == Path(real.anchor) or real == home.resolve():
        raise Unusable(
            f"{soul} cannot be a soul: everything in it would be published",
            kind="config",
            rule="REPO-5",
            advice="Choose a folder of its own with --soul.",
        )
    for place in private:
        if real in (place.resolve(), *place.resolve().parents):
            raise Refused(
                f"{place} is inside {soul}: keys and configuration must not lie in a soul",
                kind="rule",
                rule="CONTENT-2",
                advice="Choose another folder with --soul; nothing was written.",
            )


def other_host(agent: str, body: str, registered: str, host: str) -> Refused:
    """The refusal of a body's name that another machine carries."""
    return Refused(
        f"the body {body} is registered for the machine {registered}, and this one is {host}",
        kind="rule",
        rule="MERGE-9",
        advice=f"Choose another name with --body, or, if {registered} no longer runs it, "
        f"`soul-bridge init {agent} --take-over`.",
    )
