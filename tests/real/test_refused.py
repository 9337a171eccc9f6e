"""REPO-8 on a real server: a hook that minds what is pushed, daemons that go on all the same, and git's own opinion."""

from __future__ import annotations

import signal

from tests.real.fleet import Body, Fleet, fsck, until

# As scanners do it: every commit that arrives is looked at, and the first path found is named.
SCANNER = """\
range="$new"; case "$old" in *[!0]*) range="$old..$new";; esac
for commit in $(git rev-list "$range"); do
    for path in $(git diff-tree --no-commit-id -r -m --root --name-only "$commit" | sort -u); do
        if git show "$commit:$path" 2>/dev/null | grep -q TOKEN-; then
            echo "GH013: push declined: path $path holds a secret" >&2; exit 1
        fi
    done
done
exit 0
"""
# As size limits do it: no path is named.
LIMIT = """\
range="$new"; case "$old" in *[!0]*) range="$old..$new";; esac
git rev-list --objects "$range" | cut -d' ' -f1 | git cat-file --batch-check='%(objectsize)' | while read size; do
    [ "$size" -le 20000 ] || { echo "an object is larger than this server takes" >&2; exit 1; }
done
"""


def hook(fleet: Fleet, script: str) -> None:
    """What the server thinks of pushes; "": it takes everything."""
    path = fleet.bare / "hooks/pre-receive"
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\nread old new ref\n{script}\n")
    path.chmod(0o755 if script else 0o644)


def held(body: Body) -> dict[str, str]:
    """What status says is held by REPO-8: path and reason."""
    return {one["path"]: one["reason"] for one in body.status()["held"] if one["rule"] == "REPO-8"}


def everything(fleet: Fleet) -> str:
    """All bytes that the server's main reaches, in any commit."""
    return fleet.git("log", "-p", "-m", "--root", "--format=%B", "main")


def test_a_scanner_holds_one_path_while_two_daemons_go_on(fleet: Fleet) -> None:
    """REPO-8, GUARD-5: named in status with the server's words; it never reaches the server, nor gets lost here."""
    laptop, other = fleet.body("laptop"), fleet.body("other")
    laptop.write("memories/MEMORY.md", "likes tea\n")
    fleet.converge()
    hook(fleet, SCANNER)
    fleet.everyone(Body.start)
    for number in range(12):
        laptop.write(f"notes/{number}.md", f"# {number}\n")
    laptop.write("notes/login.md", "# login\n\nTOKEN-1234\n")
    laptop.append("memories/MEMORY.md", "§\nowns a kettle\n")
    until(
        lambda: other.read("notes/11.md") and "kettle" in (other.read("memories/MEMORY.md") or ""), "the rest arrives"
    )
    until(lambda: held(laptop), "it is held")
    assert list(held(laptop)) == ["notes/login.md"]
    assert "GH013" in held(laptop)["notes/login.md"] and laptop.status()["problem"] is None
    other.append("memories/MEMORY.md", "§\nfrom the other\n")
    until(lambda: "from the other" in (laptop.read("memories/MEMORY.md") or ""), "the other's memory arrives here")
    laptop.stop(signal.SIGKILL)
    laptop.start()
    laptop.write("notes/after.md", "# after\n")
    until(lambda: other.read("notes/after.md"), "work goes on after a kill")
    assert list(held(laptop)) == ["notes/login.md"] and laptop.read("notes/login.md") == "# login\n\nTOKEN-1234\n"
    assert "TOKEN-" not in everything(fleet)
    assert laptop.git("status", "--porcelain") == "?? notes/login.md\n"
    assert "TOKEN-1234" in laptop.git("log", "-p", "--format=", "--glob=refs/soul-bridge/keep/*")
    hook(fleet, "")
    laptop.sync("--now")
    until(lambda: other.read("notes/login.md") == "# login\n\nTOKEN-1234\n", "a person let it go")
    assert held(laptop) == {}
    fleet.settled()
    assert fleet.everyone(Body.stop) == [0, 0]
    fleet.agree()


def test_a_server_that_names_nothing_is_searched_by_halves(near: Fleet) -> None:
    """REPO-8: a limit on sizes, a merge under way, and a note that is cut down to what the server takes."""
    fleet = near
    laptop, other = fleet.body("laptop"), fleet.body("other")
    fleet.converge()
    hook(fleet, LIMIT)
    for number in range(9):
        laptop.write(f"notes/{number}.md", f"# {number}\n")
    laptop.write("notes/long.md", "".join(f"{number * 7919 % 104729}\n" for number in range(8000)))
    other.write("notes/other.md", "# other\n")
    other.sync()
    pushes = len(fleet.history())
    laptop.sync()
    assert list(held(laptop)) == ["notes/long.md"] and len(fleet.history()) - pushes <= 14
    assert laptop.sync()["pushed"] is False, "it did not change"
    other.sync()
    assert other.read("notes/8.md") == "# 8\n" and laptop.read("notes/other.md") == "# other\n"
    laptop.write("notes/long.md", "# short now\n")
    laptop.sync()
    assert list(held(laptop)) == ["notes/long.md"], "it waits its hour"
    laptop.sync("--now")
    assert held(laptop) == {}
    fleet.converge()
    assert fleet.agree()["notes/long.md"] == b"# short now\n"
    fsck(laptop.soul)


def test_the_very_first_push_may_hold_something_back(near: Fleet) -> None:
    """REPO-8, REPO-5: an empty repository gets a whole soul all the same, with one root."""
    fleet = near
    hook(fleet, SCANNER)
    laptop = fleet.body("laptop", init=False)
    laptop.write("notes/login.md", "TOKEN-1\n")
    laptop.write("notes/tea.md", "# tea\n")
    laptop.init("--host-key", fleet.server.fingerprint(), "--display-name", "Kaoru")
    laptop.sync()
    assert list(held(laptop)) == ["notes/login.md"] and "TOKEN-" not in everything(fleet)
    other = fleet.body("other")
    assert other.read("notes/tea.md") == "# tea\n" and other.read("memories/MEMORY.md") == ""
    laptop.remove("notes/login.md")
    fleet.converge()
    assert held(laptop) == {}
    fleet.agree()
