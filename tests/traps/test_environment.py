"""Traps E: what configuration, users, locales, machines and second daemons do to the program (tests/TRAPS.md)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.real.fleet import tree_of, until
from tests.real.quick import Body, Fleet, person

MEMORY = "memories/MEMORY.md"
CANOE = "§\nhas a canoe\n"


def trap_program(place: Path, name: str) -> tuple[Path, Path]:
    """A program that tells that it ran, and fails; the file that tells."""
    place.mkdir(exist_ok=True)
    ran = place / "ran"
    path = place / name
    path.write_text(f"#!/bin/sh\ntouch {ran}\nexit 1\n")
    path.chmod(0o755)
    return path, ran


def exchanged(laptop: Body, server: Body, fleet: Fleet, **environment: str) -> None:
    """One write goes from the laptop, under this environment, to the server and one comes back."""
    server.append(MEMORY, "§\nhas a sauna\n")
    server.sync()
    laptop.append(MEMORY, CANOE)
    assert laptop.run("sync", "--json", **environment).expect(0)["pushed"]
    server.sync()
    assert {"has a canoe", "has a sauna"} <= set(laptop.entries(MEMORY)) & set(server.entries(MEMORY))
    fleet.agree()


GLOBAL = """\
[core]
	hooksPath = {place}
	fsmonitor = {program}
	editor = {program}
	pager = {program}
	sshCommand = {program}
	askPass = {program}
	excludesFile = {place}/ignore
	attributesFile = {place}/attributes
	autocrlf = input
	safecrlf = true
	eol = crlf
	quotePath = true
	fileMode = false
	symlinks = false
	ignoreCase = true
	precomposeUnicode = true
	worktree = {place}
[init]
	templateDir = {place}/template
	defaultBranch = trunk
[include]
	path = {place}/more
[url "{place}/elsewhere.git"]
	insteadOf = {remote}
	pushInsteadOf = {remote}
[credential]
	helper = !{program}
[commit]
	gpgSign = true
[gpg]
	program = {program}
[filter "trap"]
	clean = {program}
	smudge = {program}
	required = true
[diff]
	external = {program}
[merge]
	ff = only
[merge "trap"]
	driver = {program}
[receive]
	denyCurrentBranch = refuse
[transfer]
	fsckObjects = true
[safe]
	directory = /nowhere
[gc]
	auto = 1
[pack]
	packSizeLimit = 1
[extensions]
	objectFormat = sha1
