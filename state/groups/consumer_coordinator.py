"""The coordinator of a consumer group: heartbeats, leaves, and the timers of its members.

Source: `GroupMetadataManager.consumerGroupHeartbeat`, `consumerGroupLeave`,
`consumerGroupFenceMembers` in Kafka; KIP-848. A heartbeat does four things, in this order:

    1  what the member says of itself is noted; new topics, or a change of the topics that the group
       subscribes to, make a new group epoch
    2  a group epoch above that of the assignment asks for a new target assignment, at the earliest
       group.consumer.assignment.interval.ms after the one before
    3  the member takes its next step towards the target (`member_assignment.py`)
    4  the member has its session time-out from now on

Nothing here writes what is durable: everything becomes records (`consumer_group_records.py`). Where
nothing changes, a heartbeat writes its member's timer alone.

A classic group of consumers that somebody joins in this way becomes a consumer group, and one whose
last such member goes becomes a classic group again (`conversion.py`); between the two, members of
the classic protocol are in it, too (`classic_members.py`).

A regular expression stands for the topics that it was last resolved to (`regex_resolution.py`).
"""

from typing import NamedTuple

import msgspec

from brokertwin.state.cluster import group_configs
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core.decision import Resumed
from brokertwin.state.core.errors import Error
from brokertwin.state.core.group_records import (
    ClassicMemberMetadata,
    ConsumerGroupMetadataWritten,
    ConsumerGroupTargetAssignmentMemberWritten,
    ConsumerGroupTargetAssignmentMetadataWritten,
    GroupRemoved,
)
from brokertwin.state.core.records import (
    Record,
)
from brokertwin.state.groups import (
    conversion,
    groups,
    member_assignment,
    regex_resolution,
    subscriptions,
    target_assignment,
)
from brokertwin.state.groups.assignments import Target
from brokertwin.state.groups.classic_group import ClassicGroup, GroupState
from brokertwin.state.groups.consumer_group import (
    JOIN_EPOCH,
    STATIC_LEAVE_EPOCH,
    ConsumerGroup,
    ConsumerMember,
    Refused,
)
from brokertwin.state.groups.consumer_group_records import (
    current_assignment,
    group_records,
    group_tombstones,
    member_metadata,
    member_tombstones,
    regex_tombstones,
)
from brokertwin.state.groups.group_coordinator import GroupCoordinator
from brokertwin.state.groups.member_assignment import Owned
from brokertwin.state.groups.regex_resolution import Denied


class Said(NamedTuple):
    """What a heartbeat says; None, or -1, where it says nothing new.

    A join of the classic protocol says the same, with `classic`, and no epoch. `denied` says which
    topics whoever sent it may not describe.
    """

    member_id: str
    member_epoch: int
    instance_id: str | None
    rack_id: str | None
    rebalance_timeout_ms: int
    topic_names: list[str] | None
    topic_regex: str | None
    server_assignor: str | None
    owned: Owned | None
    client_id: str
    client_host: str
    denied: Denied
    classic: ClassicMemberMetadata | None = None
    resolves_regexes: bool | None = None


class GroupEpoch(NamedTuple):
    """A group's epoch, the metadata hash of its topics, and whether all subscribe to the same."""

    number: int
    metadata_hash: int
    is_homogeneous: bool


class Change(NamedTuple):
    """What a member says anew.

    Attributes:
        before: the member as it was; one without topics where it is new.
        after: the member as it says it is.
        group: the group's epoch from now on, and what goes with it.
        has_topics_changed: whether it subscribes to others than before.
        owned: what it says it owns.
    """

    before: ConsumerMember
    after: ConsumerMember
    group: GroupEpoch
    has_topics_changed: bool
    owned: Owned | None


class Beat(NamedTuple):
    """What a heartbeat came to: the member before and after it."""

    before: ConsumerMember
    after: ConsumerMember


