"""`python -m tests.faults`: lay deliberate faults into copies of the program, one at a time; the tests have to notice.

A fault that no test notices is a hole in the tests: the exit code is 1. So it is where a fault no longer fits the
program's text, or breaks the program instead of bending it.
"""

from __future__ import annotations

import argparse
import queue
import re
import sys
import tempfile
import threading
from pathlib import Path

from tests.faults import adapters, app, core, page
from tests.faults.fault import ROOT, Broken, Fault, Stale
from tests.faults.trial import Copy, Verdict

ALL: tuple[Fault, ...] = (*core.FAULTS, *app.FAULTS, *adapters.FAULTS)


def main() -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--only", default="", metavar="PATTERN", help="only faults whose name or file it is found in")
    parser.add_argument("--workers", type=int, default=2, help="so many copies at once (2)")
    parser.add_argument("--write", action="store_true", help="write the table in tests/README.md")
    parser.add_argument("--list", action="store_true", help="name the faults and try none")
    arguments = parser.parse_args()
    faults = [fault for fault in ALL if re.search(arguments.only, f"{fault.file} {fault.name}")]
    if stale := [words for fault in faults if (words := _stale(fault))]:
        print("\n".join(stale), file=sys.stderr)
        return 1
    if arguments.list:
        print("".join(f"{fault.rule:12} {fault.file:28} {fault.name}\n" for fault in faults), end="")
        return 0
    verdicts, problems = _try(faults, arguments.workers)
    survived = [verdict for verdict in verdicts if not verdict.caught]
    print(f"\n{len(verdicts)} faults tried, {len(verdicts) - len(survived)} noticed, {len(survived)} survived")
    for verdict in survived:
        print(f"  survived: {verdict.fault.name} ({verdict.fault.file}, {verdict.fault.rule})")
    for problem in problems:
        print(f"  proves nothing: {problem}")
    if arguments.write:
        page.write(ALL, {verdict.fault.name: page.plain(verdict.caught) for verdict in verdicts if verdict.caught})
    return 1 if survived or problems else 0


def _stale(fault: Fault) -> str:
    try:
        fault.lay(ROOT)
    except Stale as error:
        return str(error)
    return ""


def _try(faults: list[Fault], workers: int) -> tuple[list[Verdict], list[str]]:
    waiting: queue.SimpleQueue[Fault] = queue.SimpleQueue()
    for fault in faults:
        waiting.put(fault)
    verdicts: list[Verdict] = []
    problems: list[str] = []
    with tempfile.TemporaryDirectory(prefix="soul-bridge-faults-") as place:
        Path(place).chmod(0o711)  # some tests ask as another user
        threads = [
            threading.Thread(target=_work, args=(Path(place, str(number)), waiting, verdicts, problems))
            for number in range(min(workers, len(faults)))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    order = {fault.name: number for number, fault in enumerate(faults)}
    return sorted(verdicts, key=lambda verdict: order[verdict.fault.name]), problems


def _work(place: Path, waiting: queue.SimpleQueue[Fault], verdicts: list[Verdict], problems: list[str]) -> None:
    place.mkdir()
    copy = Copy(place)
    while True:
        try:
            fault = waiting.get_nowait()
        except queue.Empty:
            return copy.close()
        try:
            verdict = copy.attempt(fault)
        except (Broken, Stale) as error:
            problems.append(str(error))
            print(f"PROVES NOTHING  {fault.file}: {error}", flush=True)
            continue
        verdicts.append(verdict)
        test = page.plain(verdict.caught) if verdict.caught else "SURVIVED"
        print(f"{verdict.took:5.1f} s  {fault.file}: {fault.name}\n         {test}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
