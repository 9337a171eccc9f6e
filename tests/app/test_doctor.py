"""Each check finds the fault that was planted for it, and its remedy, where it can be typed here, cures it."""

from __future__ import annotations

import io
import json
import os
import shlex
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from bridge.adapters import config, metrics
from bridge.adapters import machine as real_machine
from bridge.app import doctor, doctor_machine, doctor_service
from bridge.app.diagnosis import Finding, Patient, ok, span
from bridge.app.host import Host
from bridge.cli import run as call
from bridge.commands.doctor import named
from bridge.core import address, layout
from bridge.core.errors import Refused, Transient
from bridge.core.model import CheckoutState, File, Presence, RemoteLook
from bridge.fakes.clock import FakeClock
from bridge.fakes.repo import FakeRepo
from tests.real.fleet import Body, Fleet

NOW = 1_800_000_000.0
MAIN = "refs/heads/main"
AGENT_JSON = b'{\n  "id": "3f2a0000-0000-4000-8000-000000000001",\n  "name": "kaoru"\n}\n'


@dataclass
class Machine:
    """A machine in order; each field is what a fault changes."""

    host: str = "laptop.local"
    interpreter: str = "/usr/bin/python3"
    python: tuple[int, ...] = (3, 12, 1)
    libraries: dict[str, str] = field(default_factory=lambda: {name: "999.0" for name in doctor_machine.LIBRARIES})
    version: str | None = "git version 2.43.0"
    spaces: dict[str, real_machine.Space] = field(default_factory=dict)
    limits: tuple[int, int] | None = (100_000, 128)
    number: int = 40
    others: list[Path] = field(default_factory=list)
    shut: list[Path] = field(default_factory=list)
    modes: dict[Path, int] = field(default_factory=dict)
    left: list[tuple[Path, float]] = field(default_factory=list)
    heap: tuple[int, int] = (3, 4096)
    there: set[Path] = field(default_factory=set)
    installed: set[str] = field(default_factory=set)
    refusing: set[Path] = field(default_factory=set)
    heard: str | Transient | None = None

    def library(self, name: str) -> str | None:
        return self.libraries.get(name)

    def git(self) -> str | None:
        return self.version

    def installs(self, package: str) -> str:
        return f"sudo apt-get install {package}"

    def program(self, name: str) -> bool:
        return name in self.installed

    def space(self, path: Path) -> real_machine.Space | None:
        return self.spaces.get(path.name, real_machine.Space(50 << 30, 100 << 30, -1, False))

    def inotify(self) -> tuple[int, int] | None:
        return self.limits

    def folders(self, root: Path) -> int:
        return self.number

    def foreign(self, root: Path) -> list[Path]:
        return [path for path in self.others if path == root or root in path.parents]

    def closed(self, root: Path) -> list[Path]:
        return [path for path in self.shut if path == root or root in path.parents]

    def mode(self, path: Path) -> int | None:
        return self.modes.get(path)

    def locks(self, git_dir: Path) -> list[tuple[Path, float]]:
        return self.left

    def packs(self, git_dir: Path) -> tuple[int, int]:
        return self.heap

    def exists(self, path: Path) -> bool:
        return path in self.there

    def takes(self, path: Path) -> bool:
        return path not in self.refusing

    def asked(self, address: tuple[str, int]) -> str | None:
        if isinstance(self.heard, Transient):
            raise self.heard
        return self.heard


@dataclass
class Checkout:
    """A checkout in order."""

    found: Presence = Presence.PRESENT
    tells: bool = True
    folding: bool = False
    files: dict[str, bytes] = field(default_factory=lambda: {"agent.json": AGENT_JSON})

    def presence(self) -> Presence:
        return self.found

    def leases(self) -> bool:
        return self.tells

    def folds(self) -> bool:
        return self.folding

    def content(self, path: str) -> bytes | None:
        return self.files.get(path)


@dataclass(frozen=True)
class Key:
    """A key in order."""

    fingerprint: str = "SHA256:abc"
    line: str = "ssh-ed25519 AAAA kaoru.laptop"


