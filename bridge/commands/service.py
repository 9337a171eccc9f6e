"""`service`: the daemon of one soul as a service of systemd, for this user or (--system) for the whole machine."""

from __future__ import annotations

import argparse
import getpass
import grp
import os
import pwd
import re
import shutil
import site as python
import sys
from pathlib import Path

import bridge
from bridge.adapters import config, lock
from bridge.adapters.systemd import Systemd
from bridge.app import service, status
from bridge.app.service import Service
from bridge.app.units import PLAIN_PATH, Site
from bridge.commands import launchd, statedir
from bridge.commands.context import Context
from bridge.core.errors import Refused, Transient, Unusable

PROGRAM = "soul-bridge"
SYSTEM_FOLDER = Path("/etc/systemd/system")


def run(arguments: argparse.Namespace, context: Context) -> int:
    """Install, uninstall, or tell how it is. Raises Unusable, Refused and Transient with what to type next."""
    system: bool = arguments.system
    if sys.platform == "darwin" and not system:
        return launchd.run(arguments, context, lambda settings: _site(settings, context.places, system=False))
    places = config.locate(system=True) if system else context.places
    if arguments.action == "uninstall":
        return _uninstall(arguments, context, places)
    agent = Context(places, context.json, context.out, context.err).agent(arguments.agent) if not system else (
        _system_agent(arguments.agent, places)
    )  # fmt: skip
    settings = config.load(places, agent)
    made = _service(Systemd(system=system, agent=agent), _site(settings, places, system=system), context, places)
    if arguments.action == "status":
        return _status(made, context)
    if system:
        _as_root(arguments.action, agent)
        _open_to(made.site, settings, places)
    _refuse_second(made, places)
    return _install(made, settings, context)


def _refuse_second(made: Service, places: config.Places) -> None:
    """Refuse while a daemon makes passes that the service did not start: the two could only fight."""
    pid = lock.holder(places.lock_file(made.site.agent))
    if pid is not None and str(pid) != made.state()["MainPID"]:
        raise Refused(
            f"a daemon of {made.site.agent} runs already, started by hand (pid {pid}); nothing was changed",
            kind="busy",
            advice=f"end it, `kill {pid}`, then install again",
        )


def _install(made: Service, settings: config.Settings, context: Context) -> int:
    agent, supervisor = settings.agent, made.supervisor
    if not supervisor.system:
        statedir.make(made.site.writable[0])
    done = made.install()
    last = (done.document or {}).get("last_pass") or {}
    lingering = None if supervisor.system else Systemd(system=False).lingers()
    problem = service.problem_of(done.document or {})
    words = [f"{sentence}" for sentence in done.did] or ["everything was as it should be"]
    words.append(f"seen: a whole pass of {made.site.unit}: {last.get('sentence', 'it is paused')}")
    words += _of_lingering(lingering, supervisor.system)
    if problem is not None:
        words.append(f"it runs and works locally, but: {problem.message}\n  next: {problem.advice}")
    document = {
        "agent": agent,
        "unit": made.site.unit,
        "scope": supervisor.scope.lstrip("-"),
        "did": done.did,
        "files": [str(path) for path in done.files],
        "confined": done.confined,
        "lingering": lingering,
        "last_pass": last or None,
        "problem": problem.as_dict() if problem else None,
    }
    context.answer(document, "\n".join(words))
    return problem.exit_code if problem else 0


def _of_lingering(lingering: bool | None, system: bool) -> list[str]:
    if system or lingering:
        return []
    user = getpass.getuser()
    why = "could not be asked for" if lingering is None else "is off"
    return [
        f"lingering {why}: without it, the service runs only while {user} is logged in.\n"
        f"  next: loginctl enable-linger {user}"
    ]


def _uninstall(arguments: argparse.Namespace, context: Context, places: config.Places) -> int:
    known = config.agents(places)
    agent = arguments.agent or (known[0] if len(known) == 1 else "")
    if not re.fullmatch("[a-z0-9][a-z0-9-]{0,39}", agent):
        listed = ", ".join(known) or "none"
        raise Unusable(
            f"an agent is to be named (configured: {listed})",
            kind="usage",
            advice=f"soul-bridge service uninstall {known[0] if known else 'AGENT'}",
        )
    if arguments.system:
        _as_root("uninstall", agent)
    made = _service(Systemd(system=arguments.system, agent=agent), Site(agent, (), ()), context, places)
    removed = made.uninstall()
    left = _left(agent, places)
    words = [f"removed {path}" for path in removed] or [f"{made.site.unit} was not installed"]
    words += [f"left: {what} {path}" for what, path in left.items()]
    scope = made.supervisor.scope.lstrip("-")
    document = {"agent": agent, "unit": made.site.unit, "scope": scope, "removed": [str(path) for path in removed]}
    context.answer({**document, "left": {what: str(path) for what, path in left.items()}}, "\n".join(words))
    return 0


def _left(agent: str, places: config.Places) -> dict[str, Path]:
    """What is not the service's to take away."""
    left = {"configuration": places.config_file(agent), "state": places.state_dir(agent)}
    try:
        settings = config.load(places, agent)
    except Unusable:
        left["keys"] = places.keys
    else:
        left |= {"soul": settings.soul, "key": settings.key}
    return {what: path for what, path in left.items() if path.exists()}


