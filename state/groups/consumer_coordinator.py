"""The coordinator of a consumer group: heartbeats, leaves and timers.

Source: `GroupMetadataManager.consumerGroupHeartbeat`, `consumerGroupLeave`,
`consumerGroupFenceMembers` in Kafka; KIP-848. A heartbeat has these steps:

    1  update the member's metadata; other subscribed topics or changed topics bump the group epoch
    2  if the group epoch is above the assignment epoch, compute a new target assignment, at most
       once in group.consumer.assignment.interval.ms
    3  reconcile the member towards its target (`member_assignment.py`)
    4  restart the member's session timeout

All durable changes are records (`consumer_group_records.py`). A heartbeat without changes only sets
the session timer.

A classic group of consumers is converted when a member of this protocol joins, and back when the
last such member leaves (`conversion.py`). In between, the group also has members of the classic
protocol (`classic_members.py`). Regular expressions are resolved to topics by
`regex_resolution.py`.
"""

from typing import NamedTuple

import msgspec

from brokertwin.protocol.errors import Error
from brokertwin.protocol.generated.consumer_group_rows import ClassicMemberMetadata
from brokertwin.protocol.generated.group_rows import GroupMetadataKey
from brokertwin.state.cluster import group_configs
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core.api import Refused
from brokertwin.state.core.decision import Resumed
from brokertwin.state.core.group_records import GroupRecord
from brokertwin.state.groups import (
    consumer_group,
    conversion,
    groups,
    member_assignment,
    regex_resolution,
    target_assignment,
)
from brokertwin.state.groups import consumer_group_records as rows
from brokertwin.state.groups.assignments import Target, as_sets
from brokertwin.state.groups.classic_coordinator import ClassicGroupCoordinator
from brokertwin.state.groups.classic_group import ClassicGroup, ClassicGroupState
from brokertwin.state.groups.consumer_group import (
    JOIN_EPOCH,
    NO_TIME,
    STATIC_LEAVE_EPOCH,
    ConsumerGroup,
    ConsumerMember,
)
from brokertwin.state.groups.member_assignment import Owned
from brokertwin.state.groups.modern_coordinator import (
    ModernGroupCoordinator,
    epoch_message,
    fenced_instance,
    not_found,
    other_kind,
    size_error,
    unknown_instance,
    unreleased_instance,
)
from brokertwin.state.groups.regex_resolution import Denied

_KIND = "consumer"


