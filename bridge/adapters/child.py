"""Another program, run in a group of its own: with what a shell would give it, and without what is only ours."""

from __future__ import annotations

import contextlib
import errno
import os
import select
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path

from bridge.core.errors import SHORT_OF, Transient, Unusable

# What the supervisor tells one process is not meant for its children, and a git hook's surroundings mislead them.
_OURS = (
    "NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES", "JOURNAL_STREAM",
    "INVOCATION_ID", "MAINPID",
)  # fmt: skip
# We ignore SIGIO and Python ignores two more; a program that expects the usual would inherit that.
_USUAL = (signal.SIGIO, signal.SIGPIPE, signal.SIGXFSZ)
_LOOK = 0.05  # seconds between looks at a group that is ending
_BURIAL = 2.0  # seconds between looks for the dead of others
_LONG_DEAD = 30  # looks at which somebody was dead already and nobody came for him
_SHELL = "/bin/sh"


class Child:
    """A program that runs; `group`: the id of its process group, which everything it starts belongs to."""

    def __init__(self, group: int) -> None:
        self.group = group
        self._code: int | None = None
        self._descriptor = os.pidfd_open(group)

    def wait(self, seconds: float) -> int | None:
        """Its exit code (128 + the number of the signal that ended it), None when it still runs after `seconds`."""
        if self._code is None and self._ended(seconds):
            self._sweep(signal.SIGTERM)
            _, state = os.waitpid(self.group, 0)
            code = os.waitstatus_to_exitcode(state)
            self._code = code if code >= 0 else 128 - code
            os.close(self._descriptor)
        return self._code

    def end(self, grace: float) -> int:
        """Its exit code, when it and all that it started are gone: asked to end, and killed after `grace` seconds."""
        self._sweep(signal.SIGTERM)
        self._sweep(signal.SIGCONT)
        code = self.wait(grace)
        looks = int(grace / _LOOK) if code is not None else 0
        while looks > 0 and self._sweep(0):
            select.select([], [], [], _LOOK)
            looks -= 1
        self._sweep(signal.SIGKILL)
        while code is None:
            code = self.wait(60.0)
        return code

    def _ended(self, seconds: float) -> bool:
        poll = select.poll()  # select itself knows no descriptor beyond 1023, and many souls have more
        poll.register(self._descriptor, select.POLLIN)
        return bool(poll.poll(max(0.0, seconds) * 1000))

    def _sweep(self, number: int) -> bool:
        """Send a signal to the whole group; whether there is anybody left in it."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.group, number)
            return True
        return False


def start(
    command: Sequence[str], directory: Path, environment: Mapping[str, str], *, stdin: int = -1, stdout: int = -1
) -> Child:
    """Start a program in a directory. stdin, stdout: descriptors (-1: ours; a terminal is not given to a stdin).

    A program that cannot be started ends with 126 or 127, as in a shell. Raises Unusable without `/bin/sh`,
    Transient(kind="busy") when the machine has no room for one more.
    """
    actions: list[tuple[int, ...] | tuple[int, int, str, int, int]] = []
    if stdin >= 0:
        actions.append((os.POSIX_SPAWN_DUP2, stdin, 0))
    elif _is_terminal(0):
        # In a group of its own it would be stopped for ever at its first read.
        actions.append((os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0))
    if stdout >= 0:
        actions.append((os.POSIX_SPAWN_DUP2, stdout, 1))
    words = [_SHELL, "-c", 'cd -- "$0" && exec "$@"', str(directory), *command]
    try:
        group = os.posix_spawn(
            _SHELL, words, dict(environment), file_actions=actions, setpgroup=0, setsigmask=[], setsigdef=_USUAL
        )
    except (OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno in (errno.EAGAIN, *SHORT_OF):
            raise Transient(f"{command[0]} cannot be started now: {error.strerror}", kind="busy") from error
        raise Unusable(
            f"{command[0]} cannot be started: {error}",
            kind="config",
            advice=f"Nothing was run and nothing is lost. It is started by the system's shell: `ls -l {_SHELL}` has to "
            "show one, and no word of the command may hold a NUL.",
        ) from error
    try:
        return Child(group)
    except OSError as error:
        # Nobody could wait for it, or end it.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)
        os.waitpid(group, 0)
        raise Transient(f"{command[0]} cannot be watched over: {error.strerror}", kind="busy") from error


def fed(content: bytes) -> int:
    """A descriptor that a child can read these bytes from, however slowly; whoever asked for it closes it."""
    descriptor = os.memfd_create("stdin", os.MFD_CLOEXEC)
    with open(os.dup(descriptor), "wb") as file:
        file.write(content)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def environment() -> dict[str, str]:
    """Our own environment without what was meant for us alone."""
    return {name: text for name, text in os.environ.items() if name not in _OURS and not name.startswith("GIT_")}


def bury() -> None:
    """As process 1 of a container, which inherits whatever lost its parent: end what is dead, for ever.

    What we start ourselves leads its group and is waited for by whoever started it, so leaders are left alone unless
    nobody comes for them in a minute.
    """
    looks: dict[int, int] = {}
    while True:
        dead = _dead()
        looks = {number: looks.get(number, 0) + 1 for number in dead}
        for number in dead:
            with contextlib.suppress(OSError):  # somebody came for it just now
                if os.getpgid(number) != number or looks[number] > _LONG_DEAD:
                    os.waitpid(number, os.WNOHANG)
        select.select([], [], [], _BURIAL)


def _dead() -> list[int]:
    """Children that have ended and were not waited for."""
    found = []
    for tasks in Path("/proc/self/task").glob("*/children"):
        with contextlib.suppress(OSError):
            found += [int(number) for number in tasks.read_text().split()]
    return [number for number in found if _state(number) == "Z"]


def _state(number: int) -> str:
    try:
        return Path(f"/proc/{number}/stat").read_text(errors="replace").rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return ""


def _is_terminal(descriptor: int) -> bool:
    try:
        return os.isatty(descriptor)
    except OSError:
        return False
