"""Break rules one at a time and count the seeds until the simulator finds each.

python -m tests.planted [NAME ...] [--first N] [--seeds N]
"""

import argparse
import sys
from collections.abc import Callable
from functools import partial

from tests.planted import planting
from tests.planted.planting import PLANTED

SEEDS = 1000


def found_after(begin: Callable[[], None], seeds: range) -> tuple[int, str]:
    """Return the number of seeds run until a rule was found broken, and the violation or "".

    `begin` breaks the rule in a process.
    """
    from brokertwin.simulation.campaign import results

    count = 0
    for result in results(seeds, begin=begin):
        count += 1
        if result.outcomes.violations:
            return count, str(result.outcomes.violations[0])
    return count, ""


def main() -> int:
    """Print a line for each rule; return 1 if one was not found."""
    from tests.planted import breaks  # a worker breaks the rules of `PLANTED` before it is loaded

    parser = argparse.ArgumentParser(prog="python -m tests.planted", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="without names: all rules")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="seeds tried for each rule")
    given = parser.parse_args()
    begins = {
        **{each.name: partial(planting.begin, each) for each in PLANTED},
        **{each.name: partial(breaks.begin, each.name) for each in breaks.BREAKS},
    }
    wanted = [name for name in begins if name in given.names or not given.names]
    missed = 0
    for name in wanted:
        count, violation = found_after(begins[name], range(given.first, given.first + given.seeds))
        missed += not violation
        sys.stdout.write(f"{name:<34} {count:>5}  {violation or 'NOT FOUND'}\n")
        sys.stdout.flush()
    sys.stdout.write(f"{len(wanted) - missed} of {len(wanted)} found\n")
    return 1 if missed or not wanted else 0


if __name__ == "__main__":
    sys.exit(main())
