"""The assignors by protocol name, and the user data of each."""

from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from typing import NamedTuple

from brokertwin.clients.assignors.group import Assignment, Group, Subscription, group_of
from brokertwin.clients.assignors.range_assignor import assign_range, assign_round_robin
from brokertwin.clients.assignors.sticky_assignor import assign_cooperative_sticky, assign_sticky
from brokertwin.clients.consumer_protocol import encode_generation, encode_previous_assignment
from brokertwin.clients.partitions import TopicPartition


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
