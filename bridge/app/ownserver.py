"""Deploy keys on a plain OpenSSH server: each key opens one repository, by a forced command in authorized_keys.

What a client asks for is never looked at but for the word that tells reading from writing: the repository is the one
that the key was authorised for, whatever address was used. Lines that others wrote are left as they are.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from bridge.core.errors import Refused, Transient, Unusable
from bridge.core.words import readable

TYPE = "ssh-ed25519"
MARK = "soul-bridge:"
SETTINGS = {
    "receive.denyNonFastForwards": "true",
    "receive.denyDeletes": "true",
    "core.fsync": "committed,reference",
}
_SAFE = re.compile(r"/(?:[A-Za-z0-9_~.][A-Za-z0-9._~-]*/?)+")
_KEY = re.compile(rf"{TYPE} ([A-Za-z0-9+/]+={{0,2}})(?: ([^\r\n\"\\]*))?")
_LINE = re.compile(rf'restrict,command="(.*)" {TYPE} (\S+) {MARK}(rw|ro):(\S+)(?: (.*))?')

Run = Callable[[list[str]], None]


@dataclass(frozen=True, slots=True)
class Grant:
    """One key's right to one repository. `blob`: the key, base64. `comment`: what it calls itself."""

    repository: Path
    blob: str
    write: bool
    comment: str

    @property
    def fingerprint(self) -> str:
        """As `ssh-keygen -l` prints it."""
        digest = hashlib.sha256(base64.b64decode(self.blob)).digest()
        return "SHA256:" + base64.b64encode(digest).decode().rstrip("=")

    def line(self) -> str:
        """Its line in authorized_keys."""
        services = ["upload-pack", "receive-pack"] if self.write else ["upload-pack"]
        cases = "".join(f"'git-{name} '*) exec git-{name} '{self.repository}';; " for name in services)
        refusal = "*) echo 'ERROR: this key may not do that here' >&2; exit 1;; esac"
        command = f'case \\"$SSH_ORIGINAL_COMMAND\\" in {cases}{refusal}'
        right = "rw" if self.write else "ro"
        return (
            f'restrict,command="{command}" {TYPE} {self.blob} {MARK}{right}:{self.repository} {self.comment}'.rstrip()
        )


def grants(keys: Path) -> list[Grant]:
    """What the file grants by lines of ours, in its order. Raises Transient(kind="disk")."""
    found = [_parse(line) for line in _lines(keys)]
    return [grant for grant in found if grant is not None]


def unopened(granted: Collection[Grant], folders: Collection[Path]) -> list[Path]:
    """Bare repositories in these folders, and beside those that are granted, which no key of ours opens."""
    opened = {grant.repository for grant in granted}
    places = {folder.resolve() for folder in (*folders, *(repository.parent for repository in opened))}
    found = {place.resolve() for folder in places for place in _bare(folder)}
    return sorted(found - opened)


def authorize(keys: Path, repository: Path, public_line: str, write: bool) -> Grant:
    """Let a key into one repository. Raises Unusable, Transient, and Refused for a key that opens another one."""
    match = _KEY.fullmatch(public_line.strip())
    if match is None or not _is_ed25519(match[1]):
        raise Unusable(
            "this is not the public line of an ed25519 key",
            kind="usage",
            rule="AUTH-2",
            advice="Give what `soul-bridge key show` prints on the body: ssh-ed25519 AAAA… in quotes.",
        )
    place = repository.resolve()
    if not _SAFE.fullmatch(str(place)) or not (place / "HEAD").is_file():
        raise Refused(
            f"{repository} is not a bare repository with a plain name",
            kind="rule",
            rule="AUTH-3",
            advice=f"Nothing was changed. Make it first: soul-bridge host init {repository}",
        )
    grant = Grant(place, match[1], write, " ".join((match[2] or "").split()))
    with _locked(keys):
        other = [each for each in grants(keys) if each.blob == grant.blob and each.repository != place]
        if other:
            raise Refused(
                f"this key opens {other[0].repository} already, and a key opens one repository only",
                kind="rule",
                rule="AUTH-2",
                advice=f"Nothing was changed. Each body has a key for each soul; or first: soul-bridge host revoke "
                f"{grant.fingerprint}",
            )
        kept = [line for line in _lines(keys) if not _is_key(line, grant.blob)]
        _write(keys, [*kept, grant.line()])
    return grant


def revoke(keys: Path, words: str) -> list[Grant]:
    """Take out the lines of ours whose fingerprint, comment or key is `words`. Raises Refused when there is none."""
    wanted = words.strip()
    with _locked(keys):
        gone = [grant for grant in grants(keys) if wanted in _names(grant)]
        if not gone:
            raise Refused(
                f"no key of soul-bridge here is {wanted!r}",
                kind="rule",
                rule="AUTH-5",
                advice="Nothing was changed. `soul-bridge host list` shows them.",
            )
        lines = {grant.line() for grant in gone}
        _write(keys, [line for line in _lines(keys) if line not in lines])
    return gone