@dataclass
class Way:
    """A way to the remote; `stands`: what stands in it, by step."""

    stands: dict[str, Exception] = field(default_factory=dict)
    pins: tuple[str, ...] = ("SHA256:host",)
    tip: str | None = None
    asked: list[str] = field(default_factory=list)

    def _step(self, name: str) -> None:
        self.asked.append(name)
        if name in self.stands:
            raise self.stands[name]

    def key(self) -> Key:
        self._step("key")
        return Key()

    def pinned(self) -> Sequence[str]:
        self._step("pinned")
        return self.pins

    def resolve(self) -> Sequence[str]:
        self._step("resolve")
        return ["192.0.2.7"]

    def connect(self) -> None:
        self._step("connect")

    def look(self) -> RemoteLook:
        self._step("look")
        return RemoteLook(self.tip)

    def probe_write(self) -> None:
        self._step("probe_write")


def commit(repo: FakeRepo, files: Mapping[str, bytes], *parents: str, body: str = "laptop", at: float = NOW) -> str:
    tree = repo.edit("", {path: File(repo.write(content)) for path, content in files.items()})
    made = repo.commit(tree, parents, f"Kaoru ({body})", f"kaoru@{body}.local", f"something ({body})", int(at))
    repo.flush()
    return made


SOUL = {**layout.FIXED, "agent.json": AGENT_JSON, "bodies/laptop.json": b'{"body": "laptop", "host": "laptop.local"}'}


def healthy(**changed: Any) -> Patient:
    """A soul with which all is well."""
    repo = FakeRepo()
    tip = commit(repo, SOUL, at=NOW - 3600)
    repo.move(MAIN, None, tip)
    status = {"remote_tip": tip, "last_pull": "2027-01-15T07:59:30.000Z", "held": [], "problem": None, "warnings": []}
    patient = Patient(
        agent="kaoru", body="laptop", soul=Path("/s/kaoru.soul"), key=KEY,
        known_hosts=Path("/k/known_hosts"), state=Path("/t/kaoru"), config=Path("/c/kaoru.yaml"),
        address=address.parse("git@github.com:me/kaoru.soul.git"), poll=30.0, now=NOW, machine=Machine(),
        checkout=Checkout(), way=Way(tip=tip), repo=repo, status=status, running=4711,
        service=lambda: ok("active and enabled"),
    )  # fmt: skip
    patient.machine.there |= {patient.git_dir, patient.state / "lock"}  # type: ignore[attr-defined]
    return replace(patient, **changed) if changed else patient


def test_a_healthy_soul_has_nothing_but_ok_and_every_check_has_something_to_say() -> None:
    patient = healthy(programs={"hooks.synced": ("notify-send",)}, metrics_file=PROM, metrics_at=HERE)
    patient.machine.installed.add("notify-send")  # type: ignore[attr-defined]
    all_of(there(str(PROM.parent)), machine(heard='soul_bridge_state{agent="kaoru"} 1\n'))(patient)
    rows = doctor.run(patient)
    assert [row for row in rows if row.state != "ok" or row.remedy] == []
    assert [row.check for row in rows] == [name for name, _, _ in doctor.CHECKS]
    assert all(row.message for row in rows)
    assert next(row.message for row in rows if row.check == "programs") == "1 program found"


Plant = Callable[[Patient], None]


def machine(**changed: Any) -> Plant:
    def plant(patient: Patient) -> None:
        for name, value in changed.items():
            setattr(patient.machine, name, value)

    return plant


def checkout(**changed: Any) -> Plant:
    def plant(patient: Patient) -> None:
        for name, value in changed.items():
            setattr(patient.checkout, name, value)

    return plant


def way(**stands: Exception) -> Plant:
    return lambda patient: patient.way.stands.update(stands)  # type: ignore[attr-defined]


def status(**changed: Any) -> Plant:
    return lambda patient: patient.status.update(changed)  # type: ignore[union-attr]


def there(*paths: str) -> Plant:
    return lambda patient: patient.machine.there.update(map(Path, paths))  # type: ignore[attr-defined]


def local(files: Mapping[str, bytes], *, published: bool = False, at: float = NOW, body: str = "laptop") -> Plant:
    """One more commit here, or also at the remote."""

    def plant(patient: Patient) -> None:
        repo, tip = patient.repo, patient.tip()
        assert repo is not None and tip is not None
        made = commit(repo, {**SOUL, **files}, tip, at=at, body=body)  # type: ignore[arg-type]
        repo.move(MAIN, tip, made)
        if published:
            patient.way.tip = made  # type: ignore[attr-defined]
            patient.status["remote_tip"] = made  # type: ignore[index]

    return plant


def attribute(**changed: Any) -> Plant:
    def plant(patient: Patient) -> None:
        for name, value in changed.items():
            setattr(patient, name, value)

    return plant


def all_of(*plants: Plant) -> Plant:
    def plant(patient: Patient) -> None:
        for each in plants:
            each(patient)

    return plant


