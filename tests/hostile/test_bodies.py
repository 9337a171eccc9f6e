"""What another body that means harm, or a person with a key, can commit: it is read, merged, and does nothing."""

from __future__ import annotations

import itertools
import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.hostile.bounded import Bounded, Ground, below
from tests.hostile.forge import Forge
from tests.real.fleet import git

ACTS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]")
_numbers = itertools.count()
SEPARATORS = 1_000_000


@pytest.fixture(scope="module")
def ground(found: Callable[[], Ground]) -> Ground:
    """One repository for all of these tests: what one commits stays in the history of the next."""
    made = found()
    made.within = True
    made.body("laptop")
    return made


@pytest.fixture(scope="module")
def outside(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("outside")
    (place / "MEMORY.md").write_text("kept\n")
    return place


@pytest.fixture
def body(ground: Ground) -> Bounded:
    found = ground.bodies["laptop"]
    assert isinstance(found, Bounded)
    return found


@pytest.fixture
def forge(ground: Ground) -> Forge:
    return ground.forge


def met(body: Bounded, note: str) -> None:
    """One pass after the hostile commit, while the agent writes: it completes, and the agent's word is published."""
    body.write(f"notes/{note}.md", f"# {note}\n{next(_numbers)}\n")
    answer = body.sync()
    assert answer["outcome"] == "ok" and answer["pushed"], answer
    assert answer["tip"] == body.tip()


def quiet(body: Bounded, *commands: tuple[str, ...]) -> None:
    """What these commands say to a person holds nothing that acts."""
    for words in commands:
        done = body.run(*words)
        assert done.code in (0, 1), (words, done.err)
        assert (bad := ACTS.search(done.out + done.err)) is None, (words, bad)


def identity(body: Bounded) -> dict[str, object]:
    """What main holds as the identity."""
    found: dict[str, object] = json.loads(body.git("show", "main:agent.json"))
    return found


# --- heads and messages of commits -----------------------------------------------------------------------------------


def test_no_head_or_message_of_a_commit_stops_or_deceives_anybody(body: Bounded, forge: Forge) -> None:
    """COMMIT-3: absurd names, impossible times, gigantic messages, forged facts: all of it in one pull."""
    evil = forge.blob("evil\n").encode()
    facts = b"".join(
        b"Lost: %s %s\n" % (evil, path)
        for path in (b".git/config", b"../../outside", b'"notes/\\033[2J.md"', b"/etc/passwd", b"fine/lost.md")
    )
    many = b"".join(b"Lost: %s n%d.md\n" % (evil, number) for number in range(6_000))
    commits: list[dict[str, bytes | int]] = [
        {"author": b"A" * 200_000 + b"\x1b[2J \xe2\x80\xae(laptop) <<>> <"},
        {"author": b""},
        {"author": b"(((((" * 1_000},
        {"author": b"\xff\xfe\x00(mallory)"},
        {"at": 10**17},
        {"at": 2**64 + 5},
        {"at": -(10**10)},
        {"message": b"\x1b[2J\x1b]0;owned\x07" + b"m" * (20 << 20)},
        {"message": b""},
        {"message": b"subject\xe2\x80\xae (mallory)\n\n" + facts},
        {"message": b"many\n\n" + many},
        {"message": b"Restored: 0123\n\nRestored: \x1b[2J\nDismissed: ../../x\nUndone: " + b"9" * 5_000 + b"\n"},
        {"message": b"x\n", "more": b"encoding punycode\nencoding idna\ngpgsig -----BEGIN\n \x1b[2J\n"},
    ]
    for number, how in enumerate(commits):
        forge.write({f"heads/{number}.md": f"{number}\n", "heads/evil.md": "evil\n"}, **how)  # type: ignore[arg-type]
    met(body, "heads")
    assert [body.read(f"heads/{number}.md") for number in range(len(commits))] == [
        f"{number}\n" for number in range(len(commits))
    ]
    quiet(body, ("log",), ("bodies",), ("conflicts",), ("show", "main"), ("status",))


def test_a_forged_fact_brings_nothing_to_an_unsafe_place(body: Bounded) -> None:
    """TREE-7: a lost version can be brought back only to where a file may stand."""
    listed = {one["path"]: one["id"] for one in body.json("conflicts")}
    assert listed.keys() >= {"fine/lost.md", ".git/config", "notes/\x1b[2J.md"}
    assert not {"../../outside", "/etc/passwd"} & listed.keys()
    for path, rule in ((".git/config", "TREE-7"), ("notes/\x1b[2J.md", "TREE-6")):
        assert body.json("restore", listed[path], code=3)["error"]["rule"] == rule
    assert body.json("restore", listed["fine/lost.md"])["paths"] == ["fine/lost.md"]
    assert body.read("fine/lost.md") == "evil\n"


def test_an_unsafe_file_of_history_is_not_brought_back(body: Bounded, forge: Forge) -> None:
    """TREE-7: neither `restore COMMIT PATH` nor `revert` lays down what could not be created."""
    commit = forge.add(("40000", b".git", forge.tree([("100644", b"config", forge.blob("[core]\n"))])))
    forge.add(without=[b".git"])
    met(body, "restored")
    assert body.json("restore", commit, ".git/config", code=3)["error"]["rule"] == "TREE-7"
    assert body.run("restore", commit, "../outside").code == 3
    assert ".git" not in body.git("ls-tree", "--name-only", "main").split()


# --- the shape of history --------------------------------------------------------------------------------------------


def test_no_shape_of_history_costs_more_than_its_size(body: Bounded, forge: Forge) -> None:
    """MERGE: thousands of parents, three hundred crossed merges, a second root, a commit without a file."""
    tip = forge.tip()
    tree = git(forge.bare, "rev-parse", f"{tip}^{{tree}}").strip()

    def made(parents: list[str], time: int, tree: str = tree) -> str:
        head = b"tree %s\n%sauthor a (x) <a> %d +0000\ncommitter a (x) <a> %d +0000\n\nx\n"
        lines = "".join(f"parent {parent}\n" for parent in parents).encode()
        return forge.put("commit", head % (tree.encode(), lines, time, time))

    many = [made([tip], number) for number in range(1_500)]
    one, other = made([*many, *many[:5]], 1), made([tip], 2)
    for number in range(300):
        one, other = made([one, other], number * 2), made([other, one], number * 2 + 1)
    root = made([], 5, forge.tree([("100644", b"evil", forge.blob())]))
    forge.point(made([root, one, other], 9))
    met(body, "shapes")
    quiet(body, ("log",), ("conflicts",))
    assert not (body.soul / "evil").exists()


# --- files that this program reads -----------------------------------------------------------------------------------

OTHER = "11111111-1111-4111-8111-111111111111"


@pytest.mark.parametrize(
    "change",
    [
        {"id": OTHER},
        {"id": None, "displayName": "\x1b[2J\u202e<>\n(laptop)"},
        {"id": 5, "name": ["x"], "displayName": {"a": 1}},
        "{broken",
        "[" * 200_000,
        '{"id": ' + "9" * 100_000 + "}",
        "",
    ],
    ids=lambda change: str(change)[:20],
)
def test_the_identity_stays_the_same(body: Bounded, forge: Forge, change: str | dict[str, object]) -> None:
    """MERGE-5: another id, none, or no identity at all is undone in that much, and the agent is who it was."""
    mine = identity(body)
    if isinstance(change, dict):
        fields = {key: value for key, value in {**mine, **change}.items() if value is not None}
        change = json.dumps(fields)
    forge.write({"agent.json": change})
    met(body, "identity")
    assert identity(body)["id"] == mine["id"] == json.loads(body.read("agent.json") or "")["id"]
    subject = body.git("log", "-1", "--format=%an %s", "main")
    assert not ACTS.search(subject.rstrip("\n"))


@pytest.mark.parametrize("kind", ["gone", "link", "gitlink", "folder"])
def test_the_identity_stays_a_file(body: Bounded, forge: Forge, outside: Path, kind: str) -> None:
    """MERGE-5, TREE-6: it cannot be taken away, nor turned into something else."""
    mine = identity(body)
    if kind == "gone":
        forge.add(without=[b"agent.json"])
    elif kind == "link":
        forge.add(("120000", b"agent.json", forge.blob(os.fsencode(outside / "MEMORY.md"))))
    elif kind == "gitlink":
        forge.add(("160000", b"agent.json", "12" * 20))
    else:
        forge.add(("40000", b"agent.json", forge.tree([("100644", b"x", forge.blob())])))
    met(body, "kind")
    assert identity(body)["id"] == mine["id"]
    assert not (body.soul / "agent.json").is_symlink() and (body.soul / "agent.json").is_file()


def test_a_register_of_nonsense_is_read_as_far_as_it_makes_sense(body: Bounded, forge: Forge) -> None:
    """FORM-6, MERGE-9: names that lead elsewhere, values of every kind, and this body's own entry taken over."""
    rows = {row[1]: row for row in forge.rows()}
    forged = {
        b"\x1b[2J.json": '{"body": "\\u001b[2J", "kind": 5, "lastSeen": {"a": []}, "host": ["x"]}',
        b"deep.json": "[" * 100_000,
        b"huge.json": '{"lastSeen": "9999-12-31T23:59:59+00:00", "host": ' + "9" * 4_000 + "}",
        b"old.json": '{"lastSeen": "0001-01-01T00:00:00+23:59", "kind": "\\u202e\\u001b[31m"}',
        b"long.json": json.dumps({"body": "long", "kind": "x" * 1_000_000, "lastSeen": "y" * 1_000_000}),
        b"laptop.json": '{"body": "laptop", "lastSeen": "0001-01-01T00:00:00+23:59", "host": "\\ud800"}',
    }
    kept = [row for row in forge.rows(rows[b"bodies"][2]) if row[1] not in forged]
    made = [("100644", name, forge.blob(content)) for name, content in forged.items()]
    above = ("40000", b"..", forge.tree([("100644", b"x.json", forge.blob("{}"))]))
    many = [("100644", b"b%05d.json" % number, forge.blob("{}")) for number in range(300)]
    forge.add(("40000", b"bodies", forge.tree([*kept, *made, *many, above])))
    met(body, "register")
    assert body.held()["bodies/../x.json"] == "TREE-7"
    assert not (body.soul / "x.json").exists()
    quiet(body, ("bodies",), ("status",), ("validate",))
    assert json.loads(body.read("bodies/laptop.json") or "")["body"] == "laptop"


@pytest.mark.parametrize(
    "content",
    [
        '{"body": "\\u001b[2J\\u202e", "until": 1e308}',
        "[" * 100_000,
    ],
    ids=["for ever", "deep"],
)
def test_a_lease_of_nonsense_is_shown_and_ends_by_itself(body: Bounded, forge: Forge, content: str) -> None:
    """LEASE-3: it holds nobody up for longer than a lease lasts, and takes nothing over."""
    forge.write({"locks/consolidation.json": content})
    met(body, "lease")
    quiet(body, ("lease", "show"), ("status",))
    assert body.run("lease", "acquire").code in (0, 6)


def test_files_that_became_something_else_are_held_and_come_back(body: Bounded, forge: Forge, outside: Path) -> None:
    """TREE-6, TREE-7: links and gitlinks in the places that this program writes to itself are never followed."""
    link = forge.blob(os.fsencode(outside / "MEMORY.md"))
    good = forge.rows()
    forge.add(
        ("120000", b"SOUL.md", link),
        ("40000", b"memories", forge.tree([("160000", b"MEMORY.md", "12" * 20), ("120000", b"USER.md", link)])),
        ("40000", b".gitignore", forge.tree([("100644", b"x", forge.blob())])),
        ("120000", b"journal", forge.blob(os.fsencode(outside))),
    )
    body.append("memories/MEMORY.md", "- mine\n")
    met(body, "became")
    assert not [path for path in below(body.soul) if (body.soul / path).is_symlink()]
    forge.add(
        ("160000", b"memories", "12" * 20),
        ("120000", b"notes", forge.blob(os.fsencode(outside))),
        ("120000", b"bodies", forge.blob(os.fsencode(outside))),
        ("120000", b".gitignore", forge.blob("/etc/passwd")),
    )
    body.write("elsewhere/mine.md", "mine\n")
    assert body.sync("--now")["outcome"] == "ok"
    assert body.held()["SOUL.md"] == body.held()["journal"] == body.held()["memories"] == "TREE-6"
    assert not [path for path in below(body.soul) if (body.soul / path).is_symlink()]
    assert sorted(os.listdir(outside)) == ["MEMORY.md"] and (outside / "MEMORY.md").read_text() == "kept\n"
    forge.add(*[row for row in good if row[1] in (b"SOUL.md", b"memories", b".gitignore", b"journal", b"notes")])
    rows = [row for row in good if row[1] == b"bodies"]
    forge.add(*rows)
    met(body, "back")
    assert (body.soul / "memories/MEMORY.md").is_file() and (body.soul / "SOUL.md").is_file()
    assert not {"SOUL.md", "journal", "memories", ".gitignore"} & body.held().keys()
    assert body.git("status", "--porcelain", "--", "SOUL.md", "journal", "memories", ".gitignore") == ""


def test_rules_for_git_are_content_and_nothing_else(body: Bounded, forge: Forge, tmp_path: Path) -> None:
    """TREE-4, AUTH-7: ignoring everything hides nothing that is tracked; filters and drivers are never run."""
    filters = "* filter=evil diff=evil merge=evil text eol=crlf working-tree-encoding=UTF-16 ident\n"
    forge.write({
        ".gitignore": "*\n!*/\n[\n\\\n" + "a" * 50_000 + "\n" + "**/" * 5_000 + "x\n" + "*a" * 60 + "b\n",
        ".gitattributes": filters + "x" * 50_000 + " -text\n",
        ".gitmodules": '[submodule "x"]\n\tpath = x\n\turl = ext::touch% owned\n\tupdate = !touch owned\n',
        "tracked/there.md": "$Id$\r\nthere\n",
        "a" * 120 + "/file.md": "x\n",
    })  # fmt: skip
    canary = tmp_path / "owned"
    for name in ("filter.evil.clean", "filter.evil.smudge", "diff.evil.command", "diff.evil.textconv"):
        body.git("config", name, f"touch {canary}; cat")
    body.git("config", "merge.evil.driver", f"touch {canary}")
    body.append("memories/MEMORY.md", "- although ignored\n")
    body.write("tracked/there.md", "changed\n")
    answer = body.sync()
    assert answer["outcome"] == "ok"
    assert "although ignored" in body.git("show", "main:memories/MEMORY.md")
    body.write("tracked/there.md", "changed again\n")
    body.sync()
    assert body.git("show", "main:tracked/there.md") == "changed again\n"
    assert not canary.exists()
    body.write(".gitignore", "*.tmp\n")
    body.sync()


def test_a_million_separators_are_merged_in_no_time(body: Bounded, forge: Forge) -> None:
    """MERGE-2: nothing but separators on one side, an addition on the other."""
    forge.write({"memories/MEMORY.md": "§\n" * SEPARATORS + "- last\n"})
    body.append("memories/MEMORY.md", "§\n- here\n")
    met(body, "separators")
    merged = body.read("memories/MEMORY.md") or ""
    assert "- last" in merged and "- here" in merged and len(merged) < 10_000


def test_whoever_joins_afterwards_gets_the_same(ground: Ground, body: Bounded) -> None:
    """REPO-6: the whole hostile history is no obstacle to a new body."""
    other = ground.body("server")
    body.sync()
    other.sync()
    assert other.tip() == body.tip() == ground.tip()
    assert {path: content for path, content in other.files().items()} == body.files()


@pytest.fixture(autouse=True)
def crash_free(ground: Ground) -> Iterator[None]:
    """No test leaves an error that nobody expected."""
    yield
    for body in ground.bodies.values():
        assert not (body.home / "state" / "errors.log").exists()
