"""The loopback host with faults on request: silence, a trickle, a cut, a lost answer, words instead of service."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import threading
from pathlib import Path

import paramiko

from bridge.app.host import Host, Session, read


class FaultyHost(Host):
    """A host whose fault, one of the attributes below, is played on every connection until it is taken back.

    no_banner: says nothing on a new connection. stall: runs a command, and nothing comes. drip: one byte every
    20 ms. cut: closes the connection after so many bytes of an answer. drop_answer: takes a push and never says so.
    refusal: words on the error stream instead of service. greeting: words on stdout instead of the protocol.
    babble: so many bytes on the error stream before the service, as a shell's start-up file may say.
    """

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.logins = 0
        self._over = threading.Event()
        self.heal()

    def heal(self) -> None:
        """Take every fault back."""
        self.no_banner = self.stall = self.drip = self.drop_answer = False
        self.cut: int | None = None
        self.babble = 0
        self.refusal = self.greeting = b""

    def stop(self) -> None:
        self._over.set()
        super().stop()

    def greet(self, connection: socket.socket) -> None:
        self.logins += 1
        if self.no_banner:
            self.run_beside(self._hold, connection)
        else:
            super().greet(connection)

    def execute(self, session: Session, channel: paramiko.Channel, command: str) -> None:
        if not (self.refusal or self.greeting):
            super().execute(session, channel, command)
            return
        with contextlib.suppress(OSError, EOFError), contextlib.closing(channel):
            if self.greeting:
                channel.sendall(self.greeting)
                self._until_closed(channel)
            else:
                channel.sendall_stderr(self.refusal)
                channel.send_exit_status(1)

    def answer(self, channel: paramiko.Channel, child: subprocess.Popen[bytes]) -> None:
        if self.babble:
            channel.sendall_stderr(b"x" * self.babble)
        if self.stall:
            self._until_closed(channel)
        elif self.drip:
            while (piece := read(child.stdout)) and not self._over.is_set():
                for byte in piece:
                    channel.sendall(bytes([byte]))
                    self._over.wait(0.02)
        elif self.cut is not None:
            self._say(channel, child, self.cut)
            channel.get_transport().close()
        elif self.drop_answer and "receive-pack" in list(child.args):  # type: ignore[arg-type]
            self._introduce(channel, child)
            while read(child.stdout):
                pass
            channel.get_transport().close()
        else:
            super().answer(channel, child)

    def _hold(self, connection: socket.socket) -> None:
        with connection:
            self._over.wait()

    def _until_closed(self, channel: paramiko.Channel) -> None:
        while not self._over.wait(0.01) and not channel.closed:
            pass

    def _say(self, channel: paramiko.Channel, child: subprocess.Popen[bytes], limit: int) -> None:
        while limit > 0 and (piece := read(child.stdout)):
            channel.sendall(piece[:limit])
            limit -= len(piece)

    def _introduce(self, channel: paramiko.Channel, child: subprocess.Popen[bytes]) -> None:
        """Carry the advertisement, up to its flush packet."""
        held = b""
        while True:
            while len(held) < 4 or len(held) < int(held[:4], 16):
                held += (piece := read(child.stdout))
                if not piece:
                    return
            size = int(held[:4], 16)
            channel.sendall(held[: size or 4])
            held = held[size or 4 :]
            if not size:
                return
