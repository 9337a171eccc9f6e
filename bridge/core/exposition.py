"""Numbers as text that Prometheus reads (exposition format 0.0.4)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Labels = tuple[tuple[str, str], ...]


@dataclass
class Family:
    """One metric: its name, type (gauge, counter or summary), what it means, and its samples.

    samples: (suffix, labels, value); the suffix is behind the name, "_sum" and "_count" of a summary.
    """

    name: str
    kind: str
    help: str
    samples: list[tuple[str, Labels, float]] = field(default_factory=list)

    def add(self, labels: Mapping[str, str], value: float | None, suffix: str = "") -> None:
        """One more sample; None is none."""
        if value is not None:
            self.samples.append((suffix, tuple(labels.items()), value))


def text(families: Iterable[Family]) -> str:
    """All of them, each under its own head; a family without samples is left out."""
    lines = []
    for family in families:
        if not family.samples:
            continue
        lines.append(f"# HELP {family.name} {_escaped(family.help)}")
        lines.append(f"# TYPE {family.name} {family.kind}")
        lines += [
            f"{family.name}{suffix}{_labels(labels)} {_number(value)}" for suffix, labels, value in family.samples
        ]
    return "".join(f"{line}\n" for line in lines)


def _labels(labels: Labels) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escaped(value, quote=True)}"' for name, value in labels) + "}"


def _escaped(value: str, *, quote: bool = False) -> str:
    value = value.replace("\\", "\\\\").replace("\n", "\\n")
    value = value.replace('"', '\\"') if quote else value
    # A name that is not UTF-8 must not make the whole text unreadable.
    return value.encode("utf-8", "replace").decode("utf-8")


def _number(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if float(value).is_integer() and abs(value) < 2**53 else repr(float(value))
