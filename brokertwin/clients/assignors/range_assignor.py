"""The assignors `range` and `roundrobin`, which use subscriptions only.

Source: `RangeAssignor`, `RoundRobinAssignor` in Kafka. range assigns contiguous partitions of each
topic to its subscribers in order. roundrobin assigns the partitions of all topics one by one to the
members in turn.
"""

from brokertwin.clients.assignors.group import Assignment, Group
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
