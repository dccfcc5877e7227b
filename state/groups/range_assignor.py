"""The `range` assignor: contiguous ranges of each topic's partitions.

Source: `RangeAssignor` in Kafka; KIP-848. Static members come first, by instance id, then the
others by member id. Each gets partitions / subscribers, and the first ones get the remainder. A
member that rejoins at the same position gets the same range.
"""

from brokertwin.protocol.bodies import Uuid
from brokertwin.state.core.java_hashes import JavaMap, uuid_hash
from brokertwin.state.groups.assignments import GroupSpec, Target


class _Topic:
    """A topic whose partitions are assigned in ascending order."""

    def __init__(self, partition_count: int, subscriber_count: int) -> None:
        self._partition_count = partition_count
        self._quota, self._extra = divmod(partition_count, subscriber_count)
        self._next = 0

    def take(self) -> list[int]:
        """Return the next member's partitions."""
        first = self._next
        self._next = min(first + self._quota + (self._extra > 0), self._partition_count)
        self._extra = max(self._extra - 1, 0)
        return list(range(first, self._next))


def assign(spec: GroupSpec) -> dict[str, Target]:
    """Return each member's target, without topics that are empty for it."""
    subscribers: dict[Uuid, int] = {}
    for subscriber in spec.members.values():
        for topic_id in subscriber.topics:
            subscribers[topic_id] = subscribers.get(topic_id, 0) + 1
    topics = {
        topic_id: _Topic(spec.partition_counts[topic_id], count)
        for topic_id, count in subscribers.items()
    }
    assigned = {member_id: _take(spec, member_id, topics) for member_id in _in_order(spec)}
    return {member_id: assigned[member_id] for member_id in spec.members}


def _take(spec: GroupSpec, member_id: str, topics: dict[Uuid, _Topic]) -> Target:
    """Return a member's partitions, by topic in the order of Kafka's map."""
    subscriber = spec.members[member_id]
    expected = len(subscriber.topics) if spec.is_homogeneous else subscriber.names_count
    target: JavaMap[Uuid, list[int]] = JavaMap(uuid_hash, int(expected / 0.75) + 1)
    for topic_id in subscriber.topics:
        partitions = topics[topic_id].take()
        if partitions:
            target[topic_id] = partitions
    return {topic_id: target[topic_id] for topic_id in target}


def member_sort_key(member_id: str, instance_id: str | None) -> tuple[bool, bytes]:
    """Return the sort key of a member, in Java's string order."""
    name = member_id if instance_id is None else instance_id
    return instance_id is None, name.encode("utf-16-be")


def _in_order(spec: GroupSpec) -> list[str]:
    members = spec.members
    return sorted(members, key=lambda each: member_sort_key(each, members[each].instance_id))
