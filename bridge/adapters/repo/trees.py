"""Trees: walked, compared and rewritten on their raw bytes, so that what is strange in them stays as it is.

Paths are joined with "/" and decoded with surrogateescape. A name that itself holds a "/" (git's plumbing can make
one) is shown with NUL in its place: no such path can be made on a disk, TREE-7 lists it, and it stays in the tree.
An entry without a name, which git lets nobody send, stays too and is not shown.
"""

from __future__ import annotations

import re
import stat
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from bridge.adapters.repo.store import EMPTY_TREE, Store, damaged
from bridge.core import errors
from bridge.core.model import DIRECTORY, EXECUTABLE, GITLINK, LINK, PLAIN, File, Kind

# Mode in octal, a space, the name, NUL, twenty bytes of id. The name may be empty or strange.
_ENTRY = re.compile(rb"([0-7]{1,9}) ([^\0]*)\0(.{20})", re.DOTALL)
# Nothing is tried twice: looking for entries in bytes that are none would take the square of their length.
_WHOLE = re.compile(rb"(?>[0-7]{1,9} [^\0]*\0.{20})*+", re.DOTALL)
_USUAL = {b"100644": PLAIN, b"100755": EXECUTABLE, b"120000": LINK, b"160000": GITLINK}

MOST_ENTRIES = 1_000_000  # a tree beyond this is not a soul but a trap: equal subtrees can multiply without end
DEEPEST = 1_000  # folders below this are kept and not looked into; no file system takes such a path
LONGEST = 32_768  # the same for a path of so many characters
_PARSED = 128  # parsed folders kept at hand
_PARSED_ENTRIES = 400_000  # and entries in all of them; a larger folder is kept alone, for it is asked path by path

Diff = dict[str, tuple[File | None, File | None]]


class Entry(NamedTuple):
    """One entry of one folder, as its bytes say: mode in octal digits, name, the twenty bytes of the id."""

    mode: bytes
    name: bytes
    oid: bytes

    @property
    def folder(self) -> bool:
        """Whether it is a tree."""
        return self.mode == b"40000" or (self.mode not in _USUAL and stat.S_ISDIR(int(self.mode, 8)))

    @property
    def file(self) -> File:
        """The entry with the mode that git takes it for: five are left of all that there can be."""
        usual = _USUAL.get(self.mode)
        if usual is not None:
            return File(self.oid.hex(), usual)
        mode = int(self.mode, 8)
        if stat.S_ISREG(mode):
            mode = EXECUTABLE if mode & 0o100 else PLAIN
        elif stat.S_ISLNK(mode):
            mode = LINK
        else:
            mode = DIRECTORY if stat.S_ISDIR(mode) else GITLINK
        return File(self.oid.hex(), mode)

    @property
    def rank(self) -> bytes:
        """What git sorts by: folders as if their names ended with a slash."""
        return self.name + b"/" if self.folder else self.name


Folder = dict[bytes, Entry]


