"""A key is changed without a gap: the old one stays in use until the host accepts the new one, whatever happens."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from bridge.adapters import keys
from bridge.adapters.clock import SystemClock
from bridge.adapters.hosts import HostKey
from bridge.adapters.remote import Access, Remote
from bridge.app import rotating
from bridge.app.host import Host
from bridge.commands.init import NothingYet
from bridge.core import address
from bridge.core.errors import Refused, SoulError, Transient
from bridge.fakes.clock import FakeClock
from tests.real.fleet import Fleet, until

GITHUB = address.parse("git@github.com:me/kaoru.soul.git")


@dataclass
class Prober:
    """A host that says these things, one after the other, and then accepts."""

    answers: list[SoulError]
    asked: int = 0

    def __call__(self) -> None:
        self.asked += 1
        if self.answers:
            raise self.answers.pop(0)


@dataclass
class Home:
    """A key on a disk, and what was told."""

    pair: keys.Successor
    first: keys.PublicKey
    clock: FakeClock = field(default_factory=FakeClock)
    told: list[str] = field(default_factory=list)

    def rotate(self, *answers: SoulError, wait: float = 0.0) -> rotating.Rotated:
        asking = rotating.Asking(Prober(list(answers)), self.clock, wait)
        return rotating.rotate(self.pair, asking, GITHUB, "kaoru", self.told.append)

    def files(self) -> list[str]:
        return sorted(path.name for path in self.pair.path.parent.iterdir())

    def present(self) -> keys.PublicKey:
        return keys.load(self.pair.path, self.pair.path.parent / "soul").public


@pytest.fixture
def home(tmp_path: Path) -> Home:
    path = tmp_path / "keys" / "kaoru.laptop"
    first = keys.generate(path, "kaoru.laptop soul-bridge")
    return Home(keys.Successor(path, tmp_path / "soul", "kaoru.laptop soul-bridge 2027-01-15"), first)


def no() -> Refused:
    return Refused("Permission denied (publickey).", kind="auth", rule="AUTH-5")


def test_an_accepted_key_takes_the_old_ones_place_and_the_old_one_is_named(home: Home) -> None:
    """AUTH-2: one key per body, before and after."""
    rotated = home.rotate()
    assert rotated.old is not None
    assert rotated.old.fingerprint == home.first.fingerprint
    home.pair.settle()
    assert home.files() == ["kaoru.laptop", "kaoru.laptop.pub"]
    assert home.present().fingerprint == rotated.new.fingerprint != home.first.fingerprint
    assert keys.public(home.pair.path).line == home.present().line
    assert home.present().line.endswith(" kaoru.laptop soul-bridge 2027-01-15")
    assert home.pair.path.stat().st_mode & 0o777 == 0o600


def test_a_key_that_the_host_does_not_accept_is_shown_with_where_to_paste_it(home: Home) -> None:
    """AUTH-3: the old key stays in use."""
    with pytest.raises(Refused) as refused:
        home.rotate(no())
    error = refused.value
    new = keys.public(home.pair.next)
    assert (error.exit_code, error.rule) == (4, "AUTH-3")
    assert new.line in error.advice
    assert "https://github.com/me/kaoru.soul/settings/keys/new" in error.advice
    assert "Allow write access" in error.advice
    assert "soul-bridge key rotate kaoru" in error.advice
    assert home.present() == home.first


def test_the_same_call_goes_on_with_the_key_that_was_shown(home: Home) -> None:
    with pytest.raises(Refused):
        home.rotate(no())
    shown = keys.public(home.pair.next)
    with pytest.raises(Refused):
        home.rotate(no())
    assert keys.public(home.pair.next) == shown
    assert home.rotate().new.fingerprint == shown.fingerprint


def test_waiting_goes_on_until_the_host_accepts_and_says_once_what_it_waits_for(home: Home) -> None:
    rotated = home.rotate(no(), Transient("no route"), no(), wait=60)
    assert rotated.new.fingerprint == home.present().fingerprint
    assert len(home.told) == 1
    assert rotated.new.line in home.told[0]
    assert home.told[0].endswith("waiting for it …")


def test_waiting_ends(home: Home) -> None:
    with pytest.raises(Refused):
        home.rotate(*[no()] * 100, wait=30)
    assert home.clock.boottime() == pytest.approx(1030, abs=rotating.PAUSE)


def test_a_read_only_key_is_not_taken_into_use(home: Home) -> None:
    with pytest.raises(Refused, match="read only"):
        home.rotate(Refused("The key is read only.", kind="auth", rule="AUTH-3"))
    assert home.present() == home.first


def test_a_host_that_cannot_be_reached_keeps_the_old_key_and_shows_the_new_one(home: Home) -> None:
    with pytest.raises(Transient) as offline:
        home.rotate(Transient("no route to host"))
    assert offline.value.exit_code == 5
    assert keys.public(home.pair.next).line in offline.value.advice
    assert home.present() == home.first


def test_a_changed_host_key_is_not_waited_for(home: Home) -> None:
    with pytest.raises(Refused) as refused:
        home.rotate(Refused("the host key changed", kind="hostkey", rule="AUTH-6"), wait=60)
    assert refused.value.kind == "hostkey"
    assert home.present() == home.first


class Stopped(Exception):
    """The program was killed here."""


STEPS = ["replace", "unlink", "_create", "_sync_directory"]


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("nth", [1, 2, 3, 4])
def test_stopped_anywhere_the_next_call_ends_with_one_key_and_names_the_old_one(
    home: Home, step: str, nth: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However far it came, a working key is in place, and the fingerprint to delete is told in the end."""
    count = 0
    owner = {"replace": os, "unlink": Path}.get(step, keys)
    real = getattr(owner, step)

    def stops(*words: object, **more: object) -> object:
        nonlocal count
        count += 1
        if count == nth:
            raise Stopped(step)
        return real(*words, **more)

    with monkeypatch.context() as patch:
        patch.setattr(owner, step, stops)
        try:
            home.rotate()
            home.pair.settle()
        except Stopped:
            pass
    home.present()
    last = home.rotate()
    home.pair.settle()
    assert home.files() == ["kaoru.laptop", "kaoru.laptop.pub"]
    assert last.new.fingerprint == home.present().fingerprint == keys.public(home.pair.path).fingerprint
    assert last.old is not None
    assert last.old.fingerprint != last.new.fingerprint


