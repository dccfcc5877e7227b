"""How evenly cells are distributed over Spark's tasks.

    python bench/spread.py [--tasks 2 4 8] [--seed 1]

Without Spark: assigns the grouping keys of 1 to 64 clusters of one cell each by four rules. The
figure is the busiest task's load as a multiple of the lower bound: the mean of all tasks, or the
heaviest cell if that is more. Means and maxima are over all numbers of clusters.

- `name`: Spark's hash of the name as key;
- `rendezvous`: each cell takes the task with the highest hash of both, without regard
  to loads;
- `in turn`: the n-th cell goes to task n modulo their number;
- `by load`: the job's rule for known loads (`kafka_io/partitioning.group_keys`).

Loads are equal; or the n-th heaviest cell has 1/n of the heaviest (Zipf), in any order; or one cell
has as much as all others together.
"""

import argparse
import random
import statistics
from collections.abc import Callable, Mapping
from hashlib import blake2b

from brokertwin.kafka_io.partitioning import group_keys, spark_hash

CLUSTERS = range(1, 65)
UNIT = 1_000_000
"""The load of the heaviest cell, in µs."""

Loads = Mapping[str, int]
Rule = Callable[[Loads, int], dict[str, int]]


def _hash(*parts: object) -> int:
    return int.from_bytes(blake2b(repr(parts).encode(), digest_size=8).digest())


def by_name(loads: Loads, tasks: int) -> dict[str, int]:
    """By a hash of the name."""
    return {name: _hash(name) % tasks for name in loads}


def by_rendezvous(loads: Loads, tasks: int) -> dict[str, int]:
    """By the highest score."""
    return {name: max(range(tasks), key=lambda task: _hash(name, task)) for name in loads}


def in_turn(loads: Loads, tasks: int) -> dict[str, int]:
    """In turn, without loads."""
    return {name: spark_hash(key) % tasks for name, key in group_keys(loads, tasks, {}, {}).items()}


def by_load(loads: Loads, tasks: int) -> dict[str, int]:
    """By known loads."""
    keys = group_keys(loads, tasks, loads, {})
    return {name: spark_hash(key) % tasks for name, key in keys.items()}


RULES: dict[str, Rule] = {
    "name": by_name,
    "rendezvous": by_rendezvous,
    "in turn": in_turn,
    "by load": by_load,
}


def equal(clusters: int, _: random.Random) -> list[int]:
    """Return equal loads."""
    return [UNIT] * clusters


def zipf(clusters: int, chance: random.Random) -> list[int]:
    """Return loads of which the n-th heaviest is 1/n."""
    loads = [UNIT // rank for rank in range(1, clusters + 1)]
    chance.shuffle(loads)
    return loads


def one_hot(clusters: int, chance: random.Random) -> list[int]:
    """Return loads of which one equals all others together."""
    loads = [UNIT // (clusters - 1)] * (clusters - 1) + [UNIT] if clusters > 1 else [UNIT]
    chance.shuffle(loads)
    return loads


SHAPES = {"equal": equal, "Zipf": zipf, "one hot": one_hot}


def excess(rule: Rule, loads: Loads, tasks: int) -> float:
    """Return the busiest task's load as a multiple of the lower bound."""
    shares = [0] * tasks
    for name, task in rule(loads, tasks).items():
        shares[task] += loads[name]
    return max(shares) / max(sum(shares) / tasks, *loads.values())


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tasks", type=int, nargs="+", default=[2, 4, 8])
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    print(f"{'loads':9}{'tasks':>6}" + "".join(f"{name:>17}" for name in RULES))
    for shape, made in SHAPES.items():
        for tasks in given.tasks:
            chance = random.Random(given.seed)
            every = [
                {f"cluster-{n}": load for n, load in enumerate(made(count, chance))}
                for count in CLUSTERS
            ]
            cells = []
            for rule in RULES.values():
                found = [excess(rule, loads, tasks) for loads in every]
                cells.append(f"{statistics.mean(found):>9.2f} ({max(found):4.2f})")
            print(f"{shape:9}{tasks:>6}" + "".join(f"{cell:>17}" for cell in cells))


if __name__ == "__main__":
    main()
