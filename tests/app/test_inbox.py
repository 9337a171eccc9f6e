"""Who asks the soul's thread waits for it, but not for ever."""

from __future__ import annotations

import threading

import pytest

from bridge.app import inbox
from bridge.commands import wiring
from bridge.core.errors import Transient


@pytest.mark.parametrize(
    ("command", "shows"),
    [("sync", "soul-bridge status"), ("revert", "soul-bridge log"), ("lease acquire", "soul-bridge lease show")],
)
def test_an_answer_that_is_long_in_coming_is_no_fault_of_the_program(
    monkeypatch: pytest.MonkeyPatch, command: str, shows: str
) -> None:
    """A long first transfer: what was asked may still be done, and a command that is named tells."""
    assert wiring.ANSWERED == inbox.ANSWERED
    monkeypatch.setattr(inbox, "ANSWERED", 0.01)
    with pytest.raises(Transient) as caught:
        inbox.Inbox().ask({"command": command, "agent": "kaoru"})
    assert caught.value.kind == "busy"
    assert "may have been done" in caught.value.advice and f"`{shows} --agent kaoru`" in caught.value.advice


def test_whoever_waits_for_a_thread_that_ends_is_told_at_once() -> None:
    """A soul that is opened anew leaves nobody waiting for the one before; who comes too late is told as well."""
    box = inbox.Inbox()
    told: list[BaseException] = []

    def ask() -> None:
        try:
            box.ask({"command": "sync"})
        except Transient as error:
            told.append(error)

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    assert box.take(20).requests  # it is in the owner's hands, who ends without an answer
    box.close()
    asking.join(20)
    ask()
    assert [getattr(error, "kind", "") for error in told] == ["busy", "busy"]
