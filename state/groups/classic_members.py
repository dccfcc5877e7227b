"""Members of the classic protocol in a consumer group.

Source: `GroupMetadataManager.classicGroupJoinToConsumerGroup`, `classicGroupSyncToConsumerGroup`,
`classicGroupHeartbeatToConsumerGroup` in Kafka; KIP-848. The coordinator computes the assignment.
So no request stays pending, there is no leader, and the generation is the member's epoch.

    JoinGroup   one reconciliation step, like a heartbeat with owned partitions
    SyncGroup   returns the assignment
    Heartbeat   27 REBALANCE_IN_PROGRESS if another step is possible

After that error the member has its rebalance timeout to rejoin, and after the join the same time to
sync.
"""

import base64
from typing import NamedTuple

from brokertwin.protocol.errors import Error
from brokertwin.protocol.generated.join_group import JoinGroupResponse
from brokertwin.protocol.generated.sync_group import SyncGroupResponse
from brokertwin.protocol.primitives import MalformedError
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.groups import consumer_protocol, conversion, groups
from brokertwin.state.groups.assignments import Target
from brokertwin.state.groups.classic_group import CONSUMER, JoinParameters
from brokertwin.state.groups.consumer_coordinator import (
    ConsumerGroupCoordinator,
    ConsumerHeartbeat,
    restart_session_timer,
)
from brokertwin.state.groups.consumer_group import (
    ConsumerGroup,
    ConsumerMember,
    ConsumerMemberState,
    classic_metadata,
)
from brokertwin.state.groups.regex_resolution import Denied


class Joining(NamedTuple):
    """The content of a JoinGroup.

    Attributes:
        member_id: the member id, generated if the request has none.
        has_id: whether the request has a member id.
        group_instance_id: instance id of a static member.
        protocol_type: the protocol type of its group.
        parameters: its protocols and timeouts.
        client_id: client id of the request.
        client_host: address of the connection.
        needs_id: whether the member must join again with the generated id.
        denied: returns the topics that it may not describe.
    """

    member_id: str
    has_id: bool
    group_instance_id: str | None
    protocol_type: str
    parameters: JoinParameters
    client_id: str
    client_host: str
    needs_id: bool
    denied: Denied


class Join:
    """A join to a consumer group that has members.

    Attributes:
        coordinator: the group's coordinator with the records to write.
    """

    def __init__(self, broker: Broker, group: ConsumerGroup, joining: Joining) -> None:
        self._broker = broker
        self._group = group
        self._joining = joining
        self.coordinator = ConsumerGroupCoordinator(broker, group)

    def respond(self) -> JoinGroupResponse | Error:
        """Return the response or an error; 79 MEMBER_ID_REQUIRED has the id."""
        joining, parameters = self._joining, self._joining.parameters
        error = self._join_error()
        if error is not Error.NONE:
            return error
        if joining.needs_id:
            error = Error.MEMBER_ID_REQUIRED
            return JoinGroupResponse(error_code=error, member_id=joining.member_id)
        before = self._member()
        if isinstance(before, Error):
            return before
        try:
            metadata = base64.b64decode(parameters.protocols[0][1])
            heartbeat = self._heartbeat(consumer_protocol.subscription_of(metadata))
        except MalformedError:
            return Error.UNKNOWN_SERVER_ERROR
        return JoinGroupResponse(
            generation_id=self._step(before, heartbeat).member_epoch,
            protocol_type=CONSUMER,
            protocol_name=parameters.protocols[0][0],
            member_id=joining.member_id,
        )

    def _join_error(self) -> Error:
        joining, group = self._joining, self._group
        if conversion.migration_policy(self._broker) == conversion.DISABLED:
            return Error.INCONSISTENT_GROUP_PROTOCOL
        is_full = len(group.members) >= self._broker.settings.group_consumer_max_size
        if is_full and joining.member_id not in group.members:
            return Error.GROUP_MAX_SIZE_REACHED
        names = [name for name, _ in joining.parameters.protocols]
        if not group.supports(joining.protocol_type, names):
            return Error.INCONSISTENT_GROUP_PROTOCOL
        return Error.NONE

    def _member(self) -> ConsumerMember | Error:
        """Return the member: known, replaced static, or new."""
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

    def _heartbeat(self, subscription: consumer_protocol.ProtocolSubscription) -> ConsumerHeartbeat:
        joining, parameters = self._joining, self._joining.parameters
        return ConsumerHeartbeat(
            member_id=joining.member_id,
            member_epoch=-1,
            instance_id=joining.group_instance_id,
            rack_id=subscription.rack_id or None,
            rebalance_timeout_ms=parameters.rebalance_timeout_ms,
            topic_names=subscription.topics,
            topic_regex="",
            server_assignor=None,
            owned=conversion.target_by_topic_id(self._broker, subscription.owned),
            client_id=joining.client_id,
            client_host=joining.client_host,
            denied=joining.denied,
            classic=classic_metadata(parameters.session_timeout_ms, parameters.protocols),
        )

    def _step(self, before: ConsumerMember, heartbeat: ConsumerHeartbeat) -> ConsumerMember:
        """Reconcile the member; the group may become classic."""
        group, coordinator = self._group, self.coordinator
        replaced = group.static_member(heartbeat.instance_id)
        if replaced is not None and conversion.may_downgrade_without(self._broker, group, replaced):
            return self._downgrade(before, heartbeat)
        after = coordinator.join(before, heartbeat)
        timeout = self._joining.parameters.rebalance_timeout_ms
        _set_timer(self._broker, group, groups.rejoin(after.member_id), None)
        restart_session_timer(self._broker, group.group_id, after)
        deadline = self._broker.now + timeout
        _set_timer(self._broker, group, groups.resync(after.member_id), deadline)
        return after

    def _downgrade(self, before: ConsumerMember, heartbeat: ConsumerHeartbeat) -> ConsumerMember:
        """Convert the group as its last KIP-848 consumer becomes classic."""
        group, coordinator = self._group, self.coordinator
        change = coordinator.update(before, heartbeat)
        after = change.after
        is_stale = group.assignment_epoch < change.group.number
        if not is_stale:
            target = group.target_of(after)
            after = coordinator.reconcile(change, group.assignment_epoch, target)
        downgrade = conversion.Downgrade(frozenset(), after)
        coordinator.downgrade(downgrade, is_rebalanced=is_stale)
        return after


