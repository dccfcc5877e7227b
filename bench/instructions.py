"""Processor instructions for an event: the steady measure beside the times of `core.py`.

    python bench/instructions.py [--kind produce ...] [--write | --compare]

The kinds of events are those of `core.py`. Valgrind's cachegrind counts the instructions of a
process that handles `EVENTS` events of a kind, and of one that only prepares them. The difference,
divided by `EVENTS`, includes commits. The events, the seed of string hashes and the addresses are
fixed, so a repeated count differs by less than 0.1%. Other versions of Python and msgspec have
other counts. `--write` also counts the floor of `core.py`. The multiple of it is the same on each
machine. In time it is higher, because msgspec executes more instructions in a nanosecond than the
interpreter does.

`instructions.tsv` has the counts of the repository's code. `--compare`, also in `make compare`,
fails if a count has changed by more than 5%. Then replace the table with `--write`, and give the
reason in the commit.
"""

import argparse
import gc
import itertools
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import msgspec
from core import KINDS, take_floor, values_of
from growth import ROUND, GrowthBed, check

from brokertwin.state.core.outputs import Output, Position

TABLE = Path(__file__).with_name("instructions.tsv")
EVENTS = 2 * ROUND
CHANGE_MAX = 0.05
"""Share of a count by which it may change without a reason."""

NONE = "none"
_COUNTED = re.compile(r"I\s+refs:\s+([0-9,]+)")


class CountError(Exception):
    """Valgrind has not counted."""


class Run(NamedTuple):
    """What one process does: it handles events of a kind, and then takes their floor, if asked.

    Without events, `kind` is NONE. `floors` is how often it takes the floor; -1 if it does not keep
    the rows for that.
    """

    kind: str
    floors: int = -1


def unexplained(known: dict[str, int], counts: dict[str, int]) -> list[str]:
    """Return the kinds whose count has changed so much that it needs a reason."""
    return [kind for kind, count in counts.items() if abs(count / known[kind] - 1) > CHANGE_MAX]


def versions() -> str:
    """Return what counts depend on besides the code."""
    return f"Python {platform.python_version()}, msgspec {msgspec.__version__}, " + (
        platform.machine()
    )


def stored() -> tuple[str, dict[str, int], dict[str, int]]:
    first, *lines = TABLE.read_text(encoding="utf-8").splitlines()
    rows = [line.split("\t") for line in lines]
    counts = {kind: int(events) for kind, events, _ in rows}
    return first.removeprefix("# "), counts, {kind: int(floor) for kind, _, floor in rows}


def count(kinds: Iterable[str]) -> dict[str, int]:
    """Count the instructions per event of each kind. Raises CountError."""
    return _differences({kind: (Run(NONE), Run(kind)) for kind in kinds})


def count_floors(kinds: Iterable[str]) -> dict[str, int]:
    """Count the instructions per event of the floor of each kind. Raises CountError."""
    return _differences({kind: (Run(kind, 0), Run(kind, 1)) for kind in kinds})


def _differences(pairs: dict[str, tuple[Run, Run]]) -> dict[str, int]:
    runs = list(dict.fromkeys(run for pair in pairs.values() for run in pair))
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        total = dict(zip(runs, pool.map(_counted, runs), strict=True))
    return {
        kind: round((total[more] - total[less]) / EVENTS) for kind, (less, more) in pairs.items()
    }


def _counted(run: Run) -> int:
    options = ("--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null")
    command = ["valgrind", *options, sys.executable, __file__]
    command += ["--handle", run.kind, "--floors", str(run.floors)]
    if shutil.which("valgrind") is None:
        raise CountError("valgrind is missing: apt-get install valgrind")
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    match = _COUNTED.search(done.stderr)
    if done.returncode or match is None:
        raise CountError(f"{' '.join(command)}: {done.stderr[-2000:]}")
    return int(match[1].replace(",", ""))


def _handle(counted: str, floors: int) -> None:
    """Prepare the events of all kinds, after a round of each; handle those of one kind."""
    gc.disable()
    position = Position(0, 0)
    documents: list[bytes] = []
    rows: list[list[Output]] = []
    for name, kind in KINDS.items():
        bed = GrowthBed()
        steps = kind(bed)
        handle = bed.cell.handle
        for before, document in itertools.islice(steps, ROUND):
            for each in [*before, document]:
                check(handle(each, position))
        measured = list(itertools.islice(steps, EVENTS))
        until_commit = ROUND // (1 + len(measured[0][0]))
        for number, (before, document) in enumerate(measured):
            if number % until_commit == 0:  # at the same events in each process
                bed.cell.commit()
            for each in before:
                handle(each, position)
            if name == counted:
                found = handle(document, position)
                if floors >= 0:
                    documents.append(document)
                    rows.append(found)
    values = values_of(rows)
    for _ in range(floors):
        take_floor(documents, values)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kind", choices=KINDS, nargs="+", default=list(KINDS))
    todo = parser.add_mutually_exclusive_group()
    todo.add_argument("--write", action="store_true", help=f"replace {TABLE.name}")
    todo.add_argument("--compare", action="store_true", help="fail if a count has changed")
    parser.add_argument("--handle", choices=[NONE, *KINDS], help=argparse.SUPPRESS)
    parser.add_argument("--floors", type=int, default=-1, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.handle:
        _handle(given.handle, given.floors)
        return
    measured_with, before, floors = stored() if TABLE.exists() else ("", {}, {})
    if given.compare and measured_with != versions():
        parser.error(f"{TABLE.name} is of {measured_with}, this is {versions()}; use --write first")
    counts = count(given.kind)
    floors |= count_floors(kind for kind in given.kind if given.write or kind not in floors)
    print(f"{'event':12}{'instructions':>14}{'stored':>10}{'change':>9}{'x floor':>9}")
    for kind, found in counts.items():
        known, times = before.get(kind, found), found / floors[kind]
        print(f"{kind:12}{found:14,}{known:10,}{found / known - 1:9.1%}{times:9.1f}")
    if given.write:
        rows = [f"{kind}\t{number}\t{floors[kind]}\n" for kind, number in (before | counts).items()]
        TABLE.write_text(f"# {versions()}\n{''.join(rows)}", encoding="utf-8")
    changed = unexplained(before, counts) if given.compare else []
    if changed:
        parser.exit(1, f"{', '.join(changed)}: write the table again, and say in the commit why\n")


if __name__ == "__main__":
    main()
