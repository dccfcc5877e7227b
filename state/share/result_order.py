"""The order in which Kafka answers for partitions: as its hash maps have them.

Source: `ShareCoordinatorService`, `DefaultStatePersister`, `KafkaApis.processShareFetchResponse`,
`TopicIdPartition.hashCode` in Kafka; `HashMap` in Scala.
"""

from collections.abc import Mapping
from typing import Protocol, TypeVar

from brokerstream.state.core.java_hashes import (
    CAPACITY,
    hash_map_order,
    java_hash,
    own_hash,
    uuid_hash,
)
from brokerstream.state.core.schema import Int32, Uuid


class _OfTopic(Protocol):
    topic_id: Uuid


class _OfPartition(Protocol):
    partition: Int32


Topic = TypeVar("Topic", bound=_OfTopic)
Partition = TypeVar("Partition", bound=_OfPartition)


def topics(asked: list[Topic]) -> list[Topic]:
    """What is asked of topics; of one that is named twice the last."""
    last = {each.topic_id: each for each in asked}
    return [last[each] for each in hash_map_order(last, uuid_hash, len(last))]


def partitions(asked: list[Partition]) -> list[Partition]:
    """What is asked of a topic's partitions; of one that is named twice the last."""
    last = {each.partition: each for each in asked}
    return [last[each] for each in hash_map_order(last, own_hash, len(last))]


def fetched(names: Mapping[tuple[Uuid, int], str]) -> list[tuple[Uuid, int]]:
    """Partitions in an answer with records, by the names of their topics, as Scala has them.

    Its `HashMap` is full at three quarters, not above, and has each bucket in the order of hashes.
    """
    capacity = CAPACITY
    while len(names) >= capacity * 3 // 4:
        capacity *= 2

    def place(key: tuple[Uuid, int]) -> tuple[int, int]:
        of_partition = 31 * (31 + key[1]) + java_hash(names[key])
        hashed = (31 * (31 + uuid_hash(key[0])) + of_partition) & 0xFFFFFFFF
        mixed = hashed ^ hashed >> 16
        return mixed & (capacity - 1), mixed - (1 << 32) if mixed >= 1 << 31 else mixed

    return sorted(names, key=place)
