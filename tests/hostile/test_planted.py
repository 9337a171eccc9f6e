"""Whatever somebody plants in the checkout's git directory or around the program: nothing of it runs or redirects."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.hostile.bounded import Bounded, Ground
from tests.hostile.forge import Forge
from tests.real.fleet import git

HOOKS = (
    "applypatch-msg", "pre-applypatch", "post-applypatch", "pre-commit", "pre-merge-commit", "prepare-commit-msg",
    "commit-msg", "post-commit", "pre-rebase", "post-checkout", "post-merge", "pre-push", "pre-receive", "update",
    "post-receive", "post-update", "reference-transaction", "push-to-checkout", "pre-auto-gc", "post-rewrite",
    "sendemail-validate", "fsmonitor-watchman", "post-index-change", "proc-receive",
)  # fmt: skip
PROGRAMS = ("ssh", "askpass", "credential", "pager", "editor", "gpg", "textconv", "clean", "smudge", "driver", "diff")


@dataclass
class Story:
    """A body in whose checkout and surroundings everything was planted that git and ssh know to obey."""

    ground: Ground
    body: Bounded
    canaries: Path
    elsewhere: Path
    environment: dict[str, str]

    def ran(self) -> list[str]:
        """What was executed."""
        return sorted(path.name for path in self.canaries.glob("*.ran"))


def program(place: Path, name: str) -> Path:
    """A program that leaves a mark when it is run, and then fails."""
    path = place / name
    path.write_text(f"#!/bin/sh\ntouch {place}/{name}.ran\nexit 1\n")
    path.chmod(0o755)
    return path


def planted(canaries: Path, elsewhere: Path) -> str:
    """A git configuration in which every setting that can run or redirect something does."""
    run = {name: program(canaries, name) for name in PROGRAMS}
    return f"""
[core]
	fsmonitor = {program(canaries, "fsmonitor")}
	hooksPath = {canaries}/hooks
	sshCommand = {run["ssh"]}
	askPass = {run["askpass"]}
	pager = {run["pager"]}
	editor = {run["editor"]}
	gitProxy = {program(canaries, "proxy")}
	alternateRefsCommand = {program(canaries, "alternate")}
	attributesFile = {canaries}/attributes
	excludesFile = {canaries}/excludes
	worktree = {elsewhere}
	autocrlf = true
	quotePath = false
[include]
	path = {canaries}/included
[includeIf "gitdir:/"]
	path = {canaries}/included
[credential]
	helper = !{run["credential"]}
[alias]
	fetch = !{program(canaries, "alias")}
	index-pack = !{program(canaries, "alias2")}
[gpg]
	program = {run["gpg"]}
[commit]
	gpgSign = true
[push]
	gpgSign = true
[diff]
	external = {run["diff"]}
[diff "evil"]
	textconv = {run["textconv"]}
[filter "evil"]
	clean = {run["clean"]}
	smudge = {run["smudge"]}
	process = {run["clean"]}
	required = true
[merge "evil"]
	driver = {run["driver"]}
[url "ssh://git@127.0.0.9:1/"]
	insteadOf = ssh://git@127.0.0.1
	pushInsteadOf = ssh://git@127.0.0.1
[remote "origin"]
	url = ext::{program(canaries, "ext")}
	uploadpack = {program(canaries, "uploadpack")}
	receivepack = {program(canaries, "receivepack")}
	proxy = http://127.0.0.9:1
[protocol]
	allow = always
[protocol "ext"]
	allow = always
[uploadpack]
	packObjectsHook = {program(canaries, "packobjects")}
[extensions]
	partialClone = origin
[trace2]
	eventTarget = {canaries}/trace
