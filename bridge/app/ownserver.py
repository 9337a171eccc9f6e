"""Deploy keys on a plain OpenSSH server: each key opens one repository, by a forced command in authorized_keys.

The repository is the one that the key was authorised for, and who asks for one of another name is told so: a soul must
not be found under an address that is not its own. Lines that others wrote are left as they are, those excepted that
let in the key that goes and nobody else.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from bridge.app import keylines
from bridge.app.keylines import KeyLine
from bridge.core.errors import Refused, Transient, Unusable
from bridge.core.words import lines_of, readable

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
        return keylines.fingerprint(self.blob)

    def line(self, called: str = "") -> str:
        """Its line in authorized_keys. called: a name of the repository beside its own, as a link to it has one."""
        names = sorted({name for each in (self.repository.name, called) for name in (each, each.removesuffix(".git"))})
        cases = "".join(self._case(service, [name for name in names if name]) for service in ("upload", "receive"))
        only = f"ERROR: this key opens {self.repository.name} only, not what the address says"
        command = (
            f'case \\"$SSH_ORIGINAL_COMMAND\\" in {cases}'
            f"'git-upload-pack '*|'git-receive-pack '*) echo '{only}' >&2; exit 1;; "
            "*) echo 'ERROR: this key may not do that here' >&2; exit 1;; esac"
        )
        right = "rw" if self.write else "ro"
        return (
            f'restrict,command="{command}" {TYPE} {self.blob} {MARK}{right}:{self.repository} {self.comment}'.rstrip()
        )

    def _case(self, service: str, names: list[str]) -> str:
        asked = f"git-{service}-pack '"
        quote = '\\"'
        forms = "|".join(f"{quote}{asked}{name}'{quote}|{quote}{asked}{quote}*{quote}/{name}'{quote}" for name in names)
        if service == "receive" and not self.write:
            said = f"ERROR: this key has been marked as read only for {self.repository.name}"
            return f"{forms}) echo '{said}' >&2; exit 1;; "
        return f"{forms}) exec git-{service}-pack '{self.repository}';; "


@dataclass(frozen=True, slots=True)
class Right:
    """What one line lets a key do. repository: None where it is held to none. write: None where nobody can tell."""

    repository: Path | None
    write: bool | None
    line: KeyLine
    ours: bool


@dataclass(frozen=True, slots=True)
class Revoked:
    """What was taken out, and the lines that still let the same key in."""

    gone: tuple[Right, ...]
    still: tuple[KeyLine, ...]


def grants(keys: Path) -> list[Grant]:
    """What the file grants by lines of ours, in its order. Raises Transient(kind="disk")."""
    found = [_parse(line) for line in _lines(keys)]
    return [grant for grant in found if grant is not None]


def rights(keys: Path, home: Path | None = None) -> list[Right]:
    """What every line of the file lets in, ours or not. home: where commands begin. Raises Transient(kind="disk")."""
    lines = _lines(keys)
    return [right for line in keylines.read(lines, home or _home(keys)) for right in _rights(line, lines)]


def _rights(line: KeyLine, lines: list[str]) -> list[Right]:
    grant = _parse(lines[line.number - 1])
    if grant is not None:
        return [Right(grant.repository, grant.write, _plain(line, lines), True)]
    if not line.opens:
        return [Right(None, None if line.command is not None else True, line, False)]
    return [Right(place, write, line, False) for place, write in line.opens]


def _plain(line: KeyLine, lines: list[str]) -> KeyLine:
    """The line without our mark in its comment."""
    grant = _parse(lines[line.number - 1])
    return line if grant is None else replace(line, comment=grant.comment)


def _home(keys: Path) -> Path:
    return keys.absolute().parent.parent


def unopened(opened: Collection[Path], folders: Collection[Path]) -> list[Path]:
    """Bare repositories in these folders, and beside those that are opened, which no line names."""
    places = {folder.resolve() for folder in (*folders, *(repository.parent for repository in opened))}
    found = {place.resolve() for folder in places for place in _bare(folder)}
    return sorted(found - set(opened))


def authorize(keys: Path, repository: Path, public_line: str, write: bool, home: Path | None = None) -> Grant:
    """Let a key into one repository. Raises Unusable, Transient, and Refused for a key that opens another one."""
    match = _KEY.fullmatch(public_line.strip())
    if match is None or not _is_ed25519(match[1]):
        raise _no_key(public_line.strip(), repository)
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
        lines = _lines(keys)
        mine = [line for line in keylines.read(lines, home or _home(keys)) if line.blob == grant.blob]
        for line in mine:
            _refuse_elsewhere(line, grant, keys)
        gone = {line.number for line in mine}
        kept = [line for number, line in enumerate(lines, 1) if number not in gone]
        _write(keys, [*kept, grant.line(repository.name)])
    return grant


def _no_key(text: str, repository: Path) -> Unusable:
    """The refusal of what is no public line. Never with the text in it: it may be a private key."""
    what, advice = (
        "this is not the public line of an ed25519 key",
        "Give what `soul-bridge key show` prints on the body",
    )
    if "PRIVATE KEY" in text or _holds_private(text):
        what = "this is a private key, and it is nobody's but its body's: nothing of it was read on or kept"
    elif text.startswith(f"{TYPE} ") or text == TYPE:
        what = f"{what}: something of it is missing"
    advice += f", whole and in quotes: soul-bridge host authorize {shlex.quote(str(repository))} 'ssh-ed25519 AAAA…'"
    return Unusable(what, kind="usage", rule="AUTH-2", advice=advice)


def _holds_private(name: str) -> bool:
    try:
        with Path(name).expanduser().open("rb") as file:
            return b"PRIVATE KEY" in file.read(100)
    except (OSError, ValueError, RuntimeError):
        return False


def _refuse_elsewhere(line: KeyLine, grant: Grant, keys: Path) -> None:
    """Raise Refused when a line lets this key in to anything else: sshd obeys the first line of a key."""
    other = [place for place, _ in line.opens if place != grant.repository]
    if line.opens and not other:
        return
    what = f"this key opens {other[0]} already" if other else "this key is held to another command already"
    if line.command is None:
        what = "this key opens every repository here already"
    raise Refused(
        f"{what}, by line {line.number} of {keys}, and a key opens one repository only",
        kind="rule",
        rule="AUTH-2",
        advice="Nothing was changed. Each body has a key for each soul; or first: "
        + (f"soul-bridge host revoke {grant.fingerprint}" if line.of_a_body else taken_out(line, keys)),
    )


def taken_out(line: KeyLine, keys: Path) -> str:
    """The command that takes a line out that others wrote."""
    return f"sed -i '{line.number}d' {shlex.quote(str(keys))}"


def revoke(keys: Path, words: str, home: Path | None = None) -> Revoked:
    """Take out every line that lets in the keys whose fingerprint, comment or public line is `words`.

    A line that may be a person's own, held to no repository and no body's by its comment, is left and told of. Raises
    Refused when there is no such key.
    """
    wanted = words.strip()
    with _locked(keys):
        lines = _lines(keys)
        found = [_plain(line, lines) for line in keylines.read(lines, home or _home(keys))]
        blobs = {line.blob for line in found if wanted in line.names}
        named = [line for line in found if line.blob in blobs]
        if not named:
            raise Refused(
                f"no key in {keys} is {wanted!r}",
                kind="rule",
                rule="AUTH-5",
                advice="Nothing was changed. `soul-bridge host list` shows them.",
            )
        out = [line for line in named if line.of_a_body]
        numbers = {line.number for line in out}
        if out:
            _write(keys, [line for number, line in enumerate(lines, 1) if number not in numbers])
    gone = tuple(right for line in out for right in _rights(line, lines))
    # Numbers are told as they are now, after what went.
    still = [line for line in named if not line.of_a_body]
    return Revoked(gone, tuple(replace(one, number=one.number - sum(n < one.number for n in numbers)) for one in still))


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
        found = [path for path in folder.glob("*.git") if path.name != ".git"]  # that of a checkout
        return [path for path in found if (path / "HEAD").is_file() and (path / "objects").is_dir()]
    except OSError:
        return []


def _parse(line: str) -> Grant | None:
    match = _LINE.fullmatch(line.strip(" \t\r"))
    if match is None or not _is_ed25519(match[2]):
        return None
    return Grant(Path(match[4]), match[2], match[3] == "rw", match[5] or "")


def _is_ed25519(blob: str) -> bool:
    try:
        content = base64.b64decode(blob, validate=True)
    except (ValueError, binascii.Error):
        return False
    return len(content) == 51 and content.startswith(b"\0\0\0\x0bssh-ed25519\0\0\0 ")


def _lines(keys: Path) -> list[str]:
    try:
        return lines_of(keys.read_bytes())
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
        with os.fdopen(descriptor, "wb") as file:
            file.write("".join(line + "\n" for line in lines).encode("utf-8", "surrogateescape"))
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
