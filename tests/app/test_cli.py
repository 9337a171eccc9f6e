"""The program as scripts and people meet it: answers on one stream, words on the other, exit codes with a meaning."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from bridge import __version__, cli, cli_parser
from bridge.adapters import config
from bridge.adapters.events import Events
from bridge.adapters.keys import generate
from bridge.adapters.lock import Lock
from bridge.app import status
from bridge.cli import run as call
from bridge.commands.context import Context
from bridge.fakes.clock import FakeClock
from tests.pace import patience

ROOT = Path(__file__).parents[2]
SETTINGS = "agent: {0}\nbody: laptop\nsoul: {1}/souls/{0}.soul\nremote: git@h.example:me/{0}.soul.git\n"
NOT_FOR_A_LOOK = ("apscheduler", "cryptography", "jsonschema", "paramiko", "pygit2", "structlog", "watchdog", "yaml")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A place with one configured soul."""
    configure(tmp_path, "kaoru")
    return tmp_path


def configure(home: Path, agent: str) -> None:
    (home / "config").mkdir(exist_ok=True)
    (home / "config" / f"{agent}.yaml").write_text(SETTINGS.format(agent, home))
    (home / "config" / f"{agent}.yaml").chmod(0o600)
    os.utime(home / "config" / f"{agent}.yaml", (1, 1))


def environment(home: Path, **more: str) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "HOME": str(home), "SOUL_BRIDGE_HOME": str(home), "LC_ALL": "C", **more}


