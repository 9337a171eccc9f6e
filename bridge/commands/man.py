"""`man`: the manual page, made from the table of commands."""

from __future__ import annotations

import argparse
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence, Set
from datetime import UTC, datetime
from types import MappingProxyType

from bridge import __version__, cli_parser
from bridge.commands.context import Context

DESCRIPTION = (
    "soul-bridge watches the files of an agent (personality, memories, journal, notes), records every change as a git "
    "commit, and exchanges commits with one private repository over SSH. Memories merge entry by entry; where only one "
    "version can stay, the other remains in history and \\fBrestore\\fP brings it back. Nothing stops for a person, "
    "and what the agent writes is never inspected.",
    "A first machine and every next one are set up with \\fBinit\\fP; \\fBservice install\\fP lets the daemon run; "
    "\\fBstatus\\fP says how it is, and \\fBdoctor\\fP what to do about it.",
)
FILES: Mapping[str, str] = MappingProxyType(
    {
        "~/.config/soul-bridge/AGENT.yaml": "the configuration of one soul",
        "~/.config/soul-bridge/keys/AGENT.BODY": "this body's private key; the public one has .pub behind its name",
        "~/.config/soul-bridge/known_hosts": "the pinned host keys",
        "~/.local/state/soul-bridge/AGENT/": "status.json, events.jsonl, lock and control.sock of the daemon",
        "~/.local/state/soul-bridge/errors.log": "what only a fault of this program leaves",
        "~/souls/AGENT.soul": "the soul, a git checkout",
        "/etc/soul-bridge/, /var/lib/soul-bridge/": "configuration, keys and state of a service of the whole machine",
    }
)
ENVIRONMENT: Mapping[str, str] = MappingProxyType(
    {
        "SOUL_BRIDGE_HOME": "a directory that all of the files above lie below: config/, keys/, known_hosts, state/, "
        "souls/",
        "SOUL_BRIDGE_LOG": "the level of the log on standard error: debug, info, warning or error",
        "NO_COLOR": "when not empty, the log has no colours",
        "XDG_CONFIG_HOME, XDG_STATE_HOME": "used instead of ~/.config and ~/.local/state",
        "CONFIGURATION_DIRECTORY, STATE_DIRECTORY, CREDENTIALS_DIRECTORY": "set by systemd for a service; the first "
        "two also by whoever speaks to a service of the whole machine",
        "NOTIFY_SOCKET, JOURNAL_STREAM": "set by systemd: where the daemon says that it is ready and gets on, and "
        "whether the journal reads along",
        "GITHUB_TOKEN, GITLAB_TOKEN, FORGEJO_TOKEN": "read only where a command is asked to use a host's interface, "
        "and kept nowhere",
        "EDITOR": "named by the advice of \\fBdoctor\\fP",
    }
)
EXITS: Mapping[int, str] = MappingProxyType(
    {
        0: "done, also when some paths wait or are set aside; of status, whenever it could tell",
        1: "failed for another reason: refused by the server's hook, a second daemon, or validate or doctor found "
        "something",
        2: "wrong usage or configuration",
        3: "refused by a rule: another identity, a rewritten remote, not a soul, a key inside the soul",
        4: "authentication: key missing, unsafe, not authorised or read-only; host key unknown or changed",
        5: "the remote cannot be reached; work is safe here",
        6: "another body holds the lease, or this one does not and must",
    }
)
_OWN = re.compile(r"(\\f[BIPR])")


def run(arguments: argparse.Namespace, context: Context) -> int:
    """Print the page."""
    text = page(datetime.fromtimestamp(context.clock.now(), UTC).strftime("%Y-%m-%d"))
    context.answer({"page": text}, text)
    return 0


def page(date: str) -> str:
    """The page as roff, for `man -l` and what installs it. date: year, month and day of making it."""
    top = cli_parser.build()
    name = cli_parser.PROGRAM
    lines = [f'.TH {name.upper()} 1 "{date}" "{name} {__version__}" "User Commands"', ".SH NAME"]
    lines += [f"{name} \\- {_text(_lowered(top.description))}", ".SH SYNOPSIS"]
    lines += [f"\\fB{_text(name)}\\fP [\\fIOPTION\\fP...] \\fICOMMAND\\fP [\\fIARGUMENT\\fP...]", ".SH DESCRIPTION"]
    lines += [line for paragraph in DESCRIPTION for line in (".PP", _mixed(paragraph))][1:]
    lines += [".SH OPTIONS", "Before the command or behind it:", *_options(top), ".SH COMMANDS"]
    lines += [
        "A command with \\fIAGENT\\fP needs none when exactly one soul is configured. Each takes "
        "\\fB\\-\\-json\\fP, \\fB\\-\\-agent\\fP and \\fB\\-\\-help\\fP."
    ]
    for words, parser in commands(top):
        lines += _command(words, parser)
    lines += [".SH FILES", *_table(FILES), ".SH ENVIRONMENT", *_table(ENVIRONMENT)]
    lines += [".SH EXIT STATUS", *_table({str(code): text for code, text in EXITS.items()})]
    lines += [".PP", "With \\fB\\-\\-\\fP \\fICOMMAND\\fP, \\fBconsolidate\\fP ends with that command's own code."]
    lines += [".SH SEE ALSO", ".BR git (1),", ".BR ssh\\-keygen (1),", ".BR systemctl (1),", ".BR journalctl (1)"]
    return "\n".join(_laid(lines)) + "\n"


