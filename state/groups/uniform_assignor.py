"""The `uniform` assignor for members with equal subscriptions.

Source: `UniformAssignor`, `UniformHomogeneousAssignmentBuilder` in Kafka; KIP-848. The partitions
of all topics are balanced together: each member gets floor(partitions / members), some get one
more. Balance has priority over stickiness: a member keeps its partitions up to its quota.
`heterogeneous_assignor.py` handles different subscriptions.
"""

from brokertwin.protocol.bodies import Uuid
from brokertwin.state.core.java_hashes import CAPACITY, JavaMap, uuid_hash
from brokertwin.state.groups import heterogeneous_assignor
from brokertwin.state.groups.assignments import GroupSpec, Target, TargetCopy


def assign(spec: GroupSpec) -> dict[str, Target]:
    """Return each member's target; no members without subscribed topics."""
    if not spec.members:
        return {}
    if not spec.is_homogeneous:
        return heterogeneous_assignor.assign(spec)
    first = next(iter(spec.members.values()))
    topics: JavaMap[Uuid, None] = JavaMap(uuid_hash, max(int(first.names_count / 0.75) + 1, 16))
    for topic_id in first.topics:
        topics[topic_id] = None
    return _HomogeneousBuilder(spec, topics).build() if first.topics else {}


class _HomogeneousBuilder:
    """An assignment in progress: open quotas and free partitions."""

    def __init__(self, spec: GroupSpec, topics: JavaMap[Uuid, None]) -> None:
        self._spec = spec
        self._topics = topics
        total = sum(spec.partition_counts[topic_id] for topic_id in topics)
        self._quota, self._extra = divmod(total, len(spec.members))
        self._targets: dict[str, TargetCopy] = {}
        self._unfilled: list[tuple[str, int]] = []
        self._unassigned = [
            (topic_id, partition)
            for topic_id in topics
            for partition in range(spec.partition_counts[topic_id])
            if (topic_id, partition) not in spec.is_assigned
        ]

    def build(self) -> dict[str, Target]:
        for index, (member_id, subscriber) in enumerate(self._spec.members.items()):
            self._keep(index, member_id, TargetCopy(subscriber.target))
        free = iter(self._unassigned)
        for member_id, quota in self._unfilled:
            target = self._targets[member_id]
            target.alter()
            for _, (topic_id, partition) in zip(range(quota), free, strict=False):
                target.add(topic_id, partition, CAPACITY)
        assert next(free, None) is None, "a partition is left over"
        return {member_id: target.target() for member_id, target in self._targets.items()}

    def _keep(self, index: int, member_id: str, target: TargetCopy) -> None:
        has_extra = self._extra > 0
        quota = self._quota + has_extra
        for topic_id in target.former:
            if topic_id not in self._topics:
                target.alter().pop(topic_id)
                continue
            partitions = list(target.former[topic_id])
            for partition in partitions[quota:]:
                target.remove(topic_id, partition)
                self._unassigned.append((topic_id, partition))
            quota = max(quota - len(partitions), 0)
        others = len(self._spec.members) - index
        if quota > 0 and has_extra and others > self._extra:
            # leave the extra partition to one of the following members
            quota, has_extra = quota - 1, False
        if quota > 0:
            self._unfilled.append((member_id, quota))
        self._extra -= has_extra
        self._targets[member_id] = target
