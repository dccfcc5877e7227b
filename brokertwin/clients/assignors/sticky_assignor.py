"""The assignors `sticky` and `cooperative-sticky`.

Source: `AbstractStickyAssignor`, `StickyAssignor`, `CooperativeStickyAssignor` in Kafka; KIP-54,
KIP-429. Both balance first and then minimize moves.

    all subscriptions equal    each member keeps up to its quota; free partitions go to members
                               below their quota in turn (`_EqualTopics`)
    otherwise                  `general_sticky.py`

cooperative-sticky leaves out partitions that another member has to revoke first. They are assigned
in the following rebalance.

Unlike in Kafka, nonexistent partitions are unowned: Kafka assigns partitions twice after a topic is
recreated with fewer. The greatest generation is that of this group's members, not the greatest that
the assignor ever had.
"""

from brokertwin.clients.assignors.general_sticky import assign_general
from brokertwin.clients.assignors.group import Assignment, Group, Subscription
from brokertwin.clients.assignors.owned import Claims, OwnedPartitions, weigh
from brokertwin.clients.consumer_protocol import decode_generation, decode_previous_assignment
from brokertwin.clients.partitions import TopicPartition

Moving = dict[TopicPartition, str]
"""Partitions that change owner, with the new owner."""


def assign_sticky(group: Group) -> Assignment:
    """Assign from user data; members revoked everything before joining."""
    return _assign(
        group, {name: _previous(subscription) for name, subscription in group.members.items()}
    )[0]


def assign_cooperative_sticky(group: Group) -> Assignment:
    """Assign, leaving out partitions that have to be revoked first."""
    owned = {name: _owned(subscription) for name, subscription in group.members.items()}
    assignment, moving = _assign(group, owned)
    for partition, member in moving.items():
        assignment[member].remove(partition)
    return assignment


def _previous(subscription: Subscription) -> OwnedPartitions:
    return (
        OwnedPartitions(*decode_previous_assignment(subscription.user_data))
        if subscription.user_data
        else OwnedPartitions([], None)
    )


def _owned(subscription: Subscription) -> OwnedPartitions:
    if subscription.generation_id is not None or subscription.user_data is None:
        return OwnedPartitions(list(subscription.owned), subscription.generation_id)
    return OwnedPartitions(list(subscription.owned), decode_generation(subscription.user_data))


def _assign(group: Group, claimed: dict[str, OwnedPartitions]) -> tuple[Assignment, Moving]:
    claims = weigh(group, claimed)
    if claims.are_topics_equal:
        return _EqualTopics(group, claims).assign()
    assignment = assign_general(group, claims.owned, claimed)
    return assignment, _moving(group, assignment)


def _moving(group: Group, assignment: Assignment) -> Moving:
    new: Moving = {}
    taken: set[TopicPartition] = set()
    for member, partitions in assignment.items():
        had = group.members[member].owned
        new |= dict.fromkeys(set(partitions).difference(had), member)
        taken |= set(had).difference(partitions)
    return {partition: member for partition, member in new.items() if partition in taken}


class _EqualTopics:
    """One assignment if all members subscribe to the same topics.

    Each member gets the lower quota, and `_over_max` of them get one more. `_below` has members
    below the quota, and `_even` members at the quota that can get one more.
    """

    def __init__(self, group: Group, claims: Claims) -> None:
        self._claims = claims
        self._partitions = group.partitions(sorted(group.partition_counts))
        self._quota, self._over_max = divmod(len(self._partitions), len(group.members))
        self._over = 0
        self._below: list[str] = []
        self._even: list[str] = []
        self._given_back: Moving = {}
        self._assignment: Assignment = {member: [] for member in group.members}

    def assign(self) -> tuple[Assignment, Moving]:
        for member, owned in self._claims.owned.items():
            in_order = sorted(owned, key=lambda each: (each.partition, each.topic))
            self._keep(member, [p for p in in_order if p not in self._claims.doubly_claimed])
        kept = {partition for owned in self._assignment.values() for partition in owned}
        return self._assignment, self._give_out([p for p in self._partitions if p not in kept])

    def _keep(self, member: str, owned: list[TopicPartition]) -> None:
        quota = self._quota
        has_room = self._over < self._over_max
        if len(owned) < quota:
            self._below.append(member)
        elif has_room and len(owned) > quota:
            quota += 1
            self._over += 1
            if self._over == self._over_max:
                self._even.clear()
        elif has_room:
            self._even.append(member)
        self._assignment[member] += owned[:quota]
        self._given_back |= dict.fromkeys(owned[quota:], member)

    def _give_out(self, free: list[TopicPartition]) -> Moving:
        """Fill members below quota in turn, then give one each to the rest."""
        moving: Moving = {}
        below, even, at = sorted(self._below), sorted(self._even), 0
        for partition in free:
            if below:
                at %= len(below)
                member = below[at]
                at += 1
            else:
                member = even.pop(0)
            self._assignment[member].append(partition)
            former = self._given_back.get(partition, member)
            if former != member or partition in self._claims.doubly_claimed:
                moving[partition] = member
            if below and len(self._assignment[member]) == self._quota:
                at -= 1
                del below[at]
                even.append(member)
        return moving
