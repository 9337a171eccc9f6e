"""The TREE rules on real bodies: what is filled in, what is held, what is never created, what is left out."""

from __future__ import annotations

import json
import os
import stat
import time
from collections.abc import Callable

import pytest

from tests.real.fleet import Body, Fleet, git

SPEC = b'{\n  "spec": "soul-repo",\n  "version": 4\n}\n'
ATTRIBUTES = b"* text=auto eol=lf\n*.md text diff=markdown\n*.json text\n"
IGNORE = b"*.tmp\n*.swp\n.DS_Store\n*.incoming*.md\n"


@pytest.fixture(scope="module")
def pair(found: Callable[..., Fleet]) -> Fleet:
    """Two bodies that these tests share, each test with paths of its own; their calls start no process."""
    fleet = found()
    fleet.within = True
    for name in ("laptop", "server"):
        fleet.body(name, hold_back_over="1MiB")
    fleet.converge()
    return fleet


@pytest.fixture
def laptop(pair: Fleet) -> Body:
    """The body that writes."""
    return pair.bodies["laptop"]


@pytest.fixture
def server_body(pair: Fleet) -> Body:
    """The body that receives."""
    return pair.bodies["server"]


def held(body: Body) -> dict[str, str]:
    """What a pass holds, by path, with the rule."""
    return {one["path"]: one["rule"] for one in body.sync()["held"]}


def publish(fleet: Fleet, changes: dict[str, tuple[str, bytes]], message: str = "by another program") -> None:
    """Lay a commit on the server as another implementation would; (mode, content) by path, no check of any name."""

    def tree(prefix: str, rows: dict[str, tuple[str, str, str]]) -> str:
        below: dict[str, dict[str, tuple[str, str, str]]] = {}
        lines = []
        for path, row in rows.items():
            first, slash, rest = path.partition("/")
            if slash:
                below.setdefault(first, {})[rest] = row
            else:
                lines.append((first, *row))
        lines += [(name, "040000", "tree", tree(f"{prefix}{name}/", inner)) for name, inner in below.items()]
        listed = "".join(f"{mode} {kind} {oid}\t{name}\0" for name, mode, kind, oid in lines)
        return fleet_git("mktree", "-z", "--missing", stdin=listed.encode()).strip()

    def fleet_git(*words: str, stdin: bytes | None = None) -> str:
        return git(fleet.bare, *words, stdin=stdin)

    rows = {}
    for line in fleet.git("ls-tree", "-r", "-z", "main").split("\0"):
        if line:
            words, path = line.split("\t", 1)
            mode, kind, oid = words.split()
            rows[path] = (mode, kind, oid)
    for path, (mode, content) in changes.items():
        if mode == "160000":
            rows[path] = (mode, "commit", content.decode())
        else:
            rows[path] = (mode, "blob", fleet_git("hash-object", "-w", "--stdin", stdin=content).strip())
    tip = fleet.tip()
    commit = fleet_git("commit-tree", tree("", rows), "-p", tip, "-m", message).strip()
    fleet_git("update-ref", "refs/heads/main", commit, tip)


def test_a_soul_is_born_whole_in_one_commit(pair: Fleet, laptop: Body) -> None:
    """TREE-1, TREE-2, FORM-1, FORM-2: fixed contents byte for byte, required entries, seed text, one commit."""
    root = pair.git("rev-list", "--max-parents=0", "main").strip()
    born = {path for path in git(pair.bare, "ls-tree", "-r", "--name-only", "-z", root).split("\0") if path}
    assert born == {
        ".soul-spec.json", ".gitattributes", ".gitignore", "README.md", "agent.json", "SOUL.md", "memories/MEMORY.md",
        "memories/USER.md", "journal/.gitkeep", "notes/.gitkeep", "bodies/laptop.json",
    } | {"bodies/.gitkeep"} & born  # fmt: skip
    files = laptop.files()
    assert files[".soul-spec.json"] == SPEC and files[".gitattributes"] == ATTRIBUTES and files[".gitignore"] == IGNORE
    assert files["SOUL.md"] == b"# Kaoru\n" and files["memories/MEMORY.md"] == b""
    assert "kaoru" in files["README.md"].decode() and "private" in files["README.md"].decode()
    fields = json.loads(files["agent.json"])
    assert list(fields) == [
        "id", "name", "displayName", "pronouns", "description", "color", "language", "createdAt", "seed",
    ]  # fmt: skip
    assert fields["name"] == "kaoru" and fields["displayName"] == "Kaoru" and fields["seed"] is True
    body = json.loads(files["bodies/laptop.json"])
    assert body["body"] == "laptop" and body["kind"] == "bridge" and list(body)[-1] == "lastSeen"


