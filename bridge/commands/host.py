"""`host init|authorize|revoke|list`: on a server of one's own, repositories and the keys that open them."""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
from pathlib import Path

from bridge.adapters.gitenv import clean_environment
from bridge.app import ownserver
from bridge.commands.context import Context
from bridge.core.words import line, readable

_Answer = tuple[int, object, str]  # exit code, --json, words
_LONGEST = 1_000_000  # characters of a list: one of keys is never cut


def run(arguments: argparse.Namespace, context: Context) -> int:
    """Do it to the authorized_keys of the user who types it; 1 where a key still opens what it should not.

    Raises what it refuses.
    """
    home = context.places.home
    keys = Path(arguments.authorized_keys or home / ".ssh" / "authorized_keys")
    code, rows, words = _ACTIONS[arguments.action](arguments, keys, home)
    context.answer(rows, readable(words, _LONGEST))
    return code


def _init(arguments: argparse.Namespace, keys: Path, home: Path) -> _Answer:
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
    return (
        0,
        {"repository": str(place)},
        f"{place} is made; let a body in: soul-bridge host authorize {place} 'ssh-ed25519 …'",
    )


def _authorize(arguments: argparse.Namespace, keys: Path, home: Path) -> _Answer:
    public = " ".join(arguments.public_key)
    grant = ownserver.authorize(keys, Path(arguments.repository), public, not arguments.read_only, home)
    right = "may read and write" if grant.write else "may read"
    row = {
        "repository": str(grant.repository),
        "fingerprint": grant.fingerprint,
        "write": grant.write,
        "comment": grant.comment,
    }
    return 0, row, f"{grant.fingerprint} {right} {grant.repository}, and nothing else"


def _revoke(arguments: argparse.Namespace, keys: Path, home: Path) -> _Answer:
    done = ownserver.revoke(keys, arguments.key, home)
    gone, open_still = done.gone, {line.blob for line in done.still}
    lines = [
        f"the line of {right.line.fingerprint} {right.line.comment} for {_place(right)} is out"
        if right.line.blob in open_still
        else f"{right.line.fingerprint} {right.line.comment} opens {_place(right)} no more"
        for right in gone
    ]
    if len({right.line.blob for right in gone}) > 1:
        lines.append(
            f"{len(gone)} keys were called {readable(arguments.key.strip(), 60)!r}, and all are out; a fingerprint "
            "takes out one of them. To let one in again:"
        )
        lines += [f"  {_again(right)}" for right in gone if right.repository]
    for line_ in done.still:
        lines.append(
            f"line {line_.number} of {keys}, not written by `host authorize`, still lets {line_.fingerprint} "
            f"{line_.comment} in. It may be a person's own. If it is to go: {ownserver.taken_out(line_, keys)}"
        )
    if gone:
        lines.append(f"A connection that is open already lasts ten minutes at most{_at_once()}.")
    still = [{**_row(right), "open": True} for right in ownserver.rights(keys, home) if right.line in done.still]
    return int(bool(still)), [*(_row(right) for right in gone), *still], "\n".join(lines)


def _at_once() -> str:
    """How every connection of this user ends now. Of root's it would be the server itself, and is not told."""
    if os.geteuid() == 0:
        return ""
    return f"; `pkill -u {os.geteuid()} sshd` ends all of them now, and the other bodies connect again"


def _again(right: ownserver.Right) -> str:
    """The command that gives a key its right back."""
    public = f"{right.line.type} {right.line.blob} {right.line.comment}".rstrip()
    only = "" if right.write else " --read-only"
    return f"soul-bridge host authorize {right.repository} {shlex.quote(public)}{only}"


def _list(arguments: argparse.Namespace, keys: Path, home: Path) -> _Answer:
    rights = ownserver.rights(keys, home)
    lines = [
        line(
            f"{'??' if right.write is None else 'rw' if right.write else 'ro'}  {_place(right)}  "
            f"{right.line.fingerprint}  {right.line.comment}"
            + ("" if right.ours else f"  (line {right.line.number}, not written by `host authorize`)")
        )
        for right in rights
    ]
    everything = any(right.repository is None and right.write for right in rights)
    empty = ownserver.unopened([right.repository for right in rights if right.repository], [home, Path.cwd()])
    none = "no key opens it alone" if everything else "no key opens it yet"
    lines += [line(f"--  {place}  {none}: soul-bridge host authorize {place} 'ssh-ed25519 …'") for place in empty]
    closed = [{"repository": str(place), "fingerprint": None, "write": False, "comment": ""} for place in empty]
    words = "\n".join(lines) or f"no key is in {keys}, and no repository lies here or at home"
    return 0, [*(_row(right) for right in rights), *closed], words


def _place(right: ownserver.Right) -> str:
    if right.repository is not None:
        return str(right.repository)
    return "what its own command opens" if right.write is None else "every repository of this user"


def _row(right: ownserver.Right) -> dict[str, object]:
    """Its shape in --json. repository: null where a line is held to none; line: where others wrote it."""
    row: dict[str, object] = {
        "repository": None if right.repository is None else str(right.repository),
        "fingerprint": right.line.fingerprint,
        "write": right.write,
        "comment": right.line.comment,
    }
    return row if right.ours else {**row, "line": right.line.number}


_ACTIONS = {"init": _init, "authorize": _authorize, "revoke": _revoke, "list": _list}