class Trees:
    """The trees of one store; the absent tree is ""."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._parsed: OrderedDict[str, Folder] = OrderedDict()
        self._entries = 0

    def folder(self, oid: str) -> Folder:
        """Entries of one folder by name. Raises Refused(kind="internal") when it is not here or damaged."""
        if not oid or oid == EMPTY_TREE:
            return {}
        known = self._parsed.get(oid)
        if known is not None:
            self._parsed.move_to_end(oid)
            return known
        # Of two entries of one name, which git itself never writes, the first holds.
        folder = {entry.name: entry for entry in reversed(parse(self._store.read("tree", oid), oid))}
        self._parsed[oid] = folder
        self._entries += len(folder)
        while len(self._parsed) > _PARSED or (self._entries > _PARSED_ENTRIES and len(self._parsed) > 1):
            self._entries -= len(self._parsed.popitem(last=False)[1])
        return folder

    def forget(self) -> None:
        """Keep no parsed folder at hand any more."""
        self._parsed.clear()
        self._entries = 0

    def find(self, tree: str, path: str) -> Entry | None:
        """The entry at a path, folders included; None when absent, and for the tree itself."""
        found: Entry | None = None
        for name in split(path) if path else ():
            if found is not None and not found.folder:
                return None
            found = self.folder(tree if found is None else found.oid.hex()).get(name)
            if found is None:
                return None
        return found

    def entry(self, tree: str, path: str) -> File | None:
        """The file, link or gitlink at a path; None when absent or a folder."""
        found = self.find(tree, path)
        return found.file if found is not None and not found.folder else None

    def kind(self, tree: str, path: str) -> Kind:
        """What the tree holds at a path; the tree itself is a directory."""
        if not path:
            return Kind.DIRECTORY if tree and tree != EMPTY_TREE else Kind.ABSENT
        found = self.find(tree, path)
        if found is None:
            return Kind.ABSENT
        return Kind.DIRECTORY if found.folder else Kind.FILE

    def files(self, tree: str, under: str = "") -> Iterator[tuple[str, File]]:
        """All entries below a folder that are not folders, sorted by path. Raises Refused when there is no end."""
        if under:
            found = self.find(tree, under)
            if found is None or not found.folder:
                return
            tree = found.oid.hex()
        count = 0
        stack = [self._listed(tree, under)]
        while stack:
            step = next(stack[-1], None)
            if step is None:
                stack.pop()
                continue
            path, entry = step
            count += 1
            if count > MOST_ENTRIES:
                raise _endless(tree)
            if not entry.folder:
                yield path, entry.file
            elif len(stack) < DEEPEST and len(path) < LONGEST:
                stack.append(self._listed(entry.oid.hex(), path))

    def diff(self, old: str, new: str) -> Diff:
        """Paths whose entries differ, sorted; folders with equal ids are not opened."""
        found: Diff = {}
        stack: list[tuple[str, str, str, int]] = [("", old, new, 0)]
        count = 0
        while stack:
            path, before_id, after_id, depth = stack.pop()
            if before_id == after_id or depth >= DEEPEST or len(path) >= LONGEST:
                continue
            for name, before, after in _differing(self.folder(before_id), self.folder(after_id)):
                count += 1
                if count > MOST_ENTRIES:
                    raise _endless(new)
                below = join(path, name)
                stack.append((below, _folder_id(before), _folder_id(after), depth + 1))
                pair = _file(before), _file(after)
                if pair[0] != pair[1]:
                    found[below] = pair
        return dict(sorted(found.items()))

    def edit(self, tree: str, changes: Mapping[str, File | None]) -> str:
        """Tree with these entries set or removed; only folders on the way are written anew, "" when nothing is left.

        A removal takes a file, link or gitlink, never a folder. Setting a path replaces a folder there and files on
        the way to it, unless a later change of the same call sets those.
        """
        plan: _Plan = {}
        for path, file in changes.items():
            _note(plan, split(path), file)
        return self._rewrite(tree, plan)

    def _rewrite(self, tree: str, plan: _Plan) -> str:
        """The folder after a plan, the deepest folders first, without recursion: paths may be as deep as they like."""
        stack = [_Frame(tree, self.folder(tree), plan)]
        while True:
            frame = stack[-1]
            below = frame.advance()
            if below is not None:
                present, step = below
                old = present.oid.hex() if present is not None and present.folder else ""
                stack.append(_Frame(old, self.folder(old), step))
                continue
            written = self._write(frame)
            stack.pop()
            if not stack:
                return written
            stack[-1].replace(frame.tree, written)

    def _write(self, frame: _Frame) -> str:
        if frame.after == frame.before or not frame.after:
            return frame.tree if frame.after else ""
        ordered = sorted(frame.after.values(), key=lambda entry: entry.rank)
        return self._store.add("tree", b"".join(b"%s %s\0%s" % (each.mode, each.name, each.oid) for each in ordered))

    def _listed(self, tree: str, under: str) -> Iterator[tuple[str, Entry]]:
        """One folder's entries with their paths, in the order of the paths below them."""
        named = [(join(under, entry.name), entry) for entry in self.folder(tree).values() if entry.name]
        return iter(sorted(named, key=lambda pair: pair[0] + "/" if pair[1].folder else pair[0]))


