"""The promises of the port `Remote`, kept by the fake, the open session and the programs, on two kinds of server."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from bridge.adapters import hosts, keys
from bridge.adapters.clock import SystemClock
from bridge.adapters.gitenv import clean_environment
from bridge.adapters.gitssh import Access as ProgramAccess
from bridge.adapters.gitssh import GitSsh
from bridge.adapters.remote import Access, Patience, Remote
from bridge.adapters.repo import Repo
from bridge.core.address import Address
from bridge.core.errors import AnswerLost, HostKeyChanged, Moved, Refused, Transient
from bridge.core.model import File, RemoteLook
from bridge.fakes.remote import FakeRemote, _copy, accept
from bridge.fakes.repo import FakeRepo
from tests.real.faulty_host import FaultyHost
from tests.real.sshd import Sshd, missing

MAIN = "refs/heads/main"
REPO = "agent.soul.git"
HOOK_WORDS = "no such thing here"
PATIENCE = Patience(step=5.0, look=10.0, transfer=20.0)


@dataclass
class Body:
    """One body: its objects and its way to the remote."""

    name: str
    repo: Any
    remote: Any

    def commit(self, text: str, *parents: str, **others: str) -> str:
        """A durable commit of a tree that holds these texts."""
        texts = {"SOUL.md": text, **others}
        tree = self.repo.edit("", {path: File(self.repo.write(words.encode())) for path, words in texts.items()})
        made = self.repo.commit(tree, parents, f"Kaoru ({self.name})", f"k@{self.name}.local", text, 1_700_000_000)
        self.repo.flush()
        return str(made)

    def text(self, commit: str, path: str = "SOUL.md") -> str:
        """What a commit that is here holds at a path."""
        file = self.repo.entry(self.repo.info(commit).tree, path)
        return str(self.repo.read(file.oid).decode())


class FakeWorld:
    """Bodies around a server in memory."""

    def __init__(self, place: Path) -> None:
        self.server = FakeRepo()
        self.bodies: list[Body] = []
        self.hook: Callable[..., str] = accept

    def body(self, name: str) -> Body:
        repo = FakeRepo()
        remote = FakeRemote(self.server, repo, lambda *asked: self.hook(*asked))
        self.bodies.append(Body(name, repo, remote))
        return self.bodies[-1]

    def tip(self) -> str | None:
        return self.server.tip(MAIN)

    def put(self, body: Body, ref: str, commit: str) -> None:
        _copy(body.repo, self.server, commit)
        self.server.names[ref] = commit

    def drop(self, ref: str) -> None:
        self.server.names.pop(ref)

    def refuse_pushes(self, on: bool) -> None:
        self.hook = (lambda *_: HOOK_WORDS) if on else accept

    def revoke(self, body: Body) -> None:
        body.remote.revoke()

    def authorize(self, body: Body, write: bool = True) -> None:
        body.remote.heal()
        if not write:
            body.remote.make_read_only()

    def reachable(self, on: bool) -> None:
        for body in self.bodies:
            body.remote.unreachable = not on

    def stop(self) -> None:
        pass


class RealWorld:
    """Bodies with real repositories and keys around a server that speaks SSH."""

    def __init__(self, place: Path, server: Any, kind: str) -> None:
        self.place = place
        self.server = server
        self.kind = kind
        self.directory = server.create(REPO)
        self.known_hosts = hosts.KnownHosts(place / "known_hosts")
        self.known_hosts.path.write_text(server.host_key_line() + "\n")
        self.bodies: list[Body] = []

    @property
    def address(self) -> Address:
        path = str(self.directory) if isinstance(self.server, Sshd) else f"/{REPO}"
        return at(self.server.port, path, getattr(self.server, "user", "git"))

    def body(self, name: str, patience: Patience = PATIENCE, clock: Any = None) -> Body:
        repo = Repo.create(self.place / name / "soul")
        self.server.authorize(REPO, keys.generate(self.key(name), name).line)
        self.bodies.append(Body(name, repo, self.way(name, repo, self.address, patience, clock)))
        return self.bodies[-1]

    def way(self, name: str, repo: Repo, address: Address, patience: Patience = PATIENCE, clock: Any = None) -> Any:
        def key() -> keys.Key:
            return keys.load(self.key(name), self.place / name / "soul")

        if self.kind == "gitssh":
            access = ProgramAccess(address, key, self.known_hosts.path)
            return GitSsh(access, repo.git_dir, repo, patience.look, patience.transfer)
        pinned = lambda: self.known_hosts.lookup(address.known_host_key_name)  # noqa: E731
        return Remote(Access(address, key, pinned), repo, clock or SystemClock(), patience)

    def key(self, name: str) -> Path:
        return self.place / name / "keys" / "kaoru"

    def git(self, *args: str, stdin: bytes = b"") -> str:
        environment = {**clean_environment(), "GIT_ALLOW_PROTOCOL": "file"}
        command = ["git", "--git-dir", str(self.directory), *args]
        return subprocess.run(command, input=stdin, check=True, capture_output=True, env=environment).stdout.decode()

    def tip(self) -> str | None:
        return self.git("for-each-ref", "--format=%(objectname)", MAIN).strip() or None

    def put(self, body: Body, ref: str, commit: str) -> None:
        self.git("unpack-objects", "-q", stdin=body.repo.pack(commit, ()))
        self.git("update-ref", ref, commit)

    def drop(self, ref: str) -> None:
        self.git("update-ref", "-d", ref)

    def hook(self, name: str, script: str) -> None:
        path = self.directory / "hooks" / name
        path.unlink(missing_ok=True)
        if script:
            path.parent.mkdir(exist_ok=True)
            path.write_text(f"#!/bin/sh\n{script}\n")
            path.chmod(0o755)

    def refuse_pushes(self, on: bool) -> None:
        self.hook("pre-receive", f"echo {HOOK_WORDS} >&2; exit 1" if on else "")

    def talk(self, last: str) -> None:
        """Refuse pushes with more than 5 MiB of words, these the last."""
        self.hook("pre-receive", f"seq -f 'line %.0f' 600000 >&2; echo '{last}' >&2; exit 1")

    def revoke(self, body: Body) -> None:
        self.server.revoke(REPO, keys.public(self.key(body.name)).line)
        if isinstance(self.server, Sshd):
            body.remote.close()  # a plain sshd notices at the next login only

    def authorize(self, body: Body, write: bool = True) -> None:
        self.server.authorize(REPO, keys.public(self.key(body.name)).line, write)
        if isinstance(self.server, Sshd):
            body.remote.close()

    def stop(self) -> None:
        for body in self.bodies:
            body.remote.close()
        if self.directory.exists():
            self.git("fsck", "--strict", "--no-dangling")  # the second opinion
        self.server.stop()


def at(port: int, path: str, user: str = "git") -> Address:
    return Address(user, "127.0.0.1", port, path, f"ssh://{user}@127.0.0.1:{port}{path}")


WORLDS = ("fake", "remote on host", "gitssh on host", "remote on sshd", "gitssh on sshd")


def make(name: str, place: Path) -> Any:
    if name == "fake":
        return FakeWorld(place)
    kind, _, server = name.partition(" on ")
    if server == "sshd":
        if missing():
            pytest.skip(f"{missing()} is not installed")
        return RealWorld(place, Sshd(place / "server").start(), kind)
    return RealWorld(place, FaultyHost(place / "server").start(), kind)


@pytest.fixture(params=WORLDS)
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    yield from _kept_clean(request.param, tmp_path)


@pytest.fixture(params=["remote on host", "gitssh on host"])
def host(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    yield from _kept_clean(request.param, tmp_path)


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Any]:
    yield from _kept_clean("remote on host", tmp_path)


def _kept_clean(name: str, place: Path) -> Iterator[Any]:
    """A world that leaves no thread and no open descriptor behind."""
    before = set(threading.enumerate())
    sockets = _sockets()
    made = make(name, place)
    yield made
    made.stop()
    assert set(threading.enumerate()) - before == set()
    assert _sockets() - sockets == set()


def _sockets() -> set[str]:
    links = set()
    for name in os.listdir("/proc/self/fd"):
        try:
            links.add(os.readlink(f"/proc/self/fd/{name}"))
        except OSError:
            continue
    return {link for link in links if link.startswith("socket:")}


def chain(body: Body, length: int, *parents: str) -> list[str]:
    commits = list(parents)
    for number in range(length):
        commits.append(body.commit(f"{body.name} {number}", *commits[-1:]))
    return commits[len(parents) :]


# --- the promises, for every world ---------------------------------------------------------------------------------


def test_an_empty_remote_has_no_tip_and_no_refs(world: Any) -> None:
    assert world.body("one").remote.fetch(()) == RemoteLook(None, ())


def test_what_one_body_pushes_another_one_fetches_whole(world: Any) -> None:
    one, two = world.body("one"), world.body("two")
    first, second = chain(one, 2)
    one.remote.push(None, second)
    assert two.remote.fetch(()) == RemoteLook(second, ())
    assert [two.text(first), two.text(second)] == ["one 0", "one 1"]
    third = two.commit("two", second)
    two.remote.push(second, third)
    assert one.remote.fetch({second}).tip == third
    assert one.text(third) == "two"
    assert world.tip() == third


def test_a_push_onto_a_tip_that_is_not_as_expected_changes_nothing(world: Any) -> None:
    one, two = world.body("one"), world.body("two")
    base = one.commit("base")
    with pytest.raises(Moved):
        one.remote.push(base, one.commit("more", base))
    one.remote.push(None, base)
    two.remote.fetch(())
    with pytest.raises(Moved):
        two.remote.push(None, base)
    one.remote.push(base, theirs := one.commit("theirs", base))
    with pytest.raises(Moved):
        two.remote.push(base, ours := two.commit("ours", base))
    assert world.tip() == theirs
    two.remote.fetch({base})
    two.remote.push(theirs, merged := two.commit("merged", theirs, ours))
    assert world.tip() == merged


def test_a_known_tip_brings_nothing(world: Any) -> None:
    one, two = world.body("one"), world.body("two")
    one.remote.push(None, base := one.commit("base"))
    assert two.remote.fetch({base}).tip == base
    assert not two.repo.has(base)


def test_the_other_refs_are_named_and_not_brought(world: Any) -> None:
    one, two = world.body("one"), world.body("two")
    base, aside = one.commit("base"), one.commit("aside")
    world.put(one, "refs/heads/work", aside)
    assert two.remote.fetch(()) == RemoteLook(None, ("refs/heads/work",))
    world.put(one, "refs/tags/v1", aside)
    world.put(one, MAIN, base)
    assert two.remote.fetch(()) == RemoteLook(base, ("refs/heads/work", "refs/tags/v1"))
    assert two.repo.has(base)
    assert not two.repo.has(aside)


def test_a_remote_set_back_is_seen_as_it_stands(world: Any) -> None:
    """REPO-4 needs the truth, whatever is already here."""
    one = world.body("one")
    first, second = chain(one, 2)
    one.remote.push(None, second)
    world.put(one, MAIN, first)
    assert one.remote.fetch({second}).tip == first
    one.remote.push(first, second)
    assert world.tip() == second


def test_a_rewritten_remote_is_fetched_for_a_person_to_decide(world: Any) -> None:
    """REPO-4."""
    one, two = world.body("one"), world.body("two")
    one.remote.push(None, base := one.commit("base"))
    two.remote.fetch(())
    world.put(one, MAIN, other := one.commit("other"))
    assert two.remote.fetch({base}).tip == other
    assert two.text(other) == "other"
    world.drop(MAIN)
    assert two.remote.fetch({base, other}).tip is None


def test_a_refused_push_says_so_in_the_servers_words_and_changes_nothing(world: Any) -> None:
    """REPO-8: the words and the rule reach the caller; nothing is left behind."""
    one = world.body("one")
    one.remote.push(None, base := one.commit("base"))
    bad = one.commit("bad", base)
    world.refuse_pushes(True)
    with pytest.raises(Refused) as caught:
        one.remote.push(base, bad)
    assert (caught.value.kind, caught.value.rule) == ("rejected", "REPO-8")
    assert HOOK_WORDS in caught.value.message
    assert world.tip() == base
    world.refuse_pushes(False)
    one.remote.push(base, bad)
    assert world.tip() == bad


def test_a_revoked_body_is_refused_until_its_key_is_back(world: Any) -> None:
    """AUTH-5, AUTH-4: no other key is tried, and nothing has to be restarted."""
    one = world.body("one")
    one.remote.push(None, base := one.commit("base"))
    world.revoke(one)
    more = one.commit("more", base)
    for attempt in (partial(one.remote.fetch, ()), partial(one.remote.push, base, more)):
        with pytest.raises(Refused) as caught:
            attempt()
        assert caught.value.kind == "auth"
        assert caught.value.advice
    assert world.tip() == base
    world.authorize(one)
    assert one.remote.fetch({base}).tip == base


def test_a_read_only_key_may_fetch_and_is_told_what_to_do_when_it_pushes(world: Any) -> None:
    """AUTH-3."""
    one, two = world.body("one"), world.body("two")
    one.remote.push(None, base := one.commit("base"))
    two.remote.probe_write()
    world.authorize(two, write=False)
    assert two.remote.fetch(()).tip == base
    with pytest.raises(Refused) as caught:
        two.remote.probe_write()
    assert caught.value.kind == "auth"
    with pytest.raises(Refused) as caught:
        two.remote.push(base, two.commit("more", base))
    assert (caught.value.kind, caught.value.rule) == ("auth", "AUTH-3")
    assert "write access" in caught.value.advice
    assert world.tip() == base


def test_asking_for_write_access_writes_nothing(world: Any) -> None:
    one = world.body("one")
    one.remote.probe_write()
    assert world.tip() is None
    one.remote.push(None, base := one.commit("base"))
    one.remote.probe_write()
    assert one.remote.fetch({base}) == RemoteLook(base, ())


def test_a_closed_remote_opens_again_by_itself(world: Any) -> None:
    one = world.body("one")
    one.remote.close()
    one.remote.push(None, base := one.commit("base"))
    one.remote.close()
    one.remote.close()
    assert one.remote.fetch({base}).tip == base


def test_many_files_and_commits_arrive_whole(world: Any) -> None:
    one, two = world.body("one"), world.body("two")
    texts = {f"notes/{number % 7}/{number}.md": f"note {number}\n" * 20 for number in range(300)}
    tip = one.commit("many", *chain(one, 30)[-1:], **texts)
    one.remote.push(None, tip)
    assert two.remote.fetch(()).tip == tip
    assert {path: two.text(tip, path) for path in texts} == texts


# --- one server's faults, seen by both real adapters -----------------------------------------------------------------


def test_an_unreachable_host_is_transient_and_comes_back(world: Any) -> None:
    one = world.body("one")
    one.remote.push(None, base := one.commit("base"))
    if isinstance(world, FakeWorld):
        world.reachable(False)
    else:
        one.remote.close()
        away = at(_closed_port(), f"/{REPO}")
        world.known_hosts.pin(away.known_host_key_name, world.known_hosts.lookup(world.address.known_host_key_name)[0])
        working, one.remote = one.remote, world.way("one", one.repo, away)
    more = one.commit("more", base)
    for attempt in (partial(one.remote.fetch, ()), partial(one.remote.push, base, more)):
        with pytest.raises(Transient) as caught:
            attempt()
        assert not isinstance(caught.value, AnswerLost)
        assert caught.value.kind == "network"
    if isinstance(world, FakeWorld):
        world.reachable(True)
    else:
        one.remote = working
    assert one.remote.fetch({base}).tip == base


def _closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def test_a_lost_answer_is_told_from_a_refusal_because_the_push_arrived(host: Any) -> None:
    one = host.body("one")
    one.remote.push(None, base := one.commit("base"))
    host.server.drop_answer = True
    with pytest.raises(AnswerLost):
        one.remote.push(base, more := one.commit("more", base))
    host.server.heal()
    assert one.remote.fetch({base, more}).tip == more
    with pytest.raises(Moved):
        one.remote.push(base, more)


def test_a_changed_host_key_is_refused_before_anything_is_sent(host: Any) -> None:
    """AUTH-6: and taken back, everything goes on."""
    one = host.body("one")
    one.remote.push(None, base := one.commit("base"))
    one.remote.close()
    right = host.known_hosts.path.read_text()
    other = keys.generate(host.place / "other", "other").blob
    host.known_hosts.replace(host.address.known_host_key_name, hosts.HostKey("ssh-ed25519", other))
    asked = list(host.server.log)
    with pytest.raises(Refused) as caught:
        one.remote.fetch(())
    assert (caught.value.kind, caught.value.rule) == ("hostkey", "AUTH-6")
    assert isinstance(caught.value, HostKeyChanged)
    assert "accept-host-key" in caught.value.advice
    assert host.server.log == asked
    host.known_hosts.path.write_text(right)
    assert one.remote.fetch({base}).tip == base


def test_a_host_that_was_never_pinned_is_refused(host: Any) -> None:
    """AUTH-6."""
    one = host.body("one")
    host.known_hosts.path.write_text("")
    with pytest.raises(Refused) as caught:
        one.remote.fetch(())
    assert (caught.value.kind, caught.value.rule) == ("hostkey", "AUTH-6")
    assert not isinstance(caught.value, HostKeyChanged)


def test_a_missing_key_refuses_the_remote_before_any_connection(host: Any) -> None:
    """AUTH-4."""
    one = host.body("one")
    host.key("one").unlink()
    with pytest.raises(Refused) as caught:
        one.remote.fetch(())
    assert (caught.value.kind, caught.value.rule) == ("auth", "AUTH-4")
    assert host.server.log == []


def test_a_repository_that_is_not_there_is_a_matter_of_access(host: Any) -> None:
    """AUTH-3: a host does not tell a missing repository from one that the key may not see."""
    one = host.body("one")
    elsewhere = host.way("one", one.repo, at(host.server.port, "/no.soul.git"))
    with pytest.raises(Refused) as caught:
        elsewhere.fetch(())
    elsewhere.close()
    assert caught.value.kind == "auth"
    assert "Repository not found" in caught.value.message
    assert "remote" in caught.value.advice


def test_a_shallow_remote_is_no_soul(host: Any) -> None:
    """REPO-5."""
    one, two = host.body("one"), host.body("two")
    _, second, third = chain(one, 3)
    one.remote.push(None, third)
    (host.directory / "shallow").write_text(second + "\n")
    with pytest.raises(Refused) as caught:
        two.remote.fetch(())
    assert (caught.value.kind, caught.value.rule) == ("not-a-soul", "REPO-5")
    assert two.repo.refs("refs/") == {}
    (host.directory / "shallow").unlink()


def test_a_servers_words_cannot_steer_the_terminal(host: Any) -> None:
    one = host.body("one")
    host.server.refusal = b"\x1b[2J\x1b]0;title\x07ERROR: go away\r\n"
    with pytest.raises(Refused) as caught:
        one.remote.fetch(())
    assert "go away" in caught.value.message
    assert not any(ord(letter) < 32 and letter != "\n" for letter in caught.value.message)


@pytest.mark.parametrize("size", [0, 1, 3, 4, 40, 150, 400])
def test_a_cut_connection_is_transient_and_leaves_nothing_half_done(host: Any, size: int) -> None:
    one, two = host.body("one"), host.body("two")
    one.remote.push(None, base := one.commit("base"))
    host.server.cut = size
    with pytest.raises(Transient):
        two.remote.fetch(())
    assert not two.repo.has(base)
    more = one.commit("more", base)
    with contextlib.suppress(Transient):  # a cut behind the report does not matter
        one.remote.push(base, more)
        assert host.tip() == more
    host.server.heal()
    assert two.remote.fetch(()).tip in {base, more}


def test_the_surroundings_choose_neither_key_nor_program(host: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """AUTH-4, AUTH-7."""
    for name in ("GIT_SSH_COMMAND", "GIT_SSH", "GIT_DIR", "GIT_CONFIG_PARAMETERS", "SSH_AUTH_SOCK", "GIT_EXEC_PATH"):
        monkeypatch.setenv(name, "/nonexistent")
    one = host.body("one")
    one.remote.push(None, base := one.commit("base"))
    assert one.remote.fetch({base}).tip == base


@pytest.mark.parametrize("kind", ["remote on host", "gitssh on host"])
def test_a_place_with_an_odd_name_is_a_place(tmp_path: Path, kind: str) -> None:
    (place := tmp_path / "with blank, %d and $HOME").mkdir()
    odd = make(kind, place)
    one = odd.body("one")
    one.remote.push(None, base := one.commit("base"))
    assert one.remote.fetch({base}).tip == base
    odd.stop()


# --- the open session -----------------------------------------------------------------------------------------------


class LateClock:
    """A clock that can be put forward."""

    def __init__(self) -> None:
        self.clock = SystemClock()
        self.ahead = 0.0

    def now(self) -> float:
        return self.clock.now() + self.ahead

    def boottime(self) -> float:
        return self.clock.boottime() + self.ahead


def test_many_looks_need_one_login_until_the_session_is_ten_minutes_old(session: Any) -> None:
    """AUTH-5: a revoked key is noticed by a plain sshd too."""
    clock = LateClock()
    one = session.body("one", clock=clock)
    one.remote.push(None, base := one.commit("base"))
    for _ in range(10):
        one.remote.fetch({base})
    assert session.server.logins == 1
    clock.ahead = 601
    one.remote.fetch({base})
    assert session.server.logins == 2


def test_a_look_over_the_open_session_costs_far_less_than_a_login(session: Any) -> None:
    """Compared within one run, so that a busy machine is no failure: bench/ has the times."""
    one = session.body("one")
    one.remote.push(None, base := one.commit("base"))
    clock = SystemClock()

    def look() -> float:
        begun = clock.boottime()
        one.remote.fetch({base})
        return clock.boottime() - begun

    afresh, again = [], []
    for _ in range(12):
        one.remote.close()
        afresh.append(look())
        again += [look(), look()]
    assert sorted(again)[len(again) // 4] < sorted(afresh)[len(afresh) // 4] / 2


def test_a_session_that_died_unnoticed_is_opened_again_at_once(session: Any) -> None:
    one = session.body("one")
    one.remote.push(None, base := one.commit("base"))
    for live in list(session.server._sessions):
        live.cut()
    assert one.remote.fetch({base}).tip == base
    for live in list(session.server._sessions):
        live.cut()
    one.remote.push(base, more := one.commit("more", base))
    assert session.tip() == more


def test_silence_ends_within_its_time(session: Any) -> None:
    patience = Patience(step=0.4, look=0.8, transfer=1.0)
    one = session.body("one", patience)
    one.remote.push(None, base := one.commit("base"))
    one.remote.close()
    clock = SystemClock()
    for fault in ("no_banner", "stall", "drip"):
        session.server.heal()
        setattr(session.server, fault, True)
        begun = clock.boottime()
        with pytest.raises(Transient):
            one.remote.fetch(())
        assert clock.boottime() - begun < 3.0, fault
        one.remote.close()
    session.server.heal()
    assert one.remote.fetch(()).tip == base


def test_closing_from_another_thread_ends_a_call_that_hangs(session: Any) -> None:
    one = session.body("one")
    session.server.stall = True
    threading.Timer(0.3, one.remote.close).start()
    clock = SystemClock()
    begun = clock.boottime()
    with pytest.raises(Transient):
        one.remote.fetch(())
    assert clock.boottime() - begun < 5.0


def test_a_call_that_was_closed_does_not_log_in_again(session: Any) -> None:
    one = session.body("one")
    one.remote.fetch(())
    session.server.stall = True
    threading.Timer(0.3, one.remote.close).start()
    with pytest.raises(Transient):
        one.remote.fetch(())
    assert session.server.logins == 1


def test_a_babbling_error_stream_does_not_use_up_the_window(session: Any) -> None:
    one = session.body("one")
    session.server.babble = 5 * 1024 * 1024
    one.remote.push(None, base := one.commit("base"))
    assert one.remote.fetch({base}).tip == base


def test_bodies_that_push_at_once_lose_nothing(session: Any) -> None:
    """COMMIT-2: whoever is late looks, merges and tries again."""
    bodies = [session.body(f"body{number}") for number in range(4)]
    bodies[0].remote.push(None, base := bodies[0].commit("base"))
    made: dict[str, str] = {}

    def publish(body: Body) -> None:
        body.remote.fetch(())
        made[body.name] = body.commit(body.name, base)
        for _ in range(30):
            tip = body.remote.fetch({base, made[body.name]}).tip
            merged = made[body.name] if tip == base else body.commit(f"merge by {body.name}", tip, made[body.name])
            try:
                body.remote.push(tip, merged)
            except Moved:
                continue
            return

    threads = [threading.Thread(target=publish, args=(body,)) for body in bodies]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 4
    assert set(made.values()) <= set(session.git("rev-list", MAIN).split())


def test_a_greeting_instead_of_the_protocol_is_shown_and_not_waited_for(session: Any) -> None:
    one = session.body("one")
    session.server.greeting = b"This account is currently not available.\n"
    clock = SystemClock()
    begun = clock.boottime()
    with pytest.raises(Refused) as caught:
        one.remote.fetch(())
    assert "not available" in caught.value.message
    assert clock.boottime() - begun < 3.0


def test_a_hook_that_says_more_than_anybody_reads_refuses_all_the_same(host: Any) -> None:
    """REPO-8: by either way, with its first and its last words, of which memory holds no more."""
    one = host.body("one")
    one.remote.push(None, base := one.commit("base"))
    bad = one.commit("bad", base)
    host.talk("a secret in notes/a.md")
    with pytest.raises(Refused) as caught:
        one.remote.push(base, bad)
    assert (caught.value.kind, caught.value.rule) == ("rejected", "REPO-8")
    assert "a secret in notes/a.md" in caught.value.message and "more lines …" in caught.value.message
    assert len(caught.value.message.splitlines()) < 25
    assert "notes/a.md" in caught.value.whole and len(caught.value.whole) < 10_000
    assert host.tip() == base


def test_the_report_is_believed_before_a_slow_hook_ends(session: Any) -> None:
    one = session.body("one")
    session.hook("post-receive", "sleep 3")
    clock = SystemClock()
    begun = clock.boottime()
    one.remote.push(None, base := one.commit("base"))
    assert clock.boottime() - begun < 2.0
    assert session.tip() == base


def test_a_lock_left_on_the_server_is_transient_first_and_refused_the_third_time(session: Any) -> None:
    one = session.body("one")
    one.remote.push(None, base := one.commit("base"))
    lock = session.directory / "refs" / "heads" / "main.lock"
    lock.touch()
    more = one.commit("more", base)
    for family in (Transient, Transient, Refused):
        with pytest.raises(family) as caught:
            one.remote.push(base, more)
        assert "failed to update ref" in caught.value.message
    lock.unlink()
    one.remote.push(base, more)


def test_a_race_lost_at_the_last_moment_is_moved(session: Any) -> None:
    one, two = session.body("one"), session.body("two")
    one.remote.push(None, base := one.commit("base"))
    two.remote.fetch(())
    session.put(one, "refs/heads/other", theirs := one.commit("theirs", base))
    session.hook("pre-receive", f"unset GIT_QUARANTINE_PATH; git update-ref {MAIN} {theirs}")
    with pytest.raises(Moved):
        two.remote.push(base, two.commit("ours", base))
    assert session.tip() == theirs


def test_objects_that_the_server_has_from_elsewhere_are_no_refs(session: Any) -> None:
    """A server with alternates advertises `.have` lines."""
    one = session.body("one")
    lender = session.place / "lender.git"
    subprocess.run(["git", "init", "-q", "--bare", str(lender)], check=True, env=clean_environment())
    pack = one.repo.pack(lent := one.commit("lent"), ())
    command = ["git", "--git-dir", str(lender)]
    subprocess.run([*command, "unpack-objects", "-q"], input=pack, check=True, env=clean_environment())
    subprocess.run([*command, "update-ref", "refs/heads/lent", lent], check=True, env=clean_environment())
    (session.directory / "objects" / "info" / "alternates").write_text(f"{lender}/objects\n")
    one.remote.push(None, base := one.commit("base"))
    assert one.remote.fetch({base}) == RemoteLook(base, ())
