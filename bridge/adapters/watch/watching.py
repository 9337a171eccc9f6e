"""The port that a soul's thread has of its watcher: hints, and why some may be missing."""

from __future__ import annotations

import errno
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from watchdog.utils import UnsupportedLibcError

from bridge.adapters.watch.ears import Ears, OnHint

if TYPE_CHECKING:
    from bridge.adapters.watch.folders import Folders

# While nothing is watched, everything is looked at so often; while only some folders are not, so often (seconds).
BLIND = 5.0
PARTLY_BLIND = 60.0

_LIMIT = (
    "The limit of inotify watches is reached: {count} of {all} folders are not watched and are looked at once"
    " a minute only. Raise it: sudo sysctl fs.inotify.max_user_watches=1048576"
    " (to keep it: put fs.inotify.max_user_watches=1048576 into /etc/sysctl.d/90-soul-bridge.conf)"
)
_INSTANCES = (
    "No inotify instance is left: nothing is watched, files are looked at every few seconds instead."
    " Raise the limit: sudo sysctl fs.inotify.max_user_instances=1024"
    " (to keep it: put fs.inotify.max_user_instances=1024 into /etc/sysctl.d/90-soul-bridge.conf)"
)


class Watch:
    """Watches the checkout at `root` from `start` to `stop`.

    `on_hint(path)` is called from a thread of the watcher with a path relative to the root, a file or a directory, or
    with None for "look at everything". `ears`, when given, are told from the same thread who reads and writes what.
    None of them may take long: all souls of a process share that thread.
    """

    def __init__(self, root: Path, on_hint: OnHint, ears: Ears | None = None) -> None:
        self.blind, self.partly_blind = BLIND, PARTLY_BLIND
        self._root = root
        self._on_hint, self._ears = on_hint, ears
        self._folders: Folders | None = None
        self._trouble = ""
        self._started = False
        self._due = False
        self._stopped = threading.Event()
        self._pulse: threading.Thread | None = None

    def start(self) -> None:
        """Begin watching; what cannot be watched is in `problems`. Never raises for a limit or a missing folder."""
        self._started = True
        self._open()
        self._beat()

    def stop(self) -> None:
        """End watching: no hint comes afterwards. A second time does nothing."""
        self._started = False
        self._stopped.set()
        if self._pulse is not None:
            self._pulse.join()
            self._pulse = None
        self._close()

    def check(self) -> None:
        """Compare with the world: begin again, with the hint None, if the watcher died, another folder stands there
        or folders could not be watched."""
        self._due = False
        self._mend()
        self._beat()

    def problems(self) -> list[str]:
        """Why hints may be missing, each with its remedy; empty when all is well. Call it from one thread only: it
        begins again what broke."""
        if self._due:
            self.check()
        self._mend(lost=False)
        self._beat()
        found = [self._trouble] if self._trouble else []
        count, total = self._unwatched()
        if count:
            found.append(_LIMIT.format(count=count, all=total))
        return found

    @property
    def degraded(self) -> bool:
        """Whether hints are known to be missing; the hint None comes by the clock as long as they are."""
        return bool(self._trouble) or self._unwatched()[0] > 0

    def _unwatched(self) -> tuple[int, int]:
        return self._folders.unwatched() if self._folders is not None else (0, 0)

    def _beat(self) -> None:
        """Hint by the clock as long as what should give hints cannot."""
        if self._started and self.degraded and (self._pulse is None or not self._pulse.is_alive()):
            self._stopped.clear()
            self._pulse = threading.Thread(target=self._beating, name="watch-pulse", daemon=True)
            self._pulse.start()

    def _beating(self) -> None:
        while self.degraded and not self._stopped.wait(self.blind if self._trouble else self.partly_blind):
            self._due = True
            self._on_hint(None)

    def _mend(self, lost: bool = True) -> None:
        """Begin again where it is broken and, if `lost`, where folders could not be watched: the limit may be gone."""
        broken = self._folders is None or not self._folders.sound() or (lost and self._unwatched()[0] > 0)
        if self._started and broken:
            self._close()
            self._open()
            # Only success is news: failing again must not make passes follow each other without a pause.
            if self._folders is not None and self._folders.sound():
                self._on_hint(None)

    def _open(self) -> None:
        try:
            # Only here: where there is no inotify, the library does not let itself be imported.
            from bridge.adapters.watch.folders import Folders

            self._folders = Folders(self._root, self._on_hint, self._ears)
        except UnsupportedLibcError:
            self._trouble = f"{self._root} cannot be watched on this system; it is looked at every few seconds instead."
        except OSError as error:
            self._trouble = _INSTANCES if error.errno == errno.EMFILE else _told(error, self._root)
        else:
            trouble = self._folders.trouble
            self._trouble = _told(trouble, self._root) if trouble is not None else ""

    def _close(self) -> None:
        if self._folders is not None:
            self._folders.close()
            self._folders = None


def _told(error: OSError, path: Path) -> str:
    place = error.filename or path
    return f"{place} cannot be watched ({error.strerror}); it is looked at every few seconds instead."
