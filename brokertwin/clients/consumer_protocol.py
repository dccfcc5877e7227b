"""Subscriptions and assignments as the members of a classic group exchange them.

Source: `ConsumerProtocol`, the user data of `StickyAssignor` (versions 0 and 1) and of
`CooperativeStickyAssignor` in Kafka. A newer version is read as version 3.
"""

from collections.abc import Iterable

from brokertwin.clients.assignors.group import NO_GENERATION, Subscription
from brokertwin.clients.partitions import TopicPartition, grouped
from brokertwin.protocol import rows
from brokertwin.protocol.generated.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    ConsumerProtocolTopicPartition,
    StickyAssignorUserData,
    TopicAssignment,
)
from brokertwin.state.groups.consumer_protocol import NEWEST

GENERATION_BYTES = 4


def _by_topic(partitions: Iterable[TopicPartition]) -> list[ConsumerProtocolTopicPartition]:
    return [ConsumerProtocolTopicPartition(*each) for each in grouped(partitions).items()]


def _each(topics: Iterable[ConsumerProtocolTopicPartition]) -> list[TopicPartition]:
    return [TopicPartition(each.topic, at) for each in topics for at in each.partitions]


def encode_subscription(subscription: Subscription) -> bytes:
    """A subscription with topics and owned partitions in order, as Java's consumer sends it."""
    return ConsumerProtocolSubscription(
        topics=sorted(subscription.topics),
        user_data=subscription.user_data,
        owned_partitions=_by_topic(sorted(subscription.owned)),
        generation_id=NO_GENERATION
        if subscription.generation_id is None
        else subscription.generation_id,
        rack_id=subscription.rack_id,
    ).encoded(NEWEST)


def decode_subscription(data: bytes, group_instance_id: str | None = None) -> Subscription:
    """The subscription of a member. Raises ValueError for other bytes."""
    subscription = ConsumerProtocolSubscription.parsed(data)
    return Subscription(
        topics=tuple(subscription.topics),
        user_data=subscription.user_data,
        owned=tuple(_each(subscription.owned_partitions)),
        generation_id=subscription.generation_id if subscription.generation_id >= 0 else None,
        rack_id=subscription.rack_id or None,
        group_instance_id=group_instance_id,
    )


def encode_assignment(
    partitions: Iterable[TopicPartition], user_data: bytes | None = None
) -> bytes:
    """An assignment; Kafka's own assignors of consumers add no user data."""
    return ConsumerProtocolAssignment(_by_topic(partitions), user_data).encoded(NEWEST)


def decode_assignment(data: bytes) -> list[TopicPartition]:
    """The partitions of an assignment; none for empty bytes. Raises ValueError for other bytes."""
    if not data:
        return []
    return _each(ConsumerProtocolAssignment.parsed(data).assigned_partitions)


def assignment_user_data(data: bytes) -> bytes | None:
    """The user data of an assignment. Raises ValueError for other bytes."""
    return ConsumerProtocolAssignment.parsed(data).user_data if data else None


def encode_previous_assignment(partitions: Iterable[TopicPartition], generation: int) -> bytes:
    """The user data that `sticky` adds to a subscription."""
    topics = [TopicAssignment(*each) for each in grouped(partitions).items()]
    out = bytearray()
    rows.append(out, StickyAssignorUserData(topics, generation), 1)
    return bytes(out)


def decode_previous_assignment(data: bytes) -> tuple[list[TopicPartition], int | None]:
    """The partitions and generation that `sticky` added; None from a client without generations.

    Other bytes count as no partitions, of generation -1.
    """
    try:
        user_data, end = rows.read(StickyAssignorUserData, data, 0, 0)
        if end < len(data):
            user_data, _ = rows.read(StickyAssignorUserData, data, 0, 1)
    except ValueError:
        return [], NO_GENERATION
    partitions = [
        TopicPartition(each.topic, at)
        for each in user_data.previous_assignment
        for at in each.partitions
    ]
    return partitions, user_data.generation if end < len(data) else None


def encode_generation(generation: int) -> bytes:
    """The user data that `cooperative-sticky` adds to a subscription."""
    return generation.to_bytes(GENERATION_BYTES, signed=True)


def decode_generation(data: bytes) -> int:
    """The generation that `cooperative-sticky` added; -1 for other bytes."""
    if len(data) < GENERATION_BYTES:
        return NO_GENERATION
    return int.from_bytes(data[:GENERATION_BYTES], signed=True)