def parse(raw: bytes, oid: str) -> list[Entry]:
    """The entries of a raw tree. Raises Refused(kind="internal") when the bytes are not a tree."""
    if _WHOLE.fullmatch(raw) is None:
        raise damaged(f"object {oid} is not a tree that can be read")
    return list(map(Entry._make, _ENTRY.findall(raw)))


def split(path: str) -> list[bytes]:
    """The names along a path. Raises ValueError for a path that cannot be one."""
    names = [name.encode("utf-8", "surrogateescape").replace(b"\0", b"/") for name in path.split("/")]
    if b"" in names:
        raise ValueError(f"not a path: {path!r}")
    return names


def join(folder: str, name: bytes) -> str:
    """The path of a name in a folder ("": the top)."""
    text = name.replace(b"/", b"\0").decode("utf-8", "surrogateescape")
    return f"{folder}/{text}" if folder else text


# What is to happen below a folder: a file set, None removed, or a plan for the folder of that name.
_Plan = dict[bytes, "File | _Plan | None"]


class _Frame:
    """One folder while it is rewritten: its entries before and after, and what of the plan is still to do."""

    def __init__(self, tree: str, before: Folder, plan: _Plan) -> None:
        self.tree = tree
        self.before = before
        self.after = dict(before)
        self._todo = iter(plan.items())
        self._name = b""

    def advance(self) -> tuple[Entry | None, _Plan] | None:
        """Apply what concerns this folder alone; stop at the first folder below it: what is there, and its plan."""
        for name, step in self._todo:
            present = self.after.get(name)
            if isinstance(step, dict):
                if present is None or present.folder or _sets(step):
                    self._name = name
                    return present, step
            elif step is not None:
                if present is None or present.file != step:
                    self.after[name] = Entry(b"%o" % step.mode, name, bytes.fromhex(step.oid))
            elif present is not None and not present.folder:
                del self.after[name]
        return None

    def replace(self, old: str, new: str) -> None:
        """Take in the folder that `advance` stopped at; a file gave way to it, an emptied one vanishes."""
        present = self.after.get(self._name)
        if not new:
            if present is not None and present.folder:
                del self.after[self._name]
        elif new != old or present is None or not present.folder:
            self.after[self._name] = Entry(b"40000", self._name, bytes.fromhex(new))


def _note(plan: _Plan, names: list[bytes], file: File | None) -> None:
    """Add one change to a plan; of a file and something set below it, the later one holds."""
    for name in names[:-1]:
        step = plan.get(name)
        if not isinstance(step, dict):
            if isinstance(step, File) and file is None:
                return  # the file that is set there leaves nothing to remove below it
            step = plan[name] = {}
        plan = step
    if file is not None or not isinstance(plan.get(names[-1]), dict):
        plan[names[-1]] = file


def _sets(plan: _Plan) -> bool:
    """Whether anything in a plan is set rather than removed."""
    stack = [plan]
    while stack:
        for step in stack.pop().values():
            if isinstance(step, dict):
                stack.append(step)
            elif step is not None:
                return True
    return False


def _differing(before: Folder, after: Folder) -> Iterator[tuple[bytes, Entry | None, Entry | None]]:
    """Names whose entries are not the same bytes on both sides."""
    for name in {entry.name for entry in set(before.values()) ^ set(after.values())} - {b""}:
        yield name, before.get(name), after.get(name)


def _file(entry: Entry | None) -> File | None:
    return entry.file if entry is not None and not entry.folder else None


def _folder_id(entry: Entry | None) -> str:
    return entry.oid.hex() if entry is not None and entry.folder else ""


def _endless(tree: str) -> errors.Refused:
    return errors.Refused(
        f"tree {tree} holds more than {MOST_ENTRIES:,} entries; no soul is that large, nothing was read further",
        kind="rule",
        rule="TREE-7",
        advice="look at the last commits with `git log --stat` and take the one back that brought them",
    )
