"""`init`: key and configuration, then, once the remote answers, join or fill it. Safe to repeat at any point."""

from __future__ import annotations

import argparse
import contextlib
import platform
import uuid
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

from bridge.adapters import config, control, keys
from bridge.adapters.remote import Remote
from bridge.app import authorizing, namesake, onboarding, requests, rotating, status
from bridge.app.soul import Order, Soul
from bridge.app.sync import Outcome
from bridge.app.sync import run as run_pass
from bridge.commands import authorize, hostkey, wiring
from bridge.commands.context import Context
from bridge.core import address, bodies, identity
from bridge.core.errors import Refused, SoulError, Transient, Unusable
from bridge.core.model import Commit


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
            _trust(settings, context, arguments.host_key)
            _Door(settings, context, public, arguments).open(arguments.wait or 0.0)
        except SoulError as error:
            _note_refusal(settings, context, error)
            raise
    if _asked_daemon(settings, context, arguments.offline):
        context.answer(_document(settings, "running"), f"{settings.agent} already runs here and is synchronised.")
        return 0
    with wiring.opened(settings, context, create=True) as found:
        outcome = _connect(found.soul, arguments, settings)
        wiring.note(found, context, outcome)
    if outcome.problem is not None:
        raise outcome.problem
    answer = requests.report(outcome)
    context.answer({**_document(settings, "ready"), **answer}, _words(settings, answer, arguments.offline))
    return 0


def _settings(arguments: argparse.Namespace, context: Context) -> config.Settings:
    """The settings of this call, or those of an earlier one, which must not say anything else."""
    places, agent = context.places, arguments.agent
    soul = Path(arguments.soul).expanduser().absolute() if arguments.soul else None
    if places.config_file(agent).exists():
        settings = config.load(places, agent)
        given = {"remote": arguments.remote, "body": arguments.body, "soul": soul}
        other = {name: value for name, value in given.items() if value and str(value) != str(getattr(settings, name))}
        if other and "body" not in other and not (settings.soul / ".git").exists():
            # Nothing ever came of the first try: what is said now is what was meant.
            return _checked(replace(settings, **other), places)
        if other:
            name, value = next(iter(other.items()))
            raise Unusable(
                f"{agent} is already configured with {name} {getattr(settings, name)}, not {value}",
                advice=f"Nothing was changed. Leave --{name} out, or change it in {places.config_file(agent)}.",
            )
    else:
        settings = _new_settings(arguments, context, soul)
    return _checked(settings, places)


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
            advice=f"soul-bridge init {agent} --remote git@HOST:OWNER/{agent}.soul.git",
        )
    body = arguments.body or onboarding.body_name(platform.node())
    for what, name in (("agent", agent), ("body", body)):
        if not identity.NAME.fullmatch(name):
            raise Unusable(
                f"{name!r} cannot be the name of {'an agent' if what == 'agent' else 'a body'}: "
                "lower-case letters, digits and -, at most 40, not beginning with -",
                kind="usage",
                rule="FORM-1" if what == "agent" else "FORM-6",
                advice="Nothing was written. Choose another name.",
            )
    place = soul or places.soul_dir(agent)
    return config.Settings(agent, body, place, address.parse(arguments.remote).text, places.key_file(agent, body))


def _key(settings: config.Settings) -> keys.PublicKey:
    if not settings.key.exists():
        return keys.generate(settings.key, f"{settings.agent}.{settings.body} soul-bridge")
    return keys.load(settings.key, settings.soul).public


def _trust(settings: config.Settings, context: Context, fingerprint: str | None) -> None:
    try:
        hostkey.trust(settings, context, fingerprint)
    except Transient as error:
        raise onboarding.unreached(settings.agent, error, wiring.detour(settings, context.places)) from error


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
        again = f"soul-bridge init {self._settings.agent}"
        wanted = authorizing.Wanted(
            self._address, self._public, self._settings.body, again + authorize.words(self._arguments), again
        )
        authorize.let_in(self._arguments, self._context, wanted)
        self._added = True

    def _shown(self, error: SoulError) -> SoulError:
        agent = self._settings.agent
        if isinstance(error, Refused) and error.kind == "auth":
            if self._added:
                return authorizing.not_yet(agent, error)
            return onboarding.not_authorised(self._address, self._public.line, agent, error)
        if isinstance(error, Transient):
            return onboarding.unreached(agent, error, wiring.detour(self._settings, self._context.places))
        return error


def _note_refusal(settings: config.Settings, context: Context, error: SoulError) -> None:
    """Leave for `status` why a first `init` did not come to its end; what a pass left says more."""
    path = context.places.status_file(settings.agent)
    before = status.read(path)
    if before is not None and before.get("tip") is not None:
        return
    with contextlib.suppress(OSError):  # then there is no status
        wiring.lock_of(settings, context.places)  # makes the directory
    wiring.note_failure(settings, context, error)


def _connect(soul: Soul, arguments: argparse.Namespace, settings: config.Settings) -> Outcome:
    """Join or fill, then one whole synchronisation."""
    if soul.seen.recall("birth") is None:
        born = {"id": str(uuid.uuid4()), "created": int(soul.clock.now() * 1000)}
        soul.seen.remember("birth", {**born, "display_name": arguments.display_name})
    if arguments.offline:
        soul.seen.remember("alone", True)
        return requests.settle(soul, False, _offline(soul))
    if arguments.take_over:
        # The registry says at once on which machine this body is now.
        soul.limits = replace(soul.limits, heartbeat=0.0)
    elif soul.seen.recall("remote") is None:
        _refuse_taken_name(soul, settings)
    return requests.settle(soul, False, lambda order: run_pass(soul, order))


def _offline(soul: Soul) -> Callable[[Order], Outcome]:
    def run(order: Order) -> Outcome:
        return run_pass(soul, Order(order.hints, order.waive, order.now, remote=False, publish=False))

    return run


def _refuse_taken_name(soul: Soul, settings: config.Settings) -> None:
    head = soul.head()
    look = soul.remote.fetch([head] if head else [])
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
        namesake.take_over(soul)


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
    lines = [f"{settings.agent} lives in {settings.soul} (body {settings.body}): {outcome['sentence']}"]
    if offline:
        lines.append(f"The remote was not asked. When it can be: soul-bridge init {settings.agent}")
    lines.append(f"Keep it in sync:  soul-bridge service install {settings.agent}    (or run it: soul-bridge run)")
    return "\n".join(lines)
