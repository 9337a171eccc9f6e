"""Who asks the soul's thread waits for it, but not for ever."""

from __future__ import annotations

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
