"""A consumer group of KIP-848: members, epochs, assignments.

Source: `ConsumerGroup`, `ModernGroup`, `ConsumerGroupMember`, `MemberState`, `SubscriptionCount`,
`TargetAssignmentBuilder.newMemberSubscription`, `UnionSet` in Kafka. The whole state is
durable and changed by records only (`consumer_group_records.py`). The timers of the members are in
`groups.py`.

State of a member relative to the target assignment (`member_assignment.py`):

    STABLE                 has its target, or a newer target is not reconciled yet
    UNREVOKED_PARTITIONS   must revoke partitions
    UNRELEASED_PARTITIONS  waits until other members have revoked partitions
"""

from base64 import b64decode
from collections.abc import Iterable
from enum import IntEnum, StrEnum
from typing import NamedTuple

import msgspec

from brokertwin.protocol.bodies import Uuid
from brokertwin.protocol.errors import Error
from brokertwin.protocol.generated.consumer_group_rows import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupRegularExpressionValue,
)
from brokertwin.state.core.java_hashes import CAPACITY, JavaMap, java_hash, timeline_order
from brokertwin.state.groups.assignments import Assigned, Target
from brokertwin.state.groups.classic_group import CONSUMER

FIRST_EPOCH = 1
"""The group epoch and assignment epoch of a new group."""

NO_TIME = 0
"""The time of the assignment of a group without members."""

JOIN_EPOCH, LEAVE_EPOCH, STATIC_LEAVE_EPOCH = 0, -1, -2
"""Member epochs of heartbeats that join, leave or leave temporarily."""

NO_EPOCH = -1


class ConsumerGroupState(StrEnum):
    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


