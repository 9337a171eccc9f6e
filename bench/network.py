"""Where the measured machines are: all on loopback, or on two sides of a slow line.

The slow line is two network namespaces joined by a tunnel in user space that holds every packet back; most kernels of
small machines have no netem. It needs root. Nothing else of the machine's network is touched.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import heapq
import os
import select
import signal
import struct
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Protocol, TypeVar

from bench.measure import NotSeen, now

_TUNSETIFF, _TUN_NO_PI = 0x400454CA, 0x1001
_NEWNET = 0x40000000
_NEAR, _FAR = "10.77.0.1", "10.77.0.2"
Result = TypeVar("Result")


class Network(Protocol):
    """A line between bodies and server. `beyond`: words before a command that make it run at the server's end."""

    name: str
    address: str
    near: str
    beyond: tuple[str, ...]

    def call(self, work: Callable[[], Result]) -> Result:
        """Do something at the bodies' end, in a thread whose children are there too."""

    def close(self) -> None:
        """Take it down."""


class Loopback:
    """Both ends on this machine."""

    name = "loopback"
    address = near = "127.0.0.1"
    beyond: tuple[str, ...] = ()

    def call(self, work: Callable[[], Result]) -> Result:
        """Do it."""
        return work()

    def close(self) -> None:
        """Nothing to take down."""


class Slow:
    """A line on which an answer takes `milliseconds`. Raises NotSeen where the machine does not allow it."""

    address, near = _FAR, _NEAR

    def __init__(self, milliseconds: float) -> None:
        self.name = f"{milliseconds:g} ms"
        if os.geteuid() != 0 or not os.path.exists("/dev/net/tun"):
            raise NotSeen("a slow line needs root and /dev/net/tun")
        command = ["unshare", "-n", sys.executable, "-m", "bench.network", str(milliseconds / 2)]
        root = Path(__file__).resolve().parents[1]
        self._line = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=root
        )
        said = self._line.stdout.readline().split() if self._line.stdout else []
        if len(said) != 1:
            self.close()
            raise NotSeen("a slow line needs network namespaces and tunnels")
        self.beyond: tuple[str, ...] = ("nsenter", "-t", said[0].decode(), "-n", "--")

    def call(self, work: Callable[[], Result]) -> Result:
        """Do it in a thread that lives in the near namespace; what it starts does as well."""
        done: list[Result] = []
        failed: list[BaseException] = []

        def inside() -> None:
            try:
                _enter(self._line.pid)
                done.append(work())
            except BaseException as error:  # noqa: BLE001 - raised again below, in the thread that asked
                failed.append(error)

        thread = threading.Thread(target=inside)
        thread.start()
        thread.join()
        if failed:
            raise failed[0]
        return done[0]

    def close(self) -> None:
        """End the tunnel; its namespaces vanish with it."""
        self._line.terminate()
        self._line.wait()


def _enter(pid: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        if libc.setns(descriptor, _NEWNET):
            raise OSError(ctypes.get_errno(), "setns")
    finally:
        os.close(descriptor)


def _tunnel(name: str) -> int:
    descriptor = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    fcntl.ioctl(descriptor, _TUNSETIFF, struct.pack("16sH22s", name.encode(), _TUN_NO_PI, b""))
    return descriptor


def _ip(*words: str, inside: tuple[str, ...] = ()) -> None:
    subprocess.run([*inside, "ip", *words], check=True, stdin=subprocess.DEVNULL)


def _carry(ends: tuple[int, int], delay: float) -> None:
    """Carry packets both ways, each `delay` seconds late, until standard input ends with whoever started us."""
    waiting: list[tuple[float, int, int, bytes]] = []
    number = 0
    while True:
        pause = max(0.0, waiting[0][0] - now()) if waiting else None
        for end in select.select([*ends, 0], [], [], pause)[0]:
            if end == 0:
                return
            with contextlib.suppress(BlockingIOError):
                while True:
                    packet = os.read(end, 65536)
                    number += 1
                    heapq.heappush(waiting, (now() + delay, number, ends[1] if end == ends[0] else ends[0], packet))
        while waiting and waiting[0][0] <= now():
            _, _, end, packet = heapq.heappop(waiting)
            with contextlib.suppress(OSError):
                os.write(end, packet)


def main(one_way: float) -> None:
    """In a fresh network namespace: be the near end and the line, and start the far end. Seconds are milliseconds."""
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(0))
    far = subprocess.Popen(["unshare", "-n", "cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    beyond = ("nsenter", "-t", str(far.pid), "-n", "--")
    while os.readlink(f"/proc/{far.pid}/ns/net") == os.readlink("/proc/self/ns/net"):
        select.select([], [], [], 0.01)
    ends = _tunnel("near"), _tunnel("far")
    _ip("link", "set", "far", "netns", str(far.pid))
    for name, address, inside in (("near", _NEAR, ()), ("far", _FAR, beyond)):
        _ip("addr", "add", f"{address}/24", "dev", name, inside=inside)
        _ip("link", "set", name, "up", inside=inside)
        _ip("link", "set", "lo", "up", inside=inside)
    sys.stdout.write(f"{far.pid}\n")
    sys.stdout.flush()
    try:
        _carry(ends, one_way / 1000)
    finally:
        far.kill()


if __name__ == "__main__":
    main(float(sys.argv[1]))