def find(broker: Broker, group_id: str, member_epoch: int) -> "ConsumerCoordinator | Refused":
    """The coordinator of a heartbeat's group: a new one for who joins, also in place of a classic.

    An empty classic group goes; one with members is converted.
    """
    is_join = member_epoch == JOIN_EPOCH
    group = groups.find(broker, group_id)
    if isinstance(group, ConsumerGroup):
        return ConsumerCoordinator(broker, group)
    if group is None and not is_join:
        what = "Group" if member_epoch < JOIN_EPOCH else "Consumer group"
        return Refused(Error.GROUP_ID_NOT_FOUND, f"{what} {group_id} not found.")
    is_classic = isinstance(group, ClassicGroup)
    if group is None or (is_join and is_classic and group.state is GroupState.EMPTY):
        return ConsumerCoordinator(broker, ConsumerGroup(group_id))
    if is_join and isinstance(group, ClassicGroup) and group.members:
        return _upgraded(broker, group)
    return Refused(Error.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")


def _upgraded(broker: Broker, group: ClassicGroup) -> "ConsumerCoordinator | Refused":
    """The coordinator of a classic group that becomes a consumer group with this heartbeat."""
    converted = conversion.upgraded(broker, group)
    answers: list[Resumed] = []
    if conversion.is_attempted(broker, group):
        waiting = GroupCoordinator(broker, group.group_id)
        waiting.end_waits(Error.REBALANCE_IN_PROGRESS)
        answers = waiting.answers
    if isinstance(converted, Refused):
        return converted._replace(answers=tuple(answers))
    coordinator = ConsumerCoordinator(broker, converted)
    coordinator.answers = answers
    return coordinator


class ConsumerCoordinator:
    """One consumer group at its coordinator, for the time of one request or timer.

    Attributes:
        group: the group as its records know it; it is not written to.
        records: what is to be written.
        answers: to requests that wait.
    """

    def __init__(self, broker: Broker, group: ConsumerGroup) -> None:
        self._broker = broker
        self.group = group
        self.records: list[Record] = []
        self.answers: list[Resumed] = []
        self._is_upgrade = False
        if isinstance(groups.find(broker, group.group_id), ClassicGroup):
            self.records.append(GroupRemoved(group.group_id))
            self._is_upgrade = bool(group.members)
        if self._is_upgrade:
            self.records += group_records(group)

    # Heartbeats

    def heartbeat(self, said: Said) -> Beat | Refused:
        """A member joins, or is still there."""
        max_size = self._broker.settings.group_consumer_max_size
        if len(self.group.members) >= max_size and said.member_id not in self.group.members:
            limit = f"The consumer group has reached its maximum capacity of {max_size} members."
            return self._refused(Refused(Error.GROUP_MAX_SIZE_REACHED, limit))
        before = self._member(said)
        if isinstance(before, Refused):
            return self._refused(before)
        refused = self._invalid_regex(said)
        if refused is not None:
            return self._refused(refused)
        after = self.join(before, said)
        if self._is_upgrade:
            self._expect_classic_members(said)
        self._expect(after.member_id)
        return Beat(before, after)

    def _refused(self, refused: Refused) -> Refused:
        return refused._replace(answers=tuple(self.answers))

    def join(self, before: ConsumerMember, said: Said) -> ConsumerMember:
        """The steps that members of both protocols take; then expressions are resolved."""
        change = self.update(before, said)
        epoch, target = self._update_target(change)
        after = self.reconcile(change, epoch, target)
        self._resolve(change, said)
        return after

    def _invalid_regex(self, said: Said) -> Refused | None:
        why = regex_resolution.invalid(self.group, said.topic_regex)
        return None if why is None else Refused(Error.INVALID_REGULAR_EXPRESSION, why)

    def update(self, before: ConsumerMember, said: Said) -> Change:
        """Notes what a member says of itself, and a new group epoch where that changes topics."""
        after = _updated(before, said)
        if after != before:
            self.records.append(member_metadata(self.group.group_id, after))
        has_other_names = set(after.subscribed_topic_names) != set(before.subscribed_topic_names)
        has_other_regex = after.subscribed_topic_regex != before.subscribed_topic_regex
        is_known = has_other_regex and regex_resolution.is_resolved(self.group, after)
        if has_other_regex:
            gone = regex_resolution.last_of_its_regex(self.group, [before])
            self.records += regex_tombstones(self.group.group_id, gone)
        group = self._update_group_epoch(before, after, has_other_names or is_known)
        return Change(before, after, group, has_other_names or has_other_regex, said.owned)

    def _resolve(self, change: Change, said: Said) -> None:
        """Resolves the group's regular expressions, where that is due."""
        group, regex = self.group, change.after.subscribed_topic_regex
        after = subscriptions.of(group, [change.before], [change.after])
        has_new = bool(regex) and regex not in group.regex_subscribers
        recorded = said.resolves_regexes
        if regex_resolution.is_due(
            self._broker, group, after.regexes, has_new=has_new, recorded=recorded
        ):
            epoch, metadata_hash, _ = change.group
            self.records += regex_resolution.records(
                self._broker, group, after, (epoch, metadata_hash), said.denied
            )

    def _member(self, said: Said) -> ConsumerMember | Refused:
        """Who sends a heartbeat; somebody new has the epoch 0 and no topics."""
        is_join = said.member_epoch == JOIN_EPOCH
        member = self.group.members.get(said.member_id)
        static = self.group.static_member(said.instance_id)
        if said.instance_id is not None and static is None and not is_join:
            unknown = f"Instance id {said.instance_id} is unknown."
            return Refused(Error.UNKNOWN_MEMBER_ID, unknown)
        if static is not None:
            return self._rejoin(static, said) if is_join else _checked(static, said)
        if member is None and is_join:
            return ConsumerMember(said.member_id)
        if member is None:
            return self._unknown(said.member_id)
        return _with_valid_epoch(member, said)

    def _unknown(self, member_id: str) -> Refused:
        unknown = f"Member {member_id} is not a member of group {self.group.group_id}."
        return Refused(Error.UNKNOWN_MEMBER_ID, unknown)

    def _rejoin(self, static: ConsumerMember, said: Said) -> ConsumerMember | Refused:
        """A static member comes back, where it had left to do so, and takes its own place."""
        if static.member_epoch != STATIC_LEAVE_EPOCH and not static.uses_classic_protocol:
            who = f"Static member {said.member_id} with instance id {said.instance_id}"
            owner = f"the instance id is owned by {static.member_id} member."
            because = f"{who} cannot join the group because {owner}"
            return Refused(Error.UNRELEASED_INSTANCE_ID, because)
        refused = self._invalid_regex(said)
        if refused is not None:
            return refused
        return self.replace(static, said.member_id)

    def replace(self, static: ConsumerMember, member_id: str) -> ConsumerMember:
        """Gives the place of a static member to itself under another id."""
        group_id = self.group.group_id
        member = msgspec.structs.replace(
            static, member_id=member_id, member_epoch=0, previous_member_epoch=0
        )
        target = self.group.target.get(static.member_id, {})
        self.records += member_tombstones(group_id, static.member_id)
        self._stop_timers(static.member_id)
        self.records += [
            member_metadata(group_id, member),
            ConsumerGroupTargetAssignmentMemberWritten(group_id, member.member_id, target),
            current_assignment(group_id, member),
        ]
        return member

    def _update_group_epoch(
        self, before: ConsumerMember, after: ConsumerMember, has_changed: bool
    ) -> GroupEpoch:
        """The group's epoch, a new one where topics were subscribed to or have changed."""
        group = self.group
        known = subscriptions.of(group)
        metadata_hash = target_assignment.metadata_hash(self._broker, known.topics)
        is_seen = metadata_hash == group.metadata_hash or not regex_resolution.is_complete(group)
        if not has_changed and is_seen:
            is_homogeneous = known.is_homogeneous(len(group.members))
            return GroupEpoch(group.group_epoch, metadata_hash, is_homogeneous)
        changed = subscriptions.of(group, [before], [after])
        metadata_hash = target_assignment.metadata_hash(self._broker, changed.topics)
        is_new = after.member_id not in group.members
        member_count = len(group.members) + (
            is_new and group.static_member(after.instance_id) is None
        )
        is_homogeneous = changed.is_homogeneous(member_count)
        if not has_changed and metadata_hash == group.metadata_hash:
            return GroupEpoch(group.group_epoch, metadata_hash, is_homogeneous)
        return GroupEpoch(self._bump(metadata_hash), metadata_hash, is_homogeneous)

    def _bump(self, metadata_hash: int) -> int:
        epoch = self.group.group_epoch + 1
        written = ConsumerGroupMetadataWritten(self.group.group_id, epoch, metadata_hash)
        self.records.append(written)
        return epoch

    def _update_target(self, change: Change) -> tuple[int, Target]:
        """The epoch of the target assignment, and what it gives the member."""
        before, after, group_epoch = change.before, change.after, change.group.number
        group, now = self.group, self._broker.now
        interval = group_configs.assignment_interval_ms(self._broker, group.group_id)
        is_early = bool(group.assignment_timestamp) and now < group.assignment_timestamp + interval
        if group.assignment_epoch >= group_epoch or is_early:
            return group.assignment_epoch, group.target_of(after)
        targets = target_assignment.compute(
            self._broker, group, before, after, is_homogeneous=change.group.is_homogeneous
        )
        for member_id, target in targets.items():
            former = group.target.get(member_id)
            if former is None or not _same(former, target):
                self.records.append(
                    ConsumerGroupTargetAssignmentMemberWritten(group.group_id, member_id, target)
                )
        self.records.append(
            ConsumerGroupTargetAssignmentMetadataWritten(group.group_id, group_epoch, now)
        )
        return group_epoch, targets[after.member_id]

    def reconcile(self, change: Change, epoch: int, target: Target) -> ConsumerMember:
        """The member's next step, and its time-out where it has to give partitions back."""
        member, has_changed = change.after, change.has_topics_changed
        if not has_changed and member.is_reconciled_to(epoch):
            return member
        way = member_assignment.Way(
            epoch,
            target,
            set(target_assignment.topic_ids(self._broker, self.group, member)),
            has_changed,
            change.owned,
            self.group.has_owner,
        )
        stepped = member_assignment.next_step(member, way)
        if stepped != member:
            self.records.append(current_assignment(self.group.group_id, stepped))
            self._expect_revocation(stepped)
        return stepped

    # Leaving

    def leave(self, member_id: str, instance_id: str | None, epoch: int) -> Refused | None:
        """A member leaves, for good or (a static one) to come back."""
        member = self.group.members.get(member_id)
        if instance_id is not None:
            member = self.group.static_member(instance_id)
            if member is None:
                unknown = f"Instance id {instance_id} is unknown."
                return Refused(Error.UNKNOWN_MEMBER_ID, unknown)
            if member.member_id != member_id:
                return _fenced_by(member, member_id, instance_id)
        if member is None:
            return self._unknown(member_id)
        if instance_id is not None and epoch == STATIC_LEAVE_EPOCH:
            self._leave_for_a_while(member)
        else:
            self.fence([member])
        return None

    def _leave_for_a_while(self, member: ConsumerMember) -> None:
        """A static member keeps its partitions, as if it had had them always, and its session."""
        away = msgspec.structs.replace(
            member,
            member_epoch=STATIC_LEAVE_EPOCH,
            pending_revocation={},
            assigned={
                topic_id: dict.fromkeys(partitions, 0)
                for topic_id, partitions in member.assigned.items()
            },
        )
        self.records.append(current_assignment(self.group.group_id, away))
        self._set_timer(groups.rebalance(member.member_id), None)

    def fence(self, members: list[ConsumerMember]) -> None:
        """Forgets members; what they had is given to others in a new group epoch.

        Where only members of the classic protocol are left the group becomes a classic one.
        """
        if not members:
            return
        if conversion.may_downgrade(self._broker, self.group, members):
            gone = frozenset(each.member_id for each in members)
            self.downgrade(conversion.Change(gone), is_rebalanced=True)
            return
        for member in members:
            self.records += member_tombstones(self.group.group_id, member.member_id)
            self._stop_timers(member.member_id)
        regexes = regex_resolution.last_of_its_regex(self.group, members)
        self.records += regex_tombstones(self.group.group_id, regexes)
        left = subscriptions.of(self.group, members).topics
        self._bump(target_assignment.metadata_hash(self._broker, left))

    def downgrade(self, change: conversion.Change, *, is_rebalanced: bool) -> None:
        """The group becomes a classic one; its members rebalance, or go on as they are."""
        broker, group = self._broker, self.group
        member_ids = list(group.members)
        if change.joining is not None:
            replaced = group.static_member(change.joining.instance_id)
            former = replaced.member_id if replaced is not None else ""
            member_ids = [
                change.joining.member_id if each == former else each for each in member_ids
            ]
        self.records += group_tombstones(group.group_id, member_ids, group.resolved)
        classic = conversion.downgraded(broker, group, change)
        groups.stop_timers(broker.tables, broker.id, group.group_id)
        coordinator = GroupCoordinator(broker, group.group_id, classic)
        coordinator.write_metadata()
        if is_rebalanced:
            coordinator.prepare_rebalance()
        decision = coordinator.outcome()
        self.records += decision.records
        self.answers += decision.resumed

    # Timers

    def load(self) -> None:
        """Takes the group over: its members have their time-outs from now on."""
        for member in self.group.members.values():
            self._expect(member.member_id)
            self._expect_revocation(member)

    def _expect(self, member_id: str) -> None:
        within = group_configs.session_timeout_ms(self._broker, self.group.group_id)
        self._set_timer(groups.session(member_id), self._broker.now + within)

    def _expect_classic_members(self, said: Said) -> None:
        """All but the static one whose place has just been taken."""
        static = self.group.static_member(said.instance_id)
        for member in self.group.members.values():
            if member is not static or member.member_id == said.member_id:
                expect_session(self._broker, self.group.group_id, member)

    def _expect_revocation(self, member: ConsumerMember) -> None:
        """A classic member has its time-outs for joining and syncing instead."""
        deadline = None
        if member.is_revoking() and not member.uses_classic_protocol:
            deadline = self._broker.now + member.rebalance_timeout_ms
        self._set_timer(groups.rebalance(member.member_id), deadline)

    def _stop_timers(self, member_id: str) -> None:
        for timer in (groups.session, groups.rebalance, groups.rejoin, groups.resync):
            self._set_timer(timer(member_id), None)

    def _set_timer(self, timer: str, deadline: int | None) -> None:
        tables, broker = self._broker.tables, self._broker.id
        groups.set_timer(tables, broker, self.group.group_id, timer, deadline)


def expect_session(broker: Broker, group_id: str, member: ConsumerMember) -> None:
    """A member of the classic protocol has its own session time-out from now on."""
    said = member.classic_member_metadata
    assert said is not None, member.member_id
    deadline = broker.now + said.session_timeout_ms
    groups.set_timer(broker.tables, broker.id, group_id, groups.session(member.member_id), deadline)


def _updated(member: ConsumerMember, said: Said) -> ConsumerMember:
    """The member with what it says of itself."""
    names, timeout, regex = said.topic_names, said.rebalance_timeout_ms, said.topic_regex
    known = member.subscribed_topic_names
    return msgspec.structs.replace(
        member,
        instance_id=member.instance_id if said.instance_id is None else said.instance_id,
        rack_id=member.rack_id if said.rack_id is None else said.rack_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout == -1 else timeout,
        subscribed_topic_names=known if names is None else sorted(set(names)),
        subscribed_topic_regex=member.subscribed_topic_regex if regex is None else regex,
        server_assignor=said.server_assignor or member.server_assignor,
        client_id=said.client_id,
        client_host=said.client_host,
        classic_member_metadata=said.classic,
    )


def _checked(static: ConsumerMember, said: Said) -> ConsumerMember | Refused:
    """A static member that sends a heartbeat under the id that the group knows, or not."""
    if static.member_id != said.member_id:
        return _fenced_by(static, said.member_id, said.instance_id)
    return _with_valid_epoch(static, said)


def _fenced_by(static: ConsumerMember, member_id: str, instance_id: str | None) -> Refused:
    who = f"Static member {member_id} with instance id {instance_id}"
    return Refused(Error.FENCED_INSTANCE_ID, f"{who} was fenced by member {static.member_id}.")


def _with_valid_epoch(member: ConsumerMember, said: Said) -> ConsumerMember | Refused:
    """The member, unless its epoch is not the one that the group knows.

    It may be the one before where the answer that told the new one was lost: then the member owns
    nothing that it was not assigned.
    """
    epoch, known = said.member_epoch, member.member_epoch
    if epoch in (JOIN_EPOCH, known):
        return member
    is_lost_answer = epoch == member.previous_member_epoch and _is_assigned(said.owned, member)
    if epoch < known and is_lost_answer:
        return member
    size = "greater" if epoch > known else "smaller"
    return Refused(
        Error.FENCED_MEMBER_EPOCH,
        f"The consumer group member has a {size} member epoch ({epoch}) than the one known by the "
        f"group coordinator ({known}). The member must abandon all its partitions and rejoin.",
    )


def _is_assigned(owned: Owned | None, member: ConsumerMember) -> bool:
    """Whether all that a member says it owns is assigned to it."""
    if owned is None:
        return False
    return all(
        topic_id in member.assigned and partition in member.assigned[topic_id]
        for topic_id, partitions in owned.items()
        for partition in partitions
    )


def _same(one: Target, other: Target) -> bool:
    return {t: set(p) for t, p in one.items()} == {t: set(p) for t, p in other.items()}
