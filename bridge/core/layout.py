"""The tree of a soul: what stands where, which rule a path falls under, and which paths may reach a disk.

Paths are `str` with `/`, relative to the soul, decoded with surrogateescape.

Rules: REPO-1, REPO-2, TREE-1, TREE-2, TREE-3, TREE-4, TREE-5, TREE-6, TREE-7, TREE-8.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Collection

from bridge.core import identity
from bridge.core.jsontext import read as read_json
from bridge.core.model import EXECUTABLE, GITLINK, LINK, PLAIN, Problem

MAIN = "refs/heads/main"
FILLED_FOR = 86400.0  # seconds in which missing entries are not made again

SPEC_VERSION = 4
SOUL_SPEC = b'{\n  "spec": "soul-repo",\n  "version": 4\n}\n'
ATTRIBUTES = b"* text=auto eol=lf\n*.md text diff=markdown\n*.json text\n"
IGNORE = b"*.tmp\n*.swp\n.DS_Store\n*.incoming*.md\n"
# Written when missing and never again: another version of the rules may have written them otherwise (TREE-3).
_SEED_IGNORED = re.compile(r".*\.(tmp|swp)|\.DS_Store|.*\.incoming.*\.md", re.DOTALL)
_OWN = re.compile(r"journal/[^/]+/\d{4}-\d\d-\d\d(-[^/]*)?\.md|notes/(.*/)?[^/]+\.md", re.DOTALL)
_OWN_DIRECTORY = re.compile(r"memories|journal(/[^/]+)?|notes(/.*)?|bodies|locks", re.DOTALL)

FIXED = {".soul-spec.json": SOUL_SPEC, ".gitattributes": ATTRIBUTES, ".gitignore": IGNORE}
README = "README.md"
RULES = ".gitignore"
MEMORIES = ("memories/MEMORY.md", "memories/USER.md")
REQUIRED = (identity.PATH, "SOUL.md", *MEMORIES)
DIRECTORIES = ("journal", "notes", "bodies")
_PLACEHOLDERS = {f"{directory}/.gitkeep" for directory in DIRECTORIES}
LEASE = "locks/consolidation.json"

LARGEST_FORM = 1024 * 1024  # bytes; more is reported
LARGEST_STORED = 50 * 1024 * 1024  # bytes; more is held, unless configured otherwise
LONGEST_NAME = 255  # bytes of one segment, what common file systems take
LONGEST_PATH = 4096  # bytes

_TOP_LEVEL = {*FIXED, identity.PATH, "SOUL.md", "memories", "journal", "notes", "bodies", "locks", "skills"}
_COMPANION = re.compile(r"(?i)(readme|license)(\.(md|txt|rst))?")
# Code points that HFS+ passes over when it compares names.
PASSED_OVER = dict.fromkeys([*range(0x200C, 0x2010), *range(0x202A, 0x202F), *range(0x206A, 0x2070), 0xFEFF])
_GIT = re.compile(r"\.git|git~[0-9]+")
_UNPRINTABLE = bytes(byte for byte in (*range(32), 127) if byte not in b"\b\t\n\f\r\x1b")


def repository(agent: str) -> str:
    """The name of an agent's repository (REPO-1)."""
    return f"{agent}.soul"


def readme(agent: str, display_name: str) -> bytes:
    """The generated README.md: nothing in it is personal beyond the names."""
    return (
        identity.seed_text(display_name)
        + (
            f"\nThis repository is the soul of the agent `{agent}`: who it is and what it remembers.\n\n"
            "- It is private. Only the machines that carry the agent have a key to it.\n"
            "- Software keeps it the same on all of them; nobody needs to commit or pull here.\n"
            "- Nothing is ever erased from its history: a mistake is undone by going back to an earlier version, and\n"
            "  that adds a commit and takes none away.\n"
        ).encode()
    )


def missing(
    present: Callable[[str], bool] | Collection[str], agent: str, display_name: str, identity_bytes: bytes
) -> dict[str, bytes]:
    """Fixed and required entries that a tree lacks, with their seed contents (TREE-1).

    present: the paths of the tree, or a question about it: whether there is a file at a path or, where the path ends
    in "/", anything below it. What could only be made by removing something of the agent's is left out.
    """
    holds = present if callable(present) else _holds(present)
    wanted = {
        **FIXED,
        README: readme(agent, display_name),
        identity.PATH: identity_bytes,
        "SOUL.md": identity.seed_text(display_name),
        **dict.fromkeys(MEMORIES, b""),
    }
    result = {
        path: content
        for path, content in wanted.items()
        if not holds(path) and not holds(path + "/") and not any(map(holds, parents(path)))
    }
    for directory in DIRECTORIES:
        if not holds(directory + "/") and not holds(directory):
            result[f"{directory}/.gitkeep"] = b""
    return result