def busy(words: str, head: str | None = MAIN) -> Plant:
    return lambda patient: setattr(patient.repo, "state", lambda: CheckoutState(head, words))


def rewritten(patient: Patient) -> None:
    assert patient.repo is not None
    patient.way.tip = commit(patient.repo, {**SOUL, "other": b"x"})  # type: ignore[attr-defined, arg-type]


def rolled_back(patient: Patient) -> None:
    before = patient.tip()
    local({"notes/a.md": b"# a\n"}, published=True)(patient)
    patient.way.tip = before  # type: ignore[attr-defined]


def replaced(patient: Patient) -> None:
    assert patient.repo is not None
    patient.repo.move("refs/replace/" + "a" * 40, None, patient.tip())


def lost(patient: Patient) -> None:
    repo, tip = patient.repo, patient.tip()
    assert repo is not None and tip is not None
    oid = repo.write(b"lost\n")
    made = repo.commit(
        repo.info(tip).tree, [tip], "Kaoru (laptop)", "k@l.local", f"x (laptop)\n\nLost: {oid} SOUL.md\n", int(NOW)
    )
    repo.flush()
    repo.move(MAIN, tip, made)
    attribute(status={**(patient.status or {}), "remote_tip": made})(patient)
    patient.way.tip = made  # type: ignore[attr-defined]


FULL = real_machine.Space(5 << 20, 100 << 30, -1, False)
NEARLY = real_machine.Space(150 << 20, 100 << 30, -1, False)
NO_INODES = real_machine.Space(50 << 30, 100 << 30, 30, False)
READ_ONLY = real_machine.Space(50 << 30, 100 << 30, -1, True)
KEY = Path("/k/kaoru.laptop")
AUTH = Refused("Permission denied (publickey).", kind="auth", rule="AUTH-5")
ONLY_READ = Refused("The key is marked as read only.", kind="auth", rule="AUTH-3")
PROM = Path("/m/soul.prom")
HERE = ("127.0.0.1", 9464)
NUMBERS = attribute(metrics_at=HERE)
HELD = {"path": "a.bin", "rule": "TREE-6", "reason": "larger than 50 MiB"}
WAITS = {"path": "memories/MEMORY.md", "rule": "GUARD-2", "reason": "so much disappeared"}

