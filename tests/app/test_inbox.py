"""Who asks the soul's thread waits for it, but not for ever."""

from __future__ import annotations

import threading

import pytest

from bridge.app import inbox
from bridge.commands import wiring
from bridge.core.errors import Transient


def test_an_answer_that_is_long_in_coming_is_no_fault_of_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """A long first transfer: what was asked may still be done, and `status` tells."""
    assert wiring.ANSWERED == inbox.ANSWERED
    monkeypatch.setattr(inbox, "ANSWERED", 0.01)
    with pytest.raises(Transient) as caught:
        inbox.Inbox().ask({"command": "sync"})
    assert (caught.value.kind, caught.value.advice) == ("busy", "soul-bridge status")


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
