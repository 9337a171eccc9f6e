"""Addresses: what is refused says which form is right and keeps what may be secret to itself."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.core import address
from bridge.core.errors import Unusable


def refusal(text: str) -> Unusable:
    with pytest.raises(Unusable) as caught:
        address.parse(text)
    return caught.value


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("https://github.com/me/kaoru.soul", "git@github.com:me/kaoru.soul.git"),
        ("https://github.com/me/kaoru.soul.git/", "git@github.com:me/kaoru.soul.git"),
        ("http://git.example:8080/me/k.git?x=1#y", "git@git.example:me/k.git"),
        ("git://host/k", "git@host:k.git"),
        ("github.com/me/k", "git@github.com:me/k.git"),
        ("github.com:me/k.git", "git@github.com:me/k.git"),
        ("me@host:k.git", "git@host:k.git"),
        ("git@github.com/me/k", "git@github.com:me/k.git"),
        (" git@host:k.git\n", "git@host:k.git"),
        ("ssh://root@host:2222/srv/k.git", "ssh://git@host:2222/srv/k.git"),
        ("ssh://root@host/srv/k", "ssh://git@host/srv/k.git"),
        ("/srv/k.git", address.FORMS),
        ("file:///srv/k.git", address.FORMS),
        ("git@host:a/../k.git", address.FORMS),
        ("ssh://git@host:99999/k.git", address.FORMS),
        ("notes", address.FORMS),
    ],
)
def test_a_refusal_says_the_right_form(text: str, right: str) -> None:
    """AUTH-1"""
    error = refusal(text)
    assert (error.rule, error.kind, error.exit_code) == ("AUTH-1", "config", 2)
    assert f"write it as {right}" in error.message
    assert right not in error.advice, "it is said once"


@pytest.mark.parametrize(
    "text",
    [
        "https://user:s3cret@github.com/me/k.git",
        "https://s3cret@github.com/me/k.git",
        "ssh://git:s3cret@host/k.git",
        "https://a:s3c@s3cret/x@host/k.git",
        "s3cret@host:k.git",
        "https://host/k.git?token=s3cret",
    ],
)
def test_a_refusal_tells_no_password(text: str) -> None:
    """AUTH-1: what is refused ends up in logs."""
    error = refusal(text)
    assert "s3c" not in error.message + error.advice


@given(text=st.text(alphabet="git@:/.h-~[]?#%1 \n", max_size=20) | st.text(max_size=20))
def test_no_text_breaks_the_reader_and_what_is_accepted_is_harmless(text: str) -> None:
    """AUTH-1: an accepted address has nothing in it that a shell, ssh or git would take for something else."""
    try:
        found = address.parse(text)
    except Unusable as error:
        assert error.advice
    else:
        assert found.text == text
        assert not found.path.startswith("-") and "/-" not in found.path and not found.host.startswith("-")
        assert ".." not in found.path.split("/")
        assert not set(found.path) & set(" \n'\"$`\\;&|<>*?[]{}()!#%")
        assert 0 < found.port < 65536


@pytest.mark.parametrize("right", [address.parse("git@host:me/k.git"), address.parse("ssh://git@host/me/k.git")])
def test_the_standard_port_is_not_part_of_the_name_of_a_host(right: address.Address) -> None:
    """AUTH-6"""
    assert right.known_host_key_name == "host"


def test_another_port_is_part_of_the_name_of_a_host() -> None:
    """AUTH-6"""
    assert address.parse("ssh://git@HOST:2222/k.git").known_host_key_name == "[host]:2222"
    assert address.parse("ssh://git@[::1]:2222/k.git").known_host_key_name == "[::1]:2222"


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("git@127.0.0.1:2922/kaoru.soul.git", "ssh://git@127.0.0.1:2922/kaoru.soul.git"),
        ("git@my.server:22/me/kaoru.soul.git", "ssh://git@my.server:22/me/kaoru.soul.git"),
        ("git@my.server:kaoru.soul.git", None),
        ("git@my.server:99999/kaoru.soul.git", None),
        ("ssh://git@my.server/2922/kaoru.soul.git", None),
    ],
)
def test_a_port_that_was_written_like_a_folder_is_recognised(text: str, meant: str | None) -> None:
    """AUTH-1: the form without a port has no place for one."""
    assert address.with_port(address.parse(text)) == meant
