"""Where a key goes: Kafka's partition of a record, and Spark's shuffle partition of a cell.

Every writer of `<prefix>.requests` computes the partition itself with `partition_of`
(`state/core/murmur2.py`): confluent-kafka's default partitioner (CRC32) differs from Java's.

Source: org.apache.spark.unsafe.hash.Murmur3_x86_32.hashInt and HashPartitioning.
"""

from collections.abc import Iterable, Mapping
from itertools import count

SPARK_HASH_SEED = 42
_UINT32 = 0xFFFFFFFF


def spark_hash(value: int) -> int:
    """Spark's hash of one INT column, signed, as HashPartitioning computes it."""
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
    """Grouping keys by which cells share Spark's tasks as evenly as their loads allow.

    The heaviest cell comes first, and each into the task with the least load so far, of equal ones
    into that with the fewest cells. The busiest task so has at most 4/3 of what the best way of
    dealing them out would give it (Graham 1969, "Bounds on Multiprocessing Timing Anomalies").
    Where nothing is known of any load, the n-th cell falls into task n modulo their number.

    Args:
        cells: the names of all cells.
        shuffle_partitions: Spark's tasks.
        loads: what is known of each cell's load, in any unit; others get the mean of those.
        fixed: keys of cells that stay where they are: their state lies there.

    Returns:
        the key of each cell, >= 0 and used once; those of `fixed` are as they were.
    """
    names = list(dict.fromkeys([*fixed, *cells]))
    known = [loads[name] for name in names if name in loads]
    mean = sum(known) // len(known) if known else 1
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
    """Gives the least keys that are not used yet, by the task into which they fall."""

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
