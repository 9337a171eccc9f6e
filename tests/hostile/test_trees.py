"""Trees that no honest git writes: ordinary files arrive, unsafe ones are listed, nothing outside is touched."""

from __future__ import annotations

import json
import os
import resource
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.hostile.bounded import Bounded, Ground, below
from tests.hostile.forge import Forge, Row

AGENT_WROTE = "- written while it arrived\n"
EACH = 0.0005  # seconds of a processor for one of them
MANY = 100_000  # links in one folder: were each looked at for each, it would take minutes
LONG = "n" * 255
ACCENT = ("café.md", "cafe\u0301.md")  # composed and decomposed
DEEP = "/".join(["e"] * 200) + "/f"
WIDE = "/".join(["w" * 255] * 15 + ["w" * 254, "f"])  # 4,096 bytes, and, cut, too long below any checkout
EVIL_CONFIG = "[core]\n\tfsmonitor = {canary}\n\tsshCommand = {canary}\n\thooksPath = {canary}\n"

# What `status` has to call each of them, and the rule it is held by.
HELD = {
    ".git/config": "TREE-7",
    ".GIT/hooks/post-checkout": "TREE-7",
    ".gIt": "TREE-7",
    "git~1": "TREE-7",
    "GIT~2/config": "TREE-7",
    ".git.": "TREE-7",
    ".git ": "TREE-7",
    ".git . .": "TREE-7",
    ".git::$INDEX_ALLOCATION/config": "TREE-7",
    ".g\u200cit/config": "TREE-7",
    "\ufeff.git": "TREE-7",
    ".git\\config": "TREE-7",
    "..\\outside": "TREE-7",
    "..": "TREE-7",
    "...": "TREE-7",
    ".": "TREE-7",
    "deep/../../../outside": "TREE-7",
    "deep/.git/config": "TREE-7",
    "deep/.\udcff": "",  # bytes that are no UTF-8 are a name like any other
    "\0etc\0passwd": "TREE-7",  # a name that holds slashes is shown with NUL
    "..\0..\0outside": "TREE-7",
    "a\0b": "TREE-7",
    "esc\x1b[2J\x1b]0;owned\x07": "TREE-7",
    "line\nbreak": "TREE-7",
    "tab\tbed": "TREE-7",
    "del\x7f": "TREE-7",
    "c1\x9b31m": "TREE-7",
    "x" * 256: "TREE-7",
    "y" * 5_000: "TREE-7",
    "link": "TREE-6",
    "linked": "TREE-6",
    "notes/link.md": "TREE-6",
    "memories/OTHER.md": "TREE-6",
    "submodule": "TREE-6",
    "notes/submodule": "TREE-6",
    "mode-fifo": "TREE-6",
    "mode-socket": "TREE-6",
    "mode-device": "TREE-6",
    "mode-nothing": "TREE-6",
    "mode-beyond": "TREE-6",
    DEEP: "TREE-7",
    DEEP[:199] + "/g": "TREE-7",
    WIDE: "TREE-7",
    WIDE[:-60]: "TREE-7",
}
# Of these, what git takes into no index.
REFUSED = {
    path.replace("/", "\0")
    for path in HELD
    if ".g" in path.casefold()
    or "." in path.split("/")
    or ".." in path.replace("\0", "/").split("/")
    or "\0" in path
    or path in ("git~1", "\ufeff.git")
}
# What arrives, though it is odd.
CREATED = {
    "notes/ordinary.md": b"# ordinary\n",
    "Case.md": b"upper\n",
    "case.md": b"lower\n",
    "twice": b"first\n",
    ACCENT[0]: b"composed\n",
    ACCENT[1]: b"decomposed\n",
    LONG: b"long\n",
    "mode-group": b"x\n",
    "mode-all": b"x\n",
    "padded/file": b"x\n",
    "unsorted-z": b"z\n",
    "unsorted-a": b"a\n",
    "rtl\u202etxt.md": b"x\n",
    "-rf": b"x\n",
    "$(touch owned)": b"x\n",
    "con": b"x\n",
    ".gitmodules": b'[submodule "x"]\n\tpath = submodule\n\turl = ext::sh -c touch% owned\n\tupdate = !touch owned\n',
    "/".join("d" for _ in range(99)) + "/f": b"x\n",
}


