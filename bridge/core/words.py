"""What a server said, made safe to show, and the advice that goes with it."""

from __future__ import annotations

import re

LONGEST = 2000  # characters of a server's words that anybody is shown
LINES = 20  # lines of them

# C0 except LF, DEL, C1, bidirectional and invisible controls, line separators, lone surrogates: what moves a cursor
# or makes a line read differently from what it is.
_UNSAFE = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff]"
    "|[\U000e0000-\U000e0fff]"
)

_ADVICE = (
    (
        r"read.?only|denied to deploy key|cannot push with|deploy.?key.*(write|push)|write access|\bW any\b",
        "Give this body's deploy key write access: delete it on the server, add the output of "
        "`soul-bridge key show` again, and tick *Allow write access*.",
    ),
    (
        r"not found|does not appear to be a git repo|does not exist|no such|could not be found|DENIED by",
        "Check `remote` in the configuration, and that the output of `soul-bridge key show` is a deploy key of "
        "exactly that repository.",
    ),
    (
        r"permission denied|publickey|authentication failed|unauthori[sz]ed|access denied",
        "Add the output of `soul-bridge key show` to the repository as a deploy key with write access. If it was "
        "deleted or renamed there, its keys went along: correct `remote` in the configuration.",
    ),
    (
        r"dubious ownership|safe\.directory",
        "The repository on the server belongs to another user there: have its owner corrected.",
    ),
)  # fmt: skip

_PASSING = ("failed to update ref", "incorrect old value provided", "unpacker error")

# Where a command begins that somebody may type, or a line to be pasted, outside of backticks.
_COMMAND = re.compile(
    r"(?<!\S)(?:(?:soul-bridge|sudo|gh|glab|ssh-keygen|curl|printf|grep|sed|rm|mv|kill|chmod|chown|mkdir|systemctl|"
    r"journalctl|loginctl|machinectl) [^ ,;:.]|(?:ls|ss) -|git (?:-|rm|config|commit|init|log|clone)|ssh-ed25519 |"
    r"restrict,)"
)
_WHOLE = re.compile(r"\s*(?:[\[{]|[/~]\S*\Z)")
_ATOM = re.compile(r"""(?:`[^`]*`|"[^"]*"|(?<![^\s(])'[^']*'|\S)+""")

DEFAULT_ADVICE = "Run `soul-bridge doctor` to see what the remote allows; local work is safe and goes on."


def lines_of(content: bytes) -> list[str]:
    """The lines of a file that ssh or sshd reads too: nothing ends one but LF, so that what is written back is what was
    there, to the byte."""
    lines = content.decode("utf-8", "surrogateescape").split("\n")
    return lines[:-1] if not lines[-1] else lines


def readable(text: str | bytes, longest: int = LONGEST) -> str:
    """Text that cannot steer a terminal: control characters escaped, line ends LF, at most `longest` characters."""
    text = _plain(text)
    if len(text) > longest:
        text = text[:longest].rstrip() + " …"
    return _UNSAFE.sub(_escape, text)


def told(text: str | bytes, missing: int = 0) -> str:
    """A server's words as a person is shown them: of many lines the first and the last, and how many more there were.

    missing: lines that were not even kept, from somewhere in the middle.
    """
    text = _plain(text)
    lines = text.split("\n")
    if len(lines) <= LINES and len(text) <= LONGEST and not missing:
        return _UNSAFE.sub(_escape, text)
    shown, half = min(LINES, len(lines)), LONGEST // 2
    first, last = lines[: shown // 2], lines[len(lines) - (shown - shown // 2) :]
    more = missing + len(lines) - shown
    begun, ended = ("\n".join(first)[:half], "\n".join(last)[-half:]) if first else (text[:half], text[-half:])
    note = f"… and {counted(more, 'more line')} …" if more else "…"
    return _UNSAFE.sub(_escape, f"{begun}\n{note}\n{ended}")


def _plain(text: str | bytes) -> str:
    if isinstance(text, bytes):
        text = text.decode("utf-8", "replace")
    return text.replace("\r\n", "\n").replace("\r", "\n").replace("\t", " ").strip().strip("\0").strip()


def line(text: str, longest: int = LONGEST) -> str:
    """One line that cannot steer a terminal, its white space kept: where columns mean something."""
    text = text.expandtabs(4)
    text = text if len(text) <= longest else text[:longest] + " …"
    return _UNSAFE.sub(_escape, text).replace("\n", "\\x0a")


def wrapped(text: str, width: int) -> str:
    """Prose in lines of at most `width` characters; what is typed or read as a whole is never parted.

    That is: a command from its first word to the end of its line, what stands in backticks or quotes, a path, a key,
    a line of JSON, a row of a table.
    """
    return "\n".join(_wrapped(line, width) for line in text.split("\n"))


def _wrapped(line: str, width: int) -> str:
    indent = line[: len(line) - len(line.lstrip())]
    if len(line) <= width or _WHOLE.match(line) or "  " in line.strip():
        return line
    command = _COMMAND.search(line)
    end = command.start() if command else len(line)
    words = [*_ATOM.findall(line[:end]), *([line[end:]] if command else [])]
    lines = [indent + words[0]]
    for word in words[1:]:
        if len(lines[-1]) + 1 + len(word) <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(f"{indent}  {word}")
    return "\n".join(lines)


def counted(number: int, noun: str) -> str:
    """A number and what it counts: "1 commit", "2 commits"."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def escaped(document: str) -> str:
    """A JSON text with every character that could steer a terminal as its escape: the same document to a reader."""
    return _UNSAFE.sub(_json_escape, document)


def advice(text: str) -> str:
    """The next step that a server's refusal asks for."""
    for pattern, words in _ADVICE:
        if re.search(pattern, text, re.IGNORECASE):
            return words
    return DEFAULT_ADVICE


def may_pass(reason: str) -> bool:
    """Whether a server's reason for refusing a push may be gone at the next try: a lost race, or its own trouble.

    What it was is never told by the words: the tip has to be read again.
    """
    return reason.strip() in _PASSING


def _json_escape(match: re.Match[str]) -> str:
    units = match.group().encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


def _escape(match: re.Match[str]) -> str:
    code = ord(match.group())
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
