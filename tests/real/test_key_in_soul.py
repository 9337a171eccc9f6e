# ruff: noqa: F401, F811 - fixtures that are imported
"""A private key inside the soul is no part of it: no commit has it, and where one has, nothing is sent (CONTENT-2).

What a commit has once is pushed with every later one, so the place of the key is asked about before a pass records.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.app.test_doctor import rows, type_in
from tests.real.pair import fleet, host, laptop, server, template
from tests.real.quick import Body, Fleet, person


def named(body: Body, key: Path) -> None:
    """The configuration names this place."""
    path = body.home / "config" / f"{body.agent}.yaml"
    kept = [line for line in path.read_text().splitlines() if not line.startswith("key:")]
    path.write_text("\n".join([*kept, f"key: {key}", ""]))


def has(place: Path, secret: bytes) -> bool:
    """Whether an object of a repository has these bytes."""
    names = subprocess.run(
        ["git", "cat-file", "--batch-all-objects", "--batch"], cwd=place, capture_output=True, check=True
    )
    return secret in names.stdout


@pytest.mark.parametrize("way", ["named there", "a link into it", "only the next one"])
def test_a_private_key_in_the_soul_is_never_recorded(laptop: Body, fleet: Fleet, way: str) -> None:
    """AUTH-2, CONTENT-2: refused before the pass records; doctor's remedy moves it out, and everything goes on."""
    key, inside = laptop.key, laptop.soul / "notes" / "key"
    secret = key.read_bytes().splitlines()[2]
    if way == "only the next one":
        waiting = key.with_name(key.name + ".next")
        inside.write_bytes(key.read_bytes())
        inside.chmod(0o600)
        waiting.symlink_to(inside)
    else:
        os.rename(key, inside)
        named(laptop, inside) if way == "named there" else key.symlink_to(inside)
    done = laptop.run("sync")
    assert (done.code, "inside the soul" in done.err + done.out) == (3, True), done
    assert not has(laptop.soul, secret)
    told = laptop.json("status")
    assert isinstance(told, dict) and told["problem"]["kind"] == "config"
    if way == "only the next one":
        return
    remedy = rows(laptop)["key"]["remedy"]
    type_in(laptop, remedy)
    assert not inside.exists() and not key.is_symlink()
    done = laptop.run("sync")
    assert done.code == 0, done
    assert not has(laptop.soul, secret) and not has(fleet.bare, secret)


def test_no_other_key_is_replaced_by_the_one_that_is_moved_out(laptop: Body) -> None:
    key, inside = laptop.key, laptop.soul / "notes" / "key"
    inside.write_bytes(key.read_bytes())
    inside.chmod(0o600)
    named(laptop, inside)
    key.write_text("another one\n")
    type_in(laptop, rows(laptop)["key"]["remedy"])
    assert key.read_text() == "another one\n"
    done = laptop.run("sync")
    assert done.code == 0, done


@pytest.mark.parametrize("way", ["a hard link", "a copy", "the next one"])
def test_a_private_key_under_another_name_in_the_soul_is_held(laptop: Body, fleet: Fleet, way: str) -> None:
    """AUTH-2, CONTENT-2: it is recorded nowhere, everything else is published, and the words say what to do."""
    key, inside = laptop.key, laptop.soul / "notes" / "key.md"
    secret = key.read_bytes().splitlines()[2]
    if way == "the next one":
        waiting = key.with_name(key.name + ".next")
        waiting.write_bytes(key.read_bytes()[:-40] + b"x" * 40)
        inside.write_bytes(waiting.read_bytes())
    elif way == "a copy":
        inside.write_bytes(key.read_bytes())
    else:
        os.link(key, inside)
    laptop.write("notes/b.md", "# b\n")
    done = laptop.run("sync")
    assert done.code == 0 and "notes/key.md" in done.out and "private key" in done.out, done
    assert not has(laptop.soul, secret) and not has(fleet.bare, secret)
    assert fleet.git("show", "main:notes/b.md") == "# b\n"
    told = laptop.json("status")
    assert isinstance(told, dict)
    assert [(one["path"], one["rule"]) for one in told["held"]] == [("notes/key.md", "AUTH-2")]
    message = rows(laptop)["set aside"]
    assert "notes/key.md" in message["message"] and "private key" in message["message"]
    assert "rm " in message["remedy"]
    inside.unlink()
    done = laptop.run("sync")
    assert done.code == 0 and laptop.json("status")["held"] == [], done
    assert key.exists()


def test_a_key_that_history_has_opens_nothing_until_another_one_takes_its_place(laptop: Body, fleet: Fleet) -> None:
    """CONTENT-2: what was committed by hand stays here until `key rotate` made it worthless."""
    key, inside = laptop.key, laptop.soul / "notes" / "key"
    secret, old = key.read_bytes().splitlines()[2], laptop.public_line()
    inside.write_bytes(key.read_bytes())
    person(laptop.soul, "add", "-f", "notes/key")
    person(laptop.soul, "commit", "-q", "-m", "oh no")
    inside.unlink()
    done = laptop.run("sync")
    assert (done.code, "in history" in done.out, "key rotate" in done.err) == (4, True, True), done
    assert not has(fleet.bare, secret)
    assert "key rotate" in rows(laptop)["key"]["remedy"]
    laptop.run("key", "rotate", laptop.agent)
    waiting = laptop.key.with_name(f"{laptop.key.name}.next.pub")
    fleet.server.authorize(fleet.repository, waiting.read_text().strip())
    assert laptop.run("key", "rotate", laptop.agent).code == 0
    fleet.server.revoke(fleet.repository, old)
    done = laptop.run("sync")
    assert (done.code, rows(laptop)["key"]["state"]) == (0, "ok"), done
