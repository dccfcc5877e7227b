"""A consumer group of KIP-848: members, their epochs, and what they are assigned.

Source: `ConsumerGroup`, `ModernGroup`, `ConsumerGroupMember`, `MemberState` in Kafka. All of it is
durable: records change it (`consumer_group_records.py`), nothing else does. What lives beside it
are the timers of its members (`groups.py`).

A member's `state` says how far it is on its way to the target assignment: STABLE at it, or in an
epoch before it; UNREVOKED_PARTITIONS while it still has what it is to give back; or
UNRELEASED_PARTITIONS while others still have what it is to get (`member_assignment.py`).
"""

from collections.abc import Iterable
from enum import IntEnum, StrEnum
from typing import NamedTuple

import msgspec

from brokertwin.state.core.decision import Resumed
from brokertwin.state.core.errors import Error
from brokertwin.state.core.group_records import ClassicMemberMetadata, ResolvedRegularExpression
from brokertwin.state.core.java_hashes import CAPACITY, JavaMap, java_hash, timeline_order
from brokertwin.state.core.schema import Uuid
from brokertwin.state.groups.assignments import Assigned, Target
from brokertwin.state.groups.classic_group import CONSUMER

FIRST_EPOCH = 1
"""The group epoch, and the assignment epoch, of a group in which nobody has been."""

JOIN_EPOCH, LEAVE_EPOCH, STATIC_LEAVE_EPOCH = 0, -1, -2
"""Member epochs by which a heartbeat joins, leaves, or leaves to come back soon."""

NO_EPOCH = -1


class ConsumerGroupState(StrEnum):
    """The states of a consumer group, under Kafka's names."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


class MemberState(IntEnum):
    """The states of a member, by Kafka's codes."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2


class Refused(NamedTuple):
    """Why a request is refused, and in which words; `answers` go to requests that waited."""

    error: Error
    message: str | None
    answers: tuple[Resumed, ...] = ()


class ConsumerMember(msgspec.Struct, frozen=True):
    """A member; times are ms, `subscribed_topic_names` are sorted.

    `assigned` is what it may use, `pending_revocation` what it is to give back; both with the epoch
    in which it got each partition. `classic_member_metadata` is there of a member that uses the
    classic protocol.
    """

    member_id: str
    member_epoch: int = 0
    previous_member_epoch: int = NO_EPOCH
    state: MemberState = MemberState.STABLE
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
        """Whether it joins, syncs and sends heartbeats as members of classic groups do."""
        return self.classic_member_metadata is not None

    def classic_protocols(self) -> list[tuple[str, str]]:
        """The protocols that it supports, name and metadata; none of a consumer of KIP-848."""
        classic = self.classic_member_metadata
        return [] if classic is None else classic.supported_protocols

    def in_epoch(self, member_epoch: int) -> "ConsumerMember":
        """The member in another epoch."""
        former = self.member_epoch
        return msgspec.structs.replace(
            self, member_epoch=member_epoch, previous_member_epoch=former
        )

    def is_reconciled_to(self, assignment_epoch: int) -> bool:
        """Whether the member has what the assignment of this epoch gives it."""
        return self.state is MemberState.STABLE and self.member_epoch == assignment_epoch

    def is_revoking(self) -> bool:
        """Whether the member has only so long to give partitions back."""
        is_away = self.member_epoch == STATIC_LEAVE_EPOCH
        return self.state is MemberState.UNREVOKED_PARTITIONS and not is_away


