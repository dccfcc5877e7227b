"""The assignors by protocol name, and the user data of each; `range` and `roundrobin`.

Source: `RangeAssignor`, `RoundRobinAssignor` in Kafka. range assigns contiguous partitions of each
topic to its subscribers in order. roundrobin assigns the partitions of all topics one by one to the
members in turn.
"""

from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from typing import NamedTuple

from brokertwin.clients.assignors.group import Assignment, Group, Subscription, group_of
from brokertwin.clients.assignors.sticky_assignor import assign_cooperative_sticky, assign_sticky
from brokertwin.clients.consumer_protocol import encode_generation, encode_previous_assignment
from brokertwin.clients.partitions import TopicPartition
from brokertwin.state.groups.range_assignor import member_sort_key


def assign_range(group: Group) -> Assignment:
    """Assign ranges; the first members get one extra if there is a rest."""
    assignment: Assignment = {member: [] for member in group.members}
    for topic in group.partition_counts:
        partitions = group.partitions([topic])
        subscribers = _in_order(group, group.subscribers(topic))
        quota, extra = divmod(len(partitions), len(subscribers))
        for at, member in enumerate(subscribers):
            first = quota * at + min(at, extra)
            assignment[member] += partitions[first : first + quota + (at < extra)]
    return assignment


def assign_round_robin(group: Group) -> Assignment:
    """Assign one by one, skipping members without the topic."""
    assignment: Assignment = {member: [] for member in group.members}
    circle = _in_order(group, list(group.members))
    at = 0
    for partition in group.partitions(sorted(group.partition_counts)):
        while partition.topic not in group.members[circle[at]].topics:
            at = (at + 1) % len(circle)
        assignment[circle[at]].append(partition)
        at = (at + 1) % len(circle)
    return assignment


def _in_order(group: Group, members: list[str]) -> list[str]:
    return sorted(
        members, key=lambda each: member_sort_key(each, group.members[each].group_instance_id)
    )


class AssignorName(StrEnum):
    """Kafka's assignors of classic groups."""

    RANGE = "range"
    ROUNDROBIN = "roundrobin"
    STICKY = "sticky"
    COOPERATIVE_STICKY = "cooperative-sticky"


class ClientAssignor(NamedTuple):
    """An assignment function; `is_cooperative` members keep partitions."""

    assign: Callable[[Group], Assignment]
    is_cooperative: bool = False


ASSIGNORS = {
    AssignorName.RANGE: ClientAssignor(assign_range),
    AssignorName.ROUNDROBIN: ClientAssignor(assign_round_robin),
    AssignorName.STICKY: ClientAssignor(assign_sticky),
    AssignorName.COOPERATIVE_STICKY: ClientAssignor(assign_cooperative_sticky, is_cooperative=True),
}


def assign(
    name: AssignorName,
    partition_counts: Mapping[str, int],
    subscriptions: Mapping[str, Subscription],
) -> Assignment:
    """Return the leader's assignment. Topics that are not in `partition_counts` are left out."""
    return ASSIGNORS[name].assign(group_of(partition_counts, subscriptions))


def user_data(
    name: AssignorName, previous: Iterable[TopicPartition] | None, generation: int
) -> bytes | None:
    """Return the user data of a subscription.

    `previous` is the last assignment, or None before the first. Source:
    `ConsumerPartitionAssignor.subscriptionUserData` in Kafka.
    """
    if name is AssignorName.COOPERATIVE_STICKY:
        return encode_generation(generation)
    if name is AssignorName.STICKY and previous is not None:
        return encode_previous_assignment(previous, generation)
    return None
