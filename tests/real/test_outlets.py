"""Numbers and notices of daemons that run: asked for over HTTP, read from a file, told to a program once."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.prometheus import Metric, parse
from tests.real.faulty_host import FaultyHost
from tests.real.fleet import Body, Fleet, until


@pytest.fixture
def faulty(found: Callable[..., Fleet], tmp_path: Path) -> Iterator[Fleet]:
    """A fleet on a host that checks a key at every command, so that a revocation is felt at once."""
    place = tmp_path / "h"
    place.mkdir()
    host = FaultyHost(place)
    host.start()
    fleet = found(on=host)
    yield fleet
    fleet.close()
    host.stop()


def free() -> int:
    """A port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])


def asked(port: int) -> dict[str, Metric]:
    """What is answered there, read strictly."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        return parse(answer.read().decode())


def stub(place: Path, name: str, *, ends: str = "") -> Path:
    """A program in a folder of its own that keeps its words, its input and its environment."""
    place.mkdir(exist_ok=True)
    program, kept = place / name, place / f"{name}.heard"
    program.write_text(
        f'#!/bin/sh\n{{ for word in "$@"; do printf "%s\\n" "$word"; done; cat; echo "---"; }} >> {kept}\n'
        f"env > {place / name}.env\n{ends}\n"
    )
    program.chmod(0o755)
    return kept


def heard(kept: Path) -> list[str]:
    """What the program was told, call by call."""
    return kept.read_text().split("---\n")[:-1] if kept.exists() else []


def test_numbers_are_answered_and_written_while_the_soul_lives(faulty: Fleet, tmp_path: Path) -> None:
    port, path = free(), tmp_path / "soul.prom"
    body = faulty.body("laptop", metrics=json.dumps({"listen": f"127.0.0.1:{port}", "file": str(path)}), poll="200ms")
    body.start()
    verified = "soul_bridge_last_verified_timestamp_seconds"
    first = until(lambda: verified in (got := asked(port)) and got, "it is verified")
    assert abs(first[verified].value() - time.time()) < 30
    labels = {"agent": "kaoru", "body": "laptop", "soul": "kaoru.soul"}
    assert first["soul_bridge_unpushed_commits"].value(**labels) == 0
    assert first["soul_bridge_state"].value(state="idle") + first["soul_bridge_state"].value(state="syncing") == 1
    assert first["soul_bridge_objects"].value() > 3 and first["soul_bridge_packs"].value() >= 1
    assert first["soul_bridge_bodies"].value() == 1
    passes = first["soul_bridge_pass_duration_seconds"].value("_count")
    faulty.server.revoke(faulty.repository, body.public_line())
    body.write("notes/a.md", "# a\n")
    until(lambda: asked(port)["soul_bridge_refusals_total"].value(kind="auth") >= 1, "the refusal is counted")
    until(lambda: asked(port)["soul_bridge_unpushed_commits"].value() >= 1, "the commit is counted")
    now = asked(port)
    assert now["soul_bridge_problem"].value(kind="auth") == now["soul_bridge_attention"].value() == 1
    assert now["soul_bridge_pass_duration_seconds"].value("_count") > passes
    assert 0 <= now["soul_bridge_unpushed_age_seconds"].value() < 60
    written = parse(path.read_text())
    assert written.keys() == now.keys() and stat.S_IMODE(path.stat().st_mode) == 0o644
    assert body.stop() == 0
    assert parse(path.read_text())["soul_bridge_state"].value(state="stopped") == 1
    with pytest.raises(OSError):
        asked(port)
    assert body.status()["warnings"] == []


def test_a_port_in_use_is_a_warning_and_the_daemon_goes_on(faulty: Fleet, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as theirs:
        port = theirs.getsockname()[1]
        wrong = json.dumps({"listen": f"127.0.0.1:{port}", "file": str(tmp_path / "none" / "x.prom")})
        body = faulty.body("laptop", metrics=wrong).start()
        warnings = until(lambda: body.status()["warnings"], "it is told")
        assert f"metrics cannot be asked for at 127.0.0.1:{port}: Address already in use" in warnings[0]
        assert "metrics cannot be written to" in warnings[1]
        body.write("notes/a.md", "# a\n")
        until(lambda: "notes/a.md" in body.tree() and body.seen()["ahead"] == 0, "passes go on")
        assert "Address already in use" in body.run("status").out
        body.stop()


def test_several_souls_of_one_process_share_an_address(faulty: Fleet) -> None:
    port = free()
    kaoru = faulty.body("laptop", metrics=json.dumps({"listen": f"127.0.0.1:{port}"}))
    host = faulty.server
    host.create("mei.soul.git")
    mei = Body("laptop", kaoru.home, host.address("mei.soul.git"), "mei", within=True)
    host.authorize("mei.soul.git", mei.make_key())
    mei.init("--host-key", host.fingerprint())
    mei.configure(metrics=json.dumps({"listen": f"127.0.0.1:{port}"}), settle="100ms", poll="500ms")
    kaoru.command = lambda *words: [*Body.command(kaoru), *words, *(["--all"] if words == ("run",) else [])]  # type: ignore[method-assign]
    kaoru.start()

    def both() -> set[str]:
        return {dict(labels)["agent"] for _, labels in asked(port)["soul_bridge_conflicts"].samples}

    until(lambda: both() == {"kaoru", "mei"}, "both are there")
    assert kaoru.daemon is not None
    threads = [
        Path(f"/proc/{kaoru.daemon.pid}/task/{task}/comm").read_text().strip()
        for task in os.listdir(f"/proc/{kaoru.daemon.pid}/task")
    ]
    assert len(threads) < 40
    kaoru.stop()


def test_a_person_is_told_once_of_a_revoked_key_and_once_of_its_return(faulty: Fleet, tmp_path: Path) -> None:
    """AUTH-5: told once, and it resumes by itself."""
    kept = stub(tmp_path / "bin", "notify-send")
    body = faulty.body("laptop", notify="desktop", poll="200ms")
    path = {"PATH": f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}", "NOTIFY_SOCKET": "/nowhere", "GIT_DIR": "/x"}
    body.start(**path)
    line = body.public_line()
    faulty.server.revoke(faulty.repository, line)
    body.write("notes/a.md", "# a\n")
    until(lambda: heard(kept), "it is told")
    words = heard(kept)[0].splitlines()
    assert words[:4] == ["--app-name=soul-bridge", "--urgency=critical", "--", "kaoru (laptop)"]
    assert words[4].startswith("key refused: ")
    assert body.status()["attention"] == ["auth"]
    for _ in range(3):
        body.run("sync")
    body.stop()
    body.start(**path)
    until(lambda: body.seen()["problem"], "it is refused again")
    assert len(heard(kept)) == 1, "once, over passes, commands and restarts"
    faulty.server.authorize(faulty.repository, line)
    body.run("sync")
    until(lambda: len(heard(kept)) == 2, "its return is told")
    assert "all is well again" in heard(kept)[1] and "--urgency=normal" in heard(kept)[1]
    environment = (tmp_path / "bin" / "notify-send.env").read_text()
    assert "NOTIFY_SOCKET=" not in environment and "GIT_DIR=" not in environment
    body.stop()
    assert len(heard(kept)) == 2
    assert body.status()["attention"] == []


def test_a_program_of_a_persons_own_is_given_what_happened_and_no_shell(faulty: Fleet, tmp_path: Path) -> None:
    kept = stub(tmp_path / "bin", "told", ends="exec sleep 600")
    words = [str(tmp_path / "bin" / "told"), "$(touch x); `id`", "two words"]
    body = faulty.body("laptop", notify=json.dumps(words), hold_back_over="1KiB").start()
    body.write("notes/large.md", "x" * 5000)
    until(lambda: heard(kept), "it is told")
    first, second, rest = heard(kept)[0].split("\n", 2)
    assert [first, second] == words[1:]
    told = json.loads(rest)
    assert (told["event"], told["agent"], told["body"], told["reasons"]) == ("attention", "kaoru", "laptop", ["held"])
    assert "notes/large.md" in told["words"][0]
    body.write("notes/b.md", "# b\n")
    until(lambda: "notes/b.md" in body.tree(), "a program that hangs delays no pass")
    begun = time.monotonic()
    body.stop()
    assert time.monotonic() - begun < 20


def test_a_desktop_without_a_program_for_it_is_told_in_the_log(faulty: Fleet, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    body = faulty.body("laptop", notify="desktop", hold_back_over="1KiB")
    body.start(PATH=str(tmp_path / "bin"))
    body.write("notes/large.md", "x" * 5000)
    until(lambda: "notify-send, which is not installed" in body.log(), "it is told")
    assert body.stop() == 0


def test_a_changed_address_is_taken_over_and_a_pause_is_a_state(faulty: Fleet) -> None:
    """SIGHUP: the old address is let go, the new one answers, in the same process."""
    old, new = free(), free()
    body = faulty.body("laptop", metrics=json.dumps({"listen": f"127.0.0.1:{old}"})).start()
    until(lambda: asked(old), "the old one answers")
    body.configure(metrics=json.dumps({"listen": f"127.0.0.1:{new}"}))
    assert body.daemon is not None
    body.daemon.send_signal(signal.SIGHUP)

    def answers(port: int) -> dict[str, Metric]:
        try:
            return asked(port)
        except OSError:
            return {}

    until(lambda: answers(new), "the new one answers")
    assert answers(old) == {}
    body.json("pause")
    until(lambda: asked(new)["soul_bridge_state"].value(state="paused") == 1, "the pause is seen")
    assert body.stop() == 0
