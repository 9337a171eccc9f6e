"""What a person decided for one soul on this body: read, checked all at once, and written.

Every problem is found in one reading, each with line and column, and unknown keys name the nearest known one.
"""

from __future__ import annotations

import contextlib
import difflib
import ipaddress
import json
import os
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bridge.adapters import folders
from bridge.adapters.config.document import Document, read
from bridge.adapters.config.places import Places
from bridge.core import identity
from bridge.core.errors import SoulError, Unusable
from bridge.core.words import readable

_LIMIT = 256 * 1024
_MILLISECONDS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_BYTES = {
    "B": 1, "kB": 10**3, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30,
}  # fmt: skip
_DURATIONS = ("settle", "poll", "heartbeat", "guard")
# A pass that waits for nothing would never end.
_LEAST = {"poll": 0.05, "heartbeat": 1.0}
_LONGEST = 36_500 * 86_400.0  # seconds; no time that is that far away can be written
_LARGEST = 1 << 50  # bytes
_SHOWN = 60  # characters of a value that a problem repeats


@dataclass(frozen=True)
class Consolidation:
    """What consolidates the memories, and when: five fields of cron, local time; the words of a command."""

    schedule: str
    command: tuple[str, ...]


@dataclass(frozen=True)
class Metrics:
    """Where numbers are to be found: a loopback address and port, a file; None for either."""

    listen: tuple[str, int] | None = None
    file: Path | None = None


@dataclass(frozen=True)
class Settings:
    """One soul on this body. Durations are seconds, `hold_back_over` is bytes, paths are absolute.

    transport: "session" (paramiko) or "git" (the git and
    ssh programs). hooks: by "synced" or the name of an event, the words of a command. notify: "desktop", the words of
    a command, or nothing.
    """

    agent: str
    body: str
    soul: Path
    remote: str
    key: Path
    settle: float = 0.5
    poll: float = 30.0
    heartbeat: float = 86400.0
    guard: float = 60.0
    hold_back_over: int = 50 << 20
    transport: str = "session"
    consolidation: Consolidation | None = None
    hooks: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    metrics: Metrics | None = None
    notify: str | tuple[str, ...] = ()


def agents(places: Places) -> list[str]:
    """Which souls are configured, sorted; a directory that is not there has none."""
    with contextlib.suppress(OSError):
        return sorted(
            entry.name[: -len(".yaml")]
            for entry in os.scandir(places.config)
            if entry.name.endswith(".yaml") and not entry.name.startswith(".") and entry.is_file()
        )
    return []


def load(places: Places, agent: str) -> Settings:
    """Read and check one configuration. Raises Unusable(kind="config") with every problem there is."""
    path = places.config_file(agent)
    document = read(_content(path, agent, places))
    problems = list(document.problems)
    if not isinstance(document.value, dict):
        if not problems:
            problems.append((1, 1, "keys and values are expected here, such as agent: kaoru"))
    else:
        problems += _against_schema(document)
        reported = {place[:2] for place in problems}
        problems += _beyond_schema(document, agent, reported)
        problems += [problem for problem in _of_metrics(document, places) if problem[:2] not in reported]
    if problems:
        lines = [f"{path}:{line}:{column}: {words}" for line, column, words in sorted(set(problems))]
        count = "one problem" if len(lines) == 1 else f"{len(lines)} problems"
        raise Unusable(
            f"the configuration of {agent} has {count}:\n" + "\n".join(lines),
            advice=f"correct {path}; nothing was started and no file was touched",
        )
    return _settings(document.value, places)


def load_to_read(places: Places, agent: str) -> Settings:
    """As `load`, without asking the schema (which takes long to import) as long as everything needed is there.

    For commands that change nothing: what only the schema would object to, a run or a sync will tell.
    """
    document = read(_content(places.config_file(agent), agent, places))
    if not document.problems and isinstance(document.value, dict):
        with contextlib.suppress(KeyError, TypeError, ValueError, AttributeError):
            return _settings(document.value, places)
    return load(places, agent)


def _content(path: Path, agent: str, places: Places) -> bytes:
    if not identity.NAME.fullmatch(agent):
        right = identity.suggestion(agent)
        raise Unusable(
            f"{readable(agent, _SHOWN)!r} cannot be the name of an agent: lower-case letters, digits and -, at most 40",
            advice=f"soul-bridge status {right}" if right in agents(places) else "soul-bridge status",
        )
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            content = file.read(_LIMIT + 1)
    except FileNotFoundError as error:
        there = agents(places)
        meant = difflib.get_close_matches(agent, there, 1, 0.7)
        raise Unusable(
            f"there is no configuration for {agent}: {path} is missing (configured: {', '.join(there) or 'none'})"
            + (f"; did you mean {meant[0]}?" if meant else ""),
            advice=f"soul-bridge status {meant[0]}"
            if meant
            else f"soul-bridge init {agent} --remote git@HOST:OWNER/{agent}.soul.git",
        ) from error
    except OSError as error:
        raise Unusable(f"{path} cannot be read: {error.strerror}", advice=f"ls -l {path}") from error
    if mode & stat.S_IWOTH:
        # It names programs that we start.
        raise Unusable(f"everybody may change {path}, which names programs to run", advice=f"chmod o-w {path}")
    if len(content) > _LIMIT:
        raise Unusable(f"{path} is larger than {_LIMIT // 1024} KiB", advice=f"correct {path}")
    return content