def soul_bridge(home: Path, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    """The program itself, in a locale of C."""
    return subprocess.run(
        [sys.executable, "-m", "bridge", *words], cwd=ROOT, env=environment(home, **more), capture_output=True,
        encoding="utf-8", timeout=30, check=False,
    )  # fmt: skip


def ask(home: Path, *words: str) -> tuple[int, Any]:
    """Exit code and document of a call with --json, in this process."""
    out = io.StringIO()
    code = call([*words, "--json"], config.locate({"SOUL_BRIDGE_HOME": str(home)}), out, io.StringIO())
    return code, json.loads(out.getvalue())


def written(home: Path, **changed: Any) -> None:
    """A status that a pass left."""
    (home / "state" / "kaoru").mkdir(parents=True, exist_ok=True)
    fields: dict[str, Any] = {
        "agent": "kaoru", "body": "laptop", "soul": "/s", "remote": "git@h.example:me/kaoru.soul.git", "state": "idle",
        "tip": "a" * 40, "remote_tip": "a" * 40, "last_pull": "2027-01-15T08:00:00.000Z", **changed,
    }  # fmt: skip
    assert status.write(home / "state" / "kaoru" / "status.json", status.build(**fields))


def test_the_version_and_the_help_are_told(tmp_path: Path) -> None:
    assert soul_bridge(tmp_path, "--version").stdout == f"soul-bridge {__version__}\n"
    answer = soul_bridge(tmp_path, "--help")
    assert (answer.returncode, answer.stderr) == (0, "")
    assert "Exit codes: 0 done" in answer.stdout


@pytest.mark.parametrize("name", [command.name for command in cli_parser.COMMANDS])
def test_each_command_that_is_there_explains_itself_with_examples(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if f" {name.split()[0]} " not in cli_parser.build().format_help():
        assert name not in ("status", "events", "pause", "resume", "key", "validate")
        return
    with pytest.raises(SystemExit) as caught:
        call([*name.split(), "--help"], config.locate({"HOME": "/h"}), io.StringIO(), io.StringIO())
    told = capsys.readouterr().out
    assert caught.value.code == 0
    assert told.startswith(f"usage: soul-bridge {name} ")
    assert "--json" in told
    assert "--agent" in told
    assert f"  soul-bridge {name}" in told


@pytest.mark.parametrize(
    "words", [(), ("--nonsense",), ("nonsense",), ("status", "--nonsense"), ("key",), ("pause", "kaoru", "mei")]
)
def test_a_wrong_call_exits_2_and_says_what_to_type(home: Path, words: tuple[str, ...]) -> None:
    answer = soul_bridge(home, *words)
    assert (answer.returncode, answer.stdout) == (2, "")
    assert answer.stderr.startswith("soul-bridge: ")
    assert "next: soul-bridge" in answer.stderr
    assert "Traceback" not in answer.stderr


def test_an_error_with_json_is_one_document_and_words_on_the_other_stream(home: Path) -> None:
    answer = soul_bridge(home, "status", "--json", "--nonsense")
    document = json.loads(answer.stdout)
    assert (answer.returncode, document["error"]["kind"]) == (2, "usage")
    assert set(document["error"]) == {"kind", "rule", "message", "advice"}
    assert document["error"]["message"] in answer.stderr


def test_json_may_stand_before_or_behind_the_command(home: Path) -> None:
    for words in (("--json", "pause"), ("pause", "--json")):
        assert json.loads(soul_bridge(home, *words).stdout)["paused"] is True


def test_several_souls_are_listed_when_none_is_named(home: Path) -> None:
    configure(home, "mei")
    code, document = ask(home, "status")
    assert code == 2
    assert "kaoru, mei" in document["error"]["message"]
    assert ask(home, "status", "mei")[1]["agent"] == "mei"
    assert ask(home, "status", "--agent", "mei")[1]["agent"] == "mei"


def test_two_names_for_one_soul_are_too_many(home: Path) -> None:
    configure(home, "mei")
    assert ask(home, "status", "mei", "--agent", "kaoru")[0] == 2


def test_without_a_configuration_the_way_to_one_is_told(tmp_path: Path) -> None:
    code, document = ask(tmp_path, "status")
    assert (code, document["error"]["kind"]) == (2, "config")
    assert document["error"]["advice"].startswith("soul-bridge init ")


def test_all_problems_of_a_configuration_reach_a_person(home: Path) -> None:
    path = home / "config" / "kaoru.yaml"
    path.write_text(path.read_text() + "poll: 30\nsettel: 1s\n")
    answer = soul_bridge(home, "key", "show")
    assert answer.returncode == 2
    assert f"{path}:5:7: poll is 30, a bare number" in answer.stderr
    assert f"{path}:6:1: unknown key settel: did you mean settle?" in answer.stderr


def test_a_soul_that_never_ran_has_a_status(home: Path) -> None:
    code, document = ask(home, "status")
    assert code == 0
    assert (document["state"], document["tip"], document["daemon"]["running"]) == ("stopped", None, False)
    assert soul_bridge(home, "status").stdout.startswith("stopped; the remote has not answered yet")


def test_the_status_is_what_the_last_pass_left_and_says_whether_one_runs(home: Path) -> None:
    written(home, pid=os.getpid(), since="2027-01-15T07:00:00.000Z")
    assert ask(home, "status")[1]["state"] == "stopped"
    with Lock(home / "state" / "kaoru" / "lock"):
        document = ask(home, "status")[1]
        assert (document["state"], document["daemon"]["pid"]) == ("idle", os.getpid())
        assert document["daemon"]["since"] == "2027-01-15T07:00:00.000Z"


def test_a_configuration_that_broke_after_the_last_pass_is_the_problem(home: Path) -> None:
    written(home)
    (home / "config" / "kaoru.yaml").write_text("agent: kaoru\n")
    os.utime(home / "config" / "kaoru.yaml", (2_000_000_000, 2_000_000_000))
    code, document = ask(home, "status")
    assert (code, document["problem"]["kind"]) == (0, "config")
    assert "body is missing" in document["problem"]["message"]


def test_a_configuration_that_broke_while_a_daemon_runs_is_told_beside_what_holds(home: Path) -> None:
    """The daemon goes on with what it read; that it would not start again must not come as a surprise."""
    written(home, pid=os.getpid(), since="2027-01-15T07:00:00.000Z")
    path = home / "config" / "kaoru.yaml"
    good = path.read_text()
    path.write_text("agent: kaoru\n")
    os.utime(path, (2_000_000_000, 2_000_000_000))
    with Lock(home / "state" / "kaoru" / "lock"):
        document = ask(home, "status")[1]
        assert (document["problem"], document["state"]) == (None, "idle")
        assert (
            "would not start with this one" in document["warnings"][0] and "body is missing" in document["warnings"][0]
        )
        path.write_text(good.replace("h.example", "other.example"))
        os.utime(path, (2_000_000_000, 2_000_000_000))
        assert "another soul and remote than the daemon goes by" in ask(home, "status")[1]["warnings"][0]
        os.utime(path, (1, 1))
        assert ask(home, "status")[1]["warnings"] == []


def test_a_configuration_that_broke_under_a_daemon_is_the_problem_once_it_stopped(home: Path) -> None:
    """What the daemon wrote later than the change was still by the old one."""
    written(home, pid=os.getpid(), since="2027-01-15T07:00:00.000Z")
    (home / "config" / "kaoru.yaml").write_text("agent: kaoru\n")
    os.utime(home / "config" / "kaoru.yaml", (1_799_999_990, 1_799_999_990))
    os.utime(home / "state" / "kaoru" / "status.json", (1_900_000_000, 1_900_000_000))
    assert ask(home, "status")[1]["problem"]["kind"] == "config"


def test_a_look_at_the_status_imports_no_heavy_library(home: Path) -> None:
    written(home)
    code = (
        "import sys; from bridge.cli import main; code = main(sys.argv[1:]); "
        f"print(sorted(set({NOT_FOR_A_LOOK!r}) & set(sys.modules)), code)"
    )
    answer = subprocess.run(
        [sys.executable, "-c", code, "status", "--json"], cwd=ROOT, env=environment(home), capture_output=True,
        text=True, timeout=30, check=True,
    )  # fmt: skip
    assert answer.stdout.splitlines()[-1] == "[] 0"


def test_help_and_status_are_quick(home: Path) -> None:
    written(home)
    for word in ("--help", "status"):
        times = []
        for _ in range(5):
            begun = time.perf_counter()
            soul_bridge(home, word)
            times.append(time.perf_counter() - begun)
        assert min(times) < 0.15 * 1.5 * patience(), word


def test_pause_and_resume_are_remembered_without_a_daemon(home: Path) -> None:
    assert ask(home, "pause") == (0, {"agent": "kaoru", "paused": True, "changed": True, "daemon": False})
    assert ask(home, "pause")[1]["changed"] is False
    assert ask(home, "status")[1]["state"] == "paused"
    assert ask(home, "resume")[1] == {"agent": "kaoru", "paused": False, "changed": True, "daemon": False}
    assert ask(home, "status")[1]["state"] == "stopped"
    assert "no daemon runs" in soul_bridge(home, "resume").stdout


def test_the_public_key_is_shown_and_a_missing_one_exits_4(home: Path) -> None:
    code, document = ask(home, "key", "show")
    assert (code, document["error"]["kind"], document["error"]["rule"]) == (4, "auth", "AUTH-2")
    public = generate(home / "keys" / "kaoru.laptop", "kaoru on laptop")
    assert ask(home, "key", "show") == (
        0, {"public_key": public.line, "fingerprint": public.fingerprint, "path": str(home / "keys" / "kaoru.laptop")}
    )  # fmt: skip
    assert soul_bridge(home, "key", "show", "kaoru").stdout.splitlines()[0] == public.line


def test_events_are_lines_or_one_list(home: Path) -> None:
    (home / "state" / "kaoru").mkdir(parents=True)
    assert ask(home, "events") == (0, [])
    recorder = Events(home / "state" / "kaoru" / "events.jsonl", "kaoru", "laptop", FakeClock())
    for number in range(3):
        recorder.record("pass.finished", number=number, path="caf\udce9")
    lines = soul_bridge(home, "events").stdout.splitlines()
    assert [json.loads(line)["number"] for line in lines] == [0, 1, 2]
    assert [fact["number"] for fact in ask(home, "events")[1]] == [0, 1, 2]


def test_following_events_ends_quietly_at_an_interrupt(home: Path) -> None:
    (home / "state" / "kaoru").mkdir(parents=True)
    recorder = Events(home / "state" / "kaoru" / "events.jsonl", "kaoru", "laptop", FakeClock())
    words = [sys.executable, "-m", "bridge", "events", "--follow"]
    # A test that runs in the background of a script was born with this signal ignored, and so would be its children.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    with subprocess.Popen(
        words, cwd=ROOT, env=environment(home), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as following:
        signal.signal(signal.SIGINT, before)
        try:
            assert following.stdout is not None
            for number in range(2):
                recorder.record("pass.finished", number=number)
                assert json.loads(following.stdout.readline())["number"] == number
            following.send_signal(signal.SIGINT)
            out, err = following.communicate(timeout=10)
        finally:
            following.kill()
    assert (following.returncode, out, err) == (130, "", "")


def test_a_reader_that_goes_away_is_no_reason_for_a_traceback(home: Path) -> None:
    (home / "state" / "kaoru").mkdir(parents=True)
    recorder = Events(home / "state" / "kaoru" / "events.jsonl", "kaoru", "laptop", FakeClock())
    for number in range(1000):
        recorder.record("pass.finished", number=number, text="x" * 200)
    with subprocess.Popen(
        [sys.executable, "-m", "bridge", "events"], cwd=ROOT, env=environment(home), stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    ) as reading:  # fmt: skip
        assert reading.stdout is not None
        assert reading.stderr is not None
        reading.stdout.readline()
        reading.stdout.close()
        assert reading.stderr.read() == ""
        assert reading.wait(10) == 141


@pytest.mark.parametrize("words", [("status",), ("status", "--json"), ("events",), ("--help",)])
def test_a_full_disk_behind_the_answer_is_told(home: Path, words: tuple[str, ...]) -> None:
    (home / "state" / "kaoru").mkdir(parents=True)
    Events(home / "state" / "kaoru" / "events.jsonl", "kaoru", "laptop", FakeClock()).record("pass.finished")
    with open("/dev/full", "w") as full:
        answer = subprocess.run(
            [sys.executable, "-m", "bridge", *words], cwd=ROOT, env=environment(home), stdout=full,
            stderr=subprocess.PIPE, text=True, timeout=30, check=False,
        )  # fmt: skip
    assert answer.returncode == 1
    assert "No space left on device" in answer.stderr
    assert "Traceback" not in answer.stderr


def test_a_bug_is_one_line_and_its_traceback_is_in_a_private_file(home: Path) -> None:
    written(home, last_pass={"at": "2027-01-15T08:00:00.000Z"})
    answer = soul_bridge(home, "status")
    assert (answer.returncode, answer.stdout) == (1, "")
    assert "Traceback" not in answer.stderr
    kept = home / "state" / "errors.log"
    assert str(kept) in answer.stderr
    assert "Traceback" in kept.read_text()
    assert kept.stat().st_mode & 0o777 == 0o600
    assert "Traceback" in soul_bridge(home, "status", SOUL_BRIDGE_LOG="debug").stderr


def test_names_no_terminal_should_see_are_shown_harmless_in_any_locale(home: Path) -> None:
    written(home, pending=["\x1b[2J", "日記", "caf\udce9"])
    answer = soul_bridge(home, "status")
    assert answer.returncode == 0
    assert "\x1b" not in answer.stdout
    assert "日記" in answer.stdout
    assert "caf\udce9" in json.loads(soul_bridge(home, "status", "--json").stdout)["pending"]


@pytest.mark.parametrize(
    ("typed", "agent", "words"),
    [
        ("log", None, []),
        ("log notes/a.md", None, ["notes/a.md"]),
        ("log kaoru notes/a.md", "kaoru", ["notes/a.md"]),
        ("log ./kaoru", None, ["./kaoru"]),
        ("--agent kaoru log kaoru", "kaoru", ["kaoru"]),
        ("diff a1 b2 SOUL.md", None, ["a1", "b2", "SOUL.md"]),
        ("diff kaoru a1 b2 SOUL.md", "kaoru", ["a1", "b2", "SOUL.md"]),
        ("bodies", None, []),
        ("bodies kaoru", "kaoru", []),
        ("--json bodies forget mac", None, ["forget", "mac"]),
        ("bodies forget kaoru mac", "kaoru", ["forget", "mac"]),
    ],
)
def test_an_agent_may_be_the_first_word_of_any_command(
    home: Path, typed: str, agent: str | None, words: list[str]
) -> None:
    context = Context(config.locate({"SOUL_BRIDGE_HOME": str(home)}), False, io.StringIO(), io.StringIO())
    arguments = cli._arguments(typed.split(), context)
    assert (arguments.agent, arguments.words) == (agent, words)


def test_the_page_of_commands_says_the_same_as_the_program(tmp_path: Path) -> None:
    listed = set(re.findall(r"(?m)^    ([a-z][a-z-]*(?: forget)?)(?: |$)", soul_bridge(tmp_path, "--help").stdout))
    assert listed <= {command.name for command in cli_parser.COMMANDS}
    assert {"status", "events", "pause", "resume", "key", "validate"} <= listed


@pytest.mark.parametrize("words", [["status"], ["sync"], ["--version"], ["doctor"]])
def test_a_clock_beyond_what_can_be_reckoned_with_is_told_in_words(home: Path, words: list[str]) -> None:
    typed = f"""
import sys, time
def now():
    raise OverflowError("timestamp too large to convert to C _PyTime_t")
time.time = now
from bridge.__main__ import main
sys.argv[1:] = {words!r}
sys.exit(main())
"""
    environment = {**os.environ, "SOUL_BRIDGE_HOME": str(home), "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", typed], env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "beyond the year 2262" in done.stderr and "timedatectl" in done.stderr
    assert "Traceback" not in done.stderr and len(done.stderr.splitlines()) == 2


@pytest.mark.parametrize("loading", ["bridge.cli", "argparse", "bridge.commands.context", "bridge.commands.status"])
def test_whoever_interrupts_while_the_program_is_being_loaded_sees_no_traceback(home: Path, loading: str) -> None:
    """Most commands are over before half a second has passed, which is loading for the most part."""
    typed = f"""
import sys
class Interrupting:
    def find_spec(self, name, *rest):
        if name == {loading!r}:
            raise KeyboardInterrupt
for name in [name for name in sys.modules if name == {loading!r}]:
    del sys.modules[name]
sys.meta_path.insert(0, Interrupting())
sys.argv[1:] = ["status"]
from importlib.metadata import EntryPoint
import tomllib
scripts = tomllib.load(open({str(ROOT / "pyproject.toml")!r}, "rb"))["project"]["scripts"]
sys.exit(EntryPoint("soul-bridge", scripts["soul-bridge"], "console_scripts").load()())
"""
    environment = {**os.environ, "SOUL_BRIDGE_HOME": str(home), "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", typed], env=environment, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")
