"""Members of the classic protocol in a consumer group: they join, sync and send heartbeats.

Source: `GroupMetadataManager.classicGroupJoinToConsumerGroup`, `classicGroupSyncToConsumerGroup`,
`classicGroupHeartbeatToConsumerGroup` in Kafka; KIP-848. The coordinator assigns; so nobody waits,
nobody leads, and the generation is the member's epoch. Each join is a step towards the target, like
a heartbeat of the others that says what the member owns; a sync tells what is assigned. Where there
is a next step to take, heartbeats say 27, and the member has its rebalance time-out to join again;
after a join it has as long to sync.
"""

import base64
from typing import NamedTuple

from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core.errors import Error
from brokertwin.state.core.group_records import ClassicMemberMetadata
from brokertwin.state.core.wire.generated.join_group import JoinGroupResponse
from brokertwin.state.core.wire.generated.sync_group import SyncGroupResponse
from brokertwin.state.core.wire.primitives import MalformedError
from brokertwin.state.groups import consumer_protocol, conversion, groups
from brokertwin.state.groups.assignments import Target
from brokertwin.state.groups.classic_group import CONSUMER, Wish
from brokertwin.state.groups.consumer_coordinator import (
    ConsumerCoordinator,
    Said,
    expect_session,
)
from brokertwin.state.groups.consumer_group import ConsumerGroup, ConsumerMember, MemberState
from brokertwin.state.groups.regex_resolution import Denied


class Joining(NamedTuple):
    """Who joins, and how: what a JoinGroup says.

    Attributes:
        member_id: its id, drawn where the request has none.
        has_id: whether the request has one.
        group_instance_id: of a static member.
        protocol_type: the kind of its group.
        wish: its protocols and time-outs.
        client_id: of the request.
        client_host: of the connection.
        needs_id: whether it gets its id first, and comes back with it.
        denied: which topics it may not describe.
    """

    member_id: str
    has_id: bool
    group_instance_id: str | None
    protocol_type: str
    wish: Wish
    client_id: str
    client_host: str
    needs_id: bool
    denied: Denied


class Join:
    """One join to one consumer group that has members.

    Attributes:
        coordinator: the group's; its records are to be written.
    """

    def __init__(self, broker: Broker, group: ConsumerGroup, joining: Joining) -> None:
        self._broker = broker
        self._group = group
        self._joining = joining
        self.coordinator = ConsumerCoordinator(broker, group)

    def answer(self) -> JoinGroupResponse | Error:
        """What the member is told; with 79 it gets its id, other errors name no member."""
        joining, wish = self._joining, self._joining.wish
        error = self._refusal()
        if error is not Error.NONE:
            return error
        if joining.needs_id:
            error = Error.MEMBER_ID_REQUIRED
            return JoinGroupResponse(error_code=error, member_id=joining.member_id)
        before = self._member()
        if isinstance(before, Error):
            return before
        try:
            metadata = base64.b64decode(wish.protocols[0][1])
            said = self._said(consumer_protocol.subscription_of(metadata))
        except MalformedError:
            return Error.UNKNOWN_SERVER_ERROR
        return JoinGroupResponse(
            generation_id=self._step(before, said).member_epoch,
            protocol_type=CONSUMER,
            protocol_name=wish.protocols[0][0],
            member_id=joining.member_id,
        )

    def _refusal(self) -> Error:
        joining, group = self._joining, self._group
        if conversion.policy(self._broker) == conversion.DISABLED:
            return Error.INCONSISTENT_GROUP_PROTOCOL
        is_full = len(group.members) >= self._broker.settings.group_consumer_max_size
        if is_full and joining.member_id not in group.members:
            return Error.GROUP_MAX_SIZE_REACHED
        names = [name for name, _ in joining.wish.protocols]
        if not group.supports(joining.protocol_type, names):
            return Error.INCONSISTENT_GROUP_PROTOCOL
        return Error.NONE

    def _member(self) -> ConsumerMember | Error:
        """Who joins: a member, a static one in its former place, or somebody new."""
        joining, group = self._joining, self._group
        if joining.group_instance_id is None:
            return group.members.get(joining.member_id) or ConsumerMember(joining.member_id)
        static = group.static_member(joining.group_instance_id)
        if not joining.has_id:
            if static is None:
                return ConsumerMember(joining.member_id)
            return self.coordinator.replace(static, joining.member_id)
        error = group.member_error(joining.member_id, joining.group_instance_id)
        return error if static is None or error is not Error.NONE else static

    def _said(self, subscription: consumer_protocol.Subscription) -> Said:
        joining, wish = self._joining, self._joining.wish
        return Said(
            member_id=joining.member_id,
            member_epoch=-1,
            instance_id=joining.group_instance_id,
            rack_id=subscription.rack_id or None,
            rebalance_timeout_ms=wish.rebalance_timeout_ms,
            topic_names=subscription.topics,
            topic_regex="",
            server_assignor=None,
            owned=conversion.by_id(self._broker, subscription.owned),
            client_id=joining.client_id,
            client_host=joining.client_host,
            denied=joining.denied,
            classic=ClassicMemberMetadata(wish.session_timeout_ms, wish.protocols),
        )

    def _step(self, before: ConsumerMember, said: Said) -> ConsumerMember:
        """The member's next step, in a group that stays or that becomes classic by it."""
        group, coordinator = self._group, self.coordinator
        replaced = group.static_member(said.instance_id)
        if replaced is not None and conversion.may_downgrade_without(self._broker, group, replaced):
            return self._downgrade(before, said)
        after = coordinator.join(before, said)
        timeout = self._joining.wish.rebalance_timeout_ms
        _set_timer(self._broker, group, groups.rejoin(after.member_id), None)
        expect_session(self._broker, group.group_id, after)
        deadline = self._broker.now + timeout
        _set_timer(self._broker, group, groups.resync(after.member_id), deadline)
        return after

    def _downgrade(self, before: ConsumerMember, said: Said) -> ConsumerMember:
        """The last consumer of KIP-848 comes back with the classic protocol."""
        group, coordinator = self._group, self.coordinator
        change = coordinator.update(before, said)
        after = change.after
        is_stale = group.assignment_epoch < change.group.number
        if not is_stale:
            target = group.target_of(after)
            after = coordinator.reconcile(change, group.assignment_epoch, target)
        into = conversion.Change(frozenset(), after)
        coordinator.downgrade(into, is_rebalanced=is_stale)
        return after