"""


@pytest.mark.parametrize("where", ["the user's", "the system's", "the checkout's"])
def test_no_configuration_of_git_is_obeyed(
    laptop: Body, server: Body, fleet: Fleet, tmp_path: Path, where: str
) -> None:
    """Traps 77, 81, 82, 83, 84, 86; AUTH-7: none of it runs a program, hides a file, changes bytes or redirects."""
    place = tmp_path / "hostile"
    program, ran = trap_program(place, "pre-commit")
    for name in ("post-commit", "pre-push", "reference-transaction", "post-index-change"):
        trap_program(place, name)
    subprocess.run(["git", "init", "-q", "--bare", str(place / "elsewhere.git")], check=True)
    (place / "ignore").write_text("*.md\njournal/\nmemories/\n")
    (place / "attributes").write_text("* filter=trap merge=trap diff=trap -text\n")
    (place / "template/hooks").mkdir(parents=True)
    (place / "more").write_text("[core]\n\tbare = true\n")
    text = GLOBAL.format(place=place, program=program, remote=laptop.remote)
    environment = {}
    if where == "the checkout's":
        with (laptop.soul / ".git/config").open("a") as file:
            file.write(text.replace("[extensions]\n\tobjectFormat = sha1\n", ""))
    else:
        (place / "config").write_text(text)
        environment = {"GIT_CONFIG_GLOBAL" if where == "the user's" else "GIT_CONFIG_SYSTEM": str(place / "config")}
        (tmp_path / ".gitconfig").write_text(text)
        environment |= {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(place)}
    laptop.write("journal/laptop/2026-02-03.md", "# 2026-02-03 · laptop\n")
    laptop.write("notes/crlf.md", "# crlf\r\nmixed\nends\r\n")
    server.append(MEMORY, "§\nhas a sauna\n")
    server.sync()
    laptop.append(MEMORY, CANOE)
    assert laptop.run("sync", "--json", **environment).expect(0)["pushed"]
    server.sync()
    assert {"has a canoe", "has a sauna"} <= set(laptop.entries(MEMORY)) & set(server.entries(MEMORY))
    assert server.read("journal/laptop/2026-02-03.md")
    assert laptop.read("notes/crlf.md") == "# crlf\r\nmixed\nends\r\n"
    assert tree_of(fleet.bare)["notes/crlf.md"] == b"# crlf\nmixed\nends\n"
    assert not ran.exists()
    assert person(place / "elsewhere.git", "for-each-ref") == ""


INHERITED = {
    "GIT_DIR": "/nonexistent",
    "GIT_WORK_TREE": "/nonexistent",
    "GIT_INDEX_FILE": "/nonexistent/index",
    "GIT_OBJECT_DIRECTORY": "/nonexistent/objects",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES": "/nonexistent",
    "GIT_NAMESPACE": "other",
    "GIT_CEILING_DIRECTORIES": "/",
    "GIT_CONFIG_COUNT": "1",
    "GIT_CONFIG_KEY_0": "core.bare",
    "GIT_CONFIG_VALUE_0": "true",
    "GIT_CONFIG_PARAMETERS": "'core.bare=true'",
    "GIT_SSH": "/bin/false",
    "GIT_SSH_COMMAND": "/bin/false",
    "GIT_AUTHOR_NAME": "somebody",
    "GIT_COMMITTER_EMAIL": "x@y",
    "GIT_AUTHOR_DATE": "2001-01-01T00:00:00Z",
    "GIT_COMMITTER_DATE": "2001-01-01T00:00:00Z",
    "GIT_DEFAULT_HASH": "sha256",
    "GIT_TRACE": "2",
    "GIT_QUARANTINE_PATH": "/nonexistent",
    "GIT_PREFIX": "notes/",
    "SSH_ASKPASS": "/bin/false",
    "SSH_AUTH_SOCK": "/nonexistent",
}


def test_no_variable_of_git_is_obeyed(laptop: Body, server: Body, fleet: Fleet) -> None:
    """Traps 77, 82; AUTH-7: as when the program is called from a hook or from inside another repository."""
    exchanged(laptop, server, fleet, **INHERITED)
    assert {line.partition(" (")[0] for line in fleet.git("log", "--format=%an", "main").splitlines()} == {"Kaoru"}
    assert "2001" not in fleet.git("log", "--format=%cI %aI", "main")


def test_a_soul_of_another_owner_is_no_riddle(laptop: Body, server: Body, fleet: Fleet) -> None:
    """Trap 79: files that a restore gave to another user are read and kept, or refused by name; never "no soul"."""
    subprocess.run(["chown", "-R", "65534:65534", str(laptop.soul)], check=True)
    exchanged(laptop, server, fleet)
    assert (laptop.soul / MEMORY).stat().st_uid == 65534, "the owner of a working file is the agent's business"


def test_bits_that_mean_nothing_make_no_commit(laptop: Body, server: Body, fleet: Fleet) -> None:
    """Trap 80; TREE-5: only the owner's executable bit is a change; it travels once, and back, without ping-pong."""
    tip = fleet.tip()
    for mode in (0o600, 0o664, 0o640, 0o444, 0o645):
        (laptop.soul / MEMORY).chmod(mode)
        laptop.sync()
    assert fleet.tip() == tip
    laptop.write("notes/run.sh", "#!/bin/sh\n")
    (laptop.soul / "notes/run.sh").chmod(0o755)
    laptop.sync()
    server.sync()
    assert os.access(server.soul / "notes/run.sh", os.X_OK)
    tip = fleet.tip()
    fleet.converge()
    assert fleet.tip() == tip


def test_attributes_of_a_peer_change_neither_merging_nor_bytes(laptop: Body, server: Body, fleet: Fleet) -> None:
    """Trap 85: merge, filter, eol, encoding and ident of a synchronised .gitattributes are just text."""
    server.append(
        ".gitattributes",
        "memories/*.md merge=union\n* eol=crlf\n*.md filter=trap\n*.txt working-tree-encoding=UTF-16 ident\n",
    )
    server.write("notes/$Id.txt", "$Id$ $Format:%H$ ä\n")
    server.sync()
    laptop.sync()
    assert laptop.read("notes/$Id.txt") == "$Id$ $Format:%H$ ä\n"
    laptop.write(MEMORY, "owns a pot\n§\nborn in Turku\n")
    server.write(MEMORY, "owns a kettle\n§\nborn in Turku\n§\nhas a canoe\n")
    laptop.sync()
    server.sync()
    laptop.sync()
    assert set(fleet.agree()[MEMORY].decode().split("\n§\n")) == {"owns a pot", "born in Turku", "has a canoe\n"}


