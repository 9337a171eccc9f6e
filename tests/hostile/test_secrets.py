"""What must never be seen: the private key by anybody, what files hold by anything but files and commits."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import socket
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hostile.bounded import Bounded, Ground
from tests.real.fleet import until

MARK = "XYZZY-what-nobody-may-log"


def secrets_of(key: Path) -> list[bytes]:
    """Forms in which a private key could leak: its lines, its body without line ends, and its bytes."""
    lines = key.read_bytes().strip().splitlines()[1:-1]
    body = b"".join(lines)
    # The head of the format is the same for every key; the seed is in the last lines.
    raw = base64.b64decode(body)
    return [*lines[2:], body[-120:], raw[-80:-40], base64.b64encode(raw[-64:]), raw[-64:].hex().encode()]


def everything(*places: Path) -> Iterator[tuple[Path, bytes]]:
    """Every file below these places, unpacked where git packed it."""
    for place in places:
        for path in place.rglob("*"):
            if path.is_file() and not path.is_symlink():
                yield path, path.read_bytes()


def objects(repository: Path) -> bytes:
    """Every object of a repository."""
    found = subprocess.run(
        ["git", "-c", "safe.directory=*", "cat-file", "--batch-all-objects", "--batch"], cwd=repository,
        capture_output=True, check=True,
    )  # fmt: skip
    return found.stdout


@pytest.fixture
def body(ground: Ground) -> Bounded:
    """A body whose key was made by the program, under the most careless umask."""
    made = Bounded("laptop", ground.root / "laptop", ground.server.address(ground.repository))
    made.memory = 4_000_000  # of address space: every thread of a daemon reserves much of it and uses none
    made.within = True
    made.home.mkdir()
    ground.bodies["laptop"] = made
    before = os.umask(0)
    try:
        made.init("--host-key", ground.server.fingerprint(), code=4)
    finally:
        os.umask(before)
    ground.server.authorize(ground.repository, made.public_line())
    ground.join(made)
    return made


def test_the_private_key_is_nowhere_but_in_its_file(
    ground: Ground, body: Bounded, capfd: pytest.CaptureFixture[str]
) -> None:
    """AUTH-2, AUTH-4, CONTENT-2: not in what is said at the most talkative level, nor in events, status, the soul, or
    the repository; whether all goes well, the server refuses, the key is broken, or its mode is wrong."""
    secrets = secrets_of(body.key)
    said = []

    def call(*words: str) -> None:
        done = body.run(*words, SOUL_BRIDGE_LOG="debug")
        said.append((done.out + done.err + "".join(capfd.readouterr())).encode())

    call("sync")
    for words in ("key show --json", "doctor --json", "status", "events"):
        call(*words.split())
    ground.server.revoke(ground.repository, body.public_line())
    call("sync")
    call("doctor")
    ground.server.authorize(ground.repository, body.public_line())
    body.key.chmod(0o644)
    call("sync")
    body.key.chmod(0o600)
    whole = body.key.read_bytes()
    for harm in (
        whole[:-60],
        whole.replace(b"\n", b"\r\n", 3),
        whole[: len(whole) // 2] + b"!!" + whole[len(whole) // 2 :],
    ):
        body.key.write_bytes(harm)
        call("sync")
        call("doctor")
    body.key.write_bytes(whole)
    body.start(SOUL_BRIDGE_LOG="debug")
    body.write("notes/x.md", "# x\n")
    until(lambda: body.tip() == ground.tip() and "notes/x.md" in body.tree(), "the daemon published")
    assert body.daemon is not None
    for name in ("environ", "cmdline"):
        said.append(Path(f"/proc/{body.daemon.pid}/{name}").read_bytes())
    body.stop()
    body.key.rename(ground.root / "aside")
    heap = [*said, objects(ground.bare), objects(body.soul)]
    heap += [content for _, content in everything(body.home, ground.bare)]
    for secret in secrets:
        assert len(secret) >= 20
        assert not [text for text in heap if secret in text]


def test_nobody_but_its_owner_can_read_the_key_or_what_is_beside_it(body: Bounded) -> None:
    """AUTH-2: whatever the umask was; the same for configuration, state and events."""
    assert stat.S_IMODE(body.key.stat().st_mode) == 0o600
    assert stat.S_IMODE(body.key.parent.stat().st_mode) == 0o700
    body.sync()
    for name in ("status.json", "events.jsonl"):
        assert not (body.state / name).stat().st_mode & 0o077
    assert not body.state.stat().st_mode & 0o077
    assert not (body.home / "config/kaoru.yaml").stat().st_mode & 0o077


def test_what_files_hold_is_in_no_log_event_or_status(
    ground: Ground, body: Bounded, capfd: pytest.CaptureFixture[str]
) -> None:
    """CONTENT-1: not of files that are recorded, merged, lost, held or too strange to be read."""
    said = []

    def call(*words: str) -> None:
        done = body.run(*words, SOUL_BRIDGE_LOG="debug")
        said.append((done.out + done.err + "".join(capfd.readouterr())).encode())

    body.start(SOUL_BRIDGE_LOG="debug")
    body.append("memories/MEMORY.md", f"§\n- {MARK}\n")
    body.write("notes/a.md", f"# a\n\n{MARK}\n")
    body.write("notes/binary.md", f"{MARK}\0\xff".encode("latin-1"))
    body.write("memories/BROKEN.md", f"{MARK}\xff\n".encode("latin-1"))
    body.write("bodies/strange.json", f'{{"{MARK}": ')
    until(lambda: "notes/a.md" in body.tree(), "the daemon recorded")
    body.json("pause")
    ground.forge.write({
        "notes/a.md": f"# a\n\ntheirs {MARK}\n", "agent.json": f"{{{MARK}", "locks/consolidation.json": MARK,
        ".soul-spec.json": MARK, "memories/MEMORY.md": f"{MARK}\xff".encode("latin-1"),
    })  # fmt: skip
    body.write("notes/a.md", f"# a\n\nours {MARK}\n")
    body.append("memories/MEMORY.md", f"§\n- more {MARK}\n")
    body.json("resume")
    until(lambda: body.seen().get("ahead") == 0 and body.tip() == ground.tip(), "the daemon merged")
    body.stop()
    for words in (
        "sync",
        "status",
        "status --json",
        "doctor",
        "events",
        "bodies",
        "conflicts",
        "log",
        "validate",
        "lease show",
    ):
        call(*words.split())
    said += [content for _, content in everything(body.home / "state")]
    said.append((body.home / "daemon.log").read_bytes())
    assert MARK.encode() in objects(ground.bare)
    assert not [text for text in said if MARK.encode() in text]


NONSENSE = [
    b"\0" * 100_000,
    b"{" * 60_000 + b"\n",
    b'{"command": ' + b"9" * 10_000 + b"}\n",
    b"[]\n",
    b"\xff\xfe\n",
    b'{"command": {"a": []}}\n',
    b'{"command": "\\u001b[2J"}\n',
    b'{"command": "restore", "commit": "main", "path": "../../outside"}\n',
    b'{"command": "restore", "commit": "main", "path": "a//b/"}\n',
    b'{"command": "restore", "commit": "main", "path": "\\u0000"}\n',
    b'{"command": "restore", "commit": null, "path": []}\n',
    b'{"command": "dismiss", "id": 5}\n',
    b'{"command": "dismiss", "id": null}\n',
    b'{"command": "revert", "commit": ["x"]}\n',
    b'{"command": "forget", "body": "../agent"}\n',
    b'{"command": "forget", "body": "a//b"}\n',
    b'{"command": "consolidate begin", "owner": "x"}\n',
    b'{"command": "accept-remote", "choice": "\\ud800"}\n',
]


def test_the_control_socket_accepts_only_its_owner_and_survives_anything(ground: Ground, body: Bounded) -> None:
    """CONTRACT: 0600 in a directory of 0700; another user is refused even where every mode lets him; nonsense, floods
    and silence end in an answer or a closed connection, and the daemon serves its owner throughout."""
    body.start()
    path = body.state / "control.sock"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600 and stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    silent = [socket.socket(socket.AF_UNIX) for _ in range(5)]
    for each in silent:
        each.connect(str(path))
    for number, sent in enumerate(NONSENSE):
        with socket.socket(socket.AF_UNIX) as asking:
            asking.settimeout(10)
            assert body.daemon is not None and body.daemon.poll() is None, (number, body.log()[-2000:])
            asking.connect(str(path))
            try:
                asking.sendall(sent)
                answer = asking.recv(65536)
            except OSError:
                continue
            assert not answer or "error" in json.loads(answer), (sent[:60], answer)
    assert body.sync()["outcome"] == "ok"
    for each in silent:
        each.close()
    if os.geteuid() == 0:
        for place in (path.parent, *list(path.parents)[:-1]):
            place.chmod(place.stat().st_mode | 0o755)
        path.chmod(0o666)
        with socket.socket(socket.AF_UNIX) as asking:
            asking.settimeout(10)
            os.seteuid(65534)
            try:
                asking.connect(str(path))
            finally:
                os.seteuid(0)
            # Whoever is refused is answered before he spoke: the answer is there to be read all the same.
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                asking.sendall(b'{"command": "sync"}\n')
            assert json.loads(asking.recv(65536))["error"]["kind"] == "auth"
    assert body.stop() == 0
