"""`init`: key and configuration, then, once the remote answers, join or fill it. Safe to repeat at any point."""

from __future__ import annotations

import argparse
import contextlib
import platform
import shlex
import uuid
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

from bridge.adapters import config, control, keys
from bridge.adapters.remote import Remote
from bridge.app import authorizing, namesake, onboarding, requests, rotating, status
from bridge.app.joining import ALONE, BIRTH
from bridge.app.soul import Order, Soul
from bridge.app.sync import Outcome
from bridge.app.sync import run as run_pass
from bridge.commands import authorize, hostkey, naming, wiring
from bridge.commands.context import Context
from bridge.core import address, bodies, identity
from bridge.core.errors import Refused, SoulError, Transient, Unusable
from bridge.core.model import Commit
from bridge.core.words import line


class NothingYet:
    """The objects of a repository that is not there yet: enough to ask whether this body may write."""

    def has(self, oid: str) -> bool:
        """No object is here."""
        return False

    def is_ancestor(self, old: str, new: str) -> bool:
        """No history is here."""
        return False

    def info(self, commit: str) -> Commit:
        """Never asked for by a probe."""
        self._unasked()

    def receive(self, chunks: Iterable[bytes]) -> None:
        """Never asked for by a probe."""
        self._unasked()

    def pack(self, new: str, have: Collection[str]) -> bytes:
        """Never asked for by a probe."""
        self._unasked()

    def _unasked(self) -> NoReturn:
        raise AssertionError("a probe asks for no objects")


def run(arguments: argparse.Namespace, context: Context) -> int:
    """Bring an agent to this machine. Raises what keeps it from being done; the same call goes on from there."""
    authorize.refuse_nonsense(arguments, arguments.offline)
    hostkey.refuse_nonsense(arguments.host_key, "--host-key")
    settings = _settings(arguments, context)
    _refuse_unheard(settings, arguments, context)
    if arguments.authorize:
        authorize.refuse_mismatch(arguments.authorize, arguments.api, address.parse(settings.remote))
    public = _key(settings)
    config.save(context.places, settings)
    if not arguments.offline:
        try:
            _trust(settings, context, arguments)
            _Door(settings, context, public, arguments).open(arguments.wait or 0.0)
        except SoulError as error:
            _note_refusal(settings, context, error)
            raise
    if _asked_daemon(settings, context, arguments.offline):
        context.answer(_document(settings, "running"), f"{settings.agent} already runs here and is synchronised.")
        return 0
    with wiring.opened(settings, context, create=True, offline=arguments.offline) as found:
        outcome = _connect(found.soul, arguments, settings, context.places)
        wiring.note(found, context, outcome)
    if outcome.problem is not None:
        if outcome.problem.kind == "not-a-soul" and _nothing_came(settings, context.places):
            raise onboarding.no_soul_there(settings.agent, outcome.problem)
        raise outcome.problem
    answer = requests.report(outcome)
    context.answer({**_document(settings, "ready"), **answer}, _words(settings, answer, arguments.offline))
    return 0


def _settings(arguments: argparse.Namespace, context: Context) -> config.Settings:
    """The settings of this call, or those of an earlier one, which must not say anything else."""
    places, agent = context.places, arguments.agent
    naming.refuse_names(arguments)
    if arguments.remote:
        naming.refuse_address(arguments)
    soul = Path(arguments.soul).expanduser().absolute() if arguments.soul else None
    if not places.config_file(agent).exists():
        return _checked(_new_settings(arguments, context, soul), places)
    settings = config.load(places, agent)
    given = {"remote": arguments.remote, "body": arguments.body, "soul": soul}
    other = {name: value for name, value in given.items() if value and str(value) != str(getattr(settings, name))}
    if not other:
        return _checked(settings, places)
    gone = not (settings.soul / ".git").exists()
    free = (gone and list(other) == ["soul"]) or ("soul" not in other and _nothing_came(settings, places))
    if wiring.begun(settings, places) and not free:
        name = next(iter(other))
        values = str(getattr(settings, name)), line(str(other[name]))
        raise onboarding.configured_otherwise(agent, name, values, gone, places.config_file(agent))
    # Nothing ever came of the first try, or its folder is gone: what is said now is what was meant.
    changed = _checked(replace(settings, **other), places)
    if settings.key == places.key_file(agent, settings.body):
        changed = replace(changed, key=places.key_file(agent, changed.body))
    for name, value in other.items():
        context.say(f"{name} is {line(str(value))} from now on, not {getattr(settings, name)}")
    if changed.key != settings.key and settings.key.exists():
        context.say(
            f"a key of its own is made for {changed.body}. Nobody needs the one of {settings.body} any more; "
            f"delete it at the host if it was added there, and here:\n"
            f"rm {shlex.quote(str(settings.key))} {shlex.quote(f'{settings.key}.pub')}"
        )
    return changed