def is_memory(path: str) -> bool:
    """Whether the file is merged by entry: `memories/*.md`, one level."""
    return path.startswith("memories/") and path.endswith(".md") and path.count("/") == 1 and len(path) > 12


def is_own(path: str) -> bool:
    """Whether the path is an entry of the tree itself, recorded even where a `.gitignore` names it (TREE-4).

    What the fixed `.gitignore` names is none, wherever it lies.
    """
    if _SEED_IGNORED.fullmatch(path.rpartition("/")[2]):
        return False
    return (
        is_fixed(path)
        or is_required(path)
        or is_body(path)
        or is_memory(path)
        or path == LEASE
        or path in _PLACEHOLDERS
        or _OWN.fullmatch(path) is not None
    )


def may_hold_own(directory: str) -> bool:
    """Whether such entries can be in this directory."""
    return _OWN_DIRECTORY.fullmatch(directory) is not None


def is_fixed(path: str) -> bool:
    """Whether the program writes it when missing and never after (TREE-3)."""
    return path in FIXED or path == README


def is_rules(path: str) -> bool:
    """Whether it says which other paths are left out (TREE-4)."""
    return path.rpartition("/")[2] == RULES


def is_required(path: str) -> bool:
    """Whether it has to be there and goes back in place when it is gone (GUARD-2)."""
    return path in REQUIRED


def is_lock(path: str) -> bool:
    """Whether it lies below `locks/`, where theirs always stands (MERGE-10)."""
    return path.startswith("locks/")


def is_journal(path: str) -> bool:
    """Whether it lies in a body's journal."""
    return re.fullmatch(r"(?s)journal/[^/]+/.+", path) is not None


def is_body(path: str) -> bool:
    """Whether it is an entry of the register of bodies."""
    return path.startswith("bodies/") and path.endswith(".json") and path.count("/") == 1


def newest_wins(path: str) -> bool:
    """Whether the side with the newer commit wins the whole file (MERGE-6)."""
    return not (
        path == identity.PATH or is_fixed(path) or is_memory(path) or is_lock(path) or is_journal(path) or is_body(path)
    )


def parents(path: str) -> list[str]:
    """The directories above a path, highest first."""
    parts = path.split("/")
    return ["/".join(parts[:length]) for length in range(1, len(parts))]


