"""The inputs of an assignor, in the iteration order of Kafka's leader.

Source: `ConsumerPartitionAssignor.Subscription`, `AbstractPartitionAssignor.assign` in Kafka. Ties
between members depend on that order (`state/core/java_hashes.py`).
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec

from brokertwin.clients.partitions import TopicPartition
from brokertwin.state.core.java_hashes import hash_order, java_hash

NO_GENERATION = -1

Assignment = dict[str, list[TopicPartition]]
"""Partitions by member id."""


class Subscription(msgspec.Struct, frozen=True, kw_only=True):
    """The subscription of a member in its JoinGroup.

    Attributes:
        owned: the partitions that it keeps while it joins.
        generation_id: the generation of `owned`; None if not given.
        user_data: added by the assignor.
        rack_id: passed on, not used.
        group_instance_id: of a static member.
    """

    topics: tuple[str, ...]
    owned: tuple[TopicPartition, ...] = ()
    generation_id: int | None = None
    user_data: bytes | None = None
    rack_id: str | None = None
    group_instance_id: str | None = None


class Group(NamedTuple):
    """Subscriptions and existing topics, both in Java's order."""

    members: dict[str, Subscription]
    partition_counts: dict[str, int]

    def subscribers(self, topic: str) -> list[str]:
        return [
            member for member, subscription in self.members.items() if topic in subscription.topics
        ]

    def partitions(self, topics: Iterable[str]) -> list[TopicPartition]:
        return [
            TopicPartition(topic, partition)
            for topic in topics
            for partition in range(self.partition_counts[topic])
        ]

    def exists(self, partition: TopicPartition) -> bool:
        return 0 <= partition.partition < self.partition_counts.get(partition.topic, 0)


def group_of(
    partition_counts: Mapping[str, int], subscriptions: Mapping[str, Subscription]
) -> Group:
    """Build a group from the subscriptions of a JoinGroup response."""
    members = hash_order(subscriptions, len(subscriptions))
    topic_names = list(dict.fromkeys(t for member in members for t in subscriptions[member].topics))
    topic_names = [
        topic for topic in hash_order(topic_names, len(topic_names)) if partition_counts.get(topic)
    ]
    topics = hash_order(topic_names, len(topic_names))
    return Group(
        {member: subscriptions[member] for member in members},
        {topic: partition_counts[topic] for topic in topics},
    )


def partition_hash(partition: TopicPartition) -> int:
    """`TopicPartition.hashCode`."""
    return 31 * (31 + partition.partition) + java_hash(partition.topic)
