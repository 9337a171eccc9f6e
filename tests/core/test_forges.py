"""Git hosts that many know: what each is, where its pages and API are, and where it answers when port 22 is closed."""

from __future__ import annotations

import pytest

from bridge.core import address, forges


@pytest.mark.parametrize(
    ("host", "kind"),
    [
        ("github.com", "github"), ("ssh.github.com", "github"), ("gitlab.com", "gitlab"),
        ("altssh.gitlab.com", "gitlab"),
        ("codeberg.org", "forgejo"), ("git.example.org", None), ("github.com.example.org", None),
    ],
)  # fmt: skip
def test_only_a_host_that_everybody_knows_has_a_kind(host: str, kind: str | None) -> None:
    assert forges.kind(host) == kind


@pytest.mark.parametrize(
    ("kind", "host", "url"),
    [
        ("github", "github.com", "https://api.github.com"),
        ("github", "ssh.github.com", "https://api.github.com"),
        ("github", "git.example.org", "https://git.example.org/api/v3"),
        ("gitlab", "altssh.gitlab.com", "https://gitlab.com/api/v4"),
        ("gitlab", "git.example.org", "https://git.example.org/api/v4"),
        ("forgejo", "codeberg.org", "https://codeberg.org/api/v1"),
        ("forgejo", "::1", "https://[::1]/api/v1"),
    ],
)
def test_the_api_is_asked_over_https_at_the_host_of_the_address(kind: str, host: str, url: str) -> None:
    """AUTH-3."""
    assert forges.api(kind, host) == url


def test_an_api_that_is_named_without_a_path_is_where_it_usually_is() -> None:
    """AUTH-3: but for a host that is there for the API alone."""
    assert forges.api_path("forgejo", "git.example.org") == "/api/v1"
    assert forges.api_path("gitlab", "api.example.org") == "/api/v4"
    assert (forges.api_path("github", "git.example.org"), forges.api_path("github", "api.github.com")) == (
        "/api/v3",
        "",
    )


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("git@github.com:me/kaoru.soul.git", "ssh://git@ssh.github.com:443/me/kaoru.soul.git"),
        ("ssh://git@gitlab.com/me/sub/kaoru.soul", "ssh://git@altssh.gitlab.com:443/me/sub/kaoru.soul"),
        ("git@bitbucket.org:me/kaoru.soul.git", "ssh://git@altssh.bitbucket.org:443/me/kaoru.soul.git"),
        ("ssh://git@ssh.github.com:443/me/kaoru.soul.git", None),
        ("git@codeberg.org:me/kaoru.soul.git", None),
        ("git@git.example.org:me/kaoru.soul.git", None),
    ],
)
def test_a_closed_port_22_has_a_way_round_where_the_host_offers_one(text: str, other: str | None) -> None:
    """AUTH-1: the other address is one that may be configured."""
    found = forges.detour(address.parse(text))
    assert found == other
    assert found is None or address.parse(found).port == 443


def test_keys_are_found_by_the_name_of_the_repository() -> None:
    """AUTH-3."""
    where = address.parse("ssh://git@git.example.org:2222/me/sub/kaoru.soul.git")
    assert forges.repository(where) == "me/sub/kaoru.soul"
    assert forges.keys_path("gitlab", "me/sub/kaoru.soul") == "/projects/me%2Fsub%2Fkaoru.soul/deploy_keys"
    assert forges.keys_path("forgejo", "me/kaoru.soul") == "/repos/me/kaoru.soul/keys"
    page = forges.keys_page("gitlab", address.parse("git@gitlab.com:me/kaoru.soul.git"))
    assert page == "https://gitlab.com/me/kaoru.soul/-/settings/repository#js-deploy-keys-settings"
    assert forges.keys_page("forgejo", where) == "https://git.example.org/me/sub/kaoru.soul/settings/keys"


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("git@github.com:me/kaoru.soul.git", ("github",)),
        ("git@git.example.org:me/kaoru.soul.git", ("forgejo", "gitlab", "github")),
        ("git@git.example.org:me/group/kaoru.soul.git", ("gitlab",)),
        ("git@my.server:kaoru.soul.git", ()),
        ("ssh://git@my.server/~git/kaoru.soul.git", ()),
        ("git@my.server:/srv/kaoru.soul.git", ()),
        ("git@my.server:srv/kaoru.soul.git", ("forgejo", "gitlab", "github")),
    ],
)
def test_an_address_tells_which_kinds_of_host_it_may_be_on(text: str, kinds: tuple[str, ...]) -> None:
    """AUTH-3: none of them keeps a repository without an owner, or in a folder of the machine."""
    assert forges.possible(address.parse(text)) == kinds
