"""One soul with its real adapters behind the ports: shared by the commands that need it."""

from __future__ import annotations

import contextlib
import os
import platform
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from bridge import __version__
from bridge.adapters import child, config, control, formats, hooks, hosts, keys
from bridge.adapters.clock import boot
from bridge.adapters.events import Events
from bridge.adapters.lock import Lock
from bridge.adapters.remote import Access, Remote
from bridge.adapters.repo import Repo
from bridge.adapters.seen import Seen
from bridge.adapters.tree import Tree, prepare_process
from bridge.app import namesake, onboarding, repairing, reporting, requests, status
from bridge.app.inbox import ANSWERED as ANSWERED
from bridge.app.life import LOCAL
from bridge.app.reads import Reads
from bridge.app.soul import KNOWN, Limits, Soul
from bridge.app.sync import Outcome
from bridge.commands import checkout, statedir
from bridge.commands.context import Context
from bridge.commands.reading import no_soul
from bridge.core import address, ports
from bridge.core.errors import Refused, SoulError, Transient
from bridge.core.instants import iso
from bridge.core.layout import MAIN
from bridge.core.model import Presence

PRIVATE = "soul-bridge"  # our folder in the git directory
MATERIALISED = "materialised"  # in the state directory: the commit the checkout was last brought to whole
MARK = "checkout"  # in the state directory: the id that the checkout must carry
OF_THE_REMOTE = ("auth", "hostkey", "network", "identity", "rewritten", "not-a-soul")  # kinds of problems
HOOKS_END = 5.0  # seconds that hooks have to come to their end when a soul is closed


@dataclass
class Opened:
    """A soul and the lock that makes this process its only owner."""

    soul: Soul
    lock: Lock
    settings: config.Settings
    close: Callable[[], None]
    reads: Reads


def access(settings: config.Settings, places: config.Places) -> Access:
    """How this body gets in: its own key, checked at every login, and the pinned host keys."""
    parsed = address.parse(settings.remote)
    known = hosts.KnownHosts(places.known_hosts)
    return Access(
        parsed,
        lambda: keys.load(settings.key, settings.soul, places.credentials),
        lambda: known.lookup(parsed.known_host_key_name),
        detour(settings, places),
    )


def detour(settings: config.Settings, places: config.Places) -> str:
    """What to type where port 22 is closed, "" when that is no way out."""
    begun = (settings.soul / ".git").exists()
    return onboarding.detour(address.parse(settings.remote), settings.agent, places.config_file(settings.agent), begun)


def lock_of(settings: config.Settings, places: config.Places) -> Lock:
    """The locks of one soul: in its state directory, and in its git directory once there is one. Raises Unusable where
    a newer version keeps its files, before anything there is touched; Transient(kind="disk") where no such directory
    can be made."""
    state, private = folders(settings, places)
    formats.refuse_newer(state, private)
    statedir.make(state)
    paths = [places.lock_file(settings.agent)]
    if (settings.soul / ".git").is_dir():
        paths.append(private / "lock")
    return Lock(*paths)


def begun(settings: config.Settings, places: config.Places) -> bool:
    """Whether this machine ever carried the soul: its checkout is ours, or was brought to a commit once."""
    return folders(settings, places)[1].is_dir() or carried(settings, places)


def carried(settings: config.Settings, places: config.Places) -> bool:
    """Whether a checkout of the soul was brought to a commit here once."""
    return formats.line_of(folders(settings, places)[0] / MATERIALISED) is not None


def folders(settings: config.Settings, places: config.Places) -> tuple[Path, Path]:
    """Where the program keeps its own files of one soul: the state directory, and our folder in the git directory."""
    return places.state_dir(settings.agent), settings.soul / ".git" / PRIVATE


