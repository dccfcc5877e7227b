"""The order in which Kafka answers for partitions: as its hash maps have them.

Source: `ShareCoordinatorService`, `DefaultStatePersister`, `KafkaApis.processShareFetchResponse`,
`TopicIdPartition.hashCode` in Kafka; `HashMap` in Scala.
"""

from collections.abc import Mapping
from typing import Protocol, TypeVar

from brokertwin.state.core.java_hashes import (
    hash_map_order,
    own_hash,
    partition_hash,
    scala_order,
    uuid_hash,
)
from brokertwin.state.core.schema import Int32, Uuid


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
    """Partitions in an answer with records, by the names of their topics, as Scala has them."""

    def hash_code(key: tuple[Uuid, int]) -> int:
        return 31 * (31 + uuid_hash(key[0])) + partition_hash(names[key], key[1])

    return scala_order(names, hash_code)
