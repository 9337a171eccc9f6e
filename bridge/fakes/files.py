"""The simulated disk of one soul and the simulated agent that writes into it.

Inodes are modelled: a name points at an inode, so a writer that opened a file goes on writing into the same inode
after its name was taken from it. Times come from the clock given and a counter: the same calls give the same stamps.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from bridge.core.model import Stamp
from bridge.core.ports import Clock


@dataclass
class Inode:
    """Bytes and times of one simulated file; `writers` counts descriptors open for writing."""

    number: int
    content: bytes = b""
    executable: bool = False
    mtime_ns: int = 0
    ctime_ns: int = 0
    writers: int = 0

    def stamp(self) -> Stamp:
        """What a look at it shows."""
        return Stamp(len(self.content), self.mtime_ns, self.ctime_ns, self.number, self.executable)


@dataclass
class Writer:
    """A descriptor of the simulated agent, open for writing at the end of its inode."""

    files: Files
    inode: Inode
    closed: bool = field(default=False)

    def write(self, content: bytes) -> None:
        """Append to the inode, wherever its name is now."""
        self.files._fill(self.inode, self.inode.content + content)

    def truncate(self) -> None:
        """Empty the inode."""
        self.files._fill(self.inode, b"")

    def close(self) -> None:
        """Give the descriptor back; a second time does nothing."""
        if not self.closed:
            self.closed = True
            self.inode.writers -= 1


class Files:
    """Paths, directories and things that are no files; every change by the agent leaves its path in `hints`.

    `tick_ns`: how coarse file times are, as on older kernels; 0 makes every change a new instant.
    """

    def __init__(self, clock: Clock, tick_ns: int = 0) -> None:
        self.hints: list[str] = []
        self._clock, self._tick_ns, self._count = clock, tick_ns, 0
        self._files: dict[str, Inode] = {}
        self._directories: set[str] = {""}
        self._special: dict[str, tuple[str, str]] = {}

    def agent_write(self, path: str, content: bytes) -> None:
        """Open, truncate, write, close: the same inode where there is one."""
        self._fill(self._opened(path), content)

    def agent_append(self, path: str, content: bytes) -> None:
        """Open to append, write, close."""
        inode = self._opened(path)
        self._fill(inode, inode.content + content)

    def agent_rename_over(self, path: str, content: bytes) -> None:
        """Write a temporary file and rename it over the path: a new inode."""
        inode = self._inode(content, path in self._files and self._files[path].executable)
        self._place(path, inode)

    def agent_open(self, path: str) -> Writer:
        """A descriptor open for writing; what it writes goes to the inode that the path names now."""
        inode = self._opened(path)
        inode.writers += 1
        return Writer(self, inode)

    def agent_read(self, path: str) -> bytes | None:
        """Bytes at the path, None when there is no file."""
        inode = self._files.get(path)
        return None if inode is None else inode.content

    def agent_chmod(self, path: str, executable: bool) -> None:
        """Set or take the executable bit."""
        self._files[path].executable = executable
        self._changed(self._files[path])
        self.hints.append(path)

    def agent_delete(self, path: str) -> None:
        """Remove a file, a special thing, or a directory with everything below it; nothing there is no error."""
        for each in [p for p in self._files if p == path or p.startswith(whole(path))]:
            del self._files[each]
        for each in [p for p in self._special if p == path or p.startswith(whole(path))]:
            del self._special[each]
        self._directories = {d for d in self._directories if d != path and not d.startswith(whole(path))} | {""}
        self.hints.append(path)

    def agent_rename(self, old: str, new: str) -> None:
        """Rename a file or a directory; inodes stay."""
        moved = {p: i for p, i in self._files.items() if p == old or p.startswith(whole(old))}
        for path, inode in moved.items():
            del self._files[path]
            self._changed(inode)
            self._place(new + path[len(old) :], inode)
        self._directories -= {d for d in self._directories if d and (d == old or d.startswith(whole(old)))}
        self.hints.append(old)

    def agent_mkdir(self, path: str) -> None:
        """Make an empty directory and its parents."""
        self._directories |= {*parents(path), path}
        self.hints.append(path)

    def agent_special(self, path: str, reason: str = "a symbolic link", rule: str = "TREE-6") -> None:
        """Put a link, pipe or other thing that is no file at the path, in place of what was there."""
        self.agent_delete(path)
        self._directories |= set(parents(path))
        self._special[path] = (rule, reason)

    def agent_hide(self, directory: str) -> None:
        """Make a directory unreadable; what is below stays there, unseen."""
        self._special[directory] = ("GUARD-6", "an unreadable directory")
        self.hints.append(directory)

    def agent_show(self, directory: str) -> None:
        """Make it readable again."""
        del self._special[directory]
        self.hints.append(directory)

    def paths(self) -> dict[str, bytes]:
        """Every file with its bytes, for assertions."""
        return {path: self._files[path].content for path in sorted(self._files)}

    def directories(self) -> set[str]:
        """Every directory but the top, for assertions."""
        return self._directories - {""}

    def _now(self) -> int:
        now = int(self._clock.now() * 1_000_000_000)
        if self._tick_ns:
            return now - now % self._tick_ns
        self._count += 1
        return now + self._count

    def _inode(self, content: bytes, executable: bool) -> Inode:
        self._count += 1
        now = self._now()
        return Inode(self._count, content, executable, now, now)

    def _changed(self, inode: Inode) -> None:
        inode.ctime_ns = self._now()

    def _fill(self, inode: Inode, content: bytes) -> None:
        inode.content = content
        inode.mtime_ns = inode.ctime_ns = self._now()
        self.hints.extend(path for path, each in self._files.items() if each is inode)

    def _opened(self, path: str) -> Inode:
        if path not in self._files:
            self._place(path, self._inode(b"", False))
        return self._files[path]

    def _place(self, path: str, inode: Inode) -> None:
        for each in parents(path):
            self._special.pop(each, None)
            self._files.pop(each, None)
        if path in self._directories or path in self._special:
            self.agent_delete(path)
        self._directories |= set(parents(path))
        self._files[path] = inode
        self.hints.append(path)

    def _barred(self, path: str) -> tuple[str, str] | None:
        """Why a path cannot be looked at: something at or above it."""
        for each in (path, *parents(path)):
            if each in self._special:
                return self._special[each]
        return None


def whole(directory: str) -> str:
    """What every path below a directory begins with."""
    return directory.rstrip("/") + "/" if directory else ""


def within(path: str, wanted: list[str] | None) -> bool:
    """Whether a path is one of the wanted beginnings, or below one; None wants everything."""
    return wanted is None or any((path + "/").startswith(each) for each in wanted)


def parents(path: str) -> list[str]:
    """The directories above a path, nearest first, without the top."""
    parts = path.split("/")
    return ["/".join(parts[:n]) for n in range(len(parts) - 1, 0, -1)]
