"""This body's deploy key: made here, checked before every connection, never inside a soul.

Rules: AUTH-2, AUTH-3, AUTH-4, CONTENT-2.
"""

from __future__ import annotations

import base64
import contextlib
import errno
import hashlib
import os
import re
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_ssh_private_key,
)

from bridge.adapters import folders
from bridge.core.errors import Held, Refused, Transient, Unusable
from bridge.core.model import blob_id

TYPE = "ssh-ed25519"
LARGEST = 16 * 1024  # bytes of a file that may still be a key
_OWN = re.compile(r"([a-z0-9][a-z0-9-]{0,39})\.[a-z0-9][a-z0-9-]{0,39}(?:\.next)?")  # <agent>.<body>


@dataclass(frozen=True, slots=True)
class PublicKey:
    """The half that everybody may see. `blob`: the key in SSH's wire form, base64."""

    blob: str
    comment: str = ""

    @property
    def fingerprint(self) -> str:
        """As `ssh-keygen -l` prints it: SHA256:…"""
        digest = hashlib.sha256(base64.b64decode(self.blob)).digest()
        return "SHA256:" + base64.b64encode(digest).decode().rstrip("=")

    @property
    def line(self) -> str:
        """What a person pastes as a deploy key, without a line end (AUTH-3)."""
        return f"{TYPE} {self.blob} {self.comment}".rstrip()


@dataclass(frozen=True, slots=True)
class Key:
    """A key that passed every check. `private`: its bytes, OpenSSH format."""

    path: Path
    public: PublicKey
    private: bytes = field(repr=False)

    @property
    def fingerprint(self) -> str:
        """As `ssh-keygen -l` prints it: SHA256:…"""
        return self.public.fingerprint

    @property
    def line(self) -> str:
        """The public line."""
        return self.public.line


def generate(path: Path, comment: str) -> PublicKey:
    """Make an ed25519 key at `path` (0600) and its public line at `path`.pub; durable on return.

    Never replaces anything: raises Unusable(kind="auth") when something stands there, Transient(kind="disk") when it
    cannot be written.
    """
    key = Ed25519PrivateKey.generate()
    public = PublicKey(_blob(key), " ".join(comment.split()))
    private = key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
    try:
        _make_private_directory(path.parent)
        _create(path, private, 0o600)
        try:
            _beside(path).unlink(missing_ok=True)
            _create(_beside(path), (public.line + "\n").encode(), 0o644)
            _sync_directory(path.parent)
        except OSError:
            path.unlink(missing_ok=True)  # nobody has seen it yet
            raise
    except FileExistsError as error:
        raise Unusable(
            f"there is already a key at {path}",
            kind="auth",
            rule="AUTH-2",
            advice="It was left as it is. `soul-bridge key show` shows it, `soul-bridge key rotate` makes a new one.",
        ) from error
    except OSError as error:
        raise Transient(f"cannot write the key {path}: {error.strerror}", kind="disk", rule="AUTH-2") from error
    return public


def load(path: Path, soul: Path, given: Path | None = None) -> Key:
    """Read the key, after checking its place, kind, owner and mode on the very file that is read.

    given: the folder in which systemd hands keys over; one there may be root's, who lets just this user read it.
    Raises Refused: kind "rule" (inside the soul), else "auth" (missing, unsafe, not an ed25519 key without passphrase).
    """
    refuse_inside(path, soul)
    private = _read(path, path.parent == given)
    try:
        key = load_ssh_private_key(private, password=None)
    except TypeError as error:
        raise _refused(f"the key {path} is locked with a passphrase", _make_one(path)) from error
    except (ValueError, UnsupportedAlgorithm) as error:
        raise _refused(f"{path} is not a private key in OpenSSH format", _make_one(path)) from error
    if not isinstance(key, Ed25519PrivateKey):
        raise _refused(f"the key {path} is not an ed25519 key", _make_one(path))
    blob = _blob(key)
    return Key(path, PublicKey(blob, _comment(path, blob)), private)


def public(path: Path) -> PublicKey:
    """The public line beside the private key; the private key is neither needed nor read.

    Raises Refused(kind="auth") when it is missing or no ed25519 key.
    """
    beside = _beside(path)
    try:
        words = beside.read_bytes()[:LARGEST].decode("utf-8", "replace").split(None, 2)
        if words[0] != TYPE or not base64.b64decode(words[1], validate=True):
            raise ValueError(words[0])
    except (OSError, ValueError, IndexError) as error:
        raise _refused(f"there is no ed25519 public key at {beside}", _make_one(path)) from error
    return PublicKey(words[1], words[2].strip() if len(words) > 2 else "")


