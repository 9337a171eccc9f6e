"""Refs as git keeps them in files: read loose and packed, moved only from the expected value, durable."""

from __future__ import annotations

import os
import re
from pathlib import Path

from bridge.adapters.repo.locks import locked
from bridge.adapters.repo.packs import settle
from bridge.adapters.repo.store import damaged, plain, unreadable
from bridge.core import errors

_OID = re.compile(rb"[0-9a-f]{40}\Z")
_DEEPEST_LINK = 5


class Refs:
    """The refs below one git directory."""

    def __init__(self, git_dir: Path) -> None:
        self._git_dir = git_dir

    def head(self) -> str | None:
        """The ref that HEAD names, None when it is detached. Raises Refused(REPO-7) when HEAD is damaged."""
        raw = self._raw("HEAD")
        if raw is None:
            raise damaged("the git directory has no HEAD")
        if raw.startswith(b"ref:"):
            return raw[4:].strip().decode("utf-8", "surrogateescape")
        if not _OID.match(raw):
            raise damaged("HEAD is damaged")
        return None

    def tip(self, ref: str) -> str | None:
        """Commit a ref points to, None when absent. Raises Refused(REPO-7) when its file is damaged."""
        for _ in range(_DEEPEST_LINK):
            raw = self._raw(ref)
            if raw is None:
                return self._packed().get(ref)
            if not raw.startswith(b"ref:"):
                if not _OID.match(raw):
                    raise damaged(f"{ref} is damaged: its file holds {len(raw)} bytes that are no commit id")
                return raw.decode()
            ref = raw[4:].strip().decode("utf-8", "surrogateescape")
            _check(ref)
        raise damaged(f"{ref} leads in a circle")

    def below(self, prefix: str) -> dict[str, str]:
        """All refs whose names begin with a prefix, with their targets; damaged ones raise as in `tip`."""
        names = {name for name in self._packed() if name.startswith(prefix)}
        for folder, _, files in os.walk(self._git_dir / "refs"):
            within = os.path.relpath(folder, self._git_dir)
            names.update(
                name
                for name in (f"{within}/{file}" for file in files if not file.endswith(".lock"))
                if name.startswith(prefix)
            )
        found = {name: self.tip(name) for name in sorted(names)}
        return {name: oid for name, oid in found.items() if oid is not None}

    def move(self, ref: str, expected: str | None, new: str | None) -> None:
        """Point a ref at `new` if it is `expected`. Raises Moved, Transient(kind="disk"|"busy")."""
        _check(ref)
        path = self._git_dir / ref
        try:
            self._make_room(path)
            with locked(self._git_dir, path, f"{new}\n".encode() if new else b"") as lock:
                present = self.tip(ref)
                if present != expected:
                    raise errors.Moved(f"{ref} is at {present or 'nothing'}, not at {expected or 'nothing'}")
                if new is not None:
                    lock.rename(path)
                else:
                    self._unpack(ref)
                    path.unlink(missing_ok=True)
            settle(path.parent)
        except (NotADirectoryError, IsADirectoryError, FileExistsError) as error:
            raise errors.Transient(f"{ref} stands in the way of another ref: {error.strerror}", kind="busy") from error
        except OSError as error:
            raise errors.Transient(f"cannot move {ref}: {error.strerror}", kind="disk") from error

    def _make_room(self, path: Path) -> None:
        """Make the folders of a ref durable, and clear away empty ones that stand where it goes."""
        missing = []
        folder = path.parent
        if not self._git_dir.is_dir():
            raise damaged(f"{self._git_dir} is gone")  # and must not come back as an empty one
        while not folder.is_dir():
            missing.append(folder)
            folder = folder.parent
        for each in reversed(missing):
            each.mkdir(exist_ok=True)
            settle(each.parent)
        if path.is_dir():
            for place, _, _ in os.walk(path, topdown=False):
                os.rmdir(place)

    def _unpack(self, ref: str) -> None:
        """Take a ref out of packed-refs, before its own file goes: else the older value would come back."""
        if ref not in self._packed():
            return
        packed = self._git_dir / "packed-refs"
        lines = plain(packed).splitlines(keepends=True)
        name = ref.encode("utf-8", "surrogateescape")
        kept, skipping = [], False
        for line in lines:
            if not line.startswith(b"^"):  # which belongs to the line above it
                skipping = not line.startswith(b"#") and line.rstrip(b"\n")[41:] == name
            if not skipping:
                kept.append(line)
        with locked(self._git_dir, packed, b"".join(kept)) as lock:
            if plain(packed).splitlines(keepends=True) != lines:
                raise errors.Transient("another git changed packed-refs just now", kind="busy")
            lock.rename(packed)
            settle(self._git_dir)

    def _raw(self, ref: str) -> bytes | None:
        """What a ref's own file holds, None when there is none."""
        _check(ref)
        try:
            return plain(self._git_dir / ref).strip()
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return None
        except OSError as error:
            raise unreadable(ref, error) from error

    def _packed(self) -> dict[str, str]:
        try:
            lines = plain(self._git_dir / "packed-refs").splitlines()
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise unreadable("packed-refs", error) from error
        found = {}
        for line in lines:
            if line[:1] in (b"#", b"^", b""):
                continue
            if not _OID.match(line[:40]) or line[40:41] != b" ":
                raise damaged("packed-refs is damaged")
            found[line[41:].decode("utf-8", "surrogateescape")] = line[:40].decode()
        return found


def _check(ref: str) -> None:
    """Refuse what could lead out of the git directory; a file's content may name it."""
    if ref != "HEAD" and (
        not ref.startswith("refs/") or any(part in ("", ".", "..") for part in ref.split("/")) or "\0" in ref
    ):
        raise damaged(f"{ref!r} is not the name of a ref")