def rows(forge: Forge, outside: Path, canary: Path) -> list[Row]:
    """Every unsafe entry, beside ordinary and odd ones."""
    x = forge.blob()
    config = forge.blob(EVIL_CONFIG.format(canary=canary))
    target = forge.blob(os.fsencode(outside / "kept"))
    place = forge.blob(os.fsencode(outside))
    commit = "12" * 20
    blob, link = "100644", "120000"
    named = [b".gIt", b"git~1", b".git.", b".git ", b".git . .", "\ufeff.git".encode(), b".git\\config", b"..\\outside",
             b"..", b"...", b".", b"/etc/passwd", b"../../outside", b"a/b", b"esc\x1b[2J\x1b]0;owned\x07",
             b"line\nbreak", b"tab\tbed", b"del\x7f", "c1\x9b31m".encode(), b"x" * 256, b"y" * 5_000]  # fmt: skip
    modes = {"fifo": "10644", "socket": "140644", "device": "20666", "nothing": "0", "beyond": "170000"}
    return [
        *((blob, each, x) for each in named),
        *((mode, b"mode-" + each.encode(), x) for each, mode in modes.items()),
        forge.chain([b".git", b"config"], config),
        forge.chain([b".GIT", b"hooks", b"post-checkout"], forge.blob(f"#!/bin/sh\ntouch {canary}\n"), "100755"),
        forge.chain([b"GIT~2", b"config"], config),
        forge.chain([b".git::$INDEX_ALLOCATION", b"config"], config),
        forge.chain([".g\u200cit".encode(), b"config"], config),
        ("40000", b"deep", forge.tree([
            forge.chain([b"..", b"..", b"..", b"outside"], x),
            forge.chain([b".git", b"config"], config),
            (blob, b".\xff", x),
        ])),
        (link, b"link", target),
        (link, b"linked", place),
        ("160000", b"submodule", commit),
        ("100664", b"mode-group", x), ("100777", b"mode-all", x),
        ("040000", b"padded", forge.tree([("0100644", b"file", x)])),
        ("100644", b"twice", forge.blob("first\n")), ("100755", b"twice", forge.blob("second\n")),
        ("100644", b"unsorted-z", forge.blob("z\n")), ("100644", b"unsorted-a", forge.blob("a\n")),
        forge.chain([b"d"] * 99 + [b"f"], x),
        deep(forge, x),
        wide(forge, x),
        *((blob, path.encode(), forge.blob(content)) for path, content in CREATED.items()
          if "/" not in path and not path.startswith(("mode", "twice", "unsorted"))),
    ]  # fmt: skip


def deep(forge: Forge, x: str) -> Row:
    """A file below 200 folders, and one below 100 of them."""
    rest = forge.chain([b"e"] * 100 + [b"f"], x)
    return forge.chain([b"e"] * 100, forge.tree([rest, ("100644", b"g", x)]), "40000")


def wide(forge: Forge, x: str) -> Row:
    """Two paths that part at their last folder: one of 4,096 bytes, one that a checkout's own place makes too long."""
    last = forge.tree([("100644", b"f", x)])
    both = forge.tree([("40000", b"w" * 254, last), ("100644", b"w" * 196, x)])
    return forge.chain([b"w" * 255] * 15, both, "40000")


def poisoned(forge: Forge, outside: Path, canary: Path) -> str:
    """A commit with all of them on main."""
    top = {row[1]: row for row in forge.rows()}
    below_notes = [("100644", b"ordinary.md", forge.blob("# ordinary\n")), ("160000", b"submodule", "13" * 20),
                   ("120000", b"link.md", forge.blob(os.fsencode(outside / "kept")))]  # fmt: skip
    notes = forge.tree([*forge.rows(top[b"notes"][2]), *below_notes])
    memories = [*forge.rows(top[b"memories"][2]), ("120000", b"OTHER.md", forge.blob(os.fsencode(outside / "kept")))]
    kept = [row for row in forge.rows() if row[1] not in (b"notes", b"memories")]
    made = [("40000", b"notes", notes), ("40000", b"memories", forge.tree(memories)), *rows(forge, outside, canary)]
    ordered = sorted([*kept, *made], key=lambda row: row[1] + (b"/" if row[0] in ("40000", "040000") else b""))
    ordered.sort(key=lambda row: row[1] == b"unsorted-a")  # behind everything, where it does not belong
    return forge.commit(forge.tree(ordered, ordered=False))


@dataclass
class Story:
    """A body that was there before, one that joined after, and the place that nobody may touch."""

    ground: Ground
    before: Bounded
    after: Bounded
    outside: Path
    poison: str
    held: list[dict[str, str]]


@pytest.fixture(scope="module")
def story(found: Callable[[], Ground], tmp_path_factory: pytest.TempPathFactory) -> Story:
    """The commit arrives at one body while its agent writes, and at another that joins."""
    ground = found()
    ground.within = True
    outside, canary = tmp_path_factory.mktemp("outside"), tmp_path_factory.mktemp("canary") / "owned"
    (outside / "kept").write_text("kept\n")
    canary.write_text(f"#!/bin/sh\ntouch {outside}/executed\n")
    canary.chmod(0o755)
    ground.watch(outside, canary)
    before = ground.body("laptop")
    poison = poisoned(ground.forge, outside, canary)
    (ground.root / "laptop" / "souls" / "outside").mkdir()
    before.append("memories/MEMORY.md", AGENT_WROTE)
    assert before.sync()["outcome"] == "ok"
    before.append("notes/ordinary.md", "more\n")
    before.write("linked-not.md", "mine\n")
    assert before.sync()["pushed"]
    after = ground.body("server")
    assert before.sync()["outcome"] == after.sync()["outcome"] == "ok"
    return Story(ground, before, after, outside, poison, [before.held(), after.held()])