def fingerprint(path: Path) -> str | None:
    """The fingerprint of the public half beside the private key, None where there is none."""
    try:
        return public(path).fingerprint
    except Refused:
        return None


class Successor:
    """A new key beside the present one, `<name>.next`, until it takes its place; every step may be the last one.

    The old public half is the memory: as long as it stands beside a private key that is not its own, a switch took
    place that nobody was told of yet.
    """

    def __init__(self, path: Path, soul: Path, comment: str) -> None:
        self.path = path
        self.next = path.with_name(path.name + ".next")
        self._soul = soul
        self._comment = comment

    def old(self) -> PublicKey | None:
        """The public half of the key that goes, None when nobody knows it any more."""
        with contextlib.suppress(Refused):
            return public(self.path)
        with contextlib.suppress(Refused):
            return load(self.path, self._soul).public
        return None

    def switched(self) -> PublicKey | None:
        """The present key, when it took the place of another one and `settle` has not been called since."""
        try:
            present = load(self.path, self._soul).public
        except Refused:
            return None
        old = self.old()
        return present if old is not None and old.blob != present.blob and not os.path.lexists(self.next) else None

    def prepare(self) -> PublicKey:
        """The new key: the one that waits, or one made now; one that is not whole or not safe is made anew.

        Raises Refused(kind="rule") inside a soul, Transient(kind="disk").
        """
        if os.path.lexists(self.next):
            try:
                return load(self.next, self._soul).public
            except Refused as error:
                if error.kind == "rule":
                    raise
            self.drop()
        refuse_inside(self.next, self._soul)
        return generate(self.next, self._comment)

    def drop(self) -> None:
        """Let go of the new key. Raises Transient(kind="disk")."""
        with _durable(self.next):
            self.next.unlink(missing_ok=True)
            _beside(self.next).unlink(missing_ok=True)

    def switch(self) -> None:
        """Put the new private key in the old one's place: the old one is gone. Raises Transient(kind="disk")."""
        old = self.old()
        with _durable(self.path):
            if old is not None and not _beside(self.path).exists():
                _create(_beside(self.path), (old.line + "\n").encode(), 0o644)
                _sync_directory(self.path.parent)
            os.replace(self.next, self.path)

    def settle(self) -> None:
        """Put the public half of the present key beside it. Raises Refused, Transient(kind="disk")."""
        present = load(self.path, self._soul).public
        fresh = _beside(self.path).with_name(f".{_beside(self.path).name}.new")
        line = PublicKey(present.blob, self._comment).line
        with _durable(self.path):
            fresh.unlink(missing_ok=True)
            _create(fresh, (line + "\n").encode(), 0o644)
            os.replace(fresh, _beside(self.path))
            if not os.path.lexists(self.next):
                _beside(self.next).unlink(missing_ok=True)


def refuse_inside(path: Path, soul: Path, rule: str = "AUTH-2") -> None:
    """Refuse a key, or (rule "CONTENT-2") other configuration, that lies in the soul's checkout, however spelled.

    Compares directories by identity, so links and mounts of the soul elsewhere do not hide it. Raises
    Refused(kind="rule").
    """
    try:
        inside = soul.stat()
    except OSError:
        inside = None
    real = soul.resolve()
    for spelled in (Path(os.path.abspath(path)), path.resolve()):
        for parent in spelled.parents:
            if parent == real or (inside is not None and _same(parent, inside)):
                raise Refused(
                    f"{path} lies inside the soul {soul}",
                    kind="rule",
                    rule=rule,
                    advice="Nothing was recorded and nothing was sent. Move it out of the soul: `soul-bridge doctor` "
                    "gives the commands. A key that was ever committed: `soul-bridge key rotate`, and delete the old "
                    "deploy key at the host.",
                )


def refuse_places(path: Path, soul: Path) -> None:
    """Refuse a key, or one that waits to take its place, inside the soul: asked before anything is recorded, since
    what a commit has once is published. Raises Refused(kind="rule")."""
    for private in (path, _successor(path)):
        if private == path or os.path.lexists(private):
            refuse_inside(private, soul)


