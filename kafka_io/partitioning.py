"""Where a key goes: Kafka's partition of a record, and Spark's shuffle partition of a cell.

Every writer of `<prefix>.requests` computes the partition itself with `partition_of`
(`state/core/murmur2.py`): confluent-kafka's default partitioner (CRC32) differs from Java's.

Source: org.apache.spark.unsafe.hash.Murmur3_x86_32.hashInt and HashPartitioning.
"""

from collections.abc import Iterator
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


def group_keys(shuffle_partitions: int) -> Iterator[int]:
    """Grouping keys for one cell after the other, endless, each >= 0 and used once.

    The n-th falls into shuffle partition n modulo their number, so that few cells do not share one
    Spark task while another has none.
    """
    found: list[list[int]] = [[] for _ in range(shuffle_partitions)]
    candidates = count()
    for number in count():
        wanted = found[number % shuffle_partitions]
        while not wanted:
            candidate = next(candidates)
            found[spark_hash(candidate) % shuffle_partitions].append(candidate)
        yield wanted.pop(0)


def _rotated(word: int, bits: int) -> int:
    return (word << bits | word >> (32 - bits)) & _UINT32
