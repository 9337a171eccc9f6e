"""The checks of `doctor` that look at the checkout, its git directory and what the daemon says of them."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bridge.app import conflicts, namesake
from bridge.app.diagnosis import Finding, Patient, fail, listed, ok, size, span, warn
from bridge.app.standing import ABSENCES
from bridge.core import bodies, identity, layout, nextstep, publish
from bridge.core.errors import SoulError
from bridge.core.instants import seconds
from bridge.core.model import Presence
from bridge.core.words import counted, line

MANY_PACKS = 100
LARGE = 2 << 30  # bytes: hosts begin to refuse about here
LATE = 600.0  # seconds
COUNTED = 10_000  # commits
TROUBLES = ("GUARD-2", "GUARD-3", "REPO-8")  # rules by which a path waits that a person can end
GUARDS = ("GUARD-2", "GUARD-3")
TOLD_ELSEWHERE = (namesake.CALLED, "metrics ")  # beginnings of warnings that another check tells
MOUNT = ": if its disk is not mounted, mount it first"
FURTHER = {
    Presence.MISSING: MOUNT,
    Presence.EMPTY: MOUNT,
    Presence.NO_GIT: "; a fresh one is fetched, no file is lost",
}


def checkout(patient: Patient) -> Finding:
    """The checkout, and the one that this body knows (GUARD-2)."""
    found = patient.checkout.presence()
    again = f"soul-bridge init {patient.agent}"
    if found is Presence.PRESENT:
        return ok(str(patient.soul))
    if found is Presence.FOREIGN:
        again = f"mv {_word(patient.soul)} {_word(patient.soul)}.other && {again}"
    if patient.running is not None:
        # It would answer in the place of `init`, and makes no checkout by itself (GUARD-2).
        unit = f"soul-bridge@{patient.agent}"
        stop = f"systemctl --user stop {unit} || {{ kill {patient.running}; sleep 5; }}"
        again = f"{stop}; {again}   # then start it again: systemctl --user start {unit}"
    return fail(f"{ABSENCES[found]}{FURTHER.get(found, '')} ({patient.soul})", again)


def owner(patient: Patient) -> Finding | None:
    """Every file of the checkout and the state belongs to whoever runs this, or, when root does, to one owner."""
    for place in (patient.soul, patient.state):
        foreign = patient.machine.foreign(place)
        if foreign:
            owner = '"$(id -u):$(id -g)"' if place in foreign else f"--reference={_word(place)}"
            command = f"sudo chown -R {owner} {_word(place)}"
            return fail(f"belongs to another user: {listed(foreign)}", command)
    return ok("everything belongs to this user")


def writable(patient: Patient) -> Finding | None:
    """The checkout and the state can be read and written."""
    for place in (patient.soul, patient.state):
        space = patient.machine.space(place)
        if space is not None and space.read_only:
            command = f'sudo mount -o remount,rw "$(findmnt -n -o TARGET -T {_word(place)})"'
            return fail(f"the file system of {place} is mounted read-only", command)
        closed = patient.machine.closed(place)
        if closed:
            return fail(f"cannot be read or written: {listed(closed)}", f"chmod -R u+rwX {_word(place)}")
    return ok("everything can be read and written")


def private(patient: Patient) -> Finding | None:
    """What is nobody else's business cannot be read by others."""
    wrong = [path for path in (patient.key.parent, patient.state) if (patient.machine.mode(path) or 0) & 0o077]
    if wrong:
        return warn(f"others may look into {listed(wrong)}", f"chmod 700 {' '.join(_word(path) for path in wrong)}")
    above = patient.state.parent
    if (patient.machine.mode(above) or 0) & 0o022:
        return warn(f"others may put another folder in the place of {patient.state}", f"chmod go-w {_word(above)}")
    return ok("keys and state are closed to others")


