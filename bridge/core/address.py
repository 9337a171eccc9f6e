"""The address of a soul's remote: SSH as the user git, and nothing else.

Rules: AUTH-1.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from bridge.core.errors import Unusable

SSH_PORT = 22
FORMS = "git@host:owner/repo.git or ssh://git@host[:port]/path/repo.git"
_NAME = r"[A-Za-z0-9_~.][A-Za-z0-9._~-]*"
_PATH = rf"{_NAME}(?:/{_NAME})*"
_HOST = r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?"
_SCP = re.compile(rf"git@({_HOST}):(/?{_PATH})")
_URL = re.compile(rf"ssh://git@({_HOST}|\[[0-9A-Fa-f:.]+\])(?::([0-9]{{1,5}}))?(/{_PATH})")
# As much of anything else as shows which address was meant.
_MEANT = re.compile(
    rf"(?:(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://)?(?:[^?#]*@)?(?P<host>{_HOST})(?::(?P<port>[0-9]+)(?=/))?[:/]/?"
    rf"(?P<path>{_PATH})/?(?:[?#].*)?"
)


@dataclass(frozen=True, slots=True)
class Address:
    """Where the remote is. path: as the server's git is given it. text: as it was written."""

    user: str
    host: str
    port: int
    path: str
    text: str

    @property
    def known_host_key_name(self) -> str:
        """The name of its line in a known-hosts file."""
        return self.host if self.port == SSH_PORT else f"[{self.host}]:{self.port}"


def parse(text: str) -> Address:
    """The address in a text. Raises Unusable(rule="AUTH-1") with the right form, never with a password, in it."""
    address = _read(text)
    if address is None:
        raise Unusable(
            f"{_shown(text)} is not the SSH address of a repository for the user git; write it as "
            f"{meant(text) or FORMS}",
            rule="AUTH-1",
            advice="A soul is reached with its own deploy key, never with a password or token.",
        )
    return address


def _read(text: str) -> Address | None:
    scp, url = _SCP.fullmatch(text), _URL.fullmatch(text)
    host, path = (scp[1], scp[2]) if scp else (url[1], url[3]) if url else ("", "")
    port = int(url[2]) if url and url[2] else SSH_PORT
    if not host or not 0 < port < 65536 or {".", ".."} & set(path.split("/")):
        return None
    return Address("git", host.strip("[]").lower(), port, path, text)


def meant(text: str) -> str | None:
    """The right form of what was probably meant by an address that cannot be."""
    found = _MEANT.fullmatch(text.strip())
    scheme = found["scheme"].lower() if found and found["scheme"] else ""
    if not found or scheme == "file" or not (scheme or "." in found["host"] or "@" in text):
        return None
    path = found["path"].removesuffix(".git") + ".git"
    port = f":{found['port']}" if found["port"] else ""
    right = f"ssh://git@{found['host']}{port}/{path}" if "ssh" in scheme else f"git@{found['host']}:{path}"
    return right if _read(right) else None


def with_port(address: Address) -> str | None:
    """The form with a port, of an address whose first folder may be meant as one: `git@host:2222/kaoru.soul.git`."""
    port, _, path = address.path.partition("/")
    if address.text.startswith("ssh://") or not port.isascii() or not port.isdigit():
        return None
    right = f"ssh://git@{address.host}:{port}/{path}"
    return right if _read(right) else None


def _shown(text: str) -> str:
    """The text without what may be a password or token in it."""
    bare = re.sub(r"(?s)^([A-Za-z][A-Za-z0-9+.-]*://)?.*@", lambda found: f"{found[1] or ''}…@", text)
    return repr(text if text.startswith("git@") and text.count("@") == 1 else re.sub(r"(?s)[?#].*", "?…", bare))
