"""The deploy keys of one repository on GitHub, GitLab, or Forgejo, Gitea and Codeberg, by the API of each.

What each calls a thing stands in one table. What a host says is made safe to show, and never holds the token.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NoReturn

from bridge.adapters.forges.http import Answer, Api, Patience, base
from bridge.adapters.forges.tokens import Token, missing, names, of_program, plain
from bridge.core import forges
from bridge.core.errors import Refused, SoulError, Transient
from bridge.core.words import readable

__all__ = ["DIALECTS", "DeployKey", "Forge", "Patience", "Token", "base", "missing", "names", "of_program", "plain"]

MOST_PAGES = 40  # of a repository's deploy keys
LONGEST = 300  # characters of a host's words that are shown


@dataclass(frozen=True, slots=True)
class DeployKey:
    """A key of the repository. blob: base64. write: whether it may push, as far as the host says."""

    id: int
    title: str
    blob: str
    write: bool


@dataclass(frozen=True, slots=True)
class Dialect:
    """What one kind of host calls things. needs: what a token has to be allowed. page: the query for one page."""

    name: str
    needs: str
    page: str
    headers: Callable[[str], Mapping[str, str]]
    write: Callable[[Mapping[str, Any]], bool]
    asked: Mapping[str, Any]


DIALECTS = {
    "github": Dialect(
        "GitHub",
        "a fine-grained token with *Administration: read and write* on this repository, or a classic one with `repo`",
        "?per_page=100&page={}",
        lambda token: {
            "Accept": "application/vnd.github+json",
            "X-GitHub-Api-Version": "2022-11-28",
            "Authorization": f"Bearer {token}",
        },
        lambda row: row.get("read_only") is False,
        {"read_only": False},
    ),
    "gitlab": Dialect(
        "GitLab",
        "a token with the scope `api`, of somebody who is Maintainer of the project",
        "?per_page=100&page={}",
        lambda token: {"Accept": "application/json", "Authorization": f"Bearer {token}"},
        lambda row: row.get("can_push") is True,
        {"can_push": True},
    ),
    "forgejo": Dialect(
        "Forgejo or Gitea",
        "a token with `write:repository`, of an administrator of the repository",
        "?limit=50&page={}",
        lambda token: {"Accept": "application/json", "Authorization": f"token {token}"},
        lambda row: row.get("read_only") is False,
        {"read_only": False},
    ),
}


class Forge:
    """One repository's deploy keys. Each question is one connection, and ends in time."""

    def __init__(
        self, kind: str, url: str, repository: str, token: Token, version: str, patience: Patience | None = None
    ) -> None:
        """url: of the API. repository: as the host calls it. Raises Unusable for an address that may not be asked."""
        self.kind = kind
        self.repository = repository
        self.source = token.source
        self._token = token
        self._dialect = DIALECTS[kind]
        self._path = forges.keys_path(kind, repository)
        headers = {**self._dialect.headers(token.text), "User-Agent": f"soul-bridge/{version}"}
        self._api = Api(base(url), headers, patience or Patience())
        self.host = self._api.base.shown

    def keys(self) -> list[DeployKey]:
        """Every deploy key that is there. Raises Refused, Transient: nothing was changed."""
        found: dict[int, DeployKey] = {}
        for page in range(1, MOST_PAGES + 1):
            answer = self._api.ask("GET", self._path + self._dialect.page.format(page))
            if answer.status != 200:
                raise self._refusal(answer, "Nothing was changed.")
            if not isinstance(answer.document, list):
                self._misunderstood("Nothing was changed.")
            fresh = [key for key in map(self._key, answer.document) if key is not None and key.id not in found]
            if not fresh:  # an empty page, or the same one again
                break
            found.update({key.id: key for key in fresh})
        return list(found.values())

    def add(self, title: str, line: str) -> DeployKey:
        """Let a key in, with write access, and give what the host made of it.

        Raises Refused, Transient: it was not added. AnswerLost: nobody knows.
        """
        answer = self._api.ask("POST", self._path, {"title": title, "key": line, **self._dialect.asked})
        if answer.status not in (200, 201):
            raise self._refusal(answer, "The key was not added.")
        key = self._key(answer.document)
        if key is None:
            self._misunderstood("Whether the key was added is not known; asking again is safe, since it looks first.")
        return key

    def _key(self, row: object) -> DeployKey | None:
        if not isinstance(row, dict):
            return None
        id, text, title = row.get("id"), row.get("key"), row.get("title")
        words = text.split() if isinstance(text, str) else []
        if not isinstance(id, int) or len(words) < 2:
            return None
        return DeployKey(id, title if isinstance(title, str) else "", words[1], self._dialect.write(row))

    def _misunderstood(self, safe: str) -> NoReturn:
        raise Refused(
            f"{self.host} does not answer as the API of {self._dialect.name} does",
            kind="auth",
            rule="AUTH-3",
            advice=f"{safe} Is the kind of host right, and --api, if its API has another address?",
        )

    def _refusal(self, answer: Answer, safe: str) -> SoulError:
        """What an answer that is no success means. safe: what became of the key."""
        status, said = answer.status, self._said(answer)
        token, there = f"the token from {self.source}", self.repository
        words = f": {said}" if said else ""
        needs = f"{safe} What it takes is {self._dialect.needs}."
        if status == 429 or (status == 403 and _is_limit(answer, said)):
            return Transient(
                f"{self.host} has had too many questions ({status}){words}",
                rule="AUTH-3",
                advice=f"{safe} Wait {_wait(answer.headers)}.",
            )
        if status >= 500:
            return Transient(f"{self.host} cannot answer now ({status}){words}", rule="AUTH-3", advice=safe)
        if status == 401:
            return _no(f"{self.host} does not accept {token} (401){words}", f"{needs} It may have expired.")
        if status == 403:
            return _no(f"{token} may not change the deploy keys of {there} (403){words}", needs)
        if status == 404:
            unseen = f"{there} is not on {self.host}, or {token} may not see its deploy keys (404){words}"
            return _no(unseen, f"{needs} Is the repository made, and its name right?")
        if 300 <= status < 400:
            return _no(
                f"{self.host} sends to another place ({status}), where {token} is not taken",
                f"{safe} Was the repository renamed or moved? Then use its present address; or give --api.",
            )
        if status in (400, 409, 422):
            return _no(f"{self.host} refuses the key ({status}){words}", f"{safe} {_remedy(said)}")
        return _no(f"{self.host} answers with {status}{words}", safe)

    def _said(self, answer: Answer) -> str:
        said = "; ".join(dict.fromkeys(_words(answer.document)))
        return readable(said.replace(self._token.text, "…"), LONGEST).rstrip(".")


