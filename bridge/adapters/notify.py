"""What the service supervisor is told: READY, STATUS, WATCHDOG, STOPPING, RELOADING over the socket it names."""

from __future__ import annotations

import contextlib
import os
import socket

_LONGEST = 2000  # characters of a line


class Notifier:
    """Speaks to systemd when `NOTIFY_SOCKET` is set, and to nobody otherwise. Never raises."""

    def __init__(self) -> None:
        address = os.environ.get("NOTIFY_SOCKET", "")
        self._address = "\0" + address[1:] if address.startswith("@") else address
        self.watchdog = _microseconds(os.environ.get("WATCHDOG_USEC", "")) / 1e6

    def say(self, *lines: str) -> None:
        """Send lines such as "READY=1" as one message. What is said may hold a server's words: none of them becomes
        a line of its own."""
        if not self._address:
            return
        lines = tuple(" ".join(line.split())[:_LONGEST] for line in lines)
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.connect(self._address)
            sender.sendall("\n".join(lines).encode("utf-8", "replace"))


def _microseconds(text: str) -> float:
    return float(text) if text.isdigit() else 0.0
