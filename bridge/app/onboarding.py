"""What a person is told on the way to a synchronised soul, and where a soul must not be laid."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from bridge.core import forges, identity
from bridge.core.address import Address
from bridge.core.errors import Refused, SoulError, Transient, Unusable

_BOXES = {
    "github": "Allow write access",
    "gitlab": "Grant write permissions to this key",
    "forgejo": "Enable write access",
}


def body_name(host: str) -> str:
    """A body's name from a machine's: lower-case letters, digits and "-", "body" when nothing is left."""
    return identity.suggestion(host.partition(".")[0]) or "body"


def where_to_paste(address: Address, public_line: str) -> str:
    """Exactly where a deploy key goes on this host, in words for people (AUTH-3)."""
    kind = forges.kind(address.host)
    if kind is not None:
        page = forges.keys_page(kind, address) + ("/new" if kind == "github" else "")
        return f'Open {page}, paste the line, tick "{_BOXES[kind]}".'
    place = _place(address)
    cases = "".join(f"'git-{name} '*) exec git-{name} '{place}';; " for name in ("upload-pack", "receive-pack"))
    command = f'case \\"$SSH_ORIGINAL_COMMAND\\" in {cases}*) exit 1;; esac'
    forge = (
        f"On a GitLab, Forgejo or Gitea at {address.host}: the repository's settings, Deploy keys, with write access.\n"
        if forges.possible(address)
        else ""
    )
    return (
        f"{forge}On your own server, as its user {address.user}: soul-bridge host authorize {place} '{public_line}'\n"
        f"or, without soul-bridge there, this line in ~{address.user}/.ssh/authorized_keys, with the place where the\n"
        f'repository lies:\nrestrict,command="{command}" {public_line}'
    )


def _place(address: Address) -> str:
    """The repository as it is named on an own server: one in the home needs no folder, whatever form is asked for."""
    path = address.path
    return path.removeprefix("/") if path.startswith("/~") or path.count("/") == 1 else path


def not_authorised(address: Address, public_line: str, again: str, error: Refused, *, begun: bool = False) -> Refused:
    """The refusal of a key that the host does not accept yet, with what to do next.

    A host that knows no such key, or none for this repository, says the same as one that has no such repository.
    again: the command that goes on. begun: the soul lives here already.
    """
    read_only = re.search(r"read.?only", error.message, re.IGNORECASE)
    doubt = "" if read_only else ", or has no such repository"
    first = (
        "Delete it there and add it again, as a deploy key with write access"
        if read_only
        else f"Is {forges.repository(address)} made, and spelt so? Then add the key as a deploy key with write access"
    )
    safe = "what is here stays as it is" if begun else "nothing was written yet"
    return Refused(
        f"the host does not accept this body's key for {address.text} with write access{doubt}: {error.message}",
        kind="auth",
        rule="AUTH-3",
        advice=f"{first} (Allow write access):\n\n{public_line}\n\n{where_to_paste(address, public_line)}\n"
        f"Then run `{again}` again; {safe}.{by_token(address, again)}",
    )


def by_token(address: Address, command: str) -> str:
    """The line that says that a well-known host can be asked to add the key, "" for any other one."""
    kind = forges.kind(address.host)
    return f"\nOr have it added, with a token: {command} --authorize {kind}" if kind else ""


def unreached(agent: str, again: str, error: Transient, detour: str) -> Transient:
    """The failure of an `init` that nobody answered, with what to do next.

    again: the command that goes on. detour: the way round a closed port.
    """
    before = f"{detour}\n" if detour and detour in error.advice else ""
    return Transient(
        error.message,
        kind=error.kind,
        rule=error.rule,
        advice=f"{before}Key and configuration are made, nothing else was written. Go on once the host can be "
        f"reached: {again}\n"
        f"If the address is mistyped: {again} --remote git@HOST:OWNER/{agent}.soul.git"
        f"\nOr begin without it: {again} --offline",
    )


def detour(address: Address, agent: str, configuration: Path, begun: bool) -> str:
    """What to type where a network lets nobody out on port 22, "" where the host answers nowhere else.

    begun: the soul is here already, so that only its configuration says where the remote is.
    """
    other = forges.detour(address)
    if other is None:
        return ""
    host = other.partition("@")[2].partition("/")[0].replace(":", ", port ")
    told = f"Networks may close port {address.port}. The same server answers at {host}, with the same host keys:\n"
    return told + (moved(other, agent, configuration) if begun else f"soul-bridge init {agent} --remote {other}")


def moved(remote: str, agent: str, configuration: Path) -> str:
    """The command that changes the remote's address, and pins the host's key under its new name."""
    edit = f"sed -i 's|^remote:.*|remote: {remote}|' {shlex.quote(str(configuration))}"
    return f"{edit} && soul-bridge accept-host-key {agent}"


def configured_otherwise(agent: str, name: str, values: tuple[str, str], gone: bool, configuration: Path) -> Unusable:
    """The refusal of an `init` that names another remote, body or folder than the soul lives with already.

    name: which of the three. values: as it is, and as it was named. gone: the checkout is not there. A body keeps its
    name and an agent its id (MERGE-5): what a person may do about that by hand is told, and done by nobody.
    """
    before, value = values
    again = f"soul-bridge init {agent}"
    rule, how = "", f"or change it in {configuration}."
    if name == "body":
        how = (
            f"or go on as a new body, with a key of its own to be added at the host:\n"
            f"sed -i 's|^body:.*|body: {value}|' {shlex.quote(str(configuration))} && {again}\n"
            f"and then take the old name out of the registry:\nsoul-bridge bodies forget {before} --agent {agent}"
        )
    elif name == "remote":
        rule = "MERGE-5"
        edit = f"sed -i 's|^remote:.*|remote: {value}|' {shlex.quote(str(configuration))}"
        first = (
            f"bring the checkout back first, which shows whether it is the same agent:\n{again}\nThen, " if gone else ""
        )
        how = f"or, {first}if the agent moved there:\n{edit} && {again}"
    return Unusable(
        f"{agent} is already configured with {name} {before}, not {value}",
        rule=rule,
        advice=f"Nothing was changed. Leave --{name} out, {how}",
    )


def another_agent(agent: str, found: str, again: str, remote: str, left: list[Path]) -> Refused:
    """The refusal to join a soul under another agent's name. again: the right command. left: of the wrong name."""
    gone = " ".join(shlex.quote(str(path)) for path in left)
    return Refused(
        f"the soul at {remote} is {found}'s, not {agent}'s",
        kind="identity",
        rule="REPO-1",
        advice=f"Nothing was joined. To carry {found} here: {again}\n"
        f"Nobody needs what was made for {agent}: rm {gone}\n"
        f"Or, if the address is wrong: soul-bridge init {agent} --remote git@HOST:OWNER/{agent}.soul.git",
    )


