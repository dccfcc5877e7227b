"""`make fuzz-guided`: inputs that Atheris derives from those that reached new code.

python -m tests.fuzz.guided --inputs N --only TARGET; it is not among the tested set of packages

Each target has its own process, which libFuzzer ends at the first failing input: one that raises an
undeclared exception, takes longer than `SECONDS_MAX`, or more memory than `MEMORY_MAX_MB`. The
input is written to `build/fuzz`.
"""

import argparse
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import atheris  # type: ignore[import-not-found,unused-ignore]

with atheris.instrument_imports(include=["brokertwin"]):
    from tests.fuzz.targets import TARGETS, Target

from tests.support.sources import ROOT

SECONDS_MAX = 20
"""Wall-clock time, because libFuzzer has no other; other processes may use the CPU meanwhile."""

MEMORY_MAX_MB = 3072
SIZE_MAX = 1 << 16
REACHED = re.compile(r"cov: .*? rss: \d+Mb")
"""What libFuzzer says of itself: places and features of the code that were reached."""

SHARE_OF_OURS = 0.5
"""So many changes are those of `mutations.py`, which know JSON; the others are libFuzzer's."""


def guided(name: str, count: int, seed: int) -> None:
    """Read `count` inputs of a target; ends the process."""
    target = TARGETS[name]
    read, seeds = target.reader(), target.seeds()
    found = ROOT / "build" / "fuzz"
    found.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as corpus:
        for number, data in enumerate(seeds):
            (Path(corpus) / str(number)).write_bytes(data)
        options = [f"-runs={count}", f"-seed={seed}", f"-timeout={SECONDS_MAX}", "-verbosity=1"]
        options += [f"-rss_limit_mb={MEMORY_MAX_MB}", f"-max_len={SIZE_MAX}"]
        options += [f"-artifact_prefix={found}/{name}-", "-print_final_stats=1", corpus]
        atheris.Setup([sys.argv[0], *options], read, custom_mutator=_mutator(target, seeds))
        atheris.Fuzz()


def _mutator(target: Target, seeds: list[bytes]) -> Callable[[bytes, int, int], bytes]:
    def mutate(data: bytes, size_max: int, seed: int) -> bytes:
        draw = random.Random(seed)
        if draw.random() > SHARE_OF_OURS:
            return bytes(atheris.Mutate(data, size_max))
        try:
            return target.change(data, draw.choice(seeds), draw)[:size_max]
        except (ValueError, IndexError, RecursionError):  # no JSON any more, or nothing to change
            return target.change(draw.choice(seeds), draw.choice(seeds), draw)[:size_max]

    return mutate


def main() -> int:
    """Exit code 1 where an input failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.guided", description=__doc__)
    parser.add_argument("--inputs", type=int, default=1_000_000, help="in all; a million")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", action="append", choices=sorted(TARGETS), help="repeatable")
    parser.add_argument("--here", action="store_true", help="the only one, in this process")
    given = parser.parse_args()
    names = given.only or list(TARGETS)
    count = given.inputs // len(names)
    if given.here:
        guided(names[0], count, given.seed)
    is_well = True
    for name in names:
        begin = time.monotonic()
        command = [sys.executable, "-m", "tests.fuzz.guided", "--here", "--only", name]
        command += ["--inputs", str(count), "--seed", str(given.seed)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        (*_, reached) = ["", *REACHED.findall(done.stderr)]
        verdict = "failed" if done.returncode else "none failed"
        took = f"{count:,} inputs in {time.monotonic() - begin:.0f} s"
        sys.stdout.write(f"{name}: {took}, {verdict}; {reached}\n")
        if done.returncode:
            sys.stdout.write(done.stderr[-3000:] + done.stdout[-3000:])
        sys.stdout.flush()
        is_well = is_well and not done.returncode
    return 0 if is_well else 1


if __name__ == "__main__":
    sys.exit(main())