def open_soul(
    settings: config.Settings, context: Context, lock: Lock, *, create: bool = False, offline: bool = False
) -> Opened:
    """The soul, its adapters open. `create`: make the git directory where there is none (`init`). `offline`: the remote
    is not to be asked, not even about a checkout of which nothing else tells whose it is. The caller holds `lock`.

    Raises Refused when there is no usable checkout. A damaged git directory beside soul files is replaced (REPO-7).
    """
    if threading.current_thread() is threading.main_thread():  # nobody else may; `run` does it for all its threads
        prepare_process()
    places, clock = context.places, context.clock
    state, private = folders(settings, places)
    formats.settle(state)
    repo, mended = _own(settings, context, create, offline)
    seen, born = _seen(private / "seen.db", clock)
    reads = Reads(clock)
    repo.reads = reads.ours
    facts, end_hooks = _facts(settings, context)
    soul = Soul(
        agent=settings.agent,
        body=settings.body,
        repo=repo,
        seen=seen,
        remote=_remote(settings, context, repo.git_dir, repo),
        tree=Tree(settings.soul, private, clock, _mark(state, private, create or mended, repo, seen), reads=reads.ours),
        clock=clock,
        facts=facts,
        limits=limits(settings),
        host=platform.node() or None,
        version=__version__,
        born=born,
        was_read=reads.since,
        replacing=reads.replacing,
        recorded=reads.recorded,
        boot=boot(),
        key=partial(keys.fingerprint, settings.key),
    )
    repairing.wake(soul, mended or seen.lost is not None, formats.line_of(state / MATERIALISED))
    return Opened(_guarded(soul, settings), lock, settings, _closing(soul, seen, repo, lock, end_hooks), reads)


def _guarded(soul: Soul, settings: config.Settings) -> Soul:
    """The soul, each pass of which asks first whether the private key is where commits do not have it (CONTENT-2)."""
    soul.placed = partial(keys.refuse_places, settings.key, settings.soul)
    soul.admit = partial(keys.refuse_bytes, settings.key)
    soul.unrecorded = partial(keys.refuse_recorded, settings.key, soul.repo.has)
    return soul


def _seen(path: Path, clock: ports.Clock) -> tuple[Seen, float]:
    """What was seen, and since when that memory is in this file: one that was copied or restored is in another."""
    try:
        since = path.stat().st_ctime  # before it is written to: when it came here, if it is not known here
    except OSError:
        since = clock.now()
    seen = Seen(path)
    try:
        return seen, namesake.settle_in(seen, path.stat().st_ino, since)
    except BaseException:
        seen.close()
        raise


def _facts(settings: config.Settings, context: Context) -> tuple[ports.Facts, Callable[[], None]]:
    """Where facts go, a person's programs on the way; and what lets those come to their end."""
    events = Events(context.places.events_file(settings.agent), settings.agent, settings.body, context.clock)
    if not settings.hooks:
        return events, lambda: None

    told = {"agent": settings.agent, "body": settings.body}
    found = hooks.Hooks(
        events, settings.hooks, fed(settings.soul), context.clock, lambda words: context.say(words), told
    )
    return found, lambda: found.close(HOOKS_END)


def fed(directory: Path) -> hooks.Start:
    """What starts a person's program in a directory, with bytes to read."""

    def start(command: Sequence[str], content: bytes) -> child.Child:
        descriptor = child.fed(content)
        try:
            # What it prints is no answer of ours.
            return child.start(command, directory, child.environment(), stdin=descriptor, stdout=2)
        finally:
            os.close(descriptor)

    return start


def _closing(soul: Soul, seen: Seen, repo: Repo, lock: Lock, end_hooks: Callable[[], None]) -> Callable[[], None]:
    def close() -> None:
        with contextlib.ExitStack() as ends:  # each of them, whatever another one raises
            for end in (end_hooks, lock.release, repo.close, seen.close, lambda: soul.remote.close()):
                ends.callback(end)

    return close


def _remote(settings: config.Settings, context: Context, git_dir: Path, repo: Repo) -> ports.Remote:
    """The remote as configured, for a git directory: over one open session, or by the git and ssh programs."""
    if settings.transport == "git":
        from bridge.adapters import gitssh

        way = gitssh.Access(
            address.parse(settings.remote),
            lambda: keys.load(settings.key, settings.soul, context.places.credentials),
            context.places.known_hosts,
        )
        return gitssh.GitSsh(way, git_dir, repo)
    return Remote(access(settings, context.places), repo, context.clock, tell=context.progress)