def test_what_is_no_file_is_held_and_neither_recorded_nor_taken_for_a_deletion(pair: Fleet, laptop: Body) -> None:
    """TREE-6, GUARD-5, GUARD-6: links, pipes, nested repositories, large files and odd names stay on this body."""
    laptop.write("notes/tracked.md", "# tracked\n")
    laptop.sync()
    (laptop.soul / "notes/tracked.md").unlink()
    os.symlink("/etc/hostname", laptop.soul / "notes/tracked.md")
    os.symlink("tracked.md", laptop.soul / "notes/link.md")
    os.mkfifo(laptop.soul / "notes/pipe")
    git(laptop.soul, "init", "-q", "notes/nested")
    laptop.write("notes/nested/inside.md", "# inside\n")
    laptop.write("notes/large.bin", b"\1" * (1 << 20) + b"\1")
    laptop.write("notes/odd\nname.md", "# odd\n")
    laptop.write("notes/plain.md", "# plain\n")
    found = held(laptop)
    names = {"notes/tracked.md", "notes/link.md", "notes/pipe", "notes/nested", "notes/large.bin", "notes/odd\nname.md"}
    assert {path.rstrip("/") for path in found} == names and set(found.values()) == {"TREE-6"}
    tree = laptop.tree()
    assert tree["notes/tracked.md"] == b"# tracked\n" and "notes/plain.md" in tree
    assert not names - {"notes/tracked.md"} & tree.keys() and "notes/nested/inside.md" not in tree
    for name in names:
        laptop.remove(name)
    laptop.write("notes/tracked.md", "# tracked\n\nagain\n")
    assert laptop.sync()["held"] == []
    assert laptop.tree()["notes/tracked.md"] == b"# tracked\n\nagain\n"


def test_what_the_remote_brings_is_created_only_where_that_is_safe(pair: Fleet, laptop: Body) -> None:
    """TREE-6, TREE-7: unsafe names and links stay in the tree, are listed, never created, never deleted."""
    unsafe = {
        "notes/.GIT/config": "TREE-7", "notes/git~1/x": "TREE-7", "notes/.git. /x": "TREE-7",
        "notes/.g\u200cit/x": "TREE-7", "notes/bell\x07.md": "TREE-7", "notes/remote-link.md": "TREE-6",
        "notes/module": "TREE-6",
    }  # fmt: skip
    tip = pair.tip()
    modes = {"notes/remote-link.md": ("120000", b"/etc/passwd"), "notes/module": ("160000", tip.encode())}
    publish(
        pair, {path: modes.get(path, ("100644", b"x\n")) for path in unsafe} | {"notes/safe.md": ("100644", b"s\n")}
    )
    answer = laptop.sync()
    assert laptop.read("notes/safe.md") == "s\n"
    listed = {one["path"]: one["rule"] for one in laptop.status()["held"]}
    listed |= {one["path"]: one["rule"] for one in answer["held"]}
    assert {path: rule for path, rule in listed.items() if path in unsafe} == unsafe
    for path in unsafe:
        assert not os.path.lexists(laptop.soul / path), path
    laptop.append("notes/safe.md", "t\n")
    laptop.sync()
    names = git(laptop.soul, "ls-tree", "-r", "-z", "--name-only", "main").split("\0")
    assert unsafe.keys() <= set(names)
    # git's index refuses spellings of .git, so its status misses them; everything else is clean.
    status = laptop.git("status", "--porcelain").splitlines()
    assert len(status) == 4 and all(line.startswith("D ") for line in status), status


