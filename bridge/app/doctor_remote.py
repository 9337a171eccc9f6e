"""The checks of `doctor` that look at the way to the remote, step by step, and at what stands there."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

from bridge.app import onboarding
from bridge.app.diagnosis import Finding, Patient, fail, ok, warn
from bridge.core import forges, identity, layout, publish
from bridge.core.errors import Refused, SoulError, Transient


def key(patient: Patient) -> Finding:
    """A key that may be used: an ed25519 key, closed to others, this user's, outside the soul (AUTH-2, AUTH-4)."""
    rotate = f"soul-bridge key rotate {patient.agent} --wait 600"
    try:
        found = patient.way.key()
    except SoulError as error:
        return fail(error.message, _key_remedy(patient, error, rotate))
    if patient.machine.exists(patient.key.with_name(patient.key.name + ".next")):
        return warn(f"{found.fingerprint}; a new key waits beside it", rotate)
    return ok(found.fingerprint)


def _key_remedy(patient: Patient, error: SoulError, rotate: str) -> str:
    path = shlex.quote(str(patient.key))
    mode = patient.machine.mode(patient.key)
    if error.kind == "rule":
        return _moved_out(patient)
    if error.rule == "CONTENT-2":
        return f"{rotate}   # then delete the old deploy key at the host"
    if mode is None:
        return f"soul-bridge init {patient.agent}"
    if patient.machine.foreign(patient.key):
        return f'sudo chown "$(id -u):$(id -g)" {path}'
    if mode & 0o077:
        return f"chmod 600 {path}"
    return rotate


def _moved_out(patient: Patient) -> str:
    """Commands that lay a key outside the soul, in no other key's place, and name its new place."""
    folder = patient.known_hosts.parent / "keys"
    usual = folder / f"{patient.agent}.{patient.body}"
    real = Path(os.path.realpath(patient.key))
    # A link that leads into the soul gives way to the key itself.
    is_link = real != Path(os.path.abspath(patient.key)) and patient.key.is_symlink()
    free, number = usual, 1
    while patient.machine.exists(free) and not (is_link and free == patient.key):
        free, number = usual.with_name(f"{usual.name}.{number}"), number + 1
    steps = [f"mkdir -p -m 700 {shlex.quote(str(folder))}"]
    steps += [f"rm {shlex.quote(str(patient.key))}"] if is_link else []
    for end in ("", ".pub"):
        if not end or patient.machine.exists(real.with_name(real.name + end)):
            steps.append(f"mv -n {shlex.quote(f'{real}{end}')} {shlex.quote(f'{free}{end}')}")
    wanted = "/^key:/d" if free == usual else f"s|^key:.*|key: {free}|"
    steps.append(f"sed -i {shlex.quote(wanted)} {shlex.quote(str(patient.config))}")
    return " && ".join(steps)


def host_key(patient: Patient) -> Finding:
    """The host's key is pinned (AUTH-6)."""
    accept = f"soul-bridge accept-host-key {patient.agent}"
    try:
        pinned = patient.way.pinned()
    except SoulError as error:
        return fail(error.message, f"mv {shlex.quote(str(patient.known_hosts))} {patient.known_hosts}.old && {accept}")
    if not pinned:
        return fail(f"no key of {patient.address.host} is pinned", accept)
    return ok(f"{patient.address.host}: {', '.join(pinned)}")


def name(patient: Patient) -> Finding:
    """The host's name means an address."""
    host = patient.address.host
    try:
        return ok(f"{host} is {', '.join(patient.way.resolve())}")
    except SoulError as error:
        return fail(f"{host} cannot be found: {error.message}", f"getent hosts {host}   # is there a network at all?")


def connection(patient: Patient) -> Finding:
    """The host answers on its port."""
    address = patient.address
    try:
        patient.way.connect()
    except SoulError as error:
        other = forges.detour(address)
        if other:
            edit = onboarding.moved(other, patient.agent, patient.config)
            return fail(f"{error.message}; the same server also answers on port 443, with the same host keys", edit)
        # bash opens connections by itself; not every machine has a program for that.
        dial = shlex.quote(f"exec 3<>/dev/tcp/{address.host}/{address.port} && echo it answers")
        return fail(error.message, f"timeout 10 bash -c {dial}   # is the address right, does the server run?")
    return ok(f"{address.host} answers on port {address.port}")


