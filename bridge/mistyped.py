"""Words that no command takes: refused, with what was probably meant."""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

from bridge.core.errors import Unusable
from bridge.core.words import readable

SHOWN = 60  # characters of a word that a refusal repeats
_ACTION = "ACTION"
_CALLED = {"COMMAND": "command", _ACTION: "action", "HOST_KIND": "kind of host"}


class Parser(argparse.ArgumentParser):
    """Raises Unusable(kind="usage") where argparse would print and exit."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"allow_abbrev": False, "formatter_class": argparse.RawDescriptionHelpFormatter, **options})

    def error(self, message: str) -> NoReturn:
        """Refuse what was typed."""
        if message.endswith(f"required: {_ACTION}") and (below := _below(self)):
            message = f"an action is needed: {', '.join(below)}"
        raise Unusable(message, kind="usage", advice=f"{self.prog} --help")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Refuse a word that is none of the choices, with the nearest one where there is one."""
        if action.choices is None or value in action.choices:
            return
        what = _CALLED.get(str(action.metavar), str(action.metavar).lower())
        known = [str(choice) for choice in action.choices]
        near = nearest(str(value), known)
        hint = f"did you mean {' or '.join(near)}?" if near else f"known are {', '.join(known)}"
        again = f"{self.prog} {near[0]}" if near and isinstance(action, argparse._SubParsersAction) else self.prog
        raise Unusable(
            f"there is no {what} {value!r}: {hint}",
            kind="usage",
            advice=f"{again} --help",
        )


def nearest(word: str, known: Iterable[str]) -> list[str]:
    """The known words that somebody who typed this may have meant, best first; two at most."""
    names = list(known)
    begun = [name for name in names if len(word) > 1 and name.startswith(word.lower())]
    return (begun or difflib.get_close_matches(word.lower(), names, n=2, cutoff=0.6))[:2]


def parse(parser: Parser, words: Sequence[str]) -> argparse.Namespace:
    """What the words mean. Raises Unusable for one that is left over, with the nearest that the command takes."""
    arguments, left = parser.parse_known_args(words)
    if left:
        raise _left_over(parser, arguments, left[0])
    return arguments


def _left_over(parser: argparse.ArgumentParser, arguments: argparse.Namespace, word: str) -> Unusable:
    one = parser
    for name in (arguments.command, getattr(arguments, "action", None)):
        one = _below(one).get(str(name), one)
    advice = f"{one.prog} --help"
    if word.startswith("-"):
        known = [flag.lstrip("-") for action in one._actions for flag in action.option_strings if flag[:2] == "--"]
        near = [f"--{flag}" for flag in nearest(word.partition("=")[0].lstrip("-"), known)]
    else:
        # Of a command of two words the second was taken for an agent.
        named = getattr(arguments, "agent_word", None)
        near = nearest(f"{arguments.command} {named}", [name for name in _below(parser) if " " in name])
        advice = f"{parser.prog} {near[0]} --help" if near else advice
    hint = f": did you mean {' or '.join(near)}?" if near else ""
    return Unusable(f"{one.prog} takes no {readable(word, SHOWN)!r}{hint}", kind="usage", advice=advice)


def _below(parser: argparse.ArgumentParser) -> dict[str, Any]:
    """The commands of the program, or the actions of a command, each with its parser."""
    found = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    return dict(found[0].choices) if found else {}