@pytest.mark.parametrize("rules", [".git/info/exclude", ".gitignore"])
def test_no_rule_hides_what_belongs_to_the_soul(laptop: Body, server: Body, fleet: Fleet, rules: str) -> None:
    """Trap 86; TREE-4: own and tracked entries are recorded whatever is ignored; how many others are, is counted."""
    path = laptop.soul / rules
    path.parent.mkdir(exist_ok=True)
    with path.open("a") as file:
        file.write("*.md\njournal/\n*.json\nextra/\n")
    laptop.write("journal/laptop/2026-02-03.md", "# 2026-02-03 · laptop\n")
    laptop.append("notes/tea/sencha.md", "Twice.\n")
    laptop.write("extra/scratch", "x\n")
    laptop.append(MEMORY, CANOE)
    laptop.sync()
    tree = tree_of(fleet.bare)
    assert "journal/laptop/2026-02-03.md" in tree and b"canoe" in tree[MEMORY]
    assert b"Twice" in tree["notes/tea/sencha.md"]
    assert ("extra/scratch" in tree) == (rules == ".git/info/exclude")
    assert laptop.status()["ignored"] == (rules == ".gitignore")


@pytest.mark.parametrize("flag", ["--assume-unchanged", "--skip-worktree"])
def test_flags_in_the_index_hide_no_edit(laptop: Body, server: Body, flag: str) -> None:
    """Trap 87: what the index says about a file is a person's; what the file holds is recorded."""
    laptop.sync()
    laptop.person("update-index", flag, MEMORY)
    laptop.append(MEMORY, CANOE)
    assert laptop.sync()["pushed"]
    server.sync()
    assert "has a canoe" in server.entries(MEMORY)