class ConsumerHeartbeat(NamedTuple):
    """The content of a heartbeat; unchanged fields are None or negative.

    A classic JoinGroup is converted to one, with `classic` and without an epoch. `denied` returns
    the topics that the client may not describe.
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
    """A group epoch, its metadata hash, and whether subscriptions are equal."""

    number: int
    metadata_hash: int
    is_homogeneous: bool


class MemberUpdate(NamedTuple):
    """A member's new metadata.

    Attributes:
        before: the former member; without topics if it is new.
        group: the group epoch after the update.
        has_topics_changed: whether its subscription has changed.
        owned: the partitions that it reports as owned.
    """

    before: ConsumerMember
    after: ConsumerMember
    group: GroupEpoch
    has_topics_changed: bool
    owned: Owned | None


class ConsumerHeartbeatResult(NamedTuple):
    before: ConsumerMember
    after: ConsumerMember


def find(broker: Broker, group_id: str, member_epoch: int) -> "ConsumerGroupCoordinator":
    """Return the coordinator for a heartbeat's group. Raises Refused.

    A join creates the group. It replaces an empty classic group and converts one with members.
    """
    is_join = member_epoch == JOIN_EPOCH
    group = groups.find(broker, group_id)
    if isinstance(group, ConsumerGroup):
        return ConsumerGroupCoordinator(broker, group)
    if group is None and not is_join:
        raise not_found(_KIND, group_id, member_epoch)
    if group is None:
        return ConsumerGroupCoordinator(broker, ConsumerGroup(group_id))
    if is_join and isinstance(group, ClassicGroup):
        if group.state is ClassicGroupState.EMPTY:
            return ConsumerGroupCoordinator(broker, ConsumerGroup(group_id), group)
        if group.members:
            return _upgraded(broker, group)
    raise other_kind(_KIND, group_id)


def _upgraded(broker: Broker, group: ClassicGroup) -> "ConsumerGroupCoordinator":
    try:
        converted = conversion.upgrade(broker, group)
    except Refused as refused:
        refused.resumed = _end_pending_requests(broker, group)
        raise
    coordinator = ConsumerGroupCoordinator(broker, converted, group)
    coordinator.responses = _end_pending_requests(broker, group)
    return coordinator


def _end_pending_requests(broker: Broker, group: ClassicGroup) -> list[Resumed]:
    if not conversion.ends_pending_requests(broker, group):
        return []
    waiting = ClassicGroupCoordinator(broker, group.group_id)
    waiting.reject_pending(Error.REBALANCE_IN_PROGRESS)
    return waiting.responses


class ConsumerGroupCoordinator(ModernGroupCoordinator[ConsumerGroup]):
    """A consumer group at its coordinator, for one request or timer.

    `former` is the classic group that it replaces.
    """

    def __init__(
        self, broker: Broker, group: ConsumerGroup, former: ClassicGroup | None = None
    ) -> None:
        super().__init__(broker, group)
        self._is_upgrade = False
        if former is not None:
            self.records.append(GroupRecord(GroupMetadataKey(group.group_id)))
            self._is_upgrade = bool(group.members)
        if self._is_upgrade:
            self.records += rows.group_records(group)

    # Heartbeats

    def heartbeat(self, heartbeat: ConsumerHeartbeat) -> ConsumerHeartbeatResult:
        members, max_size = self.group.members, self._broker.settings.group_consumer_max_size
        full = size_error(_KIND, members, max_size)
        if full is not None and heartbeat.member_id not in members:
            raise full
        before = self._member(heartbeat)
        self._check_regex(heartbeat)
        after = self.join(before, heartbeat)
        if self._is_upgrade:
            self._restart_classic_sessions(heartbeat)
        self._restart_session(after.member_id)
        return ConsumerHeartbeatResult(before, after)

    def join(self, before: ConsumerMember, heartbeat: ConsumerHeartbeat) -> ConsumerMember:
        """Update, assign and reconcile a member of either protocol."""
        change = self.update(before, heartbeat)
        epoch, target = self._update_target(change)
        after = self.reconcile(change, epoch, target)
        self._resolve(change, heartbeat)
        return after

    def _check_regex(self, heartbeat: ConsumerHeartbeat) -> None:
        why = regex_resolution.invalid(self.group, heartbeat.topic_regex)
        if why is not None:
            raise Refused(Error.INVALID_REGULAR_EXPRESSION, why)

    def update(self, before: ConsumerMember, heartbeat: ConsumerHeartbeat) -> MemberUpdate:
        """Write a member's new metadata, and a new group epoch if topics change."""
        after = _updated(before, heartbeat)
        if after != before:
            self.records.append(rows.member_metadata(self.group.group_id, after))
        has_other_names = set(after.subscribed_topic_names) != set(before.subscribed_topic_names)
        has_other_regex = after.subscribed_topic_regex != before.subscribed_topic_regex
        is_known = has_other_regex and regex_resolution.is_resolved(self.group, after)
        if has_other_regex:
            leaving = regex_resolution.last_of_its_regex(self.group, [before])
            self.records += rows.regex_tombstones(self.group.group_id, leaving)
        group = self._update_group_epoch(before, after, has_other_names or is_known)
        return MemberUpdate(
            before, after, group, has_other_names or has_other_regex, heartbeat.owned
        )

    def _resolve(self, change: MemberUpdate, heartbeat: ConsumerHeartbeat) -> None:
        """Resolve the group's regular expressions if due."""
        group, regex = self.group, change.after.subscribed_topic_regex
        if not regex and not group.regex_subscribers:
            return
        after = consumer_group.subscriptions_of(group, [change.before], [change.after])
        has_new = bool(regex) and regex not in group.regex_subscribers
        recorded = heartbeat.resolves_regexes
        if regex_resolution.is_due(
            self._broker, group, after.regexes, has_new=has_new, recorded=recorded
        ):
            epoch, metadata_hash, _ = change.group
            self.records += regex_resolution.records(
                self._broker, group, after, (epoch, metadata_hash), heartbeat.denied
            )

    def _member(self, heartbeat: ConsumerHeartbeat) -> ConsumerMember:
        """Return the member of a heartbeat; a new one has epoch 0 and no topics."""
        is_join = heartbeat.member_epoch == JOIN_EPOCH
        member = self.group.members.get(heartbeat.member_id)
        static = self.group.static_member(heartbeat.instance_id)
        if heartbeat.instance_id is not None and static is None and not is_join:
            raise unknown_instance(heartbeat.instance_id)
        if static is not None:
            return (
                self._rejoin(static, heartbeat)
                if is_join
                else _valid_static_member(static, heartbeat)
            )
        if member is None and is_join:
            return ConsumerMember(heartbeat.member_id)
        if member is None:
            raise self._unknown(heartbeat.member_id)
        return _valid_member(member, heartbeat)

    def _rejoin(self, static: ConsumerMember, heartbeat: ConsumerHeartbeat) -> ConsumerMember:
        """Return a static member that rejoins after leaving temporarily."""
        if static.member_epoch != STATIC_LEAVE_EPOCH and not static.uses_classic_protocol:
            raise unreleased_instance(static.member_id, heartbeat.member_id, heartbeat.instance_id)
        self._check_regex(heartbeat)
        return self.replace(static, heartbeat.member_id)

    def replace(self, static: ConsumerMember, member_id: str) -> ConsumerMember:
        """Replace a static member by its new incarnation."""
        group_id = self.group.group_id
        member = msgspec.structs.replace(
            static, member_id=member_id, member_epoch=0, previous_member_epoch=0
        )
        target = self.group.target.get(static.member_id, {})
        self.records += rows.member_tombstones(group_id, static.member_id)
        self._stop_timers(static.member_id)
        self.records += [
            rows.member_metadata(group_id, member),
            rows.member_target(group_id, member.member_id, target),
            rows.current_assignment(group_id, member),
        ]
        return member

    def _update_group_epoch(
        self, before: ConsumerMember, after: ConsumerMember, has_changed: bool
    ) -> GroupEpoch:
        """Return the group epoch, bumped if subscriptions or topics have changed."""
        group = self.group
        subscriptions = consumer_group.subscriptions_of(group)
        metadata_hash = target_assignment.metadata_hash(self._broker, subscriptions.topics)
        is_current = metadata_hash == group.metadata_hash or not regex_resolution.is_complete(group)
        if not has_changed and is_current:
            is_homogeneous = subscriptions.is_homogeneous(len(group.members))
            return GroupEpoch(group.group_epoch, metadata_hash, is_homogeneous)
        changed = consumer_group.subscriptions_of(group, [before], [after])
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
        self.records.append(rows.group_epoch(self.group.group_id, epoch, metadata_hash))
        return epoch

    def _update_target(self, change: MemberUpdate) -> tuple[int, Target]:
        """Return the assignment epoch and the member's target."""
        before, after, group_epoch = change.before, change.after, change.group.number
        group, now = self.group, self._broker.now
        interval_ms = group_configs.assignment_interval_ms(self._broker, group.group_id)
        if group.assignment_epoch >= group_epoch or self._is_early(interval_ms):
            return group.assignment_epoch, group.target_of(after)
        targets = target_assignment.compute(
            self._broker, group, before, after, is_homogeneous=change.group.is_homogeneous
        )
        for member_id, target in targets.items():
            former = group.target.get(member_id)
            if former is None or as_sets(former) != as_sets(target):
                self.records.append(rows.member_target(group.group_id, member_id, target))
        self.records.append(rows.target_epoch(group.group_id, group_epoch, now))
        return group_epoch, targets[after.member_id]

    def reconcile(self, change: MemberUpdate, epoch: int, target: Target) -> ConsumerMember:
        """Reconcile the member; start its rebalance timeout if it must revoke."""
        member, has_changed = change.after, change.has_topics_changed
        if not has_changed and member.is_reconciled_to(epoch):
            return member
        context = member_assignment.ReconcileInput(
            epoch,
            target,
            set(target_assignment.topic_ids(self._broker, self.group, member)),
            has_changed,
            change.owned,
            self.group.has_owner,
        )
        reconciled = member_assignment.next_step(member, context)
        if reconciled != member:
            self.records.append(rows.current_assignment(self.group.group_id, reconciled))
            self._set_revocation_timer(reconciled)
        return reconciled

    # Leaving

    def leave(self, member_id: str, instance_id: str | None, epoch: int) -> None:
        """Handle a leave; a static member may leave temporarily (epoch -2)."""
        member = self.group.members.get(member_id)
        if instance_id is not None:
            member = self.group.static_member(instance_id)
            if member is None:
                raise unknown_instance(instance_id)
            if member.member_id != member_id:
                raise fenced_instance(member.member_id, member_id, instance_id)
        if member is None:
            raise self._unknown(member_id)
        if instance_id is not None and epoch == STATIC_LEAVE_EPOCH:
            self._leave_temporarily(member)
        else:
            self.fence([member])

    def _leave_temporarily(self, member: ConsumerMember) -> None:
        """Keep a static member's partitions and session until it rejoins."""
        away = msgspec.structs.replace(
            member,
            member_epoch=STATIC_LEAVE_EPOCH,
            pending_revocation={},
            assigned={
                topic_id: dict.fromkeys(partitions, 0)
                for topic_id, partitions in member.assigned.items()
            },
        )
        self.records.append(rows.current_assignment(self.group.group_id, away))
        self._set_timer(groups.rebalance(member.member_id), None)

    def fence(self, members: list[ConsumerMember]) -> None:
        """Remove members and bump the group epoch.

        If only members of the classic protocol remain, the group is converted to a classic one.
        """
        if not members:
            return
        if conversion.may_downgrade(self._broker, self.group, members):
            leaving = frozenset(each.member_id for each in members)
            self.downgrade(conversion.Downgrade(leaving), is_rebalanced=True)
            return
        for member in members:
            self.records += rows.member_tombstones(self.group.group_id, member.member_id)
            self._stop_timers(member.member_id)
        regexes = regex_resolution.last_of_its_regex(self.group, members)
        self.records += rows.regex_tombstones(self.group.group_id, regexes)
        left = consumer_group.subscriptions_of(self.group, members).topics
        epoch = self._bump(target_assignment.metadata_hash(self._broker, left))
        if self._broker.settings.is_4_4 and len(members) == len(self.group.members):
            self.records.append(rows.target_epoch(self.group.group_id, epoch, NO_TIME))

    def downgrade(self, change: conversion.Downgrade, *, is_rebalanced: bool) -> None:
        """Convert the group to a classic one, which rebalances or stays stable."""
        broker, group = self._broker, self.group
        member_ids = list(group.members)
        if change.joining is not None:
            replaced = group.static_member(change.joining.instance_id)
            former = replaced.member_id if replaced is not None else ""
            member_ids = [
                change.joining.member_id if each == former else each for each in member_ids
            ]
        self.records += rows.group_tombstones(group.group_id, member_ids, group.resolved)
        classic = conversion.downgrade(broker, group, change)
        groups.stop_timers(broker, group.group_id)
        coordinator = ClassicGroupCoordinator(broker, group.group_id, classic)
        coordinator.write_metadata()
        if is_rebalanced:
            coordinator.prepare_rebalance()
        decision = coordinator.result()
        self.records += decision.records
        self.responses += decision.resumed

    # Timers

    def load(self) -> None:
        for member in self.group.members.values():
            self._restart_session(member.member_id)
            self._set_revocation_timer(member)

    def _restart_session(self, member_id: str) -> None:
        within = group_configs.session_timeout_ms(self._broker, self.group.group_id)
        self._set_timer(groups.session(member_id), self._broker.now + within)

    def _restart_classic_sessions(self, heartbeat: ConsumerHeartbeat) -> None:
        """Restart sessions, except that of the static member just replaced."""
        static = self.group.static_member(heartbeat.instance_id)
        for member in self.group.members.values():
            if member is not static or member.member_id == heartbeat.member_id:
                restart_session_timer(self._broker, self.group.group_id, member)

    def _set_revocation_timer(self, member: ConsumerMember) -> None:
        """Set or stop the rebalance timeout.

        Members of the classic protocol have join and sync timeouts instead.
        """
        deadline = None
        if member.is_revoking() and not member.uses_classic_protocol:
            deadline = self._broker.now + member.rebalance_timeout_ms
        self._set_timer(groups.rebalance(member.member_id), deadline)

    def _stop_timers(self, member_id: str) -> None:
        for timer in (groups.session, groups.rebalance, groups.rejoin, groups.resync):
            self._set_timer(timer(member_id), None)


