"""Traps B: what merging may lose, bring back, double or break (tests/TRAPS.md)."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import time

import pytest

from tests.real import quick
from tests.real.fleet import tree_of
from tests.real.quick import Body, Fleet

MEMORY = "memories/MEMORY.md"
NOTE = "notes/tea/sencha.md"
SECOND = 1.1  # committer times are whole seconds


def entries(*texts: str) -> str:
    """A memory file."""
    return "\n§\n".join(texts) + "\n"


def apart(first: Body, second: Body, between: float = 0.0) -> None:
    """What both wrote meets: first is published, second merges (seconds later), and both see the result."""
    first.sync()
    time.sleep(between)
    second.sync()
    first.sync()
    second.sync()


def listed(body: Body, path: str) -> list[str]:
    """The contents of versions of a path that lost a merge."""
    found = [one["blob"] for one in body.json("conflicts") if one["path"] == path]
    return [body.git("cat-file", "blob", blob) for blob in found]


def test_what_one_body_deleted_does_not_come_back_from_another(laptop: Body, server: Body, fleet: Fleet) -> None:
    """Traps 21, 63: the other body still has the file, is behind, and writes something else."""
    laptop.remove(NOTE)
    laptop.sync()
    server.write("notes/other.md", "# other\n")
    server.sync()
    assert server.read(NOTE) is None
    assert NOTE not in tree_of(fleet.bare)
    laptop.sync()
    assert laptop.read(NOTE) is None


def test_an_old_copy_of_a_deleted_file_does_not_come_back_through_a_lost_memory(laptop: Body, server: Body) -> None:
    """Traps 21, 139; REPO-6: a body that no longer knows what it saw brings no published version back to life."""
    laptop.remove(NOTE)
    laptop.sync()
    for name in ("seen.db", "seen.db-wal", "seen.db-shm"):
        (server.private() / name).unlink(missing_ok=True)
    server.sync()
    server.sync()
    laptop.sync()
    assert server.read(NOTE) is None and laptop.read(NOTE) is None


def test_a_file_written_anew_after_its_deletion_is_real(laptop: Body, server: Body) -> None:
    """Trap 21: an agent that writes a file again means it, the same bytes included."""
    kept = laptop.read(NOTE) or ""
    laptop.remove(NOTE)
    laptop.sync()
    server.sync()
    server.write(NOTE, kept)
    server.sync()
    laptop.sync()
    assert laptop.read(NOTE) == kept


def test_a_deleted_entry_stays_deleted_whatever_is_added_beside_it(laptop: Body, server: Body, fleet: Fleet) -> None:
    """Trap 22; MERGE-2."""
    laptop.write(MEMORY, entries("owns a kettle", "born in Turku"))
    server.append(MEMORY, "§\nhas a canoe\n")
    apart(laptop, server)
    assert laptop.entries(MEMORY) == ["owns a kettle", "born in Turku", "has a canoe"]
    fleet.agree()


def test_an_entry_reworded_on_both_is_there_in_both_wordings_and_never_more(laptop: Body, server: Body) -> None:
    """Trap 24; MERGE-2: both rewordings are kept, once; syncing on and on piles nothing up."""
    laptop.write(MEMORY, entries("owns a kettle", "speaks Finnish and Swedish", "born in Turku"))
    server.write(MEMORY, entries("owns a kettle", "speaks Finnish at home", "born in Turku"))
    for _ in range(4):
        apart(laptop, server)
    both = ["owns a kettle", "speaks Finnish and Swedish", "speaks Finnish at home", "born in Turku"]
    assert laptop.entries(MEMORY) == server.entries(MEMORY) == both


def test_each_bodys_day_is_in_the_journal(laptop: Body, server: Body, fleet: Fleet) -> None:
    """Trap 26; FORM-4: both write today's journal while they cannot see each other."""
    for body, word in ((laptop, "walked"), (server, "compiled")):
        body.write(f"journal/{body.name}/2026-02-03.md", f"# 2026-02-03 · {body.name}\n\n## 08:00 {word}\n")
    apart(laptop, server)
    files = fleet.agree()
    for name, word in (("laptop", b"walked"), ("server", b"compiled")):
        assert word in files[f"journal/{name}/2026-02-03.md"]


