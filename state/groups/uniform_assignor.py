"""The assignor `uniform` where all members subscribe to the same topics.

Source: `UniformAssignor`, `UniformHomogeneousAssignmentBuilder` in Kafka; KIP-848. All partitions
of all topics are one heap: each member gets floor(partitions / members), some one more. Balance
goes before stickiness: a member keeps what it has up to its share, what is over goes to those that
lack. Where members subscribe to different topics, `heterogeneous_assignor.py` is asked.
"""

from brokertwin.state.core.java_hashes import CAPACITY, JavaMap, uuid_hash
from brokertwin.state.core.schema import Uuid
from brokertwin.state.groups import heterogeneous_assignor
from brokertwin.state.groups.assignments import GroupSpec, Target, TargetCopy


def assign(spec: GroupSpec) -> dict[str, Target]:
    """What each member is assigned; nobody where nothing is subscribed to."""
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
    """One assignment: who has room for how many more, and what is still to be given out."""

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
        """The assignment of every member."""
        for index, (member_id, subscriber) in enumerate(self._spec.members.items()):
            self._keep(index, member_id, TargetCopy(subscriber.target))
        rest = iter(self._unassigned)
        for member_id, quota in self._unfilled:
            target = self._targets[member_id]
            target.alter()
            for _, (topic_id, partition) in zip(range(quota), rest, strict=False):
                target.add(topic_id, partition, CAPACITY)
        assert next(rest, None) is None, "a partition is left over"
        return {member_id: target.target() for member_id, target in self._targets.items()}

    def _keep(self, index: int, member_id: str, target: TargetCopy) -> None:
        """Leaves a member what it has, up to its share."""
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
            # somebody else may take the extra partition: enough of them are still to come
            quota, has_extra = quota - 1, False
        if quota > 0:
            self._unfilled.append((member_id, quota))
        self._extra -= has_extra
        self._targets[member_id] = target
