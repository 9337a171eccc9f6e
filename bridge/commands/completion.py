"""`completion`: what a shell needs to complete this program's words, made from the table of commands."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from bridge import cli_parser
from bridge.commands.context import Context

AGENTS = "AGENTS"
DIRECTORIES = "DIRECTORIES"


@dataclass
class Level:
    """What may follow some words. below: next words, with what they mean. options: flags, with what they mean.

    operand: AGENTS, DIRECTORIES, the words to choose from, or "".
    """

    below: dict[str, str] = field(default_factory=dict)
    options: dict[str, str] = field(default_factory=dict)
    operand: str = ""


def run(arguments: argparse.Namespace, context: Context) -> int:
    """Print the script."""
    script = SHELLS[arguments.shell](levels(), valued())
    context.answer({"shell": arguments.shell, "script": script}, script)
    return 0


def levels() -> dict[str, Level]:
    """Every sequence of words that names a command or a part of one ("": none yet), and what may follow it."""
    found: dict[str, Level] = {}
    _collect(cli_parser.build(), "", found)
    for name in [name for name in found if " " in name]:
        first, _, second = name.rpartition(" ")
        if name in found[""].below:
            found[first].below[second] = found[""].below.pop(name)
    return found


def valued() -> list[str]:
    """Options that take a value, whatever the command."""
    return sorted({flag for parser in _parsers(cli_parser.build()) for flag, takes in _flags(parser) if takes})


def _collect(parser: argparse.ArgumentParser, name: str, found: dict[str, Level]) -> None:
    level = found[name] = Level()
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            level.below |= {choice.dest: _plain(choice.help) for choice in action._choices_actions}
            for word, below in action.choices.items():
                _collect(below, f"{name} {word}".strip(), found)
        elif action.option_strings:
            level.options |= {flag: _plain(action.help) for flag in action.option_strings if flag != "-h"}
        else:
            level.operand = level.operand or _operand(action)


def _operand(action: argparse.Action) -> str:
    if action.choices is not None:
        return " ".join(map(str, action.choices))
    if action.dest == "directory":
        return DIRECTORIES
    return AGENTS if action.dest in ("agent_word", "agents", "words") else ""


def _parsers(parser: argparse.ArgumentParser) -> list[argparse.ArgumentParser]:
    found = [parser]
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            found += [one for below in action.choices.values() for one in _parsers(below)]
    return found


def _flags(parser: argparse.ArgumentParser) -> list[tuple[str, bool]]:
    return [(flag, action.nargs != 0) for action in parser._actions for flag in action.option_strings]


def _plain(text: str | None) -> str:
    return (text or "").replace("\n", " ")


def bash(found: Mapping[str, Level], takes_value: list[str]) -> str:
    """A script for bash 4 or newer: `eval "$(soul-bridge completion bash)"`."""
    more = {AGENTS: 'words="$words $(_soul_bridge_agents)" ', DIRECTORIES: "directories=1 ", "": ""}
    cases = []
    for name, level in found.items():
        words, flags = (shlex.quote(" ".join(some)) for some in (level.below, level.options))
        operand = more.get(level.operand, f'words="$words {level.operand}" ')
        cases.append(f"        {shlex.quote(name)}) words={words}; options={flags}; {operand};;".replace("; ;;", " ;;"))
    return _filled(_BASH, found, takes_value, cases)


def zsh(found: Mapping[str, Level], takes_value: list[str]) -> str:
    """A script for zsh: `eval "$(soul-bridge completion zsh)"` after compinit, or a file `_soul-bridge` in fpath."""
    more = {AGENTS: ' offered+=(${(f)"$(_soul_bridge_agents)"})', DIRECTORIES: " directories=1", "": ""}
    cases = []
    for name, level in found.items():
        words, flags = (
            " ".join(shlex.quote(f"{word}:{text}") for word, text in some.items())
            for some in (level.below, level.options)
        )
        operand = more.get(level.operand, f" offered+=({level.operand})")
        cases.append(f"        {shlex.quote(name)}) offered=({words}); options=({flags});{operand} ;;")
    return _filled(_ZSH, found, takes_value, cases)


def _filled(template: str, found: Mapping[str, Level], takes_value: list[str], cases: list[str]) -> str:
    """A template of bash or zsh: the list of agents, the walk over the words before the cursor, a case per level."""
    known = "|".join(shlex.quote(name) for name in found if name)
    walk = _WALK.replace("@VALUED@", "|".join(takes_value)).replace("@KNOWN@", known)
    return template.replace("@AGENTS@", _LIST).replace("@WALK@", walk).replace("@CASES@", "\n".join(cases))


def fish(found: Mapping[str, Level], takes_value: list[str]) -> str:
    """A script for fish: `soul-bridge completion fish | source`."""
    known = " ".join(_single(name) for name in found if name)
    lines = [_FISH.replace("@VALUED@", " ".join(takes_value)).replace("@KNOWN@", known)]
    named = {AGENTS: "(__soul_bridge_agents)", DIRECTORIES: "(__fish_complete_directories)"}
    for name, level in found.items():
        start = f"complete -c soul-bridge -n {_single(f'__soul_bridge_at {_single(name)}')}"
        lines += [f"{start} -a {word} -d {_single(text)}" for word, text in level.below.items()]
        for flag, text in level.options.items():
            value = " -x" if flag in takes_value else ""
            choice = {"--agent": f" -a '{named[AGENTS]}'", "--soul": f" -a '{named[DIRECTORIES]}'"}.get(flag, "")
            lines.append(f"{start} -l {flag.removeprefix('--')}{value}{choice} -d {_single(text)}")
        if level.operand:
            lines.append(f"{start} -a {_single(named.get(level.operand, level.operand))}")
    return "\n".join(lines) + "\n"


def _single(text: str) -> str:
    """A word of fish."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


