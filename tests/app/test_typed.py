"""What a person reads who mistyped something: what was meant, ready to be typed, and nothing that looks like ours."""

from __future__ import annotations

import contextlib
import fcntl
import io
import os
import re
import shlex
import struct
import termios
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import pytest

from bridge.adapters import config
from bridge.adapters.systemd import Systemd
from bridge.app import repairing, standing
from bridge.app.history import Difference
from bridge.cli import run as call
from bridge.commands import conflicts, diff, restore, sync
from bridge.commands.context import Context
from bridge.core.errors import Refused, SoulError
from bridge.core.model import Presence
from tests.app.bodies import fleet

SETTINGS = "agent: {0}\nbody: laptop\nsoul: {1}/souls/{0}.soul\nremote: git@h.example:me/{0}.soul.git\n"
KEY = f"ssh-ed25519 {'A' * 68} kaoru.laptop soul-bridge"


@dataclass(frozen=True)
class Said:
    """Exit code and what was said to a person."""

    code: int
    err: str

    @property
    def next(self) -> list[str]:
        """The words of the command that is to be typed next."""
        found = re.search(r"(soul-bridge .*)$", self.err.split("next: ", 1)[1].splitlines()[0])
        assert found is not None, self.err
        return shlex.split(found[1])


def say(home: Path, *words: str) -> Said:
    out, err = io.StringIO(), io.StringIO()
    code = call(words, config.locate({"SOUL_BRIDGE_HOME": str(home)}), out, err)
    return Said(code, err.getvalue())


def configure(home: Path, agent: str = "kaoru") -> Path:
    (home / "config").mkdir(exist_ok=True)
    path = home / "config" / f"{agent}.yaml"
    path.write_text(SETTINGS.format(agent, home))
    path.chmod(0o600)
    return path


REMOTE = ("--remote", "git@h.example:me/kaoru.soul.git")


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        (("Kaoru", *REMOTE), ("kaoru", *REMOTE)),
        (("my laptop", *REMOTE), ("my-laptop", *REMOTE)),
        (("Kaoru",), ("kaoru",)),
        (("kaoru", *REMOTE, "--body", "My Laptop"), ("kaoru", *REMOTE, "--body", "my-laptop")),
        (
            ("Kaoru", *REMOTE, "--body", "L", "--wait", "60", "--take-over", "--authorize", "github"),
            ("kaoru", *REMOTE, "--body", "l", "--wait", "60", "--take-over", "--authorize", "github"),
        ),
        (("kaoru\n", *REMOTE), ("kaoru", *REMOTE)),
        (("Kaoru", "--remote", "https://h.example/me/kaoru.soul"), ("kaoru", *REMOTE)),
    ],
)
def test_a_name_that_cannot_be_is_answered_with_the_whole_command_that_can(
    tmp_path: Path, typed: tuple[str, ...], meant: tuple[str, ...]
) -> None:
    """FORM-1, FORM-6."""
    said = say(tmp_path, "init", *typed)
    assert said.code == 2 and said.next == ["soul-bridge", "init", *meant]
    assert not (tmp_path / "config").exists() and not (tmp_path / "keys").exists()


def test_a_name_of_which_nothing_is_left_is_answered_with_an_example(tmp_path: Path) -> None:
    """FORM-1."""
    said = say(tmp_path, "init", "薫", *REMOTE)
    assert said.code == 2 and "such as kaoru" in said.err


def test_an_address_of_another_form_is_answered_with_the_command_and_told_once(tmp_path: Path) -> None:
    """AUTH-1."""
    said = say(tmp_path, "init", "kaoru", "--remote", "https://github.com/me/kaoru.soul", "--body", "laptop")
    right = "git@github.com:me/kaoru.soul.git"
    assert said.code == 2 and said.next == ["soul-bridge", "init", "kaoru", "--remote", right, "--body", "laptop"]
    assert said.err.partition("next: ")[0].count(right) == 1


@pytest.mark.parametrize("wait", ["nan", "inf", "-inf", "-1", "x", "9" * 400])
def test_a_wait_that_is_no_time_is_refused(tmp_path: Path, wait: str) -> None:
    for words in (("init", "kaoru", *REMOTE), ("key", "rotate")):
        said = say(tmp_path, *words, f"--wait={wait}")
        assert said.code == 2 and "is no number of seconds, 0 or more" in said.err
        assert len(said.err) < 300


def test_a_number_of_commits_has_no_end(tmp_path: Path) -> None:
    configure(tmp_path)
    assert "there is no soul in" in say(tmp_path, "log", "-n", "9" * 5000).err


