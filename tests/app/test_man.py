"""The manual page says everything that the parser knows, and every reader of manual pages takes it."""

from __future__ import annotations

import argparse
import io
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from bridge import cli_parser
from bridge.adapters import config
from bridge.cli import run as call
from bridge.commands import man
from bridge.core.errors import EXIT_CODES

ROOT = Path(__file__).parents[2]
PAGE = man.page("2026-12-01")


def plain(text: str) -> str:
    """What a person would read: fonts and escapes taken out, lines joined."""
    text = re.sub(r"\\f[BIPR]|\\&", "", text)
    for escape, sign in {"\\-": "-", "\\(aq": "'", "\\(ga": "`", "\\(ti": "~", "\\(dq": '"', "\\e": "\\"}.items():
        text = text.replace(escape, sign)
    return text


def sections() -> dict[str, str]:
    """The words below each heading, chapters and commands alike."""
    parts = re.split(r"^\.S[HS] (.+)$", PAGE, flags=re.MULTILINE)
    return {plain(name): plain(text) for name, text in zip(parts[1::2], parts[2::2], strict=True)}


EVERY = list(man.commands(cli_parser.build()))


@pytest.mark.parametrize(("words", "parser"), EVERY, ids=[words for words, _ in EVERY])
def test_every_command_has_its_place_with_all_of_its_options(words: str, parser: argparse.ArgumentParser) -> None:
    text = sections()[words]
    joined = " ".join(text.split())
    assert " ".join((parser.description or "").split()).replace("…", "...") in joined
    flags = [flag for action in parser._actions for flag in action.option_strings]
    everywhere = {"-h", "--help", "--json", "--agent"}
    assert [flag for flag in flags if flag not in everywhere and flag not in text] == []
    for action in parser._actions:
        told = action.help not in (None, argparse.SUPPRESS) and not everywhere & set(action.option_strings)
        if told and not isinstance(action, argparse._SubParsersAction):
            assert " ".join(str(action.help).split()).replace("…", "...").replace("›", ">") in joined


def test_what_every_command_takes_is_told_once() -> None:
    assert [flag for flag in ("--help", "--json", "--agent", "--version") if flag not in sections()["OPTIONS"]] == []


def test_every_example_of_the_table_is_there_as_it_is_typed() -> None:
    page = plain(PAGE)
    examples = [example for command in cli_parser.COMMANDS for example in command.examples]
    assert [line for line in examples if f"\nsoul-bridge {line}\n".replace("…", "...") not in page] == []


def test_every_exit_code_is_told() -> None:
    assert set(man.EXITS) == {0, *EXIT_CODES.values()}
    told = re.findall(r"^(\d)$", sections()["EXIT STATUS"], re.MULTILINE)
    assert told == [str(code) for code in sorted(man.EXITS)]


def test_every_variable_that_is_read_is_told() -> None:
    text = sections()["ENVIRONMENT"]
    pages = [*(ROOT / "bridge").rglob("*.py")]
    named = {name for path in pages for name in re.findall(r"\bSOUL_BRIDGE_[A-Z]+\b", path.read_text())}
    rooms = [path.read_text() for path in (ROOT / "bridge" / "adapters" / "config").glob("*.py")]
    named |= {name for room in rooms for name in re.findall(r"environ[^\n]*\"([A-Z][A-Z_]+)\"", room)} - {"HOME"}
    assert len(named) > 4
    assert sorted(name for name in named if name not in text) == []


def test_the_places_that_are_told_are_the_ones_that_are_used() -> None:
    places = config.locate({"HOME": "/h"})
    used = [places.config_file("AGENT"), places.key_file("AGENT", "BODY"), places.known_hosts, places.soul_dir("AGENT")]
    used += [places.state_dir("AGENT")]
    text = sections()["FILES"]
    assert [path for path in used if str(path).replace("/h/", "~/") not in text] == []
    system = config.locate({}, system=True)
    assert str(system.config) in text
    assert str(system.state) in text


def test_the_command_prints_the_page_and_as_json_too() -> None:
    out = io.StringIO()
    assert call(["man"], config.locate({"HOME": "/h"}), out, io.StringIO()) == 0
    assert re.sub(r"\d{4}-\d\d-\d\d", "2026-12-01", out.getvalue(), count=1) == PAGE
    out = io.StringIO()
    assert call(["man", "--json"], config.locate({"HOME": "/h"}), out, io.StringIO()) == 0
    assert json.loads(out.getvalue())["page"].startswith(".TH SOUL-BRIDGE 1 ")


def test_no_word_of_a_text_is_taken_for_a_request_or_an_escape() -> None:
    requests = {line.split()[0] for line in PAGE.splitlines() if line.startswith((".", "'"))}
    assert requests <= {".TH", ".SH", ".SS", ".PP", ".TP", ".RS", ".RE", ".nf", ".fi", ".BR"}
    assert set(re.findall(r"\\(?:f.|\(..|\[u[0-9A-F]{4,5}\]|.)", PAGE)) <= {
        "\\-", "\\e", "\\&", "\\fB", "\\fI", "\\fP", "\\(aq", "\\(ga", "\\(ti", "\\(ha", "\\(dq",
    }  # fmt: skip
    assert PAGE.isascii()


READERS = (("groff", "-ww", "-man", "-Tutf8"), ("mandoc", "-Tlint", "-Wwarning"), ("man", "--warnings", "-l"))


def test_no_reader_of_manual_pages_has_anything_to_complain_about(tmp_path: Path) -> None:
    here = [words for words in READERS if shutil.which(words[0])]
    if not here:
        pytest.skip("groff is missing (Debian, Ubuntu: apt-get install groff)")
    path = tmp_path / "soul-bridge.1"
    path.write_text(PAGE)
    for words in here:
        environment = {**os.environ, "MANWIDTH": "80", "LC_ALL": "C.UTF-8"}
        answer = subprocess.run([*words, str(path)], env=environment, capture_output=True, text=True, check=False)
        assert (answer.returncode, answer.stderr) == (0, ""), words
        assert words[0] != "mandoc" or answer.stdout == ""


def test_the_readme_names_every_command() -> None:
    """What it leaves out of the options, the page has (above)."""
    readme = (ROOT / "README.md").read_text()
    lone = [words for words, parser in EVERY if "action" not in {action.dest for action in parser._actions}]
    assert [words for words in lone if f"soul-bridge {words}" not in readme] == []