class ConsumerGroup(msgspec.Struct, tag_field="type", tag="consumer"):
    """A group. Times are ms since 1970.

    `target` is by member id. `subscribers`, `assignors`, `static_members`, `partition_epochs`,
    `classic_members`, `supporters` and `regex_subscribers` follow from the members (`put`,
    `remove`): topic name, assignor and regular expression to how many want it, instance id to
    member id, topic id and partition to the epoch of who has it, how many use the classic protocol,
    and how many of those support a protocol. `resolved` is what expressions have found, by
    expression; one that is new is not among them. `most_members` sizes the order in which Kafka
    goes through the members.
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
    resolved: dict[str, ResolvedRegularExpression] = {}

    @property
    def protocol_type(self) -> str:
        """The protocol type, as ListGroups shows it."""
        return CONSUMER

    @property
    def state(self) -> ConsumerGroupState:
        """The group's state, which follows from the epochs."""
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.group_epoch > self.assignment_epoch:
            return ConsumerGroupState.ASSIGNING
        if all(each.is_reconciled_to(self.assignment_epoch) for each in self.members.values()):
            return ConsumerGroupState.STABLE
        return ConsumerGroupState.RECONCILING

    def member_error(self, member_id: str, instance_id: str | None) -> Error:
        """Why a request is not one of a member's: 25, 82 for a fenced instance, or NONE."""
        if instance_id is not None:
            known = self.static_members.get(instance_id)
            if known is None:
                return Error.UNKNOWN_MEMBER_ID
            return Error.NONE if known == member_id else Error.FENCED_INSTANCE_ID
        return Error.NONE if member_id in self.members else Error.UNKNOWN_MEMBER_ID

    def static_member(self, instance_id: str | None) -> ConsumerMember | None:
        """The member of an instance id."""
        member_id = self.static_members.get(instance_id) if instance_id is not None else None
        return self.members[member_id] if member_id is not None else None

    def target_of(self, member: ConsumerMember) -> Target:
        """What a member is to have; a static one that is new here, what its former id had."""
        if member.instance_id is None:
            return self.target.get(member.member_id, {})
        former = self.static_members.get(member.instance_id, "")
        return self.target.get(former, {})

    def has_owner(self, topic_id: Uuid, partition: int) -> bool:
        """Whether a member has a partition, if only until it has given it back."""
        return partition in self.partition_epochs.get(topic_id, {})

    def supports(self, protocol_type: str, protocols: Iterable[str]) -> bool:
        """Whether somebody of the classic protocol can be a member beside those there are."""
        if protocol_type != CONSUMER:
            return False
        return any(self.supporters.get(each, 0) == self.classic_members for each in protocols)

    def in_order(self) -> list[ConsumerMember]:
        """The members in the order in which Kafka goes through them."""
        return [self.members[each] for each in timeline_order(self.members, self.most_members)]

    def assignor(
        self, default: str, former: ConsumerMember | None = None, new: ConsumerMember | None = None
    ) -> str:
        """The assignor that most members want, as it is or with a member in place of another.

        Of two with as many the one that a Java map has first: here a copy of the group's own map,
        in which an assignor that was taken out and put in again comes first of its bucket
        (`ConsumerGroup.computePreferredServerAssignor` in Kafka).
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
        """Takes a member in, or what is new of it."""
        former = self.members.get(member.member_id)
        if former is not None:
            self._forget(former)
        self.members[member.member_id] = member
        self.most_members = max(self.most_members, len(self.members))
        counted(self.subscribers, member.subscribed_topic_names, 1)
        counted(self.regex_subscribers, [member.subscribed_topic_regex or None], 1)
        counted(self.assignors, [member.server_assignor], 1)
        self._count_classic(member, 1)
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id
        for assigned in (member.assigned, member.pending_revocation):
            for topic_id, partitions in assigned.items():
                epochs = self.partition_epochs.setdefault(topic_id, {})
                epochs.update(dict.fromkeys(partitions, member.member_epoch))

    def remove(self, member_id: str) -> None:
        """Forgets a member."""
        self._forget(self.members.pop(member_id))

    def _count_classic(self, member: ConsumerMember, by: int) -> None:
        self.classic_members += by if member.uses_classic_protocol else 0
        counted(self.supporters, {name for name, _ in member.classic_protocols()}, by)

    def _forget(self, member: ConsumerMember) -> None:
        """Takes back what follows from a member."""
        counted(self.subscribers, member.subscribed_topic_names, -1)
        counted(self.regex_subscribers, [member.subscribed_topic_regex or None], -1)
        counted(self.assignors, [member.server_assignor], -1)
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


def counted(counts: dict[str, int], names: Iterable[str | None], by: int) -> None:
    """Counts names up or down; None is no name, and what comes to 0 goes."""
    for name in names:
        if name is None:
            continue
        counts[name] = counts.get(name, 0) + by
        if not counts[name]:
            del counts[name]