_LIST = """_soul_bridge_agents() {
    local directory="${SOUL_BRIDGE_HOME:+$SOUL_BRIDGE_HOME/config}"
    command ls -- "${directory:-${XDG_CONFIG_HOME:-$HOME/.config}/soul-bridge}" 2>/dev/null | sed -n 's/\\.yaml$//p'
}"""
_WALK = """    for word in "${typed[@]}"; do
        if [[ -n $skip ]]; then skip=""; continue; fi
        case "$word" in
            --) beyond=1; break ;;
            @VALUED@) skip="$word" ;;
            -*) ;;
            *)
                case "${at:+$at }$word" in
                    @KNOWN@) at="${at:+$at }$word" ;;
                esac ;;
        esac
    done"""
_BASH = """# Completion of soul-bridge for bash. For good: soul-bridge completion bash > \\
#   ~/.local/share/bash-completion/completions/soul-bridge
@AGENTS@
_soul_bridge() {
    local current="${COMP_WORDS[COMP_CWORD]}" at="" skip="" beyond="" words="" options="" directories="" word
    local -a typed=("${COMP_WORDS[@]:1:COMP_CWORD-1}")
    COMPREPLY=()
@WALK@
    if [[ -n $beyond ]]; then
        [[ $at == consolidate ]] && mapfile -t COMPREPLY < <(compgen -c -- "$current")
        return
    fi
    case "$skip" in
        --agent) words="$(_soul_bridge_agents)" ;;
        --soul) directories=1 ;;
        "") case "$at" in
@CASES@
        esac ;;
    esac
    [[ $current == -* ]] && words="$options" directories=""
    if [[ -n $directories ]]; then
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -d -- "$current")
    fi
    while IFS= read -r word; do COMPREPLY+=("$word"); done < <(compgen -W "$words" -- "$current")
}
complete -F _soul_bridge soul-bridge
"""
_ZSH = """#compdef soul-bridge
# Completion of soul-bridge for zsh. For good: put it into a file _soul-bridge in a directory of $fpath.
@AGENTS@
_soul_bridge() {
    local at="" skip="" beyond="" directories="" word
    local -a typed offered options
    typed=("${words[@]:1:$((CURRENT - 2))}")
@WALK@
    if [[ -n $beyond ]]; then
        [[ $at == consolidate ]] && _command_names -e
        return
    fi
    case "$skip" in
        --agent) offered=(${(f)"$(_soul_bridge_agents)"}) ;;
        --soul) directories=1 ;;
        "") case "$at" in
@CASES@
        esac ;;
    esac
    [[ $PREFIX == -* ]] && offered=("${options[@]}") directories=""
    [[ -n $directories ]] && _files -/
    (( ${#offered} )) && _describe 'soul-bridge' offered
}
if [[ "${zsh_eval_context[-1]}" == loadautofunc ]]; then
    _soul_bridge "$@"
else
    compdef _soul_bridge soul-bridge
fi
"""
_FISH = """# Completion of soul-bridge for fish. For good: soul-bridge completion fish > \\
#   ~/.config/fish/completions/soul-bridge.fish
function __soul_bridge_agents
    set -l directory $HOME/.config/soul-bridge
    set -q XDG_CONFIG_HOME; and set directory $XDG_CONFIG_HOME/soul-bridge
    set -q SOUL_BRIDGE_HOME; and set directory $SOUL_BRIDGE_HOME/config
    command ls -- $directory 2>/dev/null | string replace -rf '\\.yaml$' ''
end
function __soul_bridge_at
    set -l at
    set -l skip
    for word in (commandline -opc)[2..-1]
        if set -q skip[1]
            set skip
        else if test "$word" = --
            return 1
        else if contains -- $word @VALUED@
            set skip $word
        else if not string match -q -- '-*' $word
            set -l longer (string trim -- "$at $word")
            contains -- $longer @KNOWN@; and set at $longer
        end
    end
    test "$at" = "$argv[1]"
end
complete -c soul-bridge -f
"""
SHELLS: Mapping[str, Callable[[Mapping[str, Level], list[str]], str]] = MappingProxyType(
    {"bash": bash, "zsh": zsh, "fish": fish}
)
