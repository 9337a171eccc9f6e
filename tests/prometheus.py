"""A strict reader of Prometheus' text format 0.0.4, made from its description: it refuses what promtool refuses."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
VALUE = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?(?:e[+-]?[0-9]+)?|Inf)|NaN")
SUFFIXES = {"summary": {"_sum", "_count"}, "counter": {""}, "gauge": {""}}


@dataclass
class Metric:
    """A family as it was read; samples by suffix and labels."""

    kind: str
    help: str
    samples: dict[tuple[str, frozenset[tuple[str, str]]], float] = field(default_factory=dict)

    def value(self, suffix: str = "", **labels: str) -> float:
        """The one sample that has these labels, whatever else it has."""
        found = [
            value for (of, own), value in self.samples.items() if of == suffix and labels.items() <= dict(own).items()
        ]
        assert len(found) == 1, (labels, self.samples)
        return found[0]


def parse(text: str) -> dict[str, Metric]:
    """Families by name. Fails on anything that the format does not allow."""
    assert text == "" or text.endswith("\n"), "the last line has to end"
    found: dict[str, Metric] = {}
    present = helped = ""
    for line in text.split("\n")[:-1]:
        if line.startswith("# HELP "):
            name, _, words = line[7:].partition(" ")
            assert NAME.fullmatch(name) and name not in found and words, line
            helped = name
            found[name] = Metric("", unescaped(words, "\\n"))
        elif line.startswith("# TYPE "):
            present, _, kind = line[7:].partition(" ")
            assert present == helped and found[present].kind == "" and kind in SUFFIXES, line
            assert (kind == "counter") == present.endswith("_total"), f"{present}: only counters are totals"
            found[present].kind = kind
        else:
            _sample(line, present, found[present])
    assert all(metric.kind and metric.samples for metric in found.values())
    return found


def _sample(line: str, family: str, metric: Metric) -> None:
    name = NAME.match(line)
    assert name and name.group().startswith(family), f"{line}: not under the head of its family"
    suffix, rest = name.group()[len(family) :], line[name.end() :]
    assert suffix in SUFFIXES[metric.kind], line
    labels: list[tuple[str, str]] = []
    if rest.startswith("{"):
        rest = rest[1:]
        while not rest.startswith("}"):
            match = re.match(r'([^=]*)="((?:[^"\\\n]|\\["\\n])*)"(,?)', rest)
            assert match and LABEL.fullmatch(match[1]), line
            labels.append((match[1], unescaped(match[2], '"\\n')))
            rest = rest[match.end() :]
            assert match[3] or rest.startswith("}"), line
        rest = rest[1:]
    assert re.fullmatch(r" [^ ]+", rest) and VALUE.fullmatch(rest[1:]), line
    assert len(dict(labels)) == len(labels), f"{line}: a label is there twice"
    key = (suffix, frozenset(labels))
    assert key not in metric.samples, f"{line}: a sample is there twice"
    metric.samples[key] = float(rest[1:])


def unescaped(text: str, known: str) -> str:
    """A help or label value as it was before it was escaped; `known`: what may stand behind a backslash."""
    assert not re.search(rf"(?<!\\)(?:\\\\)*\\[^{re.escape(known)}]", text), text
    return re.sub(r"\\(.)", lambda match: "\n" if match[1] == "n" else match[1], text)
