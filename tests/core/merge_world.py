"""Three trees written down as texts, and what a merge may ask about them: the stage of the merge tests."""

from __future__ import annotations

import base64
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from bridge.core.merge import Facts, trees
from bridge.core.model import (
    EXECUTABLE,
    GITLINK,
    LINK,
    PLAIN,
    Content,
    File,
    Kind,
    Merged,
    Touch,
    Triple,
    blob_id,
)

Tree = Mapping[str, File]


@dataclass
class World:
    """Blobs by id, and the times and bodies of both sides; a path's own touch goes before them."""

    ours_at: int | None = 100
    theirs_at: int | None = 200
    now: int = 1000
    clock_wrong: bool = False
    identity: str | None = None
    joining: bool = False
    published: Mapping[str, Collection[str]] = field(default_factory=dict)
    recorded: Mapping[str, Collection[str]] | None = None
    touches: Mapping[tuple[str, str], Touch | None] = field(default_factory=dict)
    bodies: Mapping[str, str] = field(default_factory=lambda: {"ours": "laptop", "theirs": "phone"})
    blobs: dict[str, bytes] = field(default_factory=dict)
    reads: list[str] = field(default_factory=list)
    asked: list[tuple[str, str]] = field(default_factory=list)

    def file(self, content: bytes | str, mode: int = PLAIN) -> File:
        """A stored file; a text of one line stands for itself."""
        data = content.encode() if isinstance(content, str) else content
        self.blobs[blob_id(data)] = data
        return File(blob_id(data), mode)

    def version(self, written: Any) -> File:
        """A file as a vector writes it down."""
        if isinstance(written, str):
            return self.file(written)
        if "gitlink" in written:
            return File(written["gitlink"], GITLINK)
        if "link" in written:
            return self.file(written["link"], LINK)
        data = base64.b64decode(written["base64"]) if "base64" in written else written["text"].encode()
        return self.file(data, EXECUTABLE if written.get("executable") else PLAIN)

    def tree(self, written: Mapping[str, Any]) -> dict[str, File]:
        """A tree as a vector writes it down."""
        return {path: self.version(version) for path, version in written.items()}

    def read(self, oid: str) -> bytes:
        self.reads.append(oid)
        return self.blobs[oid]

    def facts(self, base: Tree, ours: Tree, theirs: Tree) -> Facts:
        """What the merge of these trees may ask."""

        def touched(side: str, tree: Tree, path: str) -> Touch | None:
            self.asked.append((side, path))
            if (side, path) in self.touches:
                return self.touches[side, path]
            time = self.ours_at if side == "ours" else self.theirs_at
            changed = tree.get(path) != base.get(path)
            return Touch(time, self.bodies[side]) if changed and time is not None else None

        return Facts(
            read=self.read,
            touched_ours=lambda path: touched("ours", ours, path),
            touched_theirs=lambda path: touched("theirs", theirs, path),
            kind_ours=lambda path: kind(ours, path),
            kind_theirs=lambda path: kind(theirs, path),
            now=self.now,
            clock_wrong=self.clock_wrong,
            identity=self.identity,
            joining=self.joining,
            published=lambda path, oid: oid in self.published.get(path, ()),
            recorded=lambda path, oid: self.recorded is None or oid in self.recorded.get(path, ()),
        )

    def merge(self, base: Tree, ours: Tree, theirs: Tree) -> Merged:
        """The merge of three trees, asked only about what differs."""
        return trees(triples(base, ours, theirs), self.facts(base, ours, theirs))

    def result(self, base: Tree, ours: Tree, theirs: Tree) -> dict[str, File]:
        """The whole tree that the merge of three trees makes."""
        return self.applied(ours, self.merge(base, ours, theirs))

    def applied(self, ours: Tree, merged: Merged) -> dict[str, File]:
        """Our tree with the result of a merge laid over it; new content is stored."""
        tree = dict(ours)
        for path, version in merged.files.items():
            if version is None:
                tree.pop(path, None)
            else:
                tree[path] = self.file(version.data, version.mode) if isinstance(version, Content) else version
        return tree


def kind(tree: Tree, path: str) -> Kind:
    """What a tree holds at a path."""
    if path in tree:
        return Kind.FILE
    return Kind.DIRECTORY if any(other.startswith(path + "/") for other in tree) else Kind.ABSENT


def triples(base: Tree, ours: Tree, theirs: Tree) -> dict[str, Triple]:
    """The paths of three trees where a side differs from base."""
    paths = dict.fromkeys([*base, *ours, *theirs])
    found = {path: Triple(base.get(path), ours.get(path), theirs.get(path)) for path in paths}
    return {path: triple for path, triple in found.items() if not triple.base == triple.ours == triple.theirs}


def is_tree(tree: Collection[str]) -> bool:
    """Whether no path is both a file and a directory."""
    paths = set(tree)
    return not any(
        "/".join(path.split("/")[:length]) in paths for path in paths for length in range(1, path.count("/") + 1)
    )