def git_directory(patient: Patient) -> Finding | None:
    """A git directory that leans on nothing else and can be read (AUTH-7, REPO-7)."""
    git = f"git -C {_word(patient.soul)}"
    info = patient.git_dir / "objects" / "info"
    leaning = [info / name for name in ("alternates", "http-alternates") if patient.machine.exists(info / name)]
    if leaning:
        paths = " ".join(_word(path) for path in leaning)
        return fail(f"it leans on another object directory: {listed(leaning)}", f"{git} repack -a -d && rm {paths}")
    if patient.machine.exists(patient.git_dir / "shallow"):
        ssh = f"ssh -i {_word(patient.key)} -o IdentitiesOnly=yes -o UserKnownHostsFile={_word(patient.known_hosts)}"
        fetch = f"GIT_SSH_COMMAND={shlex.quote(ssh)} {git} fetch --unshallow {patient.address.text}"
        return fail("its history was cut off (shallow)", fetch)
    again = f"soul-bridge init {patient.agent}"
    if patient.repo_problem is not None:
        message, advice = patient.repo_problem
        return fail(message, advice or again)
    if patient.repo is None:
        return None
    try:
        tip = patient.tip()
    except SoulError as error:
        return fail(error.message, again)
    if tip is not None and not patient.tree(tip):
        return fail(f"what main points to, {tip[:8]}, is not there", again)
    return ok("it can be read and leans on nothing else")


def replaced(patient: Patient) -> Finding | None:
    """Nothing shows git another history than ours: such things are passed over here, but not by git."""
    if patient.repo is None:
        return None
    git = f"git -C {_word(patient.soul)}"
    refs = patient.repo.refs("refs/replace/")
    if refs:
        names = " ".join(name.removeprefix("refs/replace/") for name in refs)
        return warn(f"git shows {len(refs)} replaced objects, which are not obeyed here", f"{git} replace -d {names}")
    grafts = patient.git_dir / "info" / "grafts"
    if patient.machine.exists(grafts):
        return warn("git shows grafted history, which is not obeyed here", f"rm {_word(grafts)}")
    return ok("git shows the same history")


def locks(patient: Patient) -> Finding | None:
    """No lock of git that nobody holds any more."""
    stale = [path for path, age in patient.machine.locks(patient.git_dir) if age >= publish.STALE]
    if stale:
        return warn(
            f"left behind by a git that is no more: {listed(stale)}", "rm " + " ".join(_word(path) for path in stale)
        )
    return ok("no lock is left behind")


def person(patient: Patient) -> Finding | None:
    """Nobody is in the middle of something with git here (REPO-7)."""
    if patient.repo is None:
        return None
    reason = publish.in_the_way(patient.repo.state())
    if reason:
        return warn(f"passes wait: {reason}", nextstep.of_git(reason, str(patient.soul)))
    return ok("nobody uses git here now")


def packs(patient: Patient) -> Finding | None:
    """A repository of a size that hosts take."""
    number, octets = patient.machine.packs(patient.git_dir)
    if octets > LARGE:
        return warn(
            f"{size(octets)} of history: hosts refuse more than a few GiB",
            f"git -C {_word(patient.soul)} count-objects -vH   # then hold large files back: hold_back_over",
        )
    if number > MANY_PACKS:
        return warn(f"{number} packs: everything takes longer", f"git -C {_word(patient.soul)} repack -a -d")
    return ok(f"{size(octets)} in {counted(number, 'pack')}")


def fixed(patient: Patient) -> Finding | None:
    """The fixed files as this version of the rules has them (TREE-2); another version's are left alone (TREE-3)."""
    tree = patient.tree(patient.tip())
    if not tree:
        return None
    version = layout.version(patient.blob(tree, ".soul-spec.json") or b"")
    if version is not None and version != layout.SPEC_VERSION:
        return ok(f"fixed files of version {version}, kept as they are")
    drifted = [path for path, content in layout.FIXED.items() if patient.blob(tree, path) != content]
    if drifted:
        first = drifted[0]
        text = layout.FIXED[first].decode().replace("\n", "\\n")
        return warn(
            f"not as the rules have them: {listed(drifted)}",
            f"printf {shlex.quote(text)} > {_word(patient.soul / first)} && {patient.command('sync')}",
        )
    return ok("as the rules have them")


def who(patient: Patient) -> Finding | None:
    """The soul says who it is (FORM-1, MERGE-5)."""
    tree = patient.tree(patient.tip())
    if not tree:
        return None
    fields = identity.read(patient.checkout.content(identity.PATH))
    id = identity.id_of(patient.blob(tree, identity.PATH))
    if id is None:
        return fail("no commit says who this soul is", patient.command("log agent.json"))
    if fields is None or fields.get("id") != id:
        return warn(
            "agent.json cannot be read or has another id; the next pass puts the id back", patient.command("sync")
        )
    name = fields.get("name")
    if name != patient.agent:
        return warn(f"the soul is {name}'s, the configuration calls it {patient.agent}", _renamed(patient, name))
    return ok(f"{name}, {id}")


