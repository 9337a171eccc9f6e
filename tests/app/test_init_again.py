"""`init` a second time with other words: corrected where nothing came of the first, refused where a soul lives."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from bridge.app.host import Host
from tests.real.fleet import Body, Fleet


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    """A host with two repositories, and no body yet."""
    host = Host(tmp_path / "host").start()
    host.create("kaoru.soul.git")
    host.create("other.soul.git")
    made = Fleet(host, tmp_path, "kaoru.soul.git", within=True)
    yield made
    made.close()
    host.stop()


def stranger(fleet: Fleet) -> Body:
    """Somebody at the machine, before any key is at the host."""
    body = fleet.body("laptop", authorized=False, init=False)
    shutil.rmtree(body.key.parent)
    return body


def trust(fleet: Fleet) -> tuple[str, str]:
    return "--host-key", fleet.server.fingerprint()


def configuration(body: Body) -> str:
    return (body.home / "config" / "kaoru.yaml").read_text()


def typed(body: Body, advice: str, beginning: str) -> None:
    """Type a line of an advice, as a person does."""
    line = next(line for line in advice.splitlines() if line.startswith(beginning))
    first = line.partition(" && ")[0]
    subprocess.run(["sh", "-c", first], check=True, env=body.env())


def test_a_mistyped_body_is_corrected_by_typing_it_right(fleet: Fleet) -> None:
    """FORM-6: nothing had come of the wrong name but a key, which is told of and left."""
    body = stranger(fleet)
    body.json("init", "kaoru", "--remote", body.remote, "--body", "laptp", *trust(fleet), code=4)
    said = body.run("init", "kaoru", "--body", "laptop")
    wrong = body.key.with_name("kaoru.laptp")
    assert said.code == 4 and "body is laptop from now on, not laptp" in said.err
    assert f"rm {wrong} {wrong}.pub" in said.err and wrong.exists()
    assert "kaoru.laptop soul-bridge" in said.err, "the new key is what is to be pasted"
    fleet.server.authorize("kaoru.soul.git", body.public_line())
    assert body.json("init", "kaoru")["body"] == "laptop"
    assert [row["body"] for row in body.json("bodies")] == ["laptop"]
    fleet.server.revoke("kaoru.soul.git", body.public_line())
    assert "nothing was written yet" in said.err
    later = body.run("init", "kaoru").err
    assert "what is here stays as it is" in later and "nothing was written" not in later


def test_a_mistyped_remote_is_corrected_and_the_change_is_told(fleet: Fleet) -> None:
    """AUTH-1."""
    body = stranger(fleet)
    wrong = fleet.server.address("koaru.soul.git")
    body.json("init", "kaoru", "--remote", wrong, "--body", "laptop", *trust(fleet), code=4)
    said = body.run("init", "kaoru", "--remote", body.remote)
    assert said.code == 4 and f"remote is {body.remote} from now on, not {wrong}" in said.err
    assert body.remote in configuration(body)


@pytest.mark.parametrize("gone", [False, True])
def test_another_remote_is_not_taken_over_where_a_soul_lives_or_lived(fleet: Fleet, gone: bool) -> None:
    """MERGE-5: nobody could tell any more that it is another agent."""
    body = fleet.body("laptop")
    if gone:
        shutil.rmtree(body.soul)
    before, other = configuration(body), fleet.server.address("other.soul.git")
    said = body.run("init", "kaoru", "--remote", other)
    assert said.code == 2 and f"is already configured with remote {body.remote}, not {other} (MERGE-5)" in said.err
    assert configuration(body) == before and body.soul.exists() != gone
    assert ("bring the checkout back first" in said.err) == gone
    typed(body, said.err, "sed ")
    assert f"remote: {other}" in configuration(body)


def test_a_remote_of_another_agent_is_refused_once_the_checkout_is_back(fleet: Fleet) -> None:
    """MERGE-5, REPO-4: what the advice leads to is safe."""
    other = Fleet(fleet.server, fleet.root / "there", "other.soul.git", within=True)
    other.root.mkdir()
    other.body("server")
    body = fleet.body("laptop")
    fleet.server.authorize("other.soul.git", body.public_line())
    shutil.rmtree(body.soul)
    said = body.run("init", "kaoru", "--remote", fleet.server.address("other.soul.git"))
    assert body.json("init", "kaoru")["state"] == "ready"
    typed(body, said.err, "sed ")
    assert body.json("sync", code=3)["error"]["kind"] == "identity"


def test_a_checkout_that_is_gone_may_come_back_in_another_folder(fleet: Fleet, tmp_path: Path) -> None:
    """GUARD-2."""
    body = fleet.body("laptop")
    shutil.rmtree(body.soul)
    said = body.run("init", "kaoru", "--soul", str(tmp_path / "elsewhere"))
    assert said.code == 0 and f"soul is {tmp_path / 'elsewhere'} from now on, not {body.soul}" in said.err
    assert (tmp_path / "elsewhere" / "agent.json").exists()


def test_a_body_that_has_published_goes_on_under_another_name_as_the_message_says(fleet: Fleet) -> None:
    """FORM-6, MERGE-9: a new body with a key of its own; the old name leaves the registry."""
    body = fleet.body("laptop")
    said = body.run("init", "kaoru", "--body", "desk")
    assert said.code == 2 and "is already configured with body laptop, not desk" in said.err
    typed(body, said.err, "sed ")
    body.json("init", "kaoru", code=4)
    body.name = "desk"
    fleet.server.authorize("kaoru.soul.git", body.public_line())
    assert body.json("init", "kaoru")["body"] == "desk"
    body.json("bodies", "forget", "laptop", "--agent", "kaoru")
    assert [row["body"] for row in body.json("bodies")] == ["desk"]


def test_a_soul_that_lives_here_is_not_told_to_begin_when_nobody_answers(fleet: Fleet) -> None:
    """AUTH-1: another address would be refused, and everything is written already."""
    body = stranger(fleet)
    nobody = "ssh://git@127.0.0.1:1/kaoru.soul.git"
    first = body.run("init", "kaoru", "--remote", nobody, "--body", "laptop")
    assert first.code == 5 and "--offline" in first.err and "If the address is mistyped" in first.err
    body.run("init", "kaoru", "--offline")
    again = body.run("init", "kaoru")
    assert again.code == 5 and "Nothing is lost" in again.err
    assert "--offline" not in again.err and "mistyped" not in again.err


def test_a_checkout_that_is_gone_is_answered_with_what_brings_it_back(fleet: Fleet) -> None:
    """GUARD-2: also by a command that would only look."""
    body = fleet.body("laptop")
    shutil.rmtree(body.soul)
    for command in ("validate", "log", "conflicts"):
        said = body.run(command)
        assert said.code == 2 and "`soul-bridge init kaoru`" in said.err


def test_a_soul_is_not_joined_under_the_name_of_another_agent(fleet: Fleet) -> None:
    """REPO-1: told with the command that carries it, before anything of it is here."""
    fleet.body("server")
    body = stranger(fleet)
    body.json("init", "mei", "--remote", body.remote, "--body", "laptop", *trust(fleet), code=4)
    fleet.server.authorize("kaoru.soul.git", body.key.with_name("mei.laptop.pub").read_text())
    said = body.run("init", "mei")
    assert said.code == 3 and f"the soul at {body.remote} is kaoru's, not mei's (REPO-1)" in said.err
    assert f"soul-bridge init kaoru --remote {body.remote} --body laptop" in said.err
    assert not (body.soul.with_name("mei.soul") / "agent.json").exists()
    body.json("init", "kaoru", "--remote", body.remote, "--body", "laptop", code=4)
    fleet.server.authorize("kaoru.soul.git", body.public_line())
    assert body.json("init", "kaoru")["state"] == "ready"


def test_a_soul_that_was_renamed_is_joined_by_the_name_of_its_repository(fleet: Fleet) -> None:
    """MERGE-4: the name is the agent's to change."""
    server = fleet.body("server")
    server.write("agent.json", server.read("agent.json").replace('"name": "kaoru"', '"name": "mei"'))
    server.sync()
    assert fleet.body("laptop").read("agent.json") == server.read("agent.json")


