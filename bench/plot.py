"""The plot of a run: three panels of bars on a logarithmic scale, drawn as SVG from the results and nothing else."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from bench import peers
from bench.cases import arrival, passes, watch
from bench.results import Results, Row
from bench.table import number

WIDTH, LEFT, RIGHT, BAR, GAP = 860, 250, 90, 16, 8
OURS, OTHERS, LINE, INK, FAINT = "#2f6f4e", "#9aa5b1", "#52606d", "#1f2933", "#e4e7eb"


@dataclass(frozen=True)
class Bar:
    """A label, the median, the 95th percentile, and whether it is ours."""

    label: str
    median: float
    p95: float
    ours: bool


def drawn(results: Results) -> str:
    """The whole picture."""
    panels = [
        ("write → remote, seconds (bar: median, line: p95)", _peers(results, arrival.REMOTE), "s"),
        ("A → B, busy, seconds", _peers(results, arrival.THERE), "s"),
        ("one changed note, a pass, milliseconds, by size of the soul", _passes(results), "ms"),
    ]
    body, top = [], 20.0
    for title, bars, unit in panels:
        if bars:
            drawn_panel, height = _panel(title, bars, unit, top)
            body.append(drawn_panel)
            top += height
    style = "font-family: system-ui, sans-serif; font-size: 13px"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{top:.0f}" viewBox="0 0 {WIDTH} {top:.0f}" '
        f'style="{style}" role="img">\n<rect width="100%" height="100%" fill="#ffffff"/>\n' + "".join(body) + "</svg>\n"
    )


def _peers(results: Results, case: str) -> list[Bar]:
    order = [peer.name for peer in peers.ALL]
    rows = [row for name in order if (row := results.row(case, name)) is not None]
    return [_bar(row, row.who == watch.OURS) for row in rows if row.samples]


def _passes(results: Results) -> list[Bar]:
    rows = [row for row in results.rows if row.case == passes.RECORD.format("1") and row.samples]
    return [_bar(row, True) for row in rows]


def _bar(row: Row, ours: bool) -> Bar:
    return Bar(row.who, row.median or 0.0, row.p95 or 0.0, ours)


def _panel(title: str, bars: Sequence[Bar], unit: str, top: float) -> tuple[str, float]:
    low, high = _range(bars)
    span = WIDTH - LEFT - RIGHT

    def at(value: float) -> float:
        return LEFT + span * (math.log10(max(value, low)) - math.log10(low)) / (math.log10(high) - math.log10(low))

    bottom = top + 34 + len(bars) * (BAR + GAP)
    parts = [f'<text x="12" y="{top + 12:.0f}" fill="{INK}" font-weight="600">{escape(title)}</text>\n']
    tick = low
    while tick <= high * 1.001:
        parts.append(f'<path d="M{at(tick):.1f} {top + 24:.0f}V{bottom:.0f}" stroke="{FAINT}"/>\n')
        parts.append(_text(at(tick), bottom + 14, f"{number(tick)} {unit}", "middle", LINE))
        tick *= 10
    for place, bar in enumerate(bars):
        parts.append(_row(bar, top + 30 + place * (BAR + GAP), at, unit))
    return "".join(parts), bottom - top + 40


def _row(bar: Bar, y: float, at: object, unit: str) -> str:
    place = at
    assert callable(place)  # noqa: S101 - for the type only
    end, far = place(bar.median), place(bar.p95)
    color, weight = (OURS, "600") if bar.ours else (OTHERS, "400")
    return (
        _text(LEFT - 8, y + 12, bar.label, "end", INK, weight)
        + f'<rect x="{LEFT}" y="{y:.1f}" width="{max(1.5, end - LEFT):.1f}" height="{BAR}" rx="2" fill="{color}"/>\n'
        + f'<path d="M{end:.1f} {y + BAR / 2:.1f}H{far:.1f}M{far:.1f} {y + 3:.1f}v{BAR - 6}" stroke="{LINE}"/>\n'
        + _text(max(end, far) + 6, y + 12, f"{number(bar.median)} {unit}", "start", INK)
    )


def _text(x: float, y: float, words: str, anchor: str, color: str, weight: str = "400") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{color}" font-weight="{weight}">'
        f"{escape(words)}</text>\n"
    )


def _range(bars: Sequence[Bar]) -> tuple[float, float]:
    """The powers of ten around all that is shown."""
    least, most = min(bar.median for bar in bars), max(max(bar.p95, bar.median) for bar in bars)
    low = math.floor(math.log10(max(1e-9, least)) - 1e-9)
    return 10.0**low, 10.0 ** max(low + 1, math.ceil(math.log10(max(1e-9, most)) + 1e-9))
