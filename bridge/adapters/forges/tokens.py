"""Where a token comes from: a variable of the environment, or the program in which a person is logged in already.

It is held by one call, shown by nobody, and given to nobody but the API that it is for.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from bridge.core.errors import Refused, Unusable

NAMES = {
    "github": ("GH_TOKEN", "GITHUB_TOKEN"),
    "gitlab": ("GITLAB_TOKEN",),
    "forgejo": ("FORGEJO_TOKEN", "GITEA_TOKEN"),
}
# A token for github.com must not reach another server by accident, so those have names of their own, as in `gh`.
ELSEWHERE = ("GH_ENTERPRISE_TOKEN", "GITHUB_ENTERPRISE_TOKEN")
PROGRAMS = {
    "github": ("gh", "auth", "token", "--hostname"),
    "gitlab": ("glab", "config", "get", "token", "--host"),
}
LOGINS = {"github": "gh auth login --hostname", "gitlab": "glab auth login --hostname"}
PATIENCE = 20.0  # seconds for such a program
_PLAIN = re.compile(r"[\x21-\x7e]{1,4096}")


@dataclass(frozen=True, slots=True)
class Token:
    """A token. source: where it is from, in words."""

    text: str = field(repr=False)
    source: str


def names(kind: str, host: str, named: bool) -> tuple[str, ...]:
    """The variables that may hold a token for a host. named: a person said which API is meant."""
    if kind == "github" and host != "github.com":
        return (*ELSEWHERE, *NAMES[kind]) if named else ELSEWHERE
    return NAMES[kind]


def plain(found: tuple[str, str]) -> Token:
    """The token in a variable, as name and text. Raises Unusable, without the text, when it cannot be one."""
    name, text = found
    if not _PLAIN.fullmatch(text):
        raise Unusable(
            f"{name} holds what cannot be a token: it has blanks, line ends or strange characters in it",
            kind="auth",
            rule="AUTH-3",
            advice=f"Nothing was sent. Set {name} to the token alone.",
        )
    return Token(text, name)


def of_program(kind: str, host: str, environment: Mapping[str, str]) -> Token | None:
    """What the host's own program says, None without it, or when nobody is logged in there."""
    words = PROGRAMS.get(kind)
    if words is None:
        return None
    try:
        done = subprocess.run(
            # From where no repository is: what stands in one must not decide what is asked.
            [*words, host], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            env=dict(environment), cwd="/", timeout=PATIENCE, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return None
    said = done.stdout.decode("ascii", "replace").strip()
    # Some versions print their help, and exit 0, for words that they do not know.
    return Token(said, words[0]) if done.returncode == 0 and _PLAIN.fullmatch(said) else None


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def missing(kind: str, host: str, looked: Sequence[str]) -> Refused:
    """The refusal when there is no token anywhere."""
    program = PROGRAMS[kind][0] if kind in PROGRAMS else None
    others = f", and {program} is not there or not logged in to {host}" if program else ""
    ways = [f"`read -rs {looked[-1]} && export {looked[-1]}`, which takes it without showing it"]
    ways += [f"`{LOGINS[kind]} {host}`"] if program else []
    return Refused(
        f"there is no token for {host}: {_listed(looked)} {'is' if len(looked) == 1 else 'are'} not set{others}",
        kind="auth",
        rule="AUTH-3",
        advice=f"Nothing was sent. Give one for this call: {'; or '.join(ways)}.",
    )