def login(patient: Patient) -> Finding:
    """This body's key opens the repository (AUTH-3); what the remote said is kept for the checks that follow."""
    try:
        patient.look = patient.way.look()
    except SoulError as error:
        return _refused(patient, error)
    tip = patient.look.tip
    return ok(f"the key opens {patient.address.text}, main is at {tip[:8] if tip else 'nothing yet'}")


def write_access(patient: Patient) -> Finding:
    """This body may push (AUTH-3): proved by git's own service for it, without writing anything."""
    try:
        patient.way.probe_write()
    except SoulError as error:
        return _refused(patient, error)
    return ok("proved: the server opened its receiving side for this key; nothing was written")


def _refused(patient: Patient, error: SoulError) -> Finding:
    if error.kind == "hostkey":
        return fail(error.message, f"soul-bridge accept-host-key {patient.agent}")
    if isinstance(error, Refused) and error.kind in ("auth", "rejected", "not-a-soul"):
        try:
            line = patient.way.key().line
        except SoulError:
            line = "PUBLIC KEY"
        where = onboarding.where_to_paste(patient.address, line)
        return fail(error.message, f"soul-bridge key show {patient.agent}\n{where}")
    return (warn if isinstance(error, Transient) else fail)(error.message, patient.command("sync"))


def soul(patient: Patient) -> Finding | None:
    """What is at the remote is a soul, and this one (REPO-5, MERGE-5)."""
    tip = patient.remote_tip()
    if patient.repo is None or tip is None:
        return None
    if not patient.repo.has(tip):
        return ok("the remote has commits that were not fetched yet; each pass checks them")
    stranger, theirs = _stranger(patient, tip)
    if stranger is not None:
        return fail(stranger.message, _correct(patient))
    if theirs is None:
        return warn("the soul at the remote does not say who it is", patient.command("sync"))
    return ok(f"the remote is this soul, {theirs}")


def _stranger(patient: Patient, tip: str) -> tuple[Refused | None, str | None]:
    """Why what is at the remote is not this soul, None where it is; and the id that it states."""
    repo, here = patient.repo, patient.tip()
    if repo is None:
        return None, None
    tree = patient.tree(tip)
    theirs = identity.id_of(patient.blob(tree, identity.PATH))
    ours = identity.id_of(patient.blob(patient.tree(here), identity.PATH))
    top = sorted({path.partition("/")[0] for path, _ in repo.files(tree)} - {identity.PATH})
    if here is None:
        return (publish.not_a_soul(top) if theirs is None and not layout.is_soul(top, False) else None), theirs
    related = bool(repo.bases(here, tip)) and (theirs is not None or layout.is_soul(top, False))
    return publish.stranger(ours, theirs, related, top), theirs


def _correct(patient: Patient) -> str:
    return patient.readdress


def history(patient: Patient) -> Finding | None:
    """The remote's history only grew since it was last seen (REPO-4)."""
    known, now = (patient.status or {}).get("remote_tip"), patient.look
    if patient.repo is None or known is None or now is None or not patient.repo.has(known):
        return None
    if now.tip is not None and not patient.repo.has(now.tip):
        return ok("the remote moved on; the next pass fetches what is new")
    standing = publish.standing(known, now, patient.repo.is_ancestor)
    if standing is publish.Standing.REWRITTEN:
        if now.tip is not None and _stranger(patient, now.tip)[0] is not None:
            return fail("the remote's history is none of this soul", _correct(patient))
        return fail("the remote's history was rewritten", patient.command("accept-remote"))
    if standing is publish.Standing.BEHIND:
        # It is believed at the second look (REPO-4).
        looks = f"{patient.command('sync')} || {patient.command('sync')}"
        return warn("the remote stands behind what it had (a restored backup?)", looks)
    return ok("the remote's history only grew")