def _nothing_came(settings: config.Settings, places: config.Places) -> bool:
    """Whether this machine carries not one commit of the soul, although a checkout was begun."""
    if not wiring.begun(settings, places):
        return True
    git = settings.soul / ".git"
    try:
        packed = (git / "packed-refs").read_text("utf-8", "replace") if (git / "packed-refs").exists() else ""
    except OSError:
        return False
    none = not (git / "refs" / "heads" / "main").exists() and "refs/heads/main" not in packed
    return none and (git / "HEAD").is_file() and not wiring.carried(settings, places)


def _checked(settings: config.Settings, places: config.Places) -> config.Settings:
    address.parse(settings.remote)
    onboarding.refuse_place(settings.soul, places.home, [places.config, places.keys, settings.key.parent])
    return settings


def _new_settings(arguments: argparse.Namespace, context: Context, soul: Path | None) -> config.Settings:
    places, agent = context.places, arguments.agent
    if not arguments.remote:
        raise Unusable(
            f"{agent} is not configured yet: --remote is needed",
            kind="usage",
            advice=naming.typed(arguments, remote=f"git@HOST:OWNER/{agent}.soul.git"),
        )
    body = arguments.body or onboarding.body_name(platform.node())
    place = soul or places.soul_dir(agent)
    return config.Settings(agent, body, place, address.parse(arguments.remote).text, places.key_file(agent, body))


def _key(settings: config.Settings) -> keys.PublicKey:
    if not settings.key.exists():
        return keys.generate(settings.key, f"{settings.agent}.{settings.body} soul-bridge")
    return keys.load(settings.key, settings.soul).public


def _trust(settings: config.Settings, context: Context, arguments: argparse.Namespace) -> None:
    try:
        hostkey.trust(settings, context, arguments.host_key, naming.again(arguments))
    except Transient as error:
        raise _unreached(settings, context, error, naming.again(arguments)) from error


def _unreached(settings: config.Settings, context: Context, error: Transient, again: str) -> Transient:
    """The same, with how to go on where this is a first `init`; a soul that lives here goes on by itself."""
    if wiring.begun(settings, context.places):
        return error
    return onboarding.unreached(settings.agent, again, error, wiring.detour(settings, context.places))


class _Door:
    """The login that this body's key has to open, with write access."""

    def __init__(
        self, settings: config.Settings, context: Context, public: keys.PublicKey, arguments: argparse.Namespace
    ) -> None:
        self._settings = settings
        self._context = context
        self._public = public
        self._arguments = arguments
        self._address = address.parse(settings.remote)
        self._added = False

    def open(self, wait: float) -> None:
        """Prove that this body may write, trying again so many seconds; with --authorize, have its key added first.

        Raises Refused with what to paste where, or with what the host's API said.
        """
        context, told = self._context, False
        remote = Remote(wiring.access(self._settings, context.places), NothingYet(), context.clock)
        deadline = context.clock.boottime() + wait
        try:
            while True:
                try:
                    remote.probe_write()
                    if self._arguments.authorize and not self._added:
                        context.say("this body's key is there already, with write access: nothing was added")
                    return
                except (Refused, Transient) as error:
                    if error.kind == "auth" and self._arguments.authorize and not self._added:
                        self._add()
                        deadline = max(deadline, context.clock.boottime() + rotating.GRACE)
                        continue
                    shown = self._shown(error)
                    if error.kind not in rotating.RETRIED or context.clock.boottime() >= deadline:
                        raise shown from error
                    if not (told or self._added):
                        context.say(f"{shown.message}\n{shown.advice}\n\nwaiting for it …")
                        told = True
                context.clock.sleep(rotating.PAUSE)
        finally:
            remote.close()

    def _add(self) -> None:
        again = naming.again(self._arguments)
        wanted = authorizing.Wanted(
            self._address, self._public, self._settings.body, again + authorize.words(self._arguments), again
        )
        authorize.let_in(self._arguments, self._context, wanted)
        self._added = True

    def _shown(self, error: SoulError) -> SoulError:
        again = naming.again(self._arguments)
        if isinstance(error, Refused) and error.kind == "auth":
            if self._added:
                return authorizing.not_yet(again, error)
            begun = wiring.begun(self._settings, self._context.places)
            return onboarding.not_authorised(self._address, self._public.line, again, error, begun=begun)
        if isinstance(error, Transient):
            return _unreached(self._settings, self._context, error, again)
        return error