@pytest.mark.parametrize("path", HELD, ids=ascii)
def test_what_is_unsafe_is_listed_with_its_rule_and_stays_in_the_tree(story: Story, path: str) -> None:
    """TREE-6, TREE-7: on the body that was there and on the one that joined; it is in no way created."""
    for held in story.held:
        assert held.get(path, "") == HELD[path]


def test_nothing_that_is_unsafe_stands_on_the_disk(story: Story) -> None:
    """TREE-6, TREE-7: every name below the checkouts is one that may be there, and no link is."""
    for body in (story.before, story.after):
        there = below(body.soul)
        assert not [path for path in there if path.startswith(("w", "e/e/"))][:3]
        assert not [path for path in there if os.path.islink(body.soul / path)]
        assert not [path for path in there for unsafe in HELD if HELD[unsafe] and path == unsafe]
        assert not [path for path in there if "owned" in path and path != "$(touch owned)"]
        assert "hooks" not in {part.casefold() for path in there for part in path.split("/")}


@pytest.mark.parametrize("path", CREATED, ids=lambda path: ascii(path)[:40])
def test_what_is_only_odd_arrives(story: Story, path: str) -> None:
    """TREE-7: twins are two files where names do not fold; modes are one of two; of a doubled name the first holds."""
    content = CREATED[path] + (b"more\n" if path == "notes/ordinary.md" else b"")
    for body in (story.before, story.after):
        assert (body.soul / path).read_bytes() == content
        assert bool((body.soul / path).stat().st_mode & 0o100) == (path == "mode-all")


def test_what_the_agent_wrote_meanwhile_is_published_and_unsafe_entries_stay_as_they_were(story: Story) -> None:
    """TREE-7: they stay in the tree byte for byte, whatever is committed on top."""
    assert AGENT_WROTE in (story.after.read("memories/MEMORY.md") or "")
    assert story.after.read("linked-not.md") == "mine\n"
    forge = story.ground.forge
    poison = {row for row in forge.rows(story.poison) if row[1] not in (b"notes", b"memories", b"bodies", b"twice")}
    assert poison <= set(forge.rows())
    assert story.before.tip() == story.after.tip() == forge.tip()


def test_nothing_outside_was_touched_nothing_was_executed_and_it_took_no_time(story: Story) -> None:
    """TREE-7, AUTH-7: canaries are whole; no command took longer than it may on a slow machine."""
    story.ground.untouched()
    for body in (story.before, story.after):
        assert sorted(os.listdir(body.soul.parent)) in (["kaoru.soul"], ["kaoru.soul", "outside"])
        assert os.listdir(body.soul.parent / "outside") == [] if (body.soul.parent / "outside").exists() else True
        assert "fsmonitor" not in (body.soul / ".git/config").read_text()
        assert body.slowest < 15


def test_git_status_of_a_person_names_only_what_git_itself_never_lets_in(story: Story) -> None:
    """TREE-7, AUTH-7: what was not created is no deletion to a person's git, where an index can hold it at all."""
    for body in (story.before, story.after):
        assert story.poison in body.git("rev-list", "main")
        for line in body.git("status", "--porcelain", "-z").split("\0"):
            assert not line or (line.startswith("D  ") and line[3:].replace("/", "\0") in REFUSED), line


def test_no_name_steers_the_terminal(story: Story) -> None:
    """TREE-7: whatever is shown to people escapes what would act."""
    for body in (story.before, story.after):
        for words in (("status",), ("log",), ("show", story.poison), ("validate",), ("diff", story.poison)):
            said = body.run(*words)
            assert not [letter for letter in said.out + said.err if letter in "\x1b\x07\x9b\x7f\u202e\t"], words


def test_a_folder_of_a_hundred_thousand_entries_costs_what_its_size_costs(ground: Ground) -> None:
    """TREE-6: each is listed, none is created; the next pass does not pay for them again."""
    body = ground.body("laptop")
    link = ground.forge.blob("/etc/passwd")
    many = ground.forge.tree([("120000", b"l%06d" % number, link) for number in range(MANY)])
    ground.forge.add(("40000", b"many", many), ("100644", b"fine.md", ground.forge.blob("fine\n")))
    body.write("notes/mine.md", "# mine\n")
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert body.run("sync").code == 0
    now, born_with = resource.getrusage(resource.RUSAGE_CHILDREN), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert now.ru_utime - used.ru_utime < MANY * EACH and now.ru_maxrss <= max(used.ru_maxrss, born_with, 300 * 1024)
    assert body.read("fine.md") == "fine\n" and not (body.soul / "many").exists()
    assert ground.forge.tip() == body.tip()
    document = json.loads((body.state / "status.json").read_bytes())
    assert len(document["held"]) == MANY
