"""The order of partitions in responses of share APIs.

Source: `ShareCoordinatorService`, `DefaultStatePersister`, `KafkaApis.processShareFetchResponse`,
`TopicIdPartition.hashCode` in Kafka; `HashMap` in Scala.
"""

from collections.abc import Mapping
from typing import Protocol, TypeVar

from brokertwin.protocol.bodies import Int32, Uuid
from brokertwin.state.core.java_hashes import (
    hash_map_order,
    own_hash,
    partition_hash,
    scala_order,
    uuid_hash,
)


class _OfTopic(Protocol):
    topic_id: Uuid


class _OfPartition(Protocol):
    partition: Int32


Topic = TypeVar("Topic", bound=_OfTopic)
Partition = TypeVar("Partition", bound=_OfPartition)


def topics(requested: list[Topic]) -> list[Topic]:
    """Return topics in hash order; the last of duplicates wins."""
    last = {each.topic_id: each for each in requested}
    return [last[each] for each in hash_map_order(last, uuid_hash, len(last))]


def partitions(requested: list[Partition]) -> list[Partition]:
    """Return partitions in hash order; the last of duplicates wins."""
    last = {each.partition: each for each in requested}
    return [last[each] for each in hash_map_order(last, own_hash, len(last))]


def fetched(names: Mapping[tuple[Uuid, int], str]) -> list[tuple[Uuid, int]]:
    """Return partitions of a ShareFetch response in Scala's hash order."""

    def hash_code(key: tuple[Uuid, int]) -> int:
        return 31 * (31 + uuid_hash(key[0])) + partition_hash(names[key], key[1])

    return scala_order(names, hash_code)
