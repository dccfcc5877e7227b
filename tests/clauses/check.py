"""Is each clause of docs/seeds.md seen by the test that its row names?

python -m tests.clauses.check [CLAUSE…]       a clause: 000.5, or a seed: 000

Each line of `breaks.txt` breaks a clause in a copy of the sources. The tests of its row must fail.
The exit code is 1 if tests did not notice a break. Rows without a break are those whose clause is
neither a constant nor a condition.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import confluent_kafka  # noqa: F401 - loaded once, for all children
import hypothesis.strategies  # noqa: F401
import msgspec  # noqa: F401
import pytest

from tests.clauses.page import Row, rows
from tests.support.sources import ROOT

BREAKS = Path(__file__).parent / "breaks.txt"
OURS = ("tests", "brokertwin")
FAILED = pytest.ExitCode.TESTS_FAILED
LIMIT = ("--timeout", "60", "--timeout-method", "thread")
"""A break may leave threads waiting for ever: the child then ends with the code of a failure."""


class Break(NamedTuple):
    """A text that occurs once in a file, and the one that breaks the clauses."""

    clauses: list[str]
    file: str
    before: str
    after: str


def breaks() -> list[Break]:
    """Return the lines of `breaks.txt`. Raises ValueError if one is malformed."""
    found = []
    for line in BREAKS.read_text("utf-8").splitlines():
        if line and not line.startswith("#"):
            clauses, file, before, after = line.split(" | ")
            texts = (each.replace("\\n", "\n") for each in (before, after))
            found.append(Break(clauses.split(), file, *texts))
    return found


def broken(each: Break, source: str) -> str:
    """Return the source with the break. Raises ValueError unless the text occurs once."""
    if source.count(each.before) != 1:
        raise ValueError(f"{each.file}: {each.before!r} occurs {source.count(each.before)} times")
    return source.replace(each.before, each.after)


def rows_of(each: Break) -> list[Row]:
    return [row for row in rows() if any(clause in row.clauses for clause in each.clauses)]


def is_noticed(copy: Path, each: Break, row: Row) -> bool:
    """Return whether the tests of a row fail with a break."""
    path = copy / each.file
    source = path.read_text("utf-8")
    path.write_text(broken(each, source), "utf-8")
    try:
        return run_tests(copy, row.tests) == FAILED
    finally:
        path.write_text(source, "utf-8")


def run_tests(copy: Path, tests: list[str], output: str = os.devnull, *plugins: object) -> int:
    """Run tests in a child that has the libraries but none of the project's modules."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    for name in [each for each in sys.modules if each.split(".")[0] in OURS]:
        del sys.modules[name]
    os.chdir(copy)
    sys.path.insert(0, str(copy))
    sys.dont_write_bytecode = True
    with open(output, "w") as written:  # noqa: PTH123 - may be a device
        os.dup2(written.fileno(), 1)
        os.dup2(written.fileno(), 2)
        arguments = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *LIMIT, *tests]
        code = pytest.main(arguments, plugins)
        sys.stdout.flush()
    os._exit(code)


def copied(folder: Path) -> Path:
    names = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    for name in filter(None, names.split("\0")):
        if (ROOT / name).exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name, follow_symlinks=False)
    return folder


def _selected(wanted: list[str]) -> Iterator[Break]:
    for each in breaks():
        if not wanted or any(c in wanted or c[:3] in wanted for c in each.clauses):
            yield each


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main(wanted: list[str]) -> int:
    """Print a line for each break, then a table by seed."""
    tallies: dict[str, list[int]] = {row.seed: [0, 0] for row in rows()}
    missed = 0
    touched: set[str] = set()
    with tempfile.TemporaryDirectory() as folder:
        copy = copied(Path(folder))
        for each in _selected(wanted):
            for row in rows_of(each):
                is_seen = is_noticed(copy, each, row)
                missed += not is_seen
                touched.add(row.name)
                tallies[row.seed][0] += 1
                tallies[row.seed][1] += is_seen
                if not is_seen:
                    say(f"not noticed: {row.name}: {each.file}: {each.after}")
    say("| seed | rows | rows with a break | breaks | noticed |\n|---|---|---|---|---|")
    for seed, (tried, seen) in tallies.items():
        of_seed = [row.name for row in rows() if row.seed == seed]
        say(f"| {seed} | {len(of_seed)} | {len(touched & set(of_seed))} | {tried} | {seen} |")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