def _renamed(patient: Patient, name: object) -> str:
    """Commands by which the configuration goes on under the soul's name, with the same key and state."""
    if not isinstance(name, str) or not identity.NAME.fullmatch(name):
        return f'${{EDITOR:-vi}} {_word(patient.soul / identity.PATH)}   # "name": "{patient.agent}"'
    fresh, state = patient.config.with_name(f"{name}.yaml"), patient.state.with_name(name)
    file, line = _word(fresh), shlex.quote(f"key: {patient.key}")
    steps = [
        f"[ ! -e {file} ] && [ ! -e {_word(state)} ]",
        f"mv {_word(patient.config)} {file}",
        f"sed -i 's/^agent:.*/agent: {name}/' {file}",
        f"{{ grep -q '^key:' {file} || echo {line} >> {file}; }}",
        f"mv {_word(patient.state)} {_word(state)}",
    ]
    if patient.running is not None:
        steps.insert(1, f"kill {patient.running}")
    return " && ".join(steps) + f"   # then start it as {name}"


def body(patient: Patient) -> Finding | None:
    """No other machine uses this body's name (MERGE-9)."""
    for words in (patient.status or {}).get("warnings", ()):
        if words.startswith(namesake.CALLED):
            remedy = f"soul-bridge init {patient.agent} --take-over   # if only this machine is left; else see status"
            return fail(words.splitlines()[0], remedy)
    for commit in (patient.remote_tip(), patient.tip()):
        fields = bodies.read(patient.blob(patient.tree(commit), bodies.path(patient.body)))
        host = (fields or {}).get("host")
        if isinstance(host, str) and host and patient.machine.host and host != patient.machine.host:
            return fail(
                f"the body {patient.body} is registered for the machine {host}, and this one is {patient.machine.host}",
                f"soul-bridge init {patient.agent} --take-over   # unless that machine still runs it",
            )
        if fields is not None:
            return ok(f"{patient.body} is this machine")
    return None


def unpushed(patient: Patient) -> Finding | None:
    """What was recorded has arrived at the remote."""
    tip, remote = patient.tip(), patient.remote_tip()
    if patient.repo is None or tip is None:
        return None
    if remote is not None and not patient.repo.has(remote):
        remote = (patient.status or {}).get("remote_tip")
    if remote is None or not patient.repo.has(remote):
        return warn("nothing has been published yet", patient.command("sync"))
    times = [commit.time for commit, _ in zip(patient.repo.log(tip, remote), range(COUNTED), strict=False)]
    if not times:
        return ok("everything is published")
    age = patient.now - min(times)
    message = f"{counted(len(times), 'commit')} not published, the oldest for {span(max(age, 0.0))}"
    return warn(message, patient.command("sync")) if age > LATE else ok(message)


def held(patient: Patient) -> Finding | None:
    """Paths that are set aside, and why (GUARD-5)."""
    if patient.status is None:
        return None
    paths = [line(f"{one['path']} ({one['rule']}: {one['reason']})") for one in patient.status.get("held", ())]
    if not paths:
        return ok("no path is set aside")
    return warn(f"set aside: {listed(paths)}", _ways(patient, patient.status["held"]))


def _ways(patient: Patient, held: Sequence[Mapping[str, str]]) -> str:
    """What to type; what it ends is said behind it, with the other way out."""
    steps = nextstep.of_all(held, patient.agent, patient.body, str(patient.soul))
    ends = any(one["rule"] in TROUBLES for one in held)
    command = patient.command("sync --now" if ends else "status")
    told = [step.removeprefix(f"meant: `{command}`; ") for step in steps]
    only = "only if it was meant" if any(one["rule"] in GUARDS for one in held) else ""
    return command + "   # " + "; ".join(words for words in (only, *told) if words)


def lost(patient: Patient) -> Finding | None:
    """Versions that lost a merge and nobody looked at (MERGE-6)."""
    if patient.repo is None:
        return None
    number = len(conflicts.listed(patient.repo, patient.now))
    if number:
        return warn(f"{counted(number, 'version')} lost a merge and can be brought back", patient.command("conflicts"))
    return ok("no version lost a merge in the last 90 days")


def daemon(patient: Patient) -> Finding:
    """Somebody keeps this soul in sync."""
    if patient.running is None:
        return warn("no daemon runs", f"soul-bridge service install {patient.agent}")
    if not patient.machine.exists(patient.state / "lock"):
        words = f"process {patient.running} runs, but its state directory {patient.state} was taken away"
        return fail(f"{words} and cannot be made again", f"ls -ld {_word(patient.state.parent)}")
    if patient.paused:
        return warn("a person stopped the passes", f"soul-bridge resume {patient.agent}")
    return ok(f"process {patient.running}")