def fold(path: str) -> str:
    """A key under which paths are equal that some file system takes for one (TREE-7): case and composition folded."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFD", path).casefold())


def may_fill(last: float | None, now: float) -> bool:
    """Whether missing entries may be made now (TREE-1): at most once a day, so that two bodies cannot fight over one.

    last: UTC seconds at which this body did so; None: never, and a time in the future is taken for none.
    """
    return last is None or not 0 <= now - last < FILLED_FOR


def unplaceable(path: str, regular: bool) -> tuple[str, str] | None:
    """Rule and reason why an entry of a tree is never created on a disk, None when it may be (TREE-6, TREE-7)."""
    if not regular:
        return "TREE-6", "a link or submodule from the remote is never created"
    reason = unsafe(path)
    return None if reason is None else ("TREE-7", reason)


def unsafe(path: str) -> str | None:
    """Why a path must not be created on a disk, None when it may (TREE-7). Links and twins are for who can look."""
    if path.startswith("/"):
        return "the path is absolute"
    if _length(path) >= LONGEST_PATH:
        return f"the path is {LONGEST_PATH} bytes or longer"
    for segment in path.split("/"):
        reason = _unsafe_segment(segment)
        if reason:
            return reason
    return None


def held(path: str, mode: int, size: int, limit: int = LARGEST_STORED) -> tuple[str, str] | None:
    """Rule and reason why a path of the working tree is not committed, None when it is (TREE-6). Sizes in bytes."""
    if _controls(path):
        return "TREE-6", "the name holds a control character"
    if mode not in (PLAIN, EXECUTABLE):
        names = {LINK: "a symbolic link", GITLINK: "a nested repository or submodule"}
        return "TREE-6", names.get(mode, "neither a file nor a directory")
    if size > limit:
        return "TREE-6", f"larger than {limit} bytes ({size}), which hosts refuse for ever"
    reason = unsafe(path)
    return ("TREE-7", reason) if reason else None


def is_soul(top_level: Collection[str], has_identity: bool) -> bool:
    """Whether a tree with these top-level names may be taken for a soul; an empty one may. The rule is in `publish`."""
    return has_identity or all(name in _TOP_LEVEL or _COMPANION.fullmatch(name) for name in top_level)


def stored(content: bytes, path: str) -> bytes:
    """The bytes git would store under ATTRIBUTES: text with LF; what is not text stays as it is (TREE-5)."""
    if b"\r\n" not in content or b"\0" in content:
        return content
    declared = path.endswith((".md", ".json"))
    return content.replace(b"\r\n", b"\n") if declared or _texty(content) else content


def version(content: bytes | None) -> int | None:
    """The version a `.soul-spec.json` states, None when it states none."""
    stated = (read_json(content) or {}).get("version")
    return stated if isinstance(stated, int) and not isinstance(stated, bool) else None


def problems(path: str, content: bytes, mode: int = PLAIN, size: int | None = None) -> list[Problem]:
    """Broken form that any file can have, and that of fixed files. size: where content is not all of it."""
    found = []
    reason = held(path, mode, 0)
    if reason:
        found.append(Problem(reason[0], path, 0, reason[1]))
    if mode not in (PLAIN, EXECUTABLE):
        return found
    length = len(content) if size is None else size
    if length > LARGEST_FORM:
        found.append(Problem("TREE-5", path, 0, f"{length} bytes; at most {LARGEST_FORM} is good form"))
    found += _encoding(path, content)
    if path in FIXED and path != ".soul-spec.json" and content != FIXED[path]:
        found.append(Problem("TREE-2", path, 0, "not the fixed content"))
    if path == ".soul-spec.json":
        fields = read_json(content) or {}
        if fields.get("spec") != "soul-repo" or version(content) is None:
            found.append(Problem("TREE-2", path, 0, 'must state "spec": "soul-repo" and a version'))
        elif version(content) == SPEC_VERSION and content != SOUL_SPEC:
            found.append(Problem("TREE-2", path, 0, "not the fixed content"))
    return found


def _encoding(path: str, content: bytes) -> list[Problem]:
    if b"\0" in content:
        return [Problem("TREE-5", path, 0, "not text: it holds NUL bytes")]
    try:
        content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        return [Problem("TREE-5", path, line, f"not UTF-8 (byte {error.start})")]
    at = content.find(b"\r")
    return [] if at < 0 else [Problem("TREE-5", path, content.count(b"\n", 0, at) + 1, "line ends other than LF")]


def _texty(content: bytes) -> bool:
    """git's own guess for `text=auto`: no CR without LF, and at most 1 of 128 bytes unprintable."""
    if content.count(b"\r") != content.count(b"\r\n"):
        return False
    printable = len(content.translate(None, _UNPRINTABLE + b"\r\n"))
    unprintable = len(content) - len(content.translate(None, _UNPRINTABLE)) - content.endswith(b"\x1a")
    return printable >> 7 >= unprintable


def _unsafe_segment(segment: str) -> str | None:
    if not segment:
        return "a name is empty"
    if _controls(segment):
        return "a name holds a control character"
    shown = segment.translate(PASSED_OVER)
    if not shown.rstrip(". "):
        return "a name is nothing but dots and blanks"
    if "\\" in segment:
        return "a name holds a backslash"
    if _length(segment) > LONGEST_NAME:
        return f"a name is longer than {LONGEST_NAME} bytes"
    plain = shown.split(":")[0].rstrip(". ").casefold()
    return "a name is a spelling of .git" if _GIT.fullmatch(plain) else None


def _length(text: str) -> int:
    """Bytes of a name on disk; each byte that was not UTF-8 became one surrogate."""
    return len(text.encode("utf-8", "replace"))


def _controls(text: str) -> bool:
    return any(unicodedata.category(letter) == "Cc" for letter in text)


def _holds(paths: Collection[str]) -> Callable[[str], bool]:
    everything = set(paths).union(parent + "/" for path in paths for parent in parents(path))
    return everything.__contains__