def _own(settings: config.Settings, context: Context, create: bool, offline: bool) -> tuple[Repo, bool]:
    """As `_repo`, with our folder in it, made once it is known whose the checkout is (GUARD-2)."""
    state, private = folders(settings, context.places)
    repo, mended = _repo(settings, context, create)
    if create:
        reach = None if offline else lambda asked: _remote(settings, context, asked.git_dir, asked)
        checkout.refuse_another(settings.agent, repo, state / MARK, private / "id", state / MATERIALISED, reach)
    repo.largest = max(repo.largest, settings.hold_back_over)
    private.mkdir(mode=0o700, exist_ok=True)
    formats.settle(private)
    return repo, mended


def _repo(settings: config.Settings, context: Context, create: bool) -> tuple[Repo, bool]:
    """The repository, and whether it is a fresh one in place of a damaged one. `create`: a person asked for it."""
    git_dir = settings.soul / ".git"
    known = formats.line_of(context.places.state_dir(settings.agent) / MARK) is not None
    if create and not known and not os.path.lexists(git_dir):
        return _created(settings.soul), False
    if not known and not git_dir.is_dir():
        raise no_soul(settings)
    try:
        repo = Repo.open(settings.soul)
        repo.recover()
        if repairing.whole(repo):
            return repo, known and repo.tip(MAIN) is None  # a crash came right behind the making of it
        repo.close()
        problem = "what its main points to cannot be read"
    except Refused as error:
        if error.kind != "internal":
            raise
        problem = error.message
    if create and not (settings.soul.is_dir() and os.listdir(settings.soul)):
        # Somebody took the whole folder away and asks for it again: an ordinary join into an empty place.
        return _created(settings.soul), False
    repairing.refuse_unless_repairable(settings.agent, settings.soul, known, problem)
    aside = repairing.set_aside(settings.soul, context.clock.now())
    context.say(f"{problem}; a fresh git directory takes its place" + (f", it is kept at {aside}" if aside else ""))
    return Repo.create(settings.soul), True


def _created(soul: Path) -> Repo:
    """A new repository in a folder that is made when it is missing. Raises Refused where no folder can be."""
    try:
        soul.parent.mkdir(parents=True, exist_ok=True)
        soul.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise Refused(
            f"{soul} cannot be made: {error.strerror}",
            kind="disk",
            rule="GUARD-2",
            advice=f"Nothing was changed. See what stands there: ls -ld {soul}",
        ) from error
    return Repo.create(soul)


def limits(settings: config.Settings) -> Limits:
    """The durations and sizes that passes go by."""
    return Limits(settings.settle, settings.guard, settings.heartbeat, settings.hold_back_over)


def _mark(state: Path, private: Path, trusted: bool, repo: Repo, seen: Seen) -> str:
    """The id by which the state directory knows this checkout again (GUARD-2), made at the first opening.

    trusted: we made this git directory just now, or a person asked for what stands here.
    """
    path = state / MARK
    inside = private / "id"
    known, found = formats.line_of(path), formats.line_of(inside)
    if known is not None and not trusted and not _emptied(inside, state, repo, seen):
        return known
    id = found or known or str(uuid.uuid4())
    for place, line in ((inside, found), (path, known)):
        if line != id:
            formats.put(place, id)
    return id


def _emptied(inside: Path, state: Path, repo: Repo, seen: Seen) -> bool:
    """Whether a power cut left the id in a checkout empty that is otherwise this body's: what it remembers is in it,
    and the commit that the state directory says was last brought to disk."""
    commit = formats.line_of(state / MATERIALISED) if formats.is_emptied(inside) else None
    return commit is not None and seen.recall(KNOWN) is not None and repo.has(commit)


