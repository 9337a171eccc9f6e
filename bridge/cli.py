"""`soul-bridge`: what was typed, handed to one command; what came of it, as an exit code.

Nothing a user can cause ends in a traceback; a bug is one line, and its traceback goes to a file.
"""

from __future__ import annotations

import argparse
import errno
import importlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from bridge import cli_parser, mistyped
from bridge.adapters import config, folders
from bridge.commands.context import Context, Unwritten
from bridge.core.errors import SoulError, Unusable

_INTERRUPTED = 130
_PIPE_CLOSED = 141
_LARGEST = 1024 * 1024  # bytes of errors.log before it begins anew


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code. `argv` without the program's name (default: what was typed)."""
    if argv is None and sys.getfilesystemencoding() != "utf-8":
        # Names of files are UTF-8 in every soul: read by another alphabet they would become other names.
        os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]])  # noqa: S606 - ourselves
    for stream in (sys.stdout, sys.stderr):
        _tolerant(stream)
    try:
        code = _code(sys.argv[1:] if argv is None else argv)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return _INTERRUPTED
    except OSError as error:
        # Nothing more can be said on that stream, not even at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if error.errno == errno.EPIPE:
            return _PIPE_CLOSED
        sys.stderr.write(f"{cli_parser.PROGRAM}: the answer could not be written: {error.strerror}\n")
        return 1
    return code


def _code(argv: Sequence[str]) -> int:
    try:
        return run(argv, config.locate(), sys.stdout, sys.stderr)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0


def run(argv: Sequence[str], places: config.Places, out: TextIO, err: TextIO) -> int:
    """Run one command with these places and streams; returns its exit code. Raises Unwritten, KeyboardInterrupt.

    `--help` and `--version` print to the real standard output and raise SystemExit(0).
    """
    own = argv[: argv.index("--")] if "--" in argv else argv
    context = Context(places, "--json" in own, out, err, typed=tuple(argv))
    try:
        arguments = _arguments(argv, context)
        command = importlib.import_module(f"bridge.commands.{arguments.module}")
        return int(command.run(arguments, context))
    except SoulError as error:
        if context.places.log == "debug":
            import traceback

            traceback.print_exc(file=context.err)
        return context.fail(error)
    except Unwritten:
        raise
    except Exception as error:  # noqa: BLE001 - the last line of defence: every bug ends here, and is told
        return context.fail(_bug(error, context))


def _arguments(argv: Sequence[str], context: Context) -> argparse.Namespace:
    parser = cli_parser.build()
    own, rest = cli_parser.parted(argv)
    arguments = mistyped.parse(parser, cli_parser.joined(own))
    arguments.rest = rest
    if arguments.command is None:
        raise Unusable("a command is needed", kind="usage", advice=f"{cli_parser.PROGRAM} --help")
    named = {str(name) for name in map(vars(arguments).get, ("agent", "agent_word")) if name is not None}
    if len(named) > 1:
        raise Unusable(f"two souls are named: {' and '.join(sorted(named))}", kind="usage", advice="name one")
    arguments.agent = named.pop() if named else None
    if "least" in arguments:
        _take_agent_off(arguments, context)
    return arguments


def _take_agent_off(arguments: argparse.Namespace, context: Context) -> None:
    words = list(arguments.words)
    if words and arguments.agent is None and words[0] in config.agents(context.places):
        arguments.agent = words.pop(0)
    if not arguments.least <= len(words) <= arguments.most:
        raise Unusable(
            f"{arguments.command} takes {arguments.shown}, not {' '.join(words) or 'nothing'}",
            kind="usage",
            advice=f"{cli_parser.PROGRAM} {arguments.command} --help",
        )
    arguments.words = [*arguments.command.split()[1:], *words]


def _bug(error: Exception, context: Context) -> SoulError:
    import traceback

    if context.places.log == "debug":
        traceback.print_exception(error, file=context.err)
    path = context.places.state / "errors.log"
    kept = _noted(path, context.clock.now(), "".join(traceback.format_exception(error)))
    where = f"the details are in {path}" if kept else f"see them with SOUL_BRIDGE_LOG=debug ({path} cannot be written)"
    return SoulError(
        f"this is a fault of {cli_parser.PROGRAM}, not yours: {type(error).__name__}: {error}",
        advice=f"{where}; what was recorded stays recorded: try again, then `{cli_parser.PROGRAM} doctor`",
    )


def _noted(path: Path, now: float, text: str) -> bool:
    try:
        folders.make(path.parent)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with open(os.open(path, flags, 0o600), "a", encoding="utf-8", errors="backslashreplace") as file:
            if os.fstat(file.fileno()).st_size > _LARGEST:
                file.truncate(0)
            file.write(f"--- {now:.3f}\n{text}")
    except OSError:
        return False
    return True


def _tolerant(stream: TextIO) -> None:
    # Under systemd the locale is often C, and file names are bytes: neither may end in a traceback.
    if reconfigure := getattr(stream, "reconfigure", None):
        reconfigure(encoding="utf-8", errors="backslashreplace")
