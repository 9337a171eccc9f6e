"""What the pages promise is so: commands exist, exit codes are told, links lead somewhere, nothing private is named."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import subprocess
from functools import cache
from pathlib import Path
from urllib.parse import unquote

import pytest

from bridge.cli import main
from bridge.core.errors import EXIT_CODES

ROOT = Path(__file__).parents[2]
PAGES = ["README.md", "CONTRIBUTING.md", "SECURITY.md", "systemd/README.md", "keys.example/README.md"]
COMMAND = re.compile(r"\bsoul-bridge ((?:[a-z][a-z-]*|--version|--help)\b[^`\n|#]*)")
CONTRACT = [
    "init", "run", "sync", "status", "doctor", "log", "show", "diff", "conflicts", "restore", "revert", "bodies",
    "bodies forget", "key show", "key rotate", "lease show", "lease acquire", "lease renew", "lease release",
    "consolidate", "pause", "resume", "accept-host-key", "accept-remote", "validate", "events", "service install",
    "service uninstall", "service status", "host init", "host authorize", "host revoke", "host list", "demo",
    "completion",
]  # fmt: skip


def tracked() -> list[Path]:
    """Files of the repository, a link or a deleted one excepted."""
    words = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listing = subprocess.run(words, cwd=ROOT, check=True, capture_output=True).stdout.decode()
    paths = [ROOT / name for name in listing.split("\0") if name]
    return [path for path in paths if path.is_file() and not path.is_symlink()]


@cache
def usage(*words: str) -> str:
    """What `soul-bridge WORDS --help` prints."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        try:
            code = main([*words, "--help"])
        except SystemExit as exit:
            code = exit.code
    assert code == 0, words
    return out.getvalue()


def named_commands() -> list[tuple[str, str]]:
    """Every call of soul-bridge that a page shows, with the page's name."""
    found = {}
    for page in PAGES:
        text = (ROOT / page).read_text()
        shown = re.findall(r"```.*?```|`[^`\n]+`", text, re.DOTALL)
        for line in "\n".join(shown).splitlines():
            for call in COMMAND.findall(line.replace("`", "")):
                found[(page, call.strip())] = None
    return list(found)


def command_of(words: list[str]) -> list[str]:
    """The leading words that name a command or one of its parts."""
    leading = words[:1]
    if len(words) > 1 and " ".join(words[:2]) in CONTRACT:
        leading = words[:2]
    return leading


@pytest.mark.parametrize("command", CONTRACT)
def test_every_promised_command_exists_and_explains_itself(command: str) -> None:
    explained = usage(*command.split())
    assert f"usage: soul-bridge {command.split()[0]}" in explained
    assert [word for word in command.split() if word not in explained] == []


@pytest.mark.parametrize(("page", "call"), named_commands())
def test_a_command_on_a_page_exists_with_its_options(page: str, call: str) -> None:
    words = [word for word in shlex.split(call.replace("…", "")) if word]
    words = words[: words.index("--")] if "--" in words else words
    if words[0].startswith("--"):
        assert words[0] in usage()
        return
    explained = usage(*command_of(words))
    options = {option.split("=")[0] for option in re.findall(r"--[a-z][a-z-]*", " ".join(words))}
    assert {option for option in options if option not in explained} == set(), page


def test_the_pages_name_every_command() -> None:
    text = (ROOT / "README.md").read_text()
    assert [command for command in CONTRACT if f"soul-bridge {command.split()[0]}" not in text] == []


def test_every_exit_code_is_told() -> None:
    table = set(re.findall(r"^\| `?(\d)`? \|", (ROOT / "README.md").read_text(), re.MULTILINE))
    assert {str(code) for code in EXIT_CODES.values()} | {"0"} == table


def test_every_message_that_the_page_explains_is_one_that_the_program_prints() -> None:
    page = (ROOT / "README.md").read_text()
    section = page[page.index("## When it says") : page.index("## What it does not do")]
    source = "\n".join(path.read_text() for path in (ROOT / "bridge").rglob("*.py"))
    spoken = re.sub(r'"\s*f?"', "", source)
    told = re.findall(r"^\| `([^`]+)` \|", section, re.MULTILINE)
    assert len(told) > 20
    assert [part for message in told for part in message.split("…") if part.strip(" ") not in spoken] == []


def anchors(page: Path) -> set[str]:
    """Names that a link to a heading of the page may use."""
    headings = re.findall(r"^#+ +(.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_link_leads_somewhere() -> None:
    broken = []
    for page in (path for path in tracked() if path.suffix == ".md"):
        text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
        for target in re.findall(r"\]\(([^)\s]+)\)|(?:src|href)=\"([^\"]+)\"", text):
            address, _, anchor = "".join(target).partition("#")
            if re.match(r"[a-z]+:", address):
                continue
            there = page.parent / unquote(address) if address else page
            if not there.exists() or (anchor and anchor not in anchors(there)):
                broken.append(f"{page.relative_to(ROOT)}: {''.join(target)}")
    assert broken == []


# Each pattern is written so that it does not find itself.
PRIVATE = re.compile(
    r"(?<![\w.~])/(?:wor[k]|far[m]|roo[t]|op[t])/(?!\.\.\.)|pypi\.or[g]|pythonhoste[d]|registry\.npmj[s]"
)
UNFINISHED = re.compile(r"\b(?:TOD[O]|FIXM[E]|XX[X])\b|NotImplemented[E]rror|pytest\.mark\.(?:ski[p]\b|xfai[l])")


def lines_with(pattern: re.Pattern[str], suffixes: set[str] | None = None) -> list[str]:
    """Places where tracked text matches."""
    found = []
    for path in tracked():
        if suffixes and path.suffix not in suffixes:
            continue
        with contextlib.suppress(UnicodeDecodeError):
            lines = enumerate(path.read_text().splitlines(), 1)
            found += [f"{path.relative_to(ROOT)}:{number}" for number, line in lines if pattern.search(line)]
    return found


def test_no_file_names_a_path_of_one_machine_or_a_registry() -> None:
    assert lines_with(PRIVATE) == []


def test_nothing_is_left_unfinished() -> None:
    assert lines_with(UNFINISHED, {".py", ".sh", ".toml", ""}) == []


def test_no_private_key_lies_in_the_repository() -> None:
    assert lines_with(re.compile(r"^-----BEGIN [A-Z ]*PRIVATE KE[Y]-----$")) == []