def test_a_switch_that_was_not_told_is_told_by_the_next_call_and_no_third_key_is_made(home: Home) -> None:
    first = home.rotate()
    again = home.rotate(no())
    assert (again.new.fingerprint, again.old) == (first.new.fingerprint, home.first)


def test_half_a_new_key_or_one_that_others_may_read_is_made_anew(home: Home) -> None:
    """AUTH-2: what was never shown is worth nothing; what others could read must not be used."""
    home.pair.next.write_text("-----BEGIN")
    assert home.rotate().new.fingerprint == home.present().fingerprint
    home.pair.settle()
    leaked = keys.generate(home.pair.next, "x")
    home.pair.next.chmod(0o644)
    assert home.rotate().new.fingerprint != leaked.fingerprint


def test_a_lost_or_unsafe_old_key_can_be_replaced(home: Home) -> None:
    home.pair.path.chmod(0o644)
    rotated = home.rotate()
    assert rotated.old == home.first
    home.pair.settle()
    home.pair.path.unlink()
    home.pair.path.with_name("kaoru.laptop.pub").unlink()
    assert home.rotate().old is None


def test_no_new_key_is_made_inside_a_soul(tmp_path: Path) -> None:
    """AUTH-2."""
    soul = tmp_path / "soul"
    soul.mkdir()
    pair = keys.Successor(soul / "key", soul, "x")
    with pytest.raises(Refused) as refused:
        rotating.rotate(pair, rotating.Asking(Prober([]), FakeClock(), 0), GITHUB, "kaoru", [].append)
    assert refused.value.exit_code == 3
    assert list(soul.iterdir()) == []


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    """One repository on a host over SSH."""
    host = Host(tmp_path / "host").start()
    host.create("kaoru.soul.git")
    made = Fleet(host, tmp_path, "kaoru.soul.git")
    yield made
    made.close()
    host.stop()


def test_a_rotation_with_a_real_host_while_the_daemon_runs(fleet: Fleet) -> None:
    """AUTH-4, AUTH-5: the daemon takes the new key at its next login, and the old one may go."""
    body = fleet.body("laptop").start()
    old = body.public_line()
    refused = body.json("key", "rotate", code=4)["error"]
    new = body.key.with_name("kaoru.laptop.next.pub").read_text().strip()
    assert new in refused["advice"]
    fleet.server.authorize(fleet.repository, new, write=False)
    assert "read only" in body.json("key", "rotate", code=4)["error"]["message"]
    fleet.server.authorize(fleet.repository, new)
    rotated = body.json("key", "rotate")
    assert rotated["public_key"] == new
    assert rotated["delete"] == keys.PublicKey(old.split()[1]).fingerprint
    fleet.server.revoke(fleet.repository, old)
    body.append("memories/MEMORY.md", "written with the new key\n")
    body.sync()
    assert "written with the new key" in fleet.git("show", "main:memories/MEMORY.md")
    assert body.json("key", "show")["fingerprint"] == rotated["fingerprint"]
    until(lambda: body.seen()["problem"] is None, "nothing stands in the way")


def test_an_open_session_outlives_the_rotation_and_the_next_login_uses_the_new_key(fleet: Fleet, home: Home) -> None:
    """AUTH-4: the key is read again for every login."""
    host = fleet.server
    assert isinstance(host, Host)
    where = address.parse(host.address(fleet.repository))
    _, kind, blob = host.host_key_line().split()
    access = Access(where, lambda: keys.load(home.pair.path, fleet.root / "soul"), lambda: [HostKey(kind, blob)])
    remote = Remote(access, NothingYet(), SystemClock())
    waiting = Remote(
        replace(access, key=lambda: keys.load(home.pair.next, fleet.root / "soul")), NothingYet(), SystemClock()
    )
    host.authorize(fleet.repository, home.first.line)
    remote.probe_write()
    host.authorize(fleet.repository, home.pair.prepare().line)
    rotating.rotate(home.pair, rotating.Asking(waiting.probe_write, SystemClock(), 0), where, "kaoru", home.told.append)
    remote.probe_write()
    host.revoke(fleet.repository, home.first.line)
    remote.probe_write()
    remote.close()
    waiting.close()


def test_what_ssh_keygen_says_of_the_new_key_is_what_is_told(home: Home) -> None:
    new = home.rotate().new
    home.pair.settle()
    for path in (home.pair.path, home.pair.path.with_name("kaoru.laptop.pub")):
        said = subprocess.run(["ssh-keygen", "-lf", str(path)], capture_output=True, text=True, check=True).stdout
        assert new.fingerprint in said
