"""The git program, run so that it obeys nobody but us: a cleaned environment, and a git directory of our own.

A child gets GIT_DIR = `<git dir>/soul-bridge/skeleton`: its own HEAD, config and refs over the checkout's objects.
So `.git/config`, hooks, replace refs, grafts and attributes of the checkout are never read, and what git reads
instead is written here. What a `-c` cannot switch off (`include.path`, `filter.*`, `remote.*`, `url.*.insteadOf`,
`alias.*`, `extensions.*`) has no place left to stand in. The `-c` list is the second line, for a child that is
run in the checkout all the same. Alternates are refused, not ignored: git would follow them.
"""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import IO

from bridge.core import errors
from bridge.core.layout import MAIN

MOST_SAID = 16 << 20  # bytes that a child may answer
MOST_WORDS = 256 << 20  # bytes that it may say beside that: a server's words and its hooks' come through there
ENDS = 16 << 10  # bytes that are kept of the first and of the last of those words
LAST_WORDS = 5.0  # seconds for what a child said last to be heard, should one of its own children go on
MOST_MEMORY = 1 << 30  # bytes of address space that a child may have

# What a child may know of the world around it; all of GIT_*, SSH_*, LD_* and XDG_* stays behind.
_KEPT = ("PATH", "TMPDIR")

_FIXED = {
    "LC_ALL": "C",
    "HOME": "/nonexistent",
    "XDG_CONFIG_HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_SYSTEM": "/dev/null",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "false",
    "SSH_ASKPASS": "false",
    "GIT_ALLOW_PROTOCOL": "ssh",
    "GIT_PROTOCOL_FROM_USER": "0",
    "GIT_LITERAL_PATHSPECS": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_GRAFT_FILE": "/dev/null",
    "GIT_PAGER": "cat",
    "GIT_EDITOR": "false",
}

_SETTINGS = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.pager=cat",
    "core.askPass=false",
    "core.editor=false",
    "core.attributesFile=/dev/null",
    "core.excludesFile=/dev/null",
    "core.alternateRefsCommand=false",
    "core.commitGraph=false",
    "core.bigFileThreshold=16m",  # larger blobs go through a child in pieces
    "core.packedGitWindowSize=32m",
    "core.packedGitLimit=256m",
    "advice.graftFileDeprecated=false",  # an empty graft file is named on purpose, which git would comment on
    "core.protectHFS=true",
    "core.protectNTFS=true",
    "credential.helper=",
    "diff.external=",
    "gc.auto=0",
    "maintenance.auto=false",
    "gpg.program=false",
    "commit.gpgSign=false",
    "push.gpgSign=false",
    "submodule.recurse=false",
    "fetch.recurseSubmodules=false",
    "transfer.bundleURI=false",
    "uploadpack.packObjectsHook=",
    "protocol.allow=never",
    "protocol.ssh.allow=always",
    "pack.threads=1",
)