def heartbeat(
    broker: Broker, group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int
) -> Error:
    """A classic member is there: 25, 82, 22, 27 where it is to join again, or NONE."""
    member = _classic_member(group, member_id, instance_id, generation)
    if isinstance(member, Error):
        return member
    expect_session(broker, group.group_id, member)
    is_behind = member.member_epoch < group.assignment_epoch
    is_revoking = member.state is MemberState.UNREVOKED_PARTITIONS
    if not (is_behind or is_revoking or _may_get_more(group, member)):
        return Error.NONE
    _expect_join(broker, group, member)
    return Error.REBALANCE_IN_PROGRESS


class Sync(NamedTuple):
    """What a SyncGroup says; protocol type and name are null in old versions."""

    member_id: str
    group_instance_id: str | None
    generation: int
    protocol_type: str | None
    protocol_name: str | None


def sync(broker: Broker, group: ConsumerGroup, said: Sync) -> SyncGroupResponse:
    """Tells a classic member what it is assigned."""
    member = _classic_member(group, said.member_id, said.group_instance_id, said.generation)
    if isinstance(member, Error):
        return SyncGroupResponse(error_code=member)
    name, metadata = member.classic_protocols()[0]
    if said.protocol_type not in (None, CONSUMER) or said.protocol_name not in (None, name):
        return SyncGroupResponse(error_code=Error.INCONSISTENT_GROUP_PROTOCOL)
    is_revoking = member.state is MemberState.UNREVOKED_PARTITIONS
    if group.assignment_epoch > member.member_epoch and not is_revoking:
        _expect_join(broker, group, member)
        return SyncGroupResponse(error_code=Error.REBALANCE_IN_PROGRESS)
    _set_timer(broker, group, groups.resync(member.member_id), None)
    expect_session(broker, group.group_id, member)
    assigned: Target = {topic_id: list(parts) for topic_id, parts in member.assigned.items()}
    return SyncGroupResponse(
        protocol_type=said.protocol_type,
        protocol_name=said.protocol_name,
        assignment=conversion.assignment_text(broker, assigned, base64.b64decode(metadata)),
    )


def _classic_member(
    group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int
) -> ConsumerMember | Error:
    """The member of a request, or why it is none: 25, 82, 22."""
    error = group.member_error(member_id, instance_id)
    if error is not Error.NONE:
        return error
    member = group.members[member_id]
    if not member.uses_classic_protocol:
        return Error.UNKNOWN_MEMBER_ID
    return member if member.member_epoch == generation else Error.ILLEGAL_GENERATION


def _may_get_more(group: ConsumerGroup, member: ConsumerMember) -> bool:
    """Whether nobody has any more what the member is still to get."""
    if member.state is not MemberState.UNRELEASED_PARTITIONS:
        return False
    return not any(
        partition not in member.assigned.get(topic_id, {}) and group.has_owner(topic_id, partition)
        for topic_id, partitions in group.target.get(member.member_id, {}).items()
        for partition in partitions
    )


def _expect_join(broker: Broker, group: ConsumerGroup, member: ConsumerMember) -> None:
    """Gives a member its rebalance time-out to join again; the first 27 begins it."""
    timer = groups.rejoin(member.member_id)
    if not groups.is_timed(broker.tables, broker.id, group.group_id, timer):
        _set_timer(broker, group, timer, broker.now + member.rebalance_timeout_ms)


def _set_timer(broker: Broker, group: ConsumerGroup, timer: str, deadline: int | None) -> None:
    groups.set_timer(broker.tables, broker.id, group.group_id, timer, deadline)
