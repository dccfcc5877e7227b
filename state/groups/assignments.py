"""Assignments, and the input and output of assignors.

Source: `GroupSpec`, `MemberSubscription`, `MemberAssignment`, `AssignorHelpers`, `TopicIds` in
Kafka. Everything is in the iteration order of Kafka's maps and sets, because it determines which
partitions move (`state/core/java_hashes.py`).
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from brokertwin.protocol.bodies import Uuid
from brokertwin.state.core.java_hashes import JavaMap, hash_map_order, own_hash, uuid_hash

Target = dict[Uuid, list[int]]
"""Partitions by topic id, both in Kafka's order."""

Assigned = dict[Uuid, dict[int, int]]
"""Assignment epoch by topic id and partition."""


def as_sets(target: Target) -> dict[Uuid, set[int]]:
    return {topic_id: set(partitions) for topic_id, partitions in target.items()}


def in_hash_order(*parts: Mapping[Uuid, Iterable[int]]) -> Target:
    """Merge assignments, by topic in the order of a Java `HashMap`.

    Each part's partitions are sorted. Kafka stores current assignments in this order.
    """
    partitions: Target = {}
    for part in parts:
        for topic_id, numbers in part.items():
            partitions.setdefault(topic_id, []).extend(sorted(numbers))
    ordered = hash_map_order(partitions, uuid_hash, len(partitions))
    return {topic_id: partitions[topic_id] for topic_id in ordered}


Partitions = JavaMap[int, None]
"""A set of partitions."""

UNIFORM, RANGE = "uniform", "range"
"""Names of Kafka's assignors."""


class Subscriber(NamedTuple):
    """A member as an assignor sees it.

    Attributes:
        instance_id: instance id of a static member.
        topics: ids of the existing subscribed topics, in the order of names.
        names_count: number of subscribed names, including missing topics.
        target: its former target.
    """

    instance_id: str | None
    topics: list[Uuid]
    names_count: int
    target: Target


class GroupSpec(NamedTuple):
    """A group as an assignor sees it.

    Attributes:
        members: by member id, in Kafka's order.
        partition_counts: of all subscribed topics.
        is_homogeneous: whether all subscriptions are equal.
        is_assigned: topic id and partition of all assigned partitions.
        assignable: partitions that may be assigned, by topic; None for all.
    """

    members: dict[str, Subscriber]
    partition_counts: dict[Uuid, int]
    is_homogeneous: bool
    is_assigned: set[tuple[Uuid, int]]
    assignable: dict[Uuid, set[int]] | None = None


class TargetCopy:
    """A member's assignment while an assignor works on it.

    It is copied on the first change, because a copy may have another iteration order
    (`AssignorHelpers.deepCopyAssignment`).
    """

    def __init__(self, target: Target) -> None:
        self.former: JavaMap[Uuid, Partitions] = JavaMap(uuid_hash)
        for topic_id, partitions in target.items():
            self.former[topic_id] = JavaMap.holding(own_hash, dict.fromkeys(partitions))
        self._copy: JavaMap[Uuid, Partitions] | None = None

    def alter(self) -> JavaMap[Uuid, Partitions]:
        if self._copy is None:
            self._copy = JavaMap(uuid_hash, len(self.former))
            for topic_id in self.former:
                kept = dict.fromkeys(self.former[topic_id])
                self._copy[topic_id] = JavaMap.holding(own_hash, kept)
        return self._copy

    def remove(self, topic_id: Uuid, partition: int) -> None:
        assigned = self.alter()
        if topic_id in assigned:
            assigned[topic_id].pop(partition)
            if not len(assigned[topic_id]):
                assigned.pop(topic_id)

    def add(self, topic_id: Uuid, partition: int, capacity: int) -> None:
        """Add a partition; `capacity` is for the set of a new topic."""
        assigned = self.alter().compute_if_absent(topic_id, JavaMap(own_hash, capacity))
        assigned[partition] = None

    def target(self) -> Target:
        found = self.former if self._copy is None else self._copy
        return {topic_id: list(found[topic_id]) for topic_id in found}