def commands(parser: argparse.ArgumentParser, before: str = "") -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Every command and every action of one, with the words that name it, in the order of the table."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for word, below in action.choices.items():
                yield f"{before} {word}".strip(), below
                yield from commands(below, f"{before} {word}".strip())


def _command(words: str, parser: argparse.ArgumentParser) -> list[str]:
    usage = " ".join(parser.format_usage().split()).removeprefix("usage: ")
    rest = usage.removeprefix(f"{cli_parser.PROGRAM} {words}")
    for everywhere in ("[-h]", "[--json]", "[--agent AGENT]"):
        rest = rest.replace(f" {everywhere}", "")
    shown = f"\\fB{_text(f'{cli_parser.PROGRAM} {words}')}\\fP {_text(rest.strip())}".rstrip()
    if not any(isinstance(action, argparse._SubParsersAction) for action in parser._actions):
        lines = [f".SS {_text(words)}", shown, ".PP", _text(parser.description or "")]
    else:
        lines = [f".SS {_text(words)}", _text(parser.description or "")]
    lines += _options(parser, without={"help", "json", "agent"})
    examples = (parser.epilog or "").partition("examples:\n")
    if examples[0].strip():
        lines += [".PP", _text(examples[0].strip())]
    if examples[2]:
        lines += [".PP", "Examples:", ".PP", ".RS 4", ".nf"]
        lines += [_text(line.strip()) for line in examples[2].splitlines() if line.strip()] + [".fi", ".RE"]
    return lines


def _options(parser: argparse.ArgumentParser, without: Set[str] = frozenset()) -> list[str]:
    lines = []
    for action in parser._actions:
        hidden = action.help == argparse.SUPPRESS or action.dest in without
        if hidden or isinstance(action, argparse._SubParsersAction):
            continue
        value = action.metavar if isinstance(action.metavar, str) else ""
        flags = ", ".join(f"\\fB{_text(flag)}\\fP" for flag in action.option_strings)
        tag = f"{flags} \\fI{_text(value)}\\fP" if flags and action.nargs != 0 and value else flags
        lines += [".TP", tag or f"\\fI{_text(value)}\\fP", _text(action.help or "")]
    return lines


def _table(rows: Mapping[str, str]) -> list[str]:
    return [line for tag, text in rows.items() for line in (".TP", f"\\fB{_text(tag)}\\fP", _mixed(text))]


def _lowered(sentence: str | None) -> str:
    words = (sentence or "").rstrip(".")
    return words[:1].lower() + words[1:]


def _mixed(text: str) -> str:
    """A text of ours that changes fonts by itself."""
    return "".join(part if _OWN.fullmatch(part) else _text(part) for part in _OWN.split(text))


def _text(text: str) -> str:
    """Plain words as roff: nothing in them is a command, and everything can be typed as it is shown."""
    shown = text.replace("\n", " ").replace("…", "...").replace("›", ">")
    plain = {"\\": "\\e", "-": "\\-", "'": "\\(aq", "`": "\\(ga", "~": "\\(ti", "^": "\\(ha", '"': "\\(dq"}
    written = "".join(plain.get(sign, sign if ord(sign) < 127 else f"\\[u{ord(sign):04X}]") for sign in shown)
    return re.sub(r"(^|(?<= ))\.", r"\\&.", written)


def _laid(lines: Sequence[str]) -> Iterator[str]:
    """Text in lines of a length that every reader of roff takes; examples and tags stay one line each."""
    whole = False
    for before, line in zip(["", *lines], lines, strict=False):
        whole = line == ".nf" or (whole and line != ".fi")
        if line.startswith(".") or whole or before == ".TP":
            yield line
        else:
            yield from textwrap.wrap(line, 79, break_long_words=False, break_on_hyphens=False)
