"""Where a token comes from, and that it goes nowhere else: the environment, then gh or glab, never an argument."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from bridge.adapters import config, forges
from bridge.core.errors import Unusable
from tests.forges.fake import TOKEN, FakeForge
from tests.real.fleet import Body

SCRIPT = """#!/bin/sh
printf '%s\\n' "$0 $*" >> {log}
{does}
"""


def program(root: Path, name: str, does: str) -> Path:
    """A program of that name, first on a PATH of its own; what it was asked is in the file beside it."""
    place = root / "bin"
    place.mkdir(exist_ok=True)
    path = place / name
    path.write_text(SCRIPT.format(log=root / "asked", does=does))
    path.chmod(0o755)
    return place


def environment(place: Path) -> dict[str, str]:
    return {"PATH": f"{place}:{os.environ['PATH']}"}


def test_the_first_variable_that_holds_something_counts() -> None:
    """AUTH-3: as gh takes them."""
    found = config.token(forges.names("github", "github.com", False), {"GITHUB_TOKEN": " b \n", "GH_TOKEN": " "})
    assert found == ("GITHUB_TOKEN", "b")
    assert config.token(("GITEA_TOKEN",), {}) is None


def test_a_token_for_github_does_not_reach_another_server_by_accident() -> None:
    """AUTH-3: another server has variables of its own, unless a person names it with --api."""
    assert "GITHUB_TOKEN" not in forges.names("github", "git.example.org", False)
    assert "GITHUB_TOKEN" in forges.names("github", "git.example.org", True)


def test_what_cannot_be_a_token_is_refused_without_being_shown() -> None:
    """AUTH-3: a header would be broken by it."""
    with pytest.raises(Unusable) as caught:
        forges.plain(("GITHUB_TOKEN", f"{TOKEN}\r\nHost: elsewhere"))
    assert "GITHUB_TOKEN" in caught.value.message and TOKEN not in str(caught.value) + caught.value.advice


@pytest.mark.parametrize(
    ("kind", "name", "words"),
    [
        ("github", "gh", "auth token --hostname github.com"),
        ("gitlab", "glab", "config get token --host git.example.org"),
    ],
)
def test_the_program_where_a_person_is_logged_in_is_asked_for_that_host(
    tmp_path: Path, kind: str, name: str, words: str
) -> None:
    """AUTH-3."""
    place = program(tmp_path, name, f"echo {TOKEN}")
    found = forges.of_program(kind, words.split()[-1], environment(place))
    assert found is not None and (found.text, found.source) == (TOKEN, name)
    assert (tmp_path / "asked").read_text().strip().endswith(f"{name} {words}")


@pytest.mark.parametrize("does", ["echo 'Usage: gh auth <command> [flags]'", "exit 1", f"echo {TOKEN}; exit 4", ":"])
def test_a_program_that_has_none_is_as_good_as_no_program(tmp_path: Path, does: str) -> None:
    """AUTH-3: some versions print their help and succeed."""
    assert forges.of_program("github", "github.com", environment(program(tmp_path, "gh", does))) is None
    assert forges.of_program("forgejo", "codeberg.org", {}) is None
    assert forges.of_program("github", "github.com", {"PATH": str(tmp_path)}) is None


# --- the command -----------------------------------------------------------------------------------------------------


@pytest.fixture
def forge() -> Iterator[FakeForge]:
    """An API of GitHub's kind."""
    made = FakeForge("github")
    yield made
    made.close()


def body(root: Path, remote: str = "ssh://git@127.0.0.1:1/me/kaoru.soul.git", **environment: str) -> Body:
    made = Body("laptop", root / "laptop", remote)
    made.environment = {
        name: "" for name in ("GITHUB_TOKEN", "GH_TOKEN", "GITLAB_TOKEN", "FORGEJO_TOKEN")
    } | environment
    return made


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--api", "https://h.example"), "--authorize is missing"),
        (("--authorize", "github", "--offline"), "--offline asks nobody"),
        (("--authorize", "github", "--api", "http://h.example"), "cannot be the address of an API"),
        (("--authorize", "sourcehut"), "sourcehut"),
        (("--host-key", "nonsense"), "no fingerprint of a host key"),
    ],
)
def test_words_that_cannot_go_together_are_refused_before_a_key_is_made(
    tmp_path: Path, words: tuple[str, ...], said: str
) -> None:
    """AUTH-3, AUTH-6: exit 2, nothing written."""
    made = body(tmp_path)
    error = made.init(*words, code=2)["error"]
    assert error["kind"] == "usage" and said in error["message"] and error["advice"]
    assert not made.key.exists() and not (made.home / "config").exists()


@pytest.mark.parametrize(
    ("remote", "kind", "said"),
    [
        ("git@gitlab.com:me/kaoru.soul.git", "github", "gitlab.com is no GitHub"),
        ("git@github.com:me/kaoru.soul.git", "forgejo", "github.com is no Forgejo"),
        ("git@git.example.org:kaoru.soul.git", "forgejo", "OWNER/REPO"),
    ],
)
def test_a_token_is_not_taken_to_another_kind_of_host(tmp_path: Path, remote: str, kind: str, said: str) -> None:
    """AUTH-3: exit 2 before a key is made."""
    made = body(tmp_path, remote, GITHUB_TOKEN=TOKEN, FORGEJO_TOKEN=TOKEN)
    error = made.init("--authorize", kind, code=2)["error"]
    assert said in error["message"] and error["rule"] == "AUTH-3" and not made.key.exists()