def test_extra_entries_are_the_agents_and_ignored_ones_stay_here(pair: Fleet, laptop: Body, server_body: Body) -> None:
    """TREE-4: other top-level entries are synchronised; .gitignore counts for what is not tracked, excludes never."""
    laptop.write("workshop/plan.txt", "plan\n")
    laptop.write("skills/tea/SKILL.md", "# tea\n")
    laptop.write("scratch.tmp", "ignored\n")
    laptop.write("notes/private/.gitignore", "*.key\n")
    laptop.write("notes/private/a.key", "ignored too\n")
    laptop.write("notes/excluded.md", "# excluded\n")
    (laptop.soul / ".git/info").mkdir(exist_ok=True)
    (laptop.soul / ".git/info/exclude").write_text("excluded.md\n")
    laptop.sync()
    tree = laptop.tree()
    assert {"workshop/plan.txt", "skills/tea/SKILL.md", "notes/private/.gitignore", "notes/excluded.md"} <= tree.keys()
    assert not {"scratch.tmp", "notes/private/a.key"} & tree.keys()
    assert laptop.status()["ignored"] == 2
    server_body.sync()
    assert server_body.read("workshop/plan.txt") == "plan\n"
    laptop.git("add", "-f", "scratch.tmp")
    laptop.git("commit", "-q", "-m", "track it")
    time.sleep(1.1)  # of two versions of one second, the commit would stand (MERGE-6)
    laptop.write("scratch.tmp", "tracked now\n")
    laptop.sync()
    assert laptop.tree()["scratch.tmp"] == b"tracked now\n"


def test_a_path_that_is_removed_and_ignored_at_once_stays_on_disk(pair: Fleet, laptop: Body, server_body: Body) -> None:
    """TREE-8: what a merge removes and ignores is gone from the tree, and stays where it lies."""
    laptop.write("notes/log/run.log", "one\n")
    laptop.sync()
    server_body.sync()
    laptop.write("notes/log/.gitignore", "*.log\n")
    laptop.git("rm", "-q", "--cached", "notes/log/run.log")
    laptop.git("add", "notes/log/.gitignore")
    laptop.git("commit", "-q", "-m", "ignore logs")
    laptop.sync()
    server_body.sync()
    assert "notes/log/run.log" not in server_body.tree()
    assert server_body.read("notes/log/run.log") == "one\n"
    assert server_body.read("notes/log/.gitignore") == "*.log\n"


def test_the_executable_bit_travels(pair: Fleet, laptop: Body, server_body: Body) -> None:
    """TREE-5: the executable bit is merged like content; no other mode exists."""
    laptop.write("skills/tool.sh", "#!/bin/sh\n")
    (laptop.soul / "skills/tool.sh").chmod(0o700)
    laptop.sync()
    server_body.sync()
    assert (server_body.soul / "skills/tool.sh").stat().st_mode & stat.S_IXUSR
    server_body.append("skills/tool.sh", "true\n")
    (laptop.soul / "skills/tool.sh").chmod(0o644)
    laptop.sync()
    server_body.sync()
    laptop.sync()
    for body in pair.bodies.values():
        assert body.read("skills/tool.sh") == "#!/bin/sh\ntrue\n"
        assert not (body.soul / "skills/tool.sh").stat().st_mode & stat.S_IXUSR
    assert "100644" in pair.git("ls-tree", "main", "skills/tool.sh")


def test_form_is_reported_and_refuses_nothing(pair: Fleet, laptop: Body, server_body: Body) -> None:
    """TREE-5: binaries and bytes that are not UTF-8 are synchronised; `validate` names them."""
    laptop.write("notes/picture.bin", bytes(range(256)) * 3)
    laptop.write("notes/latin.md", "# latin\nf\u00fcr\n".encode("latin-1"))
    laptop.sync()
    server_body.sync()
    assert (server_body.soul / "notes/picture.bin").read_bytes() == bytes(range(256)) * 3
    found = {(one["rule"], one["path"]) for one in laptop.json("validate", code=1)}
    assert {("TREE-5", "notes/picture.bin"), ("TREE-5", "notes/latin.md")} <= found


