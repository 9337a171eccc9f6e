"""The command line as a table: each command, its words, an example. A command exists when its module does."""

from __future__ import annotations

import argparse
import importlib.util
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from bridge import __version__
from bridge.core.words import readable
from bridge.mistyped import SHOWN, Parser

PROGRAM = "soul-bridge"
SHELLS = ("bash", "zsh", "fish")
Adds = Callable[[argparse.ArgumentParser], None]


@dataclass(frozen=True)
class Command:
    """One command. module: the name in bridge.commands. words: (least, most) free words and how they are shown."""

    name: str
    module: str
    summary: str
    examples: tuple[str, ...]
    adds: Adds | None = None
    words: tuple[int, int, str] | None = None


def _agent(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "agent_word", nargs="?", metavar="AGENT", help="the soul; may be left out when exactly one is configured"
    )


def _init(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("agent_word", metavar="AGENT", help="the agent's name")
    parser.add_argument("--remote", metavar="URL", help="git@HOST:OWNER/AGENT.soul.git or ssh://git@HOST[:PORT]/PATH")
    parser.add_argument("--body", metavar="B", help="this body's name (default: this machine's)")
    parser.add_argument("--soul", metavar="DIR", help="where the soul is checked out (default: ~/souls/AGENT.soul)")
    parser.add_argument("--display-name", metavar="N", help="the agent's name as people write it")
    parser.add_argument("--host-key", metavar="FINGERPRINT", help="the host's key, SHA256:…; another one is refused")
    parser.add_argument(
        "--wait", metavar="SECONDS", type=_seconds, help="keep trying so long until the key is authorised"
    )
    parser.add_argument("--offline", action="store_true", help="make the soul without asking the remote")
    parser.add_argument("--take-over", action="store_true", help="be a body that another machine was until now")
    _authorize(parser)


def _authorize(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--authorize", metavar="HOST_KIND", choices=("github", "gitlab", "forgejo"),
        help="github, gitlab or forgejo (also Gitea, Codeberg): add the key by the host's API, with a token from the "
        "environment (GITHUB_TOKEN, GITLAB_TOKEN, FORGEJO_TOKEN) or from gh or glab; the token is kept nowhere",
    )  # fmt: skip
    parser.add_argument("--api", metavar="URL", help="where that API is, if not at the address of the repository")


def _run(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("agents", nargs="*", metavar="AGENT", help="the souls (default: the only one configured)")
    parser.add_argument("--all", action="store_true", help="every soul that is configured")


def _sync(parser: argparse.ArgumentParser) -> None:
    _agent(parser)
    ends = "also end the waits of suspicious mass deletions, and offer again what the server refused"
    parser.add_argument("--now", action="store_true", help=ends)


def _events(parser: argparse.ArgumentParser) -> None:
    _agent(parser)
    parser.add_argument("--follow", action="store_true", help="go on with facts as they come")


def _conflicts(parser: argparse.ArgumentParser) -> None:
    _agent(parser)
    one = parser.add_mutually_exclusive_group()
    one.add_argument("--show", metavar="ID", help="look at one: what it had, beside what stands there now")
    one.add_argument("--dismiss", metavar="ID", help="take one off the list; its version stays in history")


def _status(parser: argparse.ArgumentParser) -> None:
    _agent(parser)
    watch = "go on: redrawn on a terminal, else a line (with --json an object on one line) for each change"
    parser.add_argument("--watch", action="store_true", help=watch)


def _log(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-n", dest="number", metavar="NUMBER", type=_number, help="so many commits at most")


def _restore(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--dry-run", action="store_true", help="only show what would change")


def _number(text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise argparse.ArgumentTypeError(f"{readable(text, SHOWN)!r} is no number of commits")
    return int(text) if len(text) < 19 else sys.maxsize


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"{readable(text, SHOWN)!r} is no number of seconds, 0 or more")
    return value


def _accept_host_key(parser: argparse.ArgumentParser) -> None:
    _agent(parser)
    parser.add_argument("--fingerprint", metavar="FINGERPRINT", help="the key that is right, where nobody can be asked")


def _accept_remote(parser: argparse.ArgumentParser) -> None:
    _agent(parser)
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--merge", action="store_true", help="keep both histories")
    which.add_argument("--theirs", action="store_true", help="take theirs, and lay what was never published on top")


def _validate(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("directory", nargs="?", metavar="DIR", help="the tree to check (default: the soul)")


def _bodies(parser: argparse.ArgumentParser) -> None:
    _agent(parser)
    parser.add_argument("--revoke-steps", metavar="B", help="what to do on each kind of host to revoke a body")


def _key(parser: argparse.ArgumentParser) -> None:
    below = _actions(
        parser,
        {
            "show": "the public key, its fingerprint and where it is",
            "rotate": "a new key beside the old one, taken into use once the host accepts it",
        },
    )
    below["rotate"].add_argument(
        "--wait", metavar="SECONDS", type=_seconds, help="keep trying so long until the new key is authorised"
    )
    _authorize(below["rotate"])


def _consolidate(parser: argparse.ArgumentParser) -> None:
    _agent(parser)
    parser.usage = f"{PROGRAM} consolidate [-h] [--json] [AGENT] -- CMD …"


def _completion(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", metavar="SHELL", choices=SHELLS, help="bash, zsh or fish")


def _service(parser: argparse.ArgumentParser) -> None:
    below = _actions(
        parser,
        {
            "install": "write the unit, enable and start it, and see a whole pass of it",
            "uninstall": "stop it and take every trace of it away, the soul and the keys excepted",
            "status": "whether it is installed, enabled and running, and what it said last",
        },
    )
    for one in below.values():
        one.add_argument("--system", action="store_true", help="for the whole machine, as root, instead of this user")


def _lease(parser: argparse.ArgumentParser) -> None:
    _actions(
        parser,
        {
            "show": "who consolidates memories, and until when",
            "acquire": "take the lease, or renew it when this body has it",
            "renew": "extend the lease of this body",
            "release": "give the lease up",
        },
    )


def _host(parser: argparse.ArgumentParser) -> None:
    below = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    actions = {
        "init": "make an empty repository for a soul",
        "authorize": "let one body's key into one repository, and nowhere else",
        "revoke": "take a key's right away, by fingerprint or comment",
        "list": "which keys open which repositories",
    }
    rows = {
        name: below.add_parser(name, help=summary, description=_sentence(summary)) for name, summary in actions.items()
    }
    for name in ("init", "authorize"):
        rows[name].add_argument("repository", metavar="REPO", help="where it lies, such as kaoru.soul.git")
    rows["authorize"].add_argument(
        "public_key", metavar="PUBKEY", nargs="+", help="what `soul-bridge key show` prints: ssh-ed25519 AAAA…"
    )
    rows["authorize"].add_argument("--read-only", action="store_true", help="it may fetch, and not push")
    rows["revoke"].add_argument("key", metavar="KEY", help="fingerprint, comment or public line")
    for row in rows.values():
        row.add_argument(
            "--authorized-keys", metavar="FILE", help="default: ~/.ssh/authorized_keys of whoever types it"
        )
        _everywhere(row)


def _actions(parser: argparse.ArgumentParser, actions: dict[str, str]) -> dict[str, argparse.ArgumentParser]:
    below = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    made = {}
    for name, summary in actions.items():
        one = made[name] = below.add_parser(name, help=summary, description=_sentence(summary))
        _agent(one)
        _everywhere(one)
    return made


_LEADING = "A first word that is a configured agent's name is the agent; write ./NAME for a path of that name."

COMMANDS = (
    Command(
        "init", "init", "make this machine a body of an agent: key, configuration, first synchronisation",
        ("init kaoru --remote git@github.com:me/kaoru.soul.git", "init kaoru --wait 600",
         "init kaoru --authorize github"), _init,
    ),
    Command("run", "run", "the daemon, in the foreground, for one or several souls",
            ("run", "run kaoru mei", "run --all"), _run),
    Command("sync", "sync", "one pass now, unsettled files included", ("sync", "sync kaoru --now"), _sync),
    Command("status", "status", "state, what is pending, held or in conflict, and what to do about it",
            ("status", "status kaoru --json", "status --watch"), _status),
    Command("doctor", "doctor", "check everything from the configuration to write access; exit 1 if any check fails",
            ("doctor", "doctor kaoru --json"), _agent),
    Command("log", "log", "history in words: when, which body, what", ("log", "log -n 5 memories/MEMORY.md"),
            _log, words=(0, 1, "[PATH]")),
    Command("show", "show", "one commit in words", ("show 1a2b3c4",), words=(1, 1, "COMMIT")),
    Command("diff", "diff", "what changed between two commits, or since one",
            ("diff 1a2b3c4", "diff 1a2b3c4 5d6e7f8 notes/travel/kyoto.md"), words=(1, 3, "A [B] [PATH]")),
    Command("conflicts", "conflicts", "versions that lost a merge in the last 90 days",
            ("conflicts", "conflicts --show 3f2a", "conflicts --dismiss 3f2a"), _conflicts),
    Command("restore", "restore", "bring a lost or old version back as a new commit",
            ("restore 3f2a", "restore --dry-run 3f2a", "restore 1a2b3c4 SOUL.md"), _restore,
            words=(1, 2, "ID | COMMIT PATH")),
    Command("revert", "revert", "take back what one commit did, as a new commit", ("revert 1a2b3c4",),
            words=(1, 1, "COMMIT")),
    Command("bodies", "bodies", "who is in the fleet, with which key, and how to revoke each",
            ("bodies", "bodies --revoke-steps laptop"), _bodies),
    Command("bodies forget", "bodies", "take a dead body out of the registry; its journal stays",
            ("bodies forget laptop",), words=(1, 1, "B")),
    Command("key", "key", "this body's deploy key", ("key show", "key rotate --wait 600"), _key),
    Command("lease", "lease", "the right of one body to consolidate memories", ("lease show", "lease acquire kaoru"),
            _lease),
    Command("consolidate", "consolidate", "run a command that rewrites memories while no other body does",
            ("consolidate -- my-agent dream", "consolidate kaoru -- my-agent dream"), _consolidate),
    Command("pause", "pause", "stop passes; files stay as they are", ("pause", "pause kaoru"), _agent),
    Command("resume", "pause", "let passes go on", ("resume", "resume kaoru"), _agent),
    Command("accept-host-key", "accept_host_key", "accept a host key that changed, after seeing both",
            ("accept-host-key", "accept-host-key --fingerprint SHA256:…"), _accept_host_key),
    Command("accept-remote", "accept_remote", "decide after the remote's history was rewritten, after seeing both",
            ("accept-remote", "accept-remote --merge"), _accept_remote),
    Command("validate", "validate", "check every rule of form; exit 1 if any is broken",
            ("validate", "validate ~/souls/kaoru.soul --json"), _validate),
    Command("events", "events", "facts as JSON lines", ("events", "events --follow"), _events),
    Command("host", "host", "on a server of your own: repositories, and the keys that open them",
            ("host init kaoru.soul.git", "host authorize kaoru.soul.git 'ssh-ed25519 AAAA… kaoru.laptop'",
             "host revoke kaoru.laptop"), _host),
    Command("service", "service", "the daemon as a service of systemd",
            ("service install", "service status kaoru", "service install kaoru --system"), _service),
    Command("demo", "demo", "two bodies and a git host in a temporary directory, working before your eyes", ("demo",)),
    Command("completion", "completion", "a script that completes this program's words in a shell",
            ("completion bash", "completion fish"), _completion),
    Command("man", "man", "the manual page, as roff", ("man > soul-bridge.1", "man | man -l -")),
)  # fmt: skip


def build() -> Parser:
    """The parser: `command`, `module` and `agent_word`, `words`, … as each command wants them."""
    parser = Parser(
        prog=PROGRAM,
        description="Keeps one agent's memories the same on every machine that carries it.",
        epilog="Exit codes: 0 done, 1 failed, 2 usage or configuration, 3 refused by a rule, 4 authentication,\n"
        "5 remote unreachable (work is safe locally), 6 lease not held.\n\n"
        "Start with:  soul-bridge init AGENT --remote git@HOST:OWNER/AGENT.soul.git",
    )
    parser.add_argument("--version", action="version", version=f"{PROGRAM} {__version__}")
    _everywhere(parser)
    below = parser.add_subparsers(dest="command", metavar="COMMAND")
    for command in COMMANDS:
        if importlib.util.find_spec(f"bridge.commands.{command.module}"):
            _register(below, command)
    return parser


def joined(argv: Sequence[str]) -> list[str]:
    """The words typed, where a command of two words is one: `bodies` takes an agent or `forget`."""
    words = list(argv)
    plain = [at for at, word in enumerate(words) if word[:1] != "-" and words[:at][-1:] != ["--agent"]][:2]
    if len(plain) == 2:
        name = f"{words[plain[0]]} {words[plain[1]]}"
        if any(command.name == name for command in COMMANDS):
            del words[plain[1]]
            words[plain[0]] = name
    return words


def parted(argv: Sequence[str]) -> tuple[list[str], list[str]]:
    """Our own words, and those behind "--" where they are another program's (`consolidate`)."""
    words = list(argv)
    end = words.index("--") if "--" in words else len(words)
    plain = [word for at, word in enumerate(words[:end]) if word[:1] != "-" and words[:at][-1:] != ["--agent"]]
    return (words[:end], words[end + 1 :]) if plain[:1] == ["consolidate"] else (words, [])


def _register(below: Any, command: Command) -> None:
    note = f"\n{_LEADING}\n" if command.words else ""
    examples = "\n".join(f"  {PROGRAM} {example}" for example in command.examples)
    parser = below.add_parser(
        command.name,
        help=command.summary,
        description=_sentence(command.summary),
        epilog=f"{note}examples:\n{examples}".lstrip(),
    )
    parser.set_defaults(module=command.module, words=[])
    if command.adds:
        command.adds(parser)
    if command.words:
        least, most, shown = command.words
        own = "".join(f" [{_flag(action)}]" for action in parser._actions if action.dest != "help")
        parser.add_argument("words", nargs="*", metavar=shown, help=argparse.SUPPRESS)
        parser.usage = f"{PROGRAM} {command.name} [-h] [--json] [--agent AGENT]{own} {shown}"
        parser.set_defaults(least=least, most=most, shown=shown, words=None)
    _everywhere(parser)


def _flag(action: argparse.Action) -> str:
    flag = action.option_strings[0]
    return f"{flag} {action.metavar}" if action.nargs != 0 else flag


def _everywhere(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--json", action="store_true", default=argparse.SUPPRESS, help="one JSON document on standard output"
    )
    parser.add_argument(
        "--agent", metavar="AGENT", default=argparse.SUPPRESS, help="the soul, also where it may be the first word"
    )


def _sentence(summary: str) -> str:
    return f"{summary[0].upper()}{summary[1:]}."