def make(repository: Path, run: Run) -> Path:
    """Make an empty bare repository that refuses what a soul never does. Raises Refused, Transient."""
    place = Path(os.path.abspath(repository))
    if not _SAFE.fullmatch(str(place)):
        raise Unusable(
            f"{repository} cannot be the name of a repository",
            kind="usage",
            rule="AUTH-1",
            advice="Use letters, digits, '.', '_', '~' and '-', no segment beginning with '-'.",
        )
    if place.exists():
        raise Refused(
            f"{place} is there already", kind="rule", rule="REPO-1", advice=f"Nothing was changed. {_next(place)}"
        )
    made = [folder for folder in (place, *place.parents) if not folder.exists()]
    try:
        run(["init", "--quiet", "--bare", "--template=", "--initial-branch=main", str(place)])
        for setting, value in SETTINGS.items():
            run(["--git-dir", str(place), "config", setting, value])
        place.chmod(0o700)
    except KeyboardInterrupt:
        _unmade(made)
        raise
    except (OSError, subprocess.CalledProcessError) as error:
        said = getattr(error, "stderr", None) or getattr(error, "strerror", None) or "git failed"
        said = (
            "the program git was not found on PATH" if isinstance(error, FileNotFoundError) else readable(said).strip()
        )
        raise Refused(
            f"{place} cannot be made: {said}",
            kind="disk",
            rule="REPO-1",
            advice=f"{_unmade(made)} In this user's own folder: soul-bridge host init {place.name}",
        ) from error
    return place


def _next(place: Path) -> str:
    if (place / "HEAD").is_file():
        return f"To let a body in: soul-bridge host authorize {place} 'ssh-ed25519 …'"
    return f"See what it is: ls -ld {place}"


def _unmade(made: list[Path]) -> str:
    """Take away what an attempt left, the repository first; says what is there now."""
    shutil.rmtree(made[0], ignore_errors=True)
    with contextlib.suppress(OSError):
        for folder in made[1:]:
            folder.rmdir()
    if not os.path.lexists(made[0]):
        return "Nothing is left of it."
    return f"What was made of it could not be taken away again: rm -r {made[0]}\n"


def _bare(folder: Path) -> list[Path]:
    try:
        return [path for path in folder.glob("*.git") if (path / "HEAD").is_file() and (path / "objects").is_dir()]
    except OSError:
        return []


def _names(grant: Grant) -> set[str]:
    line = f"{TYPE} {grant.blob}"
    names = {grant.fingerprint, grant.blob, line, f"{line} {grant.comment}".rstrip(), grant.comment}
    return (names | {grant.comment.partition(" ")[0]}) - {""}


def _parse(line: str) -> Grant | None:
    match = _LINE.fullmatch(line.strip())
    if match is None or not _is_ed25519(match[2]):
        return None
    return Grant(Path(match[4]), match[2], match[3] == "rw", match[5] or "")


def _is_key(line: str, blob: str) -> bool:
    grant = _parse(line)
    return grant is not None and grant.blob == blob


def _is_ed25519(blob: str) -> bool:
    try:
        content = base64.b64decode(blob, validate=True)
    except (ValueError, binascii.Error):
        return False
    return len(content) == 51 and content.startswith(b"\0\0\0\x0bssh-ed25519\0\0\0 ")


def _lines(keys: Path) -> list[str]:
    try:
        return keys.read_text("utf-8", "surrogateescape").splitlines()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise Transient(f"{keys} cannot be read: {error.strerror}", kind="disk", advice=f"ls -l {keys}") from error


@contextlib.contextmanager
def _locked(keys: Path) -> Iterator[None]:
    """Keep two of us from writing the file at once; sshd itself reads whatever stands there, whole."""
    import fcntl

    try:
        keys.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        directory = os.open(keys.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise _unwritable(keys.parent, error) from error
    try:
        try:
            fcntl.flock(directory, fcntl.LOCK_EX)
        except OSError as error:
            raise _unwritable(keys.parent, error) from error
        yield
        with contextlib.suppress(OSError):  # what was written is in its place already
            os.fsync(directory)
    finally:
        os.close(directory)


def _write(keys: Path, lines: list[str]) -> None:
    temporary = ""
    try:
        descriptor, temporary = tempfile.mkstemp(prefix=".authorized_keys.", dir=keys.parent)
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write("".join(line + "\n" for line in lines))
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, keys)
    except OSError as error:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise _unwritable(keys, error) from error


def _unwritable(place: Path, error: OSError) -> Transient:
    folder = place if place.is_dir() else place.parent
    return Transient(
        f"{place} cannot be written: {error.strerror}",
        kind="disk",
        advice=f"Nothing was changed. See whose it is: ls -ld {folder}",
    )