class ConsumerMemberState(IntEnum):
    """Kafka's `MemberState`, by code."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2


class ConsumerMember(msgspec.Struct, frozen=True):
    """A member. Times are in ms; `subscribed_topic_names` is sorted.

    `assigned` and `pending_revocation` have the epoch in which the member got each partition. Only
    members of the classic protocol have `classic_member_metadata`.
    """

    member_id: str
    member_epoch: int = 0
    previous_member_epoch: int = NO_EPOCH
    state: ConsumerMemberState = ConsumerMemberState.STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: list[str] = []
    server_assignor: str | None = None
    assigned: Assigned = {}
    pending_revocation: Assigned = {}
    classic_member_metadata: ClassicMemberMetadata | None = None
    subscribed_topic_regex: str = ""

    @property
    def uses_classic_protocol(self) -> bool:
        return self.classic_member_metadata is not None

    def classic_protocols(self) -> list[ClassicProtocol]:
        classic = self.classic_member_metadata
        return [] if classic is None else classic.supported_protocols

    def in_epoch(self, member_epoch: int) -> "ConsumerMember":
        former = self.member_epoch
        return msgspec.structs.replace(
            self, member_epoch=member_epoch, previous_member_epoch=former
        )

    def is_reconciled_to(self, assignment_epoch: int) -> bool:
        return self.state is ConsumerMemberState.STABLE and self.member_epoch == assignment_epoch

    def is_revoking(self) -> bool:
        """True if the member must revoke partitions within its rebalance timeout."""
        is_away = self.member_epoch == STATIC_LEAVE_EPOCH
        return self.state is ConsumerMemberState.UNREVOKED_PARTITIONS and not is_away


def classic_metadata(
    session_timeout_ms: int, protocols: Iterable[tuple[str, str]]
) -> ClassicMemberMetadata:
    """Return the metadata of a classic member; that of its protocols is in base64."""
    return ClassicMemberMetadata(
        session_timeout_ms, [ClassicProtocol(name, b64decode(data)) for name, data in protocols]
    )


class ConsumerGroup(msgspec.Struct, tag_field="type", tag="consumer"):
    """A group. Times are in ms since 1970.

    Attributes:
        target: target assignment by member id.
        most_members: highest member count so far; it determines Kafka's iteration order.
        subscribers: number of subscribing members by topic name.
        assignors: number of members by preferred assignor.
        static_members: member id by instance id.
        partition_epochs: epoch of the owner by topic id and partition.
        classic_members: number of members that use the classic protocol.
        supporters: number of classic members by supported protocol.
        regex_subscribers: number of members by regular expression.
        resolved: topics of resolved regular expressions; unresolved ones are missing.

    `put` and `remove` maintain the counts.
    """

    group_id: str
    group_epoch: int = FIRST_EPOCH
    metadata_hash: int = 0
    assignment_epoch: int = FIRST_EPOCH
    assignment_timestamp: int = 0
    members: dict[str, ConsumerMember] = {}
    target: dict[str, Target] = {}
    most_members: int = 0
    subscribers: dict[str, int] = {}
    assignors: dict[str, int] = {}
    static_members: dict[str, str] = {}
    partition_epochs: dict[Uuid, dict[int, int]] = {}
    classic_members: int = 0
    supporters: dict[str, int] = {}
    regex_subscribers: dict[str, int] = {}
    resolved: dict[str, ConsumerGroupRegularExpressionValue] = {}

    @property
    def protocol_type(self) -> str:
        return CONSUMER

    @property
    def state(self) -> ConsumerGroupState:
        """The group's state, derived from the epochs."""
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.group_epoch > self.assignment_epoch:
            return ConsumerGroupState.ASSIGNING
        if all(each.is_reconciled_to(self.assignment_epoch) for each in self.members.values()):
            return ConsumerGroupState.STABLE
        return ConsumerGroupState.RECONCILING

    def member_error(self, member_id: str, instance_id: str | None) -> Error:
        """Return 25 UNKNOWN_MEMBER_ID, 82 FENCED_INSTANCE_ID, or NONE."""
        if instance_id is not None:
            owner_id = self.static_members.get(instance_id)
            if owner_id is None:
                return Error.UNKNOWN_MEMBER_ID
            return Error.NONE if owner_id == member_id else Error.FENCED_INSTANCE_ID
        return Error.NONE if member_id in self.members else Error.UNKNOWN_MEMBER_ID

    def static_member(self, instance_id: str | None) -> ConsumerMember | None:
        member_id = self.static_members.get(instance_id) if instance_id is not None else None
        return self.members[member_id] if member_id is not None else None

    def target_of(self, member: ConsumerMember) -> Target:
        """Return a member's target; a replaced static member keeps its target."""
        if member.instance_id is None:
            return self.target.get(member.member_id, {})
        former = self.static_members.get(member.instance_id, "")
        return self.target.get(former, {})

    def has_owner(self, topic_id: Uuid, partition: int) -> bool:
        """True if a member owns the partition or has not revoked it yet."""
        return partition in self.partition_epochs.get(topic_id, {})

    def supports(self, protocol_type: str, protocols: Iterable[str]) -> bool:
        if protocol_type != CONSUMER:
            return False
        return any(self.supporters.get(each, 0) == self.classic_members for each in protocols)

    def in_order(self) -> list[ConsumerMember]:
        """Return the members in Kafka's iteration order."""
        return [self.members[each] for each in timeline_order(self.members, self.most_members)]

    def assignor(
        self, default: str, former: ConsumerMember | None = None, new: ConsumerMember | None = None
    ) -> str:
        """Return the assignor that most members prefer, with one member replaced.

        A tie goes to the first key of a Java map: a copy of the group's map, in which a removed and
        added assignor becomes first in its bucket (`ConsumerGroup.computePreferredServerAssignor`
        in Kafka).
        """
        known = timeline_order(self.assignors, len(self.assignors))
        copied = JavaMap[str, int](java_hash, int(len(known) / 0.75) + 1 if known else CAPACITY)
        for name in known:
            copied[name] = self.assignors[name]
        for member, by in ((former, -1), (new, 1)):
            if member is not None and member.server_assignor is not None:
                name = member.server_assignor
                copied[name] = copied.compute_if_absent(name, 0) + by
                if not copied[name]:
                    copied.pop(name)
        names = list(copied) if former is not None or new is not None else known
        return max(names, key=lambda name: copied[name]) if names else default

    def put(self, member: ConsumerMember) -> None:
        former = self.members.get(member.member_id)
        if former is not None:
            self._forget(former)
        self.members[member.member_id] = member
        self.most_members = max(self.most_members, len(self.members))
        add_counts(self.subscribers, member.subscribed_topic_names, 1)
        add_counts(self.regex_subscribers, [member.subscribed_topic_regex or None], 1)
        add_counts(self.assignors, [member.server_assignor], 1)
        self._count_classic(member, 1)
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id
        for assigned in (member.assigned, member.pending_revocation):
            for topic_id, partitions in assigned.items():
                epochs = self.partition_epochs.setdefault(topic_id, {})
                epochs.update(dict.fromkeys(partitions, member.member_epoch))

    def remove(self, member_id: str) -> None:
        self._forget(self.members.pop(member_id))

    def _count_classic(self, member: ConsumerMember, by: int) -> None:
        self.classic_members += by if member.uses_classic_protocol else 0
        names = dict.fromkeys(each.name for each in member.classic_protocols())
        add_counts(self.supporters, names, by)

    def _forget(self, member: ConsumerMember) -> None:
        """Undo the effects of a member on the counts."""
        add_counts(self.subscribers, member.subscribed_topic_names, -1)
        add_counts(self.regex_subscribers, [member.subscribed_topic_regex or None], -1)
        add_counts(self.assignors, [member.server_assignor], -1)
        self._count_classic(member, -1)
        instance_id = member.instance_id
        if instance_id is not None and self.static_members.get(instance_id) == member.member_id:
            del self.static_members[instance_id]
        for assigned in (member.assigned, member.pending_revocation):
            for topic_id, partitions in assigned.items():
                epochs = self.partition_epochs.get(topic_id, {})
                for partition in partitions:
                    if epochs.get(partition) == member.member_epoch:
                        del epochs[partition]
                if not epochs:
                    self.partition_epochs.pop(topic_id, None)