def _note_refusal(settings: config.Settings, context: Context, error: SoulError) -> None:
    """Leave for `status` why a first `init` did not come to its end; what a pass left says more."""
    path = context.places.status_file(settings.agent)
    before = status.read(path)
    if before is not None and before.get("tip") is not None:
        return
    with contextlib.suppress(SoulError):  # then there is no status
        wiring.lock_of(settings, context.places)  # makes the directory
    wiring.note_failure(settings, context, error)


def _connect(soul: Soul, arguments: argparse.Namespace, settings: config.Settings, places: config.Places) -> Outcome:
    """Join or fill, then one whole synchronisation."""
    if soul.seen.recall(BIRTH) is None:
        born = {"id": str(uuid.uuid4()), "created": int(soul.clock.now() * 1000)}
        soul.seen.remember(BIRTH, {**born, "display_name": arguments.display_name})
    if arguments.offline:
        soul.seen.remember(ALONE, True)
        return requests.settle(soul, False, _offline(soul))
    if arguments.take_over:
        # The registry says at once on which machine this body is now.
        soul.limits = replace(soul.limits, heartbeat=0.0)
        namesake.take_over(soul)
    elif soul.seen.recall("remote") is None:
        _refuse_taken_names(soul, arguments, settings, places.config_file(settings.agent))
    return requests.settle(soul, False, lambda order: run_pass(soul, order))


def _offline(soul: Soul) -> Callable[[Order], Outcome]:
    def run(order: Order) -> Outcome:
        return run_pass(soul, Order(order.hints, order.waive, order.now, remote=False, publish=False))

    return run


def _refuse_taken_names(
    soul: Soul, arguments: argparse.Namespace, settings: config.Settings, configuration: Path
) -> None:
    head = soul.head()
    look = soul.remote.fetch([head] if head else [])
    if look.tip:
        there = soul.content(soul.repo.entry(soul.tree_of(look.tip), identity.PATH))
        naming.refuse_another_agent(there, arguments, settings, configuration)
    file = soul.repo.entry(soul.tree_of(look.tip), f"bodies/{settings.body}.json") if look.tip else None
    fields = bodies.read(soul.content(file))
    host = (fields or {}).get("host")
    if isinstance(host, str) and host and soul.host and host != soul.host:
        raise onboarding.other_host(settings.agent, settings.body, host, soul.host)


def _refuse_unheard(settings: config.Settings, arguments: argparse.Namespace, context: Context) -> None:
    """Raise Refused for words that a running daemon would not hear: they are for the one who opens the soul."""
    words = {"--take-over": arguments.take_over, "--display-name": arguments.display_name is not None}
    given = " and ".join(word for word, is_given in words.items() if is_given)
    look = {"agent": settings.agent, "command": "consolidate look"}  # answered at once, whatever goes on
    if given and control.ask(context.places.control_socket(settings.agent), look, control.PATIENCE) is not None:
        raise Refused(
            f"{given} cannot be done while a daemon runs for {settings.agent}",
            kind="busy",
            advice=f"Nothing was changed. Stop the daemon (soul-bridge service uninstall {settings.agent}, or end "
            "`soul-bridge run`), then run this again.",
        )


def _asked_daemon(settings: config.Settings, context: Context, offline: bool) -> bool:
    """Whether a daemon runs and synchronised. Raises what it says stood in its way."""
    words = {"agent": settings.agent, "command": "sync", "now": False}
    answer = control.ask(context.places.control_socket(settings.agent), words, wiring.ANSWERED)
    if answer is None:
        return False
    problem = answer.get("problem")
    if problem is not None and not (offline and problem["kind"] == "network"):
        family = Transient if problem["transient"] else Refused
        raise family(problem["message"], kind=problem["kind"], rule=problem["rule"], advice=problem["advice"])
    return True


def _document(settings: config.Settings, state: str) -> dict[str, Any]:
    return {
        "agent": settings.agent,
        "body": settings.body,
        "soul": str(settings.soul),
        "remote": settings.remote,
        "key": str(settings.key),
        "state": state,
    }


def _words(settings: config.Settings, outcome: dict[str, Any], offline: bool) -> str:
    lines = [f"{settings.agent} lives in {line(str(settings.soul))} (body {settings.body}): {outcome['sentence']}"]
    if offline:
        lines.append(f"The remote was not asked. When it can be: soul-bridge init {settings.agent}")
    lines.append(f"Keep it in sync:  soul-bridge service install {settings.agent}    (or run it: soul-bridge run)")
    return "\n".join(lines)