@contextlib.contextmanager
def opened(
    settings: config.Settings, context: Context, *, create: bool = False, offline: bool = False
) -> Iterator[Opened]:
    """The soul under its lock, for one command; closed at the end. As `open_soul`."""
    lock = lock_of(settings, context.places)
    lock.acquire()
    try:
        found = open_soul(settings, context, lock, create=create, offline=offline)
    except BaseException as error:
        lock.release()
        if isinstance(error, SoulError):
            note_failure(settings, context, error)
        raise
    try:
        yield found
    finally:
        found.close()


def request(settings: config.Settings, context: Context, words: dict[str, Any]) -> dict[str, Any]:
    """Have the daemon do something, or do it here when none runs. Raises the SoulError that comes of it."""
    words = {"agent": settings.agent, **words}
    answer = control.ask(context.places.control_socket(settings.agent), words, ANSWERED)
    if answer is not None:
        return answer
    with opened(settings, context) as found:
        outcomes: list[Outcome] = []
        failed: SoulError | None = None
        try:
            return requests.answer(found.soul, words, outcomes.append)
        except SoulError as error:
            failed = error
            raise
        finally:
            _note(found, context, outcomes[-1] if outcomes else None, failed)
            # Without a daemon nobody else does it; `doctor` tells when it cannot be done.
            with contextlib.suppress(Transient, Refused):
                found.soul.repo.maintain()


def _note(found: Opened, context: Context, outcome: Outcome | None, failed: SoulError | None) -> None:
    """As `note`; where a disk lets not even that be found out, what stood in the way is noted."""
    if outcome is None and failed is not None and failed.kind in ("disk", "internal"):
        return note_failure(found.settings, context, failed)
    ended = found.soul.ended
    last = outcome or (ended if isinstance(ended, Outcome) else None)
    try:
        note(found, context, last)
    except SoulError as error:
        stood = last.problem if last is not None and last.problem is not None else error
        return note_failure(found.settings, context, stood)
    if failed is not None and failed.kind in OF_THE_REMOTE:
        note_failure(found.settings, context, failed)


def note(found: Opened, context: Context, outcome: Outcome | None) -> None:
    """Write the status of a soul that no daemon runs, after a command did something to it."""
    path = context.places.status_file(found.settings.agent)
    before = status.read(path)
    life = reporting.resumed(found.soul, before)
    if outcome is not None:
        life.note(outcome, None)
    reporter = reporting.Reporter(str(found.settings.soul), found.settings.remote, None, None, before)
    document = reporter.document(life)
    stood = (before or {}).get("problem")
    ours = stood is not None and stood.get("kind") in LOCAL
    if outcome is None or not (outcome.problem or outcome.fetched or outcome.pushed or ours):
        document["problem"] = stood  # nothing proved that it is gone
    status.write(path, document)
    note_materialised(found.soul, context.places.state_dir(found.settings.agent))


def note_failure(settings: config.Settings, context: Context, error: SoulError) -> None:
    """Leave for `status` what kept a command from looking at the soul at all; the next good pass takes it back."""
    path = context.places.status_file(settings.agent)
    agent, body, soul, remote = settings.agent, settings.body, str(settings.soul), settings.remote
    before = status.read(path) or status.build(agent=agent, body=body, soul=soul, remote=remote, state="stopped")
    # Words that were corrected since it was written hold in it, too.
    before = {**before, "body": body, "soul": soul, "remote": remote}
    # What a rule refuses before anything was looked at, the checkout is to blame for.
    kind = error.kind if error.kind in reporting.KINDS else "disk"
    problem = {"kind": kind, "message": error.message, "advice": error.advice, "next_try": None, "times": 1}
    last = before.get("problem") or {}
    since = last.get("since") if last.get("message") == error.message else iso(context.clock.now())
    state = "waiting" if isinstance(error, Transient) else "refused"
    status.write(path, {**before, "state": state, "problem": {**problem, "since": since}})


def note_materialised(soul: Soul, state: Path) -> None:
    """Keep what a lost git directory would be mended by (REPO-7), outside of it; never what another checkout has."""
    commit = repairing.materialised(soul)
    path = state / MATERIALISED
    if commit is not None and formats.line_of(path) != commit:
        with contextlib.suppress(Transient):
            if soul.tree.presence() is Presence.PRESENT:
                formats.put(path, commit)