def _status(made: Service, context: Context) -> int:
    found, current = made.state(), made.is_current()
    installed = made.drop_in.exists()
    lingering = None if made.supervisor.system else Systemd(system=False).lingers()
    agent, scope = made.site.agent, made.supervisor.scope.lstrip("-")
    document = {
        "agent": agent,
        "unit": made.site.unit,
        "scope": scope,
        "installed": installed,
        "current": current,
        "enabled": found["UnitFileState"] == "enabled",
        "active": found["ActiveState"],
        "pid": int(found["MainPID"] or 0) or None,
        "restarts": int(found["NRestarts"] or 0),
        "result": found["Result"],
        "said": found["StatusText"],
        "lingering": lingering,
    }
    option = " --system" if made.supervisor.system else ""
    words = [f"{made.site.unit}: {found['ActiveState']} ({found['SubState']}), {found['UnitFileState'] or 'not there'}"]
    words += [f"  {found['StatusText']}"] if found["StatusText"] else []
    if document["restarts"]:
        words.append(f"  started again {document['restarts']} times, the last time after: {found['Result']}")
    if not installed:
        words.append(f"  next: soul-bridge service install {agent}{option}")
    elif not current:
        words.append(f"  its files are not what they would be now\n  next: soul-bridge service install {agent}{option}")
    words += _of_lingering(lingering, made.supervisor.system) if installed else []
    context.answer(document, "\n".join(words))
    return 0


def _service(supervisor: Systemd, site: Site, context: Context, places: config.Places) -> Service:
    folder = SYSTEM_FOLDER if supervisor.system else _user_folder(supervisor, places)
    path = places.status_file(site.agent)
    return Service(supervisor, site, folder, lambda: status.read(path), context.clock)


def _user_folder(supervisor: Systemd, places: config.Places) -> Path:
    """Where this user's units go: what the manager itself reads, which need not be what a shell would say."""
    usual = places.home / ".config" / "systemd" / "user"
    found = [path for path in supervisor.unit_paths() if path.parts[-2:] == ("systemd", "user")]
    own = [path for path in found if path.is_relative_to(places.home)]
    return usual if usual in found or not own else own[0]


def _site(settings: config.Settings, places: config.Places, *, system: bool) -> Site:
    program = _program()
    # Not the checkout alone: a broken git directory is put beside it (REPO-7).
    writable = [places.state if not system else places.state_dir(settings.agent), settings.soul.parent]
    commands = [command[0] for command in settings.hooks.values()]
    commands += [settings.consolidation.command[0]] if settings.consolidation else []
    return Site(
        agent=settings.agent,
        program=program,
        writable=tuple(writable),
        environment={**places.environment(system=system), **_python_path(program)},
        path=tuple(_folders(["git", *commands])),
        commands=bool(commands),
        owner=_owner(settings.soul) if system else None,
        credential=(f"{settings.agent}.{settings.body}", settings.key) if system else None,
    )


def _program() -> tuple[str, ...]:
    """The words that start this very program again."""
    called = Path(os.path.abspath(sys.argv[0]))
    if called.name == PROGRAM and os.access(called, os.X_OK):
        return (str(called),)
    return (sys.executable, "-m", "bridge")


def _python_path(program: tuple[str, ...]) -> dict[str, str]:
    """Where the package is found, when it runs from its sources."""
    root = str(Path(bridge.__file__).resolve().parents[1])
    installed = [*python.getsitepackages(), python.getusersitepackages()]
    return {"PYTHONPATH": root} if len(program) > 1 and root not in installed else {}


def _folders(names: list[str]) -> list[str]:
    """Where programs are that systemd would not find by itself."""
    found = [os.path.dirname(os.path.abspath(path)) for name in names if (path := shutil.which(name))]
    return [folder for folder in dict.fromkeys(found) if folder not in PLAIN_PATH]


def _system_agent(named: str | None, places: config.Places) -> str:
    known = config.agents(places)
    if named in known or (named is None and len(known) == 1):
        return named or known[0]
    if named is None and known:
        raise Unusable(f"several souls are configured: {', '.join(known)}", kind="usage", advice="name the one meant")
    agent = named or "AGENT"
    raise Unusable(
        f"{places.config_file(agent)} is missing: a soul of the whole machine is configured in {places.config}",
        advice=f"sudo env CONFIGURATION_DIRECTORY={places.config} STATE_DIRECTORY={places.state} soul-bridge init "
        f"{agent} --remote git@HOST:OWNER/{agent}.soul.git",
    )


def _as_root(action: str, agent: str) -> None:
    if os.geteuid() != 0:
        raise Unusable(
            "units of the whole machine are root's",
            kind="usage",
            advice=f"sudo soul-bridge service {action} {agent} --system",
        )


def _owner(soul: Path) -> tuple[str, str] | None:
    """As whom the daemon runs: files that it replaces get its owner, so it is the owner of the checkout."""
    try:
        found = soul.stat()
    except OSError:
        return None
    try:
        return pwd.getpwuid(found.st_uid).pw_name, grp.getgrgid(found.st_gid).gr_name
    except KeyError:
        return str(found.st_uid), str(found.st_gid)


def _open_to(site: Site, settings: config.Settings, places: config.Places) -> None:
    """Let the owner read what root configured: the file and the pinned hosts, never the key."""
    path = places.config_file(settings.agent)
    if site.owner is None:
        raise Unusable(
            f"there is no soul at {settings.soul}",
            advice=f"soul-bridge init {settings.agent}, or mount what it lies on",
        )
    try:
        group = _group(site.owner[1])
        places.config.chmod(places.config.stat().st_mode & 0o7777 | 0o011)
        os.chown(path, -1, group)
        path.chmod(0o640)
        if places.known_hosts.exists():
            places.known_hosts.chmod(0o644)
    except OSError as error:
        raise Transient(
            f"{path} cannot be opened to {site.owner}: {error.strerror}", kind="disk", advice=f"ls -l {path}"
        ) from error


def _group(name: str) -> int:
    return int(name) if name.isdigit() else grp.getgrnam(name).gr_gid
