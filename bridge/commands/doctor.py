"""`doctor`: checks everything from the configuration to write access, each line with its remedy."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path

from bridge.adapters import config, desktop, formats, gitssh, hosts, keys, lock, machine
from bridge.adapters.remote import Remote
from bridge.adapters.repo import Repo
from bridge.adapters.systemd import Systemd
from bridge.adapters.tree import Tree
from bridge.adapters.tree.place import folding
from bridge.app import doctor, doctor_service, pause, status
from bridge.app.diagnosis import Finding, Patient
from bridge.app.doctor import Row
from bridge.commands import statedir, wiring
from bridge.commands.context import Context
from bridge.commands.init import NothingYet
from bridge.core import address
from bridge.core.errors import Refused, SoulError, Unusable
from bridge.core.model import Presence, RemoteLook
from bridge.core.words import counted, readable

MARKS = {"ok": "ok  ", "warn": "warn", "fail": "FAIL"}


def run(arguments: argparse.Namespace, context: Context) -> int:
    """Print every check; 1 if any fails. Nothing is changed, here or at the remote."""
    try:
        settings = context.settings(arguments.agent)
    except Unusable as error:
        rows = [Row("configuration", "fail", error.message, _correct(arguments.agent, context, error))]
    else:
        path = context.places.config_file(settings.agent)
        rows = [Row("configuration", "ok", str(path), "")]
        rows += _checked(settings, context)
    context.answer([asdict(row) for row in rows], _page(rows))
    return int(any(row.state == "fail" for row in rows))


def _checked(settings: config.Settings, context: Context) -> list[Row]:
    """Every check of one soul, unless a newer version keeps its files: those are not looked into."""
    try:
        formats.refuse_newer(*wiring.folders(settings, context.places))
    except SoulError as error:
        return [Row("state", "fail", error.message, error.advice)]
    with _patient(settings, context) as patient:
        return doctor.run(patient)


def _correct(named: str | None, context: Context, error: Unusable) -> str:
    known = config.agents(context.places)
    if error.kind == "usage":
        return f"soul-bridge doctor {known[0]}" if known else error.advice
    agent = named or (known[0] if len(known) == 1 else None)
    if agent is None or agent not in known:
        return error.advice
    if error.advice.startswith("chmod "):
        return error.advice
    return f"${{EDITOR:-vi}} {context.places.config_file(agent)}"


def _page(rows: Sequence[Row]) -> str:
    """For people: what could not be checked is one line, and the last one counts."""
    lines = [_words(row) for row in rows if row.checked]
    missed = [row.check for row in rows if not row.checked]
    if missed:
        lines.append(f"      not checked, because of what failed: {', '.join(missed)}")
    states = [row.state for row in rows if row.checked]
    failed, warned = states.count("fail"), states.count("warn")
    return "\n".join([*lines, f"{counted(len(states), 'check')}: {failed} failed, {warned} with a warning"])


def _words(row: Row) -> str:
    lines = readable(f"{row.check}: {row.message}").split("\n")
    lines = [f"{MARKS[row.state]}  {lines[0]}", *(f"      {line}" for line in lines[1:])]
    if row.remedy:
        first, *rest = readable(row.remedy).split("\n")
        lines += [f"      -> {first}", *(f"         {line}" for line in rest)]
    return "\n".join(lines)


@contextlib.contextmanager
def _patient(settings: config.Settings, context: Context) -> Iterator[Patient]:
    """One soul, its files and its way to the remote; nothing of it is locked, a daemon may go on."""
    places, repo, problem = context.places, None, None
    try:
        repo = Repo.open(settings.soul)
    except Refused as error:
        problem = (error.message, error.advice)
    way = _Way(settings, context, repo.has if repo is not None else None)
    metrics = settings.metrics or config.Metrics()
    try:
        yield Patient(
            agent=settings.agent,
            body=settings.body,
            soul=settings.soul,
            key=settings.key,
            known_hosts=places.known_hosts,
            state=places.state_dir(settings.agent),
            config=places.config_file(settings.agent),
            address=address.parse(settings.remote),
            poll=settings.poll,
            now=context.clock.now(),
            machine=machine.Machine(context.clock),
            checkout=_Checkout(settings, context),
            way=way,
            repo=repo,
            repo_problem=problem,
            status=status.read(places.status_file(settings.agent)),
            running=lock.holder(places.lock_file(settings.agent))
            or statedir.keeper(settings.soul, places.lock_file(settings.agent)),
            paused=pause.is_paused(places.state_dir(settings.agent)),
            programs=named(settings),
            metrics_file=metrics.file,
            metrics_at=metrics.listen,
            service=partial(_service, settings.agent),
        )
    finally:
        way.close()
        if repo is not None:
            repo.close()


def named(settings: config.Settings) -> dict[str, Sequence[str]]:
    """The programs that the configuration names, by key; a path that is not absolute begins where it is started."""
    found: dict[str, Sequence[str]] = {f"hooks.{name}": command for name, command in settings.hooks.items()}
    if settings.consolidation:
        found["consolidation"] = settings.consolidation.command
    placed: dict[str, Sequence[str]] = {
        key: (_placed(words[0], settings.soul), *words[1:]) for key, words in found.items()
    }
    if settings.notify == "desktop":
        placed["notify"] = desktop.command("", "", urgent=False) or (desktop.USUAL,)
    elif settings.notify:
        placed["notify"] = (_placed(settings.notify[0], Path("/")), *settings.notify[1:])
    return placed


def _placed(program: str, start: Path) -> str:
    return str(start / program) if "/" in program else program


def _service(agent: str) -> Finding | None:
    managers = [lambda: Systemd(system=False), lambda: Systemd(system=True)]
    return doctor_service.examine(agent, managers, lambda: Systemd(system=False).lingers())


class _Checkout:
    """The working files, looked at only."""

    def __init__(self, settings: config.Settings, context: Context) -> None:
        self._root = settings.soul
        self._private = settings.soul / ".git" / wiring.PRIVATE
        known = formats.line_of(context.places.state_dir(settings.agent) / wiring.MARK)
        self._tree = Tree(settings.soul, self._private, context.clock, known)

    def presence(self) -> Presence:
        return self._tree.presence()

    def leases(self) -> bool:
        return self._tree.leases()

    def folds(self) -> bool:
        return folding(self._root)

    def content(self, path: str) -> bytes | None:
        try:
            return (self._root / path).read_bytes()
        except OSError:
            return None


class _Everything(frozenset[str]):
    """Every commit there is: who knows them all has nothing to fetch."""

    def __contains__(self, commit: object) -> bool:
        return True


class _Looking(NothingYet):
    """No objects are asked for by somebody who only looks."""

    def flush(self) -> None:
        """There is nothing new."""


class _Way:
    """The way to the remote, step by step."""

    def __init__(self, settings: config.Settings, context: Context, has: Callable[[str], bool] | None = None) -> None:
        self._settings = settings
        self._has = has
        self._places = context.places
        self._address = address.parse(settings.remote)
        self._remote = _remote(settings, context)

    def key(self) -> keys.Key:
        found = keys.load(self._settings.key, self._settings.soul, self._places.credentials)
        keys.refuse_places(self._settings.key, self._settings.soul)
        if self._has is not None:
            keys.refuse_recorded(self._settings.key, self._has)
        return found

    def pinned(self) -> Sequence[str]:
        known = hosts.KnownHosts(self._places.known_hosts).lookup(self._address.known_host_key_name)
        return [key.fingerprint for key in known]

    def resolve(self) -> Sequence[str]:
        return machine.resolve(self._address.host, self._address.port)

    def connect(self) -> None:
        machine.connect(self._address.host, self._address.port)

    def look(self) -> RemoteLook:
        return self._remote.fetch(_Everything())

    def probe_write(self) -> None:
        self._remote.probe_write()

    def close(self) -> None:
        self._remote.close()


def _remote(settings: config.Settings, context: Context) -> Remote | gitssh.GitSsh:
    """The way that passes take, with nothing to be fetched."""
    places = context.places
    if settings.transport == "git" and (settings.soul / ".git").is_dir():
        way = gitssh.Access(
            address.parse(settings.remote),
            lambda: keys.load(settings.key, settings.soul, places.credentials),
            places.known_hosts,
        )
        return gitssh.GitSsh(way, settings.soul / ".git", _Looking())
    return Remote(wiring.access(settings, places), _Looking(), context.clock)