_SKELETON_CONFIG = "[core]\n\trepositoryformatversion = 0\n\tbare = true\n"


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a child ended: exit code (negative: the signal), and what it said, at most as much as was asked for.

    missing: lines of stderr, from its middle, that were not kept.
    """

    code: int
    stdout: bytes
    stderr: bytes
    missing: int = 0

    @property
    def words(self) -> str:
        """What the child said on stderr, as text."""
        return self.stderr.decode("utf-8", "replace").strip()


def clean_environment() -> dict[str, str]:
    """Environment of every git or ssh child: nothing inherited but PATH and TMPDIR, no configuration, no prompt."""
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    return {"PATH": os.defpath, **kept, **_FIXED}


def git_command(args: Sequence[str], directory: str | Path | None = None) -> list[str]:
    """The argv of a git child with everything switched off that could run something.

    `directory`: the one path whose owner need not be this user, when the child runs in a checkout.
    """
    safe = ("safe.directory=", f"safe.directory={directory}") if directory is not None else ()
    options = [part for setting in (*_SETTINGS, *safe) for part in ("-c", setting)]
    return ["git", "--no-replace-objects", "--literal-pathspecs", "--no-pager", *options, *args]


def refuse_alternates(git_dir: str | Path) -> None:
    """Raise Refused(AUTH-7) when the object directory leans on another one, which git would follow blindly."""
    for name in ("alternates", "http-alternates"):
        path = Path(git_dir, "objects", "info", name)
        if os.path.lexists(path):
            raise errors.Refused(
                f"{path} makes this checkout lean on another object directory, which is not trusted;"
                " the files are safe, nothing was read from there",
                kind="rule",
                rule="AUTH-7",
                advice=f"bring the objects here, then let go of it: git repack -a -d && rm {path}",
            )


def private(git_dir: str | Path, *names: str) -> Path:
    """Our own folder in a git directory, or one below it, made when absent. The git directory itself never is: one
    that is gone must not come back as an empty one (REPO-7). Raises OSError."""
    place = Path(git_dir)
    for name in ("soul-bridge", *names):
        place /= name
        place.mkdir(exist_ok=True)
    return place


def skeleton(git_dir: str | Path, refs: Mapping[str, str] = MappingProxyType({})) -> dict[str, str]:
    """Environment for a git child that sees the checkout's objects and these refs, and none of its configuration.

    The private git directory is made, or its refs replaced, on every call. Raises Refused(AUTH-7) on alternates,
    Transient(kind="disk") when it cannot be written.
    """
    refuse_alternates(git_dir)
    listing = "# pack-refs with: sorted \n" + "".join(f"{oid} {name}\n" for name, oid in sorted(refs.items()))
    try:
        place = private(git_dir, "skeleton", "refs").parent
        for name, text in (("config", _SKELETON_CONFIG), ("packed-refs", listing), ("HEAD", f"ref: {MAIN}\n")):
            _put(place / name, text.encode("utf-8", "surrogateescape"))
    except OSError as error:
        raise errors.Transient(f"cannot write {error.filename}: {error.strerror}", kind="disk") from error
    return {
        **clean_environment(),
        "GIT_DIR": os.path.abspath(place),
        "GIT_OBJECT_DIRECTORY": os.path.abspath(Path(git_dir, "objects")),
    }


def run_git(args: Sequence[str], environment: Mapping[str, str], *, deadline: float = 60.0, cwd: str = "/") -> Outcome:
    """Run git to its end, in a session of its own, at most `deadline` seconds; then the whole session is killed.

    Raises Transient when it did not end in time or said too much, Unusable when there is no git.
    """
    child = start_git(args, environment, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    answer, words = _Ear(MOST_SAID, MOST_SAID), _Ear(MOST_WORDS, ENDS)
    try:
        listeners = [_listener(child, pipe, ear) for pipe, ear in ((child.stdout, answer), (child.stderr, words))]
        if child.stdin is not None:
            child.stdin.close()
        child.wait(deadline)
        for listener in listeners:
            listener.join(LAST_WORDS)
    except subprocess.TimeoutExpired as error:
        raise errors.Transient(f"git {args[0]} did not end within {deadline:.0f} s", kind="busy") from error
    finally:
        end(child)
    for ear in (answer, words):
        if ear.heard > ear.most:
            raise errors.Transient(f"git {args[0]} said more than {ear.most} bytes")
    return Outcome(child.returncode, answer.kept, words.kept, words.missing)


class _Ear:
    """What a child says on one pipe: `most` bytes at most, of which the first and the last `ends` are kept."""

    def __init__(self, most: int, ends: int) -> None:
        self.most = most
        self.heard = 0
        self._missing = 0  # line ends
        self._ends = ends
        self._first, self._last = bytearray(), bytearray()

    def take(self, piece: bytes) -> None:
        """Hear more."""
        self.heard += len(piece)
        room = self._ends - len(self._first)
        self._first += piece[:room]
        self._last += piece[room:]
        if len(self._last) > self._ends:
            self._missing += self._last[: -self._ends].count(b"\n")
            del self._last[: -self._ends]

    @property
    def missing(self) -> int:
        """Lines of which nothing was kept."""
        return max(0, self._missing - 1)

    @property
    def kept(self) -> bytes:
        """What was kept, on lines of their own where something is missing between."""
        return bytes(self._first + (b"\n" if self.heard > 2 * self._ends else b"") + self._last)


def _listener(child: subprocess.Popen[bytes], pipe: IO[bytes] | None, ear: _Ear) -> threading.Thread:
    """A thread that hears what a child says on one pipe, and ends the child when that is more than anybody reads."""

    def listen() -> None:
        with contextlib.suppress(OSError, ValueError):  # closed by `end`
            while pipe is not None and (piece := os.read(pipe.fileno(), 65536)):
                ear.take(piece)
                if ear.heard > ear.most and child.returncode is None:
                    os.killpg(child.pid, signal.SIGKILL)
                    return

    thread = threading.Thread(target=listen, daemon=True)
    thread.start()
    return thread


def start_git(
    args: Sequence[str], environment: Mapping[str, str], *, cwd: str = "/", stdout: int = -3, stderr: int = -3
) -> subprocess.Popen[bytes]:
    """A running git child with a pipe to its stdin; end it with `end`. Raises Unusable when there is no git that can
    be run, Transient(kind="busy") when the machine has no room for one more."""
    try:
        child = subprocess.Popen(
            git_command(args),
            env=dict(environment),
            cwd=cwd,
            stdin=subprocess.PIPE,
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
        )
    except FileNotFoundError as error:
        raise errors.Unusable("the program git was not found on PATH", advice="install git") from error
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EPERM, errno.ENOEXEC):
            raise errors.Transient(f"git cannot be started now: {error.strerror}", kind="busy") from error
        advice = "see what `command -v git` names; install git"
        raise errors.Unusable(f"git cannot be started: {error.strerror}", advice=advice) from error
    _bound(child.pid)
    return child


def _bound(pid: int) -> None:
    """Let a child fail rather than take all memory: some KiB of a pack may stand for any number of GiB."""
    if hasattr(resource, "prlimit"):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            _, hard = resource.prlimit(pid, resource.RLIMIT_AS)
            most = MOST_MEMORY if hard == resource.RLIM_INFINITY else min(MOST_MEMORY, hard)
            resource.prlimit(pid, resource.RLIMIT_AS, (most, hard))


def end(child: subprocess.Popen[bytes]) -> None:
    """Make sure that a child that was not waited for, and all that it started, is gone; close its pipes."""
    if child.returncode is None:
        # Not asked whether it lives: as long as nobody waited for it, its number belongs to nobody else.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
    for pipe in (child.stdin, child.stdout, child.stderr):
        if pipe is not None:
            with contextlib.suppress(BrokenPipeError):
                pipe.close()


def _unwaiting(path: str, flags: int) -> int:
    """Open what should be a file; a pipe in its place is not waited for."""
    return os.open(path, flags | os.O_NONBLOCK)


def _put(path: Path, content: bytes) -> None:
    """Write a small file whole, unless it is already so; two processes may do it at once."""
    with contextlib.suppress(FileNotFoundError), open(path, "rb", opener=_unwaiting) as present:
        if present.read() == content:
            return
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    temporary.write_bytes(content)
    temporary.replace(path)