LANGUAGES = ({"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}, {"LC_ALL": "POSIX", "LANG": ""})


@pytest.mark.parametrize("language", LANGUAGES, ids=["C", "POSIX"])
def test_a_locale_without_letters_loses_none(
    laptop: Body, server: Body, fleet: Fleet, language: dict[str, str]
) -> None:
    """Traps 88, 110: names and texts beyond ASCII, and names that are not UTF-8, under systemd's bare locale."""
    names = ["notes/hyvää päivää.md", "notes/日本/茶.md", "notes/e\u0301.md"]
    for name in names:
        laptop.write(name, f"# {name}\n")
    raw = os.fsencode(laptop.soul) + b"/notes/\xff\xfe.md"
    Path(os.fsdecode(raw)).write_bytes(b"# raw\n")
    assert laptop.run("sync", "--json", **language).expect(0)["pushed"]
    assert server.run("sync", "--json", **language).expect(0)["written"]
    for name in names:
        assert server.read(name) == f"# {name}\n"
    assert Path(os.fsdecode(os.fsencode(server.soul) + b"/notes/\xff\xfe.md")).read_bytes() == b"# raw\n"
    told = laptop.run("log", **language)
    assert told.code == 0 and "Traceback" not in told.err


def test_a_daemon_that_starts_before_the_network_stays_and_goes_on(laptop: Body, server: Body, fleet: Fleet) -> None:
    """Traps 61, 90: it never exits for the network; local work is recorded; the first answer is taken."""
    server.append(MEMORY, "§\nhas a sauna\n")
    server.sync()
    config = laptop.home / "config/kaoru.yaml"
    right = config.read_text()
    laptop.configure(remote="ssh://git@no-such-host.invalid/kaoru.soul.git")
    with (laptop.home / "known_hosts").open("a") as file:
        file.write("no-such-host.invalid " + " ".join(fleet.server.host_key_line().split()[1:]) + "\n")
    laptop.append(MEMORY, CANOE)
    laptop.start()
    until(lambda: b"has a canoe" in laptop.tree()[MEMORY], "local work is recorded")
    until(lambda: (laptop.seen().get("problem") or {}).get("kind") == "network", "it says what is missing")
    assert laptop.seen()["state"] == "waiting" and laptop.seen()["problem"]["next_try"]
    config.write_text(right)
    assert laptop.daemon is not None
    laptop.daemon.send_signal(signal.SIGHUP)
    until(lambda: "has a sauna" in laptop.entries(MEMORY), "it goes on")
    assert laptop.stop() == 0


def test_a_second_daemon_takes_nothing_from_the_first(laptop: Body) -> None:
    """Traps 15, 91, 92: neither its lock, nor its socket, nor its place; killed or not, there is never a second."""
    laptop.start()
    socket = laptop.state / "control.sock"
    born = socket.stat().st_ctime_ns
    for _ in range(3):
        error = laptop.run("run", "--json").expect(1)["error"]
        assert error["kind"] == "busy" and str(laptop.daemon and laptop.daemon.pid) in error["message"]
    assert socket.stat().st_ctime_ns == born
    laptop.append(MEMORY, CANOE)
    assert laptop.sync()["tip"]
    laptop.stop(signal.SIGKILL)
    (laptop.state / "lock").write_text(f"{os.getpid()}\n")
    laptop.start()
    assert socket.stat().st_ctime_ns != born
    assert laptop.stop() == 0 and laptop.sync()["outcome"] == "ok"


def test_a_copied_disk_is_noticed(laptop: Body, server: Body, fleet: Fleet, tmp_path: Path) -> None:
    """Trap 93; FORM-6, MERGE-9: a body's name that another machine carries is not taken silently."""
    other = fleet.body("phone", init=False)
    found = json.loads(server.read("bodies/laptop.json") or "")
    server.person("checkout", "-q", "main")
    host = found["host"]
    twin = Body("laptop", tmp_path / "twin", laptop.remote)
    twin.home.mkdir()
    fleet.server.authorize(fleet.repository, twin.make_key())
    words = ["init", "kaoru", "--remote", twin.remote, "--body", "laptop", "--host-key", fleet.server.fingerprint()]
    command = [
        "unshare",
        "--uts",
        "sh",
        "-c",
        'hostname other-machine; exec "$@"',
        "sh",
        *twin.command(*words),
        "--json",
    ]
    done = subprocess.run(command, env=twin.env(), capture_output=True, timeout=60)
    answer = json.loads(done.stdout)
    assert done.returncode == 3 and answer["error"]["rule"] == "MERGE-9"
    assert host in answer["error"]["message"] and "--take-over" in answer["error"]["advice"]
    assert other.name not in (server.read("bodies/laptop.json") or "")
    done = subprocess.run([*command, "--take-over"], env=twin.env(), capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_a_machine_that_changes_its_name_stays_the_same_body(laptop: Body, server: Body, fleet: Fleet) -> None:
    """Trap 94: the body's name is in the configuration; the machine's is a label in its file, and no new file."""
    laptop.append(MEMORY, CANOE)
    command = ["unshare", "--uts", "sh", "-c", 'hostname dhcp-17; exec "$@"', "sh", *laptop.command("sync", "--json")]
    done = subprocess.run(command, env=laptop.env(), capture_output=True, timeout=60)
    assert done.returncode == 0 and json.loads(done.stdout)["pushed"]
    tree = tree_of(fleet.bare)
    assert {path for path in tree if path.startswith("bodies/")} == {"bodies/laptop.json", "bodies/server.json"}
    assert json.loads(tree["bodies/laptop.json"])["host"] == "dhcp-17"
    assert fleet.git("for-each-ref", "--format=%(refname)").split() == ["refs/heads/main"]


def test_what_one_machine_decided_stays_on_it(laptop: Body, server: Body, fleet: Fleet) -> None:
    """Trap 95; CONTENT-2: settings, pauses, keys and pinned hosts are no part of the soul and reach no other body."""
    laptop.configure(hold_back_over="1MiB")
    laptop.json("pause")
    laptop.append(MEMORY, CANOE)
    laptop.sync()
    server.sync()
    assert laptop.status()["state"] == "paused" and server.status()["state"] != "paused"
    assert "\nhold_back_over" not in (server.home / "config/kaoru.yaml").read_text()
    private = {path.read_bytes() for folder in ("config", "keys") for path in (laptop.home / folder).iterdir()}
    assert not private & set(tree_of(fleet.bare).values())


def test_systemd_hears_that_it_runs_and_that_it_lives(laptop: Body, tmp_path: Path) -> None:
    """Traps 89, 104: READY comes after a first pass, WATCHDOG while passes end, STOPPING before the end."""
    import socket

    told: list[str] = []
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(tmp_path / "notify"))
        listener.settimeout(10)
        laptop.start(NOTIFY_SOCKET=str(tmp_path / "notify"), WATCHDOG_USEC="900000")
        while not {"READY=1", "WATCHDOG=1"} <= set(told):
            told += listener.recv(4096).decode().split("\n")
        assert laptop.seen()["last_pass"] is not None
        assert laptop.daemon is not None
        laptop.daemon.send_signal(signal.SIGSTOP)
        time.sleep(0.3)
        listener.settimeout(0.01)
        try:
            while True:
                listener.recv(4096)
        except TimeoutError:
            pass
        time.sleep(1.2)
        with pytest.raises(TimeoutError):
            listener.recv(4096)
        laptop.daemon.send_signal(signal.SIGCONT)
        assert laptop.stop() == 0
        listener.settimeout(5)
        while "STOPPING=1" not in told:
            told += listener.recv(4096).decode().split("\n")