def _schema() -> dict[str, Any]:
    from importlib import resources

    text = resources.files("bridge").joinpath("schemas", "configuration.json").read_text(encoding="utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema


def _against_schema(document: Document) -> list[tuple[int, int, str]]:
    from jsonschema import Draft202012Validator, validators

    extend: Any = validators.extend  # it has no types
    validator = extend(Draft202012Validator, {"pattern": _whole})
    return [
        (*place, words)
        for error in validator(_schema()).iter_errors(document.value)
        for place, words in _problems_of(error, document)
    ]


def _whole(_validator: Any, pattern: str, value: Any, _schema: Any) -> Iterator[Exception]:
    """The schema's `pattern`, whose `$` is the end of the text: Python's would let a line end follow."""
    from jsonschema import ValidationError

    ended = pattern.replace("$", r"\Z")
    if isinstance(value, str) and not re.search(ended, value):
        yield ValidationError(f"{value!r} does not match {pattern!r}")


def _problems_of(error: Any, document: Document) -> list[tuple[tuple[int, int], str]]:
    path = tuple(error.absolute_path)
    name = ".".join(str(part) if isinstance(part, str) else f"[{part}]" for part in path).replace(".[", "[")
    within = f" in {name}" if name else ""
    if error.validator == "additionalProperties":
        known = sorted(error.schema["properties"])
        return [
            (document.place((*path, key, "key")), f"unknown key {key}{within}{_nearest(key, known)}")
            for key in error.instance
            if key not in known
        ]
    if error.validator == "required":
        missing = [key for key in error.validator_value if key not in error.instance]
        return [(document.place((*path, key, "key")), f"{key} is missing{within}") for key in missing]
    if error.validator == "type" and "expected" not in error.schema:
        expected = {"object": "keys and values", "array": "a list", "string": "one text"}[error.validator_value]
    else:
        expected = error.schema.get("expected", "something")
    written = (
        f" is {readable(error.instance, _SHOWN)!r}, which is not right"
        if isinstance(error.instance, str)
        else " is not right"
    )
    if isinstance(error.instance, str) and re.fullmatch(r"[0-9]+([.][0-9]+)?", error.instance):
        written = f" is {readable(error.instance, _SHOWN)}, a bare number"
    return [(document.place(path), f"{name}{written}: write {expected}")]


def _nearest(key: str, known: list[str]) -> str:
    by_letters = {name.lower().replace("_", "").replace("-", ""): name for name in known}
    near = difflib.get_close_matches(key.lower().replace("_", "").replace("-", ""), by_letters, n=1, cutoff=0.5)
    return f": did you mean {by_letters[near[0]]}?" if near else f": known are {', '.join(known)}"


def _beyond_schema(document: Document, agent: str, reported: set[tuple[int, int]]) -> list[tuple[int, int, str]]:
    """What a schema cannot say, for the values that it did not object to."""
    from bridge.core import address

    found = []
    given = {
        key: value
        for key, value in document.value.items()
        if isinstance(value, str) and document.place((key,)) not in reported
    }
    if given.get("agent", agent) != agent and document.place(("agent",)) not in reported:
        found.append((("agent",), f"agent is {given['agent']!r}, but the file is named {agent}.yaml"))
    if "remote" in given:
        try:
            address.parse(given["remote"])
        except SoulError as error:
            found.append((("remote",), f"remote: {error.message} ({error.rule})"))
    found += [((key,), problem) for key, text in given.items() if (problem := _out_of_range(key, text))]
    return [(*document.place(path), words) for path, words in found]


def _out_of_range(key: str, text: str) -> str:
    """What is wrong with a duration or a size that is written well, "" for nothing."""
    shown = readable(text, _SHOWN)
    try:
        if key in _DURATIONS and seconds(text) < _LEAST.get(key, 0.0):
            return f"{key} is {shown}: at least {duration(_LEAST[key])} is needed"
        if key == "hold_back_over":
            octets(text)
    except ValueError:
        most = f"{_LONGEST / 86_400:.0f}d" if key in _DURATIONS else size(_LARGEST)
        return f"{key} is {shown}: at most {most} can be"
    return ""


def _of_metrics(document: Document, places: Places) -> list[tuple[int, int, str]]:
    """What a schema cannot say of where numbers go."""
    given = document.value.get("metrics")
    given = given if isinstance(given, dict) else {}
    found = []
    if isinstance(text := given.get("listen"), str):
        try:
            loopback(text)
        except ValueError as error:
            found.append(
                (*document.place(("metrics", "listen")), f"metrics.listen is {readable(text, _SHOWN)!r}: {error}")
            )
    soul, file = document.value.get("soul"), given.get("file")
    if isinstance(soul, str) and isinstance(file, str):
        inside = Path(os.path.normpath(places.expand(file))).is_relative_to(os.path.normpath(places.expand(soul)))
        if inside:
            words = f"metrics.file is {file!r}: inside the soul it would be published (CONTENT-2)"
            found.append((*document.place(("metrics", "file")), words))
    return found


def loopback(text: str) -> tuple[str, int]:
    """Address and port of a text such as "127.0.0.1:9464". Raises ValueError, which says why, for another machine's."""
    host, _, port = text.rpartition(":")
    host = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    try:
        here = ipaddress.ip_address("127.0.0.1" if host == "localhost" else host)
    except ValueError:
        raise ValueError("write 127.0.0.1 or [::1] and a port, such as 127.0.0.1:9464") from None
    if not here.is_loopback:
        raise ValueError(
            "other machines could ask there, and they get nothing but by the key of a body (AUTH-4): write 127.0.0.1"
        )
    if not (re.fullmatch("[0-9]{1,5}", port) and 1 <= int(port) <= 65535):
        raise ValueError("the port is a number from 1 to 65535")
    return str(here), int(port)


def seconds(text: str) -> float:
    """A duration such as "500ms" in seconds. Raises ValueError without a known unit, and beyond a hundred years."""
    found = re.fullmatch(r"([0-9]+(?:[.][0-9]+)?) ?(ms|s|m|h|d)", text)
    if not found:
        raise ValueError(text)
    value = float(found[1]) * _MILLISECONDS[found[2]] / 1000
    if not value <= _LONGEST:
        raise ValueError(text)
    return value


def octets(text: str) -> int:
    """A size such as "50MiB" in bytes. Raises ValueError without a known unit, and beyond a pebibyte."""
    found = re.fullmatch(r"([0-9]+(?:[.][0-9]+)?) ?([kKMG]i?B|B)", text)
    if not found or found[2] not in _BYTES:
        raise ValueError(text)
    value = float(found[1]) * _BYTES[found[2]]
    if not value <= _LARGEST:
        raise ValueError(text)
    return int(value)


def duration(value: float) -> str:
    """Seconds as the largest unit that holds them exactly: the inverse of `seconds`."""
    milliseconds = round(value * 1000, 3)
    for unit in ("h", "m", "s"):
        if milliseconds and milliseconds % _MILLISECONDS[unit] == 0:
            return f"{int(milliseconds / _MILLISECONDS[unit])}{unit}"
    return f"{milliseconds:.3f}".rstrip("0").rstrip(".") + "ms"


def size(value: int) -> str:
    """Bytes as the largest unit that holds them exactly: the inverse of `octets`."""
    for unit in ("GiB", "MiB", "KiB"):
        if value and value % _BYTES[unit] == 0:
            return f"{value // _BYTES[unit]}{unit}"
    return f"{value}B"


def _settings(value: Mapping[str, Any], places: Places) -> Settings:
    consolidation = value.get("consolidation")
    optional: dict[str, Any] = {key: seconds(value[key]) for key in _DURATIONS if key in value}
    if "hold_back_over" in value:
        optional["hold_back_over"] = octets(value["hold_back_over"])
    if "transport" in value:
        optional["transport"] = value["transport"]
    if consolidation:
        schedule = " ".join(consolidation["schedule"].split())
        optional["consolidation"] = Consolidation(schedule, tuple(consolidation["command"]))
    if metrics := value.get("metrics"):
        file = metrics.get("file")
        listen = loopback(metrics["listen"]) if "listen" in metrics else None
        optional["metrics"] = Metrics(listen, places.expand(file) if file else None)
    if notify := value.get("notify"):
        optional["notify"] = notify if isinstance(notify, str) else tuple(notify)
    key = value.get("key")
    own = places.expand(key) if key else places.key_file(value["agent"], value["body"])
    return Settings(
        agent=value["agent"],
        body=value["body"],
        soul=places.expand(value["soul"]),
        remote=value["remote"],
        key=places.credential(value["agent"], value["body"]) or own,
        hooks={name: tuple(command) for name, command in value.get("hooks", {}).items()},
        **optional,
    )


def save(places: Places, settings: Settings) -> Path:
    """Write a configuration that `load` reads back as the same settings: atomic, 0600, durable on return.

    Returns the file. Raises Unusable(kind="config") when it cannot be written.
    """
    from bridge.adapters.config.writing import text_of

    path = places.config_file(settings.agent)
    try:
        folders.make(places.config)
        name = path.with_name(f".{path.name}.{os.getpid()}.new")
        name.unlink(missing_ok=True)
        descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(text_of(settings, places).encode("utf-8"))
                file.flush()
                with contextlib.suppress(OSError):  # a group that `service install --system` let read it still may
                    known = path.stat()
                    os.fchown(file.fileno(), -1, known.st_gid)
                    os.fchmod(file.fileno(), known.st_mode & 0o640 | 0o600)
                os.fsync(file.fileno())
            os.replace(name, path)
        except BaseException:
            name.unlink(missing_ok=True)
            raise
        directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
    except OSError as error:
        raise Unusable(f"{path} cannot be written: {error.strerror}", advice=f"ls -ld {path.parent}") from error
    return path