def add_counts(counts: dict[str, int], names: Iterable[str | None], by: int) -> None:
    """Add to counts and drop those that reach 0; None is ignored."""
    for name in names:
        if name is None:
            continue
        counts[name] = counts.get(name, 0) + by
        if not counts[name]:
            del counts[name]


class Subscriptions(NamedTuple):
    """Subscriptions of a group's members.

    Attributes:
        by_name: number of subscribing members by topic name.
        by_regex: number of matching regular expressions by topic name.
        regexes: number of members by regular expression.
    """

    by_name: dict[str, int]
    by_regex: dict[str, int]
    regexes: dict[str, int]

    @property
    def topics(self) -> set[str]:
        return self.by_name.keys() | self.by_regex.keys()

    def is_homogeneous(self, member_count: int) -> bool:
        """True if all members have equal subscriptions. Like Kafka, this compares counts only."""
        if not self.regexes:
            return all(count == member_count for count in self.by_name.values())
        has_one = next(iter(self.regexes.values())) == member_count
        return has_one and not self.by_name and all(n == 1 for n in self.by_regex.values())


def subscriptions_of(
    group: ConsumerGroup, former: Iterable[ConsumerMember] = (), new: Iterable[ConsumerMember] = ()
) -> Subscriptions:
    """Return a group's subscriptions after some members are replaced."""
    removed, added = list(former), list(new)
    by_name = dict(group.subscribers)
    regexes = dict(group.regex_subscribers)
    for members, by in ((removed, -1), (added, 1)):
        for member in members:
            add_counts(by_name, member.subscribed_topic_names, by)
            add_counts(regexes, [member.subscribed_topic_regex or None], by)
    by_regex: dict[str, int] = {}
    for regex, topics in group.resolved.items():
        if regex in regexes:
            add_counts(by_regex, topics.topics, 1)
    return Subscriptions(by_name, by_regex, regexes)


def topics_of(group: ConsumerGroup, member: ConsumerMember) -> list[str]:
    """Return the topics of a member, by name and expression, in Kafka's order."""
    names = in_order(member.subscribed_topic_names)
    resolved = group.resolved.get(member.subscribed_topic_regex)
    if resolved is None or not resolved.topics:
        return names
    topics = in_order(resolved.topics)
    many, few = (names, topics) if len(names) > len(topics) else (topics, names)
    return list(dict.fromkeys((*many, *few)))


def in_order(names: Iterable[str]) -> list[str]:
    """Return names in the iteration order of a Java `HashSet`."""
    return list(JavaMap.holding(java_hash, dict.fromkeys(names)))