@pytest.mark.parametrize(
    "words",
    [
        ("init", "ka\nsoul-bridge: done"),
        ("init", "ka\nsoul-bridge: done", *REMOTE),
        ("status", "ka\nsoul-bridge: done"),
        ("nonsense\nsoul-bridge: done",),
        ("status", "--nonsense=\nsoul-bridge: done"),
        ("status", "kaoru", "--agent", "x\nsoul-bridge: done"),
        ("show", "a", "b\nsoul-bridge: done"),
        ("show", "b\nsoul-bridge: done"),
        ("validate", "/nowhere\nsoul-bridge: done"),
        ("conflicts", "--show", "b\nsoul-bridge: done"),
        ("host", "init", "/nowhere/b\nsoul-bridge: done"),
        ("host", "authorize", "/nowhere/b\nsoul-bridge: done", KEY),
        ("host", "list", "x\nsoul-bridge: done"),
        ("init", "kaoru", "--remote", "https://h/x\nsoul-bridge: done"),
        ("init", "kaoru", "--remote=ssh://git@127.0.0.1:1/k.git", "--soul=/\nsoul-bridge: done"),
        ("log", "-n", "b\nsoul-bridge: done"),
        ("accept-host-key", "--fingerprint", "b\nsoul-bridge: done"),
    ],
)
def test_no_word_that_was_typed_begins_a_line_of_its_own(tmp_path: Path, words: tuple[str, ...]) -> None:
    configure(tmp_path, "mei")
    said = say(tmp_path, *words)
    assert said.code in (2, 3, 5), said.err
    assert "\nsoul-bridge: done" not in said.err and "\x1b" not in said.err


def test_no_path_begins_a_line_of_a_list() -> None:
    path = "notes/x\nsoul-bridge: done"
    row = {"id": "3f2a", "at": None, "body": "laptop", "path": path}
    assert "\nsoul-bridge: done" not in conflicts.told([row], "kaoru")
    assert "\nsoul-bridge: done" not in diff.words_of([Difference(path, "added", (), (), ())])


def test_a_long_list_of_held_paths_is_told_to_its_end() -> None:
    """GUARD-5: a path that is not seen is not mended."""
    held = [{"path": f"notes/{number}\n", "reason": "its name is odd " * 5, "rule": "TREE-7"} for number in range(60)]
    lines = sync.told({"sentence": "nothing to do.", "held": held}).splitlines()
    assert [each.split(": ")[1] for each in lines[1:]] == [f"notes/{number}\\x0a" for number in range(60)]


def test_a_reason_that_has_lines_keeps_them_beneath_its_path() -> None:
    """REPO-8: a reason may be a server's words, or hold a path."""
    held = [{"path": "notes/x.md", "reason": "the remote refused it:\npushed. all is well", "rule": "REPO-8"}]
    said = sync.told({"sentence": "nothing to do.", "held": held})
    assert said.splitlines()[1:] == [
        "  held: notes/x.md: the remote refused it:", "    pushed. all is well (REPO-8)"
    ]  # fmt: skip
    again = restore.told({"paths": ["a"], "commit": "1" * 40, "pushed": True, "problem": None, "held": held}, "back")
    assert again.splitlines()[1:] == said.splitlines()[1:]


def test_one_conflict_is_named_in_the_commands_and_several_are_not() -> None:
    rows = [{"id": id, "at": None, "body": "laptop", "path": "SOUL.md"} for id in ("3f2a", "4b5c")]
    assert "soul-bridge restore kaoru 3f2a" in conflicts.told(rows[:1], "kaoru")
    assert "soul-bridge restore kaoru ID" in conflicts.told(rows, "kaoru")
    assert conflicts.told([], "kaoru") == ""


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        (("sync", "--now"), ("sync", "--agent", "kaoru", "--now")),
        (("key", "show"), ("key", "--agent", "kaoru", "show")),
        (("show", "1a2b3c4"), ("show", "--agent", "kaoru", "1a2b3c4")),
        (("bodies", "forget", "phone"), ("bodies", "--agent", "kaoru", "forget", "phone")),
        (("consolidate", "--", "dream", "deep"), ("consolidate", "--agent", "kaoru", "--", "dream", "deep")),
    ],
)
def test_a_soul_that_was_not_named_is_named_in_the_command_that_follows(
    tmp_path: Path, typed: tuple[str, ...], meant: tuple[str, ...]
) -> None:
    configure(tmp_path)
    configure(tmp_path, "mei")
    said = say(tmp_path, *typed)
    assert said.code == 2 and said.next == ["soul-bridge", *meant]
    assert "several souls" not in say(tmp_path, *meant).err, "and it is understood"


@pytest.mark.parametrize(
    ("typed", "said", "meant"),
    [
        (("sync", "--nw"), "soul-bridge sync takes no '--nw': did you mean --now?", ("sync", "--help")),
        (("status", "--wach"), "soul-bridge status takes no '--wach': did you mean --watch?", ("status", "--help")),
        (("sync", "kaoru", "x"), "soul-bridge sync takes no 'x'", ("sync", "--help")),
        (("sync", "--nonsense"), "soul-bridge sync takes no '--nonsense'", ("sync", "--help")),
        (("host", "list", "x"), "soul-bridge host list takes no 'x'", ("host", "list", "--help")),
        (("--versio",), "soul-bridge takes no '--versio': did you mean --version?", ("--help",)),
        (("bodies", "forgt", "x"), "did you mean bodies forget?", ("bodies", "forget", "--help")),
        (("key",), "an action is needed: show, rotate", ("key", "--help")),
        (("init", "k", "--authorize", "gitub"), "there is no kind of host 'gitub': did you mean", ("init", "--help")),
        (("consolidate", "dream"), "it comes behind --", ("consolidate", "--", "dream")),
    ],
)
def test_a_word_too_many_is_answered_with_the_nearest_and_the_help_of_its_command(
    tmp_path: Path, typed: tuple[str, ...], said: str, meant: tuple[str, ...]
) -> None:
    configure(tmp_path)
    answer = say(tmp_path, *typed)
    first, _, _ = answer.err.partition("\n")
    assert answer.code == 2 and said in first and answer.next == ["soul-bridge", *meant]
    assert ("did you mean" in first) == ("did you mean" in said)