def test_one_name_on_two_machines_loses_no_section(laptop: Body, server: Body, fleet: Fleet) -> None:
    """Traps 26, 93; MERGE-9: a copied disk runs beside its original under the same body's name."""
    subprocess.run(["cp", "-a", str(laptop.home), str(laptop.home.with_name("copy"))], check=True)
    time.sleep(SECOND)
    copy = Body("laptop", laptop.home.with_name("copy"), laptop.remote)
    config = copy.home / "config/kaoru.yaml"
    config.write_text(config.read_text().replace(f"{laptop.home}/", f"{copy.home}/"))
    day = "journal/laptop/2026-02-03.md"
    laptop.write(day, "# 2026-02-03 · laptop\n\n## 08:00 walked\n")
    copy.write(day, "# 2026-02-03 · laptop\n\n## 09:00 swam\n")
    laptop.sync()
    said = copy.sync()["sentence"]
    assert "two machines share the name laptop" in said
    assert any(one.get("rule") == "MERGE-9" for one in copy.events("conflict.resolved"))
    laptop.sync()
    server.sync()
    text = server.read(day) or ""
    assert text.count("## 08:00 walked") == 1 and text.count("## 09:00 swam") == 1
    assert laptop.tip() == copy.tip() == server.tip()
    for body in (laptop, copy):
        body.sync()
        (told,) = body.status()["warnings"]
        assert "two machines share the name laptop" in told and "--take-over" in told, "it is told as long as it is so"
    assert server.status()["warnings"] == []
    time.sleep(SECOND)
    laptop.json("init", "kaoru", "--take-over")
    assert laptop.status()["warnings"] == []


def test_a_body_that_comes_back_from_a_backup_is_not_called_another_machine(laptop: Body, server: Body) -> None:
    """Trap 93; MERGE-9: it forgot what it published since, and writes the same files anew."""
    backup, day = laptop.home.with_name("backup"), "journal/laptop/2026-02-03.md"
    subprocess.run(["cp", "-a", str(laptop.home), str(backup)], check=True)
    time.sleep(SECOND)
    laptop.write(day, "# 2026-02-03 · laptop\n\n## 08:00 walked\n")
    laptop.sync()
    time.sleep(SECOND)
    shutil.rmtree(laptop.home)
    subprocess.run(["cp", "-a", str(backup), str(laptop.home)], check=True)
    laptop.write(day, "# 2026-02-03 · laptop\n\n## 09:00 swam\n")
    for _ in range(2):
        assert "two machines" not in laptop.sync()["sentence"]
        assert laptop.status()["warnings"] == []
    server.sync()
    text = server.read(day) or ""
    assert text.count("## 08:00 walked") == 1 and text.count("## 09:00 swam") == 1


def test_no_side_wins_as_a_whole(laptop: Body, server: Body, fleet: Fleet) -> None:
    """Trap 27: beside one contested file, everything either side wrote stands."""
    for body in (laptop, server):
        body.write(NOTE, f"# sencha\n\n{body.name}\n")
        for number in range(5):
            body.write(f"notes/{body.name}/{number}.md", f"# {number}\n")
    apart(laptop, server)
    files = fleet.agree()
    assert sum(path.startswith(("notes/laptop/", "notes/server/")) for path in files) == 10


def test_a_version_that_lost_is_shown_and_comes_back_by_name(laptop: Body, server: Body) -> None:
    """Trap 29; MERGE-6: nothing is dropped silently; one command brings it back."""
    laptop.write(NOTE, "# sencha\n\n60 degrees.\n")
    server.write(NOTE, "# sencha\n\n80 degrees.\n")
    apart(laptop, server, SECOND)
    assert laptop.read(NOTE) == "# sencha\n\n80 degrees.\n"
    assert listed(laptop, NOTE) == listed(server, NOTE) == ["# sencha\n\n60 degrees.\n"]
    (one,) = server.json("conflicts")
    server.json("restore", one["id"])
    laptop.sync()
    assert laptop.read(NOTE) == "# sencha\n\n60 degrees.\n"


