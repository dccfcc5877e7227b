"""The assignor `simple` of share groups: each partition goes to as many members as it takes.

Source: `SimpleAssignor`, `SimpleHomogeneousAssignmentBuilder`,
`SimpleHeterogeneousAssignmentBuilder` in Kafka; KIP-932. With `members` members and `partitions`
partitions a partition is shared by `ceil(members / partitions)` of them, and members have their
share of those places. A member keeps what it has up to its share; what is over goes to those that
lack, partition by partition, in turns. Where members subscribe to different topics this is done
for each topic alone, among those who subscribe to it.
"""

import math
from collections.abc import Callable, Iterable

from brokertwin.state.core.java_hashes import CAPACITY, JavaMap, own_hash, uuid_hash
from brokertwin.state.core.schema import Uuid
from brokertwin.state.groups.assignments import GroupSpec, Target, TargetCopy

SIMPLE = "simple"
"""The name of the assignor."""

AssignablePartition = tuple[Uuid, int]
"""A topic id and a partition."""

PartitionSet = JavaMap[AssignablePartition, None]
MemberSet = JavaMap[int, None]
"""Sets of partitions, and of members by their positions among all."""


def assign(spec: GroupSpec) -> dict[str, Target]:
    """What each member is assigned; nobody where nothing is subscribed to."""
    if not any(each.topics for each in spec.members.values()):
        return {}
    copies = [TargetCopy(each.target) for each in spec.members.values()]
    subscribers = list(spec.members.values())
    if spec.is_homogeneous:
        everybody = list(range(len(subscribers)))
        whole = _SharedAssignment(
            copies, _places(spec, subscribers[0].topics), everybody, place_hash
        )
        whole.forget_topics(subscribers[0].topics)
        whole.share()
    else:
        for topic_id in _subscribed(spec):
            members = [at for at, each in enumerate(subscribers) if topic_id in each.topics]
            places = _places(spec, [topic_id])
            part = _SharedAssignment(copies, places, members, lambda place: place[1])
            part.keep_topic(topic_id)
            part.share()
    return {each: copy.target() for each, copy in zip(spec.members, copies, strict=True)}


def place_hash(place: AssignablePartition) -> int:
    """`hashCode` of the record `TopicIdPartition`."""
    return 31 * uuid_hash(place[0]) + place[1]


def _subscribed(spec: GroupSpec) -> list[Uuid]:
    """All topics that somebody subscribes to, as a `HashSet` has them."""
    subscribed: JavaMap[Uuid, None] = JavaMap(uuid_hash)
    for subscriber in spec.members.values():
        for topic_id in subscriber.topics:
            subscribed[topic_id] = None
    return list(subscribed)


def _places(spec: GroupSpec, topics: Iterable[Uuid]) -> list[AssignablePartition]:
    """The partitions of topics that may be assigned: all, or those that are known to be ready."""
    return [
        (topic_id, partition)
        for topic_id in topics
        for partition in range(spec.partition_counts[topic_id])
        if spec.assignable is None or partition in spec.assignable.get(topic_id, ())
    ]


def _size(count: int) -> int:
    """The capacity that Kafka gives a map of `count` items."""
    return int((count + 1) / 0.75 + 1)


class _SharedAssignment:
    """How some partitions are shared among some members.

    Attributes:
        copies: what each member of the group has; it is altered.
        places: the partitions.
        members: who subscribes to them, by position among all.
    """

    def __init__(
        self,
        copies: list[TargetCopy],
        places: list[AssignablePartition],
        members: list[int],
        hash_code: Callable[[AssignablePartition], int],
    ) -> None:
        self.copies, self.places, self.members = copies, places, members
        self._hash_code = hash_code
        self._sharing = -(-len(members) // len(places)) if places else 0
        precise = self._sharing * len(places) / len(members)
        self._shares = dict.fromkeys(range(len(copies)), 0)
        for at, member in enumerate(members):
            self._shares[member] = math.ceil(precise * (at + 1)) - math.ceil(precise * at)
        self._owners: JavaMap[AssignablePartition, MemberSet] = JavaMap(
            hash_code, _size(len(places))
        )
        self._had: JavaMap[int, PartitionSet] = JavaMap(own_hash, _size(len(members)))

    def forget_topics(self, topics: list[Uuid]) -> None:
        """Notes what members have of these topics, and takes all others away."""
        for member, copy in enumerate(self.copies):
            had = 0
            for topic_id in list(copy.former):
                if topic_id not in topics:
                    copy.alter().pop(topic_id)
                    continue
                for partition in copy.former[topic_id]:
                    had += 1
                    self._note(member, (topic_id, partition))
                    if had >= self._shares[member]:
                        copy.alter()

    def keep_topic(self, topic_id: Uuid) -> None:
        """Notes what members have of a topic."""
        for member, copy in enumerate(self.copies):
            partitions = list(copy.former[topic_id]) if topic_id in copy.former else []
            for partition in partitions:
                self._note(member, (topic_id, partition))

    def share(self) -> None:
        """Takes from those who have too much, and gives to those who lack."""
        self._take_from_overfilled()
        self._take_overshared()
        for place in self.places:
            owners: MemberSet = JavaMap(own_hash, _size(len(self.members)))
            self._owners.compute_if_absent(place, owners)
        self._give_rest()

    def _note(self, member: int, place: AssignablePartition) -> int:
        """A member has a partition; how many it has by now."""
        self._owners.compute_if_absent(place, JavaMap(own_hash))[member] = None
        had = self._had.compute_if_absent(member, JavaMap(self._hash_code))
        had[place] = None
        return len(had)

    def _take(self, member: int, place: AssignablePartition) -> bool:
        """A member is not to have a partition; whether it had it. Its topic stays, if empty."""
        assigned, (topic_id, partition) = self.copies[member].alter(), place
        if topic_id not in assigned or partition not in assigned[topic_id]:
            return False
        assigned[topic_id].pop(partition)
        self._owners[place].pop(member)
        self._had[member].pop(place)
        return True

    def _take_from_overfilled(self) -> None:
        for member in self._had:
            over = len(self._had[member]) - self._shares[member]
            for place in list(self._had[member])[: max(over, 0)]:
                self._take(member, place)

    def _take_overshared(self) -> None:
        for place in self._owners:
            for member in list(self._owners[place]):
                if len(self._owners[place]) <= self._sharing:
                    break
                self._take(member, place)

    def _give_rest(self) -> None:
        """Fills partitions up, each time from the member after the one that got the last."""
        unfilled: MemberSet = JavaMap(own_hash, _size(len(self.copies)))
        for each in self.members:
            had = len(self._had[each]) if each in self._had else 0
            if had < self._shares[each]:
                unfilled[each] = None
        turn, has_given = iter(list(unfilled)), False
        for place in self._owners:
            wanted = self._sharing - len(self._owners[place])
            while wanted > 0:
                if (member := next(turn, None)) is None:
                    if not has_given or not len(unfilled):
                        break
                    turn, has_given = iter(list(unfilled)), False
                    continue
                if member in self._owners[place]:
                    continue
                self.copies[member].add(*place, CAPACITY)
                wanted, has_given = wanted - 1, True
                if self._note(member, place) >= self._shares[member]:
                    unfilled.pop(member)
            if not len(unfilled):
                break
