"""`validate`: every rule of form, asked of the working files as a pass would see them."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path

from bridge.adapters import config
from bridge.adapters.tree import Tree
from bridge.commands.context import Context
from bridge.commands.reading import no_soul
from bridge.core import form, layout
from bridge.core.errors import Held, Moved, Unusable
from bridge.core.model import EXECUTABLE, PLAIN, Problem
from bridge.core.words import line


def run(arguments: argparse.Namespace, context: Context) -> int:
    """Print each broken rule with path and line; 1 if there is any. Raises Unusable where there is no directory."""
    directory = _directory(arguments, context)
    # Nothing is exchanged here: the folder for that is named, not made.
    tree = Tree(directory, directory / ".git" / "soul-bridge", context.clock)
    look = tree.look({}, None)
    files: dict[str, tuple[bytes, int, int]] = {}
    found = [Problem(rule, path, 0, reason) for path, (rule, reason) in look.special.items()]
    for path, stamp in look.files.items():
        try:
            content = tree.read(path, layout.LARGEST_STORED).content
        except Moved:
            continue
        except Held as error:
            found.append(Problem(error.rule, path, 0, error.message.removeprefix(f"{path} ")))
            continue
        files[path] = (content, EXECUTABLE if stamp.executable else PLAIN, len(content))
    # A required file that cannot be read is there all the same.
    unread = {problem.path for problem in found}
    found += [problem for problem in form.problems(files) if problem.path not in unread]
    found.sort(key=lambda problem: (problem.path, problem.line, problem.rule))
    lines = [line(f"{_where(problem)}: {problem.message} ({problem.rule})") for problem in found]
    if found:
        lines.append("Next: correct what is named. Only what `soul-bridge status` lists as held is not synchronised.")
    words = "\n".join(lines) or f"every rule of form holds in {line(str(directory))} ({len(files)} files)"
    context.answer([asdict(problem) for problem in found], words)
    return 1 if found else 0


def _where(problem: Problem) -> str:
    path = line(problem.path)
    return f"{path}:{problem.line}" if problem.line else path


def _directory(arguments: argparse.Namespace, context: Context) -> Path:
    named, agent = arguments.directory, arguments.agent
    if named is None or (named in config.agents(context.places) and not Path(named).is_dir()):
        settings = context.settings(agent or named)
        if not settings.soul.is_dir():
            raise no_soul(settings)
        return settings.soul
    directory = Path(named).absolute()
    if not directory.is_dir():
        raise Unusable(f"there is no directory {line(str(directory))}", kind="usage", advice="soul-bridge validate")
    return directory