def test_an_address_whose_port_stands_as_a_folder_is_answered_with_the_right_one(fleet: Fleet) -> None:
    """AUTH-1."""
    body = stranger(fleet)
    said = body.run("init", "kaoru", "--remote", "git@127.0.0.1:2922/kaoru.soul.git", "--body", "laptop")
    assert said.code == 2 and "did you mean ssh://git@127.0.0.1:2922/kaoru.soul.git ?" in said.err
    assert "soul-bridge init kaoru --remote ssh://git@127.0.0.1:2922/kaoru.soul.git --body laptop" in said.err
    assert not (body.home / "config" / "kaoru.yaml").exists()


@pytest.mark.parametrize("written", [False, True])
def test_an_address_that_led_to_no_soul_is_corrected_by_typing_it_right(fleet: Fleet, written: bool) -> None:
    """REPO-5: nothing had come of it, whatever lay in the folder before."""
    clone = fleet.root / "clone"
    subprocess.run(["git", "init", "-q", "-b", "main", clone], check=True)
    (clone / "main.c").write_text("int main;\n")
    words = ["-c", "user.name=t", "-c", "user.email=t@t"]
    subprocess.run(["git", "-C", clone, "add", "."], check=True)
    subprocess.run(["git", "-C", clone, *words, "commit", "-q", "-m", "x"], check=True)
    bare = fleet.bare.with_name("other.soul.git")
    subprocess.run(["git", "-C", clone, "push", "-q", str(bare), "main"], check=True)
    body = stranger(fleet)
    if written:
        body.write("memories/MEMORY.md", "mine\n")
    wrong = fleet.server.address("other.soul.git")
    body.json("init", "kaoru", "--remote", wrong, "--body", "laptop", *trust(fleet), code=4)
    for name in ("other.soul.git", "kaoru.soul.git"):
        fleet.server.authorize(name, body.public_line())
    said = body.run("init", "kaoru")
    assert said.code == 3 and "the remote is not a soul" in said.err
    assert "soul-bridge init kaoru --remote git@HOST:OWNER/kaoru.soul.git" in said.err
    said = body.run("init", "kaoru", "--remote", body.remote)
    assert said.code == 0 and f"remote is {body.remote} from now on, not {wrong}" in said.err
    assert not written or body.read("memories/MEMORY.md") == "mine\n"
    assert body.status()["remote"] == body.remote


def test_status_names_the_remote_that_was_corrected_also_when_it_failed_too(fleet: Fleet) -> None:
    """AUTH-1."""
    body = stranger(fleet)
    body.json("init", "kaoru", "--remote", fleet.server.address("koaru.soul.git"), *trust(fleet), code=4)
    body.json("init", "kaoru", "--remote", body.remote, code=4)
    assert body.status()["remote"] == body.remote


def test_a_remote_that_moved_is_pinned_by_the_command_that_is_printed(fleet: Fleet) -> None:
    """AUTH-6: `init` asks for a host key where one is wanted, and has nothing to say where it is known."""
    body = fleet.body("laptop")
    said = body.run("init", "kaoru", "--remote", fleet.server.address("other.soul.git"))
    assert said.code == 2 and "&& soul-bridge init kaoru\n" in said.err and "accept-host-key" not in said.err