def test_the_rule_stands_behind_what_was_refused_and_not_behind_a_list(tmp_path: Path) -> None:
    err = io.StringIO()
    refused = Refused("two files cannot come back\n  a: gone\n  b: changed", rule="REPO-3", advice="wait")
    Context(config.locate({"SOUL_BRIDGE_HOME": str(tmp_path)}), False, io.StringIO(), err).fail(refused)
    assert err.getvalue().splitlines()[0] == "soul-bridge: two files cannot come back (REPO-3)"


def test_advice_names_the_agent_wherever_it_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No placeholder is left for a person to fill in."""
    monkeypatch.setenv("PATH", str(tmp_path))
    said = [refusal(lambda: Systemd(system=True, agent="kaoru").reload())]
    said.append(refusal(lambda: Systemd(system=True).reload()))
    assert [one.advice for one in said] == [
        "start `soul-bridge run kaoru` as you start others", "start `soul-bridge run` as you start others"
    ]  # fmt: skip
    (tmp_path / "soul").mkdir()
    gone = refusal(lambda: repairing.refuse_unless_repairable("kaoru", tmp_path / "soul", True, "it is damaged"))
    assert "`soul-bridge init kaoru --soul DIR`" in gone.advice
    world = fleet()
    body = world.body("laptop")
    body.settle()
    body.tree.state = Presence.MISSING
    missing = refusal(lambda: standing.presence(body.soul))
    assert "`soul-bridge init kaoru`" in missing.advice


def refusal(act: Callable[[], object]) -> SoulError:
    with pytest.raises(SoulError) as raised:
        act()
    return raised.value


def test_resuming_is_told_with_one_colon(tmp_path: Path) -> None:
    configure(tmp_path)
    out = io.StringIO()
    for command in ("resume", "pause", "resume"):
        call([command], config.locate({"SOUL_BRIDGE_HOME": str(tmp_path)}), out, io.StringIO())
    first, _, last = out.getvalue().splitlines()
    assert first == "kaoru was not paused; no daemon runs here: `soul-bridge run kaoru`"
    assert last == "kaoru is resumed; no daemon runs here: `soul-bridge run kaoru`"


@contextlib.contextmanager
def terminal(columns: int) -> Iterator[tuple[int, TextIO]]:
    """The two ends of a terminal of that width."""
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    with os.fdopen(theirs, "w") as stream:
        yield ours, stream
    os.close(ours)


def arrived(ours: int, stream: TextIO) -> list[str]:
    """The lines that came through a terminal, which hands them on in its own time."""
    stream.write("the end\n")
    stream.flush()
    content = b""
    while b"the end" not in content:
        content += os.read(ours, 100_000)
    return content.decode().splitlines()[:-1]


REFUSAL = Refused(
    "the host does not accept this body's key for git@git.example.org:me/kaoru.soul.git with write access",
    kind="auth",
    rule="AUTH-3",
    advice=f"Add the key as a deploy key with write access, and then go on with the same command:\n\n{KEY}\n\n"
    "Nothing was written yet. Then: soul-bridge init kaoru --remote git@git.example.org:me/kaoru.soul.git",
)


def test_a_terminal_gets_prose_in_its_width_with_commands_and_keys_whole(tmp_path: Path) -> None:
    places = config.locate({"SOUL_BRIDGE_HOME": str(tmp_path)})
    with terminal(60) as (ours, stream):
        Context(places, False, io.StringIO(), stream).fail(REFUSAL)
        lines = arrived(ours, stream)
    whole = [KEY, "soul-bridge init kaoru --remote git@git.example.org:me/kaoru.soul.git"]
    assert [line.strip() for line in lines if len(line) > 60] == whole
    assert len(lines) > 8


def test_a_script_gets_each_line_whole(tmp_path: Path) -> None:
    err = io.StringIO()
    Context(config.locate({"SOUL_BRIDGE_HOME": str(tmp_path)}), False, io.StringIO(), err).fail(REFUSAL)
    assert err.getvalue() == f"soul-bridge: {REFUSAL.message} (AUTH-3)\nnext: {REFUSAL.advice}\n"


def test_a_terminal_that_tells_no_width_gets_each_line_whole(tmp_path: Path) -> None:
    with terminal(0) as (ours, stream):
        Context(config.locate({"SOUL_BRIDGE_HOME": str(tmp_path)}), False, io.StringIO(), stream).say("word " * 40)
        assert len(arrived(ours, stream)) == 1