def refuse_bytes(path: Path, content: bytes) -> None:
    """Refuse what a file of the soul holds when it is this body's key, or the one that waits to take its place: under
    another name (a hard link) or as a copy. Nothing else is looked at (CONTENT-1). Raises Held(rule="AUTH-2")."""
    for private in (path, _successor(path)):
        with contextlib.suppress(OSError):
            if private.stat().st_size == len(content) and private.read_bytes() == content:
                raise Held(
                    f"it is the private key {private}, under another name or as a copy, and is never recorded: remove "
                    "it here, the key itself stays where it is",
                    rule="AUTH-2",
                )


def _successor(path: Path) -> Path:
    return path.with_name(path.name + ".next")


def refuse_recorded(path: Path, has: Callable[[str], bool]) -> None:
    """Refuse a key whose private half a soul's history holds. has: whether there is an object of an id there.

    Raises Refused(kind="auth"). A key that cannot be read is refused elsewhere.
    """
    try:
        private = _read(path, False)
    except Refused:
        return
    if has(blob_id(private)):
        raise Refused(
            f"the private key {path} is in history: it was recorded in a commit of this soul",
            kind="auth",
            rule="CONTENT-2",
            advice="Nothing is sent while it opens anything; local work is safe and goes on. Run `soul-bridge key "
            "rotate` and delete the old deploy key at the host; then everything is published.",
        )


def _beside(path: Path) -> Path:
    return path.with_name(path.name + ".pub")


@contextlib.contextmanager
def _durable(path: Path) -> Iterator[None]:
    """Changes of names in the directory of a key, durable at the end."""
    try:
        yield
        _sync_directory(path.parent)
    except OSError as error:
        raise Transient(f"cannot change the key {path}: {error.strerror}", kind="disk", rule="AUTH-2") from error


def _same(path: Path, known: os.stat_result) -> bool:
    try:
        return os.path.samestat(path.stat(), known)
    except OSError:
        return False


def _read(path: Path, given: bool) -> bytes:
    """The file's bytes; checked after opening, so that nothing can be put in its place in between."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except FileNotFoundError as error:
        raise Refused(f"there is no key at {path}", kind="auth", rule="AUTH-4", advice=_make_one(path)) from error
    except OSError as error:
        remedy = f"Make it yours: `sudo chown $USER {path}`." if error.errno == errno.EACCES else _make_one(path)
        raise _refused(f"cannot read the key {path}: {error.strerror}", remedy) from error
    try:
        _examine(path, os.fstat(descriptor), given)
        return os.read(descriptor, LARGEST)
    finally:
        os.close(descriptor)


def _examine(path: Path, found: os.stat_result, given: bool) -> None:
    if not stat.S_ISREG(found.st_mode) or found.st_size > LARGEST:
        raise _refused(f"{path} is not a key file", _make_one(path))
    if found.st_uid != os.geteuid() and not (given and found.st_uid == 0):
        raise _refused(f"the key {path} belongs to another user", f"Make it yours: `sudo chown $USER {path}`.")
    # Where access is given to one user by a list (ACL), its mask stands in the bits of the group.
    if found.st_mode & (0o037 if given and found.st_uid == 0 else 0o077):
        mode = stat.S_IMODE(found.st_mode)
        raise _refused(f"others may read the key {path} (mode {mode:04o})", f"Close it: `chmod 600 {path}`.")


def _make_private_directory(path: Path) -> None:
    """A directory that is there keeps its mode: it may hold more than keys."""
    if not path.is_dir():
        folders.make(path)
        path.chmod(0o700)  # a umask may have taken bits away


def _create(path: Path, content: bytes, mode: int) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(path, flags, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(file.fileno(), mode)  # a umask may have taken bits away
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    except OSError:
        path.unlink(missing_ok=True)  # half of it would be in the way of the next try
        raise


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _blob(key: Ed25519PrivateKey) -> str:
    return key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode().split()[1]


def _comment(path: Path, blob: str) -> str:
    try:
        beside = public(path)
    except Refused:
        return path.name
    return beside.comment if beside.blob == blob else path.name


def _make_one(path: Path) -> str:
    """What to do about a key that is none; a key at its usual place tells whose it is."""
    own = _OWN.fullmatch(path.name) if path.parent.name == "keys" else None
    again = f"`soul-bridge init {own[1]}`" if own else "`soul-bridge init` with this agent's name"
    return (
        f"Local work is safe and goes on. Bring the file back, or let {again} make a new key, to be added at the host."
    )


def _refused(message: str, remedy: str) -> Refused:
    return Refused(message, kind="auth", rule="AUTH-2", advice=remedy)
