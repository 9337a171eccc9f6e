"""What each line of an authorized_keys file lets in, whoever wrote it: the key, and the repositories it is held to.

sshd obeys the first line of a key, so that one that a person pasted counts as much as one of ours.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

MADE = "soul-bridge"  # the last word of the comment that a body's key is born with
_OPTIONS = re.compile(r'(?:"(?:\\"|[^"])*"|[^\s"])+')
_KEY = re.compile(r"((?:ssh|ecdsa|sk)-[a-z0-9@.-]+)[ \t]+([A-Za-z0-9+/]+={0,2})(?:[ \t]+(.*))?")
_COMMAND = re.compile(r'(?:^|,)command="((?:\\"|[^"])*)"', re.IGNORECASE)
_OPENS = re.compile(r"exec git[ -](upload|receive)-pack (?:'([^']+)'|\"([^\"]+)\"|([^\s;'\"]+))")


@dataclass(frozen=True, slots=True)
class KeyLine:
    """A line with a key. number: from 1. command: what it is held to, None where it may do anything.

    opens: the repositories that the command names, each with whether it may be written.
    """

    number: int
    type: str
    blob: str
    comment: str
    command: str | None
    opens: tuple[tuple[Path, bool], ...]

    @property
    def fingerprint(self) -> str:
        """As `ssh-keygen -l` prints it."""
        return fingerprint(self.blob)

    @property
    def names(self) -> set[str]:
        """Everything that `host revoke` may be given for it."""
        line = f"{self.type} {self.blob}"
        known = {self.fingerprint, self.blob, line, f"{line} {self.comment}".rstrip(), self.comment}
        return (known | {self.comment.partition(" ")[0]}) - {""}

    @property
    def of_a_body(self) -> bool:
        """It lets nobody in but a body: it is held to a repository, or its key was made by this program."""
        return bool(self.opens) or self.comment.split()[-1:] == [MADE]


def fingerprint(blob: str) -> str:
    """A key's SHA-256 as `ssh-keygen -l` prints it. blob: base64."""
    digest = hashlib.sha256(base64.b64decode(blob)).digest()
    return "SHA256:" + base64.b64encode(digest).decode().rstrip("=")


def read(lines: Iterable[str], home: Path) -> list[KeyLine]:
    """The lines that hold a key, in their order. home: where a command begins."""
    found = [_read(number, line.strip(" \t\r"), home) for number, line in enumerate(lines, 1)]
    return [line for line in found if line is not None]


def _read(number: int, text: str, home: Path) -> KeyLine | None:
    if text.startswith("#"):
        return None
    options, key = "", _KEY.fullmatch(text)
    if key is None:
        begun = _OPTIONS.match(text)
        options = begun[0] if begun else ""
        key = _KEY.fullmatch(text[len(options) :].strip())
    if key is None or not _is_base64(key[2]):
        return None
    held = _COMMAND.search(options)
    command = held[1].replace('\\"', '"') if held else None
    return KeyLine(number, key[1], key[2], (key[3] or "").strip(), command, _opened(command or "", home))


def _opened(command: str, home: Path) -> tuple[tuple[Path, bool], ...]:
    rights: dict[Path, bool] = {}
    for service, *names in _OPENS.findall(command):
        place = (home / next(name for name in names if name)).resolve()
        rights[place] = rights.get(place, False) or service == "receive"
    return tuple(rights.items())


def _is_base64(blob: str) -> bool:
    try:
        base64.b64decode(blob, validate=True)
    except (ValueError, binascii.Error):
        return False
    return True
