"""What a person sees of a soul: history in words, versions that lost, the status as it changes."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import time
from pathlib import Path

from tests.real.fleet import Body, Fleet, until

NOTE = "notes/steep.md"


def pair(fleet: Fleet) -> tuple[Body, Body]:
    """Two bodies that agree."""
    laptop, phone = fleet.body("laptop"), fleet.body("phone")
    laptop.write(NOTE, "# steep\n")
    fleet.converge()
    return laptop, phone


def lost(fleet: Fleet) -> tuple[Body, str]:
    """A body, and the id of a version of the note that lost."""
    laptop, phone = pair(fleet)
    with laptop.offline(), phone.offline():
        laptop.write(NOTE, "# steep\n\n    70 degrees\n")
        laptop.sync(code=5)
        phone.write(NOTE, "# steep\n\n    90 degrees\n")
        phone.sync(code=5)
    fleet.converge()
    return laptop, next(one["id"] for one in laptop.json("conflicts") if one["path"] == NOTE)


def test_history_in_words_is_as_long_as_wanted_and_names_each_body_once(near: Fleet) -> None:
    laptop, _ = pair(near)
    whole = laptop.run("log").out.splitlines()
    assert len(whole) > 2
    assert laptop.run("log", "-n", "2").out.splitlines() == whole[:2]
    assert [row["commit"][:10] for row in laptop.json("log", "-n", "2")] == [line.split()[0] for line in whole[:2]]
    assert {line.count("phone") + line.count("laptop") for line in laptop.run("log", NOTE).out.splitlines()} == {1}
    for wrong in ("x", "-1", "1.5"):
        assert laptop.run("log", "-n", wrong).code == 2


def test_a_difference_keeps_the_indentation_that_may_be_all_of_it(near: Fleet) -> None:
    laptop, _ = pair(near)
    laptop.write(NOTE, "# steep\n  two\n\tthree\n")
    laptop.sync()
    laptop.write(NOTE, "# steep\n    two\n\tthree\r\n")
    laptop.sync()
    for said in (laptop.run("show", laptop.tip()).out, laptop.run("diff", laptop.git("rev-parse", "main^")[:10]).out):
        lines = said.splitlines()
        assert "   # steep" in lines and "  -  two" in lines and "  +    two" in lines


def test_a_lost_version_can_be_looked_at_before_it_is_brought_back(near: Fleet) -> None:
    """MERGE-6: seeing changes nothing, and what is shown is what comes back."""
    laptop, id = lost(near)
    tip, stands = laptop.tip(), laptop.read(NOTE) or ""
    gone = "70" if "90" in stands else "90"
    for words in (("conflicts", "--show", id), ("restore", "--dry-run", id)):
        said = laptop.run(*words)
        assert said.code == 0 and f"  +    {gone} degrees" in said.out and "\n  -    " in said.out
        assert f"soul-bridge restore kaoru {id}" in said.out
        document = laptop.json(*words)
        assert document["path"] == NOTE and document["changes"][0]["added"] == [f"    {gone} degrees"]
    assert (laptop.tip(), laptop.read(NOTE)) == (tip, stands)
    laptop.json("restore", id)
    assert laptop.read(NOTE) == f"# steep\n\n    {gone} degrees\n"


def test_a_dry_run_refuses_what_the_real_one_would(near: Fleet) -> None:
    laptop, _ = pair(near)
    for words in (("abcd",), ("HEAD", "notes/none.md"), ("HEAD", NOTE)):
        dry, real = (laptop.run("restore", *more, *words, "--json") for more in (("--dry-run",), ()))
        assert dry.expect(3) == real.expect(3)


def test_an_old_version_of_a_file_can_be_looked_at(near: Fleet) -> None:
    laptop, _ = pair(near)
    before = laptop.tip()
    laptop.write(NOTE, "# other\n")
    laptop.sync()
    said = laptop.run("restore", "--dry-run", before, NOTE).out
    assert "  +# steep" in said and f"soul-bridge restore kaoru {before} {NOTE}" in said


def test_a_mistyped_command_is_answered_with_the_one_that_was_meant(near: Fleet, tmp_path: Path) -> None:
    body = Body("laptop", tmp_path, "")
    for typed, meant in (("stauts", "status"), ("conflict", "conflicts"), ("key shwo", "show"), ("sevice", "service")):
        said = body.run(*typed.split())
        assert said.code == 2 and f"did you mean {meant}" in said.err and "next: soul-bridge " in said.err
    said = body.run("frobnicate")
    assert said.code == 2 and "there is no command 'frobnicate': known are init, run, sync" in said.err


def test_a_pause_says_that_a_sync_still_makes_a_pass(near: Fleet) -> None:
    laptop, _ = pair(near)
    assert "`soul-bridge sync` still makes one" in laptop.run("pause").out
    laptop.write(NOTE, "# paused\n")
    assert "still paused: no other pass until soul-bridge resume kaoru" in laptop.run("sync").out
    assert NOTE in laptop.tree()
    assert laptop.status()["state"] == "paused"


def watching(body: Body, *words: str) -> subprocess.Popen[bytes]:
    """`status --watch` whose output goes to a file."""
    with (body.home / "watched").open("wb") as out:
        return subprocess.Popen(body.command("status", "--watch", *words), env=body.env(), stdout=out)


def watched(body: Body) -> list[str]:
    """Whole lines so far."""
    return (body.home / "watched").read_text().split("\n")[:-1]


def test_watching_gives_a_line_for_each_change_and_none_for_time_that_passes(fleet: Fleet) -> None:
    body = fleet.body("laptop").start()
    process = watching(body)
    until(lambda: watched(body), "the first line")
    until(lambda: (len(watched(body)), time.sleep(2.0))[0] == len(watched(body)), "time alone is no change")
    assert "in sync with origin as of" in watched(body)[-1]
    body.json("pause")
    until(lambda: "paused; " in watched(body)[-1], "the pause is told")
    process.send_signal(signal.SIGINT)
    assert process.wait(10) == 130


def test_watching_as_json_is_one_object_on_each_line(fleet: Fleet) -> None:
    body = fleet.body("laptop")
    process = watching(body, "--json")
    until(lambda: watched(body), "the first line")
    body.start()
    until(lambda: watched(body) and json.loads(watched(body)[-1])["state"] == "idle", "it runs")
    states = [json.loads(line)["state"] for line in watched(body)]
    assert (states[0], states[-1]) == ("stopped", "idle")
    process.send_signal(signal.SIGINT)
    assert process.wait(10) == 130


def test_watching_on_a_terminal_draws_over_what_was_there_and_ends_cleanly(fleet: Fleet) -> None:
    body = fleet.body("laptop", poll="10s").start()
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        body.command("status", "--watch"), env=body.env(), stdin=theirs, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    drawn, begun = b"", time.monotonic()
    os.set_blocking(ours, False)
    while time.monotonic() < begun + (2.5 if drawn.count(b"\x1b[H") > 1 else 30):
        try:
            drawn += os.read(ours, 65536)
        except BlockingIOError:
            time.sleep(0.02)
    took = time.monotonic() - begun
    process.send_signal(signal.SIGINT)
    assert process.wait(10) == 130
    os.close(ours)
    assert drawn.count(b"\x1b[2J") == 1 and b"Traceback" not in drawn
    assert 2 <= drawn.count(b"\x1b[H") <= 2 * took + 1, "redrawn, and not more than twice a second"
    assert b"in sync with origin as of" in drawn and b"bodies" in drawn


def test_what_kept_a_pass_from_beginning_is_told_by_status_until_it_is_over(near: Fleet) -> None:
    """REPO-7, AUTH-7: "in sync" is no answer while nothing can be looked at."""
    laptop, _ = pair(near)
    git_dir, table = laptop.soul / ".git", laptop.soul / ".git/soul-bridge/seen.db"

    def planted() -> None:
        (git_dir / "objects/info/alternates").write_text("/nowhere\n")

    def healed() -> None:
        (git_dir / "objects/info/alternates").unlink()

    def covered() -> None:
        table.rename(table.with_name("aside"))
        table.mkdir()

    def uncovered() -> None:
        table.rmdir()
        table.with_name("aside").rename(table)

    for break_it, mend_it in ((planted, healed), (covered, uncovered)):
        break_it()
        failed = laptop.run("sync")
        told = laptop.status()["problem"]
        assert failed.code != 0 and told is not None and told["message"] in failed.err + failed.out
        assert told["advice"] and "the checkout or its disk cannot be used" in laptop.run("status").out.splitlines()[0]
        since = told["since"]
        assert laptop.run("sync").code != 0 and laptop.status()["problem"]["since"] == since
        mend_it()
        laptop.sync()
        assert laptop.status()["problem"] is None


def test_a_name_with_a_line_break_is_no_line_of_ours(near: Fleet) -> None:
    """TREE-6: nor is any other of its characters taken as it comes."""
    laptop, _ = pair(near)
    laptop.write("notes/x\nheld: nothing\x1b[31m.md", "x\n")
    for command in ("sync", "validate", "status"):
        said = laptop.run(command)
        assert "held: nothing" in said.out and "\x1b" not in said.out, command
        assert not any(row.startswith("held: nothing") for row in said.out.splitlines()), command


def test_any_number_of_commits_may_be_asked_for(near: Fleet) -> None:
    laptop, _ = pair(near)
    assert laptop.run("log", "-n", "99999999999999999999").out == laptop.run("log", "-n", "1000").out


def test_what_was_put_back_below_locks_can_be_looked_at_and_taken_out(near: Fleet) -> None:
    """MERGE-10: it cannot come back, and nobody has to guess how to get at it."""
    laptop, _ = pair(near)
    laptop.write("locks/door-codes.md", "1234\n")
    laptop.sync()
    assert laptop.read("locks/door-codes.md") is None
    (one,) = (each for each in laptop.json("conflicts") if each["path"] == "locks/door-codes.md")
    said = laptop.run("conflicts", "--show", one["id"])
    assert said.code == 0 and "  +1234" in said.out and "It cannot come back" in said.out
    assert f"cat-file blob {one['blob']} > FILE" in said.out
    assert laptop.git("cat-file", "blob", one["blob"]).strip() == "1234"
    assert laptop.run("restore", one["id"], "--json").expect(3)["error"]["rule"] == "MERGE-10"
