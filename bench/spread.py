"""How evenly cells share Spark's tasks.

    python bench/spread.py [--tasks 2 4 8] [--seed 1]

Nothing runs in Spark: grouping keys for 1 to 64 clusters of one cell each, by four rules, and what
the busiest task then has. The figure is its load as a multiple of what no rule could better: the
mean of all tasks, or the heaviest cell where that is more. Means over all numbers of clusters, and
the worst of them.

- `name`: what Spark does with names as keys, a hash;
- `rendezvous`: each cell takes the task with the highest score out of a hash of both, as many know
  it from caches; it does not look at loads;
- `in turn`: the n-th cell into task n modulo their number;
- `by load`: the job's, where the loads are known (`kafka_io/partitioning.group_keys`).

Loads are equal; or of the n-th heaviest cell 1/n of the heaviest (Zipf), in any order; or one cell
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
    """A hash of the name."""
    return {name: _hash(name) % tasks for name in loads}


def by_rendezvous(loads: Loads, tasks: int) -> dict[str, int]:
    """The task with the highest score."""
    return {name: max(range(tasks), key=lambda task: _hash(name, task)) for name in loads}


def in_turn(loads: Loads, tasks: int) -> dict[str, int]:
    """Without loads."""
    return {name: spark_hash(key) % tasks for name, key in group_keys(loads, tasks, {}, {}).items()}


def by_load(loads: Loads, tasks: int) -> dict[str, int]:
    """With them."""
    keys = group_keys(loads, tasks, loads, {})
    return {name: spark_hash(key) % tasks for name, key in keys.items()}


RULES: dict[str, Rule] = {
    "name": by_name,
    "rendezvous": by_rendezvous,
    "in turn": in_turn,
    "by load": by_load,
}


def equal(clusters: int, _: random.Random) -> list[int]:
    """All the same."""
    return [UNIT] * clusters


def zipf(clusters: int, chance: random.Random) -> list[int]:
    """The n-th heaviest has 1/n."""
    loads = [UNIT // rank for rank in range(1, clusters + 1)]
    chance.shuffle(loads)
    return loads


def one_hot(clusters: int, chance: random.Random) -> list[int]:
    """One has as much as all others together."""
    loads = [UNIT // (clusters - 1)] * (clusters - 1) + [UNIT] if clusters > 1 else [UNIT]
    chance.shuffle(loads)
    return loads


SHAPES = {"equal": equal, "Zipf": zipf, "one hot": one_hot}


def excess(rule: Rule, loads: Loads, tasks: int) -> float:
    """The busiest task's load, as a multiple of the least that it could be."""
    shares = [0] * tasks
    for name, task in rule(loads, tasks).items():
        shares[task] += loads[name]
    return max(shares) / max(sum(shares) / tasks, *loads.values())


def main() -> None:
    """Prints a table."""
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
