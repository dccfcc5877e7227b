"""The assignor `uniform` where members subscribe to different topics.

Source: `UniformHeterogeneousAssignmentBuilder` in Kafka. Members keep what they have of what they
still subscribe to. What is left goes, topic by topic, to the least loaded subscriber. Then
partitions move, topic by topic, from the most to the least loaded of its subscribers, until a round
moves nothing, or for 16 rounds. Topics with many partitions for few subscribers come first.
"""

from brokertwin.state.core.java_hashes import uuid_order
from brokertwin.state.core.schema import Uuid
from brokertwin.state.groups.assignments import GroupSpec, Target, TargetCopy

ROUNDS_MAX = 16
UNASSIGNED = -1


def assign(spec: GroupSpec) -> dict[str, Target]:
    """What each member is assigned; nobody where nothing is subscribed to."""
    builder = _HeterogeneousBuilder(spec)
    return builder.build() if builder.subscribers else {}


class _HeterogeneousBuilder:
    """One assignment. Members go by their place in the group, 0 and up.

    Attributes:
        subscribers: topic id to its subscribers, in order.
        owners: topic id to the owner of each partition, NOBODY where there is none.
        sizes: how many partitions each member has.
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
        """The assignment of every member."""
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
        """Most partitions for a subscriber first, then fewest subscribers, then by id."""

        def place(topic_id: Uuid) -> tuple[float, int, tuple[int, int]]:
            count = len(self.subscribers[topic_id])
            return -len(self.owners[topic_id]) / count, count, uuid_order(topic_id)

        return sorted(topic_ids, key=place)

    def _assign_rest(self) -> None:
        rest = {
            topic_id: [at for at, owner in enumerate(owners) if owner == UNASSIGNED]
            for topic_id, owners in self.owners.items()
        }
        for topic_id in self._in_order([topic_id for topic_id in rest if rest[topic_id]]):
            balancer = _Balancer(self.sizes, self.subscribers[topic_id])
            for partition in rest[topic_id]:
                self._give(topic_id, partition, balancer.next_least_loaded())

    def _balance(self) -> None:
        """Moves partitions until a whole round has moved none since the last move."""
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
        """Balances the subscribers of a topic by its partitions; how many have moved."""
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
            self._give(topic_id, partition, least_loaded)
            moved += 1
        return moved

    def _give(self, topic_id: Uuid, partition: int, index: int) -> None:
        former = self.owners[topic_id][partition]
        if former != UNASSIGNED:
            self._targets[former].remove(topic_id, partition)
            self.sizes[former] -= 1
        share = -(-len(self.owners[topic_id]) // len(self.subscribers[topic_id]))
        self._targets[index].add(topic_id, partition, int(share / 0.75) + 1)
        self.owners[topic_id][partition] = index
        self.sizes[index] += 1


class _Balancer:
    """The subscribers of a topic, the least loaded first, and two ranges at the ends.

    Who is least loaded is picked in turn from the lower range, which grows upwards as it fills; who
    is most loaded from the upper one, which grows downwards as it is emptied. `_sizes` change under
    it, as partitions are given.
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
        """Who gets the next partition."""
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
        """Who gives a partition; NOBODY where nobody has one to give."""
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
        """Who was just picked has nothing of this topic to give."""
        picked, end = self._next_most + 1, self._most_end - 1
        self._members[picked], self._members[end] = self._members[end], self._members[picked]
        self._most_end -= 1

    def is_balanced(self) -> bool:
        """Whether the two ranges are at most one partition apart."""
        return self._most_level - self._least_level <= 1

    def _is_at(self, at: int, level: int) -> bool:
        return self._sizes[self._members[at]] == level
