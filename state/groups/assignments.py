"""What is assigned to members, and what an assignor is given and gives.

Source: `GroupSpec`, `MemberSubscription`, `MemberAssignment`, `AssignorHelpers`, `TopicIds` in
Kafka. Everything is in the order in which Kafka's coordinator goes through its maps and sets: which
partition a member keeps, and who gets the next one, depends on it (`state/core/java_hashes.py`).
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from brokertwin.state.core.java_hashes import JavaMap, hash_map_order, own_hash, uuid_hash
from brokertwin.state.core.schema import Uuid

Target = dict[Uuid, list[int]]
"""Partitions by topic id, both in Kafka's order."""

Assigned = dict[Uuid, dict[int, int]]
"""Topic id to partition to the epoch in which the member got it."""


def in_hash_order(*parts: Mapping[Uuid, Iterable[int]]) -> Target:
    """What a member has, by topic in the order of a Java `HashMap`; each part's partitions sorted.

    So Kafka keeps it, where it tells what it has.
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
"""The names of Kafka's own assignors."""


class Subscriber(NamedTuple):
    """A member as an assignor sees it.

    Attributes:
        instance_id: of a static member.
        topics: the ids of the topics that it subscribes to and that exist, in the order of names.
        names_count: how many names it subscribes to, topics that do not exist included.
        target: what it was assigned before.
    """

    instance_id: str | None
    topics: list[Uuid]
    names_count: int
    target: Target


class GroupSpec(NamedTuple):
    """A group as an assignor sees it.

    Attributes:
        members: by member id, in Kafka's order.
        partition_counts: of every topic that somebody subscribes to.
        is_homogeneous: whether all subscribe to the same topics.
        is_assigned: topic id and partition of all that is assigned to anybody.
        assignable: the partitions that may be assigned, by topic; None: all of them.
    """

    members: dict[str, Subscriber]
    partition_counts: dict[Uuid, int]
    is_homogeneous: bool
    is_assigned: set[tuple[Uuid, int]]
    assignable: dict[Uuid, set[int]] | None = None


class TargetCopy:
    """A member's assignment while an assignor works on it.

    It stays as it was until it is altered: an assignment that is copied may go through its topics
    and partitions in another order (`AssignorHelpers.deepCopyAssignment`).
    """

    def __init__(self, target: Target) -> None:
        self.former: JavaMap[Uuid, Partitions] = JavaMap(uuid_hash)
        for topic_id, partitions in target.items():
            self.former[topic_id] = JavaMap.holding(own_hash, dict.fromkeys(partitions))
        self._copy: JavaMap[Uuid, Partitions] | None = None

    def alter(self) -> JavaMap[Uuid, Partitions]:
        """The assignment, to be altered."""
        if self._copy is None:
            self._copy = JavaMap(uuid_hash, len(self.former))
            for topic_id in self.former:
                kept = dict.fromkeys(self.former[topic_id])
                self._copy[topic_id] = JavaMap.holding(own_hash, kept)
        return self._copy

    def remove(self, topic_id: Uuid, partition: int) -> None:
        """Takes a partition away, and its topic with the last one."""
        assigned = self.alter()
        if topic_id in assigned:
            assigned[topic_id].pop(partition)
            if not len(assigned[topic_id]):
                assigned.pop(topic_id)

    def add(self, topic_id: Uuid, partition: int, capacity: int) -> None:
        """Adds a partition; `capacity` is that of the set of a topic that is new here."""
        assigned = self.alter().compute_if_absent(topic_id, JavaMap(own_hash, capacity))
        assigned[partition] = None

    def target(self) -> Target:
        """What came of it."""
        found = self.former if self._copy is None else self._copy
        return {topic_id: list(found[topic_id]) for topic_id in found}
