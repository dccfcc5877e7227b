"""Partition ownership during a rebalance, and conflicting claims.

Source: `AbstractStickyAssignor.allSubscriptionsEqual` and `MemberData` in Kafka.
"""

from typing import NamedTuple

from brokertwin.clients.assignors.group import NO_GENERATION, Group
from brokertwin.clients.partitions import TopicPartition


class OwnedPartitions(NamedTuple):
    """The partitions a member claims, and its generation if given."""

    partitions: list[TopicPartition]
    generation: int | None


class Claims(NamedTuple):
    """The valid claims.

    Attributes:
        owned: partitions by member, each with at most one owner.
        doubly_claimed: claimed by two members of one generation; unowned.
        are_topics_equal: all members subscribe to the same topics.
    """

    owned: dict[str, list[TopicPartition]]
    doubly_claimed: set[TopicPartition]
    are_topics_equal: bool


def weigh(group: Group, claims: dict[str, OwnedPartitions]) -> Claims:
    """Resolve claims: the later generation wins; in a tie it is unowned."""
    owned: dict[str, list[TopicPartition]] = {}
    owners: dict[TopicPartition, str] = {}
    doubly_claimed = set()
    for member, (partitions, of) in claims.items():
        generation = NO_GENERATION if of is None else of
        owned[member] = []
        for partition in filter(group.exists, partitions):
            other = owners.get(partition)
            others = NO_GENERATION if other is None else _generation(group, other)
            if other is None or generation > others:
                owned[member].append(partition)
            if generation == others and other is not None:
                doubly_claimed.add(partition)
            if other is None or generation >= others:
                owners[partition] = member
                if other is not None and partition in owned[other]:
                    owned[other].remove(partition)
    topics = {frozenset(subscription.topics) for subscription in group.members.values()}
    return Claims(owned, doubly_claimed, len(topics) == 1)


def _generation(group: Group, member: str) -> int:
    """The generation of the subscription, not of its user data."""
    generation = group.members[member].generation_id
    return NO_GENERATION if generation is None else generation
