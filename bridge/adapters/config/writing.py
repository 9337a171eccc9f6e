"""The configuration as a text that a person likes to edit: every key explained, defaults as comments."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from bridge.adapters.config.places import Places
from bridge.adapters.config.settings import Settings, duration, size

# What YAML reads as a text and nothing else, in a list too.
_BARE = re.compile(r"[A-Za-z/~][A-Za-z0-9_./~@+-]*(:[A-Za-z0-9_./~@+-]+)*")
_WORDS = re.compile(r"(?i)(y|n|yes|no|on|off|true|false|null|~)")


def text_of(settings: Settings, places: Places) -> str:
    """The whole file."""
    plain = Settings(settings.agent, settings.body, settings.soul, settings.remote, settings.key)
    default_key = places.key_file(settings.agent, settings.body)
    lines = [
        f"# soul-bridge: the soul of {settings.agent} on the body {settings.body}. Read again on SIGHUP.",
        f"agent: {_scalar(settings.agent)}",
        f"body: {_scalar(settings.body)}",
        f"soul: {_scalar(_short(str(settings.soul), places))}",
        f"remote: {_scalar(settings.remote)}",
        _line("key", _scalar(_short(str(settings.key), places)), settings.key == default_key, "this body's key"),
        "",
        "# Durations take ms, s, m, h or d; sizes B, KiB, MiB or GiB. What is commented out is the default.",
    ]
    for key, why in (
        ("settle", "a file is read once it has been quiet this long"),
        ("poll", "how often the remote is asked while nothing happens"),
        ("heartbeat", "how often an idle body says that it is alive"),
        ("guard", "how long a suspicious mass deletion waits before it is recorded"),
    ):
        value = getattr(settings, key)
        lines.append(_line(key, duration(value), value == getattr(plain, key), why))
    held = settings.hold_back_over
    lines.append(_line("hold_back_over", size(held), held == plain.hold_back_over, "larger files stay on this body"))
    session = settings.transport == plain.transport
    lines.append(_line("transport", settings.transport, session, "git: by the git and ssh programs instead"))
    return "\n".join([*lines, "", *_programs(settings, places)]) + "\n"


def _programs(settings: Settings, places: Places) -> list[str]:
    lines = ["# What consolidates the memories while the lease is held, and when (cron, local time)."]
    if settings.consolidation:
        schedule, command = settings.consolidation.schedule, settings.consolidation.command
        lines += ["consolidation:", f"  schedule: {json.dumps(schedule)}", f"  command: {_list(command)}"]
    else:
        lines += ["# consolidation:", '#   schedule: "0 4 * * *"', "#   command: [my-agent, dream]"]
    lines.append("# Programs to run after something happened; the event is JSON on their standard input.")
    if settings.hooks:
        lines += ["hooks:", *(f"  {name}: {_list(command)}" for name, command in settings.hooks.items())]
    else:
        lines += ["# hooks:", '#   synced: [notify-send, "soul synced"]']
    lines.append("# Told once when a person is wanted, and once when all is well again: desktop, or a program.")
    if settings.notify:
        told = settings.notify if isinstance(settings.notify, str) else _list(settings.notify)
        lines.append(f"notify: {told}")
    else:
        lines.append("# notify: desktop")
    return [*lines, *_metrics(settings, places)]


def _metrics(settings: Settings, places: Places) -> list[str]:
    """Where numbers go."""
    lines = ["# Numbers for Prometheus: asked for on this machine, or in a file for the node exporter."]
    metrics = settings.metrics
    if metrics is None or not (metrics.listen or metrics.file):
        return [*lines, "# metrics:", "#   listen: 127.0.0.1:9464"]
    lines.append("metrics:")
    if metrics.listen:
        host, port = metrics.listen
        lines.append(f"  listen: {json.dumps(f'[{host}]:{port}' if ':' in host else f'{host}:{port}')}")
    if metrics.file:
        lines.append(f"  file: {_scalar(_short(str(metrics.file), places))}")
    return lines


def _line(key: str, value: str, default: bool, why: str) -> str:
    return f"{'# ' if default else ''}{key}: {value}".ljust(30) + f"  # {why}"


def _list(words: Sequence[str]) -> str:
    return "[" + ", ".join(_scalar(word) for word in words) + "]"


def _scalar(text: str) -> str:
    if _BARE.fullmatch(text) and not _WORDS.fullmatch(text):
        return text
    # What a reader of YAML refuses or folds, and bytes of a path that are not UTF-8, are written as escapes.
    return "".join(
        letter if letter.isprintable() else f"\\U{ord(letter):08x}" for letter in json.dumps(text, ensure_ascii=False)
    )


def _short(path: str, places: Places) -> str:
    home = f"{places.home}/"
    return f"~/{path[len(home) :]}" if path.startswith(home) and len(home) > 1 else path
