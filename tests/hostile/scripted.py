"""A host that may answer with a script in place of git: what no server that means well ever says."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path

import paramiko

from bridge.app.host import Session
from tests.real.faulty_host import FaultyHost

Script = Callable[[str], Iterator[bytes]]  # of the true tip of main: what the server says, piece by piece
CAPABILITIES = b"report-status side-band-64k ofs-delta thin-pack no-progress"


class ScriptedHost(FaultyHost):
    """Answers the services named in `scripts` with them; every other call is served as usual.

    babble_for_ever: nothing but words on the error stream, without end.
    """

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.scripts: dict[str, Script] = {}
        self.babble_for_ever = False

    def heal(self) -> None:
        super().heal()
        self.scripts, self.babble_for_ever = {}, False

    def execute(self, session: Session, channel: paramiko.Channel, command: str) -> None:
        service, repo = shlex.split(command)
        script = self.scripts.get(service)
        if script is None and not self.babble_for_ever:
            super().execute(session, channel, command)
            return
        tip = (self.root / repo.strip("/") / "refs/heads/main").read_text().strip()
        with contextlib.suppress(OSError, EOFError, paramiko.SSHException), contextlib.closing(channel):
            while self.babble_for_ever:
                channel.sendall_stderr(b"lorem ipsum " * 2_000)
            for piece in script(tip) if script is not None else ():
                channel.sendall(piece)
            channel.send_exit_status(0)
            channel.shutdown_write()
            channel.settimeout(5)
            while channel.recv(1 << 16):  # a client that still speaks shall not find a closed door
                pass


def line(content: bytes) -> bytes:
    """A pkt-line."""
    return b"%04x%s" % (len(content) + 4, content)


def band(number: int, content: bytes) -> bytes:
    """A side-band packet."""
    return line(bytes([number]) + content)


def advertised(tip: str, *more: bytes, name: bytes = b"refs/heads/main") -> bytes:
    """An advertisement of main at a tip, with further lines before its end."""
    first = line(b"%s %s\0%s\n" % (tip.encode(), name, CAPABILITIES))
    return first + b"".join(map(line, more)) + b"0000"


def report(*lines: bytes) -> bytes:
    """What receive-pack says at the end, in its band."""
    return band(1, b"".join(map(line, lines)) + b"0000") + b"0000"
