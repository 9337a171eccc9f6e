"""A lost or damaged git directory beside soul files is mended, never taken for a new soul (REPO-7)."""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bridge import cli
from bridge.adapters import config
from bridge.app import demo
from bridge.app.demo import AGENT, REPOSITORY
from bridge.app.host import Host


class Body(demo.Body):
    """A body whose commands run here, without a Python of their own."""

    def call(self, *words: str) -> tuple[int, Any]:
        out = io.StringIO()
        code = cli.run([*words, "--json"], config.locate(self._environment()), out, io.StringIO())
        return code, json.loads(out.getvalue() or "{}")


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[tuple[Body, Body]]:
    (tmp_path / "host").mkdir()
    host = Host(tmp_path / "host").start()
    try:
        host.create(REPOSITORY)
        yield joined(host, tmp_path, "laptop"), joined(host, tmp_path, "server")
    finally:
        host.stop()


def joined(host: Host, root: Path, name: str) -> Body:
    body = Body(name, root / name)
    words = ["init", AGENT, "--remote", host.address(REPOSITORY), "--body", name, "--host-key", host.fingerprint()]
    assert body.call(*words)[0] == 4
    host.authorize(REPOSITORY, body.call("key", "show")[1]["public_key"])
    code, answer = body.call(*words)
    assert code == 0, answer
    return body


def gone(git: Path) -> None:
    shutil.rmtree(git)


def a_file(git: Path) -> None:
    shutil.rmtree(git)
    git.write_bytes(b"")


def empty_ref(git: Path) -> None:
    (git / "refs/heads/main").write_bytes(b"")


def empty_packs(git: Path) -> None:
    for pack in (git / "objects/pack").glob("*.pack"):
        pack.chmod(0o644)
        pack.write_bytes(b"")


def no_head(git: Path) -> None:
    (git / "HEAD").write_bytes(b"")


@pytest.mark.parametrize("damage", [gone, a_file, empty_ref, empty_packs])
def test_edits_stay_edits_and_an_absent_file_is_no_deletion(
    pair: tuple[Body, Body], damage: Callable[[Path], None]
) -> None:
    """REPO-7: the base of the first record is what was last materialised; the broken directory is kept aside."""
    one, two = pair
    one.add("memories/MEMORY.md", "first\n")
    one.add("notes/x.md", "# x\n")
    assert one.call("sync")[0] == 0
    assert two.call("sync")[0] == 0
    two.add("memories/MEMORY.md", "§\nwritten before the damage was seen\n")
    (two.soul / "memories/USER.md").unlink()
    one.add("notes/x.md", "newer\n")
    assert one.call("sync")[0] == 0
    damage(two.soul / ".git")
    code, answer = two.call("sync")
    assert code == 0, answer
    assert one.call("sync")[0] == 0
    assert one.files() == two.files()
    assert "written before the damage" in one.files()["memories/MEMORY.md"].decode()
    assert one.files()["notes/x.md"] == b"# x\nnewer\n"
    assert "memories/USER.md" in two.files()
    kept = [path for path in two.soul.parent.iterdir() if "damaged-git" in path.name]
    assert len(kept) == (damage is not gone)
    assert one.call("conflicts")[1] == []


@pytest.mark.parametrize("empty", [True, False])
def test_a_checkout_that_vanished_is_neither_recorded_nor_cloned_into(pair: tuple[Body, Body], empty: bool) -> None:
    """GUARD-2: nothing is deleted anywhere because a folder is not there."""
    one, two = pair
    assert one.call("sync")[0] == 0
    before = one.files()
    shutil.rmtree(two.soul)
    if empty:
        two.soul.mkdir()
    code, answer = two.call("sync")
    assert code == 1
    assert answer["error"]["rule"] == "GUARD-2"
    assert answer["error"]["advice"]
    assert (list(two.soul.iterdir()) if empty else two.soul.exists()) in ([], False)
    assert one.call("sync")[0] == 0
    assert one.files() == before