def test_another_bodys_files_are_held_when_changed_and_put_back_when_gone(
    pair: Fleet, laptop: Body, server_body: Body
) -> None:
    """MERGE-9: only their body writes journal/<body>/ and bodies/<body>.json."""
    server_body.write("journal/server/2026-01-02.md", "# 2026-01-02 · server\n")
    server_body.sync()
    laptop.sync()
    laptop.append("journal/server/2026-01-02.md", "forged\n")
    assert held(laptop)["journal/server/2026-01-02.md"] == "MERGE-9"
    assert laptop.tree()["journal/server/2026-01-02.md"] == b"# 2026-01-02 \xc2\xb7 server\n"
    laptop.write("journal/server/2026-01-02.md", "# 2026-01-02 · server\n")
    laptop.remove("bodies/server.json")
    assert "journal/server/2026-01-02.md" not in held(laptop)
    assert json.loads(laptop.read("bodies/server.json") or "")["body"] == "server"


def test_required_and_fixed_files_come_back(pair: Fleet, laptop: Body) -> None:
    """GUARD-2: what must be there and is gone is put back from HEAD, and nothing is recorded for it."""
    before = laptop.tree()
    for path in ("SOUL.md", "agent.json", "memories/USER.md", ".gitattributes", "README.md"):
        laptop.remove(path)
    laptop.sync()
    laptop.sync()
    for path in ("SOUL.md", "agent.json", "memories/USER.md", ".gitattributes", "README.md"):
        assert (laptop.soul / path).read_bytes() == before[path]
    assert laptop.tree() == before


def test_an_identity_never_loses_its_id(pair: Fleet, laptop: Body, server_body: Body) -> None:
    """MERGE-5: an id that was changed, and an identity that was broken, are undone; other fields count."""
    fields = json.loads(laptop.read("agent.json") or "")
    laptop.write(
        "agent.json", json.dumps(fields | {"id": "0" * 8 + fields["id"][8:], "color": "#abcdef"}, indent=2) + "\n"
    )
    laptop.sync()
    server_body.sync()
    got = json.loads(server_body.read("agent.json") or "")
    assert (got["id"], got["color"]) == (fields["id"], "#abcdef")
    laptop.write("agent.json", "{ not JSON")
    laptop.sync()
    laptop.sync()
    for body in (laptop, server_body):
        assert json.loads(body.read("agent.json") or "")["id"] == fields["id"]
    assert json.loads(laptop.tree()["agent.json"])["id"] == fields["id"]


def test_a_later_version_of_the_rules_is_left_as_it_is(near: Fleet) -> None:
    """TREE-3, TREE-1: fixed files that another version wrote stay; what is missing is filled in."""
    fleet = near
    later = {
        ".soul-spec.json": b'{\n  "spec": "soul-repo",\n  "version": 14\n}\n', ".gitattributes": b"*.md text\n",
        "agent.json": b'{"id": "8f14e45f-ceea-467f-ab2d-0a1b2c3d4e5f", "name": "kaoru", "displayName": "K", "x": 1}\n',
    }  # fmt: skip
    files = {path: ("100644", content) for path, content in later.items()}
    empty = git(fleet.bare, "mktree", stdin=b"").strip()
    root = git(fleet.bare, "commit-tree", empty, "-m", "start").strip()
    fleet.git("update-ref", "refs/heads/main", root)
    publish(fleet, files, "version 14 (other)")
    body = fleet.body("laptop")
    for path, content in later.items():
        assert (body.soul / path).read_bytes() == content
    assert {"SOUL.md", "memories/MEMORY.md", ".gitignore", "notes/.gitkeep", "bodies/laptop.json"} <= body.tree().keys()
    body.write("notes/a.md", "# a\n")
    body.sync()
    assert body.tree()[".soul-spec.json"] == later[".soul-spec.json"]
    fleet.agree()


def test_the_pair_agrees_after_all_that(pair: Fleet) -> None:
    """MERGE-11: bodies that stop writing end with the same tree."""
    pair.converge()
    for body in pair.bodies.values():
        assert body.git("status", "--porcelain") == ""
    tip = pair.tip()
    for _ in range(3):
        pair.everyone(Body.sync)
    assert pair.tip() == tip
