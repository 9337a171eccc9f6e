"""The soul's remote by the git and ssh programs: the second opinion in tests, and a fallback that people can read.

It sees the checkout's objects through a git directory of its own (`gitenv`), so no configuration of anybody is obeyed.
git and ssh say only in words what went wrong; where the words are not known, the remote counts as unreachable.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from bridge.adapters.gitenv import Outcome, run_git, skeleton
from bridge.core.errors import AnswerLost, HostKeyChanged, Moved, Refused, SoulError, Transient
from bridge.core.layout import MAIN
from bridge.core.model import RemoteLook
from bridge.core.words import advice, may_pass, readable, told

INCOMING = "refs/soul-bridge/incoming"
ENDS = 4096  # characters of the first and of the last words of a server that are looked through for names
DOUBTS = 3  # so many times the same push may fail for a reason that could pass by itself

_SETTINGS = (
    "protocol.version=0",
    "fetch.unpackLimit=1",  # always one pack: a damaged loose object is never repaired by anybody
    "fetch.fsckObjects=false",  # what can be parsed and is whole is let in, as `repo.receive` does: TREE-7
)
_UNREACHABLE = re.compile(
    r"^ssh: |connection (closed|reset|timed out|refused|to \S+ closed)|kex_exchange_identification|banner exchange"
    r"|timeout, server|client_loop|broken pipe",
    re.IGNORECASE | re.MULTILINE,
)
_NEVER_SENT = re.compile(r"^ssh: (connect to|could not resolve)", re.IGNORECASE | re.MULTILINE)
_CHANGED = re.compile(r"identification has changed", re.IGNORECASE)
_HOST_KEY = re.compile(r"host key verification failed|identification has changed|no matching host key", re.IGNORECASE)
_UNAUTHORISED = re.compile(r"permission denied \(|too many authentication failures|no supported authentication", re.I)
_BOILERPLATE = re.compile(
    r"^(fatal: could not read from remote repository\.|please make sure you have the correct access rights"
    r"|and the repository exists\.|fatal: the remote end hung up unexpectedly)$",
    re.IGNORECASE | re.MULTILINE,
)


class Objects(Protocol):
    """What is needed of the repository that git works on."""

    def has(self, oid: str) -> bool:
        """Whether the object is here."""

    def is_ancestor(self, old: str, new: str) -> bool:
        """Whether `new` is `old` or descends from it."""

    def flush(self) -> None:
        """Put new objects where git finds them."""


class Address(Protocol):
    """Where the repository is (AUTH-1), as it was written."""

    @property
    def text(self) -> str: ...


class Key(Protocol):
    """A deploy key that passed its checks."""

    @property
    def path(self) -> Path: ...


@dataclass(frozen=True, slots=True)
class Access:
    """How to get in. key: asked, and so checked, before every connection."""

    address: Address
    key: Callable[[], Key]
    known_hosts: Path


class GitSsh:
    """The port `Remote` on `git` and `ssh`. look, transfer: seconds after which the children are killed."""

    def __init__(
        self, access: Access, git_dir: Path, repo: Objects, look: float = 60.0, transfer: float = 1800.0
    ) -> None:
        self._access = access
        self._git_dir = git_dir
        self._repo = repo
        self._look = look
        self._transfer = transfer
        self._doubts: tuple[str, int] = ("", 0)

    def fetch(self, known: Collection[str]) -> RemoteLook:
        """As the port says."""
        look = self._refs()
        tip = look.tip
        if tip is None or tip in known or (self._repo.has(tip) and any(self._repo.is_ancestor(tip, c) for c in known)):
            return look
        environment = self._environment({f"{INCOMING}/known/{oid}": oid for oid in known})
        options = ("--no-tags", "--no-write-fetch-head", "--no-auto-maintenance", "--no-recurse-submodules", "--quiet")
        wanted = f"+{MAIN}:{INCOMING}/main"
        outcome = self._run(("fetch", *options, self._access.address.text, wanted), environment, self._transfer)
        try:
            if outcome.code:
                raise self._failure(outcome)
            found = self._run(("for-each-ref", "--format=%(objectname)", f"{INCOMING}/main"), environment, self._look)
            if not found.stdout:
                raise self._failure(outcome)
            return RemoteLook(found.stdout.decode().strip(), look.others)
        finally:
            self._run(("update-ref", "-d", f"{INCOMING}/main"), environment, self._look)

    def push(self, expected: str | None, new: str) -> None:
        """As the port says."""
        self._repo.flush()
        lease = f"--force-with-lease={MAIN}:{expected or ''}"
        args = ("push", "--porcelain", "--no-verify", lease, self._access.address.text, f"{new}:{MAIN}")
        try:
            outcome = self._run(args, self._environment(), self._transfer)
        except Transient as error:
            raise AnswerLost(f"the push was sent, but no answer came: {error.message}") from error
        flag, reason = _verdict(outcome.stdout)
        if flag in (" ", "+", "*") and outcome.code == 0:
            self._doubts = ("", 0)
        elif flag == "=":
            raise Moved("the remote's main is already there")
        elif flag == "!":
            raise self._rejection(outcome, reason, expected, new)
        else:
            failure = self._failure(outcome)
            if isinstance(failure, Transient) and not _NEVER_SENT.search(outcome.words):
                raise AnswerLost(f"the push was sent, but no answer came: {failure.message}", advice=failure.advice)
            raise failure

    def probe_write(self) -> None:
        """Ask whether this body may write, writing nothing: a deletion of what is not there. Raises as `push`."""
        absent = "refs/soul-bridge/absent"
        args = ("push", "--porcelain", "--dry-run", "--no-verify", self._access.address.text, f":{absent}")
        outcome = self._run(args, self._environment(), self._look)
        if outcome.code and not _verdict(outcome.stdout)[0] and "remote ref does not exist" not in outcome.words:
            raise self._failure(outcome)

    def close(self) -> None:
        """As the port says: every call has a connection of its own, which ended with it."""

    def _refs(self) -> RemoteLook:
        outcome = self._run(("ls-remote", "--quiet", self._access.address.text), self._environment(), self._look)
        if outcome.code:
            raise self._failure(outcome)
        tip, others = None, []
        for line in outcome.stdout.decode("utf-8", "replace").splitlines():
            oid, _, name = line.partition("\t")
            if name == MAIN:
                tip = oid
            elif name.startswith("refs/") and not name.endswith("^{}"):
                others.append(name)
        return RemoteLook(tip, tuple(sorted(others)))

    def _rejection(self, outcome: Outcome, reason: str, expected: str | None, new: str) -> SoulError:
        said = _said(outcome) or reason
        if self._refs().tip != expected:
            return Moved(f"the remote's main moved: {reason}")
        if not may_pass(reason):
            refused = Refused(
                f"the remote refused the push: {reason}\n{said}".strip(),
                kind="rejected",
                rule="REPO-8",
                advice="Local work is safe. Read the server's words; `soul-bridge status` shows what is held back.",
            )
            refused.said = f"the remote refused the push: {reason}\n{_ends(outcome.words)}"
            return refused
        before, times = self._doubts
        self._doubts = (new, times + 1 if before == new else 1)
        if self._doubts[1] >= DOUBTS:
            return Refused(f"the remote cannot take the push: {said}", kind="rejected", advice=advice(said))
        return Transient(f"the remote could not take the push: {said}", advice=advice(said))

    def _failure(self, outcome: Outcome) -> SoulError:
        """What an outcome without an answer means; `message` holds the original words."""
        words, said = outcome.words, _said(outcome)
        if _HOST_KEY.search(words):
            remedy = "Nothing was sent. Look at both fingerprints with `soul-bridge accept-host-key`."
            family = HostKeyChanged if _CHANGED.search(words) else Refused
            return family(said, kind="hostkey", rule="AUTH-6", advice=remedy)
        if _UNAUTHORISED.search(words):
            return Refused(said, kind="auth", rule="AUTH-5", advice=advice(words))
        if "shallow roots are not allowed" in words:
            remedy = "Nothing was written there. Check `remote` in the configuration, or use an empty repository."
            return Refused(
                "the remote is shallow: a part of its history is missing",
                kind="not-a-soul",
                rule="REPO-5",
                advice=remedy,
            )
        if _UNREACHABLE.search(words) or "could not read from remote repository" not in words.lower():
            return Transient(said or "the connection was cut")
        if not said:
            return Transient("the server accepted the key, then closed the connection without a word")
        return Refused(said, kind="auth", rule="AUTH-3", advice=advice(words))

    def _environment(self, refs: Mapping[str, str] | None = None) -> dict[str, str]:
        key = self._access.key()
        command = _ssh(key.path, self._access.known_hosts)
        return {**skeleton(self._git_dir, refs or {}), "GIT_SSH_COMMAND": command, "GIT_SSH_VARIANT": "ssh"}

    def _run(self, args: Sequence[str], environment: Mapping[str, str], seconds: float) -> Outcome:
        settings = [part for setting in _SETTINGS for part in ("-c", setting)]
        return run_git([*settings, *args], environment, deadline=seconds)


def _ssh(key: Path, known_hosts: Path) -> str:
    """The ssh command line: nothing but this key and these hosts, no configuration, no question to anybody."""
    options = (
        f"IdentityFile={_quoted(key)}",
        "IdentitiesOnly=yes",
        "IdentityAgent=none",
        f"UserKnownHostsFile={_quoted(known_hosts)}",
        "GlobalKnownHostsFile=/dev/null",
        "StrictHostKeyChecking=yes",
        "UpdateHostKeys=no",
        "VerifyHostKeyDNS=no",
        "BatchMode=yes",
        "PreferredAuthentications=publickey",
        "PasswordAuthentication=no",
        "KbdInteractiveAuthentication=no",
        "KexAlgorithms=^curve25519-sha256",
        "ControlMaster=no",
        "ControlPath=none",
        "ClearAllForwardings=yes",
        "ForwardAgent=no",
        "PermitLocalCommand=no",
        "ConnectTimeout=15",
        "ServerAliveInterval=10",
        "ServerAliveCountMax=3",
    )
    return shlex.join(["ssh", "-F", "none", *(part for option in options for part in ("-o", option))])


def _quoted(path: Path) -> str:
    """A path as ssh's configuration reads it: split at blanks, `%` expanded."""
    return '"' + str(path).replace("%", "%%") + '"'


def _verdict(stdout: bytes) -> tuple[str, str]:
    """What `push --porcelain` says about its one ref: flag and reason, ("", "") when it says nothing."""
    for line in stdout.decode("utf-8", "replace").splitlines():
        flag, _, rest = line.partition("\t")
        if len(flag) == 1 and "\t" in rest:
            summary = rest.partition("\t")[2]
            found = re.search(r"\(([^()]*)\)\s*\Z", summary)
            return flag, readable(found[1] if found else summary)
    return "", ""


def _ends(words: str) -> str:
    return readable(words if len(words) <= 2 * ENDS else f"{words[:ENDS]}\n{words[-ENDS:]}", 2 * ENDS + 1)


def _said(outcome: Outcome) -> str:
    return told(re.sub(r"\n{2,}", "\n", _BOILERPLATE.sub("", outcome.words)), outcome.missing)
