"""`host init|authorize|revoke|list`: on a server of one's own, repositories and the keys that open them."""

from __future__ import annotations

import argparse
import shlex
import subprocess
from pathlib import Path

from bridge.adapters.gitenv import clean_environment
from bridge.app import ownserver
from bridge.commands.context import Context
from bridge.core.words import line, readable

_LONGEST = 1_000_000  # characters of a list: one of keys is never cut


def run(arguments: argparse.Namespace, context: Context) -> int:
    """Do it to the authorized_keys of the user who types it. Raises what it refuses."""
    keys = Path(arguments.authorized_keys or context.places.home / ".ssh" / "authorized_keys")
    if arguments.action == "list":
        rows, words = _list(keys, [context.places.home, Path.cwd()])
    else:
        rows, words = {"init": _init, "authorize": _authorize, "revoke": _revoke}[arguments.action](arguments, keys)
    context.answer(rows, readable(words, _LONGEST))
    return 0


def _init(arguments: argparse.Namespace, keys: Path) -> tuple[object, str]:
    def git(words: list[str]) -> None:
        subprocess.run(
            ["git", *words],
            check=True,
            env=clean_environment(),
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
        )

    place = ownserver.make(Path(arguments.repository), git)
    return {
        "repository": str(place)
    }, f"{place} is made; let a body in: soul-bridge host authorize {place} 'ssh-ed25519 …'"


def _authorize(arguments: argparse.Namespace, keys: Path) -> tuple[object, str]:
    grant = ownserver.authorize(keys, Path(arguments.repository), arguments.public_key, not arguments.read_only)
    right = "may read and write" if grant.write else "may read"
    return _row(grant), f"{grant.fingerprint} {right} {grant.repository}, and nothing else"


def _revoke(arguments: argparse.Namespace, keys: Path) -> tuple[object, str]:
    gone = ownserver.revoke(keys, arguments.key)
    lines = [f"{grant.fingerprint} {grant.comment} opens {grant.repository} no more" for grant in gone]
    if len({grant.blob for grant in gone}) > 1:
        lines.append(
            f"{len(gone)} keys were called {readable(arguments.key.strip(), 60)!r}, and all are out; a fingerprint "
            "takes out one of them. To let one in again:"
        )
        lines += [f"  {_again(grant)}" for grant in gone]
    return [_row(grant) for grant in gone], "\n".join(
        lines
    ) + "\nA connection that is open already lasts ten minutes at most; ending its sshd process ends it now."


def _again(grant: ownserver.Grant) -> str:
    """The command that gives a key its right back."""
    public = f"{ownserver.TYPE} {grant.blob} {grant.comment}".rstrip()
    only = "" if grant.write else " --read-only"
    return f"soul-bridge host authorize {grant.repository} {shlex.quote(public)}{only}"


def _list(keys: Path, folders: list[Path]) -> tuple[object, str]:
    rows = ownserver.grants(keys)
    lines = [
        line(f"{'rw' if grant.write else 'ro'}  {grant.repository}  {grant.fingerprint}  {grant.comment}")
        for grant in rows
    ]
    empty = ownserver.unopened(rows, folders)
    lines += [
        line(f"--  {place}  no key opens it yet: soul-bridge host authorize {place} 'ssh-ed25519 …'") for place in empty
    ]
    closed = [{"repository": str(place), "fingerprint": None, "write": False, "comment": ""} for place in empty]
    words = "\n".join(lines) or f"no key of soul-bridge is in {keys}, and no repository lies here or at home"
    return [*(_row(grant) for grant in rows), *closed], words


def _row(grant: ownserver.Grant) -> dict[str, object]:
    return {
        "repository": str(grant.repository),
        "fingerprint": grant.fingerprint,
        "write": grant.write,
        "comment": grant.comment,
    }
