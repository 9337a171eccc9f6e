"""Completion says what the table of commands says, in each shell; where the shell is there, it is asked itself."""

from __future__ import annotations

import io
import shlex
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from bridge import cli_parser
from bridge.adapters import config
from bridge.cli import run as call
from bridge.commands import completion

Ask = Callable[..., list[str]]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A place with two configured souls and a folder."""
    (tmp_path / "config").mkdir()
    for agent in ("kaoru", "mei"):
        (tmp_path / "config" / f"{agent}.yaml").touch()
    (tmp_path / "folder with blanks").mkdir()
    return tmp_path


def script(shell: str) -> str:
    out = io.StringIO()
    assert call(["completion", shell], config.locate({"HOME": "/h"}), out, io.StringIO()) == 0
    return out.getvalue()


def asked(shell: str, home: Path, code: str) -> list[str]:
    """What a shell of its own prints for some code, run in `home` after the script."""
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"{shell} is not installed")
    words = [program, *{"bash": ["--norc"], "zsh": ["-f"], "fish": ["--no-config"]}[shell], "-c", code]
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(home), "SOUL_BRIDGE_HOME": str(home), "S": script(shell)}
    answer = subprocess.run(
        words,
        env=environment,
        cwd=home,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert answer.stderr == ""
    return [line for line in answer.stdout.splitlines() if line]


def bash(home: Path, *typed: str) -> list[str]:
    words = " ".join(map(shlex.quote, ["soul-bridge", *typed]))
    return asked(
        "bash", home, f'eval "$S"; COMP_WORDS=({words}); COMP_CWORD={len(typed)}; _soul_bridge; '
        'printf "%s\\n" "${COMPREPLY[@]}"',
    )  # fmt: skip


def zsh(home: Path, *typed: str) -> list[str]:
    words = " ".join(map(shlex.quote, ["soul-bridge", *typed]))
    prefix = shlex.quote(typed[-1])
    found = asked(
        "zsh", home, "compdef() {}; _describe() { print -l -- ${offered%%:*} }; _files() { print -l -- *(/) }; "
        f'_command_names() {{ print ls }}; eval "$S"; words=({words}); CURRENT={len(typed) + 1}; PREFIX={prefix}; '
        "_soul_bridge; true",
    )  # fmt: skip
    return [word for word in found if word.startswith(typed[-1])]


def fish(home: Path, *typed: str) -> list[str]:
    line = " ".join(["soul-bridge", *typed])
    found = asked("fish", home, f"echo $S | source; complete -C {shlex.quote(line)}")
    return [word.split("\t")[0].rstrip("/") for word in found]


SHELLS: list[Ask] = [bash, zsh, fish]


@pytest.mark.parametrize("ask", SHELLS)
def test_the_words_of_the_table_are_offered(home: Path, ask: Ask) -> None:
    assert ask(home, "st") == ["status"]
    top = {command.name for command in cli_parser.COMMANDS if " " not in command.name}
    assert top & set(ask(home, "")) == set(completion.levels()[""].below)
    assert sorted(ask(home, "key", "")) == ["rotate", "show"]
    assert sorted(ask(home, "lease", "re")) == ["release", "renew"]
    assert ask(home, "bodies", "fo") == ["forget"]
    assert sorted(ask(home, "completion", "")) == ["bash", "fish", "zsh"]


@pytest.mark.parametrize("ask", SHELLS)
def test_the_options_of_a_command_are_offered_and_no_other_ones(home: Path, ask: Ask) -> None:
    assert ask(home, "sync", "--n") == ["--now"]
    assert sorted(ask(home, "key", "rotate", "--w")) == ["--wait"]
    assert sorted(ask(home, "key", "show", "--")) == ["--agent", "--help", "--json"]
    assert ask(home, "status", "--n") == []


@pytest.mark.parametrize("ask", SHELLS)
def test_the_configured_souls_are_offered_where_one_is_wanted(home: Path, ask: Ask) -> None:
    assert sorted(ask(home, "status", "")) == ["kaoru", "mei"]
    assert ask(home, "run", "kaoru", "m") == ["mei"]
    assert sorted(ask(home, "--agent", "")) == ["kaoru", "mei"]
    assert sorted(ask(home, "bodies", "")) == ["forget", "kaoru", "mei"]


@pytest.mark.parametrize("ask", SHELLS)
def test_a_value_of_an_option_is_not_taken_for_a_command(home: Path, ask: Ask) -> None:
    assert sorted(ask(home, "--agent", "status", "key", "")) == ["rotate", "show"]
    assert ask(home, "init", "--body", "key", "--off") == ["--offline"]


@pytest.mark.parametrize("ask", SHELLS)
def test_directories_are_offered_where_one_is_wanted(home: Path, ask: Ask) -> None:
    assert "folder with blanks" in [word.replace("\\", "") for word in ask(home, "validate", "f")]
    assert "config" in ask(home, "init", "--soul", "c")


@pytest.mark.parametrize("ask", SHELLS)
def test_nothing_of_ours_is_offered_behind_two_dashes(home: Path, ask: Ask) -> None:
    assert not {"status", "kaoru", "--json"} & set(ask(home, "consolidate", "--", ""))


def test_bash_completes_the_other_program_of_a_consolidation(home: Path) -> None:
    assert "mkdir" in bash(home, "consolidate", "--", "mkd")


@pytest.mark.parametrize("shell", cli_parser.SHELLS)
def test_every_command_and_option_is_in_each_script(shell: str) -> None:
    text = script(shell)
    for name, level in completion.levels().items():
        assert name in text
        flags = [flag.removeprefix("--") for flag in level.options]
        assert [word for word in [*level.below, *flags] if word not in text] == []


def test_an_unknown_shell_is_refused_with_the_known_ones() -> None:
    err = io.StringIO()
    assert call(["completion", "tcsh"], config.locate({"HOME": "/h"}), io.StringIO(), err) == 2
    assert "bash" in err.getvalue()


def test_the_words_of_another_program_are_not_ours() -> None:
    """What stands behind -- of a consolidation is never parsed; other commands keep it as argparse knows it."""
    assert cli_parser.parted(["--agent", "log", "consolidate", "--", "x", "--json"]) == (
        ["--agent", "log", "consolidate"], ["x", "--json"],
    )  # fmt: skip
    assert cli_parser.parted(["consolidate", "--json"]) == (["consolidate", "--json"], [])
    assert cli_parser.parted(["log", "consolidate", "--", "-x"]) == (["log", "consolidate", "--", "-x"], [])
