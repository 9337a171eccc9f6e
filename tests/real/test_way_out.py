# ruff: noqa: F401, F811 - fixtures that are imported
"""What the program says to type leads out of where a person is, and not in a circle."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

from bridge.adapters import config
from bridge.app import namesake
from bridge.commands import sync
from tests.app.test_doctor import rows, type_in
from tests.real.fleet import until
from tests.real.pair import fleet, host, laptop, server, template
from tests.real.quick import Body, Fleet, person


def test_a_checkout_that_is_gone_under_a_daemon_comes_back_by_the_remedy(laptop: Body) -> None:
    """GUARD-2: the daemon goes on being asked until it is stopped, and every place says that first."""
    laptop.sync()
    laptop.start()
    try:
        shutil.rmtree(laptop.soul)
        for words in (("sync",), ("init", laptop.agent)):
            done = laptop.run(*words)
            assert done.code == 1 and "systemctl --user stop" in done.err, done
        told = laptop.json("status")
        assert isinstance(told, dict) and "systemctl --user stop" in told["problem"]["advice"]
        type_in(laptop, rows(laptop)["checkout"]["remedy"])
    finally:
        laptop.stop()
    assert laptop.read("notes/tea/sencha.md") is not None
    assert laptop.run("sync").code == 0


def test_without_a_daemon_the_remedy_is_the_same_init(laptop: Body) -> None:
    """GUARD-2."""
    shutil.rmtree(laptop.soul)
    done = laptop.run("sync")
    assert f"`soul-bridge init {laptop.agent}`" in done.err, done
    assert rows(laptop)["checkout"]["remedy"] == f"soul-bridge init {laptop.agent}"


def test_each_trouble_calls_a_person_once_and_its_end_follows_at_once(laptop: Body, server: Body, fleet: Fleet) -> None:
    """AUTH-5, REPO-4: a key that was refused, and minutes later a rewritten remote, by a daemon with `notify`."""
    told = laptop.home / "told"
    laptop.sync()
    laptop.configure(notify=json.dumps(["sh", "-c", f"cat >> {told}"]), poll="200ms")
    laptop.start()
    try:
        fleet.server.revoke(fleet.repository, laptop.public_line())
        laptop.write("notes/a.md", "# a\n")
        until(lambda: states(told) == ["attention"], "a person is called")
        fleet.server.authorize(fleet.repository, laptop.public_line())
        laptop.run("sync")
        until(lambda: states(told) == ["attention", "calm"], "the end is told")
        person(fleet.bare, "update-ref", "refs/heads/main", rewritten(fleet))
        laptop.run("sync")
        until(lambda: states(told) == ["attention", "calm", "attention"], "a person is called again")
        assert laptop.run("accept-remote", "--merge").code == 0
        until(lambda: states(told) == ["attention", "calm"] * 2, "that end is told as well")
    finally:
        laptop.stop()


def states(told: Path) -> list[str]:
    """What a person was told so far."""
    return re.findall(r'"event": *"(attention|calm)"', told.read_text()) if told.exists() else []


def rewritten(fleet: Fleet) -> str:
    """The commit that somebody would force-push: the last one once more, with other words."""
    tree, parent = person(fleet.bare, "rev-parse", "main^{tree}", "main^").split()
    return person(fleet.bare, "commit-tree", tree, "-p", parent, "-m", "other words").strip()


def test_a_configuration_under_another_name_goes_on_under_the_souls_own(laptop: Body) -> None:
    """FORM-1: with the same key and what its state remembers."""
    laptop.sync()
    config, state = laptop.home / "config", laptop.home / "state"
    text = (config / "kaoru.yaml").read_text().replace("agent: kaoru", "agent: mei")
    (config / "kaoru.yaml").unlink()
    (config / "mei.yaml").write_text(f"{text}key: {laptop.key}\n")
    (state / "kaoru").rename(state / "mei")
    found = rows(laptop)["identity"]
    assert "the configuration calls it mei" in found["message"]
    type_in(laptop, found["remedy"])
    assert [path.name for path in config.glob("*.yaml")] == ["kaoru.yaml"]
    assert rows(laptop)["identity"]["state"] == "ok"
    assert laptop.run("sync").code == 0


def test_a_sync_that_fails_says_what_which_rule_what_is_safe_and_what_to_type(laptop: Body, fleet: Fleet) -> None:
    """AUTH-5."""
    laptop.sync()
    fleet.server.revoke(fleet.repository, laptop.public_line())
    laptop.write("notes/a.md", "# a\n")
    done = laptop.run("sync")
    assert done.code == 4
    first, second = done.err.splitlines()[:2]
    assert re.fullmatch(r"soul-bridge: refused \(AUTH-[0-9]\); files and commits here are safe", first), done
    assert second.lstrip().startswith("next: ") and "soul-bridge key show" in done.err


def test_two_machines_under_one_name_are_told_what_to_type(laptop: Body) -> None:
    """MERGE-9: by `sync` as by `status`."""
    settings = config.load(config.locate(laptop.env()), laptop.agent)
    answer = {"held": [], "outcome": "ok", "sentence": f"{namesake.CALLED} laptop."}
    assert any("--take-over" in step for step in sync._steps(answer, settings))


def test_what_waits_and_what_is_held_names_its_next_step(laptop: Body) -> None:
    """REPO-7, TREE-6, GUARD-2: `sync` and `status` say what `doctor` says."""
    laptop.sync()
    (laptop.soul / "notes" / "link").symlink_to("nowhere")
    laptop.write("memories/MEMORY.md", "")
    done, told = laptop.run("sync"), laptop.run("status").out
    for said in (done.err, told):
        assert "name it in .gitignore" in said and "not meant: `soul-bridge pause" in said, said
    person(laptop.soul, "checkout", "-q", "-b", "other")
    done, told = laptop.run("sync"), laptop.run("status").out
    for said in (done.err, told):
        assert "symbolic-ref HEAD refs/heads/main" in said, said