def test_markers_are_never_made_and_a_note_about_them_is_a_note(laptop: Body, server: Body, fleet: Fleet) -> None:
    """Trap 30: no merge writes markers; a text that documents them is synchronised like any other."""
    text = "# git\n\n<<<<<<< HEAD\nours\n=======\ntheirs\n>>>>>>> main\n"
    laptop.write("notes/git.md", text)
    laptop.write(NOTE, "# sencha\n\nA\n")
    laptop.write(MEMORY, entries("A", "born in Turku"))
    server.write(NOTE, "# sencha\n\nB\n")
    server.write(MEMORY, entries("B", "born in Turku"))
    apart(laptop, server)
    assert server.read("notes/git.md") == text
    for path, content in tree_of(fleet.bare).items():
        assert path == "notes/git.md" or b"<<<<<<<" not in content, path


def test_a_conflict_that_was_solved_is_not_raised_again(laptop: Body, server: Body, fleet: Fleet) -> None:
    """Trap 31: history is merged and never rebased, so what a merge decided stays decided."""
    laptop.write(NOTE, "# sencha\n\nA\n")
    server.write(NOTE, "# sencha\n\nB\n")
    laptop.sync()
    with server.offline():
        server.sync(code=5)
    mine = server.tip()
    server.sync()
    count = len(server.json("conflicts"))
    for number in range(3):
        laptop.write(f"notes/{number}.md", f"# {number}\n")
        laptop.sync()
        server.sync()
    assert len(server.json("conflicts")) == len(laptop.json("conflicts")) == count
    assert mine in fleet.git("rev-list", "main").split()


def test_trying_again_makes_no_new_commits(laptop: Body) -> None:
    """Traps 32, 106: a push that fails over and over sends the same commit, and an unchanged tree none."""
    laptop.append(MEMORY, "§\nhas a canoe\n")
    with laptop.offline():
        laptop.sync(code=5)
        tip = laptop.tip()
        for _ in range(5):
            laptop.sync(code=5)
        assert laptop.tip() == tip and laptop.status()["ahead"] == 1
    assert laptop.sync()["tip"] == tip


def test_two_souls_made_apart_are_joined_once_with_one_root(fleet: Fleet, laptop: Body, server: Body) -> None:
    """Trap 33; REPO-6: a body that began alone brings its memories and keeps its own history under a ref."""
    phone = fleet.body("phone", init=False)
    phone.init("--offline", "--display-name", "Kaoru")
    phone.write(MEMORY, entries("born in Turku", "has a canoe"))
    phone.run("sync", "--json")
    alone = phone.git("rev-parse", "HEAD").strip()
    phone.init("--host-key", fleet.server.fingerprint())
    phone.sync()
    laptop.sync()
    server.sync()
    assert set(phone.entries(MEMORY)) == {"owns a kettle", "speaks Finnish", "born in Turku", "has a canoe"}
    assert phone.git("merge-base", "--is-ancestor", alone, "HEAD", check=False) == ""
    assert alone in phone.git("for-each-ref", "--format=%(objectname)", "refs/soul-bridge/keep")
    fleet.agree()


def test_a_file_of_an_incoming_name_is_no_obstacle(laptop: Body, server: Body, fleet: Fleet) -> None:
    """Trap 36: both made the same name, neither knew; nothing is overwritten, the older version is listed."""
    laptop.write("notes/new.md", "# new\n\nfrom the laptop\n")
    server.write("notes/new.md", "# new\n\nfrom the server\n")
    apart(laptop, server, SECOND)
    fleet.agree()
    assert laptop.read("notes/new.md") == "# new\n\nfrom the server\n"
    assert listed(laptop, "notes/new.md") == ["# new\n\nfrom the laptop\n"]


