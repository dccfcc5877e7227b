"""Kafka's partition of a record key.

Source: org.apache.kafka.common.utils.Utils.murmur2 and BuiltInPartitioner.partitionForKey.
"""

from brokertwin.state.core.bounded_cache import bounded_cache

MURMUR2_SEED = 0x9747B28C
MURMUR2_FACTOR = 0x5BD1E995
_UINT32 = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """Kafka's 32-bit Murmur2 hash of `data`, unsigned."""
    hashed = (MURMUR2_SEED ^ len(data)) & _UINT32
    whole = len(data) - len(data) % 4
    for at in range(0, whole, 4):
        word = int.from_bytes(data[at : at + 4], "little")
        word = word * MURMUR2_FACTOR & _UINT32
        word ^= word >> 24
        word = word * MURMUR2_FACTOR & _UINT32
        hashed = (hashed * MURMUR2_FACTOR & _UINT32) ^ word
    if whole < len(data):
        hashed ^= int.from_bytes(data[whole:], "little")
        hashed = hashed * MURMUR2_FACTOR & _UINT32
    hashed ^= hashed >> 13
    hashed = hashed * MURMUR2_FACTOR & _UINT32
    return hashed ^ (hashed >> 15)


@bounded_cache(4096)
def partition_of(key: bytes, partitions: int) -> int:
    """Partition of a key in Kafka's Java producer."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions
