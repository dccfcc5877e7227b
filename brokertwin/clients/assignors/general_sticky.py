"""Sticky assignment if members subscribe to different topics.

Source: `AbstractStickyAssignor.GeneralAssignmentBuilder`, `PartitionMovements` in Kafka. A free
partition goes to the subscriber with the fewest partitions. Then partitions move to members with at
least two fewer, until no move is left. If the result is not more balanced, all moves are undone. A
partition returns to its owner of two generations ago. Between two members, partitions of a topic
move in one direction only.

Unlike in Kafka, a partition does not return to a member that no longer subscribes to its topic or
whose assignment is final. Kafka assigns it anyway, or its leader fails with a NullPointerException.
"""

from itertools import combinations
from typing import NamedTuple

from brokertwin.clients.assignors.group import NO_GENERATION, Assignment, Group, partition_hash
from brokertwin.clients.assignors.owned import OwnedPartitions
from brokertwin.clients.partitions import TopicPartition
from brokertwin.state.core.java_hashes import JavaMap


class PartitionMove(NamedTuple):
    source: str
    target: str


Partitions = JavaMap[TopicPartition, None]
"""A set of partitions."""


class _Movements:
    """The partitions that moved, by topic and direction."""

    def __init__(self) -> None:
        self._ways: dict[TopicPartition, PartitionMove] = {}
        self._moved: dict[tuple[str, PartitionMove], Partitions] = {}

    def move(self, partition: TopicPartition, source: str, target: str) -> None:
        """Record a move; a partition that returns has not moved."""
        former = self._ways.pop(partition, None)
        if former is not None:
            moved = self._moved[partition.topic, former]
            moved.pop(partition)
            if not len(moved):
                del self._moved[partition.topic, former]
            source = former.source
        if source != target:
            way = self._ways[partition] = PartitionMove(source, target)
            moved = self._moved.setdefault((partition.topic, way), JavaMap(partition_hash))
            moved[partition] = None

    def in_its_place(self, partition: TopicPartition, source: str, target: str) -> TopicPartition:
        """Return the partition to move instead.

        Another partition of the topic that moved the other way goes back first.
        """
        former = self._ways.get(partition)
        way = PartitionMove(target, source if former is None else former.source)
        return next(iter(self._moved.get((partition.topic, way), ())), partition)


def previous_owners(claims: dict[str, OwnedPartitions]) -> dict[TopicPartition, str]:
    generations = {member: owned.generation for member, owned in claims.items()}
    known = [NO_GENERATION if each is None else each for each in generations.values()]
    newest = max(known, default=NO_GENERATION)
    owners: dict[TopicPartition, tuple[int, str]] = {}
    for member, owned in claims.items():
        generation = NO_GENERATION if owned.generation is None else owned.generation
        if generation < newest:
            for partition in owned.partitions:
                if partition not in owners or generation > owners[partition][0]:
                    owners[partition] = (generation, member)
    return {partition: member for partition, (_, member) in owners.items()}


def assign_general(
    group: Group, owned: dict[str, list[TopicPartition]], claims: dict[str, OwnedPartitions]
) -> Assignment:
    """Assign partitions; `owned` is resolved, `claims` is what members claim."""
    return _General(group, owned, previous_owners(claims)).assign()


class _General:
    """One assignment. `_active` are the members that can still change."""

    def __init__(
        self,
        group: Group,
        owned: dict[str, list[TopicPartition]],
        previous: dict[TopicPartition, str],
    ) -> None:
        self._previous = previous
        counts = group.partition_counts
        self._topics = {
            member: [topic for topic in subscription.topics if topic in counts]
            for member, subscription in group.members.items()
        }
        self._wanted_by = {topic: group.subscribers(topic) for topic in counts}
        by_subscribers = sorted(counts, key=lambda topic: (len(self._wanted_by[topic]), topic))
        self._partitions = group.partitions(by_subscribers)
        self._most = {m: sum(counts[t] for t in topics) for m, topics in self._topics.items()}
        self._counts = counts
        self._assignment = {
            member: [p for p in owned[member] if p.topic in self._topics[member]]
            for member in group.members
        }
        self._has_lost = self._assignment != owned
        self._owners = {p: m for m, partitions in self._assignment.items() for p in partitions}
        self._movements = _Movements()
        self._active = set(group.members)

    def assign(self) -> Assignment:
        is_new = not max(self._assignment.values(), key=len)
        free = [partition for partition in self._partitions if partition not in self._owners]
        for partition in free:
            self._give(partition, self._least(partition.topic))
        movable = [p for p in self._partitions if len(self._wanted_by[p.topic]) > 1]
        self._active = {member for member in self._assignment if self._can_change(member)}
        before = {member: list(partitions) for member, partitions in self._assignment.items()}
        if not self._has_lost:
            self._even_out([p for p in free if len(self._wanted_by[p.topic]) > 1])
        has_moved = self._even_out(movable)
        if (
            has_moved
            and not is_new
            and self._unevenness(self._assignment) >= self._unevenness(before)
        ):
            return before
        return self._assignment

    def _give(self, partition: TopicPartition, member: str) -> None:
        self._assignment[member].append(partition)
        self._owners[partition] = member

    def _least(self, topic: str) -> str:
        """The subscriber with the fewest partitions among members that can change."""
        able = (member for member in self._wanted_by[topic] if member in self._active)
        return min(able, key=lambda member: (len(self._assignment[member]), member))

    def _can_change(self, member: str) -> bool:
        """Whether the member can gain a partition or share one."""
        has = self._assignment[member]
        return len(has) < self._most[member] or any(len(self._wanted_by[p.topic]) > 1 for p in has)

    def _even_out(self, partitions: list[TopicPartition]) -> bool:
        """Move partitions until no move improves balance; True if any moved."""
        has_moved = is_moving = False
        while True:
            is_moving = False
            for partition in partitions:
                if self._is_even():
                    break
                target = self._better(partition)
                if target is not None:
                    self._move(partition, target)
                    has_moved = is_moving = True
            if not is_moving:
                return has_moved

    def _better(self, partition: TopicPartition) -> str | None:
        """The better owner: the previous one, else the least loaded member."""
        size = len(self._assignment[self._owners[partition]])
        previous = self._previous.get(partition)
        may_go_back = previous in self._active and partition.topic in self._topics[previous]
        if previous is not None and may_go_back and size > len(self._assignment[previous]) + 1:
            return previous
        least = self._least(partition.topic)
        return least if size > len(self._assignment[least]) + 1 else None

    def _move(self, partition: TopicPartition, target: str) -> None:
        source = self._owners[partition]
        partition = self._movements.in_its_place(partition, source, target)
        source = self._owners[partition]
        self._movements.move(partition, source, target)
        self._assignment[source].remove(partition)
        self._give(partition, target)

    def _is_even(self) -> bool:
        """Whether no member can take a partition from one with two more."""
        sizes = {member: len(self._assignment[member]) for member in self._active}
        if not sizes or max(sizes.values()) - min(sizes.values()) <= 1:
            return True
        return not any(
            sizes[member] + 1 < sizes.get(self._owners[TopicPartition(topic, at)], 0)
            for member in sizes
            if sizes[member] < self._most[member]
            for topic in self._topics[member]
            for at in range(self._counts[topic])
        )

    def _unevenness(self, assignment: Assignment) -> int:
        sizes = [len(assignment[member]) for member in self._active]
        return sum(abs(one - other) for one, other in combinations(sizes, 2))