def test_an_ignored_file_of_an_incoming_name_is_no_obstacle(laptop: Body, server: Body, fleet: Fleet) -> None:
    """Trap 36: the local one is ignored, the incoming one is not (another body's rules differ): none is lost."""
    laptop.append(".gitignore", "drafts/\n")
    laptop.sync()
    server.sync()
    server.write("drafts/plan.md", "# plan\n\nignored here\n")
    server.sync()
    laptop.write("drafts/plan.md", "# plan\n\nforced by a person\n")
    laptop.person("add", "-f", "drafts/plan.md")
    laptop.person("commit", "-qm", "a person's own")
    laptop.sync()
    for _ in range(3):
        answer = server.sync()
    assert answer["outcome"] == "ok"
    texts = {server.read("drafts/plan.md"), *listed(server, "drafts/plan.md")}
    assert "# plan\n\nignored here\n" in texts
    server.write("notes/after.md", "# after\n")
    assert server.sync()["pushed"]


def test_blanks_at_the_end_are_no_difference(laptop: Body, server: Body, fleet: Fleet) -> None:
    """Trap 37; FORM-3: an editor that leaves blanks round entries makes no second copies, however often it does."""
    laptop.write(MEMORY, "owns a kettle  \n§ \n\nspeaks Finnish\t\n§\nborn in Turku \n\n")
    server.write(MEMORY, entries("owns a kettle", "speaks Finnish and Swedish", "born in Turku"))
    for _ in range(3):
        apart(laptop, server)
    fleet.agree()
    assert laptop.entries(MEMORY) == ["owns a kettle", "speaks Finnish and Swedish", "born in Turku"]


def test_windows_line_ends_make_neither_conflict_nor_ping_pong(laptop: Body, server: Body, fleet: Fleet) -> None:
    """Trap 38; TREE-5: one body writes CRLF, the other edits; then both are quiet."""
    laptop.write(MEMORY, (laptop.read(MEMORY) or "").replace("\n", "\r\n"))
    laptop.write(NOTE, "# sencha\r\n\r\n75 degrees.\r\n")
    server.write(MEMORY, entries("owns a kettle", "speaks Finnish", "born in Turku", "has a canoe"))
    apart(laptop, server)
    assert fleet.agree()[NOTE] == b"# sencha\n\n75 degrees.\n"
    assert b"\r" not in b"".join(tree_of(fleet.bare).values())
    assert "has a canoe" in laptop.entries(MEMORY) and len(laptop.entries(MEMORY)) == 4
    tip = fleet.tip()
    for _ in range(3):
        apart(laptop, server)
    assert fleet.tip() == tip


def test_a_file_that_became_a_directory_and_was_edited_elsewhere_is_both(
    laptop: Body, server: Body, fleet: Fleet
) -> None:
    """Trap 40; MERGE-8: the directory keeps the name, the edited file stands beside it, whoever merges."""
    for name in ("topic-one", "topic-two"):
        laptop.write(name, "first\n")
    laptop.sync()
    server.sync()
    for body, other, name in ((laptop, server, "topic-one"), (server, laptop, "topic-two")):
        body.remove(name)
        body.write(f"{name}/inside.md", "# inside\n")
        other.write(name, "first\nedited\n")
    apart(laptop, server)
    files = fleet.agree()
    for name, editor in (("topic-one", "server"), ("topic-two", "laptop")):
        assert files[f"{name}/inside.md"] == b"# inside\n"
        assert files[f"{name}~{editor}"] == b"first\nedited\n"


def test_the_identity_stays_readable_whatever_attributes_say(laptop: Body, server: Body, fleet: Fleet) -> None:
    """Traps 42, 85; MERGE-4: fields are merged as fields, though `.gitattributes` asks for a union of lines."""
    laptop.append(".gitattributes", "*.json merge=union\n*.md merge=ours\n")
    laptop.sync()
    server.sync()
    for body, field in ((laptop, "mood"), (server, "motto")):
        fields = json.loads(body.read("agent.json") or "") | {field: body.name}
        body.write("agent.json", json.dumps(fields, indent=2) + "\n")
        body.append(MEMORY, f"§\nfrom the {body.name}\n")
    apart(laptop, server)
    fields = json.loads(fleet.agree()["agent.json"])
    assert (fields["mood"], fields["motto"]) == ("laptop", "server")
    assert {"from the laptop", "from the server"} <= set(laptop.entries(MEMORY))