def service(patient: Patient) -> Finding | None:
    """The service is installed and starts by itself."""
    if patient.service is None:
        return None
    try:
        return patient.service()
    except SoulError as error:
        return warn(error.message, f"soul-bridge service install {patient.agent}")


def last_pass(patient: Patient) -> Finding:
    """The remote answered not long ago."""
    pulled = seconds((patient.status or {}).get("last_pull"))
    if pulled is None:
        return warn("the remote has not answered yet", patient.command("sync"))
    age = patient.now - pulled
    if age > max(LATE, 10 * patient.poll):
        return warn(f"the remote last answered {span(age)} ago", patient.command("sync"))
    return ok(f"the remote answered {span(max(age, 0.0))} ago")


def problem(patient: Patient) -> Finding | None:
    """What the last pass met."""
    found: dict[str, Any] | None = (patient.status or {}).get("problem")
    if patient.status is None:
        return None
    if found is None:
        return ok("the last pass met none")
    commands = {
        "rewritten": "accept-remote", "hostkey": "accept-host-key",
    }  # fmt: skip
    state = warn if found["kind"] in ("network", "disk", "rejected") else fail
    if found["kind"] in ("identity", "not-a-soul"):
        return fail(found["message"], patient.readdress)
    return state(found["message"], patient.command(commands.get(found["kind"], "sync")))


def hints(patient: Patient) -> Finding | None:
    """What keeps the daemon from noticing changes at once."""
    if patient.status is None or patient.running is None:
        return None
    told = [words for words in patient.status.get("warnings", ()) if not words.startswith(TOLD_ELSEWHERE)]
    if not told:
        return ok("changes are noticed at once")
    return warn(listed(told, 1), "sudo sysctl -w fs.inotify.max_user_watches=1048576")


def programs(patient: Patient) -> Finding | None:
    """The programs that the configuration names are there."""
    if not patient.programs:
        return None
    missing = [f"{key}: {words[0]}" for key, words in patient.programs.items() if not patient.machine.program(words[0])]
    if missing:
        return warn(f"there is no program {listed(missing)}", f"${{EDITOR:-vi}} {_word(patient.config)}")
    return ok(f"{counted(len(patient.programs), 'program')} found")


def metrics(patient: Patient) -> Finding | None:
    """Numbers can be had where the configuration wants them; the daemon goes on where they cannot."""
    found = [each for each in (_file(patient), _address(patient)) if each is not None]
    return next((each for each in found if each.state != "ok"), found[0] if found else None)


def _file(patient: Patient) -> Finding | None:
    file = patient.metrics_file
    if file is None:
        return None
    if not patient.machine.exists(file.parent):
        return warn(f"the folder of metrics.file is not there: {file.parent}", f"mkdir -p {_word(file.parent)}")
    if not patient.machine.takes(file):
        remedy = f"ls -ld {_word(file.parent)} {_word(file)}   # the folder has to be this user's to write"
        return warn(f"metrics cannot be written to {file}", remedy)
    return ok(f"they can be written to {file}")


def _address(patient: Patient) -> Finding | None:
    if patient.metrics_at is None:
        return None
    host, port = patient.metrics_at
    shown = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    edit = f"${{EDITOR:-vi}} {_word(patient.config)}   # choose another address in metrics.listen"
    try:
        said = patient.machine.asked(patient.metrics_at)
    except SoulError as error:
        return warn(f"metrics cannot be asked for at {shown}: {error.message}", edit)
    if said is None and patient.running is None:
        return ok(f"{shown} is free")
    if said is None:
        remedy = f"kill -HUP {patient.running}   # it reads its configuration again; its log says what is in the way"
        return warn(f"nobody answers at {shown}, although a daemon runs", remedy)
    if "soul_bridge_" not in said:
        return warn(f"another program has {shown}", f"{edit}; who has it: ss -ltnp 'sport = :{port}'")
    if patient.running is not None and f'agent="{patient.agent}"' not in said:
        return warn(f"another soul-bridge has {shown}, and does not answer for {patient.agent}", edit)
    return ok(f"they are answered at {shown}")


def _word(path: Path) -> str:
    return shlex.quote(str(path))
