"""The assignor `range`: each topic's partitions in ranges, the same member first for all topics.

Source: `RangeAssignor` in Kafka; KIP-848. Members are taken in the order of their instance ids,
static ones first, then of their member ids. Each gets partitions / subscribers, and the first ones
one more where that leaves a rest. Stickiness is none of its own: who comes back to the same place
in the order gets the same range.
"""

from brokertwin.state.core.java_hashes import JavaMap, uuid_hash
from brokertwin.state.core.schema import Uuid
from brokertwin.state.groups.assignments import GroupSpec, Target


class _Topic:
    """A topic whose partitions are given out from 0 on."""

    def __init__(self, partition_count: int, subscriber_count: int) -> None:
        self._partition_count = partition_count
        self._quota, self._extra = divmod(partition_count, subscriber_count)
        self._next = 0

    def take(self) -> list[int]:
        """The next member's partitions."""
        first = self._next
        self._next = min(first + self._quota + (self._extra > 0), self._partition_count)
        self._extra = max(self._extra - 1, 0)
        return list(range(first, self._next))


def assign(spec: GroupSpec) -> dict[str, Target]:
    """What each member is assigned; topics without a partition for it are left out."""
    subscribers: dict[Uuid, int] = {}
    for subscriber in spec.members.values():
        for topic_id in subscriber.topics:
            subscribers[topic_id] = subscribers.get(topic_id, 0) + 1
    topics = {
        topic_id: _Topic(spec.partition_counts[topic_id], count)
        for topic_id, count in subscribers.items()
    }
    taken = {member_id: _take(spec, member_id, topics) for member_id in _in_order(spec)}
    return {member_id: taken[member_id] for member_id in spec.members}


def _take(spec: GroupSpec, member_id: str, topics: dict[Uuid, _Topic]) -> Target:
    """A member's partitions, by topic in the order of Kafka's map."""
    subscriber = spec.members[member_id]
    expected = len(subscriber.topics) if spec.is_homogeneous else subscriber.names_count
    target: JavaMap[Uuid, list[int]] = JavaMap(uuid_hash, int(expected / 0.75) + 1)
    for topic_id in subscriber.topics:
        partitions = topics[topic_id].take()
        if partitions:
            target[topic_id] = partitions
    return {topic_id: target[topic_id] for topic_id in target}


def member_sort_key(member_id: str, instance_id: str | None) -> tuple[bool, bytes]:
    """A member's place: static ones first by instance id, others by id, as Java compares."""
    name = member_id if instance_id is None else instance_id
    return instance_id is None, name.encode("utf-16-be")


def _in_order(spec: GroupSpec) -> list[str]:
    """The members by their places."""
    members = spec.members
    return sorted(members, key=lambda each: member_sort_key(each, members[each].instance_id))
