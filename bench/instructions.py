"""Processor instructions for an event: the steady measure beside the times of `core.py`.

    python bench/instructions.py [--kind produce ...] [--write | --compare]

The kinds of events are those of `core.py`. Valgrind's cachegrind counts the instructions of a
process that handles `EVENTS` events of a kind, and of one that only prepares them. The difference,
divided by `EVENTS`, includes commits. The events, the seed of string hashes and the addresses are
fixed, so a repeated count differs by less than 0.1%. Other versions of Python and msgspec have
other counts.

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

import msgspec
from core import KINDS
from growth import ROUND, GrowthBed, check

from brokertwin.state.core.outputs import Position

TABLE = Path(__file__).with_name("instructions.tsv")
EVENTS = 2 * ROUND
CHANGE_MAX = 0.05
"""Share of a count by which it may change without a reason."""

NONE = "none"
_COUNTED = re.compile(r"I\s+refs:\s+([0-9,]+)")


class CountError(Exception):
    """Valgrind has not counted."""


def unexplained(known: dict[str, int], found: dict[str, int]) -> list[str]:
    """Return the kinds whose count has changed so much that it needs a reason."""
    return [kind for kind, count in found.items() if abs(count / known[kind] - 1) > CHANGE_MAX]


def versions() -> str:
    """Return what counts depend on besides the code."""
    return f"Python {platform.python_version()}, msgspec {msgspec.__version__}, " + (
        platform.machine()
    )


def stored() -> tuple[str, dict[str, int]]:
    """Return the versions and the counts in the table."""
    first, *rows = TABLE.read_text(encoding="utf-8").splitlines()
    return first.removeprefix("# "), {
        kind: int(count) for kind, count in (row.split("\t") for row in rows)
    }


def count(kinds: Iterable[str]) -> dict[str, int]:
    """Count the instructions per event of each kind. Raises CountError."""
    runs = [NONE, *kinds]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        total = dict(zip(runs, pool.map(_counted, runs), strict=True))
    return {kind: round((total[kind] - total[NONE]) / EVENTS) for kind in runs[1:]}


def _counted(kind: str) -> int:
    options = ("--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null")
    command = ["valgrind", *options, sys.executable, __file__, "--handle", kind]
    if shutil.which("valgrind") is None:
        raise CountError("valgrind is missing: apt-get install valgrind")
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    found = _COUNTED.search(done.stderr)
    if done.returncode or found is None:
        raise CountError(f"{' '.join(command)}: {done.stderr[-2000:]}")
    return int(found[1].replace(",", ""))


def _handle(counted: str) -> None:
    """Prepare the events of all kinds, after a round of each; handle those of one kind."""
    gc.disable()
    position = Position(0, 0)
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
                handle(document, position)


def main() -> None:
    """Counts and prints a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kind", choices=KINDS, nargs="+", default=list(KINDS))
    todo = parser.add_mutually_exclusive_group()
    todo.add_argument("--write", action="store_true", help=f"replace {TABLE.name}")
    todo.add_argument("--compare", action="store_true", help="fail if a count has changed")
    parser.add_argument("--handle", choices=[NONE, *KINDS], help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.handle:
        _handle(given.handle)
        return
    measured_with, before = stored() if TABLE.exists() else ("", {})
    if given.compare and measured_with != versions():
        parser.error(f"{TABLE.name} is of {measured_with}, this is {versions()}; use --write first")
    counts = count(given.kind)
    print(f"{'event':12}{'instructions':>14}{'stored':>10}{'change':>9}")
    for kind, found in counts.items():
        known = before.get(kind, found)
        print(f"{kind:12}{found:14,}{known:10,}{found / known - 1:9.1%}")
    if given.write:
        rows = [f"{kind}\t{number}\n" for kind, number in {**before, **counts}.items()]
        TABLE.write_text(f"# {versions()}\n{''.join(rows)}", encoding="utf-8")
    changed = unexplained(before, counts) if given.compare else []
    if changed:
        parser.exit(1, f"{', '.join(changed)}: write the table again, and say in the commit why\n")


if __name__ == "__main__":
    main()
