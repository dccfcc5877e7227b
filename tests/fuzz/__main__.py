"""`python -m tests.fuzz --inputs N --only TARGET`: read what no one has written."""

import argparse
import random
import resource
import signal
import sys
import time
from collections.abc import Callable
from types import FrameType
from typing import NamedTuple

from tests.fuzz.targets import TARGETS

SECONDS_MAX = 1.0
"""CPU time for one input."""

MEMORY_MAX = 3 << 30
"""Of address space, for all: more is a MemoryError."""


class TooLongError(Exception):
    """An input takes too long."""


class Tried(NamedTuple):
    """Results: number of inputs, failed inputs with errors, and memory growth in bytes."""

    inputs: int
    failed: list[tuple[bytes, str]]
    grown_bytes: int


def fuzz(name: str, count: int, seed: int, result: Callable[[int], None] = lambda _: None) -> Tried:
    """Read `count` changed inputs of a target; the same seed draws the same."""
    target, draw = TARGETS[name], random.Random(seed)
    seeds = target.seeds()
    read = target.reader()
    failed: list[tuple[bytes, str]] = []
    before = 0
    for number in range(count):
        data = target.change(draw.choice(seeds), draw.choice(seeds), draw)
        signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS_MAX)
        try:
            read(data)
        except Exception as error:  # noqa: BLE001 (the exceptions under test)
            failed.append((data, f"{type(error).__name__}: {error}"))
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        if number == count // 10:
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        result(number + 1)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    return Tried(count, failed, grown * 1024)


def _too_long(_number: int, _frame: FrameType | None) -> None:
    raise TooLongError(f"longer than {SECONDS_MAX} s")


def main() -> int:
    """Exit code 1 where an input failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--inputs", type=int, default=1_000_000, help="in all; a million")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", action="append", choices=sorted(TARGETS), help="repeatable")
    given = parser.parse_args()
    signal.signal(signal.SIGVTALRM, _too_long)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_MAX, MEMORY_MAX))
    names = given.only or list(TARGETS)
    is_well = True
    for name in names:
        begin = time.monotonic()
        tried = fuzz(name, given.inputs // len(names), given.seed)
        took = time.monotonic() - begin
        kinds = {why.partition("\\n")[0][:200]: data for data, why in reversed(tried.failed)}
        sys.stdout.write(
            f"{name}: {tried.inputs:,} inputs in {took:.0f} s, {len(tried.failed)} failed,"
            f" grown by {tried.grown_bytes / 1e6:.1f} MB\n"
        )
        for why, data in list(kinds.items())[:10]:
            sys.stdout.write(f"  {why}\n    {data[:400]!r}\n")
        sys.stdout.flush()
        is_well = is_well and not tried.failed
    return 0 if is_well else 1


if __name__ == "__main__":
    sys.exit(main())
