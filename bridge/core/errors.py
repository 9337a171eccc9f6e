"""What can go wrong, named by what the caller should do about it.

    SoulError
    ├── Transient    unreachable, busy, disk full: wait and try again
    │   └── AnswerLost   a push was sent and no answer came: read the remote tip before deciding
    ├── Moved        a ref or file is not as expected: look again now
    ├── Refused      a person has to act; resumes by itself when the cause is gone
    │   └── HostKeyChanged   the host offers another key than the pinned one
    ├── Held         one path is set aside, the rest goes on
    └── Unusable     configuration or key file: exit before starting

Anything else that is raised is a bug.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping

# What the machine has too little of for the moment: no fact about the file that was asked for.
SHORT_OF = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)
# What a disk says that does not answer: nothing about what lies there.
FAILING = (errno.EIO, errno.ESTALE, errno.ENOTCONN, errno.EREMOTEIO, errno.ETIMEDOUT, errno.ENXIO)

# Exit codes: what a script may rely on (README).
EXIT_CODES = {
    "usage": 2, "config": 2, "rule": 3, "identity": 3, "rewritten": 3, "not-a-soul": 3,
    "auth": 4, "hostkey": 4, "network": 5, "lease": 6,
    "rejected": 1, "disk": 1, "internal": 1, "busy": 1,
}  # fmt: skip


# What a person is told who is told nothing more exact: what is safe, and what to type.
USUAL = {
    "network": "Nothing is lost: what is written is recorded here, and it is tried again by itself. "
    "`soul-bridge doctor` says what stands in the way.",
    "disk": "Nothing is lost: it is tried again by itself. Look for room and permissions there; `soul-bridge doctor` "
    "checks both.",
    "busy": "Nothing was changed; it is looked at again by itself. `soul-bridge status` says how it went on.",
    "rejected": "Nothing was published of it and nothing is lost here. `soul-bridge status` says what waits.",
    "rule": "The file stays as it is on this body; the rest goes on. `soul-bridge status` lists what is held.",
    "internal": "The files and the history are safe. `soul-bridge doctor` looks closer.",
}


# What shows whether a command was done whose answer never came.
SHOWS = {
    "lease": "lease show", "consolidate": "lease show", "restore": "log", "revert": "log", "dismiss": "conflicts",
    "forget": "bodies",
}  # fmt: skip


class SoulError(Exception):
    """Something the caller has to know: `kind` (a key of EXIT_CODES), `rule` ("" if none), `message`, `advice`.

    Without advice of its own an error has the usual one of its kind.
    """

    kind = "internal"
    said = ""  # the message with a server's words as far as they were kept, where it shows a part of them

    def __init__(self, message: str, *, kind: str = "", rule: str = "", advice: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.kind = kind or type(self).kind
        self.rule = rule
        self.advice = advice or USUAL.get(self.kind, "")

    @property
    def exit_code(self) -> int:
        """The exit code that a command ends with when this error reaches it."""
        return EXIT_CODES[self.kind]

    @property
    def whole(self) -> str:
        """The message, with more of a server's words than a person is shown where there are more."""
        return self.said or self.message

    def as_dict(self) -> dict[str, str]:
        """The shape of `{"error": …}` in every `--json` answer."""
        return {"kind": self.kind, "rule": self.rule, "message": self.message, "advice": self.advice}


class Transient(SoulError):
    """Unreachable, busy or full: wait with back-off and try again."""

    kind = "network"


class AnswerLost(Transient):
    """A push was sent and its answer never came: it may have arrived."""


class Moved(SoulError):
    """A ref or file was not as expected: nothing was changed, look again now."""

    kind = "busy"


class Refused(SoulError):
    """Not allowed: a person has to act; asked again rarely, resumes by itself."""

    kind = "rejected"


class HostKeyChanged(Refused):
    """The host offers another key than the pinned one: nothing was sent (AUTH-6)."""

    kind = "hostkey"


class Held(SoulError):
    """One path cannot be read or written; it is set aside with this reason, the rest goes on."""

    kind = "rule"


class Unusable(SoulError):
    """Configuration, key file or call that cannot work: exit before starting."""

    kind = "config"


def doubtful(request: Mapping[str, object], what: str) -> Transient:
    """The error of a request to a daemon of which nobody knows whether it was done. what: what happened, in words."""
    words, agent = str(request.get("command")).partition(" ")[0], request.get("agent")
    named = f" --agent {agent}" if isinstance(agent, str) else ""
    shows = f"soul-bridge {SHOWS.get(words, 'status')}{named}"
    advice = f"What was asked may have been done, or may still be: `{shows}` says how it is now; then ask again."
    return Transient(what, kind="busy", advice=advice)
