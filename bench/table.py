"""The one table of a run, for a terminal and for bench/README.md; both from the results and nothing else."""

from __future__ import annotations

from collections.abc import Iterable

from bench import peers
from bench.results import Goal, Results, Row

_HEAD = ("what", "who", "line", "median", "p95", "n", "ratio")
_STATES = {True: "yes", False: "**no**", None: "not measured"}


def number(value: float | None) -> str:
    """Three digits that count."""
    if value is None:
        return "–"
    if value == 0:
        return "0"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return (
        f"{value:.{2 if abs(value) < 1 else 1 if abs(value) >= 10 else 2}f}" if abs(value) >= 0.01 else f"{value:.1g}"
    )


def cells(results: Results) -> list[tuple[str, ...]]:
    """The rows of the table as texts; a case's name stands in its first row only."""
    found = []
    before = ""
    cases = list(dict.fromkeys(row.case for row in results.rows))
    for row in sorted(results.rows, key=lambda row: (cases.index(row.case), row.line not in ("loopback", ""))):
        found.append(("" if row.case == before else row.case, *_cells(results, row)))
        before = row.case
    return found


def _cells(results: Results, row: Row) -> tuple[str, ...]:
    if not row.samples:
        return row.who, row.line, row.note or "–", "", "", ""
    ratio = results.ratio(row)
    unit = f" {row.unit}" if row.unit else ""
    many = len(row.samples) > 1
    shown = "" if ratio is None else f"{number(ratio)} ×" + (f" {row.than}" if row.than != row.who else "")
    who = f"{row.who} ({row.note})" if row.note else row.who
    return (
        who,
        row.line,
        number(row.median) + unit,
        number(row.p95) + unit if many else "",
        str(len(row.samples)),
        shown,
    )


def plain(results: Results) -> str:
    """The table for a terminal."""
    rows = [_HEAD, *cells(results)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    lines += ["", *(_goal(goal) for goal in results.goals), ""]
    lines += [f"{name}: {value}" for name, value in {**results.machine, **results.peers}.items()]
    lines += [f"FAILED: {each}" for each in results.failures]
    return "\n".join(lines) + "\n"


def _goal(goal: Goal) -> str:
    state = {True: "met", False: "NOT MET", None: "not measured"}[goal.met]
    unit = f" {goal.unit}".rstrip()
    return f"{state:12}  {goal.words}: {number(goal.found)}{unit} (at most {number(goal.allowed)}{unit})"


def markdown(results: Results) -> str:
    """bench/README.md."""
    parts = [
        _INTRODUCTION.format(sizes=results.sizes, when=results.machine["when"], minutes=results.seconds / 60),
        *_caveats(results),
        "![Seconds from a write to the remote and to the other machine, and the cost of a pass](plot.svg)\n",
        "## What must come out\n",
        _grid(("goal", "found", "at most", "met"), (_goal_cells(goal) for goal in results.goals)),
        "## The table\n",
        _grid(_HEAD, cells(results)),
        "## The machine\n",
        _grid(("", ""), results.machine.items()),
        "## Who takes part\n",
        _grid(("peer", "version", "set up as"), _peers(results)),
        _NOTES,
    ]
    if results.failures:
        parts += ["## What failed in this run\n", "\n".join(f"- {each}" for each in results.failures) + "\n"]
    return "\n".join(parts)


def _caveats(results: Results) -> list[str]:
    """What keeps this run from being the last word."""
    found = []
    if results.sizes != "full":
        found.append("This was no whole run: goals that need its sizes are not measured here.")
    load, cores = float(results.machine["load before"].split()[0]), int(results.machine["processor"].split()[0])
    if load > cores / 2:
        found.append(
            f"The machine was busy with other work when it began (load {load:g}, {cores} cores): times are longer and "
            "more scattered than on a quiet one, and what hangs on them (eight bodies above all) may miss its goal."
        )
    return [f"**{' '.join(found)}**\n"] if found else []


def _goal_cells(goal: Goal) -> tuple[str, ...]:
    unit = f" {goal.unit}".rstrip()
    found = f"{number(goal.found)}{unit}" if goal.found is not None else "–"
    return goal.words, found, f"{number(goal.allowed)}{unit}", _STATES[goal.met]


def _peers(results: Results) -> list[tuple[str, str, str]]:
    notes = {peer.name: peer.note for peer in peers.ALL}
    return [(name, version, notes.get(name, "")) for name, version in results.peers.items()]


def _grid(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = list(head)
    lines = [_line(head), "|" + "---|" * len(head), *(_line(row) for row in rows)]
    return "\n".join(lines) + "\n"


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


_INTRODUCTION = """\
# How fast, how heavy, how steady

This page and its plot were written by `make bench`, from `results.json`, in one run of {minutes:.0f} minutes: sizes
“{sizes}”, {when}. No number was copied by hand. `make bench` repeats it in place; `make bench QUICK=1` takes
half an hour. It needs root, for the host's account `git` and the slow line live in namespaces of their own; nothing
leaves the machine.
"""
_NOTES = """\
## How to read it

- A ratio compares the medians of one run on one machine; absolute times of a busy machine say little.
- *write → remote*: from the end of a write until the branch on the host has moved (with Syncthing: until the file
  is on the third machine). *A → B*: until the other machine's file holds it.
- *busy*: a write every 0.5 to 3 s. *at rest*: after the polls have eased to `poll`. soul-bridge waits `settle`
  (500 ms) before it reads a file; the peers' own delays are in the list above.
- *A → B* of what acts by the clock is measured for notes written at moments spread over two of its periods.
- A *hot file* is rewritten in place every 50 ms; its age on B is how long ago the next version was written.
- *pushes tried* counts each time the host was asked to receive, also where the look at its tip was enough to see that
  somebody else had been quicker; *lost* are those that moved nothing.
- *pass*: one pass without the network, as the daemon makes it; the status and the push that follow it stand in rows of
  their own.
- *at rest*, memory, processor and wake-ups: everybody rests at the same time and is looked at alone. Memory is what
  /proc tells as Rss, in which pages that several processes share, such as libraries, count in each of them.

## Where the limits are

- *write → remote* is `settle` and one push. Of that push, most is the host's git: it starts two processes and makes
  what came durable. Over the slow line a poll is two round trips (the channel with its command, the question with its
  answer), a push is three.
- *A → B* adds the wait for B's next poll: 0.4 s after something came from another body, then an eighth of its age, 1 to
  1.5 s apart for a minute after that. Nothing calls a body over SSH; a service of the host that did would be one more
  thing to trust.
- A *first clone* makes each file durable, its bytes and its name, before it counts as seen: two fsyncs for each, where
  `git clone` makes none. It happens once; afterwards a pass costs what changed.
- The *host's repository* grows by seven objects with each change of a note, plain git's by five: each commit says, too,
  when its body was last seen (FORM-6).
- *Memory* is Python with libgit2, paramiko and sqlite; a further soul in the same process costs half a MiB.
"""
