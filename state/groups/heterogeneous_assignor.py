"""The `uniform` assignor for members with different subscriptions.

Source: `UniformHeterogeneousAssignmentBuilder` in Kafka. Members keep partitions of subscribed
topics. Free partitions go, topic by topic, to the least loaded subscriber. Then partitions move,
topic by topic, from the most to the least loaded subscriber, until a round moves none or for 16
rounds. Topics with many partitions for few subscribers come first.
"""

from brokertwin.protocol.bodies import Uuid
from brokertwin.state.core.java_hashes import uuid_order
from brokertwin.state.groups.assignments import GroupSpec, Target, TargetCopy

ROUNDS_MAX = 16
UNASSIGNED = -1


def assign(spec: GroupSpec) -> dict[str, Target]:
    """Return each member's target; no members without subscribed topics."""
    builder = _HeterogeneousBuilder(spec)
    return builder.build() if builder.subscribers else {}


class _HeterogeneousBuilder:
    """An assignment in progress. Members are indexes.

    Attributes:
        subscribers: subscribers by topic id, in order.
        owners: owners of the partitions by topic id; UNASSIGNED if free.
        sizes: number of partitions by member.
    """

    def __init__(self, spec: GroupSpec) -> None:
        self._spec = spec
        self._targets = [TargetCopy(each.target) for each in spec.members.values()]
        self.sizes = [0] * len(spec.members)
        self.subscribers: dict[Uuid, list[int]] = {}
        for index, subscriber in enumerate(spec.members.values()):
            for topic_id in subscriber.topics:
                self.subscribers.setdefault(topic_id, []).append(index)
        self.owners = {
            topic_id: [UNASSIGNED] * spec.partition_counts[topic_id]
            for topic_id in self.subscribers
        }

    def build(self) -> dict[str, Target]:
        for index, subscriber in enumerate(self._spec.members.values()):
            self._keep(index, set(subscriber.topics))
        self._assign_rest()
        self._balance()
        return {
            member_id: target.target()
            for member_id, target in zip(self._spec.members, self._targets, strict=True)
        }

    def _keep(self, index: int, topics: set[Uuid]) -> None:
        target = self._targets[index]
        for topic_id in target.former:
            if topic_id not in topics:
                target.alter().pop(topic_id)
                continue
            for partition in target.former[topic_id]:
                self.owners[topic_id][partition] = index
                self.sizes[index] += 1

    def _in_order(self, topic_ids: list[Uuid]) -> list[Uuid]:
        """Sort by partitions per subscriber (descending), subscribers, id."""

        def sort_key(topic_id: Uuid) -> tuple[float, int, tuple[int, int]]:
            count = len(self.subscribers[topic_id])
            return -len(self.owners[topic_id]) / count, count, uuid_order(topic_id)

        return sorted(topic_ids, key=sort_key)

    def _assign_rest(self) -> None:
        free = {
            topic_id: [at for at, owner in enumerate(owners) if owner == UNASSIGNED]
            for topic_id, owners in self.owners.items()
        }
        for topic_id in self._in_order([topic_id for topic_id in free if free[topic_id]]):
            balancer = _Balancer(self.sizes, self.subscribers[topic_id])
            for partition in free[topic_id]:
                self._assign(topic_id, partition, balancer.next_least_loaded())

    def _balance(self) -> None:
        """Move partitions until a whole round moves none."""
        topic_ids = self._in_order([each for each in self.subscribers if self._is_shared(each)])
        last = UNASSIGNED
        for _ in range(ROUNDS_MAX):
            for at, topic_id in enumerate(topic_ids):
                if at == last:
                    return
                if self._balance_topic(topic_id) or last == UNASSIGNED:
                    last = at

    def _is_shared(self, topic_id: Uuid) -> bool:
        return len(self.subscribers[topic_id]) > 1

    def _balance_topic(self, topic_id: Uuid) -> int:
        """Balance a topic's subscribers and return the number of moves."""
        balancer = _Balancer(self.sizes, self.subscribers[topic_id])
        if balancer.imbalance <= 1:
            return 0
        owned: dict[int, list[int]] = {}
        for partition, owner in enumerate(self.owners[topic_id]):
            owned.setdefault(owner, []).append(partition)
        moved = 0
        while not balancer.is_balanced():
            most_loaded = balancer.next_most_loaded()
            while most_loaded != UNASSIGNED and not owned.get(most_loaded):
                balancer.exclude_most_loaded()
                most_loaded = balancer.next_most_loaded()
            if most_loaded == UNASSIGNED:
                break
            partition = owned[most_loaded].pop()
            least_loaded = balancer.next_least_loaded()
            if balancer.is_balanced():
                break
            self._assign(topic_id, partition, least_loaded)
            moved += 1
        return moved

    def _assign(self, topic_id: Uuid, partition: int, index: int) -> None:
        former = self.owners[topic_id][partition]
        if former != UNASSIGNED:
            self._targets[former].remove(topic_id, partition)
            self.sizes[former] -= 1
        share = -(-len(self.owners[topic_id]) // len(self.subscribers[topic_id]))
        self._targets[index].add(topic_id, partition, int(share / 0.75) + 1)
        self.owners[topic_id][partition] = index
        self.sizes[index] += 1


class _Balancer:
    """The subscribers of a topic by load, with ranges at both ends.

    Members are picked in turn from the lower range, which grows as it fills, and from the upper
    range, which grows as it empties. `sizes` changes as partitions move.
    """

    def __init__(self, sizes: list[int], subscribers: list[int]) -> None:
        self._sizes = sizes
        self._members = sorted(subscribers, key=lambda index: (sizes[index], index))
        self._least_end = 0
        self._least_level = sizes[self._members[0]] - 1
        self._next_least = 0
        self._most_start = self._most_end = len(self._members)
        self._most_level = sizes[self._members[-1]] + 1
        self._next_most = len(self._members) - 1
        self.imbalance = sizes[self._members[-1]] - sizes[self._members[0]]

    def next_least_loaded(self) -> int:
        """Return the member that gets the next partition."""
        if self._next_least >= self._least_end:
            self._least_level += 1
            while self._least_end < len(self._members) and self._is_at(
                self._least_end, self._least_level
            ):
                self._least_end += 1
            self._next_least = 0
        self._next_least += 1
        return self._members[self._next_least - 1]

    def next_most_loaded(self) -> int:
        """Return the member that gives up a partition, or UNASSIGNED."""
        if self._next_most < self._most_start:
            if self._most_end <= self._most_start and self._most_start > 0:
                self._most_level = self._sizes[self._members[self._most_start - 1]]
            else:
                self._most_level -= 1
            while self._most_start > 0 and self._is_at(self._most_start - 1, self._most_level):
                self._most_start -= 1
            self._next_most = self._most_end - 1
        if self._next_most < 0:
            return UNASSIGNED
        self._next_most -= 1
        return self._members[self._next_most + 1]

    def exclude_most_loaded(self) -> None:
        """Exclude the last picked member: it has no partition of this topic."""
        picked, end = self._next_most + 1, self._most_end - 1
        self._members[picked], self._members[end] = self._members[end], self._members[picked]
        self._most_end -= 1

    def is_balanced(self) -> bool:
        """True if the two ranges differ by at most one partition."""
        return self._most_level - self._least_level <= 1

    def _is_at(self, at: int, level: int) -> bool:
        return self._sizes[self._members[at]] == level
