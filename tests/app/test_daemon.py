"""The life of a soul in a running process, on fakes and a real clock."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest

from bridge.adapters.clock import SystemClock
from bridge.app import reporting, status
from bridge.app.daemon import Daemon
from bridge.app.inbox import Inbox
from bridge.app.life import Life
from bridge.app.soul import Limits
from bridge.core.errors import Refused, Transient, Unusable
from bridge.core.model import CheckoutState
from bridge.fakes.repo import FakeRepo
from tests.app.bodies import Body, Fleet

SOON = 5.0


@dataclass
class Watcher:
    """A watcher that sees nothing by itself."""

    running: bool = False
    told: list[str] = field(default_factory=list)

    def start(self) -> None:
        self.running = True

    def stop(self) -> None:
        self.running = False

    def problems(self) -> list[str]:
        return self.told


@dataclass
class Running:
    """A body whose daemon runs, and what it last said of itself."""

    body: Body
    daemon: Daemon
    watcher: Watcher
    paused: bool = False
    said: status.Document = field(default_factory=dict)

    def until(self, found: Callable[[], bool]) -> None:
        end = time.monotonic() + SOON
        while not found():
            assert time.monotonic() < end, self.said
            time.sleep(0.005)

    def hint(self, path: str | None) -> None:
        self.daemon.inbox.hint(path)


@contextmanager
def running(poll: float = 30.0) -> Iterator[Running]:
    world = Fleet("kaoru", FakeRepo(), SystemClock(), {})  # type: ignore[arg-type]
    body = world.body("laptop", Limits(settle=0.02, guard=0.2))
    reporter = reporting.Reporter("/souls/kaoru.soul", "git@host:me/kaoru.soul.git", 42, None)
    live: list[Running] = []

    def report(life: Life) -> None:
        live[0].said = reporter.document(life)

    watcher = Watcher()
    daemon = Daemon(Life(body.soul), watcher, Inbox(), poll, report, lambda: live[0].paused)
    live.append(Running(body, daemon, watcher))
    daemon.start()
    try:
        live[0].until(lambda: live[0].said.get("state") == "idle")
        yield live[0]
    finally:
        daemon.stop()
        assert daemon.join(SOON)
        assert not watcher.running


def test_a_hinted_write_is_recorded_and_published() -> None:
    """COMMIT-2: from the hint to the remote without waiting for a poll."""
    with running() as one:
        one.body.write("notes/a.md", "# a\n")
        one.hint("notes/a.md")
        one.until(lambda: "notes/a.md" in one.body.tracked())
        one.until(lambda: one.said["tip"] == one.said["remote_tip"] == one.body.remote.server.tip("refs/heads/main"))
        one.until(lambda: one.said["state"] == "idle" and one.said["ahead"] == 0)


def test_a_sync_asked_for_is_answered_with_what_was_done() -> None:
    """GUARD-1: an asked pass does not wait for `settle`."""
    with running() as one:
        one.body.write("notes/b.md", "# b\n")
        answer = one.daemon.inbox.ask({"command": "sync", "now": False})
        assert answer["outcome"] == "ok"
        assert "notes/b.md" in answer["recorded"]
        assert answer["pushed"] is True


def test_an_error_of_a_request_goes_to_whoever_asked_and_the_daemon_lives_on() -> None:
    with running() as one:
        with pytest.raises(Refused):
            one.daemon.inbox.ask({"command": "restore", "id": "ffffffff"})
        assert one.daemon.inbox.ask({"command": "sync"})["outcome"] == "ok"
        assert one.daemon.failure is None


def test_a_paused_soul_is_left_alone_until_it_is_resumed() -> None:
    with running() as one:
        one.paused = True
        one.hint(None)
        one.until(lambda: one.said["state"] == "paused")
        one.body.write("notes/c.md", "# c\n")
        one.hint("notes/c.md")
        time.sleep(0.2)
        assert "notes/c.md" not in one.body.tracked()
        one.paused = False
        one.hint(None)
        one.until(lambda: "notes/c.md" in one.body.tracked())


def test_stopping_records_what_is_unsettled_and_pushes_once() -> None:
    """GUARD-1: `settle` is waived at shutdown."""
    with running() as one:
        one.body.soul.limits = Limits(settle=60.0)
        one.body.write("notes/d.md", "# d\n")
        one.daemon.stop()
        assert one.daemon.join(SOON)
        tip = one.body.remote.server.tip("refs/heads/main") or ""
        assert one.body.remote.server.entry(one.body.remote.server.info(tip).tree, "notes/d.md") is not None


def test_a_refused_key_is_told_once_asked_rarely_and_over_by_itself() -> None:
    """AUTH-5: calm while the key is revoked, and well again when it is authorised."""
    with running(poll=0.1) as one:
        one.body.remote.revoke()
        one.body.write("notes/e.md", "# e\n")
        one.hint("notes/e.md")
        one.until(lambda: one.said["state"] == "refused" and one.said["ahead"] > 0)
        asked = one.body.remote.fetches + one.body.remote.pushes
        time.sleep(0.5)
        assert one.body.remote.fetches + one.body.remote.pushes == asked
        assert one.said["problem"]["kind"] == "auth"
        assert one.said["problem"]["next_try"] > one.said["problem"]["since"]
        assert len(one.body.facts.named("auth.refused")) == 1
        one.body.remote.refusal = None
        one.daemon.inbox.ask({"command": "sync"})
        one.until(lambda: one.said["state"] == "idle" and one.said["problem"] is None)
        assert len(one.body.facts.named("auth.restored")) == 1


def test_a_person_at_work_with_git_is_waited_for_and_named() -> None:
    """REPO-7: it goes on by itself when that is over."""
    with running() as one:
        one.body.repo.checkout = CheckoutState("refs/heads/main", "a rebase is in progress")
        one.hint(None)
        one.until(lambda: one.said["state"] == "waiting")
        assert "rebase" in one.said["last_pass"]["sentence"]
        assert one.said["problem"] is None
        one.body.repo.checkout = CheckoutState("refs/heads/main")
        one.hint(None)
        one.until(lambda: one.said["state"] == "idle")


def test_what_keeps_the_watcher_from_seeing_is_told() -> None:
    with running() as one:
        one.watcher.told = ["the limit of inotify watches is reached"]
        one.hint(None)
        one.until(lambda: one.said["warnings"] == ["the limit of inotify watches is reached"])


def test_a_bug_ends_the_soul_and_is_kept() -> None:
    """Anything that no family of errors names is a bug: the process must end and start over."""
    with running() as one:

        def broken(*_: object) -> None:
            raise ZeroDivisionError

        one.body.tree.look = broken  # type: ignore[method-assign, assignment]
        one.hint(None)
        assert one.daemon.join(SOON)
        assert isinstance(one.daemon.failure, ZeroDivisionError)


def test_a_request_that_lacks_a_word_is_refused_and_the_soul_lives_on() -> None:
    """A command of another version asks with other words."""
    with running() as one:
        for words in ({"command": "forget"}, {"command": "restore"}, {"command": "nonsense"}):
            with pytest.raises(Unusable) as refused:
                one.daemon.inbox.ask(words)
            assert refused.value.exit_code == 2
        assert one.daemon.inbox.ask({"command": "sync"})["outcome"] == "ok"


def test_a_report_that_fails_does_not_end_the_soul() -> None:
    """A status that cannot be written tells its age; the passes go on."""
    with running() as one:

        def full(life: Life) -> None:
            raise Transient("no space left on device", kind="disk")

        one.daemon._report = full
        assert one.daemon.inbox.ask({"command": "sync"})["outcome"] == "ok"
        assert one.daemon.failure is None
