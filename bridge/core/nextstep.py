"""What a person does next about a path that is set aside, and about git work of theirs that passes wait for.

One room, so that `sync`, `status` and `doctor` say the same. What is said here chooses nothing: rules are decided where
they live, and their reasons are read here.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping

from bridge.core.layout import MAIN
from bridge.core.words import line

# rule, words in the reason ("" for any), what to do; {path}, {body} and {agent} are filled in
_HELD: tuple[tuple[str, str, str], ...] = (
    ("GUARD-2", "", "meant: `soul-bridge sync --now --agent {agent}`; not meant: `soul-bridge pause {agent}`, put the "
     "files back (`git -C {soul} checkout main -- {path}`), `soul-bridge resume {agent}`"),
    ("GUARD-3", "", "meant: `soul-bridge sync --now --agent {agent}`; not meant: `soul-bridge pause {agent}`, find the "
     "commit with `soul-bridge log --agent {agent}`, `soul-bridge revert COMMIT --agent {agent}`, `soul-bridge resume "
     "{agent}`"),
    ("REPO-8", "", "read the server's words and allow it there, or take out what it minds; then "
     "`soul-bridge sync --now --agent {agent}`"),
    ("AUTH-2", "", "the key itself stays where it is: `rm {place}`"),
    ("MERGE-9", "", "move what you wrote to notes/ or journal/{body}/; the other body's file comes back by itself"),
    ("TREE-6", "larger than", "move it out of the soul, or raise `hold_back_over` in the configuration if the host "
     "takes it"),
    ("TREE-6", "nested repository", "move it out of the soul, or remove the .git in it"),
    ("TREE-6", "git keeps for itself|control character", "rename it"),
    ("TREE-6", "cannot be read", "make it readable: `chmod u+rw {place}`"),
    ("TREE-6", "from the remote", "put a file in its place on the body that made it"),
    ("TREE-6", "", "put a file in its place, move it out of the soul, or name it in .gitignore"),
    ("TREE-7", "same name", "rename one of the two, on a body that can hold both"),
    ("TREE-7", "", "rename it on the body that made it"),
    ("GUARD-6", "permission denied", "give this user the right: `chmod u+rwX {place}`"),
    ("GUARD-6", "mount", "unmount it, or move it out of the soul"),
    ("GUARD-6", "", "look at what stands there: `ls -ld {place}`"),
)  # fmt: skip

# words in the reason, what ends it; {git} is git in the checkout, {lock} its lock
_GOING: tuple[tuple[str, str], ...] = (
    (r"index\.lock", "pgrep -ax git || rm {lock}   # wait while a git runs; with none, the lock was left behind"),
    ("sparse checkout", "{git} sparse-checkout disable"),
    ("a merge is", "{git} merge --abort   # or finish it: {git} merge --continue"),
    ("applying of mails", "{git} rebase --abort || {git} am --abort"),
    ("rebase", "{git} rebase --abort   # or finish it: {git} rebase --continue"),
    ("cherry-pick or revert", "{git} cherry-pick --abort || {git} revert --abort"),
    ("cherry-pick", "{git} cherry-pick --abort   # or finish it: {git} cherry-pick --continue"),
    ("revert", "{git} revert --abort   # or finish it: {git} revert --continue"),
    ("bisect", "{git} bisect reset"),
    ("conflict", "{git} status   # then edit what it names, and {git} add each"),
    ("", "{git} symbolic-ref HEAD " + MAIN),
)


def of_held(item: Mapping[str, str], agent: str, body: str, soul: str) -> str:
    """What to do about one held path ({path, rule, reason}); "" where nothing is known. soul: where the checkout is."""
    for rule, words, step in _HELD:
        if rule == item["rule"] and re.search(words, item["reason"]):
            path = _typed(item["path"])
            place = _typed(f"{soul}/{item['path']}")
            return step.format(agent=agent, body=body, soul=shlex.quote(soul), path=path, place=place)
    return ""


def of_all(held: Iterable[Mapping[str, str]], agent: str, body: str, soul: str) -> list[str]:
    """The steps for held paths: for several with one rule and reason, that of the first."""
    firsts: dict[tuple[str, str], Mapping[str, str]] = {}
    for item in held:
        firsts.setdefault((item["rule"], re.sub(r"[0-9]+", "#", item["reason"])), item)
    found = (of_held(item, agent, body, soul) for item in firsts.values())
    return list(dict.fromkeys(step for step in found if step))


def of_git(reason: str, soul: str) -> str:
    """The command that ends what a person does with git in the checkout; a comment says more."""
    place = shlex.quote(soul)
    step = next(step for words, step in _GOING if re.search(words, reason))
    return step.format(git=f"git -C {place}", lock=shlex.quote(f"{soul}/.git/index.lock"))


def _typed(path: str) -> str:
    """A path as a shell takes it; what nobody can type, nor read as one line, is left to whoever knows its name."""
    return shlex.quote(path) if path == line(path) else "PATH"