"""


@pytest.fixture(scope="module")
def story(found: Callable[[], Ground], tmp_path_factory: pytest.TempPathFactory) -> Story:
    ground = found()
    body = ground.body("laptop")
    canaries, elsewhere = tmp_path_factory.mktemp("canaries"), tmp_path_factory.mktemp("elsewhere")
    home = tmp_path_factory.mktemp("home")
    (canaries / "hooks").mkdir()
    (elsewhere / "kept").write_text("kept\n")
    configuration = planted(canaries, elsewhere)
    inside = body.soul / ".git"
    tip, blob = body.tip(), body.git("rev-parse", "main:SOUL.md").strip()
    first = body.git("rev-list", "--max-parents=0", "main").strip()
    (canaries / "included").write_text(f"[core]\n\tfsmonitor = {program(canaries, 'included-fsmonitor')}\n")
    for place in (home / ".gitconfig", home / "system"):
        place.write_text(configuration)
    (home / "git").mkdir()
    (home / "git/config").write_text(configuration)
    with (inside / "config").open("a") as file:
        file.write(configuration)
    (inside / "hooks").mkdir(exist_ok=True)
    for name in HOOKS:
        program(canaries / "hooks", name)
        shutil.copy(program(canaries, name), inside / "hooks" / name)
    attributes = "* filter=evil diff=evil merge=evil text eol=crlf ident working-tree-encoding=UTF-16\n"
    (inside / "info").mkdir(exist_ok=True)
    for place in (inside / "info/attributes", canaries / "attributes", home / "git/attributes"):
        place.write_text(attributes)
    for place in (inside / "info/exclude", canaries / "excludes", home / "git/ignore"):
        place.write_text("*\n")
    (inside / "info/grafts").write_text(f"{tip}\n")
    (home / ".ssh").mkdir(mode=0o700)
    (home / ".ssh/config").write_text(f"Host *\n  ProxyCommand {program(canaries, 'proxycommand')}\n  Port 1\n")
    tampered = Forge(inside).blob("tampered\n")
    (inside / "refs/replace").mkdir(parents=True)
    (inside / f"refs/replace/{blob}").write_text(f"{tampered}\n")
    (inside / f"refs/replace/{tip}").write_text(f"{first}\n")
    everywhere = program(canaries, "environment")
    environment = {
        "HOME": str(home), "XDG_CONFIG_HOME": str(home), "GIT_CONFIG_SYSTEM": str(home / "system"),
        "GIT_CONFIG_GLOBAL": str(home / ".gitconfig"), "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "core.fsmonitor",
        "GIT_CONFIG_VALUE_0": str(everywhere), "GIT_SSH_COMMAND": str(everywhere), "GIT_SSH": str(everywhere),
        "GIT_ASKPASS": str(everywhere), "SSH_ASKPASS": str(everywhere), "SSH_ASKPASS_REQUIRE": "force",
        "DISPLAY": ":9", "GIT_EDITOR": str(everywhere), "GIT_PAGER": str(everywhere), "PAGER": str(everywhere),
        "GIT_EXTERNAL_DIFF": str(everywhere), "GIT_PROXY_COMMAND": str(everywhere), "GIT_DIR": str(elsewhere),
        "GIT_WORK_TREE": str(elsewhere), "GIT_INDEX_FILE": str(elsewhere / "index"),
        "GIT_OBJECT_DIRECTORY": str(elsewhere / "objects"), "GIT_EXEC_PATH": str(canaries),
        "GIT_ALTERNATE_OBJECT_DIRECTORIES": str(elsewhere), "GIT_TRACE": str(elsewhere / "trace"),
        "GIT_TRACE2_EVENT": str(elsewhere / "trace2"), "GIT_TEMPLATE_DIR": str(canaries),
        "GIT_NAMESPACE": "evil", "GIT_CEILING_DIRECTORIES": "/", "SSH_AUTH_SOCK": str(elsewhere / "agent"),
        "GIT_GRAFT_FILE": str(inside / "info/grafts"), "GIT_REPLACE_REF_BASE": "refs/replace/",
    }  # fmt: skip
    ground.watch(elsewhere)
    return Story(ground, body, canaries, elsewhere, environment)


@pytest.mark.parametrize("way", ["session", "git"])
def test_no_planted_setting_hook_or_variable_is_obeyed(story: Story, way: str) -> None:
    """AUTH-7: by either way to the remote, a pass and every command that reads do what they do without them."""
    body = story.body
    if way == "git":
        body.configure(transport="git")
    body.write(f"notes/{way}.md", "# mine\r\nsecond\r\n")
    story.ground.forge.write({f"notes/theirs-{way}.md": "# theirs\n"})
    done = body.run("sync", "--json", **story.environment)
    assert done.expect(0)["pushed"], done.err
    for words in ("status", "log", "diff main", "show main", "doctor", "validate", "conflicts", "bodies"):
        body.run(*words.split(), **story.environment)
    assert story.ran() == []
    assert body.read(f"notes/theirs-{way}.md") == "# theirs\n"
    assert git(story.ground.bare, "show", f"main:notes/{way}.md") == "# mine\nsecond\n"
    assert "tampered" not in git(story.ground.bare, "show", "main:SOUL.md")
    story.ground.untouched()


def test_ignoring_everything_from_elsewhere_ignores_nothing(story: Story) -> None:
    """TREE-4: `info/exclude` and global excludes are not obeyed."""
    story.body.write("new/one.md", "# one\n")
    story.body.run("sync", **story.environment)
    assert git(story.ground.bare, "show", "main:new/one.md") == "# one\n"


def test_replaced_and_grafted_history_is_read_as_it_is(story: Story) -> None:
    """AUTH-7: the log goes back to the first commit, and contents are those of their ids."""
    commits = [row["commit"] for row in story.body.run("log", "--json", **story.environment).document]
    assert len(commits) == len(git(story.ground.bare, "rev-list", "main").split())


def test_a_checkout_that_leans_on_foreign_objects_is_refused_and_left_alone(ground: Ground, tmp_path: Path) -> None:
    """AUTH-7: alternates would be followed blindly by any git; a person is told how to bring the objects here."""
    body = ground.body("laptop")
    alternates = body.soul / ".git/objects/info/alternates"
    alternates.parent.mkdir(exist_ok=True)
    alternates.write_text(f"{tmp_path}\n")
    answer = body.sync(code=3)
    assert answer["error"]["rule"] == "AUTH-7" and "alternates" in answer["error"]["message"]
    alternates.unlink()
    body.sync()


REDIRECTED = {
    "a HEAD that leads out": ("HEAD", b"ref: refs/heads/../../../outside\n"),
    "a HEAD without an end": ("HEAD", b"ref: refs/heads/" + b"m" * 100_000),
    "a main that leads out": ("refs/heads/main", b"ref: refs/../../outside\n"),
    "a main that is no commit": ("refs/heads/main", b"ab" * 20 + b"\n"),
    "a memory of nonsense": ("soul-bridge/seen.db", b"SQLite format 3\0" + b"\xff" * 5000),
    "notes of nonsense": ("soul-bridge/out/1.json", b'{"path": "../../outside", "raw": 5'),
    "a pipe for HEAD": ("HEAD", None),
    "a pipe for main": ("refs/heads/main", None),
    "a pipe for the index": ("index", None),
    "a pipe for the id": ("soul-bridge/id", None),
    "a pipe for our own configuration": ("soul-bridge/skeleton/config", None),
}


@pytest.fixture(scope="module")
def prototype(found: Callable[[], Ground]) -> Ground:
    """One body, copied for each of the tests below."""
    made = found()
    made.body("laptop")
    return made


@pytest.mark.parametrize("name", REDIRECTED)
def test_a_git_directory_of_nonsense_stops_nothing_for_ever_and_leads_nowhere(
    prototype: Ground, tmp_path: Path, name: str
) -> None:
    """REPO-7, AUTH-7: waited for, mended or refused with the next step; the agent's file is still there."""
    original = prototype.bodies["laptop"]
    home = tmp_path / "home"
    shutil.copytree(original.home, home, symlinks=True)
    configuration = home / "config/kaoru.yaml"
    configuration.write_text(configuration.read_text().replace(str(original.home), str(home)))
    body = Bounded(original.name, home, original.remote)
    path, content = REDIRECTED[name]
    target = body.soul / ".git" / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.unlink(missing_ok=True)
    if content is None:
        os.mkfifo(target)
    else:
        target.write_bytes(content)
    body.write("notes/mine.md", "# mine\n")
    done = body.run("sync")
    assert done.code in (0, 1, 3), done.err
    assert done.out or done.err
    assert body.read("notes/mine.md") == "# mine\n"
    assert not (tmp_path / "outside").exists() and not (home / "outside").exists()
    assert (home / "souls/kaoru.soul/SOUL.md").exists()


def test_what_was_planted_was_alive(story: Story) -> None:
    """The other tests prove something: plain git, run there by a careless person, does run and follow it."""
    outer = {name: value for name, value in story.environment.items() if not name.startswith("GIT_")}
    careless = {"PATH": os.environ["PATH"], **outer, "GIT_CONFIG_NOSYSTEM": "1"}
    said = subprocess.run(["git", "status"], cwd=story.body.soul, env=careless, capture_output=True, timeout=20)
    subprocess.run(["git", "fetch"], cwd=story.body.soul, env=careless, capture_output=True, timeout=20)
    assert len(story.ran()) > 1, said