# check, fault, state, words in the message, words in the remedy
FAULTS: list[tuple[str, Plant, str, str, str]] = [
    ("python", machine(python=(3, 9, 2)), "fail", "3.9.2", "sudo apt-get install python3"),
    ("libraries", machine(libraries={"pygit2": "1.10"}), "fail", "pygit2 1.10", "-m pip install --upgrade"),
    ("git", machine(version=None), "fail", "no git", "sudo apt-get install git"),
    ("git", machine(version="git version 2.20.1"), "fail", "too old", "sudo apt-get install git"),
    ("checkout", checkout(found=Presence.MISSING), "fail", "mount it first", "soul-bridge init kaoru"),
    ("checkout", checkout(found=Presence.EMPTY), "fail", "empty", "soul-bridge init kaoru"),
    ("checkout", checkout(found=Presence.NO_GIT), "fail", ".git", "soul-bridge init kaoru"),
    ("checkout", checkout(found=Presence.FOREIGN), "fail", "another repository", "mv /s/kaoru.soul /s"),
    ("checkout", checkout(found=Presence.UNMARKED), "fail", "lost its mark", "soul-bridge init kaoru"),
    ("owner", machine(others=[Path("/s/kaoru.soul/notes/a.md")]), "fail", "notes/a.md", "sudo chown -R"),
    ("owner", machine(others=[Path("/t/kaoru")]), "fail", "/t/kaoru", "/t/kaoru"),
    ("writable", machine(shut=[Path("/s/kaoru.soul/notes")]), "fail", "notes", "chmod -R u+rwX /s/kaoru.soul"),
    ("writable", machine(spaces={"kaoru.soul": READ_ONLY}), "fail", "read-only", "mount -o remount,rw"),
    ("private", machine(modes={Path("/t"): 0o777}), "warn", "in the place of /t/kaoru", "chmod go-w /t"),
    ("private", machine(modes={Path("/k"): 0o755}), "warn", "/k", "chmod 700 /k"),
    ("disk", machine(spaces={"kaoru.soul": FULL}), "fail", "full", "du -xh"),
    ("disk", machine(spaces={"kaoru": NEARLY}), "warn", "nearly full", "du -xh"),
    ("disk", machine(spaces={"kaoru.soul": NO_INODES}), "fail", "full", "du -xh"),
    ("watches", machine(number=200_000), "fail", "200000 folders", "sysctl -w fs.inotify.max_user_watches="),
    ("watches", machine(number=60_000), "warn", "60000 folders", "sysctl -w fs.inotify.max_user_watches="),
    ("watches", machine(limits=(100_000, 1)), "warn", "only 1", "max_user_instances"),
    ("open files", checkout(tells=False), "warn", "until they were quiet", "df -T /s/kaoru.soul"),
    ("names", checkout(folding=True), "warn", "case", "soul-bridge status"),
    ("git directory", there("/s/kaoru.soul/.git/objects/info/alternates"), "fail", "leans", "repack -a -d && rm"),
    ("git directory", there("/s/kaoru.soul/.git/shallow"), "fail", "shallow", "fetch --unshallow"),
    ("git directory", attribute(repo=None, repo_problem=("damaged", "")), "fail", "damaged", "soul-bridge init kaoru"),
    ("git directory", lambda patient: setattr(patient.repo, "has", lambda oid: False), "fail", "is not there",
     "soul-bridge init kaoru"),
    ("replaced objects", replaced, "warn", "1 replaced", "replace -d " + "a" * 40),
    ("replaced objects", there("/s/kaoru.soul/.git/info/grafts"), "warn", "grafted", "rm /s/kaoru.soul/.git/"),
    ("git locks", machine(left=[(Path("/s/x.lock"), 700.0), (Path("/s/y.lock"), 5.0)]), "warn", "x", "rm /s/x.lock"),
    ("git in use", busy("", None), "warn", "detached", "symbolic-ref HEAD refs/heads/main"),
    ("git in use", all_of(busy("a rebase is under way"), there("/s/kaoru.soul/.git/rebase-merge")), "warn", "rebase",
     "rebase --abort"),
    ("packs", machine(heap=(200, 4096)), "warn", "200 packs", "repack -a -d"),
    ("packs", machine(heap=(2, 3 << 30)), "warn", "3.0 GiB", "count-objects"),
    ("key", way(key=Refused("no key at /k", kind="auth")), "fail", "no key", "soul-bridge init kaoru"),
    ("key", all_of(way(key=Refused("mode 0644", kind="auth")), machine(modes={KEY: 0o644})), "fail",
     "0644", "chmod 600 /k/kaoru.laptop"),
    ("key", all_of(way(key=Refused("another user", kind="auth")), machine(
        modes={KEY: 0o600}, others=[KEY])), "fail", "another user", "chown"),
    ("key", all_of(way(key=Refused("not ed25519", kind="auth")), machine(modes={KEY: 0o600})), "fail",
     "ed25519", "soul-bridge key rotate kaoru"),
    ("key", way(key=Refused("lies inside the soul", kind="rule")), "fail", "inside", "mv -n /k/kaoru.laptop"),
    ("key", there("/k/kaoru.laptop.next"), "warn", "waits beside", "soul-bridge key rotate kaoru"),
    ("host key", lambda patient: setattr(patient.way, "pins", ()), "fail", "github", "soul-bridge accept-host-key"),
    ("host key", way(pinned=Refused("line 3", kind="hostkey")), "fail", "line 3", "mv /k/known_hosts"),
    ("host name", way(resolve=Transient("Name or service not known")), "fail", "not known", "getent hosts github.com"),
    ("connection", way(connect=Transient("no answer on port 22")), "fail", "443", "ssh.github.com:443/me/kaoru"),
    ("connection", all_of(way(connect=Transient("no answer")), attribute(
        address=address.parse("git@h.example:k.git"))), "fail", "no answer", "/dev/tcp/h.example/22"),
    ("login", way(look=AUTH), "fail", "Permission denied", "soul-bridge key show kaoru"),
    ("login", way(look=AUTH), "fail", "", "https://github.com/me/kaoru.soul/settings/keys/new"),
    ("login", way(look=Refused("changed", kind="hostkey")), "fail", "changed", "soul-bridge accept-host-key kaoru"),
    ("login", way(look=Transient("cut off")), "warn", "cut off", "soul-bridge sync"),
    ("write access", way(probe_write=ONLY_READ), "fail", "read only", "soul-bridge key show kaoru"),
    ("remote soul", local({"agent.json": AGENT_JSON.replace(b"3f2a", b"dead")}), "fail", "two different", "kaoru.yaml"),
    ("remote history", rewritten, "fail", "rewritten", "soul-bridge accept-remote"),
    ("remote history", rolled_back, "warn", "behind", "soul-bridge sync"),
    ("identity", checkout(files={"agent.json": b"{"}), "warn", "cannot be read", "soul-bridge sync"),
    ("identity", attribute(agent="mei"), "warn", "kaoru's", "agent: kaoru"),
    ("problem", status(problem={"kind": "not-a-soul", "message": "the remote is not a soul"}), "fail", "not a soul",
     "# `remote`: the repository of kaoru, or an empty one"),
    ("body", local({"bodies/laptop.json": b'{"body": "laptop", "host": "tower"}'}, published=True), "fail", "tower",
     "soul-bridge init kaoru --take-over"),
    ("fixed files", local({".gitattributes": b"* -text\n"}), "warn", ".gitattributes", "printf "),
    ("clock", local({"a": b"a"}, at=NOW + 7200, body="phone"), "warn", "commits of phone are up to 2 h", "timedatectl"),
    ("clock", lambda patient: setattr(patient, "now", 5.0), "fail", "never set", "sudo timedatectl set-ntp true"),
    ("clock", status(last_pass={"at": "2027-01-16T08:00:00.000Z"}), "fail", "earlier", "sudo timedatectl set-ntp true"),
    ("daemon", attribute(running=None), "warn", "no daemon", "soul-bridge service install kaoru"),
    ("daemon", attribute(paused=True), "warn", "stopped the passes", "soul-bridge resume kaoru"),
    ("last pass", status(last_pull="2027-01-15T05:00:00.000Z"), "warn", "3 h ago", "soul-bridge sync"),
    ("last pass", status(last_pull=None), "warn", "not answered", "soul-bridge sync"),
    ("daemon", lambda patient: patient.machine.there.discard(Path("/t/kaoru/lock")), "fail", "/t/kaoru was taken away",
     "ls -ld /t"),  # type: ignore[attr-defined]
    ("problem", status(problem={"kind": "rewritten", "message": "history was rewritten"}), "fail", "rewritten",
     "soul-bridge accept-remote"),
    ("problem", status(problem={"kind": "network", "message": "unreachable"}), "warn", "unreach", "soul-bridge sync"),
    ("hints", status(warnings=["the limit is reached"]), "warn", "limit", "sysctl"),
    ("body", status(warnings=["two machines share the name laptop: a commit\nWrite"]), "fail", "share the name laptop",
     "soul-bridge init kaoru --take-over"),
    ("unpublished", local({"a": b"a"}, at=NOW - 7300), "warn", "1 commit not published, the oldest for 2 h",
     "soul-bridge sync"),
    ("unpublished", all_of(status(remote_tip=None), attribute(way=Way())), "warn", "nothing", "soul-bridge sync"),
    ("set aside", status(held=[HELD]), "warn", "a.bin (TREE-6", "soul-bridge status"),
    ("set aside", status(held=[WAITS]), "warn", "GUARD-2", "soul-bridge sync --now"),
    ("conflicts", lost, "warn", "1 version", "soul-bridge conflicts"),
    ("programs", attribute(programs={"hooks.synced": ("notify-send",)}), "warn", "notify-send", "/c/kaoru.yaml"),
    ("programs", attribute(programs={"notify": ("/usr/bin/tell",)}), "warn", "notify: /usr/bin/tell", "/c/kaoru.yaml"),
    ("metrics", attribute(metrics_file=PROM), "warn", "not there: /m", "mkdir -p /m"),
    ("metrics", all_of(attribute(metrics_file=PROM), there("/m"), machine(refusing={PROM})), "warn",
     "cannot be written to /m/soul.prom", "ls -ld /m /m/soul.prom"),
    ("metrics", NUMBERS, "warn", "nobody answers at 127.0.0.1:9464", "kill -HUP 4711"),
    ("metrics", all_of(NUMBERS, machine(heard="HTTP/1.0 404")), "warn", "another program", "ss -ltnp 'sport = :9464'"),
    ("metrics", all_of(NUMBERS, machine(heard='soul_bridge_state{agent="mei"} 1')), "warn", "not answer for kaoru",
     "metrics.listen"),
    ("metrics", all_of(NUMBERS, machine(heard=Transient("no such address"))), "warn", "no such address",
     "metrics.listen"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("check", "plant", "state", "message", "remedy"), FAULTS, ids=[f"{row[0]}-{at}" for at, row in enumerate(FAULTS)]
)
def test_a_planted_fault_is_found_with_its_remedy(
    check: str, plant: Plant, state: str, message: str, remedy: str
) -> None:
    patient = healthy()
    plant(patient)
    row = next(row for row in doctor.run(patient) if row.check == check)
    assert (row.state, message in row.message, remedy in row.remedy) == (state, True, True), row


def test_every_check_has_a_fault_that_it_finds() -> None:
    without = {"service", "remote soul"} - {row[0] for row in FAULTS}
    assert {name for name, _, _ in doctor.CHECKS} - {row[0] for row in FAULTS} == without == {"service"}


def test_what_a_failed_check_leaves_open_is_said_with_the_remedy_that_comes_first() -> None:
    patient = healthy()
    way(resolve=Transient("not known"))(patient)
    rows = {row.check: row for row in doctor.run(patient)}
    for later in ("connection", "login", "write access"):
        assert rows[later].state == "warn"
        assert rows[later].message.startswith("not checked")
        assert rows[later].remedy == rows["host name"].remedy
    assert patient.way.asked == ["key", "pinned", "resolve"]  # type: ignore[attr-defined]


def test_a_check_that_meets_an_error_is_a_failed_check_and_no_traceback() -> None:
    def breaks(patient: Patient) -> Finding:
        raise Refused("object abc is damaged", kind="internal", advice="soul-bridge init kaoru")

    (row,) = doctor.run(healthy(), [("odd", breaks, ())])
    assert (row.state, row.message, row.remedy) == ("fail", "object abc is damaged", "soul-bridge init kaoru")


def test_a_remote_that_is_no_soul_is_told() -> None:
    patient = healthy()
    assert patient.repo is not None
    patient.way.tip = commit(patient.repo, {"main.c": b"int main;"})  # type: ignore[attr-defined, arg-type]
    rows = {row.check: row for row in doctor.run(patient)}
    assert rows["remote soul"].state == "fail"
    assert "not a soul" in rows["remote soul"].message


def test_before_there_is_a_soul_only_what_can_be_said_is_said() -> None:
    patient = healthy(repo=None, status=None, running=None, service=None)
    patient.machine.there.clear()  # type: ignore[attr-defined]
    patient.checkout.found = Presence.MISSING  # type: ignore[attr-defined]
    rows = {row.check: row.state for row in doctor.run(patient)}
    assert rows["checkout"] == "fail"
    assert rows["write access"] == "ok"
    assert "conflicts" not in rows or rows["conflicts"] == "warn"


@dataclass
class Manager:
    """A service manager that says this of a unit."""

    said: dict[str, str]
    system: bool = False

    def show(self, unit: str, *names: str) -> Mapping[str, str]:
        assert unit == "soul-bridge@kaoru.service"
        return {
            "LoadState": "loaded",
            "ActiveState": "active",
            "UnitFileState": "enabled",
            "Result": "success",
            **self.said,
        }


def nobody() -> Manager:
    raise Refused("no manager")


@pytest.mark.parametrize(
    ("said", "lingers", "state", "words", "remedy"),
    [
        ({}, True, "ok", "active and enabled", ""),
        ({}, False, "warn", "logged in", "loginctl enable-linger"),
        (
            {"LoadState": "not-found", "UnitFileState": ""},
            True,
            "warn",
            "not installed",
            "soul-bridge service install kaoru",
        ),
        ({"UnitFileState": "disabled"}, True, "warn", "next boot", "soul-bridge service install kaoru"),
        (
            {"ActiveState": "failed", "Result": "exit-code"},
            True,
            "fail",
            "exit-code",
            "soul-bridge service install kaoru",
        ),
        ({"ActiveState": "inactive"}, True, "warn", "inactive", "soul-bridge service install kaoru"),
    ],
)
def test_the_service_is_judged(said: dict[str, str], lingers: bool, state: str, words: str, remedy: str) -> None:
    found = doctor_service.examine("kaoru", [lambda: Manager(said), nobody], lambda: lingers)
    assert found is not None
    assert (found.state, words in found.message, remedy in found.remedy) == (state, True, True), found


def test_without_a_service_manager_nothing_is_said_and_one_of_the_system_counts() -> None:
    assert doctor_service.examine("kaoru", [nobody, nobody], lambda: None) is None
    found = doctor_service.examine("kaoru", [nobody, lambda: Manager({}, system=True)], lambda: False)
    assert found is not None
    assert found.state == "ok"


def test_spans_read_well() -> None:
    assert [span(seconds) for seconds in (5, 119, 120, 7200, 200_000)] == ["5 s", "119 s", "2 min", "2 h", "2 d"]


def test_a_warning_that_another_check_tells_is_no_reason_for_late_hints() -> None:
    patient = healthy()
    status(warnings=["two machines share the name laptop: a commit", "metrics cannot be written to /m"])(patient)
    assert {row.check: row.state for row in doctor.run(patient)}["hints"] == "ok"


def test_this_machine_says_whether_a_file_can_be_put_somewhere(tmp_path: Path) -> None:
    here = real_machine.Machine(FakeClock())
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    assert here.takes(tmp_path / "soul.prom") and here.takes(tmp_path / "file")
    assert not here.takes(tmp_path / "folder") and not here.takes(tmp_path / "none" / "soul.prom")
    assert not here.takes(tmp_path / "file" / "soul.prom")


def test_this_machine_says_who_answers_at_an_address(monkeypatch: pytest.MonkeyPatch) -> None:
    here = real_machine.Machine(FakeClock())
    monkeypatch.setattr(real_machine, "PATIENCE", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = silent.getsockname()
        assert here.asked(address) == "", "one that says nothing is not waited for"
    assert here.asked(address) is None and here.asked(address) is None, "nothing is kept of asking"
    listener = metrics.Listener(FakeClock())
    listener.open(address, lambda: "soul_bridge_state 1\n")
    assert "soul_bridge_state 1" in (here.asked(address) or "")
    listener.close(address)
    with pytest.raises(Transient, match=f"port {address[1]}"):
        here.asked(("255.255.255.255", address[1]))


def test_what_is_named_by_a_path_is_looked_for_where_it_is_started(tmp_path: Path) -> None:
    settings = config.Settings(
        "kaoru", "laptop", tmp_path, "git@h:o/k.git", tmp_path / "key",
        hooks={"synced": ("./tell", "x"), "remote.pushed": ("tell",)}, notify=("bin/notice",),
    )  # fmt: skip
    assert named(settings) == {
        "hooks.synced": (f"{tmp_path}/tell", "x"), "hooks.remote.pushed": ("tell",), "notify": ("/bin/notice",)
    }  # fmt: skip
    assert named(replace(settings, notify="desktop"))["notify"][0].rpartition("/")[2] in ("notify-send", "osascript")


def test_this_machine_can_be_asked(tmp_path: Path) -> None:
    here = real_machine.Machine(FakeClock(now=time.time()))
    assert here.git() is not None
    assert here.library("paramiko") is not None
    assert here.library("no-such-library") is None
    assert here.program("sh")
    assert not here.program("no-such-program")
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / ".git" / "refs" / "heads").mkdir(parents=True)
    (tmp_path / ".git" / "refs" / "heads" / "main.lock").touch()
    assert here.folders(tmp_path) == 3
    space = here.space(tmp_path / "not" / "there" / "yet")
    assert space is not None and space.total > space.free > 0
    ((path, age),) = here.locks(tmp_path / ".git")
    assert path.name == "main.lock"
    assert abs(age) < 60
    assert here.packs(tmp_path / ".git") == (0, 0)
    assert here.foreign(tmp_path) == []
    assert here.mode(tmp_path / "nothing") is None
    with pytest.raises(Transient):
        real_machine.resolve("host..invalid", 22)
    with pytest.raises(Transient):
        real_machine.connect("127.0.0.1", 1)


# --- a real soul, on a real host; test_doctor_cures.py plants faults there --------------------------------------------


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """One body on a host over SSH."""
    root = tmp_path_factory.mktemp("doctor")
    host = Host(root / "host").start()
    host.create("kaoru.soul.git")
    made = Fleet(host, root, "kaoru.soul.git")
    made.body("laptop")
    yield made
    made.close()
    host.stop()


@pytest.fixture
def body(fleet: Fleet) -> Body:
    """The body, in order."""
    return fleet.bodies["laptop"]


def rows(body: Body) -> dict[str, dict[str, str]]:
    out = io.StringIO()
    code = call(["doctor", "--json"], config.locate({"SOUL_BRIDGE_HOME": str(body.home)}), out, io.StringIO())
    found = {row["check"]: row for row in json.loads(out.getvalue())}
    assert code == int(any(row["state"] == "fail" for row in found.values()))
    assert all(set(row) == {"check", "state", "message", "remedy"} for row in found.values())
    return found


def type_in(body: Body, remedy: str) -> None:
    """Type a remedy as a person does."""
    program = body.home / "bin" / "soul-bridge"
    program.parent.mkdir(exist_ok=True)
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m bridge "$@"\n')
    program.chmod(0o755)
    path = f"{program.parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["sh", "-c", remedy], env=body.env(PATH=path), capture_output=True, text=True, stdin=subprocess.DEVNULL,
        timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, (remedy, done.stdout, done.stderr)


def test_a_lost_checkout_is_brought_back_by_the_remedy(fleet: Fleet) -> None:
    body = fleet.body("desk")
    body.write("notes/kept.md", "# kept\n")
    body.sync()
    subprocess.run(["rm", "-rf", str(body.soul)], check=True)
    found = rows(body)["checkout"]
    assert found["state"] == "fail"
    type_in(body, found["remedy"])
    assert rows(body)["checkout"]["state"] == "ok"
    assert body.read("notes/kept.md") == "# kept\n"


def test_write_access_is_proved_and_leaves_no_trace(fleet: Fleet, body: Body) -> None:
    """AUTH-3."""
    body.sync()
    before = fleet.git("for-each-ref"), fleet.git("count-objects", "-v"), body.git("for-each-ref")
    assert rows(body)["write access"]["message"].startswith("proved")
    assert (fleet.git("for-each-ref"), fleet.git("count-objects", "-v"), body.git("for-each-ref")) == before
    fleet.server.authorize(fleet.repository, body.public_line(), write=False)
    found = rows(body)
    assert found["login"]["state"] == "ok"
    assert found["write access"]["state"] == "fail"
    assert body.public_line() in found["write access"]["remedy"]
    fleet.server.revoke(fleet.repository, body.public_line())
    assert rows(body)["login"]["state"] == "fail"
    fleet.server.authorize(fleet.repository, body.public_line())
    assert rows(body)["write access"]["state"] == "ok"


def test_with_the_programs_as_the_way_to_the_remote_write_access_is_proved_too(fleet: Fleet, body: Body) -> None:
    if shutil.which("ssh") is None:
        pytest.skip("ssh is not installed")
    body.configure(transport="git")
    try:
        found = rows(body)
        assert (found["login"]["state"], found["write access"]["state"]) == ("ok", "ok")
        fleet.server.authorize(fleet.repository, body.public_line(), write=False)
        assert rows(body)["write access"]["state"] == "fail"
    finally:
        fleet.server.authorize(fleet.repository, body.public_line())
        body.configure(transport="session")


def test_it_works_while_a_daemon_runs_and_in_words(fleet: Fleet, body: Body) -> None:
    body.start()
    said = body.run("doctor", "kaoru")
    assert said.code == 0, said.out
    assert f"ok    daemon: process {body.daemon.pid if body.daemon else 0}" in said.out
    assert "ok    write access: proved" in said.out
    assert "checks: 0 failed, " in said.out.splitlines()[-1]
    body.stop()


def test_what_could_not_be_checked_is_one_line_for_people(tmp_path: Path) -> None:
    body = Body("laptop", tmp_path, "git@127.0.0.1:k.git")
    (tmp_path / "config").mkdir()
    text = f"agent: kaoru\nbody: laptop\nsoul: {tmp_path}/souls/kaoru.soul\nremote: {body.remote}\n"
    (tmp_path / "config" / "kaoru.yaml").write_text(text)
    said = body.run("doctor")
    assert said.code == 1
    assert said.out.count("not checked") == 1
    assert "write access" in next(line for line in said.out.splitlines() if "not checked" in line)
    assert said.out.count("soul-bridge init kaoru") == 2


def test_a_configuration_that_cannot_be_used_is_the_first_line(tmp_path: Path) -> None:
    body = Body("laptop", tmp_path, "git@h.example:k.git")
    (tmp_path / "config").mkdir()
    assert rows(body)["configuration"]["remedy"].startswith("soul-bridge init ")
    (tmp_path / "config" / "kaoru.yaml").write_text("agent: kaoru\nbody: laptop\n")
    (row,) = rows(body).values()
    assert (row["state"], "soul is missing" in row["message"]) == ("fail", True)
    assert row["remedy"] == f"${{EDITOR:-vi}} {tmp_path}/config/kaoru.yaml"
    (tmp_path / "config" / "kaoru.yaml").chmod(0o666)
    type_in(body, rows(body)["configuration"]["remedy"])
    assert (tmp_path / "config" / "kaoru.yaml").stat().st_mode & 0o777 == 0o664