def no_soul_there(agent: str, error: SoulError) -> Refused:
    """The refusal of a remote that is no soul, of an `init` of which nothing has come: its address is still free."""
    return Refused(
        error.message,
        kind=error.kind,
        rule=error.rule,
        advice=f"Nothing was written there. Use an empty repository, or correct the address:\n"
        f"soul-bridge init {agent} --remote git@HOST:OWNER/{agent}.soul.git",
    )


def refuse_place(soul: Path, home: Path, private: list[Path]) -> None:
    """Raise when a soul must not be laid here: the root, a home directory, or a folder with keys in it (CONTENT-2)."""
    real = soul.resolve()
    if real == Path(real.anchor) or real == home.resolve():
        raise Unusable(
            f"{soul} cannot be a soul: everything in it would be published",
            kind="config",
            rule="REPO-5",
            advice="Choose a folder of its own with --soul.",
        )
    for place in private:
        if real in (place.resolve(), *place.resolve().parents):
            raise Refused(
                f"{place} is inside {soul}: keys and configuration must not lie in a soul",
                kind="rule",
                rule="CONTENT-2",
                advice="Choose another folder with --soul; nothing was written.",
            )


def other_host(agent: str, body: str, registered: str, host: str) -> Refused:
    """The refusal of a body's name that another machine carries."""
    return Refused(
        f"the body {body} is registered for the machine {registered}, and this one is {host}",
        kind="rule",
        rule="MERGE-9",
        advice=f"Choose another name with --body, or, if {registered} no longer runs it, "
        f"`soul-bridge init {agent} --take-over`.",
    )
