"""The merge of a memory file: linear in its entries."""

from __future__ import annotations

from bench.measure import NotSeen, repeated
from bench.measure import run as call
from bench.results import Results
from bench.world import World
from bridge.core import merge
from bridge.core.model import Content, File, Kind, Triple, blob_id
from bridge.core.sides import Facts

CASE = "merge of a memory file"
PATH = "memories/MEMORY.md"


def who(entries: int) -> str:
    """The row's name."""
    return f"{entries:,} entries"


def run(world: World, results: Results) -> None:
    """5 % added and 2 % removed on either side; git's textual merge with --union beside it, wrong as it is."""
    for entries in world.sizes.entries:
        base = [
            f"entry {number}: something worth remembering about {number * 7919 % 1000}" for number in range(entries)
        ]
        sides = [_side(base, name) for name in ("ours", "theirs")]
        contents = [("\n§\n".join(lines) + "\n").encode() for lines in (base, *sides)]
        times = max(1, min(world.sizes.many, 500_000 // entries))
        samples = [each * 1000 for each in repeated(times, lambda: _merge(contents))]  # noqa: B023
        _check(_merge(contents), sides)
        results.add(CASE, who(entries), "", "ms", samples, than=who(world.sizes.entries[0]))
        results.add(CASE, f"{who(entries)}, git merge-file", "", "ms", _git(world, contents, times))


def _side(base: list[str], name: str) -> list[str]:
    step, shift = 20, 3 if name == "ours" else 7
    lines = []
    for number, entry in enumerate(base):
        if number % 50 != shift:
            lines.append(entry)
        if number % step == shift:
            lines.append(f"{name} learned {number}")
    return lines


def _merge(contents: list[bytes]) -> bytes:
    by_id = {blob_id(content): content for content in contents}
    base, ours, theirs = (File(oid) for oid in (blob_id(content) for content in contents))
    facts = Facts(
        read=by_id.__getitem__, touched_ours=lambda path: None, touched_theirs=lambda path: None,
        kind_ours=lambda path: Kind.FILE, kind_theirs=lambda path: Kind.FILE, now=0,
    )  # fmt: skip
    result = merge.trees({PATH: Triple(base, ours, theirs)}, facts).files[PATH]
    if not isinstance(result, Content):
        raise NotSeen("nothing was merged")
    return result.data


def _check(result: bytes, sides: list[list[str]]) -> None:
    merged = set(result.decode().rstrip("\n").split("\n§\n"))
    added = {entry for side in sides for entry in side if "learned" in entry}
    if not added <= merged:
        raise NotSeen("an entry is missing")


def _git(world: World, contents: list[bytes], times: int) -> list[float]:
    place = world.fresh("merge")
    for name, content in zip(("base", "ours", "theirs"), contents, strict=True):
        (place / name).write_bytes(content)
    words = ("git", "merge-file", "--union", "-p", "ours", "base", "theirs")
    return [each * 1000 for each in repeated(min(times, 5), lambda: call(*words, at=place))]
