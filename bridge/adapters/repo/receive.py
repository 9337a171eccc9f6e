"""Received packs go through `git index-pack`: ids, structure and links are enforced, all else is let in.

Bad names (`.git`, `..`), doubled entries and sloppy heads are accepted by servers, so refusing them would stop every
body for ever; TREE-7 keeps them in history and decides alone what reaches the disk.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO

from bridge.adapters import gitenv
from bridge.adapters.repo.packs import settle
from bridge.core import errors

# Everything that can be parsed, and everything it links to, here or in the pack. `--strict` would also have an opinion
# about names and heads, some of which no list of exceptions takes back.
_CHECK = "--check-self-contained-and-connected"
_WORDS_LENGTH = 4_000
_SILENCE = 60.0  # seconds that index-pack may take no bytes


def index_pack(git_dir: Path, chunks: Iterable[bytes], *, deadline: float = 600.0, limit: int | None = None) -> None:
    """Bring a pack (thin ones too) into the object directory, checked and durable.

    deadline: seconds that index-pack may take after the last byte. limit: bytes of pack accepted. Whatever `chunks`
    raises ends the child and is passed on. Raises Refused(kind="rejected") for a damaged or incomplete pack,
    Transient for a full disk, a pack that ends too early or a child that hangs.
    """
    environment = gitenv.skeleton(git_dir)
    with _aside(git_dir / "objects") as place, _words() as words:
        child = gitenv.start_git(
            ["index-pack", "--stdin", "--fix-thin", _CHECK, str(place / "new.pack")],
            environment,
            stdout=subprocess.DEVNULL,
            stderr=words.fileno(),
        )
        try:
            _feed(child, chunks, limit)
            code = child.wait(deadline)
        except subprocess.TimeoutExpired as error:
            raise errors.Transient(f"git index-pack did not end within {deadline:.0f} s", kind="busy") from error
        finally:
            gitenv.end(child)
        _judge(code, _tail(words))
        _take_in(place, git_dir / "objects" / "pack")


def _words() -> IO[bytes]:
    """Where the child's words go: into memory, for they have to be heard on a full disk, and where a unit has no folder
    for temporary files."""
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("words", os.MFD_CLOEXEC), "w+b")
    return tempfile.TemporaryFile()


@contextlib.contextmanager
def _aside(objects: Path) -> Iterator[Path]:
    """An empty folder for a pack that nobody has checked yet, gone afterwards with whatever is in it: what is refused
    again and again must not fill the disk. Its name is one that git's own prune clears away."""
    place = objects.resolve() / "tmp_objdir-soul-bridge"
    try:
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        yield place
    except OSError as error:
        raise errors.Transient(f"no room for what is received: {error.strerror}", kind="disk") from error
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _take_in(place: Path, packs: Path) -> None:
    """Give a checked pack its name among the others, durable; the index last, for it makes the pack one."""
    with (place / "new.pack").open("rb") as file:
        file.seek(-20, os.SEEK_END)
        name = f"pack-{file.read().hex()}"
    for ending in (".pack", ".rev", ".idx"):
        with contextlib.suppress(FileNotFoundError):
            (place / f"new{ending}").rename(packs / f"{name}{ending}")
    settle(packs)


def _feed(child: subprocess.Popen[bytes], chunks: Iterable[bytes], limit: int | None) -> None:
    """Hand the pack over. A child that stops reading has said why: the rest is not needed."""
    pipe = child.stdin
    if pipe is None:
        raise ValueError("the child has no stdin")
    descriptor = pipe.fileno()
    os.set_blocking(descriptor, False)
    poll = select.poll()
    poll.register(descriptor, select.POLLOUT)
    total = 0
    try:
        for chunk in chunks:
            total += len(chunk)
            if limit is not None and total > limit:
                raise errors.Refused(f"the pack is larger than {limit} bytes; nothing of it was kept", kind="rejected")
            rest = memoryview(chunk)
            while rest:
                if not poll.poll(_SILENCE * 1000):
                    raise errors.Transient("git index-pack takes no bytes", kind="busy")
                rest = rest[os.write(descriptor, rest[:65536]) :]
        pipe.close()
    except BrokenPipeError:
        pass


def _judge(code: int, words: str) -> None:
    if code == 0 or (code == 1 and not words):  # 1: the pack leans on objects that are here, which is as it should be
        return
    if "No space left" in words or "Disk quota" in words:
        raise errors.Transient(f"no room for what was received: {words}", kind="disk")
    if "early EOF" in words:
        raise errors.Transient("the pack that was received ends too early; nothing of it was kept")
    if "Out of memory" in words:
        raise errors.Refused(
            f"what was received unpacks to more than any soul holds: {words}",
            kind="rejected",
            rule="TREE-6",
            advice="nothing of it was kept; look at what was pushed last, with `git log --stat` on the remote's host",
        )
    if code < 0:
        raise errors.Transient(f"git index-pack was ended by signal {-code}", kind="busy")
    raise errors.Refused(
        f"the pack that was received is damaged or incomplete: {words}",
        kind="rejected",
        rule="REPO-7",
        advice="nothing of it was kept; check the remote repository with `git fsck` on its host",
    )


def _tail(words: IO[bytes]) -> str:
    size = words.seek(0, os.SEEK_END)
    words.seek(max(0, size - _WORDS_LENGTH))
    return words.read().decode("utf-8", "replace").strip()
