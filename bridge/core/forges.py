"""Git hosts that many know: of which kind each is, where its API and its pages are, and where else it answers."""

from __future__ import annotations

from bridge.core.address import SSH_PORT, Address

KINDS = ("github", "gitlab", "forgejo")  # Gitea and Codeberg speak as Forgejo does
_KNOWN = {"github.com": "github", "gitlab.com": "gitlab", "codeberg.org": "forgejo", "gitea.com": "forgejo"}
# For networks that let nobody out on port 22: the same server on port 443, with the same host keys.
_BY_443 = {
    "github.com": "ssh.github.com",
    "gitlab.com": "altssh.gitlab.com",
    "bitbucket.org": "altssh.bitbucket.org",
}  # fmt: skip
_SITES = {other: host for host, other in _BY_443.items()}
_PAGES = {
    "github": "/settings/keys",
    "gitlab": "/-/settings/repository#js-deploy-keys-settings",
    "forgejo": "/settings/keys",
}
# Where on a server's disk repositories lie: no owner on a host of many is called so.
_ON_DISK = ("srv", "home", "var", "opt", "mnt", "media", "root", "data", "usr", "Users")
_APIS = {"github": "/api/v3", "gitlab": "/api/v4", "forgejo": "/api/v1"}


def site(host: str) -> str:
    """The host that a server's pages and API are on: github.com for ssh.github.com, most often the same."""
    return _SITES.get(host, host)


def kind(host: str) -> str | None:
    """Of which of KINDS a host is; None for one that only its owner knows."""
    return _KNOWN.get(site(host))


def possible(address: Address) -> tuple[str, ...]:
    """The KINDS of host that a repository with this address may be on, likely ones first; none on an own server."""
    known = kind(address.host)
    if known is not None:
        return (known,)
    first, *rest = repository(address).split("/")
    if not rest or first.startswith("~") or (first in _ON_DISK and address.path.startswith("/")):
        return ()
    # OWNER/REPO is how they name a repository; one of them has groups within groups.
    return ("forgejo", "gitlab", "github") if len(rest) == 1 else ("gitlab",)


def repository(address: Address) -> str:
    """What the host calls the repository, such as me/kaoru.soul."""
    return address.path.strip("/").removesuffix(".git")


def api(kind: str, host: str) -> str:
    """Where the API of a host of this kind is, without a "/" at its end."""
    host = site(host)
    return "https://api.github.com" if host == "github.com" else f"https://{_bracketed(host)}{api_path(kind, host)}"


def api_path(kind: str, host: str) -> str:
    """Where on a host its API usually is: one that is there for nothing else has it at its root."""
    return "" if kind == "github" and host.startswith("api.") else _APIS[kind]


def keys_page(kind: str, address: Address) -> str:
    """The page on which the repository's deploy keys are."""
    return f"https://{_bracketed(site(address.host))}/{repository(address)}{_PAGES[kind]}"


def keys_path(kind: str, repository: str) -> str:
    """The path of a repository's deploy keys below the API."""
    # An address has no character but "/" that would have to be quoted (AUTH-1).
    return (
        f"/projects/{repository.replace('/', '%2F')}/deploy_keys" if kind == "gitlab" else f"/repos/{repository}/keys"
    )


def detour(address: Address) -> str | None:
    """The same repository's address by port 443, None where that is not known or taken already."""
    other = _BY_443.get(address.host) if address.port == SSH_PORT else None
    return f"ssh://git@{other}:443/{address.path.lstrip('/')}" if other else None


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