def heartbeat(
    broker: Broker, group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int
) -> Error:
    """Handle a classic member's heartbeat.

    25 UNKNOWN_MEMBER_ID, 82 FENCED_INSTANCE_ID, 22 ILLEGAL_GENERATION, 27 REBALANCE_IN_PROGRESS if
    the member must rejoin, or NONE.
    """
    member = _classic_member(group, member_id, instance_id, generation)
    if isinstance(member, Error):
        return member
    restart_session_timer(broker, group.group_id, member)
    is_stale_epoch = member.member_epoch < group.assignment_epoch
    is_revoking = member.state is ConsumerMemberState.UNREVOKED_PARTITIONS
    if not (is_stale_epoch or is_revoking or _may_get_more(group, member)):
        return Error.NONE
    _expect_join(broker, group, member)
    return Error.REBALANCE_IN_PROGRESS


class Sync(NamedTuple):
    """The content of a SyncGroup; old versions have no protocol."""

    member_id: str
    group_instance_id: str | None
    generation: int
    protocol_type: str | None
    protocol_name: str | None


def sync(broker: Broker, group: ConsumerGroup, request: Sync) -> SyncGroupResponse:
    member = _classic_member(
        group, request.member_id, request.group_instance_id, request.generation
    )
    if isinstance(member, Error):
        return SyncGroupResponse(error_code=member)
    protocol = member.classic_protocols()[0]
    if request.protocol_type not in (None, CONSUMER) or request.protocol_name not in (
        None,
        protocol.name,
    ):
        return SyncGroupResponse(error_code=Error.INCONSISTENT_GROUP_PROTOCOL)
    is_revoking = member.state is ConsumerMemberState.UNREVOKED_PARTITIONS
    if group.assignment_epoch > member.member_epoch and not is_revoking:
        _expect_join(broker, group, member)
        return SyncGroupResponse(error_code=Error.REBALANCE_IN_PROGRESS)
    _set_timer(broker, group, groups.resync(member.member_id), None)
    restart_session_timer(broker, group.group_id, member)
    assigned: Target = {topic_id: list(parts) for topic_id, parts in member.assigned.items()}
    return SyncGroupResponse(
        protocol_type=request.protocol_type,
        protocol_name=request.protocol_name,
        assignment=conversion.assignment_text(broker, assigned, protocol.metadata),
    )


def _classic_member(
    group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int
) -> ConsumerMember | Error:
    """Return the member of a request, or its error.

    Errors: 25 UNKNOWN_MEMBER_ID, 82 FENCED_INSTANCE_ID, 22 ILLEGAL_GENERATION.
    """
    error = group.member_error(member_id, instance_id)
    if error is not Error.NONE:
        return error
    member = group.members[member_id]
    if not member.uses_classic_protocol:
        return Error.UNKNOWN_MEMBER_ID
    return member if member.member_epoch == generation else Error.ILLEGAL_GENERATION


def _may_get_more(group: ConsumerGroup, member: ConsumerMember) -> bool:
    """True if all partitions the member waits for have been released."""
    if member.state is not ConsumerMemberState.UNRELEASED_PARTITIONS:
        return False
    return not any(
        partition not in member.assigned.get(topic_id, {}) and group.has_owner(topic_id, partition)
        for topic_id, partitions in group.target.get(member.member_id, {}).items()
        for partition in partitions
    )


def _expect_join(broker: Broker, group: ConsumerGroup, member: ConsumerMember) -> None:
    """Start the member's timeout to rejoin, unless it is running."""
    timer = groups.rejoin(member.member_id)
    if not groups.has_timer(broker, group.group_id, timer):
        _set_timer(broker, group, timer, broker.now + member.rebalance_timeout_ms)


def _set_timer(broker: Broker, group: ConsumerGroup, timer: str, deadline: int | None) -> None:
    groups.set_timer(broker, group.group_id, timer, deadline)