def restart_session_timer(broker: Broker, group_id: str, member: ConsumerMember) -> None:
    heartbeat = member.classic_member_metadata
    assert heartbeat is not None, member.member_id
    deadline = broker.now + heartbeat.session_timeout_ms
    groups.set_timer(broker, group_id, groups.session(member.member_id), deadline)


def _updated(member: ConsumerMember, heartbeat: ConsumerHeartbeat) -> ConsumerMember:
    names, timeout, regex = (
        heartbeat.topic_names,
        heartbeat.rebalance_timeout_ms,
        heartbeat.topic_regex,
    )
    topic_names = member.subscribed_topic_names
    return msgspec.structs.replace(
        member,
        instance_id=member.instance_id if heartbeat.instance_id is None else heartbeat.instance_id,
        rack_id=member.rack_id if heartbeat.rack_id is None else heartbeat.rack_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout == -1 else timeout,
        subscribed_topic_names=topic_names if names is None else sorted(set(names)),
        subscribed_topic_regex=member.subscribed_topic_regex if regex is None else regex,
        server_assignor=heartbeat.server_assignor or member.server_assignor,
        client_id=heartbeat.client_id,
        client_host=heartbeat.client_host,
        classic_member_metadata=heartbeat.classic,
    )


def _valid_static_member(static: ConsumerMember, heartbeat: ConsumerHeartbeat) -> ConsumerMember:
    """Return a static member whose heartbeat has a valid id and epoch."""
    if static.member_id != heartbeat.member_id:
        raise fenced_instance(static.member_id, heartbeat.member_id, heartbeat.instance_id)
    return _valid_member(static, heartbeat)


def _valid_member(member: ConsumerMember, heartbeat: ConsumerHeartbeat) -> ConsumerMember:
    """Return the member if its epoch is valid. Raises Refused, 110 FENCED_MEMBER_EPOCH.

    The previous epoch is valid if a response was lost: the member then owns only partitions that
    are assigned to it.
    """
    epoch, current = heartbeat.member_epoch, member.member_epoch
    if epoch in (JOIN_EPOCH, current):
        return member
    is_lost_response = epoch == member.previous_member_epoch and _is_assigned(
        heartbeat.owned, member
    )
    if epoch < current and is_lost_response:
        return member
    raise Refused(Error.FENCED_MEMBER_EPOCH, epoch_message(_KIND, epoch, current))


def _is_assigned(owned: Owned | None, member: ConsumerMember) -> bool:
    """True if all partitions reported as owned are assigned to the member."""
    if owned is None:
        return False
    return all(
        topic_id in member.assigned and partition in member.assigned[topic_id]
        for topic_id, partitions in owned.items()
        for partition in partitions
    )
