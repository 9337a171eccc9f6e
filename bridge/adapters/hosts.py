"""Which server is which: the pinned host keys in a known_hosts file of our own, and what an offered key means.

Rules: AUTH-6.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import enum
import fcntl
import hashlib
import os
import re
import tempfile
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from bridge.adapters import folders
from bridge.core.errors import Refused, Transient
from bridge.core.words import lines_of

FINGERPRINT = re.compile(r"(?:SHA256:)?[A-Za-z0-9+/]{43}=?")
TYPES = ("ssh-ed25519", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521", "ssh-rsa")


@dataclass(frozen=True, slots=True)
class HostKey:
    """A server's public key. `blob`: its wire form, base64."""

    type: str
    blob: str

    @property
    def fingerprint(self) -> str:
        """As `ssh-keygen -l` prints it: SHA256:…"""
        digest = hashlib.sha256(base64.b64decode(self.blob)).digest()
        return "SHA256:" + base64.b64encode(digest).decode().rstrip("=")


# As these hosts publish them.
SHIPPED = {
    "github.com": HostKey(
        "ssh-ed25519", "AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl"
    ),
    "gitlab.com": HostKey(
        "ssh-ed25519", "AAAAC3NzaC1lZDI1NTE5AAAAIAfuCHKVTjquxvt6CM6tdG4SLp1Btn/nOeHHE5UOzRdf"
    ),
    "codeberg.org": HostKey(
        "ssh-ed25519", "AAAAC3NzaC1lZDI1NTE5AAAAIIVIC02vnjFyL+I4RHfvIGNtOgJMe769VTF1VR4EB3ZB"
    ),
}  # fmt: skip
# The same servers by port 443, where they have the same keys.
_ALSO = {"[ssh.github.com]:443": "github.com", "[altssh.gitlab.com]:443": "gitlab.com"}


class Verdict(enum.Enum):
    """What to do about the key that a server offers."""

    TRUSTED = "trusted"  # it is the pinned one
    PIN = "pin"  # not pinned yet, and known to be right
    ASK = "ask"  # nobody can tell but a person
    MISMATCH = "mismatch"  # not the one that was expected: refuse, pin nothing
    CHANGED = "changed"  # not the pinned one: refuse until a person accepts it


def verdict(
    pinned: Collection[HostKey], shipped: HostKey | None, expected_fingerprint: str | None, offered: HostKey
) -> Verdict:
    """Judge an offered key. What a person expects goes before what the program ships; a pin goes before both."""
    if expected_fingerprint and not same_fingerprint(expected_fingerprint, offered.fingerprint):
        return Verdict.MISMATCH
    if pinned:
        return Verdict.TRUSTED if offered in pinned else Verdict.CHANGED
    if expected_fingerprint or offered == shipped:
        return Verdict.PIN
    return Verdict.ASK if shipped is None else Verdict.MISMATCH


def same_fingerprint(one: str, other: str) -> bool:
    """Whether two spellings ("SHA256:" and padding may be left out) are the same fingerprint."""
    return _bare(one) == _bare(other)


def host_name(host: str, port: int = 22) -> str:
    """The name under which known_hosts has a server."""
    return host.lower() if port == 22 else f"[{host.lower()}]:{port}"


def shipped(name: str) -> HostKey | None:
    """The key that ships with the program for a well-known host."""
    return SHIPPED.get(_ALSO.get(name, name))


class KnownHosts:
    """The pinned keys, one plain OpenSSH line each; lines that others wrote are kept."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def lookup(self, name: str) -> tuple[HostKey, ...]:
        """Keys pinned for a name as `host_name` spells it; () when it is unknown.

        Raises Refused(kind="hostkey") when the file cannot be read or holds a line that cannot be understood: a pin
        that might be meant must not be passed over.
        """
        return tuple(key for names, key in map(self._parse, *self._numbered()) if key is not None and name in names)

    def pin(self, name: str, key: HostKey) -> None:
        """Add a key; durable on return. Raises Transient(kind="disk")."""
        with self._locked():
            if key not in self.lookup(name):
                self._write([*self._lines(), f"{name} {key.type} {key.blob}"])

    def replace(self, name: str, key: HostKey) -> None:
        """Make this the only key of a name; durable on return. Raises Transient(kind="disk")."""
        with self._locked():
            kept = [line for line in self._lines() if name not in self._parse(0, line)[0]]
            self._write([*kept, f"{name} {key.type} {key.blob}"])

    def _numbered(self) -> tuple[range, list[str]]:
        lines = self._lines()
        return range(1, len(lines) + 1), lines

    def _lines(self) -> list[str]:
        try:
            return lines_of(self.path.read_bytes())
        except FileNotFoundError:
            return []
        except OSError as error:
            raise self._refused(f"cannot read {self.path}: {error.strerror}") from error

    def _parse(self, number: int, line: str) -> tuple[frozenset[str], HostKey | None]:
        """Names and key of a line; nothing for a comment, or a hashed name, which says no name we could look for."""
        words = line.split()
        if not words or words[0].startswith(("#", "|")):
            return frozenset(), None
        try:
            if words[0].startswith("@") or words[1] not in TYPES:
                raise ValueError(words[0])
            base64.b64decode(words[2], validate=True)
        except (IndexError, ValueError, binascii.Error) as error:
            raise self._refused(f"{self.path}, line {number}: not a plain host key") from error
        return frozenset(words[0].lower().split(",")), HostKey(words[1], words[2])

    def _refused(self, message: str) -> Refused:
        return Refused(
            message,
            kind="hostkey",
            rule="AUTH-6",
            advice="Nothing was sent. Take the line out, or move the file away and run `soul-bridge accept-host-key`.",
        )

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Keep other processes from writing the file between reading and replacing it."""
        try:
            folders.make(self.path.parent)
            directory = os.open(self.path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise Transient(f"cannot write {self.path}: {error.strerror}", kind="disk", rule="AUTH-6") from error
        try:
            fcntl.flock(directory, fcntl.LOCK_EX)
            yield
            os.fsync(directory)
        except OSError as error:
            raise Transient(f"cannot write {self.path}: {error.strerror}", kind="disk", rule="AUTH-6") from error
        finally:
            os.close(directory)

    def _write(self, lines: list[str]) -> None:
        descriptor, temporary = tempfile.mkstemp(prefix=".known_hosts.", dir=self.path.parent)
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8", errors="surrogateescape") as file:
                file.write("".join(line + "\n" for line in lines))
                file.flush()
                with contextlib.suppress(OSError):  # who may read it stays as a person, or `service install`, set it
                    os.fchmod(file.fileno(), self.path.stat().st_mode & 0o644 | 0o600)
                os.fsync(file.fileno())
            os.replace(temporary, self.path)
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)
            raise


def _bare(fingerprint: str) -> str:
    return fingerprint.strip().removeprefix("SHA256:").rstrip("=")
