"""The order in which Kafka answers for partitions: as its hash maps have them.

Source: `ShareCoordinatorService`, `DefaultStatePersister` in Kafka.
"""

from typing import Protocol, TypeVar

from brokerstream.state.core.java_hashes import hash_map_order, own_hash, uuid_hash
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
