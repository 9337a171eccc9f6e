"""How the program's own files in a folder are laid out: one number for each folder, in its file `format`.

It stands for all of them: what was seen, the notes beside files that left their names, the status, the facts. A
folder without a number is from before there was one. An older one is brought up to date, step by step, while the soul
is locked. A newer one is refused before anything in it is opened: who does not know what a file means can only lose it.
That file is one line, and so are others in these folders: they are written and read here. One that holds nothing, or
zeros only, is what a power cut leaves: it counts as absent.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from bridge.core.errors import Transient, Unusable

NAME = "format"
_LONGEST = 64  # bytes of the file that are looked at
_NOTHING = "\0 \t\r\n"  # what is left of a file that a power cut emptied


def _same(folder: Path) -> None:
    """0 → 1: the files stay as they are, and have a number from now on."""


# Each leads from its place in this list to the next number; after a crash it is taken once more.
_STEPS: tuple[Callable[[Path], None], ...] = (_same,)


def newest() -> int:
    """The number that this version writes."""
    return len(_STEPS)


def refuse_newer(*folders: Path) -> None:
    """Raises Unusable where one of these folders was written by a newer version, or does not say by which, and
    Transient(kind="disk") where that cannot be read. Nothing is changed."""
    for folder in folders:
        number = _number(folder)
        if number > newest():
            raise Unusable(
                f"{folder / NAME} says {number}: a newer soul-bridge keeps its files there, and this one knows"
                f" formats up to {newest()}",
                advice="Nothing was opened or changed; memories, history and those files are safe. Install that version"
                " here again, or a newer one: soul-bridge --version",
            )


def settle(folder: Path) -> None:
    """Bring a folder's files to the newest format. The caller holds the soul's lock. Raises as `refuse_newer` does."""
    refuse_newer(folder)
    for number in range(_number(folder), newest()):
        _STEPS[number](folder)
        put(folder / NAME, str(number + 1))


def _number(folder: Path) -> int:
    path = folder / NAME
    try:
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
            text = file.read(_LONGEST)
    except (FileNotFoundError, NotADirectoryError):
        return 0
    except OSError as error:
        raise Transient(f"{path} cannot be read: {error.strerror}", kind="disk", advice=f"ls -ld {path}") from error
    if is_nothing(text):
        return 0
    if not text.strip().isdigit():
        raise Unusable(
            f"{path} is damaged: it does not say which format the files beside it have",
            advice="Nothing was opened or changed; memories, history and those files are safe. If no newer soul-bridge"
            f" was ever used here: rm {path}",
        )
    return int(text)


def put(path: Path, line: str) -> None:
    """Put one line there, whole and durable, or not at all. Raises Transient(kind="disk")."""
    fresh = path.with_name(f".{path.name}.new")
    try:
        # Neither a link nor a pipe that lies there is followed or waited for.
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with open(os.open(fresh, flags, 0o600), "w", encoding="ascii") as file:
            file.write(line + "\n")
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
        directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
    except OSError as error:
        advice = f"ls -ld {path.parent}"
        raise Transient(f"{path} cannot be written: {error.strerror}", kind="disk", advice=advice) from error


def line_of(path: Path) -> str | None:
    """The line that `put` put there, None where none can be read."""
    try:
        # A pipe in the file's place is not waited for.
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
            return file.read(1024).decode("ascii").strip(_NOTHING) or None
    except (OSError, UnicodeDecodeError):
        return None


def is_nothing(content: bytes) -> bool:
    """Whether that is all a power cut left of a file."""
    return not content.strip(_NOTHING.encode())


def is_emptied(path: Path) -> bool:
    """Whether a file is there and nothing is in it any more."""
    try:
        return path.is_file() and is_nothing(path.read_bytes())
    except OSError:
        return False
