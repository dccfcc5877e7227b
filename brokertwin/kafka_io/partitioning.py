"""Kafka's partition of a record's key, and Spark's shuffle partition of a cell.

All writers of `<prefix>.requests` compute the partition with `partition_of`
(`state/core/murmur2.py`), because confluent-kafka's default partitioner (CRC32) differs from
Java's.

Source: org.apache.spark.unsafe.hash.Murmur3_x86_32.hashInt and HashPartitioning.
"""

from collections.abc import Iterable, Mapping
from itertools import count

SPARK_HASH_SEED = 42
_UINT32 = 0xFFFFFFFF


def spark_hash(value: int) -> int:
    """Return Spark's signed hash of one INT column, as in HashPartitioning."""
    word = (value & _UINT32) * 0xCC9E2D51 & _UINT32
    word = _rotated(word, 15) * 0x1B873593 & _UINT32
    hashed = _rotated(SPARK_HASH_SEED ^ word, 13)
    hashed = (hashed * 5 + 0xE6546B64) & _UINT32
    hashed ^= 4
    hashed ^= hashed >> 16
    hashed = hashed * 0x85EBCA6B & _UINT32
    hashed ^= hashed >> 13
    hashed = hashed * 0xC2B2AE35 & _UINT32
    hashed ^= hashed >> 16
    return hashed - (1 << 32) if hashed >= 1 << 31 else hashed


def group_keys(
    cells: Iterable[str],
    shuffle_partitions: int,
    loads: Mapping[str, int],
    fixed: Mapping[str, int],
) -> dict[str, int]:
    """Choose grouping keys that spread cells evenly over Spark's tasks by load.

    Cells are assigned from the heaviest on, each to the task with the lowest load, or of equal ones
    the fewest cells. The busiest task has at most 4/3 of the optimum (Graham 1969, "Bounds on
    Multiprocessing Timing Anomalies"). Without known loads, the n-th cell is assigned to task n
    modulo their number.

    Args:
        cells: names of all cells.
        shuffle_partitions: number of Spark's tasks.
        loads: known loads of cells, in any unit; others get the mean.
        fixed: keys of cells that must keep their task, where their state is.

    Returns:
        a unique key >= 0 for each cell; those of `fixed` are unchanged.
    """
    names = list(dict.fromkeys([*fixed, *cells]))
    key_loads = [loads[name] for name in names if name in loads]
    mean = sum(key_loads) // len(key_loads) if key_loads else 1
    tasks = [(0, 0)] * shuffle_partitions
    keys = _Keys(shuffle_partitions, set(fixed.values()))
    found = dict(fixed)
    by_load = sorted(
        (name for name in names if name not in fixed), key=lambda n: -loads.get(n, mean)
    )
    for name in [*fixed, *by_load]:
        if name in fixed:
            task = spark_hash(fixed[name]) % shuffle_partitions
        else:
            task = min(range(shuffle_partitions), key=tasks.__getitem__)
            found[name] = keys.next(task)
        load, held = tasks[task]
        tasks[task] = (load + loads.get(name, mean), held + 1)
    return {name: found[name] for name in names}


class _Keys:
    """Returns the lowest unused key for a task."""

    def __init__(self, shuffle_partitions: int, used: set[int]) -> None:
        self._candidates = (key for key in count() if key not in used)
        self._found: list[list[int]] = [[] for _ in range(shuffle_partitions)]

    def next(self, task: int) -> int:
        while not self._found[task]:
            key = next(self._candidates)
            self._found[spark_hash(key) % len(self._found)].append(key)
        return self._found[task].pop(0)


def _rotated(word: int, bits: int) -> int:
    return (word << bits | word >> (32 - bits)) & _UINT32
