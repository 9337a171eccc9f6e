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
    """The body whose right goes. title, comment: what its key is called. fingerprint: None where nobody knows it."""

    agent: str
    body: str
    fingerprint: str | None

    @property
    def titles(self) -> tuple[str, str]:
        """What its key may be called at a host: as `--authorize` does, or as it was pasted."""
        return f"soul-bridge {self.body}", f"{self.agent}.{self.body} soul-bridge"

    @property
    def known_as(self) -> str:
        """The key in words."""
        first, second = self.titles
        titled = f'titled "{first}" or "{second}"'
        return f"the key {self.fingerprint}, {titled}" if self.fingerprint else f"the key {titled}"


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
    """What to do on each kind of host; the kind that the address tells comes first."""
    known = forges.kind(address.host)
    owned = forges.repository(address).count("/") > 0
    others = [_by_forge(kind, address, lost) for kind in forges.KINDS if kind != known]
    own = [_own_server(address, lost), _gitolite(lost)]
    if known:
        return [_by_forge(known, address, lost), *others, *own]
    return [*others, *own] if owned and address.path.count("/") < 3 else [*own, *others]


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
    name = lost.fingerprint or f"{lost.agent}.{lost.body}"
    return Steps(
        f"your own server, as its user {address.user}",
        (
            f"soul-bridge host revoke {name}",
            f"Without soul-bridge there: delete the line that ends in `{lost.agent}.{lost.body} soul-bridge` from "
            f"~{address.user}/.ssh/authorized_keys; `ssh-keygen -lf ~{address.user}/.ssh/authorized_keys` shows the "
            "fingerprints.",
            "A connection that is open ends within ten minutes, or at once with its sshd process.",
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


def words(lost: Lost, found: Sequence[Steps], own: bool) -> str:
    """The steps as a person reads them."""
    lines = [
        f"To revoke the body {lost.body} of {lost.agent}, delete its deploy key; the first of these is likely yours."
    ]
    for one in found:
        lines += ["", f"{one.where}:", *(f"  {line}" for line in one.do)]
    lines += ["", "From its next login on it can neither read nor write; the copy that it has stays with it."]
    if not own:
        lines.append(f"Then take it out of the registry:  soul-bridge bodies forget {lost.body} --agent {lost.agent}")
    return "\n".join(lines)
