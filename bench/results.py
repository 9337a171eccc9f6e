"""What a run found, as it is written to results.json; everything shown is made from that file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from bench.measure import quantile


@dataclass(frozen=True)
class Row:
    """One measurement. case: what was done. who: by whom. line: loopback or the slow line's name. unit: s, ms, MiB,
    KiB, B, %, /s or "" for a count. samples: in that unit; empty: it did not happen, and `note` says why. than: whose
    median in the same case and line the ratio is taken of."""

    case: str
    who: str
    line: str
    unit: str
    samples: tuple[float, ...]
    note: str = ""
    than: str = ""

    @property
    def median(self) -> float | None:
        """The middle sample."""
        return quantile(self.samples, 0.5) if self.samples else None

    @property
    def p95(self) -> float | None:
        """At least 95 % of the samples are at most this."""
        return quantile(self.samples, 0.95) if self.samples else None


@dataclass(frozen=True)
class Goal:
    """Something that must come out: its words, what was found, what is allowed; met is None when it was not found."""

    words: str
    found: float | None
    allowed: float
    unit: str
    met: bool | None


@dataclass
class Results:
    """A whole run. peers: name → version, or "not installed"."""

    sizes: str
    machine: dict[str, str]
    peers: dict[str, str]
    rows: list[Row] = field(default_factory=list)
    goals: list[Goal] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def add(self, case: str, who: str, line: str, unit: str, samples: Sequence[float], **more: str) -> Row:
        """One more row."""
        row = Row(case, who, line, unit, tuple(samples), **more)
        self.rows.append(row)
        return row

    def row(self, case: str, who: str, line: str = "loopback") -> Row | None:
        """A row by what it is of."""
        wanted = (case, who, line)
        return next((row for row in self.rows if (row.case, row.who, row.line) == wanted), None)

    def median(self, case: str, who: str, line: str = "loopback") -> float | None:
        """The median of a row, None when it is not there or empty."""
        row = self.row(case, who, line)
        return row.median if row is not None else None

    def ratio(self, row: Row) -> float | None:
        """How many times the median that the row is to be compared with."""
        other = self.median(row.case, row.than, row.line) if row.than else None
        return row.median / other if other and row.median is not None else None

    def write(self, path: Path) -> None:
        """Keep it."""
        path.write_text(json.dumps(asdict(self), indent=1, ensure_ascii=False) + "\n", "utf-8")

    @classmethod
    def read(cls, path: Path) -> Results:
        """What `write` wrote."""
        plain: dict[str, Any] = json.loads(path.read_text("utf-8"))
        rows = [Row(**{**row, "samples": tuple(row["samples"])}) for row in plain.pop("rows")]
        goals = [Goal(**goal) for goal in plain.pop("goals")]
        return cls(**plain, rows=rows, goals=goals)