def test_a_file_regenerated_from_an_old_cache_drops_nothing_it_never_read(laptop: Body, server: Body) -> None:
    """Trap 43; MERGE-12: 60 entries of another body arrived after the writer had read; none of them is deleted."""
    cache = laptop.entries(MEMORY)
    server.write(MEMORY, entries(*server.entries(MEMORY), *(f"number {number}" for number in range(60))))
    server.sync()
    laptop.write(MEMORY, entries(*cache[:2], "written from a cache"))
    laptop.sync()
    server.sync()
    found = server.entries(MEMORY)
    assert {f"number {number}" for number in range(60)} <= set(found)
    assert "written from a cache" in found and "born in Turku" not in found


def test_an_identity_that_was_broken_is_mended_and_it_is_said(laptop: Body, server: Body) -> None:
    """Trap 42; MERGE-5: an id that an agent changed is changed back, and nobody has to find out by himself."""
    before = json.loads(laptop.read("agent.json") or "")
    laptop.write("agent.json", json.dumps(before | {"id": "0" * 36, "mood": "calm"}, indent=2) + "\n")
    said = laptop.sync()["sentence"]
    server.sync()
    after = json.loads(server.read("agent.json") or "")
    assert (after["id"], after["mood"]) == (before["id"], "calm")
    assert "identity" in said and "MERGE-5" in said


def test_what_a_stale_writer_dropped_is_listed(laptop: Body, server: Body) -> None:
    """Trap 43; MERGE-12: the entries had arrived in the file, the writer overwrote them: a list tells of them."""
    cache = laptop.entries(MEMORY)
    server.append(MEMORY, "§\nhas a canoe\n")
    server.sync()
    laptop.sync()
    laptop.write(MEMORY, entries(*cache, "written from a cache"))
    laptop.sync()
    assert "has a canoe" in laptop.entries(MEMORY) or any("has a canoe" in text for text in listed(laptop, MEMORY))


def test_a_commit_that_deletes_everything_does_not_empty_the_bodies(laptop: Body, server: Body, fleet: Fleet) -> None:
    """Trap 44; GUARD-3, MERGE-5: a broken merge by another program waits, is told, and the identity stands."""
    for number in range(6):
        laptop.write(f"notes/{number}.md", f"# {number}\n")
    laptop.sync()
    server.sync()
    before = server.files()
    laptop.person("read-tree", "--empty")
    wreck = laptop.person("commit-tree", "-p", "HEAD", "-m", "merge", laptop.person("write-tree").strip()).strip()
    quick.person(fleet.bare, "fetch", "-q", str(laptop.soul), f"{wreck}:refs/heads/main")
    laptop.person("reset", "-q", "--mixed", "HEAD")
    answer = server.sync()
    assert {path for path, content in before.items() if server.files().get(path) != content} <= {"bodies/server.json"}
    assert any(one["rule"] == "GUARD-3" for one in answer["held"])
    assert json.loads(tree_of(fleet.bare)["agent.json"])["id"] == json.loads(before["agent.json"])["id"]
    assert server.status()["held"]


@pytest.mark.parametrize("seed", range(2))
def test_any_order_of_looks_ends_with_one_tree(fleet: Fleet, laptop: Body, server: Body, seed: int) -> None:
    """Traps 41, 45; MERGE-11: who merges and how often changes nothing."""
    chance = random.Random(seed)
    for round_ in range(3):
        for body in (laptop, server):
            body.write(MEMORY, entries(*chance.sample(body.entries(MEMORY), 2), f"{body.name} {round_}"))
            body.write(NOTE, f"# sencha\n\n{body.name} {round_}\n")
        for body in chance.choices([laptop, server], k=4):
            body.sync()
    fleet.converge()
    fleet.agree()
