"""What the supervisor hears: one message for each thing said, and nothing that anybody else made up."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from bridge.adapters.notify import Notifier


@pytest.mark.parametrize("abstract", [False, True])
def test_what_is_said_arrives_as_one_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, abstract: bool) -> None:
    name = f"@soul-bridge-test-{tmp_path.name}" if abstract else str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind("\0" + name[1:] if abstract else name)
        monkeypatch.setenv("NOTIFY_SOCKET", name)
        monkeypatch.setenv("WATCHDOG_USEC", "120000000")
        notifier = Notifier()
        assert notifier.watchdog == 120.0
        notifier.say("RELOADING=1", "MONOTONIC_USEC=5")
        assert listening.recv(4096) == b"RELOADING=1\nMONOTONIC_USEC=5"


def test_the_words_of_a_server_cannot_become_a_line_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(str(tmp_path / "notify"))
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        Notifier().say("STATUS=kaoru: the server says\nMAINPID=1\r\nWATCHDOG=trigger\u2028STOPPING=1 " + "x" * 9000)
        (said,) = listening.recv(65536).decode().split("\n")
    assert said.startswith("STATUS=kaoru: the server says MAINPID=1 WATCHDOG=trigger STOPPING=1 xxx")
    assert len(said) <= 2000


def test_nobody_who_listens_is_no_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for address in ("", str(tmp_path / "nowhere"), "@soul-bridge-nobody"):
        monkeypatch.setenv("NOTIFY_SOCKET", address)
        monkeypatch.setenv("WATCHDOG_USEC", "soon")
        notifier = Notifier()
        notifier.say("READY=1")
        assert notifier.watchdog == 0.0
