"""The `simple` assignor of share groups: members share partitions.

Source: `SimpleAssignor`, `SimpleHomogeneousAssignmentBuilder`,
`SimpleHeterogeneousAssignmentBuilder` in Kafka; KIP-932. Each partition is assigned to ceil(members
/ partitions) members. A member keeps its partitions up to its quota; the rest is assigned in turn.
With different subscriptions, this is done for each topic and its subscribers.
"""

import math
from collections.abc import Callable, Iterable

from brokertwin.protocol.bodies import Uuid
from brokertwin.state.core.java_hashes import CAPACITY, JavaMap, own_hash, uuid_hash
from brokertwin.state.groups.assignments import GroupSpec, Target, TargetCopy

SIMPLE = "simple"

AssignablePartition = tuple[Uuid, int]
"""Topic id and partition."""

PartitionSet = JavaMap[AssignablePartition, None]
MemberSet = JavaMap[int, None]
"""Members by index."""


def assign(spec: GroupSpec) -> dict[str, Target]:
    """Return each member's target; no members without subscribed topics."""
    if not any(each.topics for each in spec.members.values()):
        return {}
    copies = [TargetCopy(each.target) for each in spec.members.values()]
    subscribers = list(spec.members.values())
    if spec.is_homogeneous:
        all_members = list(range(len(subscribers)))
        whole = _SharedAssignment(
            copies, _assignable(spec, subscribers[0].topics), all_members, partition_hash
        )
        whole.keep_only_topics(subscribers[0].topics)
        whole.share()
    else:
        for topic_id in _subscribed(spec):
            members = [at for at, each in enumerate(subscribers) if topic_id in each.topics]
            partitions = _assignable(spec, [topic_id])
            part = _SharedAssignment(
                copies, partitions, members, lambda partition_id: partition_id[1]
            )
            part.keep_topic(topic_id)
            part.share()
    return {each: copy.target() for each, copy in zip(spec.members, copies, strict=True)}


def partition_hash(partition_id: AssignablePartition) -> int:
    """`hashCode` of Kafka's `TopicIdPartition`."""
    return 31 * uuid_hash(partition_id[0]) + partition_id[1]


def _subscribed(spec: GroupSpec) -> list[Uuid]:
    """Return all subscribed topics in the order of a `HashSet`."""
    subscribed: JavaMap[Uuid, None] = JavaMap(uuid_hash)
    for subscriber in spec.members.values():
        for topic_id in subscriber.topics:
            subscribed[topic_id] = None
    return list(subscribed)


def _assignable(spec: GroupSpec, topics: Iterable[Uuid]) -> list[AssignablePartition]:
    return [
        (topic_id, partition)
        for topic_id in topics
        for partition in range(spec.partition_counts[topic_id])
        if spec.assignable is None or partition in spec.assignable.get(topic_id, ())
    ]


def _size(count: int) -> int:
    """Return the capacity of Kafka's map for `count` items."""
    return int((count + 1) / 0.75 + 1)


class _SharedAssignment:
    """An assignment of partitions to members that share them.

    Attributes:
        copies: the members' assignments, modified in place.
        members: indexes of the subscribers.
    """

    def __init__(
        self,
        copies: list[TargetCopy],
        partitions: list[AssignablePartition],
        members: list[int],
        hash_code: Callable[[AssignablePartition], int],
    ) -> None:
        self.copies, self.partitions, self.members = copies, partitions, members
        self._hash_code = hash_code
        self._members_per_partition = -(-len(members) // len(partitions)) if partitions else 0
        precise = self._members_per_partition * len(partitions) / len(members)
        self._quotas = dict.fromkeys(range(len(copies)), 0)
        for at, member in enumerate(members):
            self._quotas[member] = math.ceil(precise * (at + 1)) - math.ceil(precise * at)
        self._owners: JavaMap[AssignablePartition, MemberSet] = JavaMap(
            hash_code, _size(len(partitions))
        )
        self._assigned: JavaMap[int, PartitionSet] = JavaMap(own_hash, _size(len(members)))

    def keep_only_topics(self, topics: list[Uuid]) -> None:
        """Note the members' partitions of these topics and remove all others."""
        for member, copy in enumerate(self.copies):
            count = 0
            for topic_id in list(copy.former):
                if topic_id not in topics:
                    copy.alter().pop(topic_id)
                    continue
                for partition in copy.former[topic_id]:
                    count += 1
                    self._note(member, (topic_id, partition))
                    if count >= self._quotas[member]:
                        copy.alter()

    def keep_topic(self, topic_id: Uuid) -> None:
        for member, copy in enumerate(self.copies):
            partitions = list(copy.former[topic_id]) if topic_id in copy.former else []
            for partition in partitions:
                self._note(member, (topic_id, partition))

    def share(self) -> None:
        self._remove_above_quota()
        self._remove_excess_owners()
        for partition_id in self.partitions:
            owners: MemberSet = JavaMap(own_hash, _size(len(self.members)))
            self._owners.compute_if_absent(partition_id, owners)
        self._assign_rest()

    def _note(self, member: int, partition_id: AssignablePartition) -> int:
        self._owners.compute_if_absent(partition_id, JavaMap(own_hash))[member] = None
        assigned = self._assigned.compute_if_absent(member, JavaMap(self._hash_code))
        assigned[partition_id] = None
        return len(assigned)

    def _remove(self, member: int, partition_id: AssignablePartition) -> bool:
        """Remove a partition from a member; True if the member had it.

        Its topic stays in the assignment, even if it is empty.
        """
        assigned, (topic_id, partition) = self.copies[member].alter(), partition_id
        if topic_id not in assigned or partition not in assigned[topic_id]:
            return False
        assigned[topic_id].pop(partition)
        self._owners[partition_id].pop(member)
        self._assigned[member].pop(partition_id)
        return True

    def _remove_above_quota(self) -> None:
        for member in self._assigned:
            excess = len(self._assigned[member]) - self._quotas[member]
            for partition_id in list(self._assigned[member])[: max(excess, 0)]:
                self._remove(member, partition_id)

    def _remove_excess_owners(self) -> None:
        for partition_id in self._owners:
            for member in list(self._owners[partition_id]):
                if len(self._owners[partition_id]) <= self._members_per_partition:
                    break
                self._remove(member, partition_id)

    def _assign_rest(self) -> None:
        """Assign the rest, continuing with the member after the last one."""
        unfilled: MemberSet = JavaMap(own_hash, _size(len(self.copies)))
        for each in self.members:
            count = len(self._assigned[each]) if each in self._assigned else 0
            if count < self._quotas[each]:
                unfilled[each] = None
        following, has_assigned = iter(list(unfilled)), False
        for partition_id in self._owners:
            missing = self._members_per_partition - len(self._owners[partition_id])
            while missing > 0:
                if (member := next(following, None)) is None:
                    if not has_assigned or not len(unfilled):
                        break
                    following, has_assigned = iter(list(unfilled)), False
                    continue
                if member in self._owners[partition_id]:
                    continue
                self.copies[member].add(*partition_id, CAPACITY)
                missing, has_assigned = missing - 1, True
                if self._note(member, partition_id) >= self._quotas[member]:
                    unfilled.pop(member)
            if not len(unfilled):
                break
