"""Subscriptions and assignments of consumers in classic groups.

Source: `ConsumerProtocol` in Kafka. Members exchange these bytes through the coordinator, which
reads them if classic members are in a consumer group. A newer version is read as the newest.
"""

from collections.abc import Iterable
from typing import NamedTuple

from brokertwin.protocol import rows
from brokertwin.protocol.generated.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    ConsumerProtocolTopicPartition,
)

NEWEST = 3
"""The newest version of both. Version 1 adds owned partitions, 2 a generation, 3 a rack."""

Partitions = dict[str, list[int]]
"""Partitions by topic name."""


class ProtocolSubscription(NamedTuple):
    """The subscription of a member: topics in the member's order, owned partitions, and rack."""

    topics: list[str]
    owned: Partitions
    rack_id: str | None


class ProtocolAssignment(NamedTuple):
    """The assignment of a member; `has_user_data` is set if the assignor has added data."""

    partitions: Partitions
    has_user_data: bool


def topics_of(subscription: bytes) -> list[str]:
    """The topics of a subscription of any version. Raises MalformedError."""
    return rows.read(ConsumerProtocolSubscription, subscription, rows.VERSION_BYTES, 0)[0].topics


def version_of(data: bytes) -> int:
    """The version of a message, at most the newest that Kafka knows. Raises MalformedError."""
    return ConsumerProtocolSubscription.version_of(data)


def subscription_of(data: bytes) -> ProtocolSubscription:
    """Reads a ConsumerProtocolSubscription. Raises MalformedError."""
    subscription = ConsumerProtocolSubscription.parsed(data)
    return ProtocolSubscription(
        subscription.topics, _by_topic(subscription.owned_partitions), subscription.rack_id
    )


def assignment_of(data: bytes) -> ProtocolAssignment:
    """Reads a ConsumerProtocolAssignment. Raises MalformedError."""
    assignment = ConsumerProtocolAssignment.parsed(data)
    return ProtocolAssignment(_by_topic(assignment.assigned_partitions), bool(assignment.user_data))


def assignment_bytes(partitions: Partitions, version: int) -> bytes:
    topics = [ConsumerProtocolTopicPartition(*each) for each in partitions.items()]
    return ConsumerProtocolAssignment(topics).encoded(min(version, NEWEST))


def _by_topic(topics: Iterable[ConsumerProtocolTopicPartition]) -> Partitions:
    """Partitions by topic; the first entry of a topic counts."""
    by_topic: Partitions = {}
    for each in topics:
        by_topic.setdefault(each.topic, each.partitions)
    return by_topic