def _no(message: str, advice: str) -> Refused:
    return Refused(message, kind="auth", rule="AUTH-3", advice=advice)


def _words(document: object) -> Iterator[str]:
    """What a host says of a refusal: a text, or texts by field, as each of them writes it."""
    if not isinstance(document, dict):
        return
    for name in ("message", "error", "error_description"):
        found = document.get(name)
        if isinstance(found, str):
            yield found
        elif isinstance(found, dict):
            yield from (f"{field} {text}" for field, texts in found.items() for text in _texts(texts))
    errors = document.get("errors")
    for error in errors if isinstance(errors, list) else ():
        yield from _texts(error.get("message") if isinstance(error, dict) else error)


def _texts(found: object) -> list[str]:
    return [text for text in (found if isinstance(found, list) else [found]) if isinstance(text, str)]


def _remedy(said: str) -> str:
    if any(words in said.lower() for words in ("already in use", "already been taken", "has been used", "non-deploy")):
        return (
            "It is a key of another repository, or of an account, on that host, and a key opens one repository only "
            "(AUTH-2): delete it there, or take a new one: `soul-bridge key rotate`."
        )
    if "disabled" in said.lower():
        return "Deploy keys have to be allowed there first, in the settings of the organisation or the server."
    return "Read the host's words."


def _is_limit(answer: Answer, said: str) -> bool:
    headers = answer.headers
    return headers.get("x-ratelimit-remaining") == "0" or "retry-after" in headers or "rate limit" in said.lower()


def _wait(headers: Mapping[str, str]) -> str:
    """How long a host wants to be left alone, in words."""
    after, reset = headers.get("retry-after", ""), headers.get("x-ratelimit-reset", "")
    if after.isascii() and after.isdigit():
        return f"{int(after[:9])} s"
    if after:
        return f"until {readable(after, 40)}"
    with contextlib.suppress(ValueError, OverflowError, OSError):
        return f"until {datetime.fromtimestamp(int(reset[:12]), UTC):%Y-%m-%d %H:%M:%S} UTC"
    return "a minute"
