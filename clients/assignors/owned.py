"""What members own while their group is assigned anew, where two claims are weighed.

Source: `AbstractStickyAssignor.allSubscriptionsEqual` and `MemberData` in Kafka.
"""

from typing import NamedTuple

from brokertwin.clients.assignors.group import Group
from brokertwin.clients.partitions import TopicPartition

NO_GENERATION = -1


class OwnedPartitions(NamedTuple):
    """What a member says that it owns, and since which generation; None where it does not say."""

    partitions: list[TopicPartition]
    generation: int | None


class Claims(NamedTuple):
    """What is left of what members say.

    Attributes:
        owned: each partition with one owner at most, by member.
        doubly_claimed: partitions that two members of one generation claim: nobody's.
        are_topics_equal: whether all members subscribe to the same topics.
    """

    owned: dict[str, list[TopicPartition]]
    doubly_claimed: set[TopicPartition]
    are_topics_equal: bool


def weigh(group: Group, said: dict[str, OwnedPartitions]) -> Claims:
    """Of two who claim a partition the one of the later generation has it; of one, neither."""
    owned: dict[str, list[TopicPartition]] = {}
    owners: dict[TopicPartition, str] = {}
    doubly_claimed = set()
    for member, (partitions, of) in said.items():
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
                _without(owned.get(other or "", []), partition)
    topics = {frozenset(subscription.topics) for subscription in group.members.values()}
    return Claims(owned, doubly_claimed, len(topics) == 1)


def _generation(group: Group, member: str) -> int:
    """What counts of the one who claimed first: what its subscription says, not its user data."""
    generation = group.members[member].generation_id
    return NO_GENERATION if generation is None else generation


def _without(partitions: list[TopicPartition], partition: TopicPartition) -> None:
    if partition in partitions:
        partitions.remove(partition)
