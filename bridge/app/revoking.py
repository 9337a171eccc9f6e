"""How a body's right to the repository is taken away, step by step, on each kind of host (AUTH-5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import quote

from bridge.core import forges
from bridge.core.address import Address

NAMES = {"github": "GitHub", "gitlab": "GitLab", "forgejo": "Forgejo, Gitea, Codeberg"}


@dataclass(frozen=True, slots=True)
class Lost:
    """The body whose right goes. fingerprint: of its key, None where nobody knows it.

    own: it is this body, so that the fingerprint is known. What another one tells of itself may be wrong, on purpose
    too, and names no key to be deleted without its title.
    """

    agent: str
    body: str
    fingerprint: str | None
    own: bool = False

    @property
    def titles(self) -> tuple[str, str]:
        """What its key may be called at a host: as `--authorize` does, or as it was pasted."""
        return f"soul-bridge {self.body}", f"{self.agent}.{self.body} soul-bridge"

    @property
    def known_as(self) -> str:
        """The key in words."""
        first, second = self.titles
        titled = f'titled "{first}" or "{second}"'
        if self.own and self.fingerprint:
            return f"the key {self.fingerprint}, {titled}"
        return f"the key {titled}" + (
            f"; the body itself says that it is {self.fingerprint}" if self.fingerprint else ""
        )


@dataclass(frozen=True, slots=True)
class Steps:
    """What to do on one kind of host."""

    where: str
    do: tuple[str, ...]

    def as_dict(self) -> dict[str, object]:
        """Its shape in --json."""
        return {"where": self.where, "do": list(self.do)}


def page(kind: str, address: Address) -> str:
    """Where a person finds the deploy keys."""
    return forges.keys_page(kind, address)


def by_program(kind: str, host: str, repository: str, id: int | str) -> tuple[str, ...]:
    """The commands that delete one deploy key. host: of the API or of the pages. No token stands in an argument."""
    path = forges.keys_path(kind, repository)
    if kind == "github":
        there = repository if host in ("github.com", "api.github.com") else f"{host}/{repository}"
        return (f"gh repo deploy-key delete {id} --repo {there}",)
    if kind == "gitlab":
        there = "" if host == "gitlab.com" else f" --hostname {host}"
        return (f"glab api --method DELETE{there} {path.lstrip('/')}/{id}",)
    return (
        'printf \'header = "Authorization: token %s"\\n\' "$FORGEJO_TOKEN" | '
        f"curl --fail --config - --request DELETE https://{host}/api/v1{path}/{id}",
    )


def _listing(kind: str, host: str, repository: str) -> tuple[str, ...]:
    """The commands that show the ids of the deploy keys."""
    path = forges.keys_path(kind, repository)
    if kind == "github":
        there = repository if host == "github.com" else f"{host}/{repository}"
        return (f"gh repo deploy-key list --repo {there}",)
    if kind == "gitlab":
        there = "" if host == "gitlab.com" else f" --hostname {host}"
        return (f"glab api{there} {path.lstrip('/')}",)
    return (
        'printf \'header = "Authorization: token %s"\\n\' "$FORGEJO_TOKEN" | '
        f"curl --fail --config - https://{host}/api/v1{path}",
    )


def steps(address: Address, lost: Lost) -> list[Steps]:
    """What to do on this host; of each kind that the address may be on where it does not tell."""
    forges_of_it = [_by_forge(kind, address, lost) for kind in forges.possible(address)]
    if forges.kind(address.host) is not None:
        return forges_of_it
    own = [_own_server(address, lost), _gitolite(lost)]
    return [*forges_of_it, *own] if forges.repository(address).count("/") == 1 else [*own, *forges_of_it]


def _by_forge(kind: str, address: Address, lost: Lost) -> Steps:
    site, repository = forges.site(address.host), forges.repository(address)
    delete = by_program(kind, site, repository, "ID")
    return Steps(
        NAMES[kind],
        (
            f"Open {page(kind, address)} and delete {lost.known_as}.",
            "Or by command, with the id from the first:",
            *_listing(kind, site, repository),
            *delete,
        ),
    )


def _own_server(address: Address, lost: Lost) -> Steps:
    name = lost.fingerprint if lost.own and lost.fingerprint else f"{lost.agent}.{lost.body}"
    said = f"`soul-bridge host list` shows its key; the body itself says that it is {lost.fingerprint}."
    return Steps(
        f"your own server, as its user {address.user}",
        (
            f"soul-bridge host revoke {name}",
            *((said,) if lost.fingerprint and not lost.own else ()),
            f"Without soul-bridge there: delete the line that ends in `{lost.agent}.{lost.body} soul-bridge` from "
            f"~{address.user}/.ssh/authorized_keys; `ssh-keygen -lf ~{address.user}/.ssh/authorized_keys` shows the "
            "fingerprints.",
            "A connection that is open ends within ten minutes, or at once with "
            f"`sudo pkill -u {address.user} sshd`; the other bodies connect again by themselves.",
        ),
    )


def _gitolite(lost: Lost) -> Steps:
    mark = quote(f"{lost.agent}.{lost.body}", safe=".-")
    return Steps(
        "gitolite, in a clone of gitolite-admin",
        (
            f'git rm "$(grep -rlF {mark!r} keydir)"',
            f"git commit -m 'revoke {mark}' && git push",
        ),
    )


def words(lost: Lost, found: Sequence[Steps]) -> str:
    """The steps as a person reads them."""
    which = "" if len(found) == 1 else "; one of these is for this host"
    lines = [f"To revoke the body {lost.body} of {lost.agent}, delete its deploy key{which}."]
    for one in found:
        lines += ["", f"{one.where}:", *(f"  {line}" for line in one.do)]
    if lost.own:
        lines += ["", "This is the body that you are on."]
    lines += ["", "From its next login on it can neither read nor write; the copy that it has stays with it."]
    if not lost.own:
        lines.append(f"Then take it out of the registry:  soul-bridge bodies forget {lost.body} --agent {lost.agent}")
    return "\n".join(lines)
